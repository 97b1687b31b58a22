"""How a set of obstacles changed: kept, lost, type changed, moved or gained, in total and per type.

Pure functions over two sets of boxes, used by relations for one pair and by tables for thousands of records.
"""

# LM-6..LM-8, D-17

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from swerve.core.region import outside
from swerve.core.values import Array, Boxes3D, Region, Value, find
from swerve.relations.matching import Boxes, Differences, Pairs, Same, box_shares, differences, match, same_kinds

SMALL = ("pedestrian", "cyclist")
OBSTACLES = Same(overlap=0.5, near=0.1, within=1.0, small=SMALL)  # D-17
COVERED = 0.1  # share of a lost box; if another box covers more, the place is not empty
PIECE = 0.5  # share of a box inside a lost one from which it counts as a part of it
BESIDE = 0.5  # metres around a label's footprint in which a box's centre counts as on it
ALL = "all"


@dataclass(frozen=True)
class Changes:
    """How one set of boxes became another: rows are indices of boxes before, columns of boxes after.

    Every required box before is in exactly one of `kept`, `type_changed`, `moved` and `lost`.
    """

    kept: Pairs
    type_changed: Pairs  # in place or near, but of another kind
    moved: Pairs  # of its kind and near, but with too different a box
    lost: tuple[int, ...]
    gained: tuple[int, ...]  # columns without a box before
    vanished: tuple[int, ...]  # lost boxes whose place is empty: not even merged into a neighbour
    kinds: tuple[tuple[str, ...], tuple[str, ...]]  # before and after
    spare: float  # affinity above the limit, of the kept box nearest to being lost

    @property
    def missing(self) -> int:
        """The number of boxes before without the same box after: what a subset relation forbids."""
        return len(self.lost) + len(self.type_changed) + len(self.moved)

    def rows(self) -> dict[str, tuple[int, ...]]:
        """The boxes before without the same box after, by what happened to them."""
        return {
            "lost": self.lost,
            "type_changed": tuple(row for row, _ in self.type_changed),
            "moved": tuple(row for row, _ in self.moved),
        }

    def counts(self) -> dict[str, float]:
        """The number of each as facts: `lost`, and per type `lost.car`; for a changed type, the type before."""
        before, after = self.kinds
        by_name = {
            "lost": [before[row] for row in self.lost],
            "type_changed": [before[row] for row, _ in self.type_changed],
            "moved": [before[row] for row, _ in self.moved],
            "gained": [after[column] for column in self.gained],
            "vanished": [before[row] for row in self.vanished],
        }
        return {key: count for name, kinds in by_name.items() for key, count in _per_type(name, kinds).items()}


@lru_cache(maxsize=32)  # two relations need it for one pair
def changes(before: Boxes, after: Boxes, same: Same = OBSTACLES) -> Changes:
    """The changes from `before` to `after`, by the assignment that keeps the most boxes."""
    between = differences(before, after, same)
    renamed = _type_changes(before, after, between, same)
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


@lru_cache(maxsize=32)  # two relations need it for one pair, and all changes of a case have the same boxes before
def in_region(boxes: Boxes3D, region: Region | None) -> Boxes3D:
    """The boxes; with a region, only those whose centre is not clear of it are required, as in the paper's MR1."""
    # LM-1
    if region is None or not len(boxes.kinds):
        return boxes
    return replace(boxes, care=np.asarray(boxes.care) & ~outside(region, boxes.xyzlwhy[:, :2]))


def boxes_of(answer: Sequence[Value]) -> Boxes3D:
    """The obstacles of an answer that has some."""
    found = find(answer, Boxes3D.slot)
    assert isinstance(found, Boxes3D)
    return found


def stand_on(truth: Boxes3D, detected: Boxes3D) -> Array:
    """Which centres of `detected` lie on or within `BESIDE` of which footprint; a row per label.

    A LiDAR sees one side, and a box around that is a thin slice of the object, with a small IoU.
    """
    away = detected.xyzlwhy[None, :, :2] - truth.xyzlwhy[:, None, :2]
    length, width, yaw = truth.xyzlwhy[:, [3, 4, 6]].T[..., None]
    along = away[..., 0] * np.cos(yaw) + away[..., 1] * np.sin(yaw)
    across = away[..., 1] * np.cos(yaw) - away[..., 0] * np.sin(yaw)
    return np.asarray((np.abs(along) <= length / 2 + BESIDE) & (np.abs(across) <= width / 2 + BESIDE))


def labelled(detected: Boxes3D, truth: Value | None) -> Array:
    """Which boxes stand on a label of any kind; all if there are no labels."""
    if not isinstance(truth, Boxes3D):
        return np.ones(len(detected.kinds), bool)
    return np.asarray(stand_on(truth, detected).any(axis=0))


def _type_changes(before: Boxes, after: Boxes, between: Differences, same: Same) -> Pairs:
    """Lost boxes paired with a new box of another kind near them."""
    if not between.missed or not between.ghosts:
        return ()
    rows, columns = np.array(between.missed), np.array(between.ghosts)
    likeness, kinds = same.likeness(before, after), same_kinds(before, after) | same.any_kind
    some = np.ix_(rows, columns)
    pairs = match(likeness.affinity[some], (likeness.near & ~kinds)[some]).pairs
    return tuple((int(rows[row]), int(columns[column])) for row, column in pairs)


def _vanished(before: Boxes, after: Boxes, lost: tuple[int, ...]) -> tuple[int, ...]:
    if not lost:
        return ()
    covered = box_shares(after, before).T > COVERED
    pieces = box_shares(before, after) >= PIECE
    taken = np.asarray((covered | pieces).any(axis=1))
    return tuple(row for row in lost if not taken[row])


class ObstacleCount(NamedTuple):
    """The number of obstacles before and after."""

    # LM-6
    before: int
    after: int

    @property
    def outcome(self) -> str:
        """`lost` if there are fewer, `gained` if there are more, else `equal`: the columns of the paper's table."""
        return "lost" if self.after < self.before else "gained" if self.after > self.before else "equal"


def count_obstacles(before: Boxes, after: Boxes, same: Same = OBSTACLES) -> Mapping[str, ObstacleCount]:
    """The number of required obstacles: `all`, and of each type that occurs.

    By the assignment of `changes`: a required obstacle that is found again counts wherever it is now, and a box matched to
    one that is not required does not count. So where the subset relation holds, the number does not fall, and if all are
    required, these are the plain numbers of boxes.
    """
    # LM-8; MR1 implies LM-6
    became = changes(before, after, same)
    again = [column for _, column in (*became.kept, *became.type_changed, *became.moved)]
    was = Counter(kind.casefold() for kind, care in zip(before.kinds, np.asarray(before.care), strict=True) if care)
    now = Counter(after.kinds[column].casefold() for column in (*again, *became.gained))
    types = {kind: ObstacleCount(was[kind], now[kind]) for kind in sorted(was | now)}
    return {ALL: ObstacleCount(was.total(), now.total()), **types}


def _per_type(name: str, kinds: list[str]) -> dict[str, float]:
    types = Counter(kind.casefold() for kind in kinds)
    return {name: float(len(kinds)), **{f"{name}.{kind}": float(types[kind]) for kind in sorted(types)}}
