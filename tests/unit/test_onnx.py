"""ONNX models: what they say, how they are fed, what is seen inside, and which files are refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from swerve.config import limits
from swerve.config.toml import Builder
from swerve.core.case import Case
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.values import Array, Image
from swerve.systems.decoders import SteeringDecoder
from swerve.systems.detections import SeparateOutputs
from swerve.systems.network import INPUT
from swerve.systems.onnx import Onnx, OnnxEngine
from swerve.systems.onnx_file import providers_for
from swerve.systems.onnx_graph import taps_of
from swerve.systems.quantise import quantise_model
from swerve.systems.steps import Divide, Float
from swerve.testing.fakes import FakeSource

SAY = (SteeringDecoder(unit="degrees", positive="left", kind="wheel", index=0),)


def weights(name: str, *shape: int) -> Any:
    drawn = np.random.default_rng(list(name.encode())).normal(size=shape)
    return numpy_helper.from_array(drawn.astype(np.float32) * 0.3, name)


def constant(name: str, *numbers: float, kind: Any = np.float32) -> Any:
    return numpy_helper.from_array(np.array(numbers, kind) if len(numbers) != 1 else np.array(numbers[0], kind), name)


def node(kind: str, given: str, said: str, name: str = "", **how: Any) -> Any:
    return helper.make_node(kind, given.split(), said.split(), name=name, **how)


def model(
    nodes: Sequence[Any], held: Sequence[Any], *, shape: Sequence[Any] = ("n", 3, 8, 8), out: str = "y", **how: Any
) -> Any:
    given = helper.make_tensor_value_info("x", how.pop("dtype", TensorProto.FLOAT), shape)
    said = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in out.split()]
    graph = helper.make_graph(nodes, "made", [given], said, held)
    opsets = [helper.make_opsetid("", how.pop("opset", 17))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **how)


def written(path: Path, made: Any) -> Path:
    onnx.save(made, path)
    return path


def small(**how: Any) -> Any:
    """A convolution with a bend, and a head of one number."""
    nodes = [
        node("Conv", "x look.weight look.bias", "a", "/look/Conv"),
        node("Relu", "a", "b"),
        node("Flatten", "b", "c"),
        node("Gemm", "c head.weight head.bias", "y", "/head/Gemm"),
    ]
    held = [
        weights("look.weight", 4, 3, 3, 3),
        weights("look.bias", 4),
        weights("head.weight", 144, 1),
        weights("head.bias", 1),
    ]
    return model(nodes, held, **how)


def picture(count: int = 3, *shape: int) -> Array:
    return np.random.default_rng(2).normal(size=(count, *(shape or (3, 8, 8)))).astype(np.float32)


def values(engine: OnnxEngine, batch: Array, *names: str) -> list[Array]:
    """Any tensors of the graph, as a plain session of their own tells them."""
    made = onnx.load_model_from_string(engine.content)
    for name in names:
        made.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    session = engine._session(made.SerializeToString())
    return session.run(list(names), {"x": batch})


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., OnnxEngine]:
    return lambda *parts, **how: OnnxEngine(written(tmp_path / "made.onnx", model(*parts, **how)))


def looks(engine: OnnxEngine, layer: str, said: Array, axis: int = 1) -> None:
    """The layer's activations are those of the tensor `said`."""
    batch = picture(3, *engine.input.shape[1:])
    found = engine.trace(batch, [layer])[1][layer]
    others = tuple(n for n in range(1, said.ndim) if n != axis % said.ndim)
    np.testing.assert_allclose(found.mean, said.mean(axis=others) if others else said, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.low, said.reshape(len(said), -1).min(axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.high, said.reshape(len(said), -1).max(axis=1), rtol=1e-6)


LOOK = [weights("w", 4, 3, 3, 3), weights("b", 4)]
NORM = [weights(name, 4) for name in "ghm"] + [numpy_helper.from_array(np.full(4, 0.7, np.float32), "v")]
# What follows the convolution `a` = Conv(x), and which tensor the convolution is then said to put out.
FOLLOWED: dict[str, tuple[list[Any], str]] = {
    "nothing": ([node("ReduceMean", "a", "y", axes=[1])], "a"),
    "relu": ([node("Relu", "a", "y")], "y"),
    "leaky": ([node("LeakyRelu", "a", "y")], "y"),
    "elu": ([node("Elu", "a", "y")], "y"),
    "clip": ([node("Clip", "a zero six", "y")], "y"),
    "prelu": ([node("PRelu", "a half", "y")], "y"),
    "hard swish": ([node("HardSwish", "a", "y")], "y"),
    "normalised": ([node("BatchNormalization", "a g h m v", "n"), node("ReduceMean", "n", "y", axes=[1])], "n"),
    "normalised, then bent": ([node("BatchNormalization", "a g h m v", "n"), node("Tanh", "n", "y")], "y"),
    "pooled, then bent": ([node("MaxPool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]), node("Relu", "p", "y")], "y"),
    "pooled": ([node("MaxPool", "a", "y", kernel_shape=[2, 2], strides=[2, 2])], "a"),
    "dropped, then bent": ([node("Dropout", "a", "d"), node("Relu", "d", "y")], "y"),
    "scaled": ([node("Mul", "a half", "s"), node("Relu", "s", "y")], "a"),
    "added": ([node("Add", "a a", "s"), node("Relu", "s", "y")], "a"),
    "gated by sigmoid": ([node("Sigmoid", "a", "s"), node("Mul", "a s", "y")], "y"),
    "gated, other order": ([node("Sigmoid", "a", "s"), node("Mul", "s a", "y")], "y"),
    "sigmoid alone": ([node("Sigmoid", "a", "y"), node("Mul", "y half", "z")], "y"),
    "gelu": (
        [
            *(node("Div", "a root", "d"), node("Erf", "d", "e"), node("Add", "e one", "f")),
            *(node("Mul", "a f", "g2"), node("Mul", "g2 half", "y")),
        ],
        "y",
    ),
    "gelu, half first": (
        [
            *(node("Mul", "a half", "k"), node("Div", "a root", "d"), node("Erf", "d", "e")),
            *(node("Add", "e one", "f"), node("Mul", "k f", "y")),
        ],
        "y",
    ),
    "mish": ([node("Softplus", "a", "s"), node("Tanh", "s", "t"), node("Mul", "a t", "y")], "y"),
    "rounded, then bent": (
        [
            node("QuantizeLinear", "a step zeroes", "q"),
            node("DequantizeLinear", "q step zeroes", "d"),
            node("Relu", "d", "y"),
        ],
        "y",
    ),
}
HELD = [
    *(*LOOK, *NORM, constant("half", 0.5), constant("one", 1.0), constant("root", 1.4142135), constant("zero", 0.0)),
    *(constant("six", 0.3), constant("step", 0.01), constant("zeroes", 0, kind=np.int8)),
]


@pytest.mark.parametrize("followed", FOLLOWED)
def test_layers_say_what_follows(make, followed):
    nodes, told = FOLLOWED[followed]
    engine = make([node("Conv", "x w b", "a", "conv"), *nodes], HELD)
    assert engine.layers() == [INPUT, "conv"]
    looks(engine, "conv", values(engine, picture(3), told)[0])


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 20])
def test_flat_layers_keep_their_units(make, opset):
    engine = make([node("Conv", "x w b", "a", "conv"), node("Flatten", "a", "f"), node("Relu", "f", "y")], LOOK, opset=opset)
    looks(engine, "conv", values(engine, picture(3), "y")[0].reshape(3, 4, 6, 6))


def test_flat_pooling_ends_the_search(make):
    flat = numpy_helper.from_array(np.array([0, 1, 144]), "flat")
    nodes = [
        node("Conv", "x w b", "a", "conv"), node("Reshape", "a flat", "f"),
        node("MaxPool", "f", "p", kernel_shape=[2]), node("Relu", "p", "y"),
    ]  # fmt: skip
    engine = make(nodes, [*LOOK, flat])
    looks(engine, "conv", values(engine, picture(3), "a")[0])


def test_products_get_their_bias(make):
    nodes = [node("MatMul", "x w", "p", "/head/MatMul"), node("Add", "bias p", "a"), node("Tanh", "a", "y")]
    engine = make(nodes, [weights("w", 6, 4), weights("bias", 4)], shape=("n", 5, 6))
    assert engine.layers() == ["head"]
    looks(engine, "head", values(engine, picture(3, 5, 6), "y")[0], axis=-1)


def test_bias_alone_belongs_to_the_layer(make):
    nodes = [node("MatMul", "x w", "p", "dense"), node("Add", "p bias", "a"), node("Add", "a bias", "y")]
    engine = make(nodes, [weights("w", 6, 4), weights("bias", 4)], shape=("n", 6))
    looks(engine, "dense", values(engine, picture(3, 6), "a")[0], axis=-1)


def test_products_of_activations_are_no_layers(make):
    nodes = [node("MatMul", "x x", "a"), node("Relu", "a", "y")]
    assert make(nodes, [], shape=("n", 6, 6)).layers() == []


@pytest.mark.parametrize("told", ["y last", " last"])
def test_memories_keep_their_steps(make, told):
    held = [weights("w", 1, 12, 5), weights("r", 1, 12, 3), weights("b", 1, 24)]
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        helper.make_node("LSTM", ["t", "w", "r", "b"], told.split(" "), hidden_size=3),
    ]
    engine = make(nodes, held, shape=("n", 7, 5), out="last")
    batch = picture(4, 7, 5)
    found = engine.trace(batch, engine.layers())[1]["LSTM_1"]
    assert (found.kind, found.mean.shape, found.passes) == ("recurrent", (4, 7, 3), 1)
    np.testing.assert_allclose(found.mean[:, -1], engine.run(batch)["last"][0], rtol=1e-6)
    np.testing.assert_allclose(found.low, found.mean.min(axis=(1, 2)))


def test_shared_weights_are_one_layer(make):
    nodes = [
        node("Split", "x", "p q", axis=3), node("Conv", "p w b", "c", "left"), node("Conv", "q w b", "d", "right"),
        node("Relu", "c", "e"), node("Concat", "e d", "y", axis=3),
    ]  # fmt: skip
    engine = make(nodes, LOOK)
    assert engine.layers() == [INPUT, "left"]
    found = engine.trace(picture(2), ["left"])[1]["left"]
    first, second = values(engine, picture(2), "e", "d")
    assert found.passes == 2
    np.testing.assert_allclose(
        found.mean, np.stack([first, second], 1).mean(axis=(3, 4)).reshape(4, 4), rtol=1e-5, atol=1e-6
    )


def test_names_are_readable():
    names = {"/look/look.0/Conv": "look.0", "node_conv2d_1": "conv2d_1", "model/first/Conv2D": "model.first", "": "Conv_4"}
    nodes = [node("Conv", f"x w{number} b", f"a{number}", name) for number, name in enumerate([*names, "conv2d_1"])]
    graph = model(nodes, [weights(f"w{number}", 4, 3, 3, 3) for number in range(5)]).graph
    assert [tap.layer for tap in taps_of(graph)] == ["look.0", "conv2d_1", "model.first", "Conv_3", "conv2d_1_2"]


def test_tracing_changes_no_answer(tmp_path):
    engine = OnnxEngine(written(tmp_path / "x.onnx", small()))
    said, found = engine.trace(picture(5), engine.layers())
    np.testing.assert_array_equal(said["y"], engine.run(picture(5))["y"])
    assert list(said) == ["y"]
    assert list(found) == [INPUT, "look", "head"]


def test_broken_numbers_are_seen(tmp_path):
    engine = OnnxEngine(written(tmp_path / "x.onnx", small()))
    batch = picture(2)
    batch[1, 0, 2, 2] = np.nan
    found = engine.trace(batch, ["look"])[1]["look"]
    assert np.isfinite(found.mean[0]).all()
    assert np.isnan(found.mean[1]).any()


def cases(count: int) -> list[Case]:
    pixels = np.random.default_rng(3).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    return [Case(f"frame {number}", {"camera": Image(frame)}) for number, frame in enumerate(pixels)]


def test_fixed_batches_are_fed_in_portions(tmp_path):
    system, exact = (
        Onnx(model=written(tmp_path / f"{size}.onnx", numbered(small(), size)), read=(Divide(255.0),), say=SAY)
        for size in (2, "n")
    )
    assert (system.engine.batch, exact.engine.batch) == (2, None)
    fixed, free = system.trace(cases(5), system.layers()), exact.trace(cases(5), exact.layers())
    assert [a[0].degrees for a in fixed.answers] == pytest.approx([a[0].degrees for a in free.answers], abs=1e-5)
    for name, part in fixed.layers.items():
        np.testing.assert_allclose(part.mean, free.layers[name].mean, rtol=1e-5, atol=1e-6)


def numbered(made: Any, size: int | str) -> Any:
    first = made.graph.input[0].type.tensor_type.shape.dim[0]
    setattr(first, "dim_value" if isinstance(size, int) else "dim_param", size)
    return made


def test_bytes_may_be_asked_for(make):
    nodes = [node("Cast", "x", "f", to=1), node("Conv", "f w b", "y", "conv")]
    engine = make(nodes, LOOK, dtype=TensorProto.UINT8)
    assert engine.run(np.full((1, 3, 8, 8), 200.0, np.float32))["y"].shape == (1, 4, 6, 6)


MEAN = [node("Cast", "x", "f", to=1), node("ReduceMean", "f", "y", axes=[1, 2, 3], keepdims=0)]
WHOLE = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


@pytest.mark.parametrize(
    ("kind", "shown"), [("uint8", 0), ("uint8", 255.0), ("int8", 127), ("int8", -128.0), ("uint8", np.uint8(200))]
)
def test_whole_numbers_are_seen_as_they_are(make, kind, shown):
    batch = np.full((2, 3, 8, 8), shown, np.uint8 if isinstance(shown, np.uint8) else np.float32)
    assert make(MEAN, [], dtype=WHOLE[kind]).run(batch)["y"].tolist() == [shown, shown]


@pytest.mark.parametrize(
    ("kind", "shown", "told"),
    [
        (
            "uint8",
            np.float32(0.5),
            "the input must be uint8, whole numbers from 0 to 255, got float32 numbers from 0 to 0.5",
        ),
        ("uint8", np.float32(-1), "from -1 to 0"),
        ("uint8", np.float32(256), "from 0 to 256"),
        ("uint8", np.float32(np.nan), "from nan to nan"),
        ("int8", np.uint8(200), "the input must be int8, whole numbers from -128 to 127, got uint8 numbers from 0 to 200"),
        ("int8", np.float32(128), "from 0 to 128"),
    ],
)
def test_other_numbers_are_refused(make, kind, shown, told):
    batch = np.zeros((2, 3, 8, 8), shown.dtype)
    batch[1, 2, 3, 4] = shown
    with pytest.raises(InputError, match=f"made.onnx: .*{told}; change the steps of 'read', or export"):
        make(MEAN, [], dtype=WHOLE[kind]).run(batch)


@pytest.mark.parametrize("window", [False, True])
def test_channels_are_where_the_layout_has_them(tmp_path, window):
    shape = (5, 8, 6, 3) if window else (8, 6, 3)
    turned = [0, 1, 4, 2, 3] if window else [0, 3, 1, 2]
    flat = numpy_helper.from_array(np.array([-1, 3, 8, 6]), "flat")
    nodes = [node("Transpose", "x", "t", perm=turned), node("Reshape", "t flat", "r"), node("Conv", "r w b", "y", "conv")]
    path = written(tmp_path / "x.onnx", model(nodes, [*LOOK, flat], shape=("n", *shape)))
    batch = picture(2, *shape)
    found = OnnxEngine(path, layout="hwc").trace(batch, [INPUT])[1][INPUT]
    frames = batch.reshape(-1, 8, 6, 3)
    assert found.passes == (5 if window else 1)
    np.testing.assert_allclose(found.mean, frames.mean(axis=(1, 2)), atol=1e-6)
    np.testing.assert_allclose(found.low, frames.min(axis=(1, 2, 3)))


def detector(*shape: int) -> Any:
    """Boxes that depend on the picture, with no axis for several pictures."""
    nodes = [
        node("ReduceMax", "x", "m", keepdims=0),
        *(node("Mul", "m boxes0", "boxes"), node("Identity", "labels0", "labels"), node("Identity", "scores0", "scores")),
    ]
    held = [
        numpy_helper.from_array(
            np.array([[0.1, 0.1, 0.3, 0.3], [0, 0, 0.2, 0.2], [0.1, 0, 0.2, 0.1]], np.float32), "boxes0"
        ),
        *(numpy_helper.from_array(np.array([1, 2, 1]), "labels0"), constant("scores0", 0.9, 0.8, 0.7)),
    ]
    return model(nodes, held, shape=shape, out="boxes labels scores")


def test_detectors_may_have_no_batch_axis(tmp_path):
    made = detector(1, 3, 8, 8)
    made.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    how: dict[str, Any] = {
        "model": written(tmp_path / "x.onnx", made),
        "read": (Float(),),
        "say": (SeparateOutputs(kinds=("car", "light", "sign")),),
    }
    frames = [Case(str(level), {"camera": Image(np.full((8, 8, 3), level, np.uint8))}) for level in (10, 20)]
    alone = Onnx(**how, batched=False)
    found = [answer[0].xyxy for answer in alone(frames)]
    assert [boxes.shape for boxes in found] == [(3, 4), (3, 4)]
    assert [boxes.max() for boxes in found] == pytest.approx([3.0, 6.0])
    with pytest.raises(
        InputError, match="output 'boxes' has 3 rows for 1 inputs; it needs one row per input, or batched = false"
    ):
        Onnx(**how)(frames)
    assert alone.fingerprint() != Onnx(**how).fingerprint()


def test_portions_are_not_one_at_a_time(tmp_path):
    system = Onnx(model=written(tmp_path / "x.onnx", numbered(small(), 2)), read=(), say=SAY, batched=False)
    with pytest.raises(InputError, match="batched = false needs a batch size of 1, but the network has 2"):
        system(cases(1))


def test_functions_are_looked_into(tmp_path):
    body = [helper.make_node("Conv", ["p", "q"], ["r"], name="inner"), helper.make_node("Relu", ["r"], ["s"])]
    opset = [helper.make_opsetid("", 17)]
    block = helper.make_function("own", "Block", ["p", "q"], ["s"], body, opset)
    made = model([helper.make_node("Block", ["x", "w"], ["y"], domain="own")], LOOK[:1], functions=[block])
    made.opset_import.append(helper.make_opsetid("own", 1))
    engine = OnnxEngine(written(tmp_path / "x.onnx", made))
    (layer,) = engine.layers()[1:]
    assert engine.trace(picture(2), [layer])[1][layer].low.min() == 0


def with_data(folder: Path, location: str = "data.bin", **facts: int) -> Path:
    """The small model with its first weights in another file."""
    made = small()
    tensor = made.graph.initializer[0]
    (folder / "data.bin").write_bytes(b"head" + tensor.raw_data)
    places = {"location": location, "offset": 4, "length": len(tensor.raw_data), **facts}
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.extend(onnx.StringStringEntryProto(key=key, value=str(value)) for key, value in places.items())
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_external_data_are_read(tmp_path):
    engine = OnnxEngine(with_data(tmp_path))
    before = engine.fingerprint()
    assert engine.trace(picture(2), ["look"])[1]["look"].mean.shape == (2, 4)
    content = bytearray((tmp_path / "data.bin").read_bytes())
    content[9] ^= 1
    (tmp_path / "data.bin").write_bytes(content)
    assert OnnxEngine(tmp_path / "model.onnx").fingerprint() != before


@pytest.mark.parametrize(
    "location",
    ["../data.bin", "/etc/passwd", "", "missing.bin", "link.bin", "hard.bin", "inner/../data.bin", "C:\\x", "~/x", "."],
)
def test_external_data_stay_inside(tmp_path, location):
    outside, folder = tmp_path / "data.bin", tmp_path / "inner"
    folder.mkdir()
    outside.write_bytes(bytes(5000))
    os.symlink(outside, folder / "link.bin")
    os.link(outside, folder / "hard.bin")
    with pytest.raises(InputError, match=r"model\.onnx: external data: .* must be a regular file in the model's own folder"):
        OnnxEngine(with_data(folder, location))


def test_links_inside_are_refused_too(tmp_path):
    path = with_data(tmp_path, "link.bin")
    os.symlink(tmp_path / "data.bin", tmp_path / "link.bin")
    with pytest.raises(InputError, match="the path contains a link"):
        OnnxEngine(path)


@pytest.mark.parametrize("facts", [{"offset": -1}, {"offset": 10**6}, {"length": 10**9}, {"offset": 2**63}])
def test_external_data_end_somewhere(tmp_path, facts):
    with pytest.raises(InputError, match="external data"):
        OnnxEngine(with_data(tmp_path, **facts))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "unknown domain": (
        lambda: model([helper.make_node("Hack", ["x"], ["y"], domain="evil")], []),
        "the operator Hack of 'evil' needs a custom library",
    ),
    "future operators": (lambda: small(opset=99), "operator set 99 is not supported, only 1 to"),
    "unknown operator": (lambda: model([node("Wish", "x", "y")], []), "onnxruntime cannot load the model"),
    "circle": (
        lambda: model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")], []),
        "cannot load the model",
    ),
    "two inputs": (lambda: two_inputs(), r"the model must have one input, it has 2 \(x, z\)"),
    "texts": (lambda: model([node("Cast", "x", "y", to=1)], [], dtype=TensorProto.STRING), "the input has type tensor"),
}


def two_inputs() -> Any:
    made = model([node("Add", "x z", "y")], [])
    made.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 3, 8, 8]))
    return made


@pytest.mark.parametrize("kind", BAD)
def test_unusable_models_are_told(tmp_path, kind):
    make, told = BAD[kind]
    with pytest.raises(InputError, match=told):
        OnnxEngine(written(tmp_path / "bad.onnx", make()))


@pytest.mark.parametrize("content", [b"", b"not a model", bytes(100), b"\x80\x04."])
def test_other_files_are_told(tmp_path, content):
    (tmp_path / "x.onnx").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.onnx: "):
        OnnxEngine(tmp_path / "x.onnx")


def test_size_is_limited(tmp_path, monkeypatch):
    path = written(tmp_path / "x.onnx", small())
    monkeypatch.setattr(limits, "MODEL", path.stat().st_size - 1)
    with pytest.raises(InputError, match=r"at most .* are read \(swerve list limits\)"):
        OnnxEngine(path)


def test_large_constants_stay_small(tmp_path):
    import resource

    size = constant("size", 200_000_000, kind=np.int64)
    nodes = [node("ConstantOfShape", "list", "c"), node("ReduceSum", "c", "s", keepdims=0), node("Add", "x s", "y")]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    OnnxEngine(
        written(tmp_path / "x.onnx", model(nodes, [numpy_helper.from_array(numpy_helper.to_array(size)[None], "list")]))
    )
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kilobytes; folded it would be 800,000


def test_wrong_shapes_name_the_file(tmp_path):
    system = Onnx(model=written(tmp_path / "x.onnx", small()), read=(), say=SAY)
    odd = Case("odd", {"camera": Image(np.zeros((9, 9, 3), np.uint8))})
    with pytest.raises(InputError, match=r"x\.onnx: 'read' produces 3x9x9 for each case, the model wants 3x8x8") as told:
        system([odd])
    assert "\n" not in str(told.value)


def test_devices_are_checked():
    assert providers_for("auto", ["CPUExecutionProvider"]) == ["CPUExecutionProvider"]
    assert providers_for("auto", ["CUDAExecutionProvider"])[0] == "CUDAExecutionProvider"
    assert providers_for("cpu", ["CUDAExecutionProvider"]) == ["CPUExecutionProvider"]
    for device, told in (("cuda", "not available in this onnxruntime"), ("tpu", "unknown device 'tpu'")):
        with pytest.raises(InputError, match=told):
            providers_for(device, [])


def test_toml_makes_a_system(tmp_path):
    written(tmp_path / "x.onnx", small())
    say = {"use": "swerve.systems.decoders:SteeringDecoder", "unit": "degrees", "positive": "left", "kind": "wheel"}
    table = {"use": "swerve.systems.onnx:Onnx", "model": "x.onnx", "read": [], "say": [say]}
    made = Builder(base=tmp_path).component(table)
    assert made.fingerprint() == Builder(base=tmp_path).component({**table, "device": "cpu"}).fingerprint()
    assert len(made(cases(3))) == 3


class Frames(FakeSource):
    """Noise, as small as the model wants it."""

    def keys(self) -> Sequence[str]:
        return [case.key for case in cases(12)]

    def __getitem__(self, key: str) -> Case:
        return next(case for case in cases(12) if case.key == key)


class Torn(Frames):
    """Noise of which only a few frames read."""

    fine: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Case:
        if key not in self.fine:
            raise UnreadableCase(f"{key}: no picture")
        return super().__getitem__(key)


def test_frames_that_do_not_read_are_left_out(tmp_path):
    exact = Onnx(model=written(tmp_path / "x.onnx", small()), read=(Divide(255.0),), say=SAY)
    some = Torn()
    object.__setattr__(some, "fine", ("frame 3", "frame 7"))
    rough = Onnx(model=quantise_model(exact, tmp_path / "int8.onnx", some, cases=12), read=(Divide(255.0),), say=SAY)
    assert rough.layers() == exact.layers()
    told = r"x\.onnx: cannot be quantised: no case of the source can be read: frame 11: no picture"
    with pytest.raises(InputError, match=told):
        quantise_model(exact, tmp_path / "none.onnx", Torn(), cases=12)


@pytest.mark.parametrize("source", [Frames(), None])
def test_bytes_say_nearly_the_same(tmp_path, source):
    exact = Onnx(model=written(tmp_path / "x.onnx", small()), read=(Divide(255.0),), say=SAY)
    rough = Onnx(model=quantise_model(exact, tmp_path / "int8.onnx", source, cases=12), read=(Divide(255.0),), say=SAY)
    one, other = ([answer[0].degrees for answer in system(cases(12))] for system in (exact, rough))
    assert one != other
    assert np.abs(np.subtract(one, other)).max() < 0.1 * np.abs(one).max()
    if source is not None:
        assert rough.layers() == exact.layers()
        seen, looked = (system.trace(cases(4), ["look"]).layers["look"] for system in (exact, rough))
        np.testing.assert_allclose(seen.mean, looked.mean, atol=0.05)
        assert (seen.activated, looked.activated) == (True, None)  # rounding may stand for an activation that only clips
    (tmp_path / "x.onnx").write_bytes(b"torn")
    with pytest.raises(InputError, match="not an ONNX model"):
        quantise_model(exact, tmp_path / "again.onnx", source)
