"""What the four light detectors share: backbone, pyramid, and the way from raw boxes to an answer.

All return losses in training and detections otherwise, as `swerve.train.detectors` describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from swerve.systems.detector import suppress_overlaps
from swerve.train.labelled_pictures import FIRST, Target
from swerve.zoo.networks import Normalised

STRIDES = (4, 8, 16)
WIDTHS = (40, 64, 64)  # channels of each level of the pyramid
LEAST, OVERLAP, MOST, COMPARED = 0.01, 0.6, 100, 1000  # score, IoU and number of boxes that are returned or compared
RARE = 0.01  # the probability of a head that an untrained network answers everywhere


def conv(into: int, out: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    """A normalised convolution with its activation."""
    layer = nn.Conv2d(into, out, size, stride, size // 2, bias=False)
    return nn.Sequential(Normalised(layer), nn.ReLU(inplace=True))


class Residual(nn.Module):
    """Two convolutions whose output is added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = conv(width, width // 2, 1), conv(width // 2, width)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps of the same shape."""
        added: Tensor = maps + self.second(self.first(maps))
        return added


class Pyramid(nn.Module):
    """Maps of 1/4, 1/8 and 1/16 of the picture's size, each of which sees the coarser ones."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), Residual(32), Residual(32))
        self.middle = nn.Sequential(conv(32, 64, 3, 2), *(Residual(64) for _ in range(3)))
        self.coarse = nn.Sequential(conv(64, 128, 3, 2), *(Residual(128) for _ in range(3)))
        self.context, self.top = conv(3 * 128, 128, 1), conv(128, WIDTHS[2], 1)
        self.across = nn.ModuleList([conv(32, WIDTHS[0], 1), conv(64, WIDTHS[1], 1)])
        self.narrow = conv(WIDTHS[1], WIDTHS[0], 1)
        self.merged = nn.ModuleList([conv(WIDTHS[0], WIDTHS[0]), conv(WIDTHS[1], WIDTHS[1])])

    def forward(self, images: Tensor) -> list[Tensor]:
        """The maps, finest first."""
        fine = self.fine(images)
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        pooled = [functional.max_pool2d(coarse, size, 1, size // 2) for size in (5, 13)]
        top = self.top(self.context(torch.cat([coarse, *pooled], 1)))
        second = self.merged[1](self.across[1](middle) + _doubled(top))
        first = self.merged[0](self.across[0](fine) + _doubled(self.narrow(second)))
        return [first, second, top]


def _doubled(maps: Tensor) -> Tensor:
    return functional.interpolate(maps, scale_factor=2.0, mode="nearest")


class LightNet(nn.Module):
    """A detector on the pyramid: a subclass has the heads, their losses, and the boxes that they propose."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.kinds = kinds
        self.pyramid = Pyramid()

    def forward(self, images: Tensor | Sequence[Tensor], targets: Sequence[Target] | None = None) -> Any:
        """Losses by name for images with targets in training mode; otherwise boxes, labels and scores of each image."""
        batch = images if isinstance(images, Tensor) else torch.stack(list(images))
        high, wide = batch.shape[-2:]
        maps = self.pyramid(padded(batch))
        if self.training and targets is not None:
            return self.losses(maps, targets)
        boxes, scores = self.candidates(maps)
        return [detections(*pair, (wide, high)) for pair in zip(boxes, scores, strict=True)]

    def losses(self, maps: list[Tensor], targets: Sequence[Target]) -> dict[str, Tensor]:
        """The losses of a batch, by name."""
        raise NotImplementedError

    def candidates(self, maps: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The boxes of each image in pixels, and their scores for each kind."""
        raise NotImplementedError


def padded(images: Tensor) -> Tensor:
    """The images with rows and columns added so that every stride divides their size, channels last in memory."""
    high, wide = images.shape[-2:]
    grown = functional.pad(images, (0, -wide % STRIDES[-1], 0, -high % STRIDES[-1]))
    return grown.contiguous(memory_format=torch.channels_last)


def rows(maps: Tensor, wide: int) -> Tensor:
    """Maps of a head as images x predictions x `wide`, in single precision; those of one cell follow each other."""
    return maps.float().movedim(1, -1).reshape(len(maps), -1, wide)


def cell_centres(maps: Tensor, stride: int) -> Tensor:
    """The centre of each cell in pixels, row by row."""
    high, wide = maps.shape[-2:]
    y, x = torch.meshgrid(torch.arange(high) + 0.5, torch.arange(wide) + 0.5, indexing="ij")
    return torch.stack([x, y], -1).reshape(-1, 2) * stride


def detections(boxes: Tensor, scores: Tensor, size: tuple[int, int]) -> dict[str, Tensor]:
    """The boxes of one image that remain when worse ones that overlap a better one of their kind are dropped."""
    best, place = scores.flatten().topk(min(COMPARED, scores.numel()))
    place = place[best > LEAST]
    row, kind = place // scores.shape[1], place % scores.shape[1]
    wide, high = size
    shown = torch.minimum(boxes[row].clamp(min=0), boxes.new_tensor([wide, high, wide, high]))
    whole = ((shown[:, 2:] - shown[:, :2]) > 0).all(-1)
    shown, row, kind = shown[whole], row[whole], kind[whole]
    found = scores[row, kind]
    corners, likely = shown.detach().double().numpy(), found.detach().double().numpy()
    kept = torch.from_numpy(suppress_overlaps(corners, likely, kind.numpy(), iou=OVERLAP, most=MOST))
    return {"boxes": shown[kept], "labels": kind[kept] + FIRST, "scores": found[kept]}
