"""The range of every neuron over a profiling run (TA-5), kept in a file that knows what it was measured on."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from safetensors.numpy import load as tensors_in
from safetensors.numpy import save as bytes_of

from swerve.core.case import Case, Source
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.system import System, Traced
from swerve.core.values import Array
from swerve.coverage.layers import CoverageWarning, Layout, white
from swerve.store.files import write_whole

FORMAT = "swerve coverage profile 1"


@dataclass(frozen=True, eq=False)
class Ranges:
    """The lowest and the highest value of each neuron."""

    low: Array
    high: Array

    @classmethod
    def none(cls, neurons: int) -> Ranges:
        """The ranges of neurons that have said nothing yet."""
        return cls(np.full(neurons, np.inf), np.full(neurons, -np.inf))

    def of(self, neurons: slice) -> Ranges:
        """Those of some neurons."""
        return Ranges(self.low[neurons], self.high[neurons])

    def constant(self) -> Array:
        """Which neurons have said the same all the time."""
        return np.asarray(self.low == self.high)

    def widened(self, layout: Layout, traced: Traced) -> tuple[Ranges, int]:
        """The ranges with a batch taken in, and how many of its inputs were sound."""
        low, high, sound = self.low.copy(), self.high.copy(), 0
        for part in layout.read(traced):
            sound += part[0].inputs
            for reading in part:
                place = reading.neurons
                low[place] = np.minimum(low[place], reading.values.min(axis=0))
                high[place] = np.maximum(high[place], reading.values.max(axis=0))
        return Ranges(low, high), sound

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)


@dataclass(frozen=True)
class Profile:
    """Ranges, and the system, source and layers they were measured on."""

    layout: Layout
    ranges: Ranges
    inputs: int
    system: str  # fingerprints
    source: str

    def save(self, path: Path) -> None:
        """Write the profile, whole or not at all."""
        told = {"format": FORMAT, "inputs": self.inputs, **_bound(self.system, self.source, self.layout)}
        # One entry only: safetensors writes several in any order, and the same profile must be the same bytes.
        write_whole(path, bytes_of({"low": self.ranges.low, "high": self.ranges.high}, {"swerve": json.dumps(told)}))


def _bound(system: str, source: str, layout: Layout) -> dict[str, str]:
    return {"system": system, "source": source, "layers": layout.fingerprint()}


def measure(system: System, source: Source, layout: Layout, *, batch: int = 32) -> Profile:
    """The ranges of every neuron over `source`, one pass in batches; cases that do not read are left out with a warning."""
    box, ranges, inputs = white(system), Ranges.none(layout.neurons), 0
    torn: list[UnreadableCase] = []
    for cases in _batches(source, batch, torn):
        ranges, sound = ranges.widened(layout, box.trace(cases, layout.names))
        inputs += sound
    left_out = f"{len(torn)} of {len(source.keys())} cases of {type(source).__name__} do not read"
    if not inputs:
        raise InputError(f"no case of {type(source).__name__} gave finite activations to profile; {left_out}")
    if torn:
        warnings.warn(f"{left_out} and are not in the profile; the first: {torn[0]}", CoverageWarning, stacklevel=2)
    return Profile(layout, ranges, inputs, system.fingerprint(), source.fingerprint())


def _batches(source: Source, size: int, torn: list[UnreadableCase]) -> Iterator[Sequence[Case]]:
    held: list[Case] = []
    for key in source.keys():
        try:
            held.append(source[key])
        except UnreadableCase as error:
            torn.append(error)
            continue
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held


def load(path: Path, *, system: System, source: Source, layout: Layout) -> Profile:
    """The profile in a file; raises `InputError` unless it was measured on this system, source and layout."""
    told, tensors = _read(path)
    now = _bound(system.fingerprint(), source.fingerprint(), layout)
    stale = [
        f"{what} sha {str(told.get(what))[:8]} then, {now[what][:8]} now" for what in now if told.get(what) != now[what]
    ]
    if stale:
        raise InputError(f"{path}: this profile was measured on something else: {'; '.join(stale)}; measure it again")
    ranges = Ranges(tensors["low"], tensors["high"])
    if not ranges.low.shape == ranges.high.shape == (layout.neurons,):
        raise InputError(f"{path}: no coverage profile: it holds {ranges.low.size} neurons, expected {layout.neurons}")
    if not (np.isfinite([ranges.low, ranges.high]).all() and (ranges.low <= ranges.high).all()):
        raise InputError(f"{path}: no coverage profile: a bound is not finite, or a low one above its high one")
    inputs = told.get("inputs")
    if not isinstance(inputs, int) or inputs < 1:
        raise InputError(f"{path}: no coverage profile: 'inputs' must say over how many it was measured, got {inputs!r}")
    return Profile(layout, ranges, inputs, now["system"], now["source"])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            told = json.loads((file.metadata() or {}).get("swerve", "{}"))
        tensors = tensors_in(path.read_bytes())
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise InputError(f"{path}: no coverage profile: {error}") from error
    if not isinstance(told, dict) or told.get("format") != FORMAT or set(tensors) != {"low", "high"}:
        raise InputError(f"{path}: no coverage profile: expected a safetensors file of format '{FORMAT}'")
    return told, tensors
