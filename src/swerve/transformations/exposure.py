"""Over- and under-exposure: a shift of the HSL lightness or of the HSV value."""

# TG-9, TG-10, D-22

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np

from swerve.core.space import Table
from swerve.core.transformation import ANYTHING, param
from swerve.core.values import Array
from swerve.transformations.photometric import ImageChange

# The saturation of near-black and near-white pixels is camera noise; keeping it would produce garish colours. Above this
# chroma gain only the saturation is limited; lightness and hue stay exact.
MAX_GAIN = 3.0
STRIP = 64  # rows at a time, so that intermediate results stay in the processor's cache


@dataclass(frozen=True)
class _LightnessShift(ImageChange):
    """Lightness shifted within [0, 1]; hue is kept, and saturation unless that takes a chroma gain above 3."""

    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def _shift(self) -> float:
        raise NotImplementedError(f"{type(self).__name__} must define _shift")

    def _change_pixels(self, pixels: Array) -> Array:
        # With hue and saturation fixed, a channel c of a pixel of lightness L becomes L' + (c − L)·k, and both L' and
        # k = (1 − |2L' − 1|) / (1 − |2L − 1|) depend on max + min alone: a table of 511 entries is enough.
        lightness = np.arange(511, dtype=np.float64) / 510
        moved = np.clip(lightness + self._shift(), 0, 1)
        room = 1 - np.abs(2 * lightness - 1)
        gain = np.divide(1 - np.abs(2 * moved - 1), room, out=np.zeros(511), where=room > 0).clip(max=MAX_GAIN)
        table = (gain + 1j * 255 * (moved - lightness * gain)).astype(np.complex64)
        changed = np.empty(pixels.shape, dtype=np.uint8)
        for top in range(0, len(pixels), STRIP):
            _apply_gain_and_bias(pixels[top : top + STRIP], table, into=changed[top : top + STRIP])
        return changed


def _apply_gain_and_bias(pixels: Array, table: Array, *, into: Array) -> None:
    """Every channel times gain plus bias, both looked up in `table` at the sum of the largest and smallest channel.

    The gain is the real part of an entry and the bias the imaginary part, so one lookup finds both.
    """
    channels = cv2.split(pixels)
    smallest = cv2.min(cv2.min(*channels[:2]), channels[2])
    index: Array = np.asarray(cv2.add(_max_channel(channels), smallest, dtype=cv2.CV_16U))
    gains, biases = cv2.split(np.take(table, index).view(np.float32).reshape(*index.shape, 2))
    grown = (cv2.multiply(channel, gains, dtype=cv2.CV_32F) for channel in channels)
    cv2.merge([cv2.add(channel, biases, dtype=cv2.CV_8U) for channel in grown], dst=into)


def _max_channel(channels: Sequence[Array]) -> Array:
    return np.asarray(cv2.max(cv2.max(*channels[:2]), channels[2]))


@dataclass(frozen=True)
class OverExpose(_LightnessShift):
    """Lightness raised by `by`, on a scale of 0 to 1."""

    # TG-9: +0.4
    by: float = param(0, 1, neutral=0, grid=(0.1, 0.2, 0.3, 0.4, 0.5), resolution=0.01, default=0.4)

    def words(self) -> str:
        """Such as "over-exposed by 0.4"."""
        return f"over-exposed by {self.by:g}"

    def _shift(self) -> float:
        return self.by


@dataclass(frozen=True)
class UnderExpose(_LightnessShift):
    """Lightness lowered by `by`, on a scale of 0 to 1."""

    # TG-10, D-22: −0.1, which darkens
    by: float = param(0, 1, neutral=0, grid=(0.1, 0.2, 0.3, 0.4, 0.5), resolution=0.01, default=0.1)

    def words(self) -> str:
        """Such as "under-exposed by 0.1"."""
        return f"under-exposed by {self.by:g}"

    def _shift(self) -> float:
        return -self.by


@dataclass(frozen=True)
class RaiseValue(ImageChange):
    """The HSV value raised by `by`: TigAug's exposure changes as its library computes them."""

    # D-22b
    by: float = param(-1, 1, neutral=0, grid=(0.1, 0.2, 0.3, 0.4, 0.5), resolution=0.01)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "HSV value +0.1"."""
        return f"HSV value {self.by:+g}"

    def _change_pixels(self, pixels: Array) -> Array:
        # All channels keep their ratio to the largest; black, which has no ratio, becomes grey.
        levels = np.arange(256, dtype=np.float64)
        moved = np.clip(levels + 255 * self.by, 0, 255)
        gain = np.divide(moved, levels, out=np.zeros(256), where=levels > 0).astype(np.float32)
        grey = np.where(levels > 0, 0, np.rint(moved)).astype(np.uint8)
        channels = cv2.split(pixels)
        largest = _max_channel(channels)
        gains, greys = cv2.LUT(largest, gain), cv2.LUT(largest, grey)
        return np.asarray(cv2.merge([cv2.add(cv2.multiply(c, gains, dtype=cv2.CV_8U), greys) for c in channels]))


@dataclass(frozen=True)
class AutoLevels(ImageChange):
    """Brightness and contrast set automatically: each channel stretched until shares of `cut` are black and white."""

    # TG-8: what the authors do before they add a flare
    cut: float = param(0, 0.2, neutral=0, resolution=0.001, default=0.005)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        """Such as "levels set automatically, 0.5% cut off"."""
        return f"levels set automatically, {self.cut:.1%} cut off"

    def _change_pixels(self, pixels: Array) -> Array:
        return np.asarray(cv2.merge([self._stretched(channel) for channel in cv2.split(pixels)]))

    def _stretched(self, channel: Array) -> Array:
        shares = np.cumsum(np.bincount(channel.ravel(), minlength=256)) / channel.size
        low, high = int(np.searchsorted(shares, self.cut)), int(np.searchsorted(shares, 1 - self.cut))
        if high <= low:
            return channel
        levels = np.clip((np.arange(256) - low) * (255 / (high - low)), 0, 255)
        return np.asarray(cv2.LUT(channel, np.rint(levels).astype(np.uint8)))


def exposures() -> Table:
    """TigAug's over-exposure (severity 4) and under-exposure (severity 1) as lightness shifts."""
    return Table((OverExpose(0.4), UnderExpose(0.1)))
