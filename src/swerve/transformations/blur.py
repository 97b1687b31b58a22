"""The four blurs of DeepTest (DT-17): one row of its table, ten values in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np

from swerve.space import Table
from swerve.transformation import ANYTHING, param
from swerve.transformations.photometric import ImageChange
from swerve.values import Array


def _size(*grid: int, high: int = 99, step: int = 1) -> Any:
    return param(1, high, neutral=1, grid=grid, resolution=1, unit=" px", step=step)


@dataclass(frozen=True)
class AverageBlur(ImageChange):
    """The mean of `size` × `size` pixels; an even window reaches one pixel further left and up than right and down."""

    size: int = _size(3, 4, 5, 6)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "blurred by a 4×4 average"."""
        return f"blurred by a {self.size}×{self.size} average"

    def _redraw(self, pixels: Array) -> Array:
        return np.asarray(cv2.blur(pixels, (self.size, self.size)))


@dataclass(frozen=True)
class GaussianBlur(ImageChange):
    """A Gaussian over `size` × `size` pixels, its sigma the one OpenCV derives from the size."""

    # The table prints 3×3 a second time as a fourth value (D-8): three are left.
    size: int = _size(3, 5, 7, step=2)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "blurred by a 5×5 Gaussian"."""
        return f"blurred by a {self.size}×{self.size} Gaussian"

    def _redraw(self, pixels: Array) -> Array:
        return np.asarray(cv2.GaussianBlur(pixels, (self.size, self.size), 0))


@dataclass(frozen=True)
class MedianBlur(ImageChange):
    """The median of `size` × `size` pixels, each channel by itself."""

    size: int = _size(3, 5, step=2)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "blurred by a 3×3 median"."""
        return f"blurred by a {self.size}×{self.size} median"

    def _redraw(self, pixels: Array) -> Array:
        return np.asarray(cv2.medianBlur(pixels, self.size))


@dataclass(frozen=True)
class BilateralBlur(ImageChange):
    """A blur that keeps edges: near pixels count by distance and by likeness; OpenCV rounds `diameter` up to odd."""

    diameter: int = _size(9, high=25)
    sigma_color: float = param(0, 255, neutral=0, grid=(75,), resolution=1)
    sigma_space: float = param(0, 255, neutral=0, grid=(75,), resolution=1)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "blurred by a 9 px bilateral filter (75, 75)"."""
        return f"blurred by a {self.diameter} px bilateral filter ({self.sigma_color:g}, {self.sigma_space:g})"

    def _redraw(self, pixels: Array) -> Array:
        return np.asarray(cv2.bilateralFilter(pixels, self.diameter, self.sigma_color, self.sigma_space))

    def _idle(self) -> bool:
        # OpenCV takes a diameter of 1 for 3 and a sigma of 0 for 1; in the limit each of them alone changes nothing.
        return self.diameter == 1 or self.sigma_color == 0 or self.sigma_space == 0


def blurs() -> Table:
    """The ten blurs of DeepTest's table, in its order."""
    kinds = (AverageBlur, GaussianBlur, MedianBlur, BilateralBlur)
    return Table(tuple(change for kind in kinds for change in kind.grid()))
