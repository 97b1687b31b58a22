"""Criteria that compare activations with their ranges in a profiling run: KMNC inside the ranges, NBC and SNAC outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swerve.core.arguments import check_whole
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
        check_whole("KMNC: sections", self.sections, 1, error=InputError)

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


@dataclass(frozen=True)
class NBC:
    """Two regions per neuron: below the lowest or above the highest value of the profiling run, by more than rounding."""

    # TA-7

    short: ClassVar[str] = "NBC"
    profiled: ClassVar[bool] = True
    varying: ClassVar[bool] = False
    regions: ClassVar[int] = 2

    def mark(self, reading: LayerValues, ranges: Ranges, flags: Array) -> None:
        flags[:, 0] |= _below(reading, ranges.low)
        flags[:, 1] |= _above(reading, ranges.high)


@dataclass(frozen=True)
class SNAC:
    """Strong activation: above the highest value of the profiling run by more than rounding."""

    short: ClassVar[str] = "SNAC"
    profiled: ClassVar[bool] = True
    varying: ClassVar[bool] = False
    regions: ClassVar[int] = 1

    def mark(self, reading: LayerValues, ranges: Ranges, flags: Array) -> None:
        flags[:, 0] |= _above(reading, ranges.high)


def _below(reading: LayerValues, low: Array) -> Array:
    return _beyond(reading, reading.values.min(axis=0), low, -1.0)


def _above(reading: LayerValues, high: Array) -> Array:
    return _beyond(reading, reading.values.max(axis=0), high, 1.0)


def _beyond(reading: LayerValues, furthest: Array, bound: Array, side: float) -> Array:
    """Which neurons exceed `bound` in some row by more than the slack of that row."""
    slack = reading.slack()
    by = side * np.subtract(furthest, bound, dtype=np.float64)
    # The furthest value decides, unless it lies between the smallest and largest slack: then check every row.
    beyond = by > slack.max()
    close = (by > slack.min()) & ~beyond
    by_row = side * np.subtract(reading.values[:, close], bound[close], dtype=np.float64)
    beyond[close] = (by_row > slack[:, None]).any(axis=0)
    return np.asarray(beyond)
