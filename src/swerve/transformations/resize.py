"""The picture in another size, which a model's own resizing undoes: DeepTest's scale as its authors ran it (D-9)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.transformation import param
from swerve.core.values import Array, Boxes2D, Calibration, Depth, Masks
from swerve.transformations.affine import CAMERAS
from swerve.transformations.photometric import ImageChange, images_of

SMALLEST = 8  # pixels of a side
MOST_PIXELS = 100_000_000
GRID = tuple(1.5 + 0.5 * step for step in range(10))


@dataclass(frozen=True)
class Enlarge(ImageChange):
    """The whole picture `x` times as wide and `y` times as high; nothing leaves it."""

    x: float = param(0.1, 10, neutral=1, grid=GRID, unit="×")
    y: float = param(0.1, 10, neutral=1, grid=GRID, unit="×")
    preserves: ClassVar[tuple[str, ...]] = ("steering", "signal", "points", "boxes3d", "region", "scene")

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """Boxes grow with the picture."""
        size = None if value.size is None else self._size(*value.size)
        grown = value.xyxy * np.array([self.x, self.y] * 2)
        return Boxes2D(grown, value.kinds, value.scores, size, value.care, value.hidden)

    def masks(self, value: Masks) -> Masks:
        """Every pixel keeps its instance."""
        return dataclasses.replace(value, instances=self._resized(value.instances, cv2.INTER_NEAREST))

    def depth(self, value: Depth) -> Depth:
        """Every pixel keeps its distance."""
        return Depth(self._resized(value.metres, cv2.INTER_NEAREST))

    def calibration(self, value: Calibration) -> Calibration:
        """The camera's matrix leads to the pixels of the larger picture."""
        scale = np.diag([self.x, self.y, 1.0])
        grown = {name: scale @ value.matrices[name] for name in CAMERAS if name in value.matrices}
        size = None if value.size is None else self._size(*value.size)
        return Calibration({**value.matrices, **grown}, size) if grown else value

    def applies(self, case: Case) -> str | None:
        """Refuse a picture that would fill the memory, as larger ones of larger ones soon do (D-7)."""
        for image in images_of(case):
            width, height = self._size(*image.size)
            if width * height > MOST_PIXELS:
                return f"{width}×{height} pixels are too many to work with: {MOST_PIXELS:,} at most"
        return None

    def words(self) -> str:
        return f"picture {self.x:g}× as wide and {self.y:g}× as high"

    def _redraw(self, pixels: Array) -> Array:
        return self._resized(pixels, cv2.INTER_LINEAR)

    def _resized(self, array: Array, how: int) -> Array:
        if self._idle() or not array.size:
            return array
        height, width = array.shape[:2]
        return np.asarray(cv2.resize(array, self._size(width, height), interpolation=how))

    def _size(self, width: int, height: int) -> tuple[int, int]:
        return max(SMALLEST, round(width * self.x)), max(SMALLEST, round(height * self.y))
