"""The run of one system, by arm: how far each follow-up misled it, and how similar the picture looked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from swerve.analysis.angles import Angles, angles_of
from swerve.analysis.statistics import Estimate, paired_bootstrap
from swerve.core.relation import Status
from swerve.experiments import Results, SubjectRuns
from swerve.experiments.iatg.arms import Arm, arms
from swerve.relations.similar import Similar

STEP = "swaps"


class MisledTest(NamedTuple):
    """A judged follow-up: its case and drive, the misleading angle in degrees of the wheel, its similarity, its objects."""

    case: str
    group: str
    degrees: float
    similarity: float
    violated: bool = False
    objects: tuple[int, ...] = ()  # their numbers, where the change names them


class MisledRuns(SubjectRuns):
    """A system with the run of all arms."""

    @cached_property
    def arms(self) -> list[Arm]:
        """What was compared."""
        return list(arms(self.subject.source))

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
        return mean([abs(one.degrees) for one in some]), mean([one.similarity for one in some])

    def pairs(self, arm: Arm, other: Arm) -> list[tuple[MisledTest, MisledTest]]:
        """The follow-ups of the same pictures with the same objects changed."""
        ours, theirs = ({one.case: one for one in self.samples[side.name]} for side in (arm, other))
        return [(one, theirs[case]) for case, one in ours.items() if case in theirs and theirs[case].objects == one.objects]

    def gain(self, arm: Arm, rival: Arm) -> tuple[float | None, Estimate]:
        """The ratio of the mean misleading angles on pictures that both changed, and the paired gap with its interval."""
        ours, theirs = ({one.case: one for one in self.samples[side.name]} for side in (arm, rival))
        both = [case for case in ours if case in theirs]
        first, second = ([abs(side[case].degrees) for case in both] for side in (theirs, ours))
        groups = [ours[case].group or case for case in both]
        gap = paired_bootstrap(first, second, seed=self.setting.seed, groups=groups)
        below = mean(first)
        return (mean(second) or 0.0) / below if below else None, gap


def mean(numbers: Sequence[float]) -> float | None:
    """The mean of the finite numbers; None without any."""
    known = [number for number in numbers if math.isfinite(number)]
    return sum(known) / len(known) if known else None


MisledResults = Results[MisledRuns]
