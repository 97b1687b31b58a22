"""Inside, outside and how far: exact where numbers are small, and against rules written another way."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core import region as geometry
from swerve.core.region import CELL, REACH, Bitmap, area_of, bounds, distance, edges, inside, outside
from swerve.core.values import Array, Region

SQUARE = [(0, 0), (4, 0), (4, 4), (0, 4)]
HOLE = [(1, 1), (1, 3), (3, 3), (3, 1)]  # the other way round


def region(*rings) -> Region:
    return Region(tuple(np.array(ring, float) for ring in rings))


def centres(bitmap: Bitmap) -> Array:
    tall, wide = bitmap.cells.shape
    x, y = np.meshgrid(np.arange(wide) + 0.5, np.arange(tall) + 0.5)
    return np.column_stack([x.ravel(), y.ravel()]) * bitmap.cell + bitmap.low


def slow(rings: list[list[tuple[int, int]]], x: int, y: int) -> bool:
    """On a border, or wound around: every edge in whole numbers, counted where it passes the ray to the right."""
    turns = 0
    for ring in rings:
        for (ax, ay), (bx, by) in zip(ring, ring[1:] + ring[:1], strict=True):
            left = (bx - ax) * (y - ay) - (x - ax) * (by - ay)
            if left == 0 and min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by):
                return True
            if (ay > y) != (by > y):
                meets = Fraction(y - ay, by - ay) * (bx - ax) + ax
                turns += (1 if by > ay else -1) * (meets > x)
    return turns != 0


WHOLE = st.integers(-6, 6)
RINGS = st.lists(st.lists(st.tuples(WHOLE, WHOLE), min_size=1, max_size=7), max_size=3)


class TestInside:
    def test_middle_and_beyond(self) -> None:
        assert inside(region(SQUARE), [[2, 2], [5, 2], [2, -1]]).tolist() == [True, False, False]

    @pytest.mark.parametrize("ring", [SQUARE, SQUARE[::-1]])
    def test_border_counts_either_way_round(self, ring) -> None:
        border = [[0, 0], [4, 4], [0, 4], [4, 0], [2, 0], [4, 2], [2, 4], [0, 2]]
        assert inside(region(ring), border).all()

    def test_hole_is_outside_and_its_border_inside(self) -> None:
        assert inside(region(SQUARE, HOLE), [[2, 2], [0.5, 2], [1, 2], [3, 3]]).tolist() == [False, True, True, True]

    def test_same_way_round_is_no_hole(self) -> None:
        assert inside(region(SQUARE, HOLE[::-1]), [[2, 2]]).all()

    def test_pieces_that_overlap_are_one(self) -> None:
        right = [(3, 1), (8, 1), (8, 3), (3, 3)]
        assert inside(region(SQUARE, right), [[3.5, 2], [7, 2], [3, 3.5], [7, 3.5]]).tolist() == [True, True, True, False]

    def test_both_ends_of_an_hourglass_are_inside(self) -> None:
        hourglass = [(0, 0), (4, 4), (4, 0), (0, 4)]
        assert inside(region(hourglass), [[1, 2], [3, 2], [2, 1], [2, 3], [2, 2]]).tolist() == [
            True,
            True,
            False,
            False,
            True,
        ]

    def test_star_holds_its_middle(self) -> None:
        turn = np.arange(5) * 4 * np.pi / 5
        assert inside(region(np.column_stack([np.cos(turn), np.sin(turn)])), [[0, 0]]).all()

    @pytest.mark.parametrize("ring", [[(0, 0), (4, 0)], [(1, 1)], [(0, 0), (2, 2), (4, 4)]])
    def test_rings_without_area_hold_their_line_alone(self, ring) -> None:
        assert not inside(region(ring), [[2, 1], [3, 2.5]]).any()
        assert inside(region(ring), [ring[0]]).all()

    def test_no_rings_hold_nothing(self) -> None:
        assert inside(region(), np.zeros((3, 2))).tolist() == [False] * 3
        assert inside(region(SQUARE), np.zeros((0, 2))).shape == (0,)

    def test_what_is_not_finite_is_not_inside(self) -> None:
        odd = [[np.nan, 2], [2, np.nan], [np.inf, 2], [2, -np.inf], [-np.inf, 2], [np.nan, np.nan]]
        assert not inside(region(SQUARE), odd).any()

    def test_float32_points_are_taken_as_they_are(self) -> None:
        third = np.float32(1 / 3)
        ring = [(0, 0), (float(third), 0), (float(third), 1), (0, 1)]
        beyond = np.nextafter(third, np.float32(1))
        assert inside(region(ring), np.array([[third, 0.5], [beyond, 0.5]], np.float32)).tolist() == [True, False]

    def test_slanted_borders_are_exact(self) -> None:
        """A point that lies on the line in exact numbers, and its neighbours in float64 on both sides."""
        ring = [(0.0, 0.0), (3.0, 1.0), (0.0, 1.0)]
        on = 0.75, 0.25
        below, above = np.nextafter(0.25, 0), np.nextafter(0.25, 1)
        assert inside(region(ring), [on, (0.75, below), (0.75, above)]).tolist() == [True, False, True]

    @settings(max_examples=400, deadline=None)
    @given(RINGS)
    def test_as_counted_in_whole_numbers(self, rings) -> None:
        spots = [(x, y) for x in range(-7, 8) for y in range(-7, 8)]
        wanted = [slow(rings, x, y) for x, y in spots]
        assert inside(region(*rings), np.array(spots, float)).tolist() == wanted

    @settings(max_examples=60, deadline=None)
    @given(RINGS, st.integers(0, 9), st.randoms())
    def test_order_of_points_and_start_of_ring_do_not_matter(self, rings, shift, random) -> None:
        spots = np.random.default_rng(random.randrange(100)).uniform(-7, 7, (40, 2))
        plain = inside(region(*rings), spots)
        turned = [ring[shift % len(ring) :] + ring[: shift % len(ring)] for ring in rings]
        assert (inside(region(*turned), spots[::-1])[::-1] == plain).all()
        assert (inside(region(*(ring[::-1] for ring in rings)), spots) == plain).all()


class TestMeasures:
    def test_edges_close_the_ring(self) -> None:
        assert edges(region([(0, 0), (1, 0), (1, 1)])).tolist() == [[[0, 0], [1, 0]], [[1, 0], [1, 1]], [[1, 1], [0, 0]]]
        assert edges(region()).shape == (0, 2, 2)

    def test_bounds(self) -> None:
        low, high = bounds(region(SQUARE, [(-1, 2), (0, 9), (1, 2)]))
        assert (low.tolist(), high.tolist()) == ([-1, 0], [4, 9])
        assert np.isnan(bounds(region())).all()

    def test_area_has_the_sign_of_the_turn(self) -> None:
        assert (area_of(np.array(SQUARE)), area_of(np.array(HOLE))) == (16, -4)

    def test_area_far_away_keeps_its_digits(self) -> None:
        assert area_of(np.array(SQUARE) + 1e9) == 16

    def test_distance_to_sides_corners_and_holes(self) -> None:
        found = distance(region(SQUARE, HOLE), [[6, 2], [7, 8], [0, 1], [2, 2], [0.75, 2], [-3, -4]])
        assert found == pytest.approx([2, 5, 0, 1, 0.25, 5])

    def test_distance_to_nothing_is_infinite(self) -> None:
        assert distance(region(), [[0, 0]]).tolist() == [np.inf]
        assert distance(region(SQUARE), np.zeros((0, 2))).shape == (0,)

    def test_distance_in_pieces_is_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        spots = np.random.default_rng(0).uniform(-9, 9, (500, 2))
        whole = distance(region(SQUARE, HOLE), spots)
        monkeypatch.setattr(geometry, "_TOGETHER", 37)
        assert (distance(region(SQUARE, HOLE), spots) == whole).all()

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(WHOLE, WHOLE), min_size=1, max_size=6), st.floats(-9, 9), st.floats(-9, 9))
    def test_distance_as_by_walking_the_border(self, ring, x, y) -> None:
        steps = np.linspace(0, 1, 2001)[:, None]
        pairs = zip(ring, ring[1:] + ring[:1], strict=True)
        walked = np.concatenate([np.array(a) + steps * (np.array(b) - a) for a, b in pairs])
        nearest = np.hypot(*(walked - [x, y]).T).min()
        assert distance(region(ring), [[x, y]])[0] == pytest.approx(nearest, abs=0.01)


class TestBitmap:
    def test_cells_whose_centre_is_inside(self) -> None:
        bitmap = Bitmap.of(region([(0.2, 0), (1, 0), (1, 0.5), (0.2, 0.5)]), (0, 0), (1, 1))
        assert bitmap.cells.astype(int).tolist() == [[0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]

    def test_rows_run_along_y(self) -> None:
        bitmap = Bitmap.of(region([(0, 0), (2, 0), (2, 1), (0, 1)]), (0, 0), (4, 2), cell=1.0)
        assert bitmap.cells.shape == (2, 4)
        assert bitmap.holds([[1.5, 0.5], [0.5, 1.5]]).tolist() == [True, False]

    def test_beyond_the_bitmap_nothing_is_held(self) -> None:
        bitmap = Bitmap.of(region([(-9, -9), (9, -9), (9, 9), (-9, 9)]), (-1, -1), (1, 1))
        assert bitmap.cells.all()
        odd = [[0.99, 0.99], [1.0, 0], [-1.0001, 0], [0, 5], [np.nan, 0], [0, np.inf], [1e300, 0]]
        assert bitmap.holds(odd).tolist() == [True] + [False] * 6

    def test_empty_bitmaps(self) -> None:
        assert not Bitmap.of(region(), (-1, -1), (1, 1)).cells.any()
        assert not Bitmap.of(region(SQUARE), (1, 1), (1, 1)).holds([[1, 1]]).any()

    def test_cannot_be_written_to(self) -> None:
        bitmap = Bitmap.of(region(SQUARE), (0, 0), (4, 4))
        with pytest.raises(ValueError, match="read-only"):
            bitmap.cells[0, 0] = False
        with pytest.raises(ValueError, match="read-only"):
            bitmap.grown().cells[0, 0] = False

    def test_grown_by_corners_too(self) -> None:
        lone = Bitmap.of(region([(1, 1), (1.25, 1), (1.25, 1.25), (1, 1.25)]), (0, 0), (2.5, 2.5))
        assert lone.cells.sum() == 1
        assert lone.grown().cells[3:6, 3:6].all()
        assert (lone.grown().cells.sum(), lone.grown(2).cells.sum(), lone.grown(0).cells.sum()) == (9, 25, 1)

    @settings(max_examples=300, deadline=None)
    @given(RINGS, st.sampled_from([0.25, 0.5, 0.3, 1.0]), st.sampled_from([(-7.0, -7.0), (-6.5, -3.125), (0.0, -7.1)]))
    def test_every_cell_is_as_its_centre(self, rings, cell, low) -> None:
        """Whole-number corners put many borders exactly through centres: those must be right as well."""
        bitmap = Bitmap.of(region(*rings), low, (low[0] + 9, low[1] + 12), cell)
        assert (bitmap.cells.ravel() == inside(region(*rings), centres(bitmap))).all()

    def test_in_pieces_is_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = Bitmap.of(region(SQUARE, HOLE), (-1, -1), (5, 5))
        monkeypatch.setattr(geometry, "_TOGETHER", 3)
        assert (Bitmap.of(region(SQUARE, HOLE), (-1, -1), (5, 5)).cells == whole.cells).all()
        assert 0 < whole.cells.sum() < whole.cells.size

    @settings(max_examples=40, deadline=None)
    @given(RINGS)
    def test_grown_is_the_neighbours(self, rings) -> None:
        bitmap = Bitmap.of(region(*rings), (-8, -8), (8, 8), 0.5)
        padded = np.pad(bitmap.cells, 1)
        around = [padded[y : y + 32, x : x + 32] for x in range(3) for y in range(3)]
        assert (bitmap.grown().cells == np.any(around, axis=0)).all()


class TestOutside:
    def test_keeps_clear_of_the_grown_bitmap(self) -> None:
        """The square's last cell ends at 4; the grown one a cell later."""
        found = outside(region(SQUARE), [[4.1, 2], [4.249, 2], [4.251, 2], [-0.249, -0.249], [-0.251, -0.251], [2, 2]])
        assert found.tolist() == [False, False, True, False, True, False]

    def test_inside_without_a_centre_is_still_inside(self) -> None:
        thin = region([(0, 0.26), (9, 0.26), (9, 0.28), (0, 0.28)])  # no centre of a cell lies in it
        assert not Bitmap.of(thin, (0, 0), (9, 1)).cells.any()
        assert outside(thin, [[4, 0.27], [4, 0.29]]).tolist() == [False, True]

    def test_slivers_anywhere_are_still_inside(self) -> None:
        """Needles that hold no centre, in every direction: what the exact rule says is kept."""
        rng = np.random.default_rng(2)
        for _ in range(40):
            tip, way = rng.uniform(-5, 5, 2), rng.normal(size=2)
            needle = [tip, tip + 4 * way, tip + 4 * way + rng.normal(size=2) * 0.01]
            along = tip + rng.uniform(0, 1, (200, 1)) * 4 * way
            spots = np.concatenate([along, along + rng.normal(size=(200, 2)) * 0.02])
            clear = outside(region(needle), spots)
            assert not (clear & inside(region(needle), spots)).any()

    def test_edges_too_long_to_follow_are_asked_exactly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rings = [[(-4, 0.26), (9, 0.26), (9, 0.28), (-4, 0.28)], [(-3, -3), (2, -2), (-1, 0)]]
        spots = np.random.default_rng(3).uniform(-5, 5, (3_000, 2))
        followed = outside(region(*rings), spots)
        monkeypatch.setattr(geometry, "_MANY", 10)
        geometry._bitmaps.cache_clear()
        assert (outside(region(*rings), spots) == followed).all()
        geometry._bitmaps.cache_clear()

    def test_hole_wide_enough_is_outside(self) -> None:
        assert outside(region(SQUARE, HOLE), [[2, 2], [1.2, 2]]).tolist() == [True, False]

    def test_nothing_to_be_inside_of(self) -> None:
        assert outside(region(), [[0, 0], [1e4, 0], [np.nan, 0], [0, np.inf]]).tolist() == [True, True, False, False]

    @pytest.mark.parametrize("shift", [0.0, REACH, -REACH, 1000.0])
    def test_far_away_is_asked_the_same_way(self, shift: float) -> None:
        spots = np.random.default_rng(1).uniform(-2, 6, (400, 2))
        near = outside(region(SQUARE, HOLE), spots)
        along = np.array([shift, 0])
        far = outside(region(*(along + ring for ring in (SQUARE, HOLE))), along + spots)
        assert (far == near).mean() > 0.99  # moved, a point may round across a cell's edge
        assert near.any()
        assert not near.all()

    def test_huge_regions_need_no_huge_bitmap(self) -> None:
        wide = region([(-1e6, -1e6), (1e6, -1e6), (1e6, 1e6), (-1e6, 1e6)])
        assert outside(wide, [[0, 0], [9e5, 0], [2e6, 0]]).tolist() == [False, False, True]
        assert geometry._bitmaps(wide, CELL)[0].cells.size < 5_000_000

    @settings(max_examples=80, deadline=None)
    @given(RINGS, st.integers(0, 99))
    def test_never_inside_either_way(self, rings, seed) -> None:
        spots = np.random.default_rng(seed).uniform(-8, 8, (200, 2))
        here = region(*rings)
        clear = outside(here, spots)
        grid = Bitmap.of(here, (-60, -60), (60, 60))
        assert not (clear & (inside(here, spots) | grid.holds(spots))).any()
        assert clear[(distance(here, spots) > 0.8) & ~inside(here, spots)].all()  # nor kept away for no reason

    def test_bitmaps_are_remembered(self) -> None:
        one, again = region(SQUARE), region(SQUARE)
        assert geometry._bitmaps(one, CELL) is geometry._bitmaps(again, CELL)
