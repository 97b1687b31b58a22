"""R52: of ten million added points none lies inside the region, all are in the sweep's range, and the sweep comes first.

SWERVE_SOAK=1 draws all ten million; else it is a few hundred thousand.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.region import CELL, Bitmap, bounds, distance, inside
from swerve.core.values import Array, PointCloud, Region
from swerve.transformations.scatter import DISC_RADIUS, AddPoints
from tests.fixture_sweeps import points_of, road

SOAK = os.environ.get("SWERVE_SOAK") == "1"
POINTS = 10_000_000 if SOAK else 400_000
EACH = 10_000


def bent_road(rng: np.random.Generator) -> Region:
    """A winding road with a crossing and an island, its corners anywhere between the cells."""
    along = np.sort(rng.uniform(-90, 90, 25))
    middle = np.column_stack([along, np.cumsum(rng.normal(0, 2, 25))])
    wide = rng.uniform(3, 9)
    across = np.array([[0.0, wide]])
    lane = np.concatenate([middle - across, (middle + across)[::-1]])
    x, half = rng.uniform(-40, 40), rng.uniform(2, 6)
    crossing = np.array([[x - half, -80], [x + half, -80], [x + half, 80], [x - half, 80.0]])
    turn = rng.uniform(0, np.pi)
    sliver = np.array([[60, 60], [60.03, 60.5], [75, 75.01]]) @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
    island = middle[12] + rng.uniform(1, 2.5) * np.array([[-1.0, -1], [-1, 1], [1, 1], [1, -1]])
    return Region((lane, crossing, sliver, island))


def sweep(rng: np.random.Generator) -> PointCloud:
    """A sweep of its own size, heights and intensities, here and there broken."""
    low = np.array([-rng.uniform(40, 90), -rng.uniform(40, 90), -rng.uniform(1, 3), rng.uniform(0, 0.2)])
    high = np.array([rng.uniform(40, 90), rng.uniform(40, 90), rng.uniform(1, 8), rng.uniform(0.3, 1)])
    xyzi = rng.uniform(low, high, (500, 4)).astype(np.float32)
    xyzi[rng.integers(0, 500, 5), rng.integers(0, 4, 5)] = (np.nan, np.inf, -np.inf, np.nan, np.inf)
    return PointCloud(xyzi)


def bitmap(region: Region) -> Bitmap:
    """The bitmap that a detector would use: cells from a multiple of their size on."""
    low, high = bounds(region)
    start = np.floor(low / CELL) * CELL
    return Bitmap.of(region, tuple(start), tuple(np.ceil(high / CELL) * CELL))  # type: ignore[arg-type]


def faults(before: Array, after: Array, region: Region, change: AddPoints) -> dict[str, int]:
    """How many points, or sweeps, break each promise."""
    new = after[len(before) :]
    xy = new[:, :2].astype(np.float64)
    sound = before[np.isfinite(before).all(axis=1)]
    first = 2 if change.area == "disc" else 0
    low, high = sound.min(axis=0)[first:], sound.max(axis=0)[first:]
    return {
        "moved": int(after[: len(before)].tobytes() != before.tobytes()),
        "missing": change.n - len(new),
        "inside": int(inside(region, xy).sum()),
        "in the bitmap": int(bitmap(region).holds(xy).sum()),
        "beyond the range": int((~((new[:, first:] >= low) & (new[:, first:] <= high)).all(axis=1)).sum()),
        "beyond the disc": int((np.hypot(*xy.T) > DISC_RADIUS).sum()) if first else 0,
        "not near": 0 if change.near is None else int((distance(region, xy[::50]) > change.near).sum()),
    }


def test_added_points_keep_every_promise() -> None:
    drawn = 0
    for round_ in range(POINTS // EACH):
        rng = np.random.default_rng(round_)
        region, cloud = bent_road(rng), sweep(rng)
        near, area = (None, None, 5.0)[round_ % 3], ("box", "disc")[round_ % 2]
        change = AddPoints(EACH, int(rng.integers(2**31)), near=near, area=area)
        after = change(Case("sweep", {"lidar": cloud, "region": region}))
        assert not any(faults(cloud.xyzi, points_of(after), region, change).values()), (round_, change)
        assert after.facts["inside"] == 0
        drawn += change.n
    assert drawn == POINTS


@pytest.mark.parametrize(
    ("fault", "break_it"),
    [
        ("inside", lambda rows: rows[-1].__setitem__(slice(0, 2), (0.0, 0.0))),
        ("in the bitmap", lambda rows: rows[-1].__setitem__(slice(0, 2), (0.0, 6.2))),
        ("beyond the range", lambda rows: rows[-1].__setitem__(2, 99.0)),
        ("moved", lambda rows: rows[3].__setitem__(0, np.nextafter(rows[3, 0], np.float32(9)))),
    ],
)
def test_broken_promise_would_be_seen(fault: str, break_it) -> None:  # type: ignore[no-untyped-def]
    """The same checks over one planted fault each."""
    cloud = sweep(np.random.default_rng(1))
    change = AddPoints(10)
    tight = Region((np.array([[-40.0, -6], [40, -6], [40, 6.13], [-40, 6.13]]),)) if fault == "in the bitmap" else road()
    after = points_of(change(Case("sweep", {"lidar": cloud, "region": tight}))).copy()
    assert not any(faults(cloud.xyzi, after, tight, change).values())
    break_it(after)
    assert faults(cloud.xyzi, after, tight, change)[fault] == 1
