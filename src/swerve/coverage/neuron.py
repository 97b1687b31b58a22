"""Neuron coverage (DeepTest) and top-k neuron coverage: which neurons were active."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swerve.core.arguments import check_whole
from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.coverage.layers import LayerValues
from swerve.coverage.profile import Ranges

CACHED = 1 << 18  # numbers compared at a time
FEW = 8  # with less than 1/8 of the columns left, copying and comparing only those is cheaper than comparing all


@dataclass(frozen=True)
class NC:
    """Neurons whose output, scaled from 0 to 1 over all outputs of their layer for that input, exceeds `threshold`."""

    # DT-6..DT-8

    threshold: float = 0.2

    short: ClassVar[str] = "NC"
    profiled: ClassVar[bool] = False
    varying: ClassVar[bool] = False
    regions: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise InputError(f"NC: threshold must be at least 0 and below 1, got {self.threshold}")

    def mark(self, reading: LayerValues, ranges: Ranges, flags: Array) -> None:
        del ranges
        values, limit = reading.values, self._limit(reading).astype(reading.values.dtype)[:, None]
        step = max(1, CACHED // len(flags))
        for start in range(0, len(values), step):
            # A neuron that was active in an earlier row need not be checked again.
            if FEW * (len(flags) - np.count_nonzero(flags)) < len(flags):
                idle = np.flatnonzero(~flags[:, 0])
                flags[idle, 0] = (values[start:, idle] > limit[start:]).any(axis=0)
                return
            flags[:, 0] |= (values[start : start + step] > limit[start : start + step]).any(axis=0)

    def _limit(self, reading: LayerValues) -> Array:
        """The threshold of each row before scaling; scaling and averaging a feature map commute."""
        # D-4
        low, high = reading.low.astype(np.float64), reading.high.astype(np.float64)
        # Halves first, as the difference of the largest numbers overflows.
        limit = 2 * (low / 2 + self.threshold * (high / 2 - low / 2))
        return np.where(high > low, limit, np.inf)


@dataclass(frozen=True)
class TopK:
    """Neurons that were among the `k` most active of their layer; ties go to the earlier neuron."""

    k: int = 2

    short: ClassVar[str] = "TKNC"
    profiled: ClassVar[bool] = False
    varying: ClassVar[bool] = False
    regions: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_whole("TKNC: k", self.k, 1, error=InputError)

    def mark(self, reading: LayerValues, ranges: Ranges, flags: Array) -> None:
        del ranges
        best = np.argsort(-reading.values, axis=1, kind="stable")[:, : self.k]
        flags[best.ravel(), 0] = True
