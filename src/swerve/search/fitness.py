"""The fitness of a condition in TACTIC: what it newly covers, and how far it moves the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from swerve.core.campaign import CoverageMeter, Gain, MergingMeter, Record
from swerve.core.errors import InputError
from swerve.core.system import Answer
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Signal, Steering, find

REFUSED = 0.0  # how far a scene without an answer counts as moved, so that hiding the road never pays


def norm(divergence: float) -> float:
    """x/(x + 1), which maps any divergence to less than 1."""  # TA-13
    return divergence / (divergence + 1)


@dataclass(frozen=True)
class Quantity:
    """The number of an answer that conditions are to move: the steering angle in radians, or a signal."""

    signal: str = ""

    def of(self, answer: Answer) -> float | None:
        """Its value in an answer; None for no answer."""
        found = find(answer, Signal.slot, self.signal) if self.signal else find(answer, Steering.slot)
        if isinstance(found, Steering):
            return math.radians(found.degrees)  # D-14: in degrees, norm() would be saturated
        return found.value if isinstance(found, Signal) else None

    def moved(self, record: Record) -> float | None:
        """How far a change moved it; None for a follow-up that has no answer."""
        before, after = self.of(record.before), self.of(record.after)
        return None if before is None or after is None else abs(after - before)

    def require(self, answer: Answer) -> None:
        """Refuse a system whose answers do not have it."""
        if self.of(answer) is None:
            what = f"the signal '{self.signal}'" if self.signal else "a steering angle"
            raise InputError(f"the search for conditions needs a system that answers with {what}")


@dataclass
class Candidate:
    """A condition that was tried: how far it moved each scene so far, and what it covers that was not covered before."""

    vector: Array
    change: Transformation
    draw: int
    moved: list[float] = field(default_factory=list)
    refused: int = 0
    judged: list[bool] = field(default_factory=list)  # whether each scene was admitted and answered
    gain: Gain = field(default_factory=dict)

    def add(self, records: Sequence[Record], quantity: Quantity, gain: Gain) -> None:
        """Add the records of further scenes; `gain` is what this condition covers now."""
        distances = [quantity.moved(record) for record in records]
        self.refused += sum(distance is None for distance in distances)
        self.judged += [distance is not None for distance in distances]
        self.moved += [REFUSED if distance is None else distance for distance in distances]
        self.gain = gain

    def answered(self, count: int) -> list[float]:
        """How far it moved those of the first `count` scenes that were admitted and answered."""
        return [moved for moved, judged in zip(self.moved[:count], self.judged, strict=False) if judged]


@dataclass(frozen=True)
class Fitness:
    """F = w_c·F_c + w_d·norm(F_d), and its parts (TA-11 to TA-13)."""

    coverage: float  # F_c: newly covered regions as a share of those not covered before
    divergence: float  # F_d: the mean over all scenes
    total: float  # F

    @property
    def coverage_share(self) -> float:
        """The part of the fitness that coverage contributes."""  # D-35
        return 1 - norm(self.divergence) / self.total if self.total else 0.0


@dataclass(frozen=True)
class Weights:
    """The weights of coverage and divergence."""

    coverage: float = 1.0
    divergence: float = 1.0

    def fitness(self, coverage: float, divergence: float) -> Fitness:
        """The fitness made of its two parts."""
        return Fitness(coverage, divergence, self.coverage * coverage + self.divergence * norm(divergence))


@dataclass
class CoveredSoFar:
    """The regions of one criterion that the scenes and the conditions found so far cover; nothing without a meter."""

    meter: CoverageMeter | None
    gain: Gain = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.meter is not None and len(self.meter.counts(self.gain)) > 1:
            raise InputError("the search for conditions follows one coverage criterion: give exactly one in [coverage]")

    def with_gain(self, gain: Gain) -> Gain:
        """These regions and those of `gain`."""
        return self.meter.joined([self.gain, gain]) if self.meter else {}

    def add(self, gain: Gain) -> None:
        """Count the regions of `gain` as covered from now on."""
        self.gain = self.with_gain(gain)

    def new_share(self, gain: Gain) -> float:
        """The regions of `gain` that are not covered yet, as a share of all that are not."""
        if self.meter is None or not gain:
            return 0.0
        assert isinstance(self.meter, MergingMeter)
        new, covered, total = self._count(self.meter.beyond(gain, self.gain)), *self.counts()
        return new / (total - covered) if total > covered else 0.0  # D-25: nothing left to cover

    def counts(self) -> tuple[int, int]:
        """The number of covered regions and of all."""
        found = self.meter.counts(self.gain).values() if self.meter else ()
        return next(((count["covered"], count["total"]) for count in found), (0, 0))

    def share(self) -> float | None:
        """The share of all regions that is covered; None without a meter."""
        covered, total = self.counts()
        return covered / total if total else None

    def _count(self, gain: Gain) -> int:
        assert self.meter is not None
        return sum(count["covered"] for count in self.meter.counts(gain).values())


def fitness_of(candidate: Candidate, so_far: CoveredSoFar, weights: Weights) -> Fitness:
    """The fitness of a candidate on the scenes that it was tried on."""
    return weights.fitness(so_far.new_share(candidate.gain), float(np.mean(candidate.moved)))
