"""Where added points may lie: rejection with bounded tries, distances to a region's border, the proof of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import cv2
import numpy as np

from swerve.core.case import Fact
from swerve.core.region import Bitmap, distance, edges, inside, outside
from swerve.core.values import Array, Region
from swerve.transformations.points import Span

TRIES = 10_000  # for one point (D-18)
LEAST, MOST = 64, 16_384  # candidates looked at together
SPACING = 0.5  # metres between the places on the border by which points are told apart before any is measured
MOST_PLACES = 20_000
COARSE = 1.0  # metres: the cells by which most points are told to be far or near
MOST_CELLS, MOST_STEPS = 500, 20  # across the region; from a border
FEW = 16  # points that are measured to know how near the nearest is at least
ROUNDING = 1e-6  # metres

ADDED, INSIDE, NEAREST = "added", "inside", "nearest_border"


def drawn(n: int, between: Span, admitted: Callable[[Array], Array], rng: np.random.Generator) -> Array | None:
    """The first `n` admitted points of a uniform stream, float32; None once a point has had all its tries.

    The stream does not depend on how many of it are looked at together, so fewer points are the first of more.
    """
    found = [np.zeros((0, 4), np.float32)]
    missing, since, size = n, 0, n + n // 2  # since: the tries that the next point has had
    while missing:
        block = _candidates(min(max(size, LEAST), MOST), between, rng)
        hits = np.flatnonzero(admitted(block))[:missing]
        waits = np.diff(hits, prepend=-1 - since)
        since = len(block) - 1 - int(hits[-1]) if len(hits) else since + len(block)
        missing -= len(hits)
        if (waits > TRIES).any() or (missing and since >= TRIES):
            return None
        found.append(block[hits])
        size = (missing + missing // 4) * len(block) // max(len(hits), 1) + LEAST
    return np.concatenate(found)


def _candidates(number: int, between: Span, rng: np.random.Generator) -> Array:
    rows: Array = between.low + rng.random((number, 4)) * (between.high - between.low)
    return rows.astype(np.float32)  # to the nearest, so that what lay between two float32 numbers still does


def within(metres: float, region: Region, xy: Array) -> Array:
    """Whether each point lies at most `metres` from the border; only those that this leaves open are measured exactly."""
    near = vicinity(region, metres)[1].holds(xy)
    tree, slack = _places(region)
    unsure = np.flatnonzero(~near)
    about = tree.query(xy[unsure], distance_upper_bound=metres + 2 * slack)[0]
    near[unsure] = about <= metres - ROUNDING
    still_open = unsure[(about > metres - ROUNDING) & (about <= metres + slack)]
    near[still_open] = distance(region, xy[still_open]) <= metres
    return np.asarray(near)


@lru_cache(maxsize=8)
def vicinity(region: Region, metres: float) -> tuple[Bitmap, Bitmap]:
    """Cells beyond which every point lies more than `metres` from the border, and cells in which none does."""
    tree, slack = _places(region)
    if not tree.n:
        return (Bitmap(np.zeros((0, 0), bool), (0.0, 0.0)),) * 2
    low, high = tree.data.min(axis=0), tree.data.max(axis=0)
    reach = metres + slack + ROUNDING
    cell = max(COARSE, reach / MOST_STEPS, float((high - low).max()) / MOST_CELLS)
    steps = int(np.ceil(reach / cell))
    corner = low - (steps + 1) * cell
    wide, tall = np.ceil((high - corner) / cell).astype(np.intp) + steps + 1
    cells = np.zeros((tall, wide), np.uint8)
    column, row = np.floor((tree.data - corner) / cell).astype(np.intp).T
    cells[row, column] = 1
    # Between points of two cells that are so many rows and columns apart lies a cell less at least, and one more at most.
    at = (float(corner[0]), float(corner[1]))
    far, sure = (
        _spread(cells, steps, (reach + ROUNDING) / cell, -1),
        _spread(cells, steps, (metres - 2 * ROUNDING) / cell, 1),
    )
    return Bitmap(far, at, cell), Bitmap(sure, at, cell)


def _spread(cells: Array, steps: int, reach: float, more: int) -> Array:
    """Cells up to `steps` from a set one that are no farther than `reach` with `more` rows and columns between."""
    away = np.maximum(np.abs(np.arange(-steps, steps + 1)) + more, 0)
    disc = (np.hypot(away[:, None], away) <= reach).astype(np.uint8)
    # OpenCV takes an empty disc for one of any shape.
    return np.asarray(cv2.dilate(cells, disc) > 0) if disc.any() else np.zeros(cells.shape, bool)


def nearest(region: Region, xy: Array) -> float:
    """Metres from the border to the nearest of the points; infinity without any."""
    tree, slack = _places(region)
    most = distance(region, xy[:FEW]).min(initial=np.inf)
    about = tree.query(xy, distance_upper_bound=most + 2 * slack)[0]
    return float(distance(region, xy[about <= most + slack]).min(initial=most))


def proof(region: Region | None, added: Sequence[Array], before: Mapping[str, Fact]) -> Mapping[str, Fact]:
    """What a finding records of its added points (LM-4), counted on the points as they are; `before`: of steps before."""
    xy = np.concatenate([np.zeros((0, 2)), *(xyzi[:, :2].astype(np.float64) for xyzi in added)])
    facts = {ADDED: float(len(xy)), INSIDE: 0.0 if region is None else float(_held(region, xy))}
    for name in facts:
        facts[name] += float(before.get(name, 0.0))
    gap = min(nearest(region, xy) if region is not None else np.inf, float(before.get(NEAREST, np.inf)))
    return {**facts, NEAREST: gap} if np.isfinite(gap) else facts


def _held(region: Region, xy: Array) -> int:
    """How many points lie inside: of those that are not clear of the region, which is quicker to tell."""
    return int(inside(region, xy[~outside(region, xy)]).sum())


@lru_cache(maxsize=8)
def _places(region: Region) -> tuple[Any, float]:
    """A tree of places along the border, and how many metres from one any other place of it lies at most."""
    from scipy.spatial import cKDTree  # a quarter of a second to import

    start, end = edges(region).transpose(1, 0, 2)
    length = np.linalg.norm(end - start, axis=1)
    spacing = max(SPACING, float(length.sum()) / MOST_PLACES)
    number = np.maximum(np.ceil(length / spacing), 1).astype(np.intp)
    edge = np.repeat(np.arange(len(number)), number)
    share = (np.arange(len(edge)) - np.repeat(np.cumsum(number) - number, number)) / number[edge]
    return cKDTree(start[edge] + share[:, None] * (end - start)[edge]), spacing / 2 + ROUNDING
