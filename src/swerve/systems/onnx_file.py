"""ONNX files that a stranger may have made: read once, whole, with nothing from outside their folder (R46)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from swerve.config import limits
from swerve.core.errors import InputError, UnreadableCase, did_you_mean
from swerve.sources.root import Root
from swerve.systems.network import library
from swerve.systems.weights import model_file

# Operators that come with onnxruntime itself; any other domain means a library that would have to be loaded.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")
PROTOBUF = (1 << 31) - 1  # bytes that one protobuf message holds at most


def onnx_library() -> Any:
    """The `onnx` package."""
    return library("onnx", "onnx")


def read_onnx(path: Path) -> bytes:
    """The model of a file with its external data inside; raises `InputError` for one that is unsound or needs more."""
    onnx = onnx_library()
    content = model_file(path, (".onnx",)).read_bytes()
    if len(content) > PROTOBUF:
        raise InputError(f"{path}: {len(content):,} bytes, one ONNX file holds at most {PROTOBUF:,}")
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # a torn file makes protobuf say anything
        raise InputError(f"{path}: not an ONNX model: {error}") from error
    _check_operators(model, path, onnx.defs.onnx_opset_version())
    outside = [tensor for tensor in _tensors(model) if tensor.data_location == onnx.TensorProto.EXTERNAL]
    return _with_data(model, outside, path) if outside else content


def _check_operators(model: Any, path: Path, newest: int) -> None:
    known = {*DOMAINS, *(function.domain for function in model.functions)}
    for node in _nodes(model):
        if node.domain not in known:
            told = f"needs {node.op_type} of '{node.domain}', which is somebody's own library"
            raise InputError(f"{path}: {told}; export it with ONNX's own operators alone")
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and not 0 < opset.version <= newest:
            told = f"made for operator set {opset.version}, known are 1 to {newest}"
            raise InputError(f"{path}: {told}; export it with opset_version={newest}")


def _graphs(model: Any) -> Iterator[Any]:
    """The graph, the model's own functions, and the graphs within."""
    waiting = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                waiting += [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _nodes(model: Any) -> Iterator[Any]:
    for graph in _graphs(model):
        yield from graph.node


def _tensors(model: Any) -> Iterator[Any]:
    for graph in _graphs(model):
        if hasattr(graph, "initializer"):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
    for node in _nodes(model):
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)


def _with_data(model: Any, outside: Iterable[Any], path: Path) -> bytes:
    """The model with the numbers that lay in other files, all of them in its own folder."""
    root, total = Root(path.absolute().parent), 0
    for tensor in outside:
        data = _external(root, {entry.key: entry.value for entry in tensor.external_data}, path)
        total += len(data)
        if total > min(limits.MODEL, PROTOBUF):
            raise InputError(f"{path}: more than {PROTOBUF:,} bytes with its external data")
        tensor.raw_data = data
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    try:
        whole: bytes = model.SerializeToString()
    except Exception as error:
        raise InputError(f"{path}: does not fit into one message with its external data: {error}") from error
    return whole


def _external(root: Root, facts: dict[str, str], path: Path) -> bytes:
    name = facts.get("location", "")
    place = os.path.join(root.folder, name)
    try:
        offset, length = int(facts.get("offset", 0)), int(facts.get("length", -1))
        with root.open(name, most=limits.MODEL) as file:
            if os.path.realpath(place) != os.path.join(os.path.realpath(root.folder), os.path.normpath(name)):
                raise UnreadableCase("it is a link")
            size = os.fstat(file.fileno()).st_size
            length = size - offset if length < 0 else length
            if not (offset >= 0 and offset + length <= size):
                raise UnreadableCase(f"the file has {size:,} bytes, not {offset + length:,}")
            file.seek(offset)
            return file.read(length)
    except (UnreadableCase, ValueError) as error:
        told = f"{name or 'it'} must be a plain file in the model's own folder"
        raise InputError(f"{path}: external data: {told}: {error}") from error


def providers_for(device: str, available: Iterable[str]) -> list[str]:
    """What onnxruntime computes with on `device`: `auto`, `cuda` or `cpu`."""
    found = {"cuda": "CUDAExecutionProvider" in available, "cpu": True}
    if device not in ("auto", *found):
        raise InputError(f"device = '{device}' is not known; {did_you_mean(device, ('auto', *found))}")
    if not found.get(device, True):
        raise InputError("device = 'cuda': this onnxruntime has none; leave it at 'auto'")
    cuda = ["CUDAExecutionProvider"] if found["cuda"] and device != "cpu" else []
    return [*cuda, "CPUExecutionProvider"]
