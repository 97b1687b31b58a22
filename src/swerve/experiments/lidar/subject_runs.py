"""One system under test with its series, and what happened to the obstacles of every frame, read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from swerve.core.campaign import Observation
from swerve.core.encode import decode_values
from swerve.core.region import region_of
from swerve.core.relation import Status
from swerve.core.system import Answer, System
from swerve.core.values import Boxes3D, Region, Value, find
from swerve.experiments.subjects import Subject
from swerve.methods.lidar import SERIES, rule_name
from swerve.relations.obstacles import Changes, ObstacleCount, changes, count_obstacles, in_region, labelled
from swerve.store.view import Run

NEAR = 5.0  # metres from the border
ANYWHERE, CLOSE = "anywhere", f"within {NEAR:g} m"
PLACEMENTS: Mapping[str, float | None] = {ANYWHERE: None, CLOSE: NEAR}
NOTHING = "none (A/A)"
Trial = Mapping[str, Any]  # a row of the journal
JUDGED = (Status.HELD.value, Status.VIOLATED.value)


@dataclass(frozen=True, eq=False)
class Frame:
    """A frame before and after: the number of obstacles of each type, and what happened to each.

    Obstacles that do not touch the region have `care` False: they are neither required nor forbidden.
    """

    case: str
    before: Boxes3D
    after: Boxes3D
    truth: Value | None = None
    changed: bool = False  # whether the two answers differ in any bit

    @classmethod
    def of(cls, case: str, before: Answer, after: Answer, truth: Answer, region: Region | None) -> Frame:
        """The frame of two answers."""
        first, second = (in_region(boxes_of(answer), region) for answer in (before, after))
        return cls(case, first, second, find(truth, Boxes3D.slot), tuple(before) != tuple(after))

    @property
    def labelled(self) -> bool:
        """Whether the frame has labels."""
        return isinstance(self.truth, Boxes3D)

    @cached_property
    def counts(self) -> Mapping[str, ObstacleCount]:
        """The numbers of all obstacles and of each type."""  # LM-6, LM-8
        return count_obstacles(self.before, self.after)

    @cached_property
    def changes(self) -> Changes:
        """Which obstacles are kept, lost, of another type, moved or gained."""  # LM-7
        return changes(self.before, self.after)

    @cached_property
    def facts(self) -> Mapping[str, float]:
        """The same in numbers: `lost`, `lost.car`, …; with labels also `lost_real`, the labelled ones among the lost."""
        if not self.labelled:
            return self.changes.counts()
        real = labelled(self.before, self.truth)
        kinds = Counter(self.before.kinds[row].casefold() for row in self.changes.lost if real[row])
        real_ones = {f"lost_real.{kind}": float(kinds[kind]) for kind in kinds}
        return {**self.changes.counts(), "lost_real": float(kinds.total()), **real_ones}


@dataclass(frozen=True, eq=False)
class LidarRuns:
    """A subject and its runs: points anywhere outside, points near the border, and the search for the fewest."""

    subject: Subject
    runs: Mapping[str, Run]  # by placement
    fuzzed: Run | None = None

    @property
    def name(self) -> str:
        """The system's name."""
        return self.subject.name

    @property
    def safe(self) -> bool:
        """Whether no point outside the region can have an effect on the system, by construction."""
        return is_safe(self.subject.system)

    @cached_property
    def regions(self) -> Mapping[str, Region | None]:
        """The region of every case that was answered."""
        answered = {seen.case for run in self.runs.values() for seen in run.baseline() if not seen.fault}
        return {key: region_of(self.subject.source[key]) for key in self.subject.source.keys() if key in answered}

    @cached_property
    def series(self) -> Mapping[tuple[str, int], list[Frame]]:
        """The judged frames of every placement and n."""
        found: dict[tuple[str, int], list[Frame]] = {(placement, n): [] for placement in self.runs for n in SERIES}
        for placement, run in self.runs.items():
            numbers = {rule_name(n, PLACEMENTS[placement]): n for n in SERIES}
            for rule, frame in frames_of(run, self.regions):
                found[placement, numbers[rule]].append(frame)
        return found

    @cached_property
    def again(self) -> list[Frame]:
        """A/A: the untouched frames, answered once in each run."""  # X-12, D-20
        first, second = ({seen.case: seen for seen in run.baseline()} for run in self.runs.values())
        return [
            Frame.of(case, seen.said, second[case].said, seen.truth, self.regions[case])
            for case, seen in first.items()
            if case in second and not seen.fault and not second[case].fault
        ]

    @cached_property
    def unjudged(self) -> int:
        """Trials that were skipped or failed."""
        return sum(row["status"] not in JUDGED for run in self.runs.values() for row in run.trials())

    @cached_property
    def baseline(self) -> list[Observation]:
        """The untouched frames that the system answered."""
        return [seen for seen in next(iter(self.runs.values())).baseline() if not seen.fault]


def is_safe(system: System) -> bool:
    """Whether no point outside the region can have an effect on a system, by construction."""
    return bool(getattr(system, "roi_first", False))


def frames_of(run: Run, regions: Mapping[str, Region | None]) -> Iterator[tuple[str, Frame]]:
    """The judged frames with the rule of each, in the journal's order."""
    for row in run.trials():
        if row["status"] in JUDGED:
            before, after, truth = (decode_values(row[name]) for name in ("before", "after", "truth"))
            yield row["rule"], Frame.of(row["case"], before, after, truth, regions.get(row["case"]))


def boxes_of(answer: Answer) -> Boxes3D:
    """The obstacles of an answer."""
    found = find(answer, Boxes3D.slot)
    assert isinstance(found, Boxes3D)
    return found
