"""An INT8 version of an ONNX model, as deployed in cars, to compare with the original."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from swerve.core.case import Source
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.extras import optional_package
from swerve.core.values import Array
from swerve.systems.onnx import Onnx
from swerve.systems.onnx_file import onnx_library, read_onnx

OLDEST = 13  # first operator set with a scale per channel


def quantise_model(system: Onnx, into: Path, source: Source | None = None, *, cases: int = 100) -> Path:
    """Write `system`'s model with INT8 weights to `into`; returns that path.

    Activations are 8-bit too. Their range is calibrated on at least `cases` cases of `source`, evenly spaced, without
    unreadable ones; without a source it is computed for every input.
    """
    tools = optional_package("onnxruntime.quantization", "onnx")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            prepared = _prepared(system.model, Path(folder) / "prepared.onnx")
            if source is None:
                # Its convolutions support only unsigned bytes.
                tools.quantize_dynamic(prepared, into, weight_type=tools.QuantType.QUInt8)
            else:
                # 7-bit weights: with 8 bits, sums overflow on processors without VNNI, so machines would differ.
                inputs = _CalibrationInputs(system, source, cases)
                tools.quantize_static(prepared, into, inputs, per_channel=True, reduce_range=True)
        except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
            raise InputError(f"{system.model}: cannot be quantised: {error}") from error
    return into


def _prepared(path: Path, into: Path) -> Path:
    """The model with normalisations folded into the layers before them, so that they are not quantised separately."""
    model = onnx_library().load_model_from_string(read_onnx(path))
    if max(opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")) < OLDEST:
        model = optional_package("onnx.version_converter", "onnx").convert_version(model, OLDEST)
    prepare = optional_package("onnxruntime.quantization.shape_inference", "onnx").quant_pre_process
    prepare(model, str(into), skip_symbolic_shape=True)
    return into


class _CalibrationInputs:
    """The cases in the form that onnxruntime's calibration expects: one at a time, then None."""

    def __init__(self, system: Onnx, source: Source, cases: int) -> None:
        self.read = 0
        self.batches = self._batches(system, source, cases)

    def get_next(self) -> dict[str, Array] | None:
        """The next input by name, or None."""
        return next(self.batches, None)

    def _batches(self, system: Onnx, source: Source, cases: int) -> Iterator[dict[str, Array]]:
        engine: Any = system.engine
        keys, reason = source.keys(), "the source has no cases"
        for key in keys[:: max(1, len(keys) // cases)]:
            try:
                numbers = engine.as_input(system.preprocessing(source[key]).numbers)
            except UnreadableCase as error:
                reason = str(error)
                continue
            self.read += 1
            yield {engine.input.name: np.repeat(numbers[None], engine.batch or 1, axis=0)}
        if not self.read:
            raise InputError(f"{system.model}: cannot be quantised: no case of the source can be read: {reason}")
