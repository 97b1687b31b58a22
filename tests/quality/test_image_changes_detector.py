"""R60: a detector that cannot be wrong finds exactly the mapped truth under every change.

Objects are painted in a colour nothing else has, and the detector reads them back from the pixels: what it then misses,
a label map misplaced or a change painted over.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest

from swerve.analysis.detection import Precision, average_precision
from swerve.core.case import Case
from swerve.core.seeding import rng_for
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes2D, Depth, Image
from swerve.transformations.affine import Rotate, Scale, Shear, Translate, ZoomOut
from swerve.transformations.blur import MotionBlur
from swerve.transformations.exposure import OverExpose, UnderExpose
from swerve.transformations.flare import LensFlare
from swerve.transformations.weather import Fog, Rain, Snow

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
    "motion": lambda rng: MotionBlur(15, rng.uniform(0, 180)),
    "scale": lambda rng: ZoomOut(),
}
AFFINE = {
    "shift": lambda rng: Translate(rng.uniform(-60, 60), rng.uniform(-40, 40)),
    "zoom": lambda rng: Scale(rng.uniform(0.6, 1.6), rng.uniform(0.6, 1.6)),
    "shear": lambda rng: Shear(rng.uniform(-0.5, 0.5)),
    "turn": lambda rng: Rotate(rng.uniform(-30, 30)),
}
CHANGES: dict[str, Any] = {**TIGAUG, **AFFINE}
# Outlines are blurred or cut across pixels: IoU limits of 0.9 and more then measure the reader, who knows whole ones only.
SMEARED = ("motion", "scale", *AFFINE)


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


def judged(change: Transformation, case: Case) -> tuple[Boxes2D, Boxes2D]:
    """The mapped truth and what is found; what the frame's edge cuts, or nearly, is neither demanded nor forbidden."""
    followup = change(case)
    image, boxes = followup.inputs["camera"], followup.truth[0]
    assert isinstance(image, Image)
    assert isinstance(boxes, Boxes2D)
    found = np.array(detected(image.pixels), dtype=float).reshape(-1, 4)
    truth = replace(boxes, care=np.asarray(boxes.care) & whole(boxes.xyxy, 1))  # the reader knows no parts of a pixel
    found = found[whole(found, 0)]
    return truth, Boxes2D(found, ("thing",) * len(found), size=SIZE)


def precision(change: Callable[[np.random.Generator], Transformation], name: str, images: int = IMAGES) -> Precision:
    rngs = [rng_for("detector", name, index) for index in range(images)]
    pairs = [judged(change(rng), scene(rng)) for rng in rngs]
    return average_precision([truth for truth, _ in pairs], [found for _, found in pairs])


def whole(xyxy: Array, by: int) -> Array:
    """Which boxes stay clear of the frame's edge by more than so many pixels."""
    return np.asarray((xyxy[:, :2] > by).all(axis=1) & (xyxy[:, 2:] < np.subtract(SIZE, by)).all(axis=1))


def test_untouched_scene_is_read_exactly() -> None:
    for index in range(20):
        case = scene(rng_for("detector", index))
        boxes, image = case.truth[0], case.inputs["camera"]
        assert isinstance(boxes, Boxes2D)
        assert isinstance(image, Image)
        assert sorted(detected(image.pixels)) == sorted(tuple(map(int, box)) for box in boxes.xyxy)


@pytest.mark.parametrize("name", CHANGES)
def test_mapped_truth_is_found(name: str) -> None:
    found = precision(CHANGES[name], name)
    assert (found.at(0.5) or 0) >= 0.999
    assert (found.mean or 0) >= (0.95 if name in SMEARED else 0.999)


def test_wrong_map_would_be_noticed() -> None:
    class Unmoved(Translate):
        def boxes2d(self, value: Boxes2D) -> Boxes2D:
            return value

    assert precision(lambda rng: Translate(12, 6), "right", 12).mean == 1.0
    assert (precision(lambda rng: Unmoved(12, 6), "wrong", 12).mean or 0) < 0.5
