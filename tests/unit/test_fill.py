"""Holes are filled from around them, pieces are pasted where they belong, and nothing else of a picture changes."""

import numpy as np
import pytest

from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.transformations.fill import METHODS, PATCH, fill_hole, membrane
from swerve.transformations.paste import BLENDS, COPY, POISSON, RIM, paste_piece


def brick_wall(height: int = 90, width: int = 120) -> Array:
    """A texture that repeats every 12 pixels."""
    down, across = np.mgrid[:height, :width]
    grey = np.where((down % 12 < 2) | (across % 12 < 2), 60, 180).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def hole_at(picture: Array, top: int, left: int, *, height: int = 20, width: int = 15) -> Array:
    hole = np.zeros(picture.shape[:2], bool)
    hole[top : top + height, left : left + width] = True
    return hole


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("at", [(0, 0), (30, 40), (80, 110)])  # the last two at the border too
def test_pixels_outside_stay(method: str, at: tuple[int, int]) -> None:
    picture = rng_for("fill").integers(0, 256, (90, 120, 3), dtype=np.uint8)
    filled, hole = picture.copy(), hole_at(picture, *at)
    fill_hole(filled, hole, method=method)
    assert np.array_equal(filled[~hole], picture[~hole])
    assert not np.array_equal(filled[hole], picture[hole])


@pytest.mark.parametrize("method", METHODS)
def test_plain_ground_is_continued(method: str) -> None:
    picture = np.full((60, 80, 3), (90, 120, 200), np.uint8)
    hole = hole_at(picture, 20, 30)
    picture[hole] = 0
    fill_hole(picture, hole, method=method)
    assert np.abs(picture.astype(int) - (90, 120, 200)).max() <= 6  # OpenCV rounds down again and again


def test_texture_is_continued_exactly() -> None:
    wall = brick_wall()
    broken, hole = wall.copy(), hole_at(wall, 31, 50)
    broken[hole] = 255
    fill_hole(broken, hole, method=PATCH)
    assert np.array_equal(broken, wall)


def test_avoided_pixels_are_not_copied() -> None:
    picture = brick_wall()
    picture[:, 60:] = (255, 0, 0)  # what fits as well: the hole's surroundings are all of one texture
    hole, avoid = hole_at(picture, 31, 30), np.zeros((90, 120), bool)
    avoid[:, 60:] = True
    fill_hole(picture, hole, avoid=avoid)
    assert picture[hole][:, 1].min() >= 55


@pytest.mark.parametrize("method", METHODS)
def test_a_large_hole_is_filled_too(method: str) -> None:
    picture = np.full((300, 300, 3), 77, np.uint8)
    hole = hole_at(picture, 60, 60, height=150, width=150)
    picture[hole] = 0
    fill_hole(picture, hole, method=method)
    assert np.abs(picture.astype(int) - 77).max() <= 6


def test_several_holes_are_filled_each() -> None:
    wall = brick_wall()
    broken, hole = wall.copy(), hole_at(wall, 6, 6) | hole_at(wall, 60, 90)
    broken[hole] = 0
    fill_hole(broken, hole)
    assert np.abs(broken.astype(int) - wall).mean() < 2


def test_unknown_method_is_named() -> None:
    with pytest.raises(InputError, match="patch"):
        fill_hole(brick_wall(), np.zeros((90, 120), bool), method="magic")


def test_membrane_continues_a_slope() -> None:
    down, across = np.mgrid[:40, :50].astype(np.float32)
    slope = np.stack([down, across, down + 2 * across], axis=2)
    known = np.ones((40, 50), bool)
    known[10:30, 12:40] = False
    found = membrane(np.where(known[..., None], slope, 0), known)
    assert np.array_equal(found[known], slope[known])
    assert np.abs(found - slope).max() < 6  # of 138: the film is nearly flat


@pytest.mark.parametrize("blend", BLENDS)
@pytest.mark.parametrize("at", [(20, 10), (-5, -5), (55, 25), (0, 0)])
def test_pixels_beside_the_piece_stay(blend: str, at: tuple[int, int]) -> None:
    ground = np.full((40, 60, 3), 100, np.uint8)
    canvas, piece = ground.copy(), np.full((20, 10, 3), 200, np.uint8)
    paste_piece(canvas, piece, at, blend=blend)
    under = np.zeros((40, 60), bool)
    under[max(at[1], 0) : at[1] + 20, max(at[0], 0) : at[0] + 10] = True
    assert np.array_equal(canvas[~under], ground[~under])


def test_copy_is_exact_and_rim_is_soft() -> None:
    piece = rng_for("piece").integers(0, 256, (20, 10, 3), dtype=np.uint8)
    sharp, soft = np.zeros((40, 60, 3), np.uint8), np.zeros((40, 60, 3), np.uint8)
    paste_piece(sharp, piece, (20, 10), blend=COPY)
    paste_piece(soft, piece, (20, 10), blend=RIM, rim=2)
    assert np.array_equal(sharp[10:30, 20:30], piece)
    assert np.array_equal(soft[12:28, 22:28], piece[2:-2, 2:-2])
    assert (soft[10:30, 20].astype(int) <= piece[:, 0] // 2).all()


def test_poisson_takes_the_colour_of_the_ground() -> None:
    canvas = np.full((40, 60, 3), 100, np.uint8)
    ramp = np.linspace(150, 250, 20)[:, None, None] * np.ones((1, 10, 3))
    paste_piece(canvas, ramp.astype(np.uint8), (20, 10), blend=POISSON)
    inside = canvas[10:30, 20:30].astype(int)
    assert abs(inside[0].mean() - 100) < 20
    assert abs(inside[-1].mean() - 100) < 20
    own = np.full((40, 60, 3), 100, np.uint8)
    paste_piece(own, own[10:30, 20:30].copy(), (20, 10), blend=POISSON)
    assert (own == 100).all()  # a piece of the ground itself stays


def test_cover_keeps_what_it_leaves_out() -> None:
    canvas, cover = np.zeros((30, 30, 3), np.uint8), np.zeros((10, 10), bool)
    cover[2:8, 2:8] = True
    for blend in BLENDS:
        paste_piece(canvas, np.full((10, 10, 3), 255, np.uint8), (5, 5), cover=cover, blend=blend)
        assert canvas[5:15, 5:15][~cover].max() == 0


def test_patchmatch_goes_on_with_a_pattern_that_one_piece_cannot_show() -> None:
    """Two different stripes meet in the hole: each side is put together from its own."""
    rows, columns = np.mgrid[:90, :160]
    levels = np.where(columns < 80, 120 + 60 * np.sin(rows / 3), 120 + 60 * np.sin(columns / 3))
    picture = np.repeat(np.clip(levels, 0, 255).astype(np.uint8)[..., None], 3, axis=2)
    hole = np.zeros((90, 160), bool)
    hole[30:60, 60:100] = True
    errors = {}
    for method in ("patchmatch", "smooth"):
        filled = picture.copy()
        filled[hole] = 0
        fill_hole(filled, hole, method=method)
        errors[method] = np.abs(filled[hole].astype(float) - picture[hole]).mean()
    assert errors["patchmatch"] < errors["smooth"] / 3


def test_patchmatch_copies_nothing_that_must_be_avoided() -> None:
    picture = np.full((80, 120, 3), 90, np.uint8)
    picture[:, 70:] = (255, 0, 0)
    hole, avoid = np.zeros((80, 120), bool), np.zeros((80, 120), bool)
    hole[30:50, 40:66] = True
    avoid[:, 70:] = True
    fill_hole(picture, hole, method="patchmatch", avoid=avoid)
    assert (picture[hole] == 90).all()
