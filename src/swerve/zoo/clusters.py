"""From what a network says of each cell to obstacles: clusters of cells, their points, and a box around those.

The stages are those of Apollo's CNN segmentation and MinBox builder (LM-1, D-29).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from swerve.core.values import Array, Boxes3D
from swerve.zoo.grid import Grid

KINDS = ("car", "pedestrian", "cyclist", "unknown")
OBJECTNESS = 0.5  # of a cell that belongs to an obstacle
CONFIDENCE = 0.1  # of a cluster that is one, averaged over its cells
FEWEST = 3  # points of an obstacle
ABOVE = 0.5  # metres over the foretold height up to which points belong to it
THINNEST = 0.1  # metres that any side of a box measures: a wall of points in one line has an area too


@dataclass(frozen=True, eq=False)
class Cells:
    """What a network says of every cell of a grid, each rows x columns."""

    category: Array  # whether an obstacle is there, 0 where the cell is empty
    offset: Array  # metres from the cell's middle to the obstacle's, 2 maps
    confidence: Array
    kind: Array  # a share for each of `KINDS`
    heading: Array  # cosine and sine of twice the yaw: front and back look alike
    height: Array  # metres above the sensor that the obstacle reaches


def clusters(cells: Cells, metres: float, objectness: float = OBJECTNESS) -> Array:
    """The number of each cell's cluster, -1 where no obstacle is, row by row.

    Every cell points to the one where its obstacle's middle should be. Who arrives at the same ring of cells belongs
    together, and so do those whose rings touch; every cell takes part, also one without a point in the region.
    """
    after = centre_of(cells.offset, metres)
    objects = np.flatnonzero(cells.category.ravel() >= objectness)
    reached = _followed(after, objects)
    step = np.searchsorted(reached, after[reached])  # from here on, cells are counted among those reached
    rings = _rings(step)
    edges = np.concatenate([np.stack([np.arange(len(step)), step]), _touching(reached, rings, cells.category.shape[1])], 1)
    found: Array = np.full(cells.category.size, -1)
    found[objects] = _in_order(_joined(edges, len(reached))[np.searchsorted(reached, objects)])
    return found


def centre_of(offset: Array, metres: float) -> Array:
    """The cell that each cell points to, at the edge of the grid where it points beyond."""
    place = np.indices(offset.shape[1:])
    steps = np.rint(place + offset / metres)
    row, column = (np.clip(steps[axis], 0, size - 1).astype(np.int64) for axis, size in enumerate(offset.shape[1:]))
    numbers: Array = row * offset.shape[2] + column
    return numbers.ravel()


def _followed(after: Array, objects: Array) -> Array:
    """All cells on the ways that begin in objects, in order."""
    reached = np.zeros(len(after), bool)
    front = objects
    while len(front):
        reached[front] = True
        front = np.unique(after[front])
        front = front[~reached[front]]
    return np.flatnonzero(reached)


def _rings(step: Array) -> Array:
    """Which cells lie on the rings in which all ways end: where one is after more steps than there are cells."""
    there = np.arange(len(step))
    leap = step
    for _ in range(len(step).bit_length()):
        there, leap = leap[there], leap[leap]
    rings = np.zeros(len(step), bool)
    rings[there] = True
    return rings


def _touching(reached: Array, rings: Array, columns: int) -> Array:
    """Pairs of cells of rings that share a side, counted among those reached."""
    own = np.flatnonzero(rings)
    pairs = []
    for near, beside in ((reached[own] + 1, (reached[own] + 1) % columns > 0), (reached[own] + columns, True)):
        place = np.minimum(np.searchsorted(reached, near), len(reached) - 1)
        met = (reached[place] == near) & rings[place] & beside
        pairs.append(np.stack([own[met], place[met]]))
    return np.concatenate(pairs, axis=1)


def _joined(edges: Array, size: int) -> Array:
    """The component of every cell."""
    graph = coo_array((np.ones(edges.shape[1], np.int8), (edges[0], edges[1])), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1])


def _in_order(labels: Array) -> Array:
    """The same groups, numbered from 0 by their first member."""
    _, first, group = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[group]


@dataclass(frozen=True, eq=False)
class Obstacles:
    """What the cells of each cluster say on average; a row per cluster."""

    confidence: Array
    kind: Array
    yaw: Array
    height: Array


def averaged(cells: Cells, cluster: Array) -> Obstacles:
    """The averages over all cells of each cluster."""
    inside = np.flatnonzero(cluster >= 0)
    numbers = cluster[inside]
    count = np.bincount(numbers)

    def mean(maps: Array) -> Array:
        rows = maps.reshape(-1, cluster.size)[:, inside]
        return np.stack([np.bincount(numbers, row, len(count)) for row in rows], axis=1) / count[:, None]

    cosine, sine = mean(cells.heading).T
    return Obstacles(mean(cells.confidence)[:, 0], mean(cells.kind), np.arctan2(sine, cosine) / 2, mean(cells.height)[:, 0])


def obstacles(cells: Cells, xyz: Array, inside: Array, grid: Grid) -> Boxes3D:
    """The obstacles among the points that lie `inside` the region: a box around the points of each, kind and score."""
    cluster = clusters(cells, grid.metres)
    said = averaged(cells, cluster)
    points = [(number, xyz[rows]) for number, rows in _members(cluster, said, xyz, np.flatnonzero(inside), grid)]
    boxes = [min_box(own, float(said.yaw[number])) for number, own in points]
    numbers = [number for number, _ in points]
    kinds = tuple(KINDS[int(best)] for best in said.kind[numbers].argmax(axis=1))
    return Boxes3D(np.array(boxes).reshape(-1, 7), kinds, scores=said.confidence[numbers])


def _members(cluster: Array, said: Obstacles, xyz: Array, rows: Array, grid: Grid) -> Iterator[tuple[int, Array]]:
    """Each cluster that is an obstacle, and the points that belong to it."""
    cell = grid.cell_of(xyz[rows])
    rows, number = rows[cell >= 0], cluster[cell[cell >= 0]]
    rows, number = rows[number >= 0], number[number >= 0]
    kept = (said.confidence[number] >= CONFIDENCE) & (xyz[rows, 2] <= said.height[number] + ABOVE)
    rows, number = rows[kept], number[kept]
    order = np.argsort(number, kind="stable")
    for which, first, count in zip(*np.unique(number[order], return_index=True, return_counts=True), strict=True):
        if count >= FEWEST:
            yield int(which), rows[order[first : first + count]]


def min_box(xyz: Array, yaw: float) -> Sequence[float]:
    """x, y, z, length, width, height and yaw of the box around points whose ground is the rectangle of least area.

    Of its two axes the one nearer to `yaw` is its length.
    """
    given = np.asarray(xyz, np.float64)
    corners = cv2.convexHull(np.ascontiguousarray(given[:, :2], np.float32)).reshape(-1, 2).astype(np.float64)
    turn = _least_turn(corners, yaw)
    cosine, sine = np.cos(turn), np.sin(turn)
    local = corners @ np.array([[cosine, -sine], [sine, cosine]])
    (low, high), (bottom, top) = (np.min(local, 0), np.max(local, 0)), (given[:, 2].min(), given[:, 2].max())
    along, across = (low + high) / 2
    length, width, height = np.maximum([*(high - low), top - bottom], THINNEST)
    x, y = cosine * along - sine * across, sine * along + cosine * across
    return [float(part) for part in (x, y, (bottom + top) / 2, length, width, height, turn)]


def _least_turn(corners: Array, yaw: float) -> float:
    """The turn of the least rectangle around a hull, one of whose sides lies on it; a lone point takes `yaw`."""
    sides = np.roll(corners, -1, axis=0) - corners
    sides = sides[np.hypot(*sides.T) > 0]
    if not len(sides):
        return yaw
    turns = np.arctan2(sides[:, 1], sides[:, 0])
    cosine, sine = np.cos(turns)[:, None], np.sin(turns)[:, None]
    along, across = cosine * corners[:, 0] + sine * corners[:, 1], cosine * corners[:, 1] - sine * corners[:, 0]
    least = turns[np.argmin(np.ptp(along, axis=1) * np.ptp(across, axis=1))]
    quarters = np.round((yaw - least) / (np.pi / 2))
    return float(least + quarters * np.pi / 2)
