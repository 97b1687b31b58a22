"""Relations between sets of objects: none may be lost when the scene gains what does not hide them (LM-6, LM-7, D-17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from swerve.core.case import Fact
from swerve.core.region import region_of
from swerve.core.relation import Algebra, Pair, Status, Verdict
from swerve.core.values import Boxes2D, Boxes3D, Region, Value, find
from swerve.relations.matching import Boxes, Same
from swerve.relations.obstacles import ALL, SMALL, ObstacleCount, changes, counted, in_region

SLOTS = (Boxes2D.slot, Boxes3D.slot)
DEMANDED = "demanded"  # the fact of how many objects there was to lose: the paper's plain count before the change
IN_REGION_AFTER = "in_region_after"  # the fact of its plain count after it
MISSING = ("lost", "type_changed", "moved")  # what `Superset` forbids
TOLD = ("lost", "type_changed", "moved", "gained")  # LM-7's four kinds


@dataclass(frozen=True)
class _Sets(Algebra):
    """What two sets of boxes are held to, and when two boxes are one object."""

    slot: str = Boxes3D.slot
    overlap: float = 0.5
    within: float = 1.0
    small: tuple[str, ...] = SMALL

    def __post_init__(self) -> None:
        if self.slot not in SLOTS:
            raise ValueError(f"slot must be '{Boxes2D.slot}' or '{Boxes3D.slot}', got {self.slot!r}")
        self.same()  # its limits are checked there
        object.__setattr__(self, "small", tuple(self.small))

    def same(self) -> Same:
        """When two boxes are one object; pixels are no metres, so image boxes go by their overlap alone."""
        checked = Same(self.overlap, min(0.1, self.overlap), self.within, self.small)
        return checked if self.slot == Boxes3D.slot else Same(checked.overlap, checked.near)

    def check(self, pair: Pair) -> Verdict:
        """The verdict on what is expected and what is seen; of boxes in metres only those in the region are `demanded`."""
        expected, seen = (_demanded(find(answer, self.slot), pair) for answer in (pair.expected, pair.after))
        if expected is None or seen is None:
            return Verdict.error(f"the system said no {self.slot}")
        if why := expected.fault() or seen.fault():
            return Verdict.error(why)
        return replace(self._judged(expected, seen), facts=self._facts(expected, seen))

    def untouched(self, alone: Pair) -> None:
        """Nothing can be said: labels are whole boxes, and a loss takes two answers."""
        del alone

    def _facts(self, expected: Boxes, seen: Boxes) -> dict[str, Fact]:
        """The facts of every check on the pair, whichever of them judges it, so that their rates can be compared."""
        became = changes(expected, seen, self.same())
        plain = {DEMANDED: expected, IN_REGION_AFTER: seen}
        return {
            **{name: float(np.asarray(boxes.care).sum()) for name, boxes in plain.items()},
            **_numbers(counted(expected, seen, self.same())),
            **became.counts(),
            **{rows_fact(name): " ".join(map(str, rows)) for name, rows in became.rows().items() if rows},
        }

    def _judged(self, expected: Boxes, seen: Boxes) -> Verdict:
        raise NotImplementedError(f"{type(self).__name__} does not say what it demands")


@dataclass(frozen=True)
class NoFewer(_Sets):
    """The follow-up has at least as many objects as the source (LM-6), counting those one cares about.

    Where the case has a region, obstacles clear of it are not counted (LM-1), but one that is found again, by the limits of
    `superset`, counts wherever it stands now. An object that is not demanded any more but still seen stands for no other:
    it is not counted. So where `superset` holds, this holds. The facts tell the numbers per type as well, `before.car` and
    `after.car`.
    """

    def _judged(self, expected: Boxes, seen: Boxes) -> Verdict:
        before, after = counted(expected, seen, self.same())[ALL]
        return Verdict.at_least(after, before, f"{before} objects before, {after} after")


@dataclass(frozen=True)
class Superset(_Sets):
    """Every object of the source is still there (LM-7, D-17): same kind and IoU ≥ `overlap`, on the ground for 3-D boxes.

    Where the case has a region, obstacles clear of it are not demanded (LM-1). Those of the kinds `small` are held by their
    centres, at most `within` metres apart. Held: the margin is minus the least likeness to spare. Violated: it is the number
    of lost objects. What is gained is told but allowed. The facts tell objects apart that are lost, of another type, moved
    or gained, and of the lost those that `vanished`: in whose place nothing stands, so that they were not merged into a
    neighbour either. Each also per type, as `lost.car`; `lost_rows`, `type_changed_rows` and `moved_rows` tell which, by
    their numbers among the objects expected.
    """

    def _judged(self, expected: Boxes, seen: Boxes) -> Verdict:
        became = changes(expected, seen, self.same())
        facts = became.counts()
        why = ", ".join(f"{facts[name]:.0f} {name.replace('_', ' ')}" for name in TOLD)
        demanded = int(np.asarray(expected.care).sum())
        status = Status.VIOLATED if became.missing else Status.HELD
        return Verdict(status, became.missing or -became.spare, f"of {demanded} objects {why}")


def rows_fact(name: str) -> str:
    """The fact that tells which objects were counted by another, such as `lost_rows`."""
    return f"{name}_rows"


def missing_rows(
    expected: Boxes3D, seen: Boxes3D, region: Region | None, facts: Mapping[str, Fact]
) -> dict[str, tuple[int, ...]]:
    """Which expected boxes were lost, changed their type or moved: as the verdict's facts say, else as `Superset` finds."""
    if all(name in facts for name in MISSING):
        rows = {name: str(facts.get(rows_fact(name), "")).split() for name in MISSING}
        known = {str(row): row for row in range(len(expected.kinds))}
        return {name: tuple(known[row] for row in written if row in known) for name, written in rows.items()}
    return changes(in_region(expected, region), in_region(seen, region)).rows()


def _numbers(numbers: Mapping[str, ObstacleCount]) -> dict[str, float]:
    """How many there were and are, in all and of each type."""
    suffix = {kind: "" if kind == ALL else f".{kind}" for kind in numbers}
    return {f"{end}{suffix[kind]}": float(getattr(numbers[kind], end)) for kind in numbers for end in ("before", "after")}


def _demanded(found: Value | None, pair: Pair) -> Boxes | None:
    if isinstance(found, Boxes3D) and found.fault() is None:
        return in_region(found, region_of(pair.followup))
    return found if isinstance(found, Boxes2D | Boxes3D) else None
