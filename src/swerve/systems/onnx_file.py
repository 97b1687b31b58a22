"""Untrusted ONNX files: read once, completely, and without access to anything outside their folder."""
# R46

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from swerve.config import limits
from swerve.core.arguments import check_known
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.extras import optional_package
from swerve.sources.root import Root
from swerve.systems.model_file import model_file

# Domains of the operators in onnxruntime itself; any other would require a custom library.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")
PROTOBUF = (1 << 31) - 1  # largest size of a protobuf message in bytes


def onnx_library() -> Any:
    """The `onnx` package."""
    return optional_package("onnx", "onnx")


def read_onnx(path: Path) -> bytes:
    """The model in a file with its external data embedded; raises `InputError` if it is invalid or needs custom code."""
    onnx = onnx_library()
    content = model_file(path, (".onnx",)).read_bytes()
    if len(content) > PROTOBUF:
        raise InputError(f"{path}: {len(content):,} bytes, an ONNX file has at most {PROTOBUF:,}")
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf may raise anything on a damaged file
        raise InputError(f"{path}: not an ONNX model: {error}") from error
    _check_operators(model, path, onnx.defs.onnx_opset_version())
    outside = [tensor for tensor in _tensors(model) if tensor.data_location == onnx.TensorProto.EXTERNAL]
    return _with_data(model, outside, path) if outside else content


def _check_operators(model: Any, path: Path, newest: int) -> None:
    known = {*DOMAINS, *(function.domain for function in model.functions)}
    for node in _nodes(model):
        if node.domain not in known:
            problem = f"the operator {node.op_type} of '{node.domain}' needs a custom library"
            raise InputError(f"{path}: {problem}; export the model with ONNX's own operators only")
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and not 0 < opset.version <= newest:
            problem = f"operator set {opset.version} is not supported, only 1 to {newest}"
            raise InputError(f"{path}: {problem}; export the model with opset_version={newest}")


def _graphs(model: Any) -> Iterator[Any]:
    """The main graph, the model's functions, and all nested graphs."""
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
    """The model with its external data embedded, all of which must be in its own folder."""
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
        raise InputError(f"{path}: the model with its external data exceeds one protobuf message: {error}") from error
    return whole


def _external(root: Root, facts: dict[str, str], path: Path) -> bytes:
    name = facts.get("location", "")
    place = os.path.join(root.folder, name)
    try:
        offset, length = int(facts.get("offset", 0)), int(facts.get("length", -1))
        with root.open(name, most=limits.MODEL) as file:
            if os.path.realpath(place) != os.path.join(os.path.realpath(root.folder), os.path.normpath(name)):
                raise UnreadableCase("the path contains a link")
            size = os.fstat(file.fileno()).st_size
            length = size - offset if length < 0 else length
            if not (offset >= 0 and offset + length <= size):
                raise UnreadableCase(f"the file has only {size:,} bytes, expected {offset + length:,}")
            file.seek(offset)
            return file.read(length)
    except (UnreadableCase, ValueError) as error:
        rule = f"{name or 'the file'} must be a regular file in the model's own folder"
        raise InputError(f"{path}: external data: {rule}: {error}") from error


def providers_for(device: str, available: Iterable[str]) -> list[str]:
    """The onnxruntime providers for `device`: `auto`, `cuda` or `cpu`."""
    found = {"cuda": "CUDAExecutionProvider" in available, "cpu": True}
    check_known("device", device, ("auto", *found))
    if not found.get(device, True):
        raise InputError("device = 'cuda' is not available in this onnxruntime; use 'auto'")
    cuda = ["CUDAExecutionProvider"] if found["cuda"] and device != "cpu" else []
    return [*cuda, "CPUExecutionProvider"]
