"""k-multisection coverage (TA-6): how finely the range of each neuron in the profiling run has been visited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swerve.coverage.layers import Reading
from swerve.coverage.profile import Ranges
from swerve.errors import InputError
from swerve.values import Array

CACHED = 1 << 16  # numbers handled at a time: a core's cache holds them with all that is worked out on the way


@dataclass(frozen=True)
class KMNC:
    """`sections` equal parts of each neuron's range, the last one closed; what lies outside is NBC's (D-26)."""

    sections: int = 1000

    short: ClassVar[str] = "KMNC"
    profiled: ClassVar[bool] = True
    varying: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.sections < 1:
            raise InputError(f"KMNC: there must be 1 section or more, got {self.sections}")

    @property
    def regions(self) -> int:
        return self.sections

    def mark(self, reading: Reading, ranges: Ranges, flags: Array) -> None:
        varying = ranges.high > ranges.low
        low, width = np.where(varying, ranges.low, np.inf), np.where(varying, ranges.high - ranges.low, 1.0)
        first = np.arange(len(flags)) * self.sections
        step = max(1, CACHED // len(flags))
        for start in range(0, len(reading.values), step):
            place = self._place(reading.values[start : start + step], low, width)
            inside = (place >= 0) & (place <= self.sections)
            with np.errstate(invalid="ignore"):  # what lies outside may be too large to be a number of sections
                section = np.minimum(place, self.sections - 0.5).astype(np.intp)
            section += first
            flags.reshape(-1)[section[inside]] = True

    def _place(self, values: Array, low: Array, width: Array) -> Array:
        """How many sections lie below each value; minus infinity for a constant neuron, whose `low` is infinite."""
        with np.errstate(over="ignore"):
            # Times k first, in double precision: for single-precision activations this is the true section, edges included.
            place = np.subtract(values, low, dtype=np.float64)
            place *= self.sections
            place /= width
        return np.asarray(place)
