from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from swerve.core.transformation import Transformation
from swerve.core.values import Image
from swerve.testing import TransformationContract
from swerve.transformations.exposure import OverExpose, RaiseValue, UnderExpose, exposures

COLOURS = st.tuples(*[st.integers(0, 255)] * 3)


class TestExposure(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [*OverExpose.grid(), *UnderExpose.grid(), *RaiseValue.grid(), RaiseValue(-0.3), OverExpose(1.0)]


def changed(change: Transformation, colour: tuple[int, ...]) -> list[int]:
    pixels = change.map(Image(np.array([[colour]], dtype=np.uint8))).pixels
    return [int(level) for level in pixels[0, 0]]


def in_hsl(colour: tuple[int, ...], shift: float) -> tuple[float, list[float]]:
    """How much the chroma grows, and the colour with its lightness shifted."""
    hue, light, saturation = colorsys.rgb_to_hls(*(level / 255 for level in colour))
    moved = min(max(light + shift, 0), 1)
    grown = (1 - abs(2 * moved - 1)) / max(1 - abs(2 * light - 1), 1e-9)
    return grown, [255 * level for level in colorsys.hls_to_rgb(hue, moved, saturation)]


@given(colour=COLOURS, shift=st.floats(0.01, 1).map(lambda by: round(by, 2)), darker=st.booleans())
def test_lightness_moves_in_hsl(colour: tuple[int, ...], shift: float, darker: bool) -> None:
    grown, exact = in_hsl(colour, -shift if darker else shift)
    assume(grown <= 3)
    change = UnderExpose(shift) if darker else OverExpose(shift)
    assert changed(change, colour) == pytest.approx(exact, abs=0.51)


@given(colour=COLOURS, shift=st.floats(0.01, 1).map(lambda by: round(by, 2)))
def test_lightness_is_always_exact(colour: tuple[int, ...], shift: float) -> None:
    after = changed(OverExpose(shift), colour)
    wanted = min((max(colour) + min(colour)) / 2 + 255 * shift, 255)
    assert (max(after) + min(after)) / 2 == pytest.approx(wanted, abs=1)


def test_known_colours_come_out() -> None:
    assert changed(OverExpose(0.4), (100, 100, 100)) == [202, 202, 202]
    assert changed(OverExpose(0.4), (255, 0, 0)) == [255, 204, 204]
    assert changed(UnderExpose(0.1), (255, 0, 0)) == [204, 0, 0]
    assert changed(UnderExpose(0.1), (20, 20, 20)) == [0, 0, 0]


def test_noise_stays_without_colour() -> None:
    nearly_black = changed(OverExpose(0.4), (2, 0, 3))
    assert max(nearly_black) - min(nearly_black) <= 9


@given(colour=COLOURS.filter(any), shift=st.floats(-0.9, 0.9).map(lambda by: round(by, 2)))
def test_value_moves_in_hsv(colour: tuple[int, ...], shift: float) -> None:
    hue, saturation, value = colorsys.rgb_to_hsv(*(level / 255 for level in colour))
    exact = [255 * level for level in colorsys.hsv_to_rgb(hue, saturation, min(max(value + shift, 0), 1))]
    assert changed(RaiseValue(shift), colour) == pytest.approx(exact, abs=0.51)


def test_black_is_raised_to_grey() -> None:
    assert changed(RaiseValue(0.2), (0, 0, 0)) == [51, 51, 51]


def test_strips_meet_without_seam() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (150, 7, 3), dtype=np.uint8)
    whole = OverExpose(0.3).map(Image(pixels)).pixels
    for row in (0, 63, 64, 149):
        assert whole[row].tolist() == [changed(OverExpose(0.3), tuple(colour)) for colour in pixels[row]]


def test_table_is_tigaug_s() -> None:
    assert list(exposures().grid()) == [OverExpose(0.4), UnderExpose(0.1)]
    assert OverExpose() == OverExpose(0.4)
    assert UnderExpose() == UnderExpose(0.1)


def test_words_are_for_people() -> None:
    assert OverExpose(0.4).words() == "over-exposed by 0.4"
    assert UnderExpose(0.1).words() == "under-exposed by 0.1"
    assert RaiseValue(0.1).words() == "HSV value +0.1"
