"""Boundary coverage: neurons driven outside their range in the profiling run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swerve.core.values import Array
from swerve.coverage.layers import LayerValues
from swerve.coverage.profile import Ranges


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
