"""Where added points may lie: bounded rejection sampling, and distances to a region's border."""

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

TRIES = 10_000  # per point (D-18)
MIN_BATCH, MAX_BATCH = 64, 16_384  # candidates per batch
SPACING = 0.5  # metres between the sampled border points that give a first estimate of distances
MAX_SAMPLES = 20_000
CELL = 1.0  # metres: the cell size of the coarse test for near and far
MAX_CELLS, MAX_STEPS = 500, 20  # cells across the region; cells from the border
MEASURED_FIRST = 16  # points whose exact distance bounds the search for the nearest
ROUNDING = 1e-6  # metres

ADDED, INSIDE, NEAREST = "added", "inside", "nearest_border"


def draw_points(n: int, between: Span, admitted: Callable[[Array], Array], rng: np.random.Generator) -> Array | None:
    """The first `n` admitted points of a uniform stream, float32; None once a point has used all its tries.

    The stream does not depend on the batch size, so a smaller draw is a prefix of a larger one.
    """
    found = [np.zeros((0, 4), np.float32)]
    missing, since, size = n, 0, n + n // 2  # since: tries used for the next point
    while missing:
        block = _candidates(min(max(size, MIN_BATCH), MAX_BATCH), between, rng)
        hits = np.flatnonzero(admitted(block))[:missing]
        waits = np.diff(hits, prepend=-1 - since)
        since = len(block) - 1 - int(hits[-1]) if len(hits) else since + len(block)
        missing -= len(hits)
        if (waits > TRIES).any() or (missing and since >= TRIES):
            return None
        found.append(block[hits])
        size = (missing + missing // 4) * len(block) // max(len(hits), 1) + MIN_BATCH
    return np.concatenate(found)


def _candidates(number: int, between: Span, rng: np.random.Generator) -> Array:
    rows: Array = between.low + rng.random((number, 4)) * (between.high - between.low)
    return rows.astype(np.float32)  # rounds to nearest, so a value between two float32 numbers stays there


def near_border(metres: float, region: Region, xy: Array) -> Array:
    """Whether each point lies at most `metres` from the border; exact distances only where the estimate leaves it open."""
    near = border_cells(region, metres)[1].holds(xy)
    tree, slack = _border_samples(region)
    unsure = np.flatnonzero(~near)
    about = tree.query(xy[unsure], distance_upper_bound=metres + 2 * slack)[0]
    near[unsure] = about <= metres - ROUNDING
    still_open = unsure[(about > metres - ROUNDING) & (about <= metres + slack)]
    near[still_open] = distance(region, xy[still_open]) <= metres
    return np.asarray(near)


@lru_cache(maxsize=8)
def border_cells(region: Region, metres: float) -> tuple[Bitmap, Bitmap]:
    """Cells outside which every point is farther than `metres` from the border, and cells inside which none is."""
    tree, slack = _border_samples(region)
    if not tree.n:
        return (Bitmap(np.zeros((0, 0), bool), (0.0, 0.0)),) * 2
    low, high = tree.data.min(axis=0), tree.data.max(axis=0)
    reach = metres + slack + ROUNDING
    cell = max(CELL, reach / MAX_STEPS, float((high - low).max()) / MAX_CELLS)
    steps = int(np.ceil(reach / cell))
    corner = low - (steps + 1) * cell
    wide, tall = np.ceil((high - corner) / cell).astype(np.intp) + steps + 1
    cells = np.zeros((tall, wide), np.uint8)
    column, row = np.floor((tree.data - corner) / cell).astype(np.intp).T
    cells[row, column] = 1
    # Points of two cells k rows or columns apart are at least k - 1 and at most k + 1 cells apart.
    at = (float(corner[0]), float(corner[1]))
    far, sure = (
        _dilate(cells, steps, (reach + ROUNDING) / cell, -1),
        _dilate(cells, steps, (metres - 2 * ROUNDING) / cell, 1),
    )
    return Bitmap(far, at, cell), Bitmap(sure, at, cell)


def _dilate(cells: Array, steps: int, reach: float, more: int) -> Array:
    """Cells up to `steps` from a set cell and no farther than `reach`, counting `more` rows and columns."""
    away = np.maximum(np.abs(np.arange(-steps, steps + 1)) + more, 0)
    disc = (np.hypot(away[:, None], away) <= reach).astype(np.uint8)
    # OpenCV would replace an empty structuring element by its default.
    return np.asarray(cv2.dilate(cells, disc) > 0) if disc.any() else np.zeros(cells.shape, bool)


def nearest_to_border(region: Region, xy: Array) -> float:
    """Metres from the border to the nearest of the points; infinity without any."""
    tree, slack = _border_samples(region)
    most = distance(region, xy[:MEASURED_FIRST]).min(initial=np.inf)
    about = tree.query(xy, distance_upper_bound=most + 2 * slack)[0]
    return float(distance(region, xy[about <= most + slack]).min(initial=most))


def placement_facts(region: Region | None, added: Sequence[Array], before: Mapping[str, Fact]) -> Mapping[str, Fact]:
    """The facts that a follow-up records about its added points, including those of earlier steps (`before`)."""
    # LM-4: counted on the points as float32 holds them
    xy = np.concatenate([np.zeros((0, 2)), *(xyzi[:, :2].astype(np.float64) for xyzi in added)])
    facts = {ADDED: float(len(xy)), INSIDE: 0.0 if region is None else float(_count_inside(region, xy))}
    for name in facts:
        facts[name] += float(before.get(name, 0.0))
    gap = min(nearest_to_border(region, xy) if region is not None else np.inf, float(before.get(NEAREST, np.inf)))
    return {**facts, NEAREST: gap} if np.isfinite(gap) else facts


def _count_inside(region: Region, xy: Array) -> int:
    """How many points lie inside; the quicker test for being clear of the region comes first."""
    return int(inside(region, xy[~outside(region, xy)]).sum())


@lru_cache(maxsize=8)
def _border_samples(region: Region) -> tuple[Any, float]:
    """A tree of points sampled along the border, and the largest distance of any border point from a sample."""
    from scipy.spatial import cKDTree  # takes 0.25 s to import

    start, end = edges(region).transpose(1, 0, 2)
    length = np.linalg.norm(end - start, axis=1)
    spacing = max(SPACING, float(length.sum()) / MAX_SAMPLES)
    number = np.maximum(np.ceil(length / spacing), 1).astype(np.intp)
    edge = np.repeat(np.arange(len(number)), number)
    share = (np.arange(len(edge)) - np.repeat(np.cumsum(number) - number, number)) / number[edge]
    return cKDTree(start[edge] + share[:, None] * (end - start)[edge]), spacing / 2 + ROUNDING
