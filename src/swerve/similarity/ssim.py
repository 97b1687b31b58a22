"""Structural similarity of two pictures: SSIM, and MS-SSIM over several sizes; 1 for equal ones."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.values import Array

WINDOW, SPREAD = 11, 1.5  # pixels: the Gaussian window of Wang et al. (2004)
C1, C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)  # Wang et al. (2003)


def _blurred(values: Array) -> Array:
    # Without a border: only windows that lie inside count.
    half = WINDOW // 2
    return np.asarray(cv2.GaussianBlur(values, (WINDOW, WINDOW), SPREAD)[half:-half, half:-half])


def _parts(first: Array, second: Array) -> tuple[float, float]:
    """The mean of luminance times contrast and structure, and of contrast and structure alone."""
    one, other = _blurred(first), _blurred(second)
    spread_one, spread_other = _blurred(first * first) - one**2, _blurred(second * second) - other**2
    together = _blurred(first * second) - one * other
    structure = (2 * together + C2) / (spread_one + spread_other + C2)
    light = (2 * one * other + C1) / (one**2 + other**2 + C1)
    return float((light * structure).mean()), float(structure.mean())


def _grey(pixels: Array) -> Array:
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float64))


@dataclass(frozen=True)
class Ssim:
    """The structural similarity of the grey levels of two pictures of at least 11 x 11 pixels."""

    @property
    def name(self) -> str:
        """The name to print."""
        return "SSIM"

    def __call__(self, first: Array, second: Array) -> float:
        """1 for equal pictures, about 0 for unrelated ones."""
        _check(first, second)
        return _parts(_grey(first), _grey(second))[0]


@dataclass(frozen=True)
class MsSsim:
    """The same over five sizes, each half as large as the one before; over fewer in pictures below 176 pixels."""

    @property
    def name(self) -> str:
        """The name to print."""
        return "MS-SSIM"

    def __call__(self, first: Array, second: Array) -> float:
        """1 for equal pictures, about 0 for unrelated ones."""
        _check(first, second)
        one, other = _grey(first), _grey(second)
        levels = [level for level in range(len(WEIGHTS)) if min(one.shape) >> level >= WINDOW]
        total, found = sum(WEIGHTS[: len(levels)]), 1.0
        for level in levels:
            whole, structure = _parts(one, other)
            part = whole if level == levels[-1] else structure
            found *= max(part, 0.0) ** (WEIGHTS[level] / total)
            one, other = (cv2.resize(side, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) for side in (one, other))
        return found


def _check(first: Array, second: Array) -> None:
    if first.shape != second.shape:
        raise ValueError(f"pictures must have one size to be compared, got {first.shape[:2]} and {second.shape[:2]}")
    if min(first.shape[:2]) < WINDOW:
        raise ValueError(f"pictures must have at least {WINDOW} x {WINDOW} pixels to be compared, got {first.shape[:2]}")
