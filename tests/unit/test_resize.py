"""A picture handed over in another size."""

import numpy as np

from swerve.core.case import Case
from swerve.core.values import Boxes2D, Image, Steering
from swerve.testing import FakeSource, TransformationContract
from swerve.transformations.affine import Enlarge


class TestEnlarge(TransformationContract):
    def changes(self) -> list[Enlarge]:
        return [Enlarge(1.5, 2.0), Enlarge(0.5, 1.0)]


def test_picture_and_boxes_grow_together() -> None:
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[5:10, 10:20] = 200
    case = Case("a", {"camera": Image(pixels)}, (Boxes2D([[10, 5, 20, 10]], ("car",), None, (40, 20)), Steering(3.0)))
    made = Enlarge(2.0, 3.0)(case)
    image, boxes = made.inputs["camera"], made.truth[0]
    assert isinstance(image, Image)
    assert isinstance(boxes, Boxes2D)
    assert image.size == boxes.size == (80, 60)
    assert boxes.xyxy.tolist() == [[20, 15, 40, 30]]
    assert made.truth[1] == Steering(3.0)
    bright = np.argwhere(image.pixels[..., 0] > 100)
    assert bright.min(axis=0).tolist() == [15, 20]
    assert (bright.max(axis=0) + 1).tolist() == [30, 40]


def test_neutral_is_the_same_picture_and_tiny_ones_stay_pictures() -> None:
    case = FakeSource(1)["fake-00000"]
    assert Enlarge(1.0, 1.0)(case).inputs == case.inputs
    small = Enlarge(0.1, 0.1)(case).inputs["camera"]
    assert isinstance(small, Image)
    assert small.size == (8, 8)
