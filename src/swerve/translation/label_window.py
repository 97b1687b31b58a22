"""Square windows of labelled pictures around their objects: colours, classes and objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.values import Array, Classes

MARGIN = 0.35  # of an object's longer side, left around it
UNLABELLED = "unlabelled"
OWN = -1  # the look of an object as the picture shows it: the control
Span = tuple[int, int, int, int]


@dataclass(frozen=True)
class Square:
    """A square of a picture, which may reach beyond it."""

    left: int
    top: int
    side: int

    def read(self, array: Array, *, border: int = cv2.BORDER_CONSTANT) -> Array:
        """The part of an array in the square; what lies beyond it is 0, or as `border` says."""
        height, width = array.shape[:2]
        right, bottom = self.left + self.side, self.top + self.side
        inner = array[max(self.top, 0) : max(min(bottom, height), 0), max(self.left, 0) : max(min(right, width), 0)]
        beyond = (max(-self.top, 0), max(bottom - height, 0), max(-self.left, 0), max(right - width, 0))
        return np.asarray(cv2.copyMakeBorder(inner, *beyond, borderType=border, value=0))


def square_around(span: Span) -> Square:
    """The square around an object with a margin."""
    left, top, right, bottom = span
    side = max(8, round(max(right - left, bottom - top) * (1 + 2 * MARGIN)))
    return Square((left + right - side) // 2, (top + bottom - side) // 2, side)


@dataclass(frozen=True, eq=False)
class LabelWindow:
    """A square window of a labelled picture: for each pixel its colour, its class and its object (0: none)."""

    pixels: Array
    classes: Array
    instances: Array


def window(pixels: Array, classes: Array, instances: Array, square: Square, side: int) -> LabelWindow:
    """A window of a picture in the size of `side` pixels."""
    colours = square.read(pixels, border=cv2.BORDER_REPLICATE)
    way = cv2.INTER_AREA if square.side > side else cv2.INTER_LINEAR
    size = (side, side)
    parts = (square.read(part.astype(np.int32)) for part in (classes, instances))
    labels = [cv2.resize(part, size, interpolation=cv2.INTER_NEAREST_EXACT) for part in parts]
    return LabelWindow(np.asarray(cv2.resize(colours, size, interpolation=way)), *labels)


def renumbered(labelled: Classes, names: Sequence[str]) -> Array:
    """The classes of a picture as their places in `names`; those that are not there are unlabelled, which is the first."""
    place = {name: number for number, name in enumerate(names)}
    table = np.zeros(max(int(labelled.numbers.max(initial=0)), *labelled.names, 0) + 1, np.int32)
    for number, name in labelled.names.items():
        if number >= 0:
            table[number] = place.get(name, 0)
    return np.asarray(table[np.clip(labelled.numbers, 0, None)])
