"""Brightness and contrast, the linear group of DeepTest (DT-15, DT-16), and what every change to an image shares."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.transformation import ANYTHING, Transformation, param
from swerve.core.values import Array, Group, Image, Value

LEVELS = np.arange(256, dtype=np.uint8)


def images_of(case: Case) -> Iterator[Image]:
    """Every camera frame among the inputs of `case`, those of windows included."""
    return _images(case.inputs.values())


def _images(values: Iterable[Value]) -> Iterator[Image]:
    for value in values:
        if isinstance(value, Image):
            yield value
        elif isinstance(value, Group):
            yield from _images(value.values)


@dataclass(frozen=True)
class ImageChange(Transformation):
    """A change to what the camera sees: it needs an image, and leaves it untouched at its neutral numbers (R58)."""

    def applies(self, case: Case) -> str | None:
        """A reason when `case` has no image."""
        return "the case has no image to change" if next(images_of(case), None) is None else None

    def image(self, value: Image) -> Image:
        """The changed image."""
        return value if self._idle() or not value.pixels.size else Image(self._redraw(value.pixels))

    def _redraw(self, pixels: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} does not say how it changes pixels")

    def _idle(self) -> bool:
        declared = {f.name: f.metadata["param"] for f in dataclasses.fields(self) if "param" in f.metadata}
        return all(getattr(self, name) == facts.neutral for name, facts in declared.items())


def _looked_up(pixels: Array, levels: Array) -> Array:
    """Every pixel replaced by its entry in the 256 `levels`, rounded half to even and saturated.

    That is OpenCV's own `saturate_cast`; a table does it exactly, alike on every machine, in all three channels.
    """
    return np.asarray(cv2.LUT(pixels, _saturated(levels)))


def _saturated(levels: Array) -> Array:
    return np.clip(np.rint(levels), 0, 255).astype(np.uint8)


@dataclass(frozen=True)
class Brighten(ImageChange):
    """`beta` added to every pixel, saturating (DT-16)."""

    beta: float = param(-255, 255, neutral=0, grid=range(10, 101, 10), resolution=1)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "brightened by 40"."""
        return f"{'darkened' if self.beta < 0 else 'brightened'} by {abs(self.beta):g}"

    def _redraw(self, pixels: Array) -> Array:
        if not self.beta.is_integer():
            return _looked_up(pixels, np.arange(256) + self.beta)
        by: Any = (abs(self.beta),) * 3 + (0.0,)  # a colour, which OpenCV takes for an image and its stubs do not
        return np.asarray(cv2.add(pixels, by) if self.beta > 0 else cv2.subtract(pixels, by))


@dataclass(frozen=True)
class Contrast(ImageChange):
    """Every pixel multiplied by `alpha`, saturating (DT-15)."""

    alpha: float = param(0, 10, neutral=1, grid=[round(1.2 + 0.2 * i, 1) for i in range(10)])
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "contrast ×1.4"."""
        return f"contrast ×{self.alpha:g}"

    def _redraw(self, pixels: Array) -> Array:
        if _multiplied_exactly(self.alpha):
            return np.asarray(cv2.convertScaleAbs(pixels, alpha=self.alpha))
        return _looked_up(pixels, np.arange(256) * self.alpha)


@lru_cache(maxsize=256)
def _multiplied_exactly(alpha: float) -> bool:
    """OpenCV multiplies faster than it looks up, but in single precision: some gains it rounds otherwise."""
    return np.array_equal(cv2.convertScaleAbs(LEVELS, alpha=alpha).ravel(), _saturated(np.arange(256) * alpha))
