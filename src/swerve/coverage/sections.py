"""k-multisection coverage (TA-6): how finely the range of each neuron in the profiling run has been visited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.coverage.layers import LayerValues
from swerve.coverage.profile import Ranges

CACHED = 1 << 16  # numbers handled at a time: a core's cache holds them with all that is worked out on the way


@dataclass(frozen=True)
class KMNC:
    """`sections` equal parts of each neuron's range, the last one closed; what lies outside is NBC's (D-26).

    A value beyond an end by no more than rounding is in the section at that end.
    """

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

    def mark(self, reading: LayerValues, ranges: Ranges, flags: Array) -> None:
        varying = ranges.high > ranges.low
        low, width = np.where(varying, ranges.low, np.inf), np.where(varying, ranges.high - ranges.low, 1.0)
        first = np.arange(len(flags)) * self.sections
        slack = reading.slack()[:, None]
        step = max(1, CACHED // len(flags))
        for start in range(0, len(reading.values), step):
            rows = slice(start, start + step)
            with np.errstate(over="ignore"):  # what lies outside may be too large to be a number of sections
                # Minus infinity for a constant neuron, whose `low` is infinite.
                over_low = np.subtract(reading.values[rows], low, dtype=np.float64)
                over_high = np.subtract(reading.values[rows], ranges.high, dtype=np.float64)
                inside = (over_low >= -slack[rows]) & (over_high <= slack[rows])
                section = self._section(over_low, width)
            section += first
            flags.reshape(-1)[section[inside]] = True

    def _section(self, place: Array, width: Array) -> Array:
        """The section at a place above the lowest value; the first or the last one for what lies outside."""
        # Times k first, in double precision: for single-precision activations of like size this is the true section, edges
        # included.
        place *= self.sections
        place /= width
        return np.clip(place, 0, self.sections - 0.5, out=place).astype(np.intp)
