"""Relations between sets of objects: none may be lost when the scene gains points that do not hide them."""

# LM-6, LM-7, D-17

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from swerve.core.arguments import OneOfNames
from swerve.core.case import Fact
from swerve.core.origin import Attribution, LeastShift, Origin, place_facts
from swerve.core.region import region_of
from swerve.core.relation import Algebra, Pair, Status, Verdict
from swerve.core.values import Boxes2D, Boxes3D, Region, Value, find
from swerve.relations.boxes import ANY, KINDS, SAME, check_kinds
from swerve.relations.matching import Boxes, Same
from swerve.relations.obstacles import ALL, SMALL, ObstacleCount, changes, count_obstacles, in_region

SLOTS = (Boxes2D.slot, Boxes3D.slot)
DEMANDED = "demanded"  # the fact with the number of required objects: the paper's plain count before the change
IN_REGION_AFTER = "in_region_after"  # the fact with the plain count after it
MISSING = ("lost", "type_changed", "moved")  # what `Superset` forbids
REPORTED = (*MISSING, "gained")  # LM-7's four kinds


@dataclass(frozen=True)
class _Sets(Algebra):
    """A relation between two sets of boxes, and when two boxes are the same object."""

    slot: Annotated[str, OneOfNames(*SLOTS)] = Boxes3D.slot
    overlap: float = 0.5
    within: float = 1.0
    small: tuple[str, ...] = SMALL

    def __post_init__(self) -> None:
        if self.slot not in SLOTS:
            raise ValueError(f"'slot' must be '{Boxes2D.slot}' or '{Boxes3D.slot}', got {self.slot!r}")
        self.same()  # checks its limits
        object.__setattr__(self, "small", tuple(self.small))

    def same(self) -> Same:
        """When two boxes are the same object; `within` is in metres, so image boxes go by their overlap alone."""
        checked = Same(self.overlap, min(0.1, self.overlap), self.within, self.small)
        return checked if self.slot == Boxes3D.slot else Same(checked.overlap, checked.near)

    def check(self, pair: Pair) -> Verdict:
        """The verdict on expected and detected boxes; of boxes in metres, only those in the region are required."""
        expected, seen = (_demanded(find(answer, self.slot), pair) for answer in (pair.expected, pair.after))
        if expected is None or seen is None:
            return Verdict.error(f"the system returned no {self.slot}")
        if why := expected.fault() or seen.fault():
            return Verdict.error(why)
        return replace(self._judge(expected, seen), facts=self._facts(expected, seen))

    def untouched(self, alone: Pair) -> None:
        """No verdict: a loss takes two answers."""
        del alone

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        """Introduced: every missing object was detected before the change."""
        del least
        expected, seen = (_demanded(find(answer, self.slot), pair) for answer in (pair.expected, pair.after))
        assert expected is not None
        assert seen is not None
        missing = [row for rows in changes(expected, seen, self.same()).rows().values() for row in rows]
        return Attribution(Origin.INTRODUCED, place_facts(dict.fromkeys(missing, Origin.INTRODUCED), "rows"))

    def _facts(self, expected: Boxes, seen: Boxes) -> dict[str, Fact]:
        """The facts of every check on the pair, whichever of them judges it, so that their rates can be compared."""
        became = changes(expected, seen, self.same())
        plain = {DEMANDED: expected, IN_REGION_AFTER: seen}
        return {
            **{name: float(np.asarray(boxes.care).sum()) for name, boxes in plain.items()},
            **_count_facts(count_obstacles(expected, seen, self.same())),
            **became.counts(),
            **{rows_fact(name): " ".join(map(str, rows)) for name, rows in became.rows().items() if rows},
        }

    def _judge(self, expected: Boxes, seen: Boxes) -> Verdict:
        raise NotImplementedError(f"{type(self).__name__} must define _judge")


@dataclass(frozen=True)
class NoFewer(_Sets):
    """The follow-up has at least as many required objects as the source.

    If the case has a region, obstacles clear of it are not counted, but one that is found again, by `superset`'s limits,
    counts wherever it is now. A detected object that is no longer required is not counted in place of another. So where
    `superset` holds, this holds too. The facts also give the numbers per type, `before.car` and `after.car`.
    """

    # LM-6, LM-1

    def _judge(self, expected: Boxes, seen: Boxes) -> Verdict:
        before, after = count_obstacles(expected, seen, self.same())[ALL]
        return Verdict.at_least(after, before, f"{before} objects before, {after} after")


@dataclass(frozen=True)
class Superset(_Sets):
    """Every object of the source is still detected: same kind and IoU ≥ `overlap`, on the ground for 3-D boxes.

    If the case has a region, obstacles clear of it are not required. Kinds in `small` are compared by their centres, at most
    `within` metres apart. Held: the margin is minus the smallest affinity above the limit. Violated: it is the number of
    missing objects. Gained objects are counted but allowed. The facts count objects that are lost, of another type, moved or
    gained, and lost objects that `vanished`: their place is empty, so they were not merged into a neighbour. Each count is
    also given per type, as `lost.car`; `lost_rows`, `type_changed_rows` and `moved_rows` are indices of expected objects.
    With `kinds = "any"` kinds are not compared, for changes that add objects which the system names differently.
    """

    # LM-7, D-17, LM-1
    kinds: Annotated[str, OneOfNames(*KINDS)] = SAME

    def __post_init__(self) -> None:
        check_kinds(self.kinds)
        super().__post_init__()

    def same(self) -> Same:
        return replace(super().same(), any_kind=self.kinds == ANY)

    def _judge(self, expected: Boxes, seen: Boxes) -> Verdict:
        became = changes(expected, seen, self.same())
        facts = became.counts()
        why = ", ".join(f"{facts[name]:.0f} {name.replace('_', ' ')}" for name in REPORTED)
        demanded = int(np.asarray(expected.care).sum())
        status = Status.VIOLATED if became.missing else Status.HELD
        return Verdict(status, became.missing or -became.spare, f"of {demanded} objects {why}")


def rows_fact(name: str) -> str:
    """The fact with the indices of the objects that another fact counts, such as `lost_rows`."""
    return f"{name}_rows"


def missing_rows(
    expected: Boxes3D, seen: Boxes3D, region: Region | None, facts: Mapping[str, Fact]
) -> dict[str, tuple[int, ...]]:
    """The rows of expected boxes that were lost, changed type or moved: from the verdict's facts, or as `Superset` finds."""
    if all(name in facts for name in MISSING):
        # Rows beside a count of 0 are another relation's, where `&` or `|` merged the facts of two.
        rows = {name: str(facts.get(rows_fact(name), "")).split() if facts[name] else [] for name in MISSING}
        known = {str(row): row for row in range(len(expected.kinds))}
        return {name: tuple(known[row] for row in written if row in known) for name, written in rows.items()}
    return changes(in_region(expected, region), in_region(seen, region)).rows()


def _count_facts(numbers: Mapping[str, ObstacleCount]) -> dict[str, float]:
    """The numbers before and after, in total and per type."""
    suffix = {kind: "" if kind == ALL else f".{kind}" for kind in numbers}
    return {f"{end}{suffix[kind]}": float(getattr(numbers[kind], end)) for kind in numbers for end in ("before", "after")}


def _demanded(found: Value | None, pair: Pair) -> Boxes | None:
    if isinstance(found, Boxes3D) and found.fault() is None:
        return in_region(found, region_of(pair.followup))
    return found if isinstance(found, Boxes2D | Boxes3D) else None
