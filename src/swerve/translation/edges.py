"""How well a changed picture keeps the road: its edges, and the place that it takes."""

from __future__ import annotations

import cv2
import numpy as np

from swerve.core.values import Array

SKY = 0.4  # share of the rows at the top in which there is no road
BLUR = 3  # pixels: edges may move by about one


def edge_correlation(before: Array, after: Array) -> float:
    """The correlation of edge strengths of two pictures of one size below the horizon: 1 for the same, 0 for unrelated ones.

    A picture without any edge there correlates with nothing.
    """
    one, two = (_edges(pixels) for pixels in (before, after))
    spread = float(one.std() * two.std())
    return round(float(((one - one.mean()) * (two - two.mean())).mean()) / spread, 6) if spread > 0 else 0.0


def overlap(one: Array, two: Array) -> float | None:
    """Intersection over union of two masks; None where the first is empty, so that nothing can be lost."""
    return float((one & two).sum() / (one | two).sum()) if one.any() else None


def _edges(pixels: Array) -> Array:
    grey = cv2.cvtColor(pixels[round(len(pixels) * SKY) :], cv2.COLOR_RGB2GRAY)
    grey = cv2.GaussianBlur(grey, (BLUR, BLUR), 0)
    across, down = (cv2.Sobel(grey, cv2.CV_32F, *axis, ksize=3) for axis in ((1, 0), (0, 1)))
    strength: Array = np.sqrt(across**2 + down**2)
    return np.log1p(strength).astype(np.float64)  # at night edges are weak, but where they were
