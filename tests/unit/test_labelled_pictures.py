"""Crops of labelled pictures: their boxes stay where the pixels are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Boxes2D, Image
from swerve.train.labelled_pictures import CropRecipe, Crops, LabelledPicture, cut, mosaic, recoloured
from tests.fixture_painted_lights import LIT, painted, pictures

KINDS = tuple(LIT)
PLAIN = CropRecipe(side=64, colour=0)


def marked(boxes: list[list[int]], wide: int = 200, high: int = 120) -> LabelledPicture:
    """A black picture in which each box is white."""
    pixels = np.zeros((high, wide, 3), np.uint8)
    for left, top, right, bottom in boxes:
        pixels[top:bottom, left:right] = 255
    return LabelledPicture(
        pixels, np.array(boxes, np.float32).reshape(-1, 4), np.zeros(len(boxes), int), np.ones(len(boxes), bool)
    )


def white(picture: LabelledPicture) -> list[int]:
    """The box around all white pixels."""
    rows, columns = np.nonzero(picture.pixels[..., 0] > 127)
    return [int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1]


def test_a_case_becomes_a_sample():
    case = painted(1)
    found = LabelledPicture.of(case, KINDS)
    truth = case.truth[0]
    assert found.truth(KINDS).kinds == truth.kinds
    assert np.array_equal(found.truth(KINDS).xyxy, truth.xyxy)
    assert found.truth(KINDS).size == (96, 96)


def test_unknown_kinds_are_refused():
    with pytest.raises(InputError, match=r"painted/0#1: the label '.*' is not one of the detector's kinds: stop, go"):
        LabelledPicture.of(painted(1), ("stop", "go"))


@pytest.mark.parametrize("what", [{"inputs": {}}, {"truth": ()}])
def test_nothing_is_learnt_from_half_a_case(what):
    with pytest.raises(InputError, match="needs an image 'camera' and 2-D boxes"):
        LabelledPicture.of(replace(painted(0), **what), KINDS)


def test_labels_count_from_one():
    picture = replace(marked([[10, 10, 20, 30], [50, 50, 60, 80]]), kinds=np.array([2, 0]), care=np.array([True, False]))
    target = picture.target()
    assert target["labels"].tolist() == [3]
    assert target["boxes"].tolist() == [[10, 10, 20, 30]]
    assert target["ignore"].tolist() == [[50, 50, 60, 80]]


def test_a_window_moves_its_boxes():
    found = cut(marked([[60, 40, 72, 70]]), (50, 30), 64, side=64, short=6)
    assert found.boxes.tolist() == [[10, 10, 22, 40]]
    assert white(found) == [10, 10, 22, 40]
    assert found.care.tolist() == [True]


@given(st.integers(0, 130), st.integers(0, 50), st.sampled_from([32, 64, 70]))
@settings(max_examples=30)
def test_boxes_stay_on_their_pixels(left, top, window):
    found = cut(marked([[60, 40, 84, 76]]), (left, top), window, side=64, short=6)
    for box, care in zip(found.boxes, found.care, strict=True):
        if care:
            assert np.abs(np.array(white(found)) - box).max() <= 1.5


def test_a_box_that_is_cut_off_need_not_be_found():
    picture = marked([[60, 40, 80, 80]])
    half = cut(picture, (70, 30), 64, side=64, short=6)  # the right half is left
    assert half.boxes.tolist() == [[0, 10, 10, 50]]
    assert half.care.tolist() == [False]
    most = cut(picture, (66, 30), 64, side=64, short=6)  # 14 of 20 columns
    assert most.care.tolist() == [True]
    gone = cut(picture, (90, 30), 30, side=64, short=6)
    assert len(gone.boxes) == 0


def test_a_box_that_becomes_small_need_not_be_found():
    picture = marked([[60, 40, 72, 70]])
    assert cut(picture, (20, 0), 120, side=64, short=6).care.tolist() == [True]  # 6.4 pixels
    assert cut(picture, (20, 0), 120, side=64, short=6.5).care.tolist() == [False]


def test_a_mirror_turns_pixels_and_boxes():
    found = marked([[60, 40, 72, 70]]).mirrored()
    assert found.boxes.tolist() == [[128, 40, 140, 70]]
    assert white(found) == [128, 40, 140, 70]


def test_four_pictures_make_one():
    parts = [cut(marked([[60, 40, 72, 70]]), (50, 30), 64, side=64, short=6) for _ in range(4)]
    found = mosaic(parts)
    assert found.pixels.shape == (128, 128, 3)
    assert found.boxes.tolist() == [[10 + x, 10 + y, 22 + x, 40 + y] for y in (0, 64) for x in (0, 64)]
    for x, y, x2, y2 in found.boxes.astype(int):
        assert (found.pixels[y:y2, x:x2] > 127).all()


def test_horizontal_lights_are_not_mirrored():
    # In a mirror red would be on their right side.
    recipe = replace(PLAIN, mirror=1.0, aimed=0.0, smallest=1.0, largest=1.0, mosaic=0.0)
    for wide, mirrored in (([20, 20, 50, 32], False), ([20, 20, 32, 50], True)):
        picture = marked([wide], 64, 64)
        found = Crops([picture], np.random.default_rng(0), recipe).sample(0)
        assert np.array_equal(found.boxes, picture.mirrored().boxes) == mirrored


def test_aimed_crops_show_a_box():
    picture = marked([[560, 40, 580, 90]], 640, 360)
    aimed = Crops([picture], np.random.default_rng(1), replace(PLAIN, aimed=1.0, mosaic=0.0))
    blind = Crops([picture], np.random.default_rng(1), replace(PLAIN, aimed=0.0, mosaic=0.0))
    shown = [sum(len(crops.sample(0).boxes) > 0 for _ in range(40)) for crops in (aimed, blind)]
    assert shown[0] == 40
    assert shown[1] < 20


def test_samples_depend_on_the_generator_alone():
    drawn = [Crops(pictures(3), np.random.default_rng(5), CropRecipe(side=64)).batch(np.arange(3)) for _ in range(2)]
    for one, other in zip(*(images for images, _ in drawn), strict=True):
        assert one.equal(other)
        assert one.shape == (3, 64, 64)
        assert 0 <= one.min() <= one.max() <= 1


def test_colours_vary_but_hues_stay():
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:, :4], pixels[:, 4:] = (200, 30, 30), (30, 180, 60)
    seen = [recoloured(pixels, np.random.default_rng(number), 0.25) for number in range(20)]
    assert len({float(each.mean()) for each in seen}) == 20
    for each in seen:
        assert (each[:, :4].argmax(-1) == 0).all()
        assert (each[:, 4:].argmax(-1) == 1).all()
    assert np.array_equal(recoloured(pixels, np.random.default_rng(0), 0.0), pixels)


@pytest.mark.parametrize(("name", "value"), [("side", 8), ("aimed", 2), ("mosaic", -1), ("smallest", 0), ("smallest", 3)])
def test_impossible_crops_are_refused(name, value):
    with pytest.raises(InputError, match=f"'{name}'"):
        CropRecipe(**{name: value})


def test_pictures_smaller_than_a_crop_are_magnified():
    found = Crops([marked([[2, 2, 12, 28]], 40, 30)], np.random.default_rng(0), replace(PLAIN, mosaic=0.0)).sample(0)
    assert found.pixels.shape == (64, 64, 3)


def test_a_case_without_care_is_a_case_to_ignore():
    case = painted(2)
    truth = case.truth[0]
    assert isinstance(truth, Boxes2D)
    none = replace(truth, care=np.zeros(len(truth.kinds), bool))
    sample = LabelledPicture.of(Case("x", {"camera": Image(case.inputs["camera"].pixels)}, (none,)), KINDS)
    assert len(sample.target()["boxes"]) == 0
    assert len(sample.target()["ignore"]) == 2
