"""Small pictures with painted lights, on which detectors learn within seconds."""

from __future__ import annotations

import numpy as np

from swerve.core.case import Case
from swerve.core.values import Boxes2D, Image
from swerve.train.labelled_pictures import LabelledPicture

LIT = {"red": (255, 0, 0), "yellow": (255, 255, 0), "green": (0, 255, 0), "off": (20, 20, 20)}
SIDE = 96


def painted(number: int, side: int = SIDE, heads: int = 2) -> Case:
    """A dim picture with upright heads, dark boxes with a lit lamp, that do not overlap."""
    rng = np.random.default_rng(number)
    pixels = rng.integers(90, 130, (side, side, 3)).astype(np.uint8)
    boxes, kinds = [], []
    for place in range(heads):
        left = int(rng.integers(0, side // heads - 16)) + place * side // heads
        top = int(rng.integers(0, side - 40))
        kind = list(LIT)[int(rng.integers(3))]
        pixels[top : top + 32, left : left + 12] = 10
        row = top + 2 + 10 * ("red", "yellow", "green").index(kind)
        pixels[row : row + 8, left + 2 : left + 10] = LIT[kind]
        boxes.append([left, top, left + 12, top + 32])
        kinds.append(kind)
    truth = Boxes2D(np.array(boxes, float).reshape(-1, 4), tuple(kinds), size=(side, side))
    return Case(f"painted/{number // 2}#{number % 2}", {"camera": Image(pixels)}, (truth,), group=f"painted/{number // 2}")


def pictures(count: int, side: int = SIDE, first: int = 0) -> list[LabelledPicture]:
    """Painted pictures as training samples."""
    return [LabelledPicture.of(painted(first + number, side), tuple(LIT)) for number in range(count)]


class PaintedSource:
    """Painted pictures as a source."""

    def __init__(self, count: int, first: int = 0) -> None:
        self.cases = {case.key: case for case in (painted(first + number) for number in range(count))}

    def keys(self) -> list[str]:
        return list(self.cases)

    def group(self, key: str) -> str:
        return self.cases[key].group

    def __getitem__(self, key: str) -> Case:
        return self.cases[key]

    def fingerprint(self) -> str:
        return ",".join(case.input_sha for case in self.cases.values())
