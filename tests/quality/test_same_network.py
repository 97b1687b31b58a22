"""One network written three ways, with the same weights: torch, ONNX and Keras say the same, and look the same inside."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from swerve.core.case import Case
from swerve.core.system import Activations
from swerve.core.values import Array, Image
from swerve.coverage.layers import DEFAULT
from swerve.systems.decoders import SignalDecoder, SteeringDecoder
from swerve.systems.keras import Keras, KerasEngine
from swerve.systems.keras_structure import keras_library
from swerve.systems.network import INPUT, Engine
from swerve.systems.onnx import Onnx, OnnxEngine
from swerve.systems.steps import Divide
from swerve.systems.torch import Torch, TorchEngine

CLOSE = 1e-5
CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")


class Steered(nn.Module):
    """Convolutions with and without normalisation, pooling, a dense layer, and two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, eps=1e-3), nn.Conv2d(4, 5, 3)
        self.dense, self.turn, self.speed = nn.Linear(5 * 5 * 5, 8), nn.Linear(8, 1), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = functional.max_pool2d(functional.relu(self.norm(self.first(x))), 2)
        x = functional.elu(self.second(x)).flatten(1)
        x = functional.silu(self.dense(x))
        return torch.tanh(self.turn(x)), self.speed(x)


class Dropping(Steered):
    """The same with dropout in training, which exports leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.lose = nn.Dropout2d(0.3), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = functional.max_pool2d(self.drop(functional.relu(self.norm(self.first(x)))), 2)
        x = functional.elu(self.second(x)).flatten(1)
        x = self.lose(functional.silu(self.dense(x)))
        return torch.tanh(self.turn(x)), self.speed(x)


class ChannelsLast(nn.Module):
    """A network of pictures as rows x columns x channels; windows become as many pictures."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        said = torch.cat(self.net(x.flatten(0, -4).permute(0, 3, 1, 2)), 1)
        return said.reshape(x.shape[0], -1)


class Remembered(nn.Module):
    """A dense layer on every step, a memory, and a head on its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.see, self.keep, self.turn = nn.Linear(6, 5), nn.LSTM(5, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.turn(self.keep(torch.relu(self.see(x)))[0][:, -1]))


def randomly(net: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for tensor in net.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.4)
        if isinstance(net, Steered):
            net.norm.running_var.abs_().add_(0.1)
    return net.eval()


def steered() -> nn.Module:
    return randomly(Steered())


def dropping() -> nn.Module:
    return randomly(Dropping())


def channels_last() -> nn.Module:
    return ChannelsLast(steered()).eval()


def remembered() -> nn.Module:
    return randomly(Remembered())


def exported(net: nn.Module, example: torch.Tensor, path: Path, *, fold: bool) -> Path:
    kept = {} if fold else {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    axes = {"x": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter is an old one, which is what many files were made with
        torch.onnx.export(net, (example,), path, dynamo=False, input_names=["x"], dynamic_axes=axes, verbose=False, **kept)
    return path


def numbers(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy()


def kernel(layer: nn.Module) -> list[Array]:
    weight = numbers(layer.weight)
    return [weight.transpose(2, 3, 1, 0) if weight.ndim == 4 else weight.T, numbers(layer.bias)]


def in_keras(*, drops: bool = False):
    """The first network in Keras: rows x columns x channels, so that flat things come in another order."""
    keras, net = keras_library(), steered()
    layers = keras.layers
    x = picture = keras.Input((16, 16, 3))
    x = layers.Conv2D(4, 3, name="first")(x)
    x = layers.ReLU()(layers.BatchNormalization(name="norm")(x))
    x = layers.MaxPooling2D(2)(layers.SpatialDropout2D(0.3, name="drop")(x) if drops else x)
    x = layers.Flatten()(layers.ELU()(layers.Conv2D(5, 3, name="second")(x)))
    x = layers.Dense(8, activation="silu", name="dense")(x)
    x = layers.Dropout(0.5, name="lose")(x) if drops else x
    turn = layers.Activation("tanh", name="turned")(layers.Dense(1, name="turn")(x))
    model = keras.Model(picture, [turn, layers.Dense(2, name="speed")(x)])
    for name in ("first", "second", "turn", "speed"):
        model.get_layer(name).set_weights(kernel(getattr(net, name)))
    rows = numbers(net.dense.weight).reshape(8, 5, 5, 5).transpose(2, 3, 1, 0).reshape(-1, 8)
    model.get_layer("dense").set_weights([rows, numbers(net.dense.bias)])
    norm = net.norm
    model.get_layer("norm").set_weights([numbers(t) for t in (norm.weight, norm.bias, norm.running_mean, norm.running_var)])
    return model


def memory_in_keras():
    keras, net = keras_library(), remembered()
    layers = keras.layers
    x = steps = keras.Input((7, 6))
    x = layers.TimeDistributed(layers.Dense(5, name="see"))(x)
    x = layers.LSTM(4, name="keep")(layers.Activation("relu")(x))
    model = keras.Model(steps, layers.Dense(1, activation="tanh", name="turn")(x))
    model.layers[1].set_weights(kernel(net.see))
    model.get_layer("turn").set_weights(kernel(net.turn))
    keep = net.keep
    weights = [numbers(keep.weight_ih_l0).T, numbers(keep.weight_hh_l0).T, numbers(keep.bias_ih_l0 + keep.bias_hh_l0)]
    model.get_layer("keep").set_weights(weights)
    return model


@pytest.fixture(scope="module")
def pictures() -> Array:
    return np.random.default_rng(3).random((5, 3, 16, 16), np.float32)


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory: pytest.TempPathFactory, pictures: Array) -> Callable[[bool], Path]:
    folder = tmp_path_factory.mktemp("onnx")
    example = torch.from_numpy(pictures[:2])
    return lambda fold: exported(steered(), example, folder / f"{fold}.onnx", fold=fold)


def same(one: Activations, other: Activations) -> None:
    assert (one.kind, one.passes, one.activated) == (other.kind, other.passes, other.activated)
    for what in ("mean", "low", "high"):
        np.testing.assert_allclose(getattr(one, what), getattr(other, what), atol=CLOSE, rtol=CLOSE)


def alike(one: Engine, other: Engine, first: Array, second: Array, layers: dict[str, str] | None = None) -> None:
    """Both put out the same, and every layer of the first is as that of the second under the same or another name."""
    said, seen = one.trace(first, one.layers())
    told, looked = other.trace(second, other.layers())
    for row, again in zip(said.values(), told.values(), strict=True):
        np.testing.assert_allclose(row, again, atol=CLOSE, rtol=CLOSE)
    assert [(layers or {}).get(name, name) for name in seen] == list(looked)
    for part, again in zip(seen.values(), looked.values(), strict=True):
        same(part, again)


class Residual(nn.Module):
    """A block whose second convolution is added to a shortcut before anything bends, and a head of two numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.shortcut, self.norm, self.head = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, eps=1e-3), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        x = self.second(torch.relu(self.norm(self.first(x)))) + self.shortcut(x)
        return self.head(torch.relu(x).mean((2, 3)))


def residual() -> nn.Module:
    net = Residual()
    nn.init.uniform_(net.norm.running_mean, -0.1, 0.1)
    return net.eval()


def residual_in_keras():
    layers = keras_library().layers
    x = picture = keras_library().Input((16, 16, 3))
    stem = layers.Conv2D(4, 3, activation="relu", name="stem")(x)
    x = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(4, 1, name="first")(stem)))
    x = layers.Add()([layers.Conv2D(4, 1, name="second")(x), layers.Conv2D(4, 1, name="shortcut")(stem)])
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(x))
    return keras_library().Model(picture, layers.Dense(2, name="head")(x))


@pytest.mark.parametrize("framework", ["torch", "onnx", "onnx, folded", "keras"])
def test_layers_without_an_activation_are_known(tmp_path: Path, pictures: Array, framework: str) -> None:
    if framework == "torch":
        engine: Engine = TorchEngine(residual(), CPU)
    elif framework == "keras":
        engine, pictures = KerasEngine(residual_in_keras()), pictures.transpose(0, 2, 3, 1)
    else:
        example = torch.from_numpy(pictures[:2])
        engine = OnnxEngine(exported(residual(), example, tmp_path / "x.onnx", fold=framework != "onnx"))
    found = {name: part.activated for name, part in engine.trace(pictures, engine.layers())[1].items()}
    assert found == {INPUT: None, "stem": True, "first": True, "second": False, "shortcut": False, "head": False}


@pytest.mark.parametrize("fold", [True, False])
def test_onnx_looks_as_torch(onnx_file: Callable[[bool], Path], pictures: Array, fold: bool) -> None:
    alike(TorchEngine(steered(), CPU), OnnxEngine(onnx_file(fold)), pictures, pictures)


def test_keras_looks_as_torch(pictures: Array) -> None:
    alike(TorchEngine(steered(), CPU), KerasEngine(in_keras()), pictures, pictures.transpose(0, 2, 3, 1))


def counted(engine: Engine, batch: Array) -> dict[str, Activations]:
    """What coverage counts unless it is told otherwise."""
    return {name: part for name, part in engine.trace(batch, engine.layers())[1].items() if DEFAULT.takes(part)}


def test_dropout_is_not_counted(tmp_path: Path, pictures: Array) -> None:
    last = pictures.transpose(0, 2, 3, 1)
    path = exported(dropping(), torch.from_numpy(pictures[:2]), tmp_path / "drops.onnx", fold=True)
    engines = [
        (TorchEngine(dropping(), CPU), pictures),
        (OnnxEngine(path), pictures),
        (KerasEngine(in_keras(drops=True)), last),
    ]
    assert [{"drop", "lose"} <= set(engine.layers()) for engine, _ in engines] == [True, False, True]
    first, *others = (counted(engine, batch) for engine, batch in engines)
    assert list(first) == ["first", "second", "dense", "speed"]
    for other in others:
        assert list(other) == list(first)
        for name, part in first.items():
            same(part, other[name])


@pytest.mark.parametrize("frames", [0, 3])
def test_channels_may_come_last(tmp_path: Path, pictures: Array, frames: int) -> None:
    last = pictures.transpose(0, 2, 3, 1)
    shown = np.stack([np.roll(last, number, axis=0) for number in range(frames)], axis=1) if frames else last
    path = exported(channels_last(), torch.from_numpy(shown[:2]), tmp_path / "last.onnx", fold=True)
    engines = [TorchEngine(channels_last(), CPU, "hwc"), OnnxEngine(path, layout="hwc")]
    alike(*engines, shown, shown)
    seen = engines[0].trace(shown, [INPUT])[1][INPUT]
    assert seen.mean.shape == (len(shown) * max(1, frames), 3)
    if not frames:
        same(seen, KerasEngine(in_keras()).trace(shown, [INPUT])[1][INPUT])
        same(seen, TorchEngine(steered(), CPU).trace(pictures, [INPUT])[1][INPUT])


def test_keras_may_turn_what_it_is_shown(pictures: Array) -> None:
    keras = keras_library()
    front = keras.Sequential([keras.Input((3, 16, 16)), keras.layers.Permute((2, 3, 1)), keras.layers.Conv2D(2, 3)])
    seen = KerasEngine(front, layout="chw").trace(pictures, [INPUT])[1][INPUT]
    same(seen, TorchEngine(steered(), CPU).trace(pictures, [INPUT])[1][INPUT])


def test_memories_look_alike(tmp_path: Path) -> None:
    steps = np.random.default_rng(4).normal(size=(3, 7, 6)).astype(np.float32)
    torch_engine = TorchEngine(remembered(), CPU)
    path = exported(remembered(), torch.from_numpy(steps[:2]), tmp_path / "memory.onnx", fold=True)
    alike(torch_engine, OnnxEngine(path), steps, steps)
    keras_engine = KerasEngine(memory_in_keras())
    said, seen = torch_engine.trace(steps, ["keep", "turn"])
    told, looked = keras_engine.trace(steps, ["keep", "turn"])
    np.testing.assert_allclose(next(iter(said.values())), next(iter(told.values())), atol=CLOSE)
    for name in ("keep", "turn"):
        same(seen[name], looked[name])


def test_other_weights_look_otherwise(onnx_file: Callable[[bool], Path], pictures: Array) -> None:
    net = steered()
    with torch.no_grad():
        net.second.bias[2] += 1e-3
    with pytest.raises(AssertionError):
        alike(TorchEngine(net, CPU), OnnxEngine(onnx_file(True)), pictures, pictures)


def test_other_order_looks_otherwise(pictures: Array) -> None:
    with pytest.raises(AssertionError):
        alike(TorchEngine(steered(), CPU), KerasEngine(in_keras()), pictures, pictures.transpose(0, 3, 2, 1))


def test_systems_give_the_same_answers(onnx_file: Callable[[bool], Path]) -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (4, 16, 16, 3), dtype=np.uint8)
    cases = [Case(str(number), {"camera": Image(frame)}) for number, frame in enumerate(pixels)]
    say = (SteeringDecoder(unit="radians", positive="left", kind="wheel"), SignalDecoder(name="speed", output=1, index=1))
    shared = {"read": (Divide(255.0),), "say": say}
    systems = [Torch(net=steered, **shared), Onnx(model=onnx_file(True), **shared), Keras(net=in_keras, **shared)]
    turned, fast = zip(
        *([[a[0].degrees for a in said], [a[1].value for a in said]] for said in (s(cases) for s in systems)), strict=True
    )
    assert np.ptp(turned, axis=0).max() < 180 / np.pi * CLOSE
    assert np.ptp(fast, axis=0).max() < CLOSE
    assert np.ptp(turned, axis=1).min() > 1  # and they do say something
    assert len({system.fingerprint() for system in systems}) == 3
    assert all(system.layers()[0] == INPUT for system in systems)
