"""k-multisection coverage: how many parts of each neuron's range in the profiling run were reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.coverage.layers import LayerValues
from swerve.coverage.profile import Ranges

CACHED = 1 << 16  # numbers processed at a time, so that all intermediate results fit a core's cache


@dataclass(frozen=True)
class KMNC:
    """`sections` equal parts of each neuron's range in the profiling run; values outside the range are left to NBC.

    The last section includes its upper end, and a value outside the range by no more than rounding is in the section next to
    it.
    """

    # TA-6, D-26

    sections: int = 1000

    short: ClassVar[str] = "KMNC"
    profiled: ClassVar[bool] = True
    varying: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.sections < 1:
            raise InputError(f"KMNC: sections must be at least 1, got {self.sections}")

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
            with np.errstate(over="ignore"):  # a value outside the range may overflow
                # Minus infinity for a constant neuron, whose `low` is infinity.
                over_low = np.subtract(reading.values[rows], low, dtype=np.float64)
                over_high = np.subtract(reading.values[rows], ranges.high, dtype=np.float64)
                inside = (over_low >= -slack[rows]) & (over_high <= slack[rows])
                section = self._section(over_low, width)
            section += first
            flags.reshape(-1)[section[inside]] = True

    def _section(self, place: Array, width: Array) -> Array:
        """The section of a distance above the lowest value; the first or last one for values outside."""
        # Multiply before dividing, in double precision: for single-precision activations of similar size this gives the
        # exact section, also at the edges.
        place *= self.sections
        place /= width
        return np.clip(place, 0, self.sections - 0.5, out=place).astype(np.intp)
