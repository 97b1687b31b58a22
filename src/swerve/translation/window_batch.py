"""Windows of labelled pictures as a painter sees them: tensors of classes, outlines and regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from swerve.translation.label_window import LabelWindow
from swerve.translation.translator import pictures_of

OWN_CLASS = 1 << 20  # numbers of instances are below; what is not an instance is one region for each class


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
