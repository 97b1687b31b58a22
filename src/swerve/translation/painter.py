"""The networks of pix2pixHD (Wang et al., CVPR 2018), in any width: pictures from maps of classes and outlines.

A coarse generator draws at half the size; an enhancer adds what is finer. An encoder describes how each object of a real
picture looks by a few numbers, its appearance, so that one map has many pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from swerve.core.arguments import check_whole
from swerve.translation.blocks import ResidualBlock, convolution

HALVINGS = 3  # of the coarse generator; four in the paper, whose pictures are larger
ENCODED = 2  # halvings of the encoder of appearance
STEP = 2 ** (HALVINGS + 1)  # sides of pictures are multiples of it


@dataclass(frozen=True)
class PainterDesign:
    """The size of a painter.

    Args:
        classes: of the pixels of a map, the unlabelled ones included.
        width: channels of the first convolution; 64 is that of the paper.
        residuals: residual blocks of the coarse generator; 9 in the paper.
        finer: residual blocks of the enhancer; 3 in the paper.
        appearance: numbers that describe how an object looks; 3 in the paper.
    """

    classes: int
    width: int = 16
    residuals: int = 4
    finer: int = 1
    appearance: int = 3

    def __post_init__(self) -> None:
        for name in ("classes", "width", "residuals", "finer", "appearance"):
            check_whole(name, getattr(self, name), 1)

    @property
    def inputs(self) -> int:
        """Channels of a map: a layer for each class, the outlines of objects, and the appearance."""
        return self.classes + 1 + self.appearance


def _narrowed(into: int, out: int, size: int = 3, stride: int = 1) -> list[nn.Module]:
    return [convolution(into, out, size, stride), nn.InstanceNorm2d(out), nn.ReLU()]


def _widened(into: int, out: int) -> list[nn.Module]:
    return [nn.Upsample(scale_factor=2), *_narrowed(into, out)]


class CoarseGenerator(nn.Module):
    """From a map at half the size to what the enhancer goes on with, and to a picture of that size."""

    def __init__(self, design: PainterDesign) -> None:
        super().__init__()
        width = design.width
        parts = _narrowed(design.inputs, width, 5)
        for _ in range(HALVINGS):
            parts += _narrowed(width, 2 * width, 3, 2)
            width *= 2
        parts += [ResidualBlock(width) for _ in range(design.residuals)]
        for _ in range(HALVINGS):
            parts += _widened(width, width // 2)
            width //= 2
        self.body, self.last = nn.Sequential(*parts), convolution(width, 3, 5)

    def forward(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """The last features, and the picture they are."""
        features = self.body(maps)
        return features, torch.tanh(self.last(features))


class Painter(nn.Module):
    """Pictures with levels from -1 to 1 from maps: the coarse generator, and its enhancer at full size."""

    def __init__(self, design: PainterDesign) -> None:
        super().__init__()
        self.design, width = design, design.width
        half = max(1, width // 2)
        self.coarse = CoarseGenerator(design)
        self.first = nn.Sequential(*_narrowed(design.inputs, half, 5), *_narrowed(half, width, 3, 2))
        rest = [ResidualBlock(width) for _ in range(design.finer)]
        self.rest = nn.Sequential(*rest, *_widened(width, half), convolution(half, 3, 5))
        self.encoder = AppearanceEncoder(design)

    def forward(self, maps: Tensor) -> Tensor:
        """The pictures."""
        features, _ = self.coarse(functional.avg_pool2d(maps, 2))
        return torch.tanh(self.rest(self.first(maps) + features))

    def small(self, maps: Tensor) -> Tensor:
        """The pictures at half the size, by the coarse generator alone."""
        drawn: Tensor = self.coarse(functional.avg_pool2d(maps, 2))[1]
        return drawn


class AppearanceEncoder(nn.Module):
    """From pictures to the appearance of each of their objects: features, averaged over the pixels of each."""

    def __init__(self, design: PainterDesign) -> None:
        super().__init__()
        width = design.width
        parts = _narrowed(3, width, 5)
        for _ in range(ENCODED):
            parts += _narrowed(width, 2 * width, 3, 2)
            width *= 2
        for _ in range(ENCODED):
            parts += _widened(width, width // 2)
            width //= 2
        self.body = nn.Sequential(*parts, convolution(width, design.appearance, 5), nn.Tanh())

    def forward(self, pictures: Tensor, regions: Tensor) -> Tensor:
        """The appearance of every region, rows of numbers: `regions` has the row of each pixel, batch x rows x columns."""
        found = self.body(pictures).permute(0, 2, 3, 1).reshape(-1, self.design_numbers)
        return region_means(found, regions.reshape(-1))

    @property
    def design_numbers(self) -> int:
        """How many numbers describe a region."""
        last = self.body[-2]
        assert isinstance(last, nn.Conv2d)
        return last.out_channels


def region_means(rows: Tensor, region: Tensor) -> Tensor:
    """The mean of the rows of each region; `region` counts from 0 without gaps."""
    count = int(region.max()) + 1
    total = rows.new_zeros(count, rows.shape[1]).index_add(0, region, rows)
    pixels = rows.new_zeros(count).index_add(0, region, rows.new_ones(len(rows)))
    return total / pixels.clamp(min=1)[:, None]


class FeatureCritic(nn.Module):
    """Discriminators of a map with its picture at several scales; they also give what they found on the way.

    Args:
        inputs: channels of a map and a picture together.
        width: channels of the first convolution; 64 in the paper.
        scales: pictures are judged at that many sizes, each half of the one before; 3 in the paper.
    """

    def __init__(self, inputs: int, width: int = 24, scales: int = 2, *, depth: int = 3) -> None:
        super().__init__()
        self.scales = nn.ModuleList(_judge(inputs, width, depth) for _ in range(scales))

    def forward(self, pairs: Tensor) -> list[list[Tensor]]:
        """For every scale the features of each layer, and last how real each place looks: 1 for real, 0 for painted."""
        found = []
        for judge in self.scales:
            assert isinstance(judge, nn.ModuleList)
            layers, now = [], pairs
            for layer in judge:
                now = layer(now)
                layers.append(now)
            found.append(layers)
            pairs = functional.avg_pool2d(pairs, 3, 2, 1, count_include_pad=False)
        return found


def _judge(into: int, width: int, depth: int) -> nn.ModuleList:
    layers: list[nn.Module] = []
    for number in range(depth):
        norm: list[nn.Module] = [nn.InstanceNorm2d(width)] if number else []
        layers.append(nn.Sequential(convolution(into, width, 4, 2), *norm, nn.LeakyReLU(0.2)))
        into, width = width, min(2 * width, 8 * 64)
    return nn.ModuleList([*layers, nn.Conv2d(into, 1, 3, 1, 1)])
