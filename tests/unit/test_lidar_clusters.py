from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.zoo.clusters import FEWEST, KINDS, THINNEST, Cells, averaged, centre_of, clusters, min_box, obstacles
from swerve.zoo.grid import Grid

GRID = Grid(cells=8, reach=8.0)  # cells of 2 m
SIDE = 8


def cells(category: np.ndarray, offset: np.ndarray | None = None, **maps: np.ndarray) -> Cells:
    """What a network says that is sure of everything but what is given."""
    shape = category.shape
    said = {
        "offset": np.zeros((2, *shape)),
        "confidence": np.ones(shape),
        "kind": np.stack([np.ones(shape), *np.zeros((3, *shape))]),
        "heading": np.stack([np.ones(shape), np.zeros(shape)]),
        "height": np.full(shape, 2.0),
    }
    if offset is not None:
        said["offset"] = offset
    return Cells(category, **(said | maps))


def marked(*places: tuple[int, int], shape: tuple[int, int] = (SIDE, SIDE)) -> np.ndarray:
    found = np.zeros(shape)
    for place in places:
        found[place] = 1.0
    return found


def groups(labels: np.ndarray) -> list[list[int]]:
    """Members of each cluster, in the order of the clusters."""
    return [np.flatnonzero(labels == number).tolist() for number in range(labels.max(initial=-1) + 1)]


def slowly(category: np.ndarray, after: np.ndarray) -> list[list[int]]:
    """Cell by cell as Apollo walks: from every object along the arrows until a known cell, then rings that touch."""
    rows, columns = category.shape
    parent, done, rings = list(range(rows * columns)), set(), set()

    def root(cell: int) -> int:
        while parent[cell] != cell:
            cell = parent[cell]
        return cell

    objects = [int(cell) for cell in np.flatnonzero(category.ravel() >= 0.5)]
    for start in objects:
        path, cell = [], start
        while cell not in done and cell not in path:
            path.append(cell)
            cell = int(after[cell])
        if cell in path:
            rings |= set(path[path.index(cell) :])
        for member in path:
            parent[root(member)] = root(cell)
        done |= set(path)
    for cell in rings:
        for other in beside(cell, rows, columns):
            if other in rings:
                parent[root(other)] = root(cell)
    found: dict[int, list[int]] = {}
    for cell in objects:
        found.setdefault(root(cell), []).append(cell)
    return list(found.values())


def beside(cell: int, rows: int, columns: int) -> Iterator[int]:
    row, column = divmod(cell, columns)
    for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0)):
        if 0 <= row + down < rows and 0 <= column + right < columns:
            yield (row + down) * columns + column + right


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9), st.floats(0.05, 1), st.floats(0, 4))
def test_like_walking_cell_by_cell(seed: int, rows: int, columns: int, share: float, far: float) -> None:
    rng = np.random.default_rng(seed)
    category = (rng.random((rows, columns)) < share).astype(float)
    offset = rng.normal(0, far, (2, rows, columns))
    labels = clusters(cells(category, offset), 1.0)
    assert groups(labels) == slowly(category, centre_of(offset, 1.0))
    assert np.array_equal(labels >= 0, category.ravel() >= 0.5)


def test_long_way_is_followed_to_its_end() -> None:
    """A line of 64 cells, each pointing to the next: the first and the last belong together."""
    offset = np.zeros((2, 1, 64))
    offset[1, 0, :-1] = 1.0
    category = marked((0, 0), (0, 63), shape=(1, 64))
    assert groups(clusters(cells(category, offset), 1.0)) == [[0, 63]]


def test_ring_of_many_cells_is_one() -> None:
    """Arrows around a square: no cell is its own middle, and whoever points into it belongs to it."""
    offset = np.zeros((2, 4, 4))
    for (row, column), step in {(1, 1): (0, 1), (1, 2): (1, 0), (2, 2): (0, -1), (2, 1): (-1, 0), (0, 0): (1, 1)}.items():
        offset[:, row, column] = step
    category = marked((0, 0), (2, 2), (3, 3), shape=(4, 4))
    assert groups(clusters(cells(category, offset), 1.0)) == [[0, 10], [15]]


def test_cells_without_middle_in_common_stay_apart() -> None:
    category = marked((1, 1), (1, 4), (5, 5))
    assert len(groups(clusters(cells(category), 2.0))) == 3


def test_middles_that_touch_are_one() -> None:
    beside_each_other, corner_to_corner = marked((1, 1), (1, 2)), marked((1, 1), (2, 2))
    assert len(groups(clusters(cells(beside_each_other), 2.0))) == 1
    assert len(groups(clusters(cells(corner_to_corner), 2.0))) == 2


def test_way_leads_over_cells_that_are_no_objects() -> None:
    """As in Apollo: an arrow may end in a cell that is empty, and two obstacles' arrows then meet there."""
    offset = np.zeros((2, SIDE, SIDE))
    offset[1, 2, 1], offset[1, 2, 5] = 4.0, -4.0  # both to column 3, two cells away
    assert groups(clusters(cells(marked((2, 1), (2, 5)), offset), 2.0)) == [[17, 21]]


def test_objectness_of_a_half_counts() -> None:
    category = np.array([[0.5, np.nextafter(0.5, 0)]])
    assert clusters(cells(category), 1.0).tolist() == [0, -1]


def test_nothing_gives_no_cluster() -> None:
    found = cells(np.zeros((SIDE, SIDE)))
    assert (clusters(found, 2.0) == -1).all()
    answer = obstacles(found, np.zeros((5, 3)), np.ones(5, bool), GRID)
    assert len(answer.kinds) == len(answer.xyzlwhy) == 0


@pytest.mark.parametrize(("offset", "cell"), [((0.9, 0.0), 9), ((1.1, 0.0), 17), ((-99, 99), 7), ((99, -99), 56)])
def test_arrows_are_rounded_and_kept_inside(offset: tuple[float, float], cell: int) -> None:
    maps = np.zeros((2, SIDE, SIDE))
    maps[:, 1, 1] = offset
    assert centre_of(maps, 2.0)[SIDE + 1] == cell


def test_averages_are_over_all_cells() -> None:
    kind = np.zeros((4, 1, 3))
    kind[:, 0, 0], kind[:, 0, 1] = (1, 0, 0, 0), (0, 0.5, 0.5, 0)
    turn = 2 * np.radians([30.0, 50.0, 0.0])
    found = averaged(
        cells(
            np.ones((1, 3)),
            confidence=np.array([[0.2, 0.6, 0.9]]),
            kind=kind,
            height=np.array([[1.0, 3.0, 7.0]]),
            heading=np.stack([np.cos(turn), np.sin(turn)])[:, None],
        ),
        np.array([0, 0, -1]),
    )
    assert found.confidence == pytest.approx([0.4])
    assert found.kind == pytest.approx(np.array([[0.5, 0.25, 0.25, 0]]))
    assert found.height == pytest.approx([2.0])
    assert np.degrees(found.yaw) == pytest.approx([40.0])


# One obstacle in the cell from (0, 0) to (2, 2): row 4, column 4.
HERE = marked((4, 4))
POINTS = np.array([[0.5, 0.5, -1.0], [1.5, 0.5, 0.0], [1.5, 1.0, 1.0], [0.5, 1.0, 2.4]])
EVERYWHERE = np.ones(4, bool)


def test_box_holds_the_points() -> None:
    found = obstacles(cells(HERE), POINTS, EVERYWHERE, GRID)
    assert found.kinds == ("car",)
    assert found.xyzlwhy[0] == pytest.approx([1.0, 0.75, 0.7, 1.0, 0.5, 3.4, 0.0])
    assert found.scores == pytest.approx([1.0])


@pytest.mark.parametrize(("height", "points"), [(2.0, 4), (1.9, 4), (1.89, 3), (0.4, 0)])
def test_points_far_above_are_cut(height: float, points: int) -> None:
    found = obstacles(cells(HERE, height=np.full((SIDE, SIDE), height)), POINTS, EVERYWHERE, GRID)
    assert len(found.kinds) == (points >= FEWEST)
    if points == 3:
        assert found.xyzlwhy[0, 5] == pytest.approx(2.0)


@pytest.mark.parametrize(("confidence", "count"), [(0.1, 1), (0.0999, 0)])
def test_unsure_clusters_are_dropped(confidence: float, count: int) -> None:
    found = obstacles(cells(HERE, confidence=np.full((SIDE, SIDE), confidence)), POINTS, EVERYWHERE, GRID)
    assert len(found.kinds) == count


def test_only_points_inside_count() -> None:
    inside = np.array([True, True, True, False])
    assert obstacles(cells(HERE), POINTS, inside, GRID).xyzlwhy[0, 5] == pytest.approx(2.0)
    inside[0] = False
    assert len(obstacles(cells(HERE), POINTS, inside, GRID).kinds) == 0


@pytest.mark.parametrize("number", range(4))
def test_kind_is_the_likeliest(number: int) -> None:
    kind = np.full((4, SIDE, SIDE), 0.2)
    kind[number] = 0.4
    assert obstacles(cells(HERE, kind=kind), POINTS, EVERYWHERE, GRID).kinds == (KINDS[number],)


def test_order_follows_the_cells() -> None:
    category = marked((1, 6), (4, 4))
    far = POINTS + np.array([-6.0, 4.0, 0.0])
    xyz, inside = np.concatenate([POINTS, far]), np.ones(8, bool)
    found = obstacles(cells(category), xyz, inside, GRID)
    assert found.xyzlwhy[:, :2] == pytest.approx(np.array([[-5.0, 4.75], [1.0, 0.75]]))
    assert obstacles(cells(category), xyz[::-1], inside, GRID).xyzlwhy[:, :3] == pytest.approx(found.xyzlwhy[:, :3])


def turned(corners: np.ndarray, degrees: float) -> np.ndarray:
    turn = np.radians(degrees)
    return np.asarray(corners @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]))


@pytest.mark.parametrize("degrees", [0, 10, 44, 46, 89, 91, 170, -30])
def test_rectangle_is_found_exactly(degrees: float) -> None:
    rng = np.random.default_rng(3)
    corners = np.array([[-2.0, -0.9], [2.0, -0.9], [2.0, 0.9], [-2.0, 0.9]])
    filled = np.concatenate([corners, rng.uniform([-2, -0.9], [2, 0.9], (50, 2))])
    ground = turned(filled, degrees) + np.array([30.0, -20.0])
    xyz = np.column_stack([ground, np.linspace(-1.7, -0.2, len(ground))])
    found = min_box(xyz, np.radians(degrees + 20))
    assert found[:6] == pytest.approx([30.0, -20.0, -0.95, 4.0, 1.8, 1.5], abs=1e-4)
    assert np.degrees(found[6]) == pytest.approx(degrees, abs=1e-3)


def test_yaw_says_which_side_is_long() -> None:
    xyz = np.array([[0.0, 0, 0], [4, 0, 0], [4, 2, 0], [0, 2, 0]])
    along, across = min_box(xyz, 0.3), min_box(xyz, np.pi / 2 - 0.3)
    assert (along[3], along[4]) == pytest.approx((4, 2))
    assert (across[3], across[4]) == pytest.approx((2, 4))
    assert across[6] == pytest.approx(np.pi / 2)


@pytest.mark.parametrize(
    ("xyz", "size"),
    [
        ([[1.0, 2, 0]] * 3, (THINNEST, THINNEST, THINNEST)),
        ([[0.0, 0, 0], [1, 1, 0.5], [2, 2, 1]], (np.sqrt(8), THINNEST, 1.0)),
        ([[0.0, 0, 0], [0, 0, 0], [3, 0, 0]], (3.0, THINNEST, THINNEST)),
    ],
)
def test_thin_boxes_have_a_size(xyz: list[list[float]], size: tuple[float, float, float]) -> None:
    found = min_box(np.array(xyz), 0.5)
    assert found[3:6] == pytest.approx(size)
    assert np.isfinite(found).all()


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(3, 40), st.floats(-np.pi, np.pi))
def test_no_rectangle_is_smaller(seed: int, count: int, yaw: float) -> None:
    rng = np.random.default_rng(seed)
    xyz = rng.uniform(-3, 3, (count, 3)) + rng.uniform([-50, -50, 0], [50, 50, 0])
    x, y, z, length, width, height, turn = min_box(xyz, yaw)
    local = turned(xyz[:, :2] - [x, y], -np.degrees(turn))
    assert (np.abs(local) <= np.array([length, width]) / 2 + 1e-4).all()  # hulls are made of single-precision numbers
    assert (np.abs(xyz[:, 2] - z) <= height / 2 + 1e-9).all()
    assert abs((turn - yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4) <= np.pi / 4 + 1e-9
    assert abs((turn - yaw + np.pi) % (2 * np.pi) - np.pi) <= np.pi / 4 + 1e-9
    if min(length, width) > THINNEST:
        (_, (long, short), _) = cv2.minAreaRect(xyz[:, :2].astype(np.float32))
        assert length * width == pytest.approx(long * short, rel=1e-3, abs=1e-3)
        areas = [np.ptp(turned(xyz[:, :2], degrees), axis=0).prod() for degrees in range(0, 90, 5)]
        assert length * width <= min(areas) + 1e-3
