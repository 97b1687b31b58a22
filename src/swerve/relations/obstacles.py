"""What became of a set of obstacles: kept, lost, of another type, moved or gained, in all and per type (LM-6..LM-8, D-17).

Pure functions over two sets of boxes, so that relations judge one pair with them and tables count thousands of records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from swerve.region import outside
from swerve.relations.matching import Boxes, Differences, Pairs, Same, box_shares, differences
from swerve.values import Boxes3D, Region

SMALL = ("pedestrian", "cyclist")
OBSTACLES = Same(overlap=0.5, near=0.1, within=1.0, small=SMALL)  # D-17
COVERED = 0.1  # the share of a lost box that another may cover before something is said to stand there still
PIECE = 0.5  # the share of a box that lies within a lost one, from which on it is a piece of it
ALL = "all"


@dataclass(frozen=True)
class Changes:
    """How one set of boxes became another: rows are numbers of boxes before, columns of boxes after.

    Every box before that one cares about is `kept`, `type_changed`, `moved` or `lost`, and is told once.
    """

    kept: Pairs
    type_changed: Pairs  # in place, but of another kind
    moved: Pairs  # of its kind and near, but with too different a box
    lost: tuple[int, ...]
    gained: tuple[int, ...]  # columns that stand for nothing before
    vanished: tuple[int, ...]  # those of the lost in whose place nothing stands, not even a box merged with a neighbour's
    kinds: tuple[tuple[str, ...], tuple[str, ...]]  # before and after
    spare: float  # likeness beyond the limit, of the kept box that is nearest to being lost

    @property
    def missing(self) -> int:
        """How many boxes before have no box after that is the same: what a subset forbids."""
        return len(self.lost) + len(self.type_changed) + len(self.moved)

    def counts(self) -> dict[str, float]:
        """How many of each, as facts: `lost`, and where there are any, per type `lost.car`.

        Of a changed type it is the type before that counts.
        """
        before, after = self.kinds
        told = {
            "lost": [before[row] for row in self.lost],
            "type_changed": [before[row] for row, _ in self.type_changed],
            "moved": [before[row] for row, _ in self.moved],
            "gained": [after[column] for column in self.gained],
            "vanished": [before[row] for row in self.vanished],
        }
        return {key: count for name, kinds in told.items() for key, count in _per_type(name, kinds).items()}


def changes(before: Boxes, after: Boxes, same: Same = OBSTACLES) -> Changes:
    """What became of `before` in `after`, by the assignment that keeps the most of it."""
    between = differences(before, after, same)
    return Changes(
        kept=between.found,
        type_changed=between.mislabelled,
        moved=between.drifted,
        lost=between.missed,
        gained=tuple(sorted((*between.ghosts, *between.doubled))),
        vanished=_vanished(before, after, between),
        kinds=(before.kinds, after.kinds),
        spare=between.spare,
    )


def _vanished(before: Boxes, after: Boxes, between: Differences) -> tuple[int, ...]:
    if not between.missed:
        return ()
    covered = box_shares(after, before).T > COVERED
    pieces = box_shares(before, after) >= PIECE
    stands = np.asarray((covered | pieces).any(axis=1))
    return tuple(row for row in between.missed if not stands[row])


class Count(NamedTuple):
    """How many obstacles there were and are (LM-6)."""

    before: int
    after: int

    @property
    def outcome(self) -> str:
        """`lost` where there are fewer, `gained` where there are more, else `equal`: the columns of the paper's table."""
        return "lost" if self.after < self.before else "gained" if self.after > self.before else "equal"


def counted(before: Boxes, after: Boxes) -> Mapping[str, Count]:
    """The numbers of `all` obstacles and of each type that occurs (LM-8), of those one cares about."""
    was, now = (Counter(_cared_for(boxes)) for boxes in (before, after))
    types = {kind: Count(was[kind], now[kind]) for kind in sorted(was | now)}
    return {ALL: Count(was.total(), now.total()), **types}


def _cared_for(boxes: Boxes) -> Iterable[str]:
    return (kind.casefold() for kind, care in zip(boxes.kinds, np.asarray(boxes.care), strict=True) if care)


def _per_type(name: str, kinds: list[str]) -> dict[str, float]:
    types = Counter(kind.casefold() for kind in kinds)
    return {name: float(len(kinds)), **{f"{name}.{kind}": float(types[kind]) for kind in sorted(types)}}


def in_region(boxes: Boxes3D, region: Region | None) -> Boxes3D:
    """The same boxes, but nobody minds those whose centre is clear of the region: MR1 speaks of obstacles within it."""
    if region is None:
        return boxes
    return replace(boxes, care=np.asarray(boxes.care) & ~outside(region, boxes.xyzlwhy[:, :2]))
