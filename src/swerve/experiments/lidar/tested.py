"""One system under test, its series, and what became of every frame's obstacles, read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from swerve.campaign import Observation
from swerve.codec import decode_values
from swerve.experiments.subjects import Subject
from swerve.methods.lidar import SERIES, rule_name
from swerve.relation import Status
from swerve.relations.obstacles import Changes, Count, changes, counted
from swerve.search.fuzz import labelled
from swerve.store import Run
from swerve.system import Answer
from swerve.values import Boxes3D, Value, find

NEAR = 5.0  # metres from the border
ANYWHERE, CLOSE = "anywhere", f"within {NEAR:g} m"
PLACEMENTS: Mapping[str, float | None] = {ANYWHERE: None, CLOSE: NEAR}
NOTHING = "none (A/A)"
Trial = Mapping[str, Any]  # a row of the journal
JUDGED = (Status.HELD.value, Status.VIOLATED.value)


@dataclass(frozen=True, eq=False)
class Frame:
    """A frame before and after: how many obstacles of each type, and what became of each."""

    case: str
    before: Boxes3D
    after: Boxes3D
    truth: Value | None = None

    @cached_property
    def counts(self) -> Mapping[str, Count]:
        """The numbers of all obstacles and of each type (LM-6, LM-8)."""
        return counted(self.before, self.after)

    @cached_property
    def changes(self) -> Changes:
        """Which obstacles are kept, lost, of another type, moved or gained (LM-7)."""
        return changes(self.before, self.after)

    @cached_property
    def facts(self) -> Mapping[str, float]:
        """The same in numbers: `lost`, `lost.car`, …; `lost_real` are those of the lost that a label knows."""
        real = labelled(self.before, self.truth)
        kinds = Counter(self.before.kinds[row].casefold() for row in self.changes.lost if real[row])
        told = {"lost_real": float(kinds.total()), **{f"lost_real.{kind}": float(kinds[kind]) for kind in kinds}}
        return {**self.changes.counts(), **(told if isinstance(self.truth, Boxes3D) else {})}


@dataclass(frozen=True, eq=False)
class Tested:
    """A subject and its runs: points anywhere outside, points near the border, and the search for the fewest."""

    subject: Subject
    runs: Mapping[str, Run]  # by placement
    fuzzed: Run | None = None

    @property
    def name(self) -> str:
        """The system's name."""
        return self.subject.name

    @cached_property
    def series(self) -> Mapping[tuple[str, int], list[Frame]]:
        """The judged frames of every placement and n."""
        return {
            (placement, n): list(frames_of(run, rule_name(n, PLACEMENTS[placement])))
            for placement, run in self.runs.items()
            for n in SERIES
        }

    @cached_property
    def again(self) -> list[Frame]:
        """A/A: the untouched frames, answered once in each run (X-12, D-20)."""
        first, second = ({seen.case: seen for seen in run.baseline()} for run in self.runs.values())
        return [
            Frame(case, boxes_of(seen.said), boxes_of(second[case].said), find(seen.truth, Boxes3D.slot))
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


def frames_of(run: Run, rule: str) -> Iterator[Frame]:
    """The judged frames of a rule, in the journal's order."""
    for row in run.trials():
        if row["rule"] == rule and row["status"] in JUDGED:
            before, after = (boxes_of(decode_values(row[end])) for end in ("before", "after"))
            yield Frame(row["case"], before, after, find(decode_values(row["truth"]), Boxes3D.slot))


def boxes_of(said: Answer) -> Boxes3D:
    """The obstacles of an answer."""
    found = find(said, Boxes3D.slot)
    assert isinstance(found, Boxes3D)
    return found
