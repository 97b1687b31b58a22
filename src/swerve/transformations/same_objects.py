"""How far the objects of a picture are still where they were: what a swap must not change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from swerve.core.case import Fact
from swerve.core.values import Array
from swerve.transformations.frame_objects import FrameObjects

SEEN = 25  # pixels: an object with fewer, before and after, is not compared
SHIFT, AREA, LOST = "object_shift", "object_area", "objects_lost"


class Move(NamedTuple):
    """How an object changed: the way of its centre in parts of its longer side, and its area after by that before."""

    shift: float
    area: float

    @property
    def factor(self) -> float:
        """How many times larger or smaller it is."""
        return max(self.area, 1 / self.area) if self.area > 0 else math.inf


def moves(before: Array, after: Array, sizes: Mapping[int, float]) -> dict[int, Move]:
    """How each object changed between two pictures of instance numbers; `sizes` are the longer sides before."""
    room = max(int(before.max()), int(after.max()), *sizes, 0) + 1
    one, other = _sums(before, room), _sums(after, room)
    numbers = [number for number in sizes if max(one[0, number], other[0, number]) >= SEEN]
    return {number: _move(one[:, number], other[:, number], sizes[number]) for number in numbers}


def _sums(ids: Array, room: int) -> Array:
    """For each number its pixels, and the sums of their rows and of their columns."""
    height, width = ids.shape
    flat = ids.ravel()
    rows, columns = np.repeat(np.arange(height), width), np.tile(np.arange(width), height)
    return np.stack([np.bincount(flat, weights, room) for weights in (None, rows, columns)])


def _move(one: Array, other: Array, size: float) -> Move:
    if not (one[0] and other[0]):
        return Move(math.inf, 0.0 if one[0] else math.inf)
    way = other[1:] / other[0] - one[1:] / one[0]
    return Move(float(np.hypot(*way)) / size, float(other[0] / one[0]))


def object_facts(before: Array, after: Array, sizes: Mapping[int, float]) -> Mapping[str, Fact]:
    """The largest shift and change of area of any object, and how many are no longer visible."""
    found = moves(before, after, sizes).values()
    kept = [move for move in found if math.isfinite(move.factor)]
    return {
        SHIFT: max((move.shift for move in kept), default=0.0),
        AREA: max((move.factor for move in kept), default=1.0),
        LOST: float(len(found) - len(kept)),
    }


def sizes_of(seen: FrameObjects) -> Mapping[int, float]:
    """The longer side of each object."""
    return {item.number: max(item.size) for item in seen.items}
