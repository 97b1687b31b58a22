"""From the network's output for each cell to obstacles: clusters of cells, their points, and a box around those.

The stages are those of Apollo's CNN segmentation and MinBox builder.
"""
# LM-1, D-29

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
OBJECTNESS = 0.5  # threshold for a cell to belong to an obstacle
CONFIDENCE = 0.1  # threshold for a cluster to be an obstacle, averaged over its cells
FEWEST = 3  # points of an obstacle
ABOVE = 0.5  # metres above the predicted height up to which points belong to the obstacle
THINNEST = 0.1  # minimum side of a box in metres: points on one line have an area too


@dataclass(frozen=True, eq=False)
class Cells:
    """A network's output for every cell of a grid; each map is rows x columns."""

    category: Array  # objectness, 0 where the cell is empty
    offset: Array  # metres from the cell's centre to the obstacle's, 2 maps
    confidence: Array
    kind: Array  # a probability for each of `KINDS`
    heading: Array  # cosine and sine of twice the yaw: front and back look alike
    height: Array  # of the obstacle's top, metres above the sensor


def clusters(cells: Cells, metres: float, objectness: float = OBJECTNESS) -> Array:
    """The number of each cell's cluster, -1 where there is no obstacle, row by row.

    Every cell points to the cell of its obstacle's predicted centre. Cells whose paths end in the same cycle of cells form
    a cluster, and so do those whose cycles touch; cells without a point in the region take part as well.
    """
    after = centre_of(cells.offset, metres)
    objects = np.flatnonzero(cells.category.ravel() >= objectness)
    reached = _reachable(after, objects)
    step = np.searchsorted(reached, after[reached])  # from here on, cells are numbered among those reached
    cycles = _on_cycle(step)
    edges = np.concatenate([np.stack([np.arange(len(step)), step]), _touching(reached, cycles, cells.category.shape[1])], 1)
    found: Array = np.full(cells.category.size, -1)
    found[objects] = _in_order(_components(edges, len(reached))[np.searchsorted(reached, objects)])
    return found


def centre_of(offset: Array, metres: float) -> Array:
    """The cell that each cell points to, clipped to the grid."""
    place = np.indices(offset.shape[1:])
    steps = np.rint(place + offset / metres)
    row, column = (np.clip(steps[axis], 0, size - 1).astype(np.int64) for axis, size in enumerate(offset.shape[1:]))
    numbers: Array = row * offset.shape[2] + column
    return numbers.ravel()


def _reachable(after: Array, objects: Array) -> Array:
    """All cells on the paths that begin in `objects`, sorted."""
    reached = np.zeros(len(after), bool)
    front = objects
    while len(front):
        reached[front] = True
        front = np.unique(after[front])
        front = front[~reached[front]]
    return np.flatnonzero(reached)


def _on_cycle(step: Array) -> Array:
    """Whether each cell lies on a cycle: those are the cells reached after more steps than there are cells."""
    place = np.arange(len(step))
    leap = step
    for _ in range(len(step).bit_length()):
        place, leap = leap[place], leap[leap]
    cycles = np.zeros(len(step), bool)
    cycles[place] = True
    return cycles


def _touching(reached: Array, cycles: Array, columns: int) -> Array:
    """Pairs of cells on cycles that share a side, numbered among those reached."""
    own = np.flatnonzero(cycles)
    pairs = []
    for near, beside in ((reached[own] + 1, (reached[own] + 1) % columns > 0), (reached[own] + columns, True)):
        place = np.minimum(np.searchsorted(reached, near), len(reached) - 1)
        met = (reached[place] == near) & cycles[place] & beside
        pairs.append(np.stack([own[met], place[met]]))
    return np.concatenate(pairs, axis=1)


def _components(edges: Array, size: int) -> Array:
    """The connected component of every cell."""
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
    """The averages over the cells of each cluster, a row per cluster."""

    confidence: Array
    kind: Array
    yaw: Array
    height: Array


def averaged(cells: Cells, cluster: Array) -> Obstacles:
    """The averages of each cluster's cells."""
    inside = np.flatnonzero(cluster >= 0)
    numbers = cluster[inside]
    count = np.bincount(numbers)

    def mean(maps: Array) -> Array:
        rows = maps.reshape(-1, cluster.size)[:, inside]
        return np.stack([np.bincount(numbers, row, len(count)) for row in rows], axis=1) / count[:, None]

    cosine, sine = mean(cells.heading).T
    return Obstacles(mean(cells.confidence)[:, 0], mean(cells.kind), np.arctan2(sine, cosine) / 2, mean(cells.height)[:, 0])


def obstacles(cells: Cells, xyz: Array, inside: Array, grid: Grid) -> Boxes3D:
    """The obstacles among the points `inside` the region: a box around the points of each, kind and score."""
    cluster = clusters(cells, grid.metres)
    means = averaged(cells, cluster)
    points = [(number, xyz[rows]) for number, rows in _members(cluster, means, xyz, np.flatnonzero(inside), grid)]
    boxes = [min_box(own, float(means.yaw[number])) for number, own in points]
    numbers = [number for number, _ in points]
    kinds = tuple(KINDS[int(best)] for best in means.kind[numbers].argmax(axis=1))
    return Boxes3D(np.array(boxes).reshape(-1, 7), kinds, scores=means.confidence[numbers])


def _members(cluster: Array, means: Obstacles, xyz: Array, rows: Array, grid: Grid) -> Iterator[tuple[int, Array]]:
    """Each cluster that is an obstacle, with the rows of its points."""
    cell = grid.cell_of(xyz[rows])
    rows, number = rows[cell >= 0], cluster[cell[cell >= 0]]
    rows, number = rows[number >= 0], number[number >= 0]
    kept = (means.confidence[number] >= CONFIDENCE) & (xyz[rows, 2] <= means.height[number] + ABOVE)
    rows, number = rows[kept], number[kept]
    order = np.argsort(number, kind="stable")
    for which, first, count in zip(*np.unique(number[order], return_index=True, return_counts=True), strict=True):
        if count >= FEWEST:
            yield int(which), rows[order[first : first + count]]


def min_box(xyz: Array, yaw: float) -> Sequence[float]:
    """x, y, z, length, width, height and yaw of the box around points whose base is the rectangle of smallest area.

    The axis nearer to `yaw` is its length.
    """
    points = np.asarray(xyz, np.float64)
    corners = cv2.convexHull(np.ascontiguousarray(points[:, :2], np.float32)).reshape(-1, 2).astype(np.float64)
    turn = _least_turn(corners, yaw)
    cosine, sine = np.cos(turn), np.sin(turn)
    local = corners @ np.array([[cosine, -sine], [sine, cosine]])
    (low, high), (bottom, top) = (np.min(local, 0), np.max(local, 0)), (points[:, 2].min(), points[:, 2].max())
    along, across = (low + high) / 2
    length, width, height = np.maximum([*(high - low), top - bottom], THINNEST)
    x, y = cosine * along - sine * across, sine * along + cosine * across
    return [float(part) for part in (x, y, (bottom + top) / 2, length, width, height, turn)]


def _least_turn(corners: Array, yaw: float) -> float:
    """The yaw of the smallest rectangle around a hull, which has a side on the hull; `yaw` itself for a single point."""
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
