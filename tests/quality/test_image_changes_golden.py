"""Known values of the newer changes to an image: zooming out (D-24, A.8) and motion blur (D-22d)."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes2D, Image
from swerve.testing import FakeSystem, TransformationContract
from swerve.transformations.affine import Rotate, Translate, ZoomOut
from swerve.transformations.blur import MotionBlur, line_kernel, motion_blur
from swerve.transformations.photometric import Brighten, Contrast

SIZES, ANGLES = st.integers(2, 40), st.floats(0, 180)


class TestNewer(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [ZoomOut(), ZoomOut(0.1, 0.9, left=0.0, top=1.0), MotionBlur(15, 0), MotionBlur(15, 30), MotionBlur(4, 45)]


def noise(width: int = 64, height: int = 48) -> Array:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


# --- zooming out ----------------------------------------------------------------------------------------------------


def boxes(*xyxy: tuple[float, ...]) -> Boxes2D:
    return Boxes2D(np.array(xyxy), ("light",) * len(xyxy), size=(1280, 720))


def test_zoom_out_is_golden() -> None:
    assert ZoomOut().map(boxes((100, 100, 120, 150))).xyxy.tolist() == [[208, 152, 224, 192]]


def test_zoom_out_keeps_the_centre() -> None:
    assert ZoomOut().map(boxes((600, 340, 680, 380))).xyxy.tolist() == [[608, 344, 672, 376]]


def test_canvas_may_grow_to_one_side() -> None:
    moved = ZoomOut(1, 1, left=1.0, top=0.0).map(boxes((0, 0, 1280, 720))).xyxy.tolist()
    assert moved == [[640, 0, 1280, 360]]


def test_zoom_out_fills_the_rest() -> None:
    white = Image(np.full((72, 128, 3), 255, dtype=np.uint8))
    after = ZoomOut().map(white).pixels[..., 0]
    assert (after > 127).mean() == pytest.approx(0.64, abs=0.02)
    assert ZoomOut().facts(Case("k", {"camera": white}))["fill"] == pytest.approx(0.36)


def test_zoom_out_says_where() -> None:
    assert ZoomOut().words() == "zoomed out, 25% wider and 25% higher"
    assert ZoomOut(left=0.0).words() == "zoomed out, 25% wider and 25% higher, 0% of it on the left and 50% at the top"
    with pytest.raises(ValueError, match="'left' must be a number from 0 to 1, got 2"):
        ZoomOut(left=2)


# --- motion blur ----------------------------------------------------------------------------------------------------


@given(size=SIZES, angle=ANGLES)
def test_line_weighs_one(size: int, angle: float) -> None:
    assert line_kernel(size, angle).sum() == pytest.approx(1, abs=1e-5)
    assert (line_kernel(size, angle) >= 0).all()


@given(size=SIZES, angle=ANGLES)
def test_line_is_symmetric(size: int, angle: float) -> None:
    kernel = line_kernel(size, angle)
    assert np.array_equal(kernel, kernel[::-1, ::-1])
    assert all(length % 2 for length in kernel.shape)


def test_line_has_its_length() -> None:
    assert line_kernel(15, 0) == pytest.approx(np.full((1, 15), 1 / 15))
    assert line_kernel(15, 90) == pytest.approx(np.full((15, 1), 1 / 15))
    assert line_kernel(15, 180) == pytest.approx(line_kernel(15, 0), abs=1e-6)


def test_angle_is_counterclockwise() -> None:
    kernel = line_kernel(15, 45)
    assert kernel[0, -1] + kernel[1, -2] > 0.05  # up and to the right
    assert kernel[0, 0] == 0


@pytest.mark.parametrize("angle", [0, 10, 30, 45, 77, 90, 120])
@pytest.mark.parametrize("size", [2, 9, 15, 24, 41])
def test_blur_is_the_kernel_s(size: int, angle: float) -> None:
    pixels = noise()
    exact = cv2.filter2D(pixels.astype(np.float64), -1, line_kernel(size, angle).astype(np.float64))
    assert np.abs(MotionBlur(size, angle).map(Image(pixels)).pixels - exact).max() <= 0.6


def test_preset_draws_the_angle() -> None:
    rng = np.random.default_rng(0)
    drawn = [motion_blur().propose(Case("k", {"camera": Image(noise())}), rng, FakeSystem()) for _ in range(9)]
    assert all(isinstance(change, MotionBlur) and change.size == 15 for change in drawn)
    assert len(set(drawn)) > 5


# --- short cuts give the long way's bytes ---------------------------------------------------------------------------


@given(x=st.integers(-70, 70), y=st.integers(-50, 50))
def test_whole_shift_is_warped_shift(x: int, y: int) -> None:
    matrix = np.array([[1, 0, x], [0, 1, y]], dtype=np.float64)
    assert np.array_equal(Translate(x, y).map(Image(noise())).pixels, cv2.warpAffine(noise(), matrix, (64, 48)))


@given(degrees=st.floats(-180, 180))
def test_fourth_channel_changes_nothing(degrees: float) -> None:
    change = Rotate(degrees, border="reflect")
    matrix = change._matrix(64, 48)
    matrix[:, 2] += matrix[:, :2] @ (0.5, 0.5) - 0.5
    three = cv2.warpAffine(noise(), matrix, (64, 48), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    assert np.abs(change.map(Image(noise())).pixels.astype(int) - three).max() <= 1


@given(alpha=st.floats(0, 10))
def test_gain_is_rounded_half_even(alpha: float) -> None:
    ramp = np.arange(256, dtype=np.uint8).reshape(1, -1, 1).repeat(3, axis=2)
    exact = np.clip(np.rint(np.arange(256) * alpha), 0, 255)
    assert Contrast(alpha).map(Image(ramp)).pixels[0, :, 1].tolist() == exact.tolist()


@given(beta=st.integers(-255, 255))
def test_whole_shift_of_grey_saturates(beta: int) -> None:
    ramp = np.arange(256, dtype=np.uint8).reshape(1, -1, 1).repeat(3, axis=2)
    assert Brighten(beta).map(Image(ramp)).pixels[0, :, 2].tolist() == np.clip(np.arange(256) + beta, 0, 255).tolist()
