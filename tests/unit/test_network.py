"""What all networks share, on an engine that is arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from swerve.config.toml import Builder
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, InputError, SpecError
from swerve.core.extras import optional_package
from swerve.core.system import Activations, System, Traced, WhiteBox
from swerve.core.values import Array, Image, Steering
from swerve.systems.decoders import SignalDecoder, SteeringDecoder
from swerve.systems.network import Network, Pass, concatenate_batches, join_calls
from swerve.systems.steps import Divide, Resize
from swerve.systems.torch import Torch, device_named, outputs_of


class Adding:
    """Puts out the sum of each row, and its two halves as a layer of two passes; remembers what it was fed."""

    def __init__(self, batch: int | None, lose: int = 0) -> None:
        self.batch, self.lose, self.fed = batch, lose, []

    def run(self, batch: Array) -> Mapping[str, Array]:
        self.fed.append(batch.shape)
        rows = batch.reshape(len(batch), -1).sum(axis=1)
        return {"sum": rows[: len(rows) - self.lose], "twice": np.stack([rows, 2 * rows], axis=1)}

    def layers(self) -> Sequence[str]:
        return ["halves"]

    def trace(self, batch: Array, layers: Sequence[str]) -> Pass:
        halves = batch.reshape(2 * len(batch), 1, -1).sum(axis=2, dtype=float)
        found = {"halves": Activations("dense", halves, halves[:, 0] - 1, halves[:, 0] + 1, passes=2)}
        return self.run(batch), {name: found[name] for name in layers}

    def fingerprint(self) -> str:
        return "adding"


@dataclass(frozen=True, kw_only=True)
class Fake(Network):
    fixed: int | None = None
    lose: int = 0

    @cached_property
    def engine(self) -> Adding:
        return Adding(self.fixed, self.lose)


LEFT_DEGREES = {"unit": "degrees", "positive": "left", "kind": "wheel"}
SAY = (SteeringDecoder(unit="degrees", positive="left", kind="wheel"), SignalDecoder(name="twice", output="twice", index=1))


def fake(**given) -> Fake:
    return Fake(**{"read": (), "say": SAY, **given})


def case(number: int, width: int = 2) -> Case:
    return Case(f"frame {number}", {"camera": Image(np.full((2, width, 3), number, np.uint8))})


CASES = [case(number) for number in range(7)]


def test_networks_are_white_boxes():
    assert isinstance(fake(), System)
    assert isinstance(fake(), WhiteBox)


@pytest.mark.parametrize("fixed", [None, 1, 2, 3, 7, 10])
def test_any_batch_size_says_the_same(fixed):
    system = fake(fixed=fixed)
    assert [answer[0] for answer in system(CASES)] == [Steering(12.0 * number) for number in range(7)]
    assert [answer[1].value for answer in system(CASES)] == [24.0 * number for number in range(7)]
    assert {shape[0] for shape in system.engine.fed} == {fixed or 7}


@pytest.mark.parametrize("fixed", [None, 1, 2, 3, 7, 10])
def test_padding_leaves_no_trace(fixed):
    traced = fake(fixed=fixed).trace(CASES, ["halves"])
    found = traced.layers["halves"]
    assert found.mean.tolist() == [[6.0 * number] for number in range(7) for _ in range(2)]
    assert found.low.tolist() == [6.0 * number - 1 for number in range(7) for _ in range(2)]
    assert found.high.tolist() == [6.0 * number + 1 for number in range(7) for _ in range(2)]
    assert found.passes == 2


def test_batch_is_one_pass():
    system = fake()
    system(CASES)
    system.trace(CASES, ["halves"])
    assert [shape[0] for shape in system.engine.fed] == [7, 7]


@pytest.mark.parametrize("fixed", [None, 1])
def test_outputs_may_belong_to_one_case(fixed):
    """Of cases that need not be of one size, asked one at a time."""
    system = fake(fixed=fixed, batched=False, say=(SignalDecoder(name="twice", output="twice", index=1),))
    mixed = [case(1), case(2, width=5), case(3)]
    assert [answer[0].value for answer in system(mixed)] == [24.0, 2 * 60.0, 72.0]
    assert [shape[0] for shape in system.engine.fed] == [1, 1, 1]
    assert system.trace(CASES, ["halves"]).layers["halves"].mean.tolist() == [[6.0 * n] for n in range(7) for _ in range(2)]


def test_no_cases_no_pass():
    system = fake()
    assert list(system([])) == []
    assert system.trace([], ["halves"]) == Traced([], {})
    assert system.engine.fed == []


def test_different_shapes_name_both_cases():
    with pytest.raises(InputError, match="frame 0 is 3x2x2, frame 9 is 3x2x5; add a step that resizes"):
        fake()([CASES[0], CASES[1], case(9, width=5)])
    assert len(fake(read=(Resize(width=2, height=2),))([CASES[0], case(9, width=5)])) == 2


@pytest.mark.parametrize("fixed", [None, 2])
def test_missing_rows_are_refused(fixed):
    with pytest.raises(InputError, match=r"Fake: output 'sum' has \d rows for \d inputs"):
        fake(fixed=fixed, lose=1)(CASES)


def test_single_numbers_are_no_rows():
    system = fake()
    system.engine.run = lambda batch: {"sum": np.array(3.0)}
    with pytest.raises(InputError, match="has 0 rows for 1 inputs"):
        system(CASES[:1])


def test_unknown_layers_are_refused():
    with pytest.raises(InputError, match="Fake has no layer 'half'; did you mean 'halves'"):
        fake().trace(CASES, ["half"])


def test_answers_must_be_values():
    with pytest.raises(InputError, match="Fake must return a Value"):
        fake(say=(lambda outputs, view: 3.0,))(CASES)


def test_fingerprint_follows_everything_shown():
    one = fake().fingerprint()
    assert fake().fingerprint() == one
    others = [fake(read=(Divide(255.0),)), fake(say=SAY[:1]), fake(layout="hwc"), fake(frames="stack"), fake(sensor="rear")]
    assert len({one, *(other.fingerprint() for other in others)}) == 6


def test_unknown_layout_is_refused_at_once():
    with pytest.raises(InputError, match="unknown layout 'cwh'"):
        fake(layout="cwh")


def row(mean: list[list[float]], passes: int = 1) -> Activations:
    array = np.array(mean)
    return Activations("dense", array, array.min(axis=1), array.max(axis=1), passes)


def test_calls_become_neighbouring_passes():
    whole = join_calls("x", [row([[1.0], [2.0]]), row([[3.0], [4.0]])], inputs=2)
    assert (whole.mean.tolist(), whole.low.tolist(), whole.passes) == ([[1.0], [3.0], [2.0], [4.0]], [1.0, 3.0, 2.0, 4.0], 2)


def test_batches_follow_each_other():
    whole = concatenate_batches([{"x": row([[1.0], [2.0]], 2)}, {"x": row([[3.0], [4.0]], 2)}])["x"]
    assert (whole.mean.tolist(), whole.passes) == ([[1.0], [2.0], [3.0], [4.0]], 2)


class Tiny(nn.Module):
    """A convolution and a head, in the shape that the test asks for."""

    def __init__(self, shape: str = "tensor", gain: float = 1.0) -> None:
        super().__init__()
        self.look, self.shape, self.gain = nn.Conv2d(3, 2, 2), shape, gain
        self.drop = nn.Dropout(0.9)

    def forward(self, x: torch.Tensor) -> object:
        seen = self.drop(self.gain * self.look(x).mean((2, 3)))
        return {
            "tensor": seen,
            "tuple": (seen, None, [seen + 1]),
            "dict": {"out": seen, "aux": {"deep": seen + 1}},
            "dicts": [{"boxes": seen[:1].repeat(number, 1), "scores": one[0]} for number, one in enumerate(seen)],
            "text": "seen",
        }[self.shape]


def tiny(**arguments) -> nn.Module:
    torch.manual_seed(0)
    return Tiny(**arguments)


NAMES = {"tensor": ["output"], "tuple": ["0", "2.0"], "dict": ["out", "aux.deep"]}


def torch_system(**given) -> Torch:
    say = (SteeringDecoder(unit="degrees", positive="left", kind="wheel", index=0),)
    return Torch(**{"net": tiny, "read": (Divide(255.0),), "say": say, **given})


@pytest.mark.parametrize("shape", NAMES)
def test_outputs_have_names(shape):
    engine = torch_system(arguments={"shape": shape}).engine
    found = engine.run(np.ones((4, 3, 2, 2), np.float32))
    assert {name: rows.shape for name, rows in found.items()} == dict.fromkeys(NAMES[shape], (4, 2))
    assert list(engine.trace(np.ones((4, 3, 2, 2), np.float32), ["look"])[0]) == NAMES[shape]


def test_detectors_say_a_dict_per_input():
    found = torch_system(arguments={"shape": "dicts"}).engine.run(np.ones((3, 3, 2, 2), np.float32))
    assert [rows.shape for rows in found["boxes"]] == [(0, 2), (1, 2), (2, 2)]
    assert torch_system(arguments={"shape": "dicts"}, say=(SignalDecoder(name="score", output="scores"),))(CASES[:3])


def test_other_outputs_are_refused():
    with pytest.raises(InputError, match="must return tensors, got str"):
        torch_system(arguments={"shape": "text"})(CASES)


def test_torch_answers_in_evaluation_mode():
    system = torch_system()
    assert list(system(CASES)) == list(system(CASES))
    system.engine.net.train()
    assert list(system.trace(CASES, ["look"]).answers) == list(system(CASES))


def test_bytes_are_taken_as_numbers():
    assert torch_system(read=())(CASES)[1] != torch_system()(CASES)[1]


def test_double_weights_become_single():
    net = torch_system(net=lambda: tiny().double()).engine.net
    assert {weight.dtype for weight in net.parameters()} == {torch.float32}


def test_torch_fingerprint_follows_weights():
    one = torch_system().fingerprint()
    assert torch_system().fingerprint() == one == torch_system(device="cpu").fingerprint()
    assert torch_system(arguments={"gain": 2.0}).fingerprint() != one
    other = Tiny()
    assert torch_system(net=lambda: other).fingerprint() != one


def test_random_weights_are_refused():
    with pytest.raises(InputError, match="random weights, others each time: set 'weights' to the file of trained ones"):
        torch_system(net=lambda: Tiny())


@pytest.mark.parametrize(
    ("device", "told"),
    [("gpu", "unknown device 'gpu'"), ("cuda", "not available on this machine"), ("mps", "not available")],
)
def test_devices_are_checked(device, told, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InputError, match=told):
        device_named(device)
    assert device_named("auto").type == "cpu"


def test_fastest_device_comes_first(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert (device_named("auto").type, device_named("cpu").type) == ("cuda", "cpu")


def test_factory_must_make_a_module():
    with pytest.raises(InputError, match="must return a torch module, got int"):
        torch_system(net=lambda: 3)


def test_outputs_of_nothing_are_nothing():
    assert outputs_of(None, 1) == {}


def test_toml_makes_a_network():
    table = {
        "use": "swerve.systems.torch:Torch",
        "net": "tests.unit.test_network:tiny",
        "arguments": {"gain": 0.5},
        "read": [{"use": "swerve.systems.steps:Divide", "by": 255.0}],
        "say": [{"use": "swerve.systems.decoders:SteeringDecoder", "index": 0, **LEFT_DEGREES}],
    }
    made = Builder(base=Path()).component(table)
    assert made(CASES) == torch_system(arguments={"gain": 0.5})(CASES)
    with pytest.raises(SpecError, match="no class or function 'tony'"):
        Builder(base=Path()).component({**table, "net": "tests.unit.test_network:tony"})


def test_missing_packages_are_told():
    with pytest.raises(EnvironmentFault, match=r"the package 'onnxruntime_of_old' is missing; pip install 'swerve\[onnx\]'"):
        optional_package("onnxruntime_of_old", "onnx")
