"""A network is shown the right picture, laid out as it wants it, or told in a sentence why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Array, Group, Image, Signal
from swerve.systems.preprocessing import ImageView, Preprocessing, Step
from swerve.systems.steps import Bgr, Crop, Divide, Grey, Resize

RNG = np.random.default_rng(7)
FRAMES = [RNG.integers(0, 256, (4, 6, 3), dtype=np.uint8) for _ in range(3)]
ONE = Case("drive/1", {"camera": Image(FRAMES[0])})
WINDOW = Case("drive/3", {"camera": Group(tuple(map(Image, FRAMES)))})


@dataclass(frozen=True)
class Leaves:
    """A step that leaves whatever it was given."""

    left: object

    def __call__(self, view: ImageView) -> ImageView:
        return self.left if not isinstance(self.left, np.ndarray) else view.with_numbers(self.left)  # type: ignore[return-value]


def numbers(case: Case, *steps: Step, **options: str) -> Array:
    return Preprocessing(steps, **options)(case).numbers


def test_bytes_stay_bytes() -> None:
    assert numbers(ONE, layout="hwc").dtype == np.uint8
    assert np.array_equal(numbers(ONE, layout="hwc"), FRAMES[0])
    assert np.array_equal(numbers(ONE), FRAMES[0].transpose(2, 0, 1))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_other_numbers_become_float32(dtype: type) -> None:
    shown = numbers(ONE, Leaves(np.ones((2, 3, 1), dtype=dtype)))
    assert shown.dtype == np.float32
    assert shown.shape == (1, 2, 3)


@pytest.mark.parametrize(
    ("layout", "frames", "shape"),
    [
        ("chw", "stack", (3, 3, 4, 6)),
        ("hwc", "stack", (3, 4, 6, 3)),
        ("chw", "channels", (9, 4, 6)),
        ("hwc", "channels", (4, 6, 9)),
        ("chw", "differences", (6, 4, 6)),
        ("hwc", "differences", (4, 6, 6)),
    ],
)
def test_windows_are_laid_out(layout: str, frames: str, shape: tuple[int, ...]) -> None:
    shown = numbers(WINDOW, layout=layout, frames=frames)
    assert shown.shape == shape
    assert shown.flags.c_contiguous


def test_channels_are_side_by_side() -> None:
    assert np.array_equal(numbers(WINDOW, frames="channels")[3:6], FRAMES[1].transpose(2, 0, 1))
    assert np.array_equal(numbers(WINDOW, frames="channels", layout="hwc")[..., 3:6], FRAMES[1])
    assert np.array_equal(numbers(WINDOW, frames="stack")[2], FRAMES[2].transpose(2, 0, 1))


def test_differences_are_signed() -> None:
    shown = numbers(WINDOW, frames="differences", layout="hwc")
    assert shown.dtype == np.float32
    assert (shown < 0).any()
    assert np.array_equal(shown[..., :3], FRAMES[1].astype(int) - FRAMES[0])
    assert np.array_equal(shown[..., 3:], FRAMES[2].astype(int) - FRAMES[1])


def test_steps_are_made_in_order() -> None:
    halved = numbers(ONE, Grey(), Crop(1, 1, 5, 4), Divide(2))
    assert halved.shape == (1, 3, 4)
    assert np.array_equal(halved, numbers(ONE, Grey())[:, 1:4, 1:5] / np.float32(2))
    with pytest.raises(InputError, match=r"^the step 'grey' needs an image in rgb or bgr, got grey"):
        numbers(ONE, Grey(), Grey())


def test_colours_survive_the_layout() -> None:
    assert Preprocessing((Bgr(), Resize(8, 8), Divide(2)))(ONE).colours == "bgr"
    assert Preprocessing((Grey(), Crop(0, 0, 2, 2)), frames="stack")(WINDOW).colours == "grey"
    assert np.array_equal(numbers(ONE, Bgr(), Grey()), numbers(ONE, Grey()))


def test_nothing_is_written_to() -> None:
    before = FRAMES[0].copy()
    numbers(ONE, Bgr(), Resize(3, 3), Divide(255.0))
    assert np.array_equal(FRAMES[0], before)


@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("frames", ["stack", "channels", "differences"])
def test_place_survives_the_layout(layout: str, frames: str) -> None:
    view = Preprocessing((Crop(2, 0, 6, 4), Resize(8, 12)), layout=layout, frames=frames)(WINDOW)
    assert view.shown == (8, 12)
    assert view.size == (6, 4)
    assert view.back(np.array([[0.0, 0.0, 8.0, 12.0]])).tolist() == [[2.0, 0.0, 6.0, 4.0]]


def test_place_is_the_last_frame() -> None:
    """A window of two sizes, made one by a step: boxes belong to the frame whose truth is the case's."""
    case = Case("c", {"camera": Group((Image(np.zeros((8, 8, 3), np.uint8)), Image(FRAMES[0])))})
    view = Preprocessing((Resize(4, 4),), frames="stack")(case)
    assert view.size == (6, 4)
    assert view.scale == (4 / 6, 1.0)
    with pytest.raises(InputError, match="different sizes after preprocessing"):
        numbers(case, frames="stack")


def test_other_sensors_can_be_read() -> None:
    case = Case("c", {"rear": Image(FRAMES[1]), "camera": Image(FRAMES[0])})
    assert np.array_equal(numbers(case, sensor="rear", layout="hwc"), FRAMES[1])


@pytest.mark.parametrize(
    ("case", "frames", "why"),
    [
        (WINDOW, "one", r"drive/3: this network needs one image named 'camera', got a window of 3$"),
        (ONE, "stack", r"drive/1: this network needs a window of images named 'camera', got a Image; use Windows"),
        (Case("a", {"rear": Image(FRAMES[0])}), "one", r"a: .* named 'camera', got only rear$"),
        (Case("b", {}), "one", r"b: .* got only nothing$"),
        (Case("c", {"camera": Signal("speed", 1)}), "one", r"c: .* got a Signal$"),
        (Case("d", {"camera": Group(())}), "stack", r"d: .* got a window of 0;"),
        (Case("e", {"camera": Group((Image(FRAMES[0]),))}), "differences", r"e: .* two or more images .* a window of 1;"),
        (Case("f", {"camera": Group((Signal("s", 1),))}), "channels", r"f: .* a window of 1 with Signal;"),
    ],
)
def test_wrong_inputs_are_refused(case: Case, frames: str, why: str) -> None:
    with pytest.raises(InputError, match=f"^{why}"):
        numbers(case, frames=frames)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"layout": "cwh"}, "did you mean 'chw'"),
        ({"frames": "stacks"}, "did you mean 'stack'"),
        ({"frames": "x"}, "known: channels, differences, one, stack"),
        ({"layout": 3}, "known: chw, hwc"),
    ],
)
def test_unknown_words_are_refused(options: dict[str, str], hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        Preprocessing((), **options)


@pytest.mark.parametrize("left", [None, 3, np.zeros((4, 4)), np.zeros(())])
def test_steps_must_leave_pictures(left: object) -> None:
    with pytest.raises(InputError, match=r"^Leaves must return an ImageView of rows x columns x channels, got"):
        numbers(ONE, Leaves(left))


@given(
    arrays(np.float64, (5, 4), elements=st.floats(-1e4, 1e4)),
    st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)),
    st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)),
)
def test_back_undoes_the_place(boxes: Array, scale: tuple[float, float], shift: tuple[float, float]) -> None:
    start = ImageView(np.zeros((2, 2, 3), np.uint8), (2, 2), (2.0, 0.5), (1.0, -3.0))
    moved = start.moved(start.numbers, scale=scale, shift=shift)
    there = (boxes * np.tile(start.scale, 2) + np.tile(start.shift, 2)) * np.tile(scale, 2) + np.tile(shift, 2)
    assert np.allclose(boxes * np.tile(moved.scale, 2) + np.tile(moved.shift, 2), there, rtol=1e-9, atol=1e-6)
    assert np.allclose(moved.back(there), boxes, rtol=1e-9, atol=1e-2)
