"""What lies around a condition: where along each parameter it stops to matter, and a map over the two that matter most."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np

from swerve.core.values import Array
from swerve.search.coordinates import Coordinates

TOWARDS_NEUTRAL = (0.25, 0.5, 1.0)  # how far along each parameter
SIDE, REACH = 5, 0.35  # of the map: points on a side, and how far it extends to either side, as a share of the range


@dataclass(frozen=True)
class Neighbour:
    """A condition next to another, and how far it moved each scene that was admitted and answered."""

    vector: Array
    moved: Sequence[float]


@dataclass
class Neighbourhood:
    """Points from a condition towards neutral along each parameter, and a map over two parameters."""

    centre: Sequence[float] = ()  # how far the condition itself moved the same scenes
    lines: dict[int, list[Neighbour]] = field(default_factory=dict)
    axes: tuple[int, ...] = ()
    map: list[Neighbour] = field(default_factory=list)


def explored(where: Coordinates, vector: Array) -> Generator[Array, Sequence[float], Neighbourhood]:
    """Asks for vectors, one by one, and is sent how far each moved the scenes."""
    found = Neighbourhood()
    if where.neutral is None or where.ends is None:
        return found
    found.centre = yield vector
    if not found.centre:
        return found
    for place in range(len(vector)):
        found.lines[place] = line = []
        for share in TOWARDS_NEUTRAL if where.change(_at(vector, place, where.neutral, 1.0)) != where.change(vector) else ():
            near = _at(vector, place, where.neutral, share)
            line.append(Neighbour(near, (yield near)))
    found.axes = _telling(found.lines, float(np.mean(found.centre)))
    if len(found.axes) == 2:
        for near in _grid(vector, found.axes, where.ends):
            found.map.append(Neighbour(near, (yield near)))
    return found


def most_explored(where: Coordinates) -> int:
    """How many vectors `explored` asks for, at most."""
    return 1 + len(TOWARDS_NEUTRAL) * len(where.names) + SIDE * SIDE


def _at(vector: Array, place: int, neutral: Array, share: float) -> Array:
    near = vector.copy()
    near[place] += share * (neutral[place] - vector[place])
    return near


def _telling(lines: dict[int, list[Neighbour]], centre: float) -> tuple[int, ...]:
    """The two parameters along which the mean divergence changes most."""
    answered = {place: [point.moved for point in points if point.moved] for place, points in lines.items()}
    means = {place: [float(np.mean(moved)) for moved in some] for place, some in answered.items() if some}
    change = {place: max(abs(mean - centre) for mean in found) for place, found in means.items()}
    return tuple(sorted(sorted(change, key=lambda place: -change[place])[:2]))


def _grid(vector: Array, axes: Sequence[int], ends: tuple[float, float]) -> list[Array]:
    """The points of the map, row by row; the second axis is the row's."""
    reach = REACH * (ends[1] - ends[0])
    sides = [np.linspace(max(vector[axis] - reach, ends[0]), min(vector[axis] + reach, ends[1]), SIDE) for axis in axes]
    points = []
    for second in sides[1]:
        for first in sides[0]:
            near = vector.copy()
            near[list(axes)] = first, second
            points.append(near)
    return points
