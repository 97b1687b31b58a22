"""DeepTest's four blurs, ten values in all, and motion blur."""

# DT-17: one row of its table; TG-11

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import cv2
import numpy as np

from swerve.core.space import Over, Range, Table
from swerve.core.transformation import ANYTHING, param
from swerve.core.values import Array
from swerve.transformations.photometric import ImageChange

FOURIER_SIZE = 130  # kernel entries from which OpenCV filters bytes by Fourier transform, even if most entries are zero
FIXED_POINT = 64  # fractions of a grey level that fit into a 16-bit sum


def _size_param(*grid: int, high: int = 99, step: int = 1) -> Any:
    return param(1, high, neutral=1, grid=grid, resolution=1, unit=" px", step=step)


@dataclass(frozen=True)
class AverageBlur(ImageChange):
    """The mean of `size` × `size` pixels; an even window extends one pixel further left and up than right and down."""

    size: int = _size_param(3, 4, 5, 6)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "blurred by a 4×4 average"."""
        return f"blurred by a {self.size}×{self.size} average"

    def _change_pixels(self, pixels: Array) -> Array:
        return np.asarray(cv2.blur(pixels, (self.size, self.size)))


@dataclass(frozen=True)
class GaussianBlur(ImageChange):
    """OpenCV's Gaussian over `size` × `size` pixels, with the kernel that OpenCV derives from the size."""

    # D-8: the paper's table has 3×3 twice, so three values remain.
    size: int = _size_param(3, 5, 7, step=2)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "blurred by a 5×5 Gaussian"."""
        return f"blurred by a {self.size}×{self.size} Gaussian"

    def _change_pixels(self, pixels: Array) -> Array:
        # DT-17: the call of DeepTest's authors. A sigma of 0 selects OpenCV's fixed tables for 3, 5 and 7 pixels, which are
        # not the Gaussians of the sigma that its formula gives for these sizes.
        return np.asarray(cv2.GaussianBlur(pixels, (self.size, self.size), 0))


@dataclass(frozen=True)
class MedianBlur(ImageChange):
    """The median of `size` × `size` pixels, each channel by itself."""

    size: int = _size_param(3, 5, step=2)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "blurred by a 3×3 median"."""
        return f"blurred by a {self.size}×{self.size} median"

    def _change_pixels(self, pixels: Array) -> Array:
        return np.asarray(cv2.medianBlur(pixels, self.size))


@dataclass(frozen=True)
class BilateralBlur(ImageChange):
    """An edge-preserving blur: weights fall with distance and with colour difference; OpenCV rounds `diameter` up to odd."""

    diameter: int = _size_param(9, high=25)
    sigma_color: float = param(0, 255, neutral=0, grid=(75,), resolution=1)
    sigma_space: float = param(0, 255, neutral=0, grid=(75,), resolution=1)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "blurred by a 9 px bilateral filter (75, 75)"."""
        return f"blurred by a {self.diameter} px bilateral filter ({self.sigma_color:g}, {self.sigma_space:g})"

    def _change_pixels(self, pixels: Array) -> Array:
        return np.asarray(cv2.bilateralFilter(pixels, self.diameter, self.sigma_color, self.sigma_space))

    def _is_neutral(self) -> bool:
        # OpenCV treats a diameter of 1 as 3 and a sigma of 0 as 1; in the limit each of them alone changes nothing.
        return self.diameter == 1 or self.sigma_color == 0 or self.sigma_space == 0


@dataclass(frozen=True)
class MotionBlur(ImageChange):
    """The mean along a line of `size` pixels; `angle` counter-clockwise as displayed, 0 is horizontal."""

    # TG-11, D-22d
    size: int = param(1, 99, neutral=1, grid=(15,), resolution=1, unit=" px", default=15)
    angle: float = param(0, 180, neutral=0, resolution=1, unit="°", graded=False, default=0.0)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "blurred along 15 px at 30°"."""
        return f"blurred along {self.size} px at {self.angle:g}°"

    def _is_neutral(self) -> bool:
        return self.size == 1

    def _change_pixels(self, pixels: Array) -> Array:
        kernel = line_kernel(self.size, self.angle)
        if 1 in kernel.shape and self.size % 2:
            return np.asarray(cv2.blur(pixels, kernel.shape[::-1]))
        return _filter(pixels, kernel)


def _filter(pixels: Array, kernel: Array) -> Array:
    """`pixels` filtered by `kernel`, in two halves if that keeps OpenCV from using a Fourier transform."""
    middle = kernel.shape[0] // 2
    upper, lower = kernel[: middle + 1], np.vstack([0 * kernel[:1], kernel[middle + 1 :]])
    if kernel.size < FOURIER_SIZE or upper.size >= FOURIER_SIZE:
        return np.asarray(cv2.filter2D(pixels, -1, kernel))
    above = cv2.filter2D(pixels, cv2.CV_16S, upper * FIXED_POINT, anchor=(-1, middle))
    below = cv2.filter2D(pixels, cv2.CV_16S, lower * FIXED_POINT, anchor=(-1, 0))
    return np.asarray(cv2.convertScaleAbs(cv2.add(above, below), alpha=1 / FIXED_POINT))


@lru_cache(maxsize=64)
def line_kernel(size: int, angle: float) -> Array:
    """The weights of a line of `size` pixels through the middle: they sum to 1, and a turn by 180° does not change them.

    Empty rows and columns are cropped: OpenCV skips the zeros of a small kernel.
    """
    reach = size // 2
    across = np.arange(-reach, reach + 1, dtype=np.float64)
    down = across[:, None]
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    along, aside = across * cos - down * sin, across * sin + down * cos
    # A rotated row of pixels, interpolated linearly: its ends and sides fade over one pixel.
    kernel = np.clip((size + 1) / 2 - np.abs(along), 0, 1) * np.clip(1 - np.abs(aside), 0, 1)
    kernel[kernel < 1e-6] = 0
    rows, columns = kernel.any(axis=1), kernel.any(axis=0)
    weights: Array = (kernel[rows][:, columns] / kernel.sum()).astype(np.float32)
    weights.flags.writeable = False
    return weights


def motion_blur() -> Over:
    """Motion blur as in TigAug: 15 pixels, at any angle."""
    # TG-11, D-22d
    return Over(MotionBlur, size=15, angle=Range(0, 180))


def blurs() -> Table:
    """The ten blurs of DeepTest's table, in its order."""
    kinds = (AverageBlur, GaussianBlur, MedianBlur, BilateralBlur)
    return Table(tuple(change for kind in kinds for change in kind.grid()))
