"""Several threads that use one network at a time: each sees what it would see alone, and the network is left unchanged."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

from swerve.core.case import Case
from swerve.core.system import Activations
from swerve.core.values import Array, Image, Steering
from swerve.systems.keras import KerasEngine
from swerve.systems.keras_structure import keras_library
from swerve.systems.network import Engine, Rows
from swerve.systems.onnx import OnnxEngine
from swerve.systems.probe import hooked
from swerve.systems.torch import TorchEngine, TorchSystem
from swerve.testing import FakeSource
from tests.unit.test_onnx import small as small_onnx

ROUNDS = 25
T = TypeVar("T")
Seen = tuple[dict[str, list[Any]], dict[str, list[list[Any]]]]
keras = keras_library()
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Threads change places as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*works: Callable[[], T]) -> list[list[T]]:
    """What each of the works returns in `ROUNDS` rounds, all of them at the same time, each in its own thread."""
    results: list[list[T]] = [[] for _ in works]
    raised: list[BaseException] = []
    start = threading.Barrier(len(works))

    def rounds(work: Callable[[], T], into: list[T]) -> None:
        try:
            for _ in range(ROUNDS):
                start.wait()
                into.append(work())
        except BaseException as error:
            raised.append(error)
            start.abort()

    threads = [threading.Thread(target=rounds, args=pair) for pair in zip(works, results, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors := [error for error in raised if not isinstance(error, threading.BrokenBarrierError)]:
        raise errors[0]
    return results


class Pause(nn.Module):
    """Lets other threads go on in the middle of a pass."""

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(0.0005)
        return x


class Pausing(keras.layers.Layer):  # type: ignore[name-defined,misc]
    """The same in Keras."""

    def call(self, x: Any) -> Any:
        time.sleep(0.0005)
        return x


class Recall(nn.Module):
    """The last output of a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.keep = nn.LSTM(6, 5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        said: Tensor = self.keep(x.flatten(2).transpose(1, 2)[..., :6])[0][:, -1]
        return said


def net() -> nn.Module:
    torch.manual_seed(1)
    look = (nn.Conv2d(3, 4, 3), Pause(), nn.ReLU(), nn.Conv2d(4, 6, 3), Pause(), nn.ELU())
    return nn.Sequential(
        *look, Recall(), Pause(), nn.Linear(5, 3), nn.Tanh(), Pause(), nn.Dropout(0.5), nn.Linear(3, 1)
    ).eval()


def torch_engine(folder: Path) -> Engine:
    return TorchEngine(net(), torch.device("cpu"))


def keras_engine(folder: Path) -> Engine:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    look = [layers.Conv2D(4, 3), Pausing(), layers.ReLU(), layers.Conv2D(6, 3), Pausing(), layers.Activation("elu")]
    keep = [layers.Reshape((16, 6)), layers.LSTM(5), Pausing(), layers.Dense(3), layers.Activation("tanh"), Pausing()]
    return KerasEngine(keras.Sequential([keras.Input((8, 8, 3)), *look, *keep, layers.Dropout(0.5), layers.Dense(1)]))


def onnx_engine(folder: Path) -> Engine:
    onnx.save(small_onnx(), folder / "small.onnx")
    return OnnxEngine(folder / "small.onnx")


ENGINES = {"torch": torch_engine, "keras": keras_engine, "onnx": onnx_engine}


def pictures(kind: str, number: int) -> Array:
    shape = (2, 8, 8, 3) if kind == "keras" else (2, 3, 8, 8)
    return np.random.default_rng(number).normal(size=shape).astype(np.float32)


def plain(outputs: Mapping[str, Rows], layers: Mapping[str, Activations]) -> Seen:
    said = {name: np.asarray(rows).tolist() for name, rows in outputs.items()}
    return said, {
        name: [getattr(found, part).tolist() for part in ("mean", "low", "high")] for name, found in layers.items()
    }


def tracing(engine: Engine, batch: Array, layers: Sequence[str] | None = None) -> Callable[[], Seen]:
    wanted = engine.layers() if layers is None else layers
    return lambda: plain(*engine.trace(batch, wanted))


def running(engine: Engine, batch: Array) -> Callable[[], Seen]:
    return lambda: plain(engine.run(batch), {})


def check_alone(works: Sequence[Callable[[], Seen]], alone: Sequence[Seen]) -> None:
    wrong = [sum(one != wanted for one in found) for found, wanted in zip(together(*works), alone, strict=True)]
    assert wrong == [0] * len(works)


@pytest.mark.parametrize("kind", ENGINES)
def test_threads_trace_as_if_alone(tmp_path: Path, kind: str) -> None:
    engine = ENGINES[kind](tmp_path)
    works = [tracing(engine, pictures(kind, number)) for number in range(3)]
    alone = [work() for work in works]
    assert len(engine.layers()) >= 2
    assert all(len({str(seen[name]) for _, seen in alone}) == 3 for name in engine.layers())
    check_alone(works, alone)


@pytest.mark.parametrize("kind", ENGINES)
def test_threads_trace_other_layers_each(tmp_path: Path, kind: str) -> None:
    engine = ENGINES[kind](tmp_path)
    names = engine.layers()
    works = [tracing(engine, pictures(kind, number), layers) for number, layers in enumerate((names[:1], names[1:], names))]
    check_alone(works, [work() for work in works])


@pytest.mark.parametrize("kind", ENGINES)
def test_passes_beside_a_trace_are_not_seen_by_it(tmp_path: Path, kind: str) -> None:
    engine = ENGINES[kind](tmp_path)
    works = [tracing(engine, pictures(kind, 0)), running(engine, pictures(kind, 1)), running(engine, pictures(kind, 2))]
    check_alone(works, [work() for work in works])


def read(case: Case) -> Tensor:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return torch.tensor(image.pixels / 255, dtype=torch.float32).permute(2, 0, 1)


def test_threads_share_one_system() -> None:
    system, source = TorchSystem(net(), read, lambda row: Steering(row.item())), FakeSource(3, width=8, height=8)

    def trace(case: Case) -> Seen:
        traced = system.trace([case], system.layers())
        return plain({"said": np.array([value.degrees for (value,) in traced.answers])}, traced.layers)  # type: ignore[attr-defined]

    works = [partial(trace, source[key]) for key in source.keys()]
    check_alone(works, [work() for work in works])


def test_gradients_at_a_layer_are_those_of_the_own_pass() -> None:
    """As a heat map needs them: the output of a layer is caught by a hook, and the gradient taken there."""
    model = net()

    def gradient(number: int) -> Seen:
        caught: list[Tensor] = []
        batch = torch.tensor(pictures("torch", number))
        with hooked([(model[3], lambda module, inputs, output: caught.append(output))]):  # type: ignore[index]
            said = model(batch)
        (features,) = caught
        (found,) = torch.autograd.grad(said.sum(), features)
        return {"features": features.tolist(), "gradient": found.tolist()}, {}

    works = [partial(gradient, number) for number in range(3)]
    check_alone(works, [work() for work in works])
    assert wrappers_of(model) == 0


@pytest.mark.parametrize("kind", ["torch", "keras"])
def test_gradients_beside_a_trace_disturb_neither(tmp_path: Path, kind: str) -> None:
    engine = ENGINES[kind](tmp_path)
    model = engine.net if isinstance(engine, TorchEngine) else engine.model  # type: ignore[attr-defined]

    def gradient() -> Seen:
        batch = torch.tensor(pictures(kind, 5), requires_grad=True)
        (found,) = torch.autograd.grad(model(batch).sum(), batch)
        return {"gradient": found.tolist()}, {}

    works: list[Callable[[], Seen]] = [tracing(engine, pictures(kind, 0)), gradient, gradient]
    alone = [work() for work in works]
    assert np.abs(alone[1][0]["gradient"]).max() > 0
    check_alone(works, alone)


def wrappers_of(model: Any) -> int:
    """Whatever a trace might have left behind in a network."""
    hooks = sum(len(module._forward_hooks) for module in model.modules())
    return hooks + sum(name in vars(module) for module in model.modules() for name in ("call", "inner_loop"))


@pytest.mark.parametrize("kind", ["torch", "keras"])
def test_network_is_left_unchanged_by_all_threads(tmp_path: Path, kind: str) -> None:
    engine = ENGINES[kind](tmp_path)
    model = engine.net if isinstance(engine, TorchEngine) else engine.model  # type: ignore[attr-defined]

    def failing() -> Seen:
        with pytest.raises(Exception, match=r".+"):
            engine.trace(np.zeros((2, 5, 5), np.float32), engine.layers())
        return {}, {}

    before = engine.fingerprint()
    together(tracing(engine, pictures(kind, 0)), failing, tracing(engine, pictures(kind, 1)), failing)
    assert wrappers_of(model) == 0
    assert engine.fingerprint() == before


def test_session_that_looks_inside_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building it takes long, so two threads that need it at once must not build two."""
    engine = onnx_engine(tmp_path)
    assert isinstance(engine, OnnxEngine)
    built = []
    build = OnnxEngine._session

    def slowly(self: OnnxEngine, content: bytes) -> Any:
        built.append(1)
        time.sleep(0.05)
        return build(self, content)

    monkeypatch.setattr(OnnxEngine, "_session", slowly)
    together(*[tracing(engine, pictures("onnx", number)) for number in range(3)])
    assert len(built) == 1
