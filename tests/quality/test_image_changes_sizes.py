"""R35: every change on every size of image: the shape and type stay, the input is not touched.

100,000 (image, change, parameter) triples with SWERVE_SOAK=1, a small share of them otherwise.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from swerve.core.seeding import rng_for
from swerve.core.transformation import Transformation, params_of
from swerve.core.values import Array, Boxes2D, Depth, Image, Masks
from swerve.transformations.affine import BORDERS, Rotate, Scale, Shear, Translate, ZoomOut
from swerve.transformations.blur import AverageBlur, BilateralBlur, GaussianBlur, MedianBlur, MotionBlur
from swerve.transformations.exposure import OverExpose, RaiseValue, UnderExpose
from swerve.transformations.flare import LensFlare
from swerve.transformations.photometric import Brighten, Contrast
from swerve.transformations.weather import Fog, Rain, Snow

SOAK = os.environ.get("SWERVE_SOAK") == "1"
AFFINE = (Translate, Scale, Shear, Rotate, ZoomOut)
BLURS = (AverageBlur, GaussianBlur, MedianBlur, BilateralBlur, MotionBlur)
LIGHT = (Brighten, Contrast, OverExpose, UnderExpose, RaiseValue, LensFlare)
KINDS = (*AFFINE, *BLURS, *LIGHT, Fog, Rain, Snow)
EACH = (100_000 if SOAK else 1_500) // len(KINDS) + 1
WIDEST = 16_384
SIZES = ((1, 1), (1, 2), (2, 1), (3, 3), (1, 37), (37, 1), (4, 1), (1, 4), (17, 13), (64, 64), (63, 41), (101, 55))

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def drawn(kind: Any, rng: np.random.Generator) -> Transformation:
    """A change with each number anywhere in its range, an end of it as often as not."""
    numbers: dict[str, Any] = {}
    for name, facts in params_of(kind).items():
        ends = (facts.low, facts.high, facts.neutral)
        numbers[name] = facts.tidy(rng.uniform(facts.low, facts.high)) if rng.random() < 0.6 else ends[rng.integers(3)]
    if kind in AFFINE:
        numbers["border"] = list(BORDERS)[rng.integers(len(BORDERS))]
    elif kind in (Fog, Rain, Snow, LensFlare):
        numbers["seed"] = int(rng.integers(1000))
    change: Transformation = kind(**numbers)
    return change


def picture(width: int, height: int, rng: np.random.Generator) -> Array:
    if rng.random() < 0.2:
        return np.full((height, width, 3), rng.choice([0, 255]), dtype=np.uint8)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def check(change: Transformation, pixels: Array) -> None:
    before = pixels.copy()
    after = change.map(Image(pixels)).pixels
    assert after.shape == before.shape, change
    assert after.dtype == np.uint8, change
    assert np.array_equal(pixels, before), change


@every_kind
def test_any_size_any_numbers(kind: type[Transformation]) -> None:
    rng = rng_for("sizes", kind.__name__)
    for _ in range(EACH):
        width, height = SIZES[rng.integers(len(SIZES))]
        check(drawn(kind, rng), picture(width, height, rng))


@every_kind
def test_very_wide_images_work(kind: type[Transformation]) -> None:
    rng = rng_for("wide", kind.__name__)
    for height in (1, 3):
        check(drawn(kind, rng), picture(WIDEST, height, rng))


@every_kind
def test_very_high_images_work(kind: type[Transformation]) -> None:
    rng = rng_for("high", kind.__name__)
    check(drawn(kind, rng), picture(1, WIDEST, rng))


@pytest.mark.parametrize("kind", AFFINE, ids=lambda kind: kind.__name__)
def test_labels_of_any_size_stay_finite(kind: type[Transformation]) -> None:
    rng = rng_for("labels", kind.__name__)
    for width, height in SIZES * 4:
        change = drawn(kind, rng)
        boxes = change.map(Boxes2D(np.array([[0, 0, width, height]]), ("car",), size=(width, height)))
        assert boxes.fault() is None
        assert (boxes.xyxy[0] >= 0).all()
        assert (boxes.xyxy[0] <= (width, height, width, height)).all()
        masks = change.map(Masks(np.ones((height, width), dtype=np.int32), {1: "car"}))
        assert masks.instances.shape == (height, width)
        assert change.map(Depth(np.ones((height, width), dtype=np.float32))).metres.shape == (height, width)


def test_shift_beyond_the_image() -> None:
    pixels = np.full((64, 64, 3), 200, dtype=np.uint8)
    for x, y in ((100, 0), (0, -100), (1000, 1000), (64, 64), (-100.5, 3)):
        assert not Translate(x, y).map(Image(pixels)).pixels.any()
    assert (Translate(100, 0, border="replicate").map(Image(pixels)).pixels == 200).all()
