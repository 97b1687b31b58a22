"""Point-in-region tests: exact, on a bitmap of cells as in Apollo, or outside both.

A point is inside if its winding number is not 0: overlapping polygons form one area, a ring of the opposite direction is a
hole, and a point on a border is inside. A region without rings contains no point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from swerve.core.case import Case
from swerve.core.values import Array, Group, Region, Value

CELL = 0.25  # metres; the cell size of Apollo's bitmap
REACH = 256.0  # metres each way covered by a cached bitmap; beyond the range of any LiDAR
_ROUNDING = 4e-15  # relative to a product; a smaller difference gets its sign from exact fractions
_TOUCH = 1e-6  # cells; a centre this close to a border is decided exactly
_MANY = 1 << 20  # samples on edges, above which every cell counts as touched
_TOGETHER = 1 << 16  # pairs of points and edges compared at once


def inside(region: Region, xy: Array) -> Array:
    """Whether each point (n x 2, metres) lies in the region; a border is inside, a point that is not finite is not."""
    points = _points(xy)
    if not len(points):
        return np.zeros(0, bool)
    border = edges(region)
    order = np.argsort(points[:, 1], kind="stable")  # the points level with an edge are then contiguous
    x, y = np.ascontiguousarray(points[order].T)
    low, high = np.sort(border[..., 1], axis=1).T
    first, last, past = y.searchsorted(low), y.searchsorted(high), y.searchsorted(high, side="right")
    up = np.where(border[:, 0, 1] < border[:, 1, 1], 1, -1).astype(np.int32)
    turns, touched = np.zeros(len(x), np.int32), np.zeros(len(x), bool)
    for edge, point in pairs(first, past - first):
        side = _side(border[edge], x[point], y[point])
        touched[point[side == 0]] = True
        left = (up[edge] * side > 0) & (point < last[edge])  # the upper end of an edge belongs to the next edge
        np.add.at(turns, point[left], up[edge[left]])
    found = np.empty(len(x), bool)
    found[order] = ((turns != 0) | touched) & np.isfinite(x)
    return found


def region_of(case: Case) -> Region | None:
    """The region of `case`, from its inputs or else its labels."""
    waiting: list[Value] = [*case.inputs.values(), *case.truth]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, Region):
            return value
        waiting[:0] = value.values if isinstance(value, Group) else ()
    return None


def _points(xy: Array) -> Array:
    points: Array = np.asarray(xy, np.float64).reshape(-1, 2)
    return points


def _side(edge: Array, x: Array, y: Array) -> Array:
    """Positive where a point, level with its edge, lies left of it; exactly 0 where it lies on it."""
    (ax, ay), (bx, by) = edge.transpose(1, 2, 0)
    one, other = (bx - ax) * (y - ay), (x - ax) * (by - ay)
    side: Array = one - other
    for row in np.flatnonzero((np.abs(side) <= _ROUNDING * np.abs(one)) & (one != 0)):
        side[row] = _exact_side(*map(Fraction, (*edge[row].ravel().tolist(), float(x[row]), float(y[row]))))
    flat = ay == by
    side[flat] = np.where((x >= np.minimum(ax, bx)) & (x <= np.maximum(ax, bx)), 0.0, 1.0)[flat]
    return side


def _exact_side(ax: Fraction, ay: Fraction, bx: Fraction, by: Fraction, x: Fraction, y: Fraction) -> int:
    left = (bx - ax) * (y - ay) - (x - ax) * (by - ay)
    return (left > 0) - (left < 0)


@lru_cache(maxsize=8)
def edges(region: Region) -> Array:
    """The start and end of every edge of every ring, n x 2 x 2; rings are closed implicitly."""
    pairs = [np.stack([ring, np.roll(ring, -1, axis=0)], axis=1) for ring in region.polygons]
    found = np.concatenate(pairs) if pairs else np.zeros((0, 2, 2))
    found.flags.writeable = False
    return found


def bounds(region: Region) -> tuple[Array, Array]:
    """The minimum and maximum x and y; NaN for a region without rings."""
    corners = edges(region)[:, 0]
    return (corners.min(axis=0), corners.max(axis=0)) if len(corners) else (np.full(2, np.nan), np.full(2, np.nan))


def area_of(ring: Array) -> float:
    """The signed area of a ring in square metres, negative if clockwise."""
    x, y = (np.asarray(ring, np.float64) - np.asarray(ring, np.float64)[:1]).T  # far from the origin, products lose digits
    return float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) / 2)


def distance(region: Region, xy: Array) -> Array:
    """Metres from each point to the nearest border, inside or out; infinity for a region without rings."""
    points, border = _points(xy), edges(region)
    nearest = np.full(len(points), np.inf)
    for first in range(0, len(points), step := max(1, _TOGETHER // max(1, len(border)))):
        nearest[first : first + step] = _gaps(border, points[first : first + step]).min(axis=0, initial=np.inf)
    metres: Array = np.sqrt(nearest)
    return metres


def _gaps(border: Array, points: Array) -> Array:
    """The squared distance between every edge and every point."""
    (ax, ay), (bx, by) = border.transpose(1, 2, 0)[..., None]
    along, up = bx - ax, by - ay
    x, y = points[:, 0] - ax, points[:, 1] - ay
    share = np.clip((x * along + y * up) / np.maximum(along**2 + up**2, np.finfo(float).tiny), 0, 1)
    gaps: Array = (x - share * along) ** 2 + (y - share * up) ** 2
    return gaps


@dataclass(frozen=True, eq=False)
class Bitmap:
    """A region rasterised into cells, rows along y: a cell is set if its centre is inside."""

    cells: Array
    low: tuple[float, float]  # x and y where the first cell begins
    cell: float = CELL

    @classmethod
    def of(cls, region: Region, low: tuple[float, float], high: tuple[float, float], cell: float = CELL) -> Bitmap:
        """The cells from `low` up to `high`, both x and y in metres."""
        wide, tall = (max(0, int(np.ceil((h - w) / cell - _TOUCH))) for w, h in zip(low, high, strict=True))
        start, end = ((edges(region) - low) / cell - 0.5).transpose(1, 2, 0)  # in cells: a centre is a whole number
        start[1], end[1] = (np.where(np.abs(y - np.rint(y)) < _TOUCH, np.rint(y), y) for y in (start[1], end[1]))
        edge, row = _rows_met(start[1], end[1], tall)
        (start_x, start_y), (end_x, end_y) = start[:, edge], end[:, edge]
        flat = start_y == end_y
        meets = start_x + (row - start_y) / np.where(flat, 1, end_y - start_y) * (end_x - start_x)
        counted = ~flat & (row < np.maximum(start_y, end_y))  # the upper end of an edge belongs to the next edge
        left_of = np.clip(np.ceil(meets), 0, wide).astype(np.intp)
        turns = np.bincount((row * (wide + 1) + left_of)[counted], np.sign(end_y - start_y)[counted], tall * (wide + 1))
        winds = turns.reshape(tall, wide + 1)[:, :0:-1].cumsum(axis=1)[:, ::-1]
        bitmap = cls(winds != 0, (float(low[0]), float(low[1])), cell)
        until = np.where(flat, end_x, meets)
        bitmap._decide(region, row, np.minimum(meets, until), np.maximum(meets, until))
        bitmap.cells.flags.writeable = False
        return bitmap

    def _decide(self, region: Region, row: Array, least: Array, most: Array) -> None:
        """Recompute exactly the cells whose centre a border touches between columns `least` and `most` of a row."""
        wide = self.cells.shape[1]
        first = np.clip(np.ceil(least - _TOUCH), 0, wide).astype(np.intp)
        number = np.clip(np.floor(most + _TOUCH) + 1, first, wide).astype(np.intp) - first
        touched, columns = _all_pairs(first, number)
        rows = row[touched]
        self.cells[rows, columns] = inside(region, np.stack([columns + 0.5, rows + 0.5], 1) * self.cell + self.low)

    def holds(self, xy: Array) -> Array:
        """Whether each point (n x 2, metres) lies in a set cell; False beyond the bitmap."""
        points = _points(xy)
        known, numbers = self.numbers(points)
        held = np.zeros(len(points), bool)
        held[known] = self.cells.take(numbers)
        return held

    def numbers(self, points: Array) -> tuple[Array, Array]:
        """The indices of the points within the bitmap, and the flat indices of their cells."""
        tall, wide = self.cells.shape
        with np.errstate(invalid="ignore"):
            column, row = ((points - self.low) / self.cell).T
            known = np.flatnonzero((column >= 0) & (column < wide) & (row >= 0) & (row < tall))
        return known, row[known].astype(np.intp) * wide + column[known].astype(np.intp)

    def grown(self, by: int = 1) -> Bitmap:
        """The bitmap dilated by `by` cells, diagonals included; its extent stays the same."""
        wider = self.cells.copy()
        for _ in range(by):
            here = wider.copy()
            wider[1:] |= here[:-1]
            wider[:-1] |= here[1:]
            here = wider.copy()
            wider[:, 1:] |= here[:, :-1]
            wider[:, :-1] |= here[:, 1:]
        wider.flags.writeable = False
        return Bitmap(wider, self.low, self.cell)


def _rows_met(start: Array, end: Array, tall: int) -> tuple[Array, Array]:
    """Pairs of an edge and a row of centres that it meets, both ends included."""
    first = np.clip(np.ceil(np.minimum(start, end)), 0, tall).astype(np.intp)
    return _all_pairs(first, np.clip(np.floor(np.maximum(start, end)) + 1, first, tall).astype(np.intp) - first)


def pairs(first: Array, number: Array) -> Iterator[tuple[Array, Array]]:
    """Each row paired with its `number` of indices from `first` on, in chunks that bound the memory."""
    done = np.concatenate([[0], np.cumsum(number)])
    row = 0
    while row < len(number):
        until = max(row + 1, int(done.searchsorted(done[row] + _TOGETHER, side="right")) - 1)
        rows = np.repeat(np.arange(row, until), number[row:until])
        yield rows, first[rows] + np.arange(len(rows)) - (done[rows] - done[row])
        row = until


def _all_pairs(first: Array, number: Array) -> tuple[Array, Array]:
    """All `pairs` at once."""
    found = [*pairs(first, number), (np.zeros(0, np.intp), np.zeros(0, np.intp))]
    rows, others = zip(*found, strict=True)
    return np.concatenate(rows), np.concatenate(others)


def outside(region: Region, xy: Array, cell: float = CELL) -> Array:
    """Whether each point lies outside both the polygons and their bitmap dilated by one cell.

    Cells start at multiples of `cell`, as in a detector's grid, so bitmap and polygons agree on all points reported outside.
    """
    # LM-4, R52
    points = _points(xy)
    farther = np.abs(points).max(axis=1, initial=0.0)  # of x and y
    clear: Array = np.isfinite(farther)
    covered = farther < REACH - 2 * cell
    near, far = np.flatnonzero(covered), np.flatnonzero(clear & ~covered)
    grown, border = _bitmaps(region, cell)  # both have the same extent
    known, numbers = grown.numbers(points if len(near) == len(points) else points[near])
    held = grown.cells.take(numbers)
    clear[near[known]] = ~held
    clear[far] = ~_near_centre(region, points[far], cell)
    # A cell that no edge touches lies wholly outside if its centre does: only the other cells need the exact test.
    doubtful = np.concatenate([near[known[~held & border.cells.take(numbers)]], far[clear[far]]])
    clear[doubtful] = ~inside(region, points[doubtful])
    return clear


def _near_centre(region: Region, points: Array, cell: float) -> Array:
    """The dilated bitmap beyond its extent: whether the centre of one of the nine cells around a point is inside."""
    found = np.zeros(len(points), bool)
    if not len(points):
        return found
    column, row = np.floor(points / cell).T
    for x, y in product((-0.5, 0.5, 1.5), repeat=2):
        found |= inside(region, np.stack([column + x, row + y], axis=1) * cell)
    return found


@lru_cache(maxsize=8)
def _bitmaps(region: Region, cell: float) -> tuple[Bitmap, Bitmap]:
    """The dilated bitmap of a region up to `REACH`, and one of all cells that its edges may touch."""
    low, high = (np.clip(part, -REACH, REACH) for part in bounds(region))
    if not np.isfinite(low).all():
        return (Bitmap(np.zeros((0, 0), bool), (0.0, 0.0), cell),) * 2
    (left, right), (ahead, behind) = ((np.floor(low / cell) - 2) * cell, (np.ceil(high / cell) + 2) * cell)
    whole = Bitmap.of(region, (left, right), (ahead, behind), cell)
    return whole.grown(), _touched(region, whole).grown()


def _touched(region: Region, like: Bitmap) -> Bitmap:
    """The cells of points sampled on the edges every half cell; all cells if there would be too many samples."""
    start, along = edges(region)[:, 0], np.diff(edges(region), axis=1)[:, 0]
    steps = np.ceil(np.hypot(*along.T) / (like.cell / 2)) + 1
    if steps.sum() > _MANY:
        return Bitmap(np.ones_like(like.cells), like.low, like.cell)
    edge, step = _all_pairs(np.zeros(len(start), np.intp), steps.astype(np.intp) + 1)
    place = np.floor((start[edge] + (step / steps[edge])[:, None] * along[edge] - like.low) / like.cell).astype(np.intp)
    column, row = place[((place >= 0) & (place < like.cells.shape[::-1])).all(axis=1)].T
    cells = np.zeros_like(like.cells)
    cells[row, column] = True
    return Bitmap(cells, like.low, like.cell)
