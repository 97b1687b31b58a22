"""Relations between sets of objects: none may be lost when the scene gains what does not hide them (LM-6, LM-7, D-17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from swerve.region import region_of
from swerve.relation import Algebra, Pair, Status, Verdict
from swerve.relations.matching import Boxes, Same, match
from swerve.relations.obstacles import ALL, OBSTACLES, SMALL, Count, changes, counted, in_region
from swerve.values import Boxes2D, Boxes3D, Value, find

SLOTS = (Boxes2D.slot, Boxes3D.slot)
TOLD = ("lost", "type_changed", "moved", "gained")  # LM-7's four kinds


@dataclass(frozen=True)
class NoFewer(Algebra):
    """The follow-up has at least as many objects as the source (LM-6), counting those one cares about.

    Where the case has a region, obstacles clear of it are not counted (LM-1). An object that is not demanded any more but
    still seen stands for no other: it is not counted. The facts tell the numbers per type as well, `before.car` and
    `after.car`.
    """

    slot: str = Boxes3D.slot

    def __post_init__(self) -> None:
        _check_slot(self.slot)

    def check(self, pair: Pair) -> Verdict:
        expected, seen = _both(pair, self.slot)
        if expected is None or seen is None:
            return Verdict.error(f"the system said no {self.slot}")
        if why := expected.fault() or seen.fault():
            return Verdict.error(why)
        numbers = counted(expected, _without_undemanded(expected, seen, OBSTACLES if self.slot == Boxes3D.slot else Same()))
        before, after = numbers[ALL]
        verdict = Verdict.at_least(after, before, f"{before} objects before, {after} after")
        return replace(verdict, facts=_numbers(numbers))

    def untouched(self, alone: Pair) -> None:
        """Nothing can be said: labels are whole boxes, and a loss takes two answers."""
        del alone


@dataclass(frozen=True)
class Superset(Algebra):
    """Every object of the source is still there (LM-7, D-17): same kind and IoU ≥ `overlap`, on the ground for 3-D boxes.

    Where the case has a region, obstacles clear of it are not demanded (LM-1). Those of the kinds `small` are held by their
    centres, at most `within` metres apart. Held: the margin is minus the least likeness to spare. Violated: it is the number
    of lost objects. What is gained is told but allowed. The facts tell objects apart that are lost, of another type, moved
    or gained, and of the lost those that `vanished`: in whose place nothing stands, so that they were not merged into a
    neighbour either. Each also per type, as `lost.car`.
    """

    slot: str = Boxes3D.slot
    overlap: float = 0.5
    within: float = 1.0
    small: tuple[str, ...] = SMALL

    def __post_init__(self) -> None:
        _check_slot(self.slot)
        self.same()  # its limits are checked there
        object.__setattr__(self, "small", tuple(self.small))

    def same(self) -> Same:
        """When two boxes are one object; pixels are no metres, so image boxes go by their overlap alone."""
        checked = Same(self.overlap, min(0.1, self.overlap), self.within, self.small)
        return checked if self.slot == Boxes3D.slot else Same(checked.overlap, checked.near)

    def check(self, pair: Pair) -> Verdict:
        expected, seen = _both(pair, self.slot)
        if expected is None or seen is None:
            return Verdict.error(f"the system said no {self.slot}")
        if why := expected.fault() or seen.fault():
            return Verdict.error(why)
        became = changes(expected, seen, self.same())
        facts = became.counts()
        why = ", ".join(f"{facts[name]:.0f} {name.replace('_', ' ')}" for name in TOLD)
        demanded = int(np.asarray(expected.care).sum())
        status = Status.VIOLATED if became.missing else Status.HELD
        return Verdict(status, became.missing or -became.spare, f"of {demanded} objects {why}", facts=facts)

    def untouched(self, alone: Pair) -> None:
        """Nothing can be said: labels are whole boxes, and a loss takes two answers."""
        del alone


def _numbers(numbers: Mapping[str, Count]) -> dict[str, float]:
    """How many there were and are, in all and of each type."""
    suffix = {kind: "" if kind == ALL else f".{kind}" for kind in numbers}
    return {f"{end}{suffix[kind]}": float(getattr(numbers[kind], end)) for kind in numbers for end in ("before", "after")}


def _without_undemanded(expected: Boxes, seen: Boxes, same: Same) -> Boxes:
    """`seen`, those not counted that are objects nobody demands, once the demanded have taken theirs."""
    wanted = np.asarray(expected.care)
    if wanted.all():
        return seen
    likeness, care = same.likeness(expected, seen), np.array(seen.care)
    for row, column in match(likeness.affinity, likeness.same, wanted).pairs:
        care[column] &= wanted[row]
    return replace(seen, care=care)


def _both(pair: Pair, slot: str) -> tuple[Boxes | None, Boxes | None]:
    """What is expected and what is seen; of boxes in metres only those in the region are demanded, where there is one."""
    return _demanded(find(pair.expected, slot), pair), _demanded(find(pair.after, slot), pair)


def _demanded(found: Value | None, pair: Pair) -> Boxes | None:
    if isinstance(found, Boxes3D) and found.fault() is None:
        return in_region(found, region_of(pair.followup))
    return found if isinstance(found, Boxes2D | Boxes3D) else None


def _check_slot(slot: str) -> None:
    if slot not in SLOTS:
        raise ValueError(f"slot must be '{Boxes2D.slot}' or '{Boxes3D.slot}', got {slot!r}")
