"""What became of a set of obstacles: kept, lost, of another type, moved or gained, in all and per type (LM-6..LM-8, D-17).

Pure functions over two sets of boxes, so that relations judge one pair with them and tables count thousands of records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from swerve.core.region import outside
from swerve.core.values import Array, Boxes3D, Region, Value
from swerve.relations.matching import Boxes, Differences, Pairs, Same, box_shares, differences, match, same_kinds

SMALL = ("pedestrian", "cyclist")
OBSTACLES = Same(overlap=0.5, near=0.1, within=1.0, small=SMALL)  # D-17
COVERED = 0.1  # the share of a lost box that another may cover before something is said to stand there still
PIECE = 0.5  # the share of a box that lies within a lost one, from which on it is a piece of it
BESIDE = 0.5  # metres from the footprint of somebody within which a box's middle must lie to stand for them
ALL = "all"


@dataclass(frozen=True)
class Changes:
    """How one set of boxes became another: rows are numbers of boxes before, columns of boxes after.

    Every box before that one cares about is `kept`, `type_changed`, `moved` or `lost`, and is told once.
    """

    kept: Pairs
    type_changed: Pairs  # in place or near, but of another kind
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

    def rows(self) -> dict[str, tuple[int, ...]]:
        """Which boxes before have no box after that is the same, by what became of them."""
        return {
            "lost": self.lost,
            "type_changed": tuple(row for row, _ in self.type_changed),
            "moved": tuple(row for row, _ in self.moved),
        }

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


@lru_cache(maxsize=32)  # two relations ask it of one pair
def changes(before: Boxes, after: Boxes, same: Same = OBSTACLES) -> Changes:
    """What became of `before` in `after`, by the assignment that keeps the most of it."""
    between = differences(before, after, same)
    renamed = _renamed(before, after, between, same)
    rows, columns = {row for row, _ in renamed}, {column for _, column in renamed}
    lost = tuple(row for row in between.missed if row not in rows)
    return Changes(
        kept=between.found,
        type_changed=(*between.mislabelled, *renamed),
        moved=between.drifted,
        lost=lost,
        gained=tuple(sorted({*between.ghosts, *between.doubled} - columns)),
        vanished=_vanished(before, after, lost),
        kinds=(before.kinds, after.kinds),
        spare=between.spare,
    )


@lru_cache(maxsize=32)  # two relations ask it of one pair, and all changes of a case of the same boxes before
def in_region(boxes: Boxes3D, region: Region | None) -> Boxes3D:
    """The boxes, where there is a region demanded only if their middle is not clear of it, as in MR1 (LM-1)."""
    if region is None or not len(boxes.kinds):
        return boxes
    return replace(boxes, care=np.asarray(boxes.care) & ~outside(region, boxes.xyzlwhy[:, :2]))


def stand_on(truth: Boxes3D, said: Boxes3D) -> Array:
    """Which boxes' middles lie on whose footprint or `BESIDE` it, a row per box of the truth.

    A LiDAR sees one side, and a box around that is a thin slice of the whole: overlap would not know it.
    """
    away = said.xyzlwhy[None, :, :2] - truth.xyzlwhy[:, None, :2]
    length, width, yaw = truth.xyzlwhy[:, [3, 4, 6]].T[..., None]
    along = away[..., 0] * np.cos(yaw) + away[..., 1] * np.sin(yaw)
    across = away[..., 1] * np.cos(yaw) - away[..., 0] * np.sin(yaw)
    return np.asarray((np.abs(along) <= length / 2 + BESIDE) & (np.abs(across) <= width / 2 + BESIDE))


def labelled(said: Boxes3D, truth: Value | None) -> Array:
    """Which boxes stand on a label of any kind; all where there are no labels."""
    if not isinstance(truth, Boxes3D):
        return np.ones(len(said.kinds), bool)
    return np.asarray(stand_on(truth, said).any(axis=0))


def _renamed(before: Boxes, after: Boxes, between: Differences, same: Same) -> Pairs:
    """Of the lost those near which stands somebody new of another kind, each with that one."""
    if not between.missed or not between.ghosts:
        return ()
    rows, columns = np.array(between.missed), np.array(between.ghosts)
    likeness, kinds = same.likeness(before, after), same_kinds(before, after)
    some = np.ix_(rows, columns)
    pairs = match(likeness.affinity[some], (likeness.near & ~kinds)[some]).pairs
    return tuple((int(rows[row]), int(columns[column])) for row, column in pairs)


def _vanished(before: Boxes, after: Boxes, lost: tuple[int, ...]) -> tuple[int, ...]:
    if not lost:
        return ()
    covered = box_shares(after, before).T > COVERED
    pieces = box_shares(before, after) >= PIECE
    stands = np.asarray((covered | pieces).any(axis=1))
    return tuple(row for row in lost if not stands[row])


class ObstacleCount(NamedTuple):
    """How many obstacles there were and are (LM-6)."""

    before: int
    after: int

    @property
    def outcome(self) -> str:
        """`lost` where there are fewer, `gained` where there are more, else `equal`: the columns of the paper's table."""
        return "lost" if self.after < self.before else "gained" if self.after > self.before else "equal"


def counted(before: Boxes, after: Boxes, same: Same = OBSTACLES) -> Mapping[str, ObstacleCount]:
    """The numbers of `all` obstacles and of each type that occurs (LM-8), of those one cares about.

    By the assignment of `changes`: a demanded obstacle that is found again counts wherever it stands now, and whatever
    stands for one that nobody demands counts for none. So a subset that holds is never a smaller number (MR1 implies
    LM-6), and where one cares about all, these are the plain numbers of boxes.
    """
    became = changes(before, after, same)
    again = [column for _, column in (*became.kept, *became.type_changed, *became.moved)]
    was = Counter(kind.casefold() for kind, care in zip(before.kinds, np.asarray(before.care), strict=True) if care)
    now = Counter(after.kinds[column].casefold() for column in (*again, *became.gained))
    types = {kind: ObstacleCount(was[kind], now[kind]) for kind in sorted(was | now)}
    return {ALL: ObstacleCount(was.total(), now.total()), **types}


def _per_type(name: str, kinds: list[str]) -> dict[str, float]:
    types = Counter(kind.casefold() for kind in kinds)
    return {name: float(len(kinds)), **{f"{name}.{kind}": float(types[kind]) for kind in sorted(types)}}
