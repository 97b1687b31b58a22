"""Untrusted polygons as rings of a `Region`: each ring is checked and oriented, or refused by name."""
# R51

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from swerve.core.errors import InputError, UnreadableCase
from swerve.core.region import area_of, edges, inside, pairs
from swerve.core.values import Array, Region
from swerve.sources.texts import number

SMALLEST = 1e-6  # square metres
FARTHEST = 1e6  # metres
POINTS = 10_000  # most points of one polygon
_TOUCHES = 1e-12  # relative tolerance within which an edge ends on another instead of crossing it


def polygon(rings: Sequence[Any], what: str) -> tuple[Array, ...]:
    """The outer ring counter-clockwise and its holes clockwise; raises `InputError` that starts with `what`."""
    if not isinstance(rings, (list, tuple)) or not rings:
        raise InputError(f"{what}: expected a list of an outer ring and its holes, got {_describe(rings)}")
    names = [f"{what}, outer ring", *(f"{what}, hole {count}" for count in range(1, len(rings)))]
    parsed = [
        _oriented(_ring(points, name), hole=row > 0) for row, (points, name) in enumerate(zip(rings, names, strict=True))
    ]
    if sum(map(len, parsed)) > POINTS:
        raise InputError(f"{what}: {sum(map(len, parsed)):,} points; a polygon may have at most {POINTS:,}")
    _refuse_crossings(parsed, names)
    _refuse_loose_holes(parsed, names)
    return tuple(parsed)


def _ring(points: Any, name: str) -> Array:
    """A ring without repeated consecutive points and without a closing point."""
    if not isinstance(points, (list, tuple)):
        raise InputError(f"{name}: expected a list of points [x, y], got {_describe(points)}")
    ring = np.array([_point(point, f"{name}, point {count}") for count, point in enumerate(points, 1)]).reshape(-1, 2)
    kept: Array = ring[(ring != np.roll(ring, -1, axis=0)).any(axis=1)]
    if len(kept) < 3:
        raise InputError(f"{name}: {len(kept)} different points; a ring needs at least 3")
    if abs(area_of(kept)) < SMALLEST:
        raise InputError(f"{name}: the enclosed area is zero: its points lie on a line, or it crosses itself")
    return kept


def _point(point: Any, name: str) -> tuple[float, float]:
    if not isinstance(point, (list, tuple)) or len(point) < 2:
        raise InputError(f"{name}: expected [x, y] in metres, got {_describe(point)}")
    try:
        x, y = number(point[0], name), number(point[1], name)
    except UnreadableCase as error:
        raise InputError(str(error)) from error
    if max(abs(x), abs(y)) > FARTHEST:
        raise InputError(f"{name}: the point is {max(abs(x), abs(y)):g} m away; coordinates must be metres from the LiDAR")
    return x, y


def _oriented(ring: Array, *, hole: bool) -> Array:
    return ring[::-1] if (area_of(ring) > 0) == hole else ring


def _refuse_crossings(rings: Sequence[Array], names: Sequence[str]) -> None:
    """Raise `InputError` if two edges of a polygon cross: its interior would be ambiguous."""
    border = edges(Region(tuple(rings)))
    owner = np.repeat(np.arange(len(rings)), [len(ring) for ring in rings])
    place = np.concatenate([np.arange(1, len(ring) + 1) for ring in rings])
    for one, other in _near_pairs(border):
        crossed = np.flatnonzero(_cross(border[one], border[other]))
        if len(crossed):
            first, second = sorted((int(one[crossed[0]]), int(other[crossed[0]])))
            another = "itself" if owner[first] == owner[second] else names[owner[second]].rpartition(", ")[2]
            where = f"after point {place[first]} and after point {place[second]}"
            raise InputError(f"{names[owner[first]]}: the ring crosses {another} ({where}); edges must not cross")


def _near_pairs(border: Array) -> Iterator[tuple[Array, Array]]:
    """Pairs of edges whose ranges of x overlap."""
    low, high = border[..., 0].min(axis=1), border[..., 0].max(axis=1)
    order = np.argsort(low, kind="stable")
    until = np.searchsorted(low[order], high[order], side="right")
    after = np.arange(1, len(order) + 1)
    for one, other in pairs(after, until - after):
        yield order[one], order[other]


def _cross(one: Array, other: Array) -> Array:
    """Whether the edges of each pair cross; edges that only share an end point do not."""
    sides = [_side(one, other[:, 0]) * _side(one, other[:, 1]), _side(other, one[:, 0]) * _side(other, one[:, 1])]
    return (sides[0] < 0) & (sides[1] < 0)


def _side(edge: Array, point: Array) -> Array:
    (along, up), (x, y) = (edge[:, 1] - edge[:, 0]).T, (point - edge[:, 0]).T
    side = along * y - up * x
    return np.where(np.abs(side) > _TOUCHES * (np.abs(along * y) + np.abs(up * x)), np.sign(side), 0)


def _refuse_loose_holes(rings: Sequence[Array], names: Sequence[str]) -> None:
    """Raise `InputError` if a hole is outside its polygon or in another hole, where it would count as inside."""
    whole = Region(tuple(rings))
    for ring, name in zip(rings[1:], names[1:], strict=True):
        if inside(whole, _within(ring)).any():
            raise InputError(f"{name}: a hole must lie inside the outer ring and outside other holes")


def _within(ring: Array) -> Array:
    """A point inside a ring that does not cross itself: halfway between two edges, at a y where the ring has no point."""
    heights = np.unique(ring[:, 1])
    widest = int(np.diff(heights).argmax())
    y = (heights[widest] + heights[widest + 1]) / 2
    (ax, ay), (bx, by) = ring.T, np.roll(ring, -1, axis=0).T
    met = (ay < y) != (by < y)
    x = np.sort(ax[met] + (y - ay[met]) / (by[met] - ay[met]) * (bx[met] - ax[met]))
    pair = 2 * int((x[1::2] - x[::2]).argmax())
    return np.array([[(x[pair] + x[pair + 1]) / 2, y]])


def _describe(value: object) -> str:
    return "nothing" if value is None else repr(value)[:60]
