"""R46 and R47: a torn model file is told in a line, crashes nothing and fills no memory; an exchanged one is noticed.

10,000 torn files with SWERVE_SOAK=1, a few hundred otherwise.
"""

from __future__ import annotations

import io
import json
import os
import resource
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from safetensors.torch import save

from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.systems.onnx import Onnx, OnnxEngine
from swerve.systems.torch import Torch
from swerve.systems.weights import with_weights
from tests.quality.test_bad_models import as_keras, as_onnx, as_torch, net, torch_saved

SOAK = os.environ.get("SWERVE_SOAK") == "1"
TORN = 2_500 if SOAK else 60  # of each of four kinds
TORN_H5 = 1_000 if SOAK else 8  # each is read by a process of its own
LONGEST = 5.0  # seconds of this process
MOST = 500_000  # kilobytes that memory may grow by


def small_onnx() -> Any:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["a"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "v", "u"], ["y"]),
    ]
    shapes = {"w": (2, 3, 3, 3), "b": (2,), "v": (72, 1), "u": (1,)}
    held = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items()]
    ends = [helper.make_tensor_value_info("x", 1, ["n", 3, 8, 8]), helper.make_tensor_value_info("y", 1, ["n", 1])]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def torn(content: bytes, rng: np.random.Generator) -> bytes:
    """Bits flipped, bytes exchanged for extreme ones, parts cut out, doubled or cut off; the start is hit more often."""
    data = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 2, 4, 16]))):
        if not data:
            break
        place = int(rng.integers(len(data)) * rng.choice([1.0, 0.2]))
        extreme = (b"\xff" * 8, bytes(8), b"\xff\xff\xff\x7f", struct.pack("<q", 1 << 40))[rng.integers(4)]
        how = rng.integers(6)
        if how == 0:
            data[place] ^= 1 << int(rng.integers(8))
        elif how == 1:
            data[place] = int(rng.integers(256))
        elif how == 2:
            data[place : place + len(extreme)] = extreme
        elif how == 3:
            del data[place : place + int(rng.integers(1, 9))]
        elif how == 4:
            data[place:place] = data[place : place + int(rng.integers(1, 64))]
        elif rng.random() < 0.3:
            del data[place:]
    return bytes(data)


EXTREMES = (0, 1, -1, 2, 7, 255, 65536, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))


def bent(content: bytes, rng: np.random.Generator) -> bytes:
    """A sound message that says something else: numbers, names and parts exchanged."""
    model = onnx.load_model_from_string(content)
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        fields = list(_fields(model))
        owner, name, repeated = fields[rng.integers(len(fields))]
        value = getattr(owner, name)
        old = value[rng.integers(len(value))] if repeated else value
        texts = [getattr(item, field) for item, field, several in fields if not several and field in ("op_type", "name")]
        try:
            new = {int: EXTREMES, float: (0.0, float("nan"), 1e38), str: texts, bytes: (b"", b"\xff" * 9)}[type(old)]
            drawn = new[rng.integers(len(new))]
            if repeated:
                value[rng.integers(len(value))] = drawn
            else:
                setattr(owner, name, drawn)
        except (KeyError, ValueError, TypeError):  # a part of parts, or a number that does not fit
            if repeated:
                del value[rng.integers(len(value))]
    data: bytes = model.SerializeToString()
    return data


def _fields(message: Any) -> Iterator[tuple[Any, str, bool]]:
    for field, value in message.ListFields():
        repeated = not isinstance(value, int | float | str | bytes) and hasattr(value, "append")
        yield message, field.name, repeated
        if hasattr(value, "ListFields"):
            yield from _fields(value)
        elif repeated and len(value) and hasattr(value[0], "ListFields"):
            for part in value:
                yield from _fields(part)


def onnx_answers(path: Path) -> None:
    engine = OnnxEngine(path)
    engine.trace(np.zeros((engine.batch if engine.batch in (1, 2) else 2, 3, 8, 8), np.float32), engine.layers())


def weights_answer(path: Path) -> None:
    with_weights(net(), path)(torch.zeros(1, 3, 8, 8))


KINDS: dict[str, tuple[Callable[[], bytes], Callable[..., bytes], Callable[[Path], None]]] = {
    "torn.safetensors": (lambda: save(net().state_dict()), torn, weights_answer),
    "torn.pt": (lambda: torch_saved(lambda _: net().state_dict())(Path()), torn, weights_answer),
    "torn.onnx": (lambda: small_onnx().SerializeToString(), torn, onnx_answers),
    "bent.onnx": (lambda: small_onnx().SerializeToString(), bent, onnx_answers),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.usefixtures("one_thread")
def test_torn_files_are_told(tmp_path: Path, name: str) -> None:
    make, tear, read = KINDS[name]
    content, path = make(), tmp_path / name
    path.write_bytes(content)
    read(path)
    told, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(TORN):
        path.write_bytes(tear(content, rng_for("torn", name, number)))
        started = time.process_time()
        try:
            read(path)
        except InputError as error:
            told.append(str(error))
        assert time.process_time() - started < LONGEST, number
    assert len(told) > TORN / 10
    assert all(name in reason and "\n" not in reason for reason in told)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST


def legacy_h5() -> bytes:
    """A whole model as Keras 2 wrote it."""
    shape = {"batch_input_shape": [None, 8, 8, 3]}
    layers = [("Conv2D", {"name": "look", "filters": 2, "kernel_size": [3, 3], **shape}), ("Flatten", {"name": "flat"})]
    layers.append(("Dense", {"name": "turn", "units": 1}))
    weights = {"look": [(3, 3, 3, 2), (2,)], "flat": [], "turn": [(72, 1), (1,)]}
    specs = [{"class_name": kind, "config": config} for kind, config in layers]
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": specs})
        file.attrs["layer_names"] = [name.encode() for name in weights]
        for name, shapes in weights.items():
            group = file.create_group(name)
            group.attrs["weight_names"] = [f"{name}/{number}".encode() for number in range(len(shapes))]
            for number, size in enumerate(shapes):
                group[f"{name}/{number}"] = np.ones(size, np.float32)
    return buffer.getvalue()


def test_torn_h5_stay_outside(tmp_path: Path) -> None:
    content, path = legacy_h5(), tmp_path / "torn.h5"
    path.write_bytes(content)
    as_keras(path)
    told = []
    for number in range(TORN_H5):
        path.write_bytes(torn(content, rng_for("torn h5", number)))
        try:
            as_keras(path)
        except InputError as error:
            told.append(str(error))
    assert len(told) > TORN_H5 / 10
    assert all("torn.h5" in reason for reason in told)


def header(**tensors: dict[str, Any]) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


BAD_HEADERS = {
    "endless": struct.pack("<Q", (1 << 63) - 1) + b"{}",
    "overlap": header(**{name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in "ab"}) + bytes(8),
    "hole": header(a={"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}) + bytes(8),
    "overflow": header(a={"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 8]}) + bytes(8),
    "beyond": header(a={"dtype": "F32", "shape": [1000], "data_offsets": [0, 4000]}) + bytes(8),
    "negative": header(a={"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]}) + bytes(8),
    "no kind": header(a={"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}) + bytes(8),
}


@pytest.mark.parametrize("kind", BAD_HEADERS)
def test_bad_headers_are_told(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(BAD_HEADERS[kind])
    with pytest.raises(InputError, match=r"x\.safetensors: no weights for Sequential"):
        as_torch(path)


@pytest.mark.parametrize("dims", [[1 << 62, 1 << 62], [1 << 40], [-5], [2, 3, 3, 4]])
def test_bad_sizes_are_told(tmp_path: Path, dims: list[int]) -> None:
    model = small_onnx()
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend(dims)
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"x\.onnx: onnxruntime cannot load the model"):
        as_onnx(tmp_path / "x.onnx")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST


def changed_torch(path: Path, bias: float) -> Torch:
    state = net().state_dict()
    state["3.bias"] += bias
    path.write_bytes(save(state))
    return as_torch(path)


def changed_onnx(path: Path, bias: float) -> Onnx:
    model = small_onnx()
    model.graph.initializer[3].CopyFrom(numpy_helper.from_array(np.array([bias], np.float32), "u"))
    path.write_bytes(model.SerializeToString())
    return as_onnx(path)


@pytest.mark.parametrize(("name", "make"), [("x.safetensors", changed_torch), ("x.onnx", changed_onnx)])
def test_exchanged_files_are_noticed(tmp_path: Path, name: str, make: Callable[[Path, float], Any]) -> None:
    first, again = make(tmp_path / name, 0.0), make(tmp_path / name, 0.0)
    assert first.fingerprint() == again.fingerprint()
    assert make(tmp_path / name, 1e-6).fingerprint() != first.fingerprint()
    assert first.fingerprint() == again.fingerprint()  # what is loaded stays what it was
