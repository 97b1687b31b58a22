"""Relations between sets of objects: none may be lost when the scene gains what does not hide them (LM-6, LM-7, D-17)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from swerve.relation import Algebra, Pair, Status, Verdict
from swerve.relations.matching import Boxes, Same, match
from swerve.relations.obstacles import ALL, SMALL, changes, counted
from swerve.values import Boxes2D, Boxes3D, find

SLOTS = (Boxes2D.slot, Boxes3D.slot)
TOLD = ("lost", "type_changed", "moved", "gained")  # LM-7's four kinds


@dataclass(frozen=True)
class NoFewer(Algebra):
    """The follow-up has at least as many objects as the source (LM-6), counting those one cares about.

    An object that is not demanded any more but still seen stands for no other: it is not counted. The facts tell the
    numbers per type as well, `before.car` and `after.car`.
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
        before = int(np.asarray(expected.care).sum())
        after = int(np.asarray(seen.care).sum()) - _undemanded(expected, seen)
        verdict = Verdict.at_least(after, before, f"{before} objects before, {after} after")
        return replace(verdict, facts={**_numbers(expected, seen), "before": float(before), "after": float(after)})


@dataclass(frozen=True)
class Superset(Algebra):
    """Every object of the source is still there (LM-7, D-17): same kind and IoU ≥ `overlap`, on the ground for 3-D boxes.

    Obstacles of the kinds `small` are held by their centres, at most `within` metres apart. Held: the margin is minus the
    least likeness to spare. Violated: it is the number of lost objects. What is gained is told but allowed. The facts tell
    objects apart that are lost, of another type, moved or gained, and of the lost those that `vanished`: in whose place
    nothing stands, so that they were not merged into a neighbour either. Each also per type, as `lost.car`.
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


def _numbers(expected: Boxes, seen: Boxes) -> dict[str, float]:
    """How many there were and are of each type."""
    types = {kind: count for kind, count in counted(expected, seen).items() if kind != ALL}
    return {f"{end}.{kind}": float(getattr(count, end)) for kind, count in types.items() for end in ("before", "after")}


def _undemanded(expected: Boxes, seen: Boxes) -> int:
    """How many of the counted objects in `seen` are ones that nobody demands, once the demanded have taken theirs."""
    if np.all(expected.care):
        return 0
    likeness = Same().likeness(expected, seen)
    pairs = match(likeness.affinity, likeness.same, expected.care).pairs
    return sum(not np.asarray(expected.care)[row] and np.asarray(seen.care)[column] for row, column in pairs)


def _both(pair: Pair, slot: str) -> tuple[Boxes | None, Boxes | None]:
    expected, seen = find(pair.expected, slot), find(pair.after, slot)
    return (
        expected if isinstance(expected, Boxes2D | Boxes3D) else None,
        seen if isinstance(seen, Boxes2D | Boxes3D) else None,
    )


def _check_slot(slot: str) -> None:
    if slot not in SLOTS:
        raise ValueError(f"slot must be '{Boxes2D.slot}' or '{Boxes3D.slot}', got {slot!r}")
