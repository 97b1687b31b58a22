"""The drivable area around our car as a `Region`: carriageway, side roads, parking bays, crossings; islands are holes."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from swerve.core.values import Array, Region
from swerve.world.driver import Pose
from swerve.world.road import Road

REACH = 120.0  # metres in each direction to which the region is clipped
STEP = 1.0  # metres between sampled points of the map; borders between them are interpolated
TOLERANCE = 0.02  # metres by which a border may move when corners are removed


def drivable(road: Road, pose: Pose, forward: float, islands: tuple[Array, ...] = ()) -> Region:
    """The region in the frame `forward` metres ahead of the rear axle: x ahead, y left, clipped to `REACH`.

    Outer rings run counter-clockwise, holes clockwise; `islands` are rings in the world, left out unless fully in reach.
    """
    place = np.arange(-REACH - STEP, REACH + 1.5 * STEP, STEP)
    x, y = (part.ravel() for part in np.meshgrid(place, place))
    field = road.locate(*_to_world(pose, forward, x, y))[:, 2]
    field = np.maximum(field, np.maximum(np.abs(x), np.abs(y)) - REACH).reshape(len(place), len(place))
    rings = [ring * STEP + place[0] for ring in contours(field)]
    outer = [kept for kept in map(_simplify, rings) if len(kept) >= 3]
    holes = [_to_car_frame(pose, forward, ring) for ring in islands]
    return Region((*outer, *(ring for ring in holes if np.abs(ring).max() < REACH - 1.0)))


def _to_world(pose: Pose, forward: float, x: Array, y: Array) -> tuple[Array, Array]:
    cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
    return pose.x + (x + forward) * cos - y * sin, pose.y + (x + forward) * sin + y * cos


def _to_car_frame(pose: Pose, forward: float, ring: Array) -> Array:
    """A ring of the world in our car's frame."""
    cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
    seen: Array = (ring - [pose.x, pose.y]) @ np.array([[cos, -sin], [sin, cos]]) - [forward, 0.0]
    return seen


def _simplify(ring: Array) -> Array:
    """The ring without corners that hardly change its shape."""
    kept: Array = cv2.approxPolyDP(ring.astype(np.float32)[:, None], TOLERANCE, True)[:, 0].astype(np.float64)
    return kept


def contours(field: Array) -> list[Array]:
    """The zero contours of `field` as rings of (column, row), negative values on their left; its rim must be above 0."""
    start, end = _segments(field < 0)
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


def _segments(below: Array) -> tuple[Array, Array]:
    """Contour segments through the cells of a grid, as the numbers of the two grid lines that each connects.

    Lines are numbered by the corner that they start at: first those along a row, then those along a column.
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
        ends.append(lines[_exit_sides()[which[leaves], side], leaves])
    return np.concatenate(starts), np.concatenate(ends)


@cache
def _exit_sides() -> Array:
    """For each of the 16 sign patterns of a cell's corners: the side at which a segment from each side ends."""
    found = np.zeros((16, 4), np.intp)
    for which in range(1, 15):
        for side in range(4):
            back = side
            while which >> back % 4 & 1 and back > side - 4:
                back -= 1
            found[which, side] = back % 4
    return found


def _crossings(field: Array, line: Array) -> Array:
    """Where `field` is 0 on the numbered grid lines, as (column, row)."""
    upward, place = np.divmod(line, field.size)
    row, column = np.divmod(place, field.shape[1])
    one, other = field[row, column], field[row + upward, column + 1 - upward]
    share = one / (one - other)
    return np.column_stack([column + share * (1 - upward), row + share * upward]).astype(np.float64)
