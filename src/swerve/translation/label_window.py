"""Square windows of labelled pictures around their objects, as a painter sees them: classes, outlines, regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from swerve.core.values import Array, Classes
from swerve.translation.translator import pictures_of

MARGIN = 0.35  # of an object's longer side, left around it
OWN_CLASS = 1 << 20  # numbers of instances are below; what is not an instance is one region for each class
UNLABELLED = "unlabelled"
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


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """Windows as tensors: pictures, layers of classes with outlines, and the region of every pixel, counted in the batch."""

    pictures: Tensor
    layers: Tensor
    regions: Tensor

    def maps(self, appearance: Tensor) -> Tensor:
        """The maps with an appearance for each region."""
        spread = appearance[self.regions].permute(0, 3, 1, 2)
        return torch.cat([self.layers, spread], 1)


def batch_of(windows: Sequence[LabelWindow], classes: int) -> WindowBatch:
    """Windows of one size as a batch; classes beyond those known are unlabelled."""
    pixels = torch.from_numpy(np.stack([one.pixels for one in windows]))
    labels = torch.from_numpy(np.stack([one.classes for one in windows])).long()
    labels = torch.where((labels >= 0) & (labels < classes), labels, 0)
    instances = torch.from_numpy(np.stack([one.instances for one in windows])).long()
    own = torch.where(instances > 0, instances, labels + OWN_CLASS)
    own = own + (torch.arange(len(windows))[:, None, None] << 32)
    layers = functional.one_hot(labels, classes).permute(0, 3, 1, 2).float()
    regions = torch.unique(own, return_inverse=True)[1]
    return WindowBatch(pictures_of(pixels), torch.cat([layers, outlines(own)], 1), regions)


def outlines(regions: Tensor) -> Tensor:
    """1 for every pixel with a neighbour of another region, batch x 1 x rows x columns."""
    edge = torch.zeros(regions.shape, dtype=torch.bool)
    down, across = regions[:, 1:] != regions[:, :-1], regions[:, :, 1:] != regions[:, :, :-1]
    edge[:, 1:] |= down
    edge[:, :-1] |= down
    edge[:, :, 1:] |= across
    edge[:, :, :-1] |= across
    return edge[:, None].float()
