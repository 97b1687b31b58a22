"""Where one may drive, as a `Region` around our car: carriageway, side roads, parking bays, crossings; islands are holes."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from swerve.core.values import Array, Region
from swerve.world.driver import Pose
from swerve.world.road import Road

REACH = 120.0  # metres each way that the region is cut to
STEP = 1.0  # metres between the places where the map is asked; borders between them are interpolated
LEEWAY = 0.02  # metres that a border may be moved to spare corners


def drivable(road: Road, pose: Pose, forward: float, islands: tuple[Array, ...] = ()) -> Region:
    """The region seen from `forward` metres ahead of the rear axle: x ahead, y left, cut to `REACH` each way.

    Outer rings run counter-clockwise, holes clockwise; `islands` are rings in the world, left out unless wholly in reach.
    """
    place = np.arange(-REACH - STEP, REACH + 1.5 * STEP, STEP)
    x, y = (part.ravel() for part in np.meshgrid(place, place))
    field = road.locate(*_in_world(pose, forward, x, y))[:, 2]
    field = np.maximum(field, np.maximum(np.abs(x), np.abs(y)) - REACH).reshape(len(place), len(place))
    rings = [ring * STEP + place[0] for ring in contours(field)]
    outer = [kept for kept in map(_spared, rings) if len(kept) >= 3]
    holes = [_seen(pose, forward, ring) for ring in islands]
    return Region((*outer, *(ring for ring in holes if np.abs(ring).max() < REACH - 1.0)))


def _in_world(pose: Pose, forward: float, x: Array, y: Array) -> tuple[Array, Array]:
    cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
    return pose.x + (x + forward) * cos - y * sin, pose.y + (x + forward) * sin + y * cos


def _seen(pose: Pose, forward: float, ring: Array) -> Array:
    """A ring of the world as our car sees it, turned clockwise."""
    cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
    seen: Array = (ring - [pose.x, pose.y]) @ np.array([[cos, -sin], [sin, cos]]) - [forward, 0.0]
    return seen


def _spared(ring: Array) -> Array:
    """The ring without corners that hardly bend it."""
    kept: Array = cv2.approxPolyDP(ring.astype(np.float32)[:, None], LEEWAY, True)[:, 0].astype(np.float64)
    return kept


def contours(field: Array) -> list[Array]:
    """Where `field` is 0, as rings of (column, row) with what lies below 0 to their left; its rim must be above 0."""
    start, end = _pieces(field < 0)
    following = dict(zip(start.tolist(), end.tolist(), strict=True))
    rings = []
    while following:
        first, here = following.popitem()
        ring = [first]
        while here != first:
            ring.append(here)
            here = following.pop(here)
        rings.append(_crossings(field, np.array(ring)))
    return rings


def _pieces(below: Array) -> tuple[Array, Array]:
    """Line pieces through the cells of a grid, as the numbers of the grid's lines between which each runs.

    Lines are numbered by the corner that they begin at: first those along a row, then those along a column.
    """
    tall, wide = below.shape
    corner = np.stack([below[:-1, :-1], below[:-1, 1:], below[1:, 1:], below[1:, :-1]])
    rows, columns = np.nonzero(corner.any(axis=0) & ~corner.all(axis=0))
    corner = corner[:, rows, columns]
    here = rows * wide + columns
    lines = np.stack([here, tall * wide + here + 1, here + wide, tall * wide + here])
    which = corner.T @ (1 << np.arange(4))
    starts, ends = [], []
    for side in range(4):
        leaves = np.flatnonzero(corner[side] & ~corner[(side + 1) % 4])
        starts.append(lines[side, leaves])
        ends.append(lines[_entries()[which[leaves], side], leaves])
    return np.concatenate(starts), np.concatenate(ends)


@cache
def _entries() -> Array:
    """For 16 ways in which a cell's corners lie below 0: the side by which a piece ends that begins at each side."""
    found = np.zeros((16, 4), np.intp)
    for which in range(1, 15):
        for side in range(4):
            back = side
            while which >> back % 4 & 1 and back > side - 4:
                back -= 1
            found[which, side] = back % 4
    return found


def _crossings(field: Array, line: Array) -> Array:
    """Where the numbered lines of the grid cross 0, as (column, row)."""
    upward, place = np.divmod(line, field.size)
    row, column = np.divmod(place, field.shape[1])
    one, other = field[row, column], field[row + upward, column + 1 - upward]
    share = one / (one - other)
    return np.column_stack([column + share * (1 - upward), row + share * upward]).astype(np.float64)
