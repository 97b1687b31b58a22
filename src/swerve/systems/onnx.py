"""ONNX models as systems, run by onnxruntime."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from swerve.core.errors import InputError, printable
from swerve.core.extras import optional_package
from swerve.core.system import Activations
from swerve.core.values import Array
from swerve.systems.network import CHANNELS, INPUT, Engine, Network, Pass, Rows, check_shape, join_calls
from swerve.systems.onnx_file import onnx_library, providers_for, read_onnx
from swerve.systems.onnx_graph import Tap, add_taps, outputs_of, taps_of

KINDS = {"float": np.float32, "float16": np.float16, "double": np.float64, "uint8": np.uint8, "int8": np.int8}
ERROR_LENGTH = 200  # characters of onnxruntime's message that are kept, enough for expected and actual sizes
FATAL = 4  # onnxruntime's log level; lower ones reach the user as exceptions


@dataclass(frozen=True, kw_only=True)
class Onnx(Network):
    """An ONNX file; a model with a fixed batch size is run in batches of that size.

    Args:
        model: the `.onnx` file; its external data, if any, must be in the same folder.
        device: `auto`, `cuda` or `cpu`.
    """

    model: Path
    device: str = "auto"

    @cached_property
    def engine(self) -> Engine:
        return OnnxEngine(self.model, self.device, self.layout)


class OnnxEngine:
    """A model in onnxruntime, on one thread, so that sums have the same order on every machine.

    `layout` is that of its input pictures.
    """

    def __init__(self, path: Path, device: str = "auto", layout: str = "chw") -> None:
        self.path, self.device, self.content, self.channels = path, device, read_onnx(path), CHANNELS[layout]
        self.session = self._session(self.content)
        inputs = self.session.get_inputs()
        if len(inputs) != 1:
            names = ", ".join(item.name for item in inputs)
            raise InputError(f"{path}: the model must have one input, it has {len(inputs)} ({names})")
        self.input = inputs[0]
        kind = KINDS.get(str(self.input.type)[len("tensor(") : -1])
        if kind is None:
            raise InputError(f"{path}: the input has type {self.input.type}, expected one of {', '.join(KINDS)}")
        self.kind: np.dtype[Any] = np.dtype(kind)
        sizes = [size if isinstance(size, int) and size > 0 else None for size in self.input.shape or ()]
        self.batch: int | None = sizes[0] if sizes else None
        self.shape: tuple[int | None, ...] = tuple(sizes[1:])
        self._probing: dict[tuple[str, ...], tuple[Any, list[Tap]]] = {}
        self._building = threading.Lock()

    def run(self, batch: Array) -> Mapping[str, Rows]:
        return self._outputs(self.session, batch, [item.name for item in self.session.get_outputs()])

    def layers(self) -> Sequence[str]:
        taps = self._taps
        return [*([INPUT] if taps and taps[0].kind == "convolution" else []), *dict.fromkeys(tap.layer for tap in taps)]

    def trace(self, batch: Array, layers: Sequence[str]) -> Pass:
        session, taps = self._probe(tuple(layers))
        outputs = self._outputs(session, batch, [item.name for item in session.get_outputs()])
        calls: dict[str, list[Activations]] = {INPUT: [_input_activations(batch, self.channels)]}
        for tap in taps:
            mean, low, high = (np.asarray(outputs[name]) for name in outputs_of(tap))
            calls.setdefault(tap.layer, []).append(Activations(tap.kind, mean, low, high, activated=tap.activated))
        own = {item.name: outputs[item.name] for item in self.session.get_outputs()}
        return own, {name: join_calls(name, calls[name], inputs=len(batch)) for name in layers}

    def as_input(self, batch: Array) -> Array:
        """The numbers in the type of the model's input; raises `InputError` if an integer type cannot represent one."""
        if self.kind.kind in "iu" and batch.dtype != self.kind:
            low, high = np.iinfo(self.kind).min, np.iinfo(self.kind).max
            if not ((batch >= low) & (batch <= high) & (batch == np.rint(batch))).all():
                given = f"{batch.dtype} numbers from {batch.min():g} to {batch.max():g}"
                hint = "change the steps of 'read', or export the model with a float input"
                raise InputError(
                    f"{self.path}: the input must be {self.kind}, whole numbers from {low} to {high}, got {given}; {hint}"
                )
        return np.ascontiguousarray(batch, self.kind)

    def fingerprint(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @cached_property
    def _taps(self) -> list[Tap]:
        return taps_of(self._graph().graph)

    def _graph(self) -> Any:
        model = onnx_library().load_model_from_string(self.content)
        return optional_package("onnx.inliner", "onnx").inline_local_functions(model) if model.functions else model

    def _probe(self, layers: tuple[str, ...]) -> tuple[Any, list[Tap]]:
        """A separate session that also returns the activations of `layers`, so that the plain one stays fast."""
        with self._building:  # once, however many threads need it
            if layers not in self._probing:
                taps, model = [tap for tap in self._taps if tap.layer in layers], self._graph()
                add_taps(model, taps)
                self._probing[layers] = self._session(model.SerializeToString()), taps
            return self._probing[layers]

    def _session(self, content: bytes) -> Any:
        onnxruntime = optional_package("onnxruntime", "onnx")
        onnxruntime.set_default_logger_severity(FATAL)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = FATAL
        providers = providers_for(self.device, onnxruntime.get_available_providers())
        try:
            # R46: constants described by a few bytes may fill the memory when they are folded.
            return onnxruntime.InferenceSession(
                content, options, providers, enable_fallback=0, disabled_optimizers=["ConstantFolding"]
            )
        except Exception as error:  # onnxruntime may raise anything on a damaged file
            raise InputError(f"{self.path}: onnxruntime cannot load the model: {_describe_error(error)}") from error

    def _outputs(self, session: Any, batch: Array, names: Sequence[str]) -> dict[str, Array]:
        check_shape(batch, self.shape, f"{self.path}: ")
        given = {self.input.name: self.as_input(batch)}
        try:
            outputs = session.run(list(names), given)
        except Exception as error:  # including those of libraries
            raise InputError(f"{self.path}: {_describe_error(error)}") from error
        for name, numbers in zip(names, outputs, strict=True):
            if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "fiub":
                raise InputError(f"{self.path}: output '{name}' must be numbers, got {type(numbers).__name__}")
        return dict(zip(names, outputs, strict=True))


def _input_activations(batch: Array, channels: int) -> Activations:
    """The channels of the pictures as activations; each frame of a window is a pass."""
    frames = np.moveaxis(batch.reshape(-1, *batch.shape[2:]) if batch.ndim == 5 else batch, channels, 1)
    rows = np.asarray(frames, np.float32).reshape(*frames.shape[:2], -1)
    return Activations("input", rows.mean(axis=2), rows.min(axis=(1, 2)), rows.max(axis=(1, 2)))


def _describe_error(error: Exception) -> str:
    """onnxruntime's message without its prefix, error number and source line."""
    message = " ".join(str(error).split(" : ", 3)[-1].split()) or type(error).__name__
    return printable(re.sub(r"/\S+\.(?:h|cc):\d+ .*? was false\. ", "", message), ERROR_LENGTH)
