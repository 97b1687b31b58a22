"""Every step makes the numbers its definition says, and tells where in the picture they lie."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.systems.preprocessing import ImageView, Step
from swerve.systems.steps import (
    PLACES,
    Bgr,
    Crop,
    CropTo,
    Divide,
    Float,
    Grey,
    Hsv,
    Letterbox,
    Multiply,
    Normalise,
    Resize,
    Yuv,
)

PICTURE = np.random.default_rng(3).integers(0, 256, (48, 64, 3), dtype=np.uint8)
EVERY = (
    *(Grey(), Bgr(), Yuv(), Hsv(), Float(), Multiply(0.5), Divide(), Normalise((1, 2, 3), (4, 5, 6))),
    *(Resize(20, 30), Crop(3, 4, 40, 41), CropTo(20, 20, "bottom"), Letterbox(40, 40), Letterbox(40, 40, at="top-left")),
)


def shown(pixels: Array = PICTURE, *steps: Step) -> ImageView:
    view = ImageView(pixels, (pixels.shape[1], pixels.shape[0]))
    for step in steps:
        view = step(view)
    return view


@pytest.mark.parametrize("step", EVERY, ids=repr)
def test_steps_keep_three_axes(step: Step) -> None:
    assert isinstance(step, Step)
    before = PICTURE.copy()
    for pixels in (PICTURE,) if isinstance(step, Yuv | Hsv) else (PICTURE, PICTURE.astype(np.float32) / 255):
        after = shown(pixels, step)
        assert after.numbers.ndim == 3
        assert after.size == (64, 48)
    assert np.array_equal(PICTURE, before)
    assert hash(step) == hash(step)


@pytest.mark.parametrize("step", [step for step in EVERY if not isinstance(step, Grey | Yuv | Hsv | Normalise)], ids=repr)
def test_one_channel_stays_one(step: Step) -> None:
    assert shown(PICTURE, Grey(), step).numbers.shape[2] == 1


@pytest.mark.parametrize(("step", "code"), [(Grey(), "GRAY"), (Yuv(), "YUV"), (Hsv(), "HSV")])
def test_colours_are_those_of_opencv(step: Step, code: str) -> None:
    from_bgr = getattr(cv2, f"COLOR_BGR2{code}")
    made = shown(PICTURE, step).numbers
    assert np.array_equal(made.squeeze(), cv2.cvtColor(np.ascontiguousarray(PICTURE[..., ::-1]), from_bgr))


def test_grey_weighs_green_most() -> None:
    red, green, blue = (shown(np.full((1, 1, 3), 200, np.uint8) * np.eye(3, dtype=np.uint8)[c], Grey()) for c in range(3))
    assert [int(view.numbers.item()) for view in (red, green, blue)] == [60, 117, 23]  # 0.299, 0.587, 0.114 of 200


def test_bgr_turns_channels() -> None:
    assert np.array_equal(shown(PICTURE, Bgr()).numbers, PICTURE[..., [2, 1, 0]])
    assert np.array_equal(shown(PICTURE, Bgr(), Bgr()).numbers, PICTURE)


def test_grey_knows_where_red_is() -> None:
    red = np.full((1, 1, 3), (255, 0, 0), np.uint8)
    for steps in ((Grey(),), (Bgr(), Grey()), (Bgr(), Resize(4, 4), Bgr(), Grey()), (Bgr(), Float(), Grey(), Bgr())):
        assert shown(red, *steps).numbers.flat[0] == pytest.approx(76, abs=0.3), steps  # 29 is the luma of blue
    assert np.array_equal(shown(PICTURE, Bgr(), Grey()).numbers, shown(PICTURE, Grey()).numbers)


@pytest.mark.parametrize(
    ("steps", "colours"),
    [
        ((), "rgb"),
        ((Bgr(),), "bgr"),
        ((Bgr(), Bgr()), "rgb"),
        ((Bgr(), Grey()), "grey"),
        ((Grey(), Bgr()), "grey"),
        ((Yuv(), Resize(9, 9), Divide()), "yuv"),
        ((Crop(1, 1, 9, 9), Hsv(), Letterbox(20, 30), Normalise((1,), (2,))), "hsv"),
    ],
)
def test_colours_are_remembered(steps: tuple[Step, ...], colours: str) -> None:
    assert shown(PICTURE, *steps).colours == colours


@pytest.mark.parametrize("step", [Yuv(), Hsv()])
@pytest.mark.parametrize(
    ("before", "told"),
    [
        ((Bgr(),), "uint8 in bgr"),
        ((Float(),), "float32 in rgb"),
        ((Divide(),), "float32 in rgb"),
        ((Bgr(), Float()), "float32 in bgr"),
        ((Yuv(),), "uint8 in yuv"),
        ((Hsv(), Resize(20, 20)), "uint8 in hsv"),
        ((Grey(),), "uint8 in grey"),
    ],
)
def test_colours_of_another_order_are_refused(step: Step, before: tuple[Step, ...], told: str) -> None:
    with pytest.raises(InputError, match=rf"^(yuv|hsv) needs uint8 RGB, got {told}; put \1 before bgr, float, divide"):
        shown(PICTURE, *before, step)


@pytest.mark.parametrize("by", ["area", "linear", "nearest", "cubic"])
def test_resize_is_that_of_opencv(by: str) -> None:
    way = getattr(cv2, f"INTER_{by.upper()}")
    assert np.array_equal(shown(PICTURE, Resize(30, 20, by)).numbers, cv2.resize(PICTURE, (30, 20), interpolation=way))


def test_numbers_are_made_in_float32() -> None:
    assert np.array_equal(shown(PICTURE, Divide(255.0)).numbers, PICTURE.astype(np.float32) / np.float32(255))
    assert np.array_equal(shown(PICTURE, Multiply(1 / 255)).numbers, PICTURE.astype(np.float32) * np.float32(1 / 255))
    assert np.array_equal(shown(PICTURE, Float()).numbers, PICTURE)
    exact = (PICTURE / 1.0 - (123.0, 116.0, 103.0)) / (58.0, 57.0, 56.5)
    assert np.allclose(shown(PICTURE, Normalise((123.0, 116.0, 103.0), (58.0, 57.0, 56.5))).numbers, exact, atol=1e-6)
    assert np.allclose(shown(PICTURE, Normalise((127.5,), (127.5,))).numbers, PICTURE / 127.5 - 1, atol=1e-6)
    for step in (Divide(), Multiply(2), Float(), Normalise((0.0,), (1.0,))):
        assert shown(PICTURE, step).numbers.dtype == np.float32


def test_crop_keeps_the_part() -> None:
    assert np.array_equal(shown(PICTURE, Crop(3, 4, 13, 24)).numbers, PICTURE[4:24, 3:13])


@pytest.mark.parametrize(
    ("at", "left", "top"),
    [
        ("centre", 22, 9),
        ("top", 22, 0),
        ("bottom", 22, 18),
        ("left", 0, 9),
        ("right", 44, 9),
        ("top-left", 0, 0),
        ("top-right", 44, 0),
        ("bottom-left", 0, 18),
        ("bottom-right", 44, 18),
    ],
)
def test_crop_to_names_its_place(at: str, left: int, top: int) -> None:
    assert np.array_equal(shown(PICTURE, CropTo(20, 30, at)).numbers, PICTURE[top : top + 30, left : left + 20])


def test_every_place_is_tested() -> None:
    cases = next(mark for mark in test_crop_to_names_its_place.pytestmark if mark.name == "parametrize").args[1]
    assert {at for at, _, _ in cases} == set(PLACES)


def test_dronet_input_is_its_own() -> None:
    """The original: cv2.imread in grey, cv2.resize to 320x240, `central_image_crop` to 200x200, times 1/255."""
    frame = np.random.default_rng(5).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    grey = cv2.resize(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY), (320, 240))
    half = int(grey.shape[1] / 2)
    cropped = grey[grey.shape[0] - 200 : grey.shape[0], half - 100 : half + 100]
    made = shown(frame, Grey(), Resize(320, 240), CropTo(200, 200, "bottom"), Divide(255.0)).numbers
    assert made.shape == (200, 200, 1)
    assert np.allclose(made[..., 0], np.asarray(cropped, dtype=np.float32) * np.float32(1 / 255), atol=1e-7)


def yolox_preproc(image: Array, size: tuple[int, int]) -> Array:
    """As YOLOX's data_augment.preproc has it, before its transpose; `size` is height and width."""
    padded = np.ones((size[0], size[1], 3), dtype=np.uint8) * 114
    r = min(size[0] / image.shape[0], size[1] / image.shape[1])
    small = cv2.resize(image, (int(image.shape[1] * r), int(image.shape[0] * r)), interpolation=cv2.INTER_LINEAR).astype(
        np.uint8
    )
    padded[: int(image.shape[0] * r), : int(image.shape[1] * r)] = small
    return padded


def yolov5_letterbox(im: Array, new_shape: tuple[int, int], scaleup: bool) -> Array:
    """As YOLOv5's augmentations.letterbox has it, with auto=False; `new_shape` is height and width."""
    shape = im.shape[:2]
    r = min(new_shape[0] / shape[0], new_shape[1] / shape[1])
    if not scaleup:
        r = min(r, 1.0)
    new_unpad = round(shape[1] * r), round(shape[0] * r)
    dw, dh = (new_shape[1] - new_unpad[0]) / 2, (new_shape[0] - new_unpad[1]) / 2
    if shape[::-1] != new_unpad:
        im = cv2.resize(im, new_unpad, interpolation=cv2.INTER_LINEAR)
    top, bottom = round(dh - 0.1), round(dh + 0.1)
    left, right = round(dw - 0.1), round(dw + 0.1)
    return cv2.copyMakeBorder(im, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(114, 114, 114))


SIZES = [(64, 48), (48, 64), (65, 49), (33, 97), (97, 33), (416, 416), (1280, 720), (640, 481), (5, 300)]


@pytest.mark.parametrize("size", SIZES)
def test_letterbox_is_that_of_yolox(size: tuple[int, int]) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    made = shown(picture, Letterbox(416, 320, at="top-left")).numbers
    assert np.array_equal(made, yolox_preproc(picture, (320, 416)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("upscale", [True, False])
def test_letterbox_is_that_of_yolov5(size: tuple[int, int], upscale: bool) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    made = shown(picture, Letterbox(416, 320, at="centre", upscale=upscale)).numbers
    assert np.array_equal(made, yolov5_letterbox(picture, (320, 416), upscale))


def test_letterbox_pads_any_numbers() -> None:
    view = shown(PICTURE, Divide(255.0), Letterbox(64, 64, pad=0))
    assert view.numbers.dtype == np.float32
    assert not view.numbers[:8].any()
    assert not view.numbers[-8:].any()
    assert shown(np.zeros((3000, 1, 3), np.uint8), Letterbox(30, 30, at="top-left")).numbers.shape == (30, 30, 3)


sides = st.integers(8, 90)
ways = st.sampled_from(["area", "linear", "nearest", "cubic"])
movers = st.one_of(
    st.builds(Resize, sides, sides, ways),
    st.builds(Letterbox, sides, sides, at=st.sampled_from(["centre", "top-left"]), upscale=st.booleans(), by=ways),
    st.builds(CropTo, st.integers(1, 8), st.integers(1, 8), st.sampled_from(PLACES)),
    st.sampled_from([Grey(), Bgr(), Crop(0, 0, 5, 4), Crop(2, 3, 5, 8)]),
)
corners = st.tuples(st.floats(-50, 150), st.floats(-50, 150), st.floats(-50, 150), st.floats(-50, 150))


@given(sides, sides, st.lists(movers, max_size=3), st.lists(corners, min_size=1, max_size=4))
def test_boxes_come_back(width: int, height: int, steps: list[Step], boxes: list[tuple[float, ...]]) -> None:
    view = shown(np.zeros((height, width, 3), np.uint8))
    told = np.array(boxes)
    for step in steps:
        try:
            view = step(view)
        except InputError:  # a part of what is too small by now
            reject()
    forth = told * np.tile(view.scale, 2) + np.tile(view.shift, 2)
    assert np.allclose(view.back(forth), told, atol=1e-6)


@pytest.mark.parametrize(
    "steps",
    [
        (Resize(97, 41, "area"),),
        (Resize(300, 310, "linear"),),
        (Crop(11, 7, 60, 47),),
        (CropTo(50, 40, "bottom-right"),),
        (Letterbox(100, 100, at="centre"),),
        (Letterbox(101, 60, at="top-left"),),
        (Letterbox(30, 90, at="centre", upscale=False),),
        (Grey(), Crop(8, 0, 60, 48), Resize(104, 96), CropTo(90, 90, "bottom"), Letterbox(150, 200), Divide(255.0)),
    ],
    ids=str,
)
def test_painted_square_lies_where_told(steps: tuple[Step, ...]) -> None:
    """A white square's edges, measured to a part of a pixel by its brightness, lie where scale and shift put them."""
    box = np.array([24.0, 16.0, 44.0, 40.0])
    pixels = np.zeros((48, 64, 3), np.uint8)
    pixels[16:40, 24:44] = 255
    view = shown(pixels, *(step if not isinstance(step, Letterbox) else unpadded(step) for step in steps))
    bright = view.numbers.mean(axis=2) / view.numbers.max()
    measured = [edge for axis in (0, 1) for edge in edges(bright.max(axis=axis))]
    assert np.allclose(box * np.tile(view.scale, 2) + np.tile(view.shift, 2), np.array(measured)[[0, 2, 1, 3]], atol=0.51)


def unpadded(step: Letterbox) -> Letterbox:
    return Letterbox(step.width, step.height, 0, step.at, step.by, step.upscale)


def edges(profile: Array) -> tuple[float, float]:
    """Where a bright stretch begins and ends: its middle and its length, each from all of its brightness."""
    places = np.arange(len(profile)) + 0.5
    length = profile.sum()
    middle = (places * profile).sum() / length
    return middle - length / 2, middle + length / 2


@given(st.integers(20, 120), st.integers(20, 120))
def test_resize_leaves_no_shift(width: int, height: int) -> None:
    """The centre of a symmetric picture stays its centre, to a part of a pixel."""
    by = "area" if width <= 60 and height <= 40 else "linear"  # OpenCV's area is off by a tenth where it enlarges
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[10:30, 15:45] = 250
    view = shown(pixels, Resize(width, height, by))
    low, high = edges(view.numbers[..., 0].max(axis=0) / 250)
    assert (low + high) / 2 == pytest.approx(width / 2, abs=0.05)
    assert view.back(np.array([[width / 2] * 4]))[0, 0] == pytest.approx(30)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Resize(0, 4), "resize: 'width' must be a whole number of at least 1, got 0"),
        (lambda: Resize(4, 2.5), "'height' must be a whole number"),  # type: ignore[arg-type]
        (lambda: Resize(True, 4), "'width' must be a whole number"),
        (lambda: Resize(10**5, 10**5), "more than 50,000,000 pixels"),
        (lambda: Resize(4, 4, "lineer"), "did you mean 'linear'"),
        (lambda: Crop(5, 0, 5, 9), "right must be greater than left"),
        (lambda: Crop(-1, 0, 5, 9), "'left' must be a whole number of at least 0"),
        (lambda: CropTo(5, 5, "botom"), "did you mean 'bottom'"),
        (lambda: CropTo(5, 5, "left-top"), "unknown value of 'at': 'left-top'"),
        (lambda: Letterbox(5, 5, at="center"), "did you mean 'centre'"),
        (lambda: Letterbox(5, 5, pad=300), "'pad' must be a whole number from 0 to 255"),
        (lambda: Letterbox(5, 5, by="best"), "unknown value of 'by': 'best'"),
        (lambda: Divide(0), "divide: 'by' must be finite and not 0"),
        (lambda: Multiply(math.inf), "multiply: 'by' must be finite and not 0"),
        (lambda: Normalise((1.0,), (0.0,)), "'std' must be finite and not 0"),
        (lambda: Normalise((), (1.0,)), "'mean' must be one or more numbers"),
        (lambda: Normalise((math.nan,), (1.0,)), "'mean' must be one or more numbers"),
        (lambda: shown(PICTURE, Normalise((1.0, 2.0), (1.0,))), "mean has 2 numbers, but the picture has 3 channels"),
        (
            lambda: shown(PICTURE, Crop(0, 0, 65, 48)),
            "65x48 pixels from .0, 0. are not inside the picture, which is 64x48 at this step",
        ),
        (lambda: shown(PICTURE, CropTo(64, 49)), "are not inside the picture, which is 64x48 at this step"),
        (lambda: shown(PICTURE[..., :1], Hsv()), "hsv needs three channels, got 1"),
        (lambda: shown(PICTURE, Grey(), Grey()), "^the step 'grey' needs an image in rgb or bgr, got grey$"),
        (lambda: shown(PICTURE, Yuv(), Grey()), "^the step 'grey' needs an image in rgb or bgr, got yuv$"),
        (
            lambda: shown(PICTURE, Hsv(), Bgr()),
            "^the step 'bgr' needs an image in rgb or bgr, got hsv; remove one of the two steps$",
        ),
    ],
)
def test_wrong_steps_are_refused(make: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        make()
