"""R60: a detector that cannot be wrong finds exactly the mapped truth under every change.

Objects are painted in a colour nothing else has, and the detector reads them back from the pixels: what it then misses,
a label map misplaced or a change painted over.
"""

from __future__ import annotations

import os
from typing import Any

import cv2
import numpy as np
import pytest

from swerve.case import Case
from swerve.seeding import rng_for
from swerve.transformation import Transformation
from swerve.transformations.affine import Rotate, Scale, Shear, Translate, ZoomOut
from swerve.transformations.blur import MotionBlur
from swerve.transformations.exposure import OverExpose, UnderExpose
from swerve.transformations.flare import LensFlare
from swerve.transformations.weather import Fog, Rain, Snow
from swerve.values import Array, Boxes2D, Depth, Image

IMAGES = 1000 if os.environ.get("SWERVE_SOAK") == "1" else 12
SIZE = WIDTH, HEIGHT = 480, 270
CELLS = [(column, row) for row in range(2) for column in range(4)]  # one object each, so that none touches another
PAINT = (215, 10, 215)
TIGAUG = {
    "rain": lambda rng: Rain(0.5, rng.uniform(0.1, 0.2), rng.uniform(0.2, 0.3), seed=int(rng.integers(99))),
    "snow": lambda rng: Snow(2, seed=int(rng.integers(99))),
    "fog": lambda rng: Fog(120, seed=int(rng.integers(99))),
    "flare": lambda rng: LensFlare(rng.uniform(0.1, 0.9), 0.03, 0.7, seed=int(rng.integers(99))),
    "over": lambda rng: OverExpose(0.4),
    "under": lambda rng: UnderExpose(0.1),
    "motion": lambda rng: MotionBlur(7, rng.uniform(0, 180)),
    "scale": lambda rng: ZoomOut(),
}
AFFINE = {
    "shift": lambda rng: Translate(rng.uniform(-60, 60), rng.uniform(-40, 40)),
    "zoom": lambda rng: Scale(rng.uniform(0.6, 1.6), rng.uniform(0.6, 1.6)),
    "shear": lambda rng: Shear(rng.uniform(-0.5, 0.5)),
    "turn": lambda rng: Rotate(rng.uniform(-30, 30)),
}
CHANGES: dict[str, Any] = {**TIGAUG, **AFFINE}


def scene(rng: np.random.Generator) -> Case:
    """A sky, a road, and painted rectangles in the lower two thirds, 30 m away: none is out of sight in fog of 120 m."""
    pixels = np.full((HEIGHT, WIDTH, 3), rng.integers(70, 110), dtype=np.uint8)
    pixels[: HEIGHT // 3] = rng.integers(170, 230)
    boxes = []
    for column, row in (CELLS[index] for index in rng.choice(len(CELLS), rng.integers(1, 5), replace=False)):
        width, height = rng.integers(32, 80), rng.integers(24, 56)
        left, top = 20 + column * 112 + int(rng.integers(0, 20)), 104 + row * 76 + int(rng.integers(0, 12))
        pixels[top : top + height, left : left + width] = PAINT
        boxes.append((left, top, left + width, top + height))
    truth = Boxes2D(np.array(boxes), ("thing",) * len(boxes), size=SIZE), Depth(np.full((HEIGHT, WIDTH), 30.0))
    return Case("k", {"camera": Image(pixels)}, truth)


def detected(pixels: Array) -> list[tuple[int, int, int, int]]:
    """The hull of every patch that is magenta, at least half as much so as what is near."""
    paint = pixels[..., [0, 2]].astype(np.float32).min(axis=2) - pixels[..., 1]
    near = cv2.dilate(paint, np.ones((13, 13), dtype=np.uint8))
    count, patches, corners, _ = cv2.connectedComponentsWithStats(((paint > 5) & (paint > 0.5 * near)).astype(np.uint8))
    del patches
    hulls = [(left, top, left + width, top + height, area) for left, top, width, height, area in corners[1:count].tolist()]
    return [(left, top, right, bottom) for left, top, right, bottom, area in hulls if area > 12]


def overlap(one: Array, other: Array) -> float:
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    shared = np.prod(np.maximum(high - low, 0))
    return float(shared / (np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]) - shared))


def worst(change: Transformation, case: Case) -> float:
    """The least overlap of a demanded box with what is found, or of a found one with any box; 0 for one missed.

    What the frame's edge cuts is left out: the hull of what is left and the rest of the hull are two things.
    """
    followup = change(case)
    image, boxes = followup.inputs["camera"], followup.truth[0]
    assert isinstance(image, Image)
    assert isinstance(boxes, Boxes2D)
    found = np.array(detected(image.pixels), dtype=float).reshape(-1, 4)
    table = np.array([[overlap(box, seen) for seen in found] for box in boxes.xyxy]).reshape(len(boxes.xyxy), len(found))
    missed = table[np.asarray(boxes.care) & whole(boxes.xyxy)].max(axis=1, initial=0)
    invented = table[:, whole(found)].max(axis=0, initial=0)
    return float(min([1.0, *missed, *invented]))


def whole(xyxy: Array) -> Array:
    """Which boxes stay clear of the frame's edge."""
    return np.asarray((xyxy[:, :2] > 0).all(axis=1) & (xyxy[:, 2:] < SIZE).all(axis=1))


def test_untouched_scene_is_read_exactly() -> None:
    for index in range(20):
        case = scene(rng_for("detector", index))
        boxes, image = case.truth[0], case.inputs["camera"]
        assert isinstance(boxes, Boxes2D)
        assert isinstance(image, Image)
        assert sorted(detected(image.pixels)) == sorted(tuple(map(int, box)) for box in boxes.xyxy)


@pytest.mark.parametrize("name", CHANGES)
def test_mapped_truth_is_found(name: str) -> None:
    for index in range(IMAGES):
        rng = rng_for("detector", name, index)
        case = scene(rng)
        assert worst(CHANGES[name](rng), case) >= 0.75, (name, index)


def test_wrong_map_would_be_noticed() -> None:
    class Unmoved(Translate):
        def boxes2d(self, value: Boxes2D) -> Boxes2D:
            return value

    assert worst(Translate(40, 20), scene(rng_for("detector"))) >= 0.9
    assert worst(Unmoved(40, 20), scene(rng_for("detector"))) < 0.5
