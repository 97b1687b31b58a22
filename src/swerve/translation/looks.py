"""How pictures look: colour and contrast place by place, in which two sets of pictures can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from swerve.core.values import Array

CELLS = (16, 9)  # in which the look of pictures is compared


def look_distance(one: Sequence[Array] | Array, two: Sequence[Array] | Array) -> float:
    """How far two sets of pictures are apart in colour and contrast, place by place; 0 for sets that look alike.

    The mean distance between the distributions (Wasserstein's, in shares of the levels) of each number in each cell.
    """
    shares = np.linspace(0, 1, 21)
    first, second = (np.quantile(looks(pixels), shares, axis=0) for pixels in (one, two))
    return float(np.abs(first - second).mean())


def looks(pictures: Sequence[Array] | Array) -> Array:
    """Mean colour and contrast of every cell, pictures x numbers."""
    rows = []
    for picture in pictures:
        levels = picture.astype(np.float32) / 255
        mean = cv2.resize(levels, CELLS, interpolation=cv2.INTER_AREA)
        square = cv2.resize(levels**2, CELLS, interpolation=cv2.INTER_AREA)
        deviation = np.sqrt(np.maximum(square - mean**2, 0)).mean(2, keepdims=True)
        rows.append(np.concatenate([mean, deviation], 2).ravel())
    return np.stack(rows)


def most_alike(pictures: Sequence[Array], others: Mapping[str, Sequence[Array]]) -> tuple[str, float]:
    """The name of the pictures of the same places that look most like these, and how far they are: the mean difference."""
    ours = looks(pictures)
    apart = {name: float(np.abs(looks(theirs) - ours).mean()) for name, theirs in others.items()}
    nearest = min(apart, key=lambda name: apart[name])
    return nearest, apart[nearest]
