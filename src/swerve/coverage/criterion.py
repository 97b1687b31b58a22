"""What a criterion is, and how far one has come: coverage as a value that grows by union alone."""

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
    """A number of regions per neuron, and a rule for when an input covers one."""

    short: ClassVar[str]  # its name in the literature
    profiled: ClassVar[bool]  # whether it needs the ranges of a profiling run
    varying: ClassVar[bool]  # whether neurons that never varied in that run are left out

    @property
    def regions(self) -> int:
        """How many regions each neuron has."""

    def mark(self, reading: LayerValues, ranges: Ranges, flags: Array) -> None:
        """Set `flags` (neurons x regions) where a row of `reading` covers the region; `ranges` are of these neurons."""


class CoverageCount(NamedTuple):
    """Covered regions out of all."""

    covered: int
    total: int

    @property
    def share(self) -> float:
        """Covered divided by total."""
        return self.covered / self.total if self.total else 0.0


@dataclass(frozen=True)
class Coverage:
    """What of a criterion's regions is covered so far; every change gives a new value, so a snapshot costs nothing."""

    criterion: Criterion
    layout: Layout
    profile: Profile | None
    bits: Bits

    @property
    def covered(self) -> int:
        """How many regions are covered."""
        return len(self.bits)

    @property
    def total(self) -> int:
        """How many regions there are, those of excluded neurons left out."""
        return self.count().total

    def count(self, under: str = "") -> CoverageCount:
        """Covered and total regions, overall or of one sub-model (DT-3)."""
        chosen = self.layout.members(under)
        # Left-out neurons never have a bit, so only the total has to know of them.
        covered = self.bits.flags().reshape(-1, self.criterion.regions)[chosen].sum()
        return CoverageCount(int(covered), int((chosen & ~self._left_out()).sum()) * self.criterion.regions)

    def excluded(self) -> list[tuple[str, int]]:
        """Layer and number of every neuron that this criterion cannot count, as it never varied (D-26)."""
        return [self.layout.place_of(int(neuron)) for neuron in np.flatnonzero(self._left_out())]

    def _left_out(self) -> Array:
        if self.profile is None or not self.criterion.varying:
            return np.zeros(self.layout.neurons, bool)
        return self.profile.ranges.constant()

    def touched(self, traced: Traced) -> Bits:
        """Every region that some input of the batch covers."""
        return self._touched(traced, None)

    def each(self, traced: Traced) -> list[Bits]:
        """The regions that each input of the batch covers, by itself; none for one that is not finite."""
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

    def deltas(self, traced: Traced) -> list[Bits]:
        """The regions that each input would add if it came alone."""
        return [touched - self.bits for touched in self.each(traced)]

    def record(self, traced: Traced) -> Coverage:
        """This coverage and all that the batch covers."""
        return self | self.touched(traced)

    def __or__(self, other: Bits | Coverage) -> Coverage:
        if isinstance(other, Bits):
            return replace(self, bits=self.bits | other)
        for what in ("criterion", "layout", "profile"):
            if getattr(self, what) != getattr(other, what):
                raise InputError(f"coverage merges with coverage of the same {what}, and these differ in it")
        return self | other.bits


def start(criterion: Criterion, layout: Layout, profile: Profile | None = None) -> Coverage:
    """Nothing covered yet; a criterion that compares with what was seen before needs a profile of the same layout."""
    if criterion.profiled and profile is None:
        raise InputError(f"{criterion.short} compares with a profiling run: give it measure(system, source, layout)")
    if profile is not None and profile.layout != layout:
        raise InputError(f"{criterion.short}: the profile is of other layers or counting; measure it with this layout")
    bits = Bits.none(layout.neurons * criterion.regions)
    return Coverage(criterion, layout, profile if criterion.profiled else None, bits)
