"""Anchors: boxes of usual sizes at every cell, upright and lying as heads are, and which of them match a wanted box."""

from __future__ import annotations

import torch
from torch import Tensor

from swerve.zoo.lights.box_maths import around, ious
from swerve.zoo.lights.light_network import STRIDES, cell_centres

SHORT = ((8.0, 12.0), (17.0, 25.0), (36.0, 54.0))  # pixels: the short sides of each level
ASPECT = 2.6  # of a head with three lamps
PER_CELL = 4
BACKGROUND, UNDECIDED = -1, -2  # in place of the number of a wanted box


def shapes(level: int) -> Tensor:
    """Width and height of the anchors of one level: upright and lying ones of each size."""
    pairs = [(side, side * ASPECT) for side in SHORT[level]]
    return torch.tensor([shape for wide, high in pairs for shape in ((wide, high), (high, wide))])


def anchors_of(maps: list[Tensor]) -> Tensor:
    """The anchors of all levels; those of one cell follow each other, as in `rows`."""
    found = []
    for level, (part, stride) in enumerate(zip(maps, STRIDES, strict=True)):
        middle = cell_centres(part, stride)[:, None].expand(-1, PER_CELL, -1)
        found.append(around(middle, shapes(level).expand(len(middle), -1, -1)).reshape(-1, 4))
    return torch.cat(found)


@torch.no_grad()
def matched(anchors: Tensor, wanted: Tensor, *, least: float, below: float) -> Tensor:
    """The number of the wanted box of each anchor: the one that it overlaps most, if the IoU is at least `least`.

    An anchor with less than `below` is `BACKGROUND`, one between `UNDECIDED`. Every wanted box also gets the anchor that
    overlaps it most.
    """
    if not len(wanted):
        return torch.full((len(anchors),), BACKGROUND)
    overlap = ious(anchors[:, None], wanted)
    most, box = overlap.max(1)
    found = torch.where(most >= least, box, torch.where(most < below, BACKGROUND, UNDECIDED))
    best, anchor = overlap.max(0)
    shown = best > 0
    found[anchor[shown]] = torch.arange(len(wanted))[shown]
    return found
