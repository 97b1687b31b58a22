"""Relations between sets of objects."""

from __future__ import annotations

from dataclasses import dataclass

from swerve.relation import Algebra, Pair, Verdict
from swerve.system import Answer
from swerve.values import Boxes2D, Boxes3D, find


@dataclass(frozen=True)
class NoFewer(Algebra):
    """The follow-up has at least as many objects as the source (LM-6), counting those one cares about."""

    slot: str = Boxes3D.slot

    def __post_init__(self) -> None:
        if self.slot not in (Boxes2D.slot, Boxes3D.slot):
            raise ValueError(f"slot must be '{Boxes2D.slot}' or '{Boxes3D.slot}', got {self.slot!r}")

    def check(self, pair: Pair) -> Verdict:
        before, after = self._count(pair.expected), self._count(pair.after)
        if before is None or after is None:
            return Verdict.error(f"the system said no {self.slot}")
        return Verdict.at_least(after, before, f"{before} objects before, {after} after")

    def _count(self, answer: Answer) -> int | None:
        boxes = find(answer, self.slot)
        return int(boxes.care.sum()) if isinstance(boxes, Boxes2D | Boxes3D) and boxes.care is not None else None
