"""An ONNX model in whole numbers of eight bits, as it would be put into a car, to be held against the exact one."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from swerve.core.case import Source
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.values import Array
from swerve.systems.network import library
from swerve.systems.onnx import Onnx
from swerve.systems.onnx_file import onnx_library, read_onnx

OLDEST = 13  # operator set that knows a scale for each channel


def quantised(system: Onnx, into: Path, source: Source | None = None, *, cases: int = 100) -> Path:
    """Write `system`'s model with INT8 weights to `into`, and return that.

    Activations are of eight bits too, over the range that `cases` or a few more of `source`, evenly spread, span, those
    left out that do not read; without a source that range is found anew for every input.
    """
    tools = library("onnxruntime.quantization", "onnx")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            prepared = _prepared(system.model, Path(folder) / "prepared.onnx")
            if source is None:
                # Its convolutions are for bytes without a sign alone.
                tools.quantize_dynamic(prepared, into, weight_type=tools.QuantType.QUInt8)
            else:
                # Weights of seven bits: with eight, sums overflow on processors without VNNI, and machines differ.
                shown = _Shown(system, source, cases)
                tools.quantize_static(prepared, into, shown, per_channel=True, reduce_range=True)
        except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
            raise InputError(f"{system.model}: cannot be quantised: {error}") from error
    return into


def _prepared(path: Path, into: Path) -> Path:
    """The model with its normalisations folded into the layers before them, so that they are not rounded by themselves."""
    model = onnx_library().load_model_from_string(read_onnx(path))
    if max(opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")) < OLDEST:
        model = library("onnx.version_converter", "onnx").convert_version(model, OLDEST)
    prepare = library("onnxruntime.quantization.shape_inference", "onnx").quant_pre_process
    prepare(model, str(into), skip_symbolic_shape=True)
    return into


class _Shown:
    """The cases as onnxruntime's calibration takes them: one after the other until there is none."""

    def __init__(self, system: Onnx, source: Source, cases: int) -> None:
        self.read = 0
        self.batches = self._batches(system, source, cases)

    def get_next(self) -> dict[str, Array] | None:
        """The next input by its name."""
        return next(self.batches, None)

    def _batches(self, system: Onnx, source: Source, cases: int) -> Iterator[dict[str, Array]]:
        engine: Any = system.engine
        keys, unread = source.keys(), "it has no cases"
        for key in keys[:: max(1, len(keys) // cases)]:
            try:
                numbers = engine.fed(system.reading(source[key]).numbers)
            except UnreadableCase as error:
                unread = str(error)
                continue
            self.read += 1
            yield {engine.input.name: np.repeat(numbers[None], engine.batch or 1, axis=0)}
        if not self.read:
            raise InputError(f"{system.model}: cannot be quantised: no case of the source reads: {unread}")
