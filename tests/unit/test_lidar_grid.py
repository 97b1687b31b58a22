from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.errors import InputError
from swerve.zoo.grid import CHANNELS, Grid

SMALL = Grid(cells=4, reach=8.0)  # cells of 4 m: rows begin at x = -8, -4, 0, 4
EMPTY = np.zeros((0, 4), np.float32)


def sweep(*points: tuple[float, float, float, float]) -> np.ndarray:
    return np.array(points, np.float32).reshape(-1, 4)


def channel(grid: Grid, xyzi: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(grid.features(xyzi)[CHANNELS.index(name)])


THREE = sweep((1, -5, 0.5, 0.2), (2, -6, 1.5, 0.9), (3, -7, -0.5, 0.1))  # all in row 2, column 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max height", 1.5),
        ("mean height", 0.5),
        ("log count", np.log(4)),
        ("top intensity", 0.9),
        ("mean intensity", 0.4),
        ("non-empty", 1.0),
    ],
)
def test_cell_tells_its_points(name: str, value: float) -> None:
    found = channel(SMALL, THREE, name)
    assert found[2, 0] == pytest.approx(value, abs=1e-6)
    found[2, 0] = 0
    assert not found.any()


def test_place_is_the_middle_of_a_cell() -> None:
    direction, distance = (channel(SMALL, EMPTY, name) for name in ("direction", "distance"))
    assert direction[2, 0] == pytest.approx(np.arctan2(-6, 2) / (2 * np.pi))  # 2 m ahead, 6 m to the right
    assert distance[2, 0] == pytest.approx(np.hypot(2, 6) / 8 - 0.5)
    assert direction[2, 3] == pytest.approx(-direction[2, 0])  # left and right


def test_sweep_without_points_is_empty() -> None:
    maps = SMALL.features(EMPTY)
    assert maps.shape == (8, 4, 4)
    assert maps.dtype == np.float32
    assert not maps[[number for number, name in enumerate(CHANNELS) if name not in ("direction", "distance")]].any()


def test_negative_heights_are_kept() -> None:
    assert channel(SMALL, sweep((1, 1, -1.7, 0.3), (1, 1, -1.5, 0.4)), "max height")[2, 2] == pytest.approx(-1.5)


def test_first_of_equal_heights_is_the_top() -> None:
    for first, second in ((0.2, 0.8), (0.8, 0.2)):
        points = sweep((1, 1, 1.0, first), (2, 2, 1.0, second), (3, 3, 0.0, 0.5))
        assert channel(SMALL, points, "top intensity")[2, 2] == pytest.approx(first)


@pytest.mark.parametrize(
    ("point", "cell"),
    [
        ((-8.0, -8.0, 0.0), 0),
        ((-8.001, 0.0, 0.0), -1),
        ((8.0, 0.0, 0.0), -1),
        ((np.nextafter(np.float32(8), np.float32(0)), 0.0, 0.0), 14),
        ((0.0, 0.0, 5.0), 10),
        ((0.0, 0.0, -5.0), 10),
        ((0.0, 0.0, 5.001), -1),
        ((0.0, 0.0, -5.001), -1),
        ((np.nan, 0.0, 0.0), -1),
        ((0.0, np.inf, 0.0), -1),
        ((0.0, 0.0, -np.inf), -1),
    ],
)
def test_borders_are_half_open(point: tuple[float, float, float], cell: int) -> None:
    assert SMALL.cell_of(np.array([point], np.float32)).tolist() == [cell]


def test_largest_number_below_the_reach_has_a_cell() -> None:
    grid = Grid(cells=640)
    edge = np.array([[np.nextafter(60, 0), np.nextafter(60, 0), 0]])
    assert grid.cell_of(edge).tolist() == [640 * 640 - 1]


def test_broken_intensity_is_dropped() -> None:
    points = sweep((1, 1, 0, 0.5), (1, 1, 2, np.nan))
    assert np.array_equal(SMALL.features(points), SMALL.features(points[:1]))


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 300))
def test_like_point_by_point(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.uniform([-10, -10, -6, 0], [10, 10, 6, 1], (count, 4)).astype(np.float32)
    points[:, 2] = np.round(points[:, 2], 1)  # some are equally high
    assert SMALL.features(points) == pytest.approx(slowly(SMALL, points), abs=1e-5)


def slowly(grid: Grid, points: np.ndarray) -> np.ndarray:
    """The same channels, one point after the other."""
    maps = grid.features(EMPTY)
    held: dict[tuple[int, int], list[np.ndarray]] = {}
    for point in points:
        x, y, z = (float(part) for part in point[:3])
        if -grid.reach <= x < grid.reach and -grid.reach <= y < grid.reach and abs(z) <= grid.tallest:
            place = int((x + grid.reach) // grid.metres), int((y + grid.reach) // grid.metres)
            held.setdefault(place, []).append(point)
    for (row, column), members in held.items():
        top = members[int(np.argmax([point[2] for point in members]))]
        height, light = (np.mean([float(point[part]) for point in members]) for part in (2, 3))
        numbers = {0: top[2], 1: height, 2: np.log(1 + len(members)), 4: top[3], 5: light, 7: 1.0}
        for number, value in numbers.items():
            maps[number, row, column] = value
    return maps


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_added_points_change_only_their_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = [-8, -8, -5, 0], [8, 8, 5, 1]
    points, added = (rng.uniform(low, high, (count, 4)).astype(np.float32) for count in (200, 3))
    before, after = SMALL.features(points), SMALL.features(np.concatenate([points, added]))
    touched = np.unique(SMALL.cell_of(added))
    untouched = np.setdiff1d(np.arange(16), touched)
    before, after = before.reshape(8, -1), after.reshape(8, -1)
    assert np.array_equal(before[:, untouched], after[:, untouched])
    assert (before[:, touched] != after[:, touched]).any(axis=0).all()


@pytest.mark.parametrize(("cells", "reach"), [(0, 60.0), (320, 0.0), (320, float("nan")), (320, float("inf"))])
def test_senseless_grid_is_refused(cells: int, reach: float) -> None:
    with pytest.raises(InputError, match="a grid needs at least 1 cell and a reach and height above 0"):
        Grid(cells, reach)
