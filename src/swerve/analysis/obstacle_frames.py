"""What happened to the obstacles of a frame, by the facts of its verdict: numbers before and after, lost, moved, gained."""
# LM-6 to LM-8

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swerve.core.case import Case, Fact
from swerve.core.encode import decode_values
from swerve.core.relation import Pair
from swerve.core.system import Answer
from swerve.core.transformation import Unchanged
from swerve.core.values import Boxes3D, Region, find
from swerve.relations.obstacles import ALL, boxes_of, labelled
from swerve.relations.sets import MISSING as FORBIDDEN
from swerve.relations.sets import Superset, rows_fact

MISSING = "missing"  # lost, of another type or moved: what the subset relation forbids
REAL = "lost_real"  # needs labels


@dataclass(frozen=True, eq=False)
class Frame:
    """A frame before and after: the counts of its verdict, in total and per type, of obstacles that touch the region."""

    case: str
    facts: Mapping[str, Fact]  # `before`, `after`, `lost`, `lost.car`, …; with labels also `lost_real`
    changed: bool  # whether the two answers differ in any bit

    @classmethod
    def of(cls, case: str, before: Answer, after: Answer, truth: Answer, region: Region | None) -> Frame:
        """The frame of two answers for which no verdict was recorded."""
        alone = Case(case, {} if region is None else {"region": region})
        facts = Superset().check(Pair(alone, alone, Unchanged(), before, after)).facts
        return cls(case, {**facts, **_real(facts, before, truth)}, tuple(before) != tuple(after))

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Frame:
        """The frame of a judged trial."""
        real = _real(row["facts"], decode_values(row["before"]), decode_values(row["truth"]))
        return cls(row["case"], {**row["facts"], **real}, row["before"] != row["after"])

    @property
    def labelled(self) -> bool:
        """Whether the frame has labels."""
        return REAL in self.facts

    def count(self, name: str, kind: str = ALL) -> int:
        """A count of the verdict, such as `before`, `lost` or `missing`, of all obstacles or of one type."""
        if name == MISSING:
            return sum(self.count(one, kind) for one in FORBIDDEN)
        return int(self.facts.get(name if kind == ALL else f"{name}.{kind}", 0.0))

    def outcome(self, kind: str = ALL) -> str:
        """`lost` if there are fewer than before, `gained` if there are more, else `equal`: the paper's columns."""
        before, after = self.count("before", kind), self.count("after", kind)
        return "lost" if after < before else "gained" if after > before else "equal"


def _real(facts: Mapping[str, Fact], before: Answer, truth: Answer) -> dict[str, float]:
    """How many of the lost obstacles are labelled, in total and per type; nothing without labels."""
    labels = find(truth, Boxes3D.slot)
    if not isinstance(labels, Boxes3D):
        return {}
    lost, boxes = str(facts.get(rows_fact("lost"), "")).split(), boxes_of(before)
    on_label = labelled(boxes, labels) if lost else ()
    kinds = Counter(boxes.kinds[row].casefold() for row in map(int, lost) if on_label[row])
    return {REAL: float(kinds.total()), **{f"{REAL}.{kind}": float(count) for kind, count in kinds.items()}}


def struck(frames: Sequence[Frame], fate: str, kind: str = ALL) -> int:
    """The number of frames in which any obstacle has an outcome."""
    return sum(frame.count(fate, kind) > 0 for frame in frames)
