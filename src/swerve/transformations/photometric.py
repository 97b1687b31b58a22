"""The base of all image changes, and DeepTest's brightness and contrast."""

# DT-15, DT-16

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

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
    """A change to the camera image: it needs one, and returns it unchanged at its neutral parameter values."""

    # R58
    def applies(self, case: Case) -> str | None:
        """Why it does not apply (`case` has no image), or None."""
        return "the case has no image to change" if next(images_of(case), None) is None else None

    def image(self, value: Image) -> Image:
        """The changed image."""
        return value if self._is_neutral() or not value.pixels.size else Image(self._change_pixels(value.pixels))

    def _change_pixels(self, pixels: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _change_pixels")

    def _is_neutral(self) -> bool:
        declared = {f.name: f.metadata["param"] for f in dataclasses.fields(self) if "param" in f.metadata}
        return all(getattr(self, name) == facts.neutral for name, facts in declared.items())


def _apply_table(pixels: Array, levels: Array) -> Array:
    """Every pixel replaced by its entry in the 256 `levels`, rounded half to even and saturated.

    This is OpenCV's `saturate_cast`; a table computes it exactly, identically on every machine.
    """
    return np.asarray(cv2.LUT(pixels, _saturate(levels)))


def _saturate(levels: Array) -> Array:
    return np.clip(np.rint(levels), 0, 255).astype(np.uint8)


@dataclass(frozen=True)
class Brighten(ImageChange):
    """`beta` added to every pixel, saturating."""

    # DT-16
    beta: float = param(-255, 255, neutral=0, grid=range(10, 101, 10), resolution=1)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "brightened by 40"."""
        return f"{'darkened' if self.beta < 0 else 'brightened'} by {abs(self.beta):g}"

    def _change_pixels(self, pixels: Array) -> Array:
        if not self.beta.is_integer():
            return _apply_table(pixels, np.arange(256) + self.beta)
        flat, by = pixels.reshape(len(pixels), -1), abs(self.beta)  # one channel is faster than three
        changed = cv2.add(flat, by) if self.beta > 0 else cv2.subtract(flat, by)  # type: ignore[call-overload]
        return np.asarray(changed).reshape(pixels.shape)


@dataclass(frozen=True)
class Contrast(ImageChange):
    """Every pixel multiplied by `alpha`, saturating."""

    # DT-15
    alpha: float = param(0, 10, neutral=1, grid=[round(1.2 + 0.2 * i, 1) for i in range(10)])
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "contrast ×1.4"."""
        return f"contrast ×{self.alpha:g}"

    def _change_pixels(self, pixels: Array) -> Array:
        if _rounds_exactly(self.alpha):
            return np.asarray(cv2.convertScaleAbs(pixels, alpha=self.alpha))
        return _apply_table(pixels, np.arange(256) * self.alpha)


@lru_cache(maxsize=256)
def _rounds_exactly(alpha: float) -> bool:
    """Whether OpenCV's multiplication, which is faster than a table but in single precision, rounds every level right."""
    return np.array_equal(cv2.convertScaleAbs(LEVELS, alpha=alpha).ravel(), _saturate(np.arange(256) * alpha))
