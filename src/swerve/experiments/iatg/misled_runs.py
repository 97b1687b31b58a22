"""The run of one system, by arm: how far each follow-up misled it, and how similar the picture looked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from swerve.analysis.angles import Angles, angles_of
from swerve.analysis.misleading import departure_words, seconds_to_departure_at_wheel
from swerve.analysis.statistics import Estimate, paired_bootstrap, ratio_of_means
from swerve.core.asset import Asset
from swerve.core.relation import Status
from swerve.experiments import Results, SubjectRuns
from swerve.experiments.iatg.arms import Arm, arms, is_world
from swerve.relations.similar import Similar
from swerve.translation.packaged import PAINTER, is_packaged, packaged_painter

STEP = "swaps"


class MisledTest(NamedTuple):
    """A judged follow-up: its case and drive, the misleading angle in degrees of the wheel, its similarity, its objects."""

    case: str
    group: str
    degrees: float
    similarity: float
    violated: bool = False
    objects: tuple[int, ...] = ()  # their numbers, where the change names them


def distance(test: MisledTest) -> float:
    """The misleading angle without its sign."""
    return abs(test.degrees)


def similarity(test: MisledTest) -> float:
    """How similar the follow-up looks."""
    return test.similarity


Measure = Callable[[MisledTest], float]


class Gain(NamedTuple):
    """The ratio of two means, and the mean of the paired differences, each with a 95% interval."""

    ratio: Estimate
    gap: Estimate


class MisledRuns(SubjectRuns):
    """A system with the run of all arms."""

    @cached_property
    def painter(self) -> Asset | None:
        """What draws objects from label maps: the given one; for the embedded world, the packaged one if it is trained."""
        if given := self.setting.options["painter"]:
            return Asset(Path(given))
        return packaged_painter() if is_world(self.subject.source) and is_packaged(PAINTER) else None

    @cached_property
    def arms(self) -> list[Arm]:
        """What was compared."""
        return list(arms(self.subject.source, painted=self.painter is not None))

    def departure(self, degrees: float) -> str:
        """When a car whose wheel is turned so far from where it should be has left its lane, in words."""
        ratio = getattr(getattr(self.subject.system, "convention", None), "ratio", None)
        return departure_words(seconds_to_departure_at_wheel(degrees, ratio))

    @cached_property
    def angles(self) -> Angles:
        """The answers to all follow-ups."""
        return angles_of(self.runs[STEP].trials())

    @cached_property
    def samples(self) -> Mapping[str, list[MisledTest]]:
        """The judged follow-ups of every rule."""
        fact = Similar(self.setting.options["similarity"]).fact
        found: dict[str, list[MisledTest]] = {arm.name: [] for arm in self.arms}
        groups = {seen.case: seen.group for seen in self.baseline}
        for row in self.runs[STEP].trials():
            one = angles_of([row])
            if one.count:
                moved = math.degrees(float(one.after[0] - one.before[0]))
                known = float(row["facts"].get(fact, math.nan))
                where, objects = (row["case"], groups.get(row["case"], "")), row["change"].get("things", ())
                violated = row["status"] == Status.VIOLATED.value
                found[row["rule"]].append(MisledTest(*where, moved, known, violated, tuple(sorted(objects))))
        return found

    def means(self, arm: Arm) -> tuple[float | None, float | None]:
        """The mean absolute misleading angle of an arm, and its mean similarity."""
        some = self.samples[arm.name]
        return mean(list(map(distance, some))), mean(list(map(similarity, some)))

    def pairs(self, arm: Arm, other: Arm) -> list[tuple[MisledTest, MisledTest]]:
        """The follow-ups of the same pictures with the same objects changed."""
        ours, theirs = ({one.case: one for one in self.samples[side.name]} for side in (arm, other))
        return [(one, theirs[case]) for case, one in ours.items() if case in theirs and theirs[case].objects == one.objects]

    def gain(self, arm: Arm, rival: Arm, of: Measure = distance) -> Gain:
        """How a measure of an arm compares with that of a rival, on pictures that both changed; drives are resampled."""
        ours, theirs = ({one.case: one for one in self.samples[side.name]} for side in (arm, rival))
        both = [case for case in ours if case in theirs]
        first, second = ([of(side[case]) for case in both] for side in (theirs, ours))
        groups, seed = [ours[case].group or case for case in both], self.setting.seed
        return Gain(
            ratio_of_means(first, second, seed=seed, groups=(groups, groups)),
            paired_bootstrap(first, second, seed=seed, groups=groups),
        )


def mean(numbers: Sequence[float]) -> float | None:
    """The mean of the finite numbers; None without any."""
    known = [number for number in numbers if math.isfinite(number)]
    return sum(known) / len(known) if known else None


MisledResults = Results[MisledRuns]
