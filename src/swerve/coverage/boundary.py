"""Boundary coverage (TA-7): neurons driven beyond anything they said in the profiling run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from swerve.coverage.layers import Reading
from swerve.coverage.profile import Ranges
from swerve.values import Array

# Some input lies above the range if the largest does, so a batch is reduced to its extremes before it is compared.


@dataclass(frozen=True)
class NBC:
    """Two regions per neuron: strictly below the lowest value of the profiling run, and strictly above the highest."""

    short: ClassVar[str] = "NBC"
    profiled: ClassVar[bool] = True
    varying: ClassVar[bool] = False
    regions: ClassVar[int] = 2

    def mark(self, reading: Reading, ranges: Ranges, flags: Array) -> None:
        flags[:, 0] |= reading.values.min(axis=0) < ranges.low
        flags[:, 1] |= reading.values.max(axis=0) > ranges.high


@dataclass(frozen=True)
class SNAC:
    """Strong activation: strictly above the highest value of the profiling run."""

    short: ClassVar[str] = "SNAC"
    profiled: ClassVar[bool] = True
    varying: ClassVar[bool] = False
    regions: ClassVar[int] = 1

    def mark(self, reading: Reading, ranges: Ranges, flags: Array) -> None:
        flags[:, 0] |= reading.values.max(axis=0) > ranges.high
