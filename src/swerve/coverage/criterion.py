"""Coverage criteria, and coverage as an immutable value that grows only by union."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from swerve.core.errors import InputError
from swerve.core.system import Traced
from swerve.core.values import Array
from swerve.coverage.bits import Bits
from swerve.coverage.layers import LayerValues, Layout
from swerve.coverage.profile import Profile, Ranges


class Criterion(Protocol):
    """Defines the regions of a neuron and when an input covers one."""

    short: ClassVar[str]  # its name in the literature
    profiled: ClassVar[bool]  # whether it needs the ranges of a profiling run
    varying: ClassVar[bool]  # whether neurons that were constant in that run are excluded

    @property
    def regions(self) -> int:
        """The number of regions per neuron."""

    def mark(self, reading: LayerValues, ranges: Ranges, flags: Array) -> None:
        """Set `flags` (neurons x regions) where a row of `reading` covers the region; `ranges` belong to these neurons."""


class CoverageCount(NamedTuple):
    """The number of covered regions and of all regions."""

    covered: int
    total: int

    @property
    def share(self) -> float:
        """Covered divided by total."""
        return self.covered / self.total if self.total else 0.0


@dataclass(frozen=True)
class Coverage:
    """The regions of a criterion covered so far; immutable, so a snapshot costs nothing."""

    criterion: Criterion
    layout: Layout
    profile: Profile | None
    bits: Bits

    @property
    def covered(self) -> int:
        """The number of covered regions."""
        return len(self.bits)

    @property
    def total(self) -> int:
        """The number of regions, without those of excluded neurons."""
        return self.count().total

    def count(self, under: str = "") -> CoverageCount:
        """Covered and total regions, overall or of one sub-model."""  # DT-3
        chosen = self.layout.members(under)
        # Excluded neurons never have a bit, so only the total has to exclude them.
        covered = self.bits.flags().reshape(-1, self.criterion.regions)[chosen].sum()
        return CoverageCount(int(covered), int((chosen & ~self._excluded_mask()).sum()) * self.criterion.regions)

    def excluded(self) -> list[tuple[str, int]]:
        """Layer and index of every neuron that is not counted, as it was constant in the profiling run."""  # D-26
        return [self.layout.place_of(int(neuron)) for neuron in np.flatnonzero(self._excluded_mask())]

    def _excluded_mask(self) -> Array:
        if self.profile is None or not self.criterion.varying:
            return np.zeros(self.layout.neurons, bool)
        return self.profile.ranges.constant()

    def touched(self, traced: Traced) -> Bits:
        """The regions covered by any input of the batch."""
        return self._touched(traced, None)

    def each(self, traced: Traced) -> list[Bits]:
        """The regions covered by each input on its own; none for an input with activations that are not finite."""
        return [self._touched(traced, index) for index in range(self.layout.inputs(traced))]

    def _touched(self, traced: Traced, only: int | None) -> Bits:
        flags = np.zeros((self.layout.neurons, self.criterion.regions), bool)
        ranges = self.profile.ranges if self.profile else Ranges.none(self.layout.neurons)
        for part in self.layout.read(traced, only):
            for reading in part:
                self.criterion.mark(reading, ranges.of(reading.neurons), flags[reading.neurons])
        return Bits.where(flags)

    def delta(self, traced: Traced) -> Bits:
        """The regions that the batch would add; nothing is recorded."""
        return self.touched(traced) - self.bits

    def record(self, traced: Traced) -> Coverage:
        """This coverage extended by the batch."""
        return self | self.touched(traced)

    def __or__(self, other: Bits | Coverage) -> Coverage:
        if isinstance(other, Bits):
            return replace(self, bits=self.bits | other)
        for what in ("criterion", "layout", "profile"):
            if getattr(self, what) != getattr(other, what):
                raise InputError(f"coverage can only be merged with coverage of the same {what}")
        return self | other.bits


def start(criterion: Criterion, layout: Layout, profile: Profile | None = None) -> Coverage:
    """Empty coverage; a criterion that compares with a profiling run needs a profile of the same layout."""
    if criterion.profiled and profile is None:
        raise InputError(
            f"{criterion.short} needs a profile of the activations: pass the result of measure(system, source, layout)"
        )
    if profile is not None and profile.layout != layout:
        raise InputError(
            f"{criterion.short}: the profile was measured with other layers or another counting; "
            f"measure it again with this layout"
        )
    bits = Bits.none(layout.neurons * criterion.regions)
    return Coverage(criterion, layout, profile if criterion.profiled else None, bits)
