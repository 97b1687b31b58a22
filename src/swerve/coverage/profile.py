"""The range of every neuron over a profiling run, stored with the fingerprints of what was measured (TA-5)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from swerve.coverage.layers import CoverageWarning, Layout, as_white_box
from swerve.store.files import write_whole

FORMAT = "swerve coverage profile 1"


@dataclass(frozen=True, eq=False)
class Ranges:
    """The lowest and highest value of each neuron."""

    low: Array
    high: Array

    @classmethod
    def none(cls, neurons: int) -> Ranges:
        """Empty ranges."""
        return cls(np.full(neurons, np.inf), np.full(neurons, -np.inf))

    def of(self, neurons: slice) -> Ranges:
        """The ranges of some neurons."""
        return Ranges(self.low[neurons], self.high[neurons])

    def constant(self) -> Array:
        """Which neurons never varied."""
        return np.asarray(self.low == self.high)

    def widened(self, layout: Layout, traced: Traced) -> tuple[Ranges, int]:
        """The ranges extended by a batch, and how many of its inputs had only finite activations."""
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
    """Ranges, and the layers, system and source they were measured on."""

    layout: Layout
    ranges: Ranges
    inputs: int
    system: str  # fingerprints
    source: str

    def save(self, path: Path) -> None:
        """Write the profile atomically."""
        header = {"format": FORMAT, "inputs": self.inputs, **_fingerprints(self.system, self.source, self.layout)}
        # One metadata entry, as safetensors writes several in any order, and equal profiles must have equal bytes.
        write_whole(path, bytes_of({"low": self.ranges.low, "high": self.ranges.high}, {"swerve": json.dumps(header)}))


def _fingerprints(system: str, source: str, layout: Layout) -> dict[str, str]:
    return {"system": system, "source": source, "layers": layout.fingerprint()}


def measure(system: System, source: Source, layout: Layout, *, batch: int = 32) -> Profile:
    """The range of every neuron over `source`; unreadable cases are excluded with a warning."""
    box, ranges, inputs = as_white_box(system), Ranges.none(layout.neurons), 0
    unreadable: list[UnreadableCase] = []
    for cases in _batches(source, batch, unreadable):
        ranges, sound = ranges.widened(layout, box.trace(cases, layout.names))
        inputs += sound
    excluded = f"{len(unreadable)} of {len(source.keys())} cases of {type(source).__name__} cannot be read"
    if not inputs:
        raise InputError(f"no case of {type(source).__name__} has finite activations to profile; {excluded}")
    if unreadable:
        message = f"{excluded} and are not in the profile; the first: {unreadable[0]}"
        warnings.warn(message, CoverageWarning, stacklevel=2)
    return Profile(layout, ranges, inputs, system.fingerprint(), source.fingerprint())


def _batches(source: Source, size: int, unreadable: list[UnreadableCase]) -> Iterator[Sequence[Case]]:
    batch: list[Case] = []
    for key in source.keys():
        try:
            batch.append(replace(source[key], truth=()))  # systems do not see labels
        except UnreadableCase as error:
            unreadable.append(error)
            continue
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def load(path: Path, *, system: System, source: Source, layout: Layout) -> Profile:
    """The profile in a file; raises `InputError` unless it was measured on this system, source and layout."""
    header, tensors = _read(path)
    now = _fingerprints(system.fingerprint(), source.fingerprint(), layout)
    stale = [
        f"{what} sha {str(header.get(what))[:8]} then, {now[what][:8]} now" for what in now if header.get(what) != now[what]
    ]
    if stale:
        raise InputError(f"{path}: this profile is outdated ({'; '.join(stale)}); measure it again")
    ranges = Ranges(tensors["low"], tensors["high"])
    if not ranges.low.shape == ranges.high.shape == (layout.neurons,):
        raise InputError(f"{path}: not a coverage profile: expected {layout.neurons} neurons, got {ranges.low.size}")
    if not (np.isfinite([ranges.low, ranges.high]).all() and (ranges.low <= ranges.high).all()):
        raise InputError(f"{path}: not a coverage profile: a bound is not finite, or low is above high")
    inputs = header.get("inputs")
    if not isinstance(inputs, int) or inputs < 1:
        raise InputError(f"{path}: not a coverage profile: 'inputs' must be a whole number of at least 1, got {inputs!r}")
    return Profile(layout, ranges, inputs, now["system"], now["source"])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("swerve", "{}"))
        tensors = tensors_in(path.read_bytes())
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise InputError(f"{path}: not a coverage profile: {error}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT or set(tensors) != {"low", "high"}:
        raise InputError(f"{path}: not a coverage profile: expected a safetensors file of format '{FORMAT}'")
    return header, tensors
