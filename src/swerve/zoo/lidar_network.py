"""The network on the bird's-eye grid of a sweep: an encoder and a decoder with several heads, like Apollo's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

import torch
from torch import Tensor, nn

from swerve.core.arguments import check_known
from swerve.zoo.clusters import KINDS, Cells
from swerve.zoo.grid import CHANNELS, FILLED
from swerve.zoo.networks import Normalised

WIDENING = (1.0, 1.5, 2.5, 4.0, 5.0)  # of the width, level by level
GROUPS = 4
HEADS: Mapping[str, slice] = MappingProxyType(
    {
        "category": slice(0, 1),
        "offset": slice(1, 3),
        "confidence": slice(3, 4),
        "kind": slice(4, 4 + len(KINDS)),
        "heading": slice(4 + len(KINDS), 6 + len(KINDS)),
        "height": slice(6 + len(KINDS), 7 + len(KINDS)),
    }
)
OUTPUTS = HEADS["height"].stop
COARSEST = 2 ** (len(WIDENING) - 1)  # cells of the grid to a cell of the lowest level
RARELY = -3.0  # initial bias of the category: few cells hold an obstacle


def _grouped(convolution: nn.Conv2d) -> nn.Module:
    """A convolution normalised over the whole frame, which couples every cell to every other one."""
    return nn.Sequential(convolution, nn.GroupNorm(GROUPS, convolution.out_channels))


def _plain(convolution: nn.Conv2d) -> nn.Module:
    return convolution


NORMS: Mapping[str, Callable[[nn.Conv2d], nn.Module]] = MappingProxyType(
    {"none": _plain, "batch": Normalised, "group": _grouped}
)


class BirdNet(nn.Module):
    """Five levels down and up again over the grid of a sweep; `HEADS` gives the outputs of each head.

    `norm` is `batch` in training and `none` once it is folded into the convolutions, both local; or `group`, which couples
    all cells of a frame. The grid's side must be a multiple of `COARSEST`.
    """

    def __init__(self, norm: str = "none", width: int = 16) -> None:
        super().__init__()
        check_known("norm", norm, NORMS)
        widths = [round(width * factor / GROUPS) * GROUPS for factor in WIDENING]
        make = NORMS[norm]
        self.down = nn.ModuleList([_blocks(make, len(CHANNELS), widths[0])])
        for level in range(1, len(widths)):
            deepest = level == len(widths) - 1
            self.down.append(_blocks(make, *widths[level - 1 : level + 1], *[widths[level]] * (1 + deepest), stride=2))
        levels = range(len(widths) - 2, -1, -1)
        self.up = nn.ModuleList([nn.ConvTranspose2d(widths[level + 1], widths[level], 2, 2) for level in levels])
        self.merge = nn.ModuleList([_blocks(make, 2 * widths[level], widths[level]) for level in levels])
        self.head = nn.Conv2d(widths[0], OUTPUTS, 1)
        with torch.no_grad():
            assert self.head.bias is not None
            self.head.bias[HEADS["category"]] = RARELY

    def forward(self, maps: Tensor) -> Tensor:
        """All heads for a batch of grids, frames x outputs x rows x columns."""
        seen = []
        for down in self.down:
            maps = down(maps)
            seen.append(maps)
        for up, merge, beside in zip(self.up, self.merge, seen[-2::-1], strict=True):
            maps = merge(torch.cat([up(maps), beside], 1))
        answers: Tensor = self.head(maps)
        return answers


def _blocks(make: Callable[[nn.Conv2d], nn.Module], *widths: int, stride: int = 1) -> nn.Sequential:
    """Normalised convolutions with their activations, the first one with a stride."""
    parts: dict[str, nn.Module] = {}
    for number, (into, out) in enumerate(pairwise(widths), 1):
        convolution = nn.Conv2d(into, out, 3, stride if number == 1 else 1, padding=1)
        parts |= {f"conv{number}": make(convolution), f"relu{number}": nn.ReLU()}
    return nn.Sequential(OrderedDict(parts))


def decode_cells(row: Tensor, maps: Tensor) -> Cells:
    """The network's output for each cell of one frame with input `maps`; an empty cell is never an obstacle."""
    # D-29
    head = {name: row[part] for name, part in HEADS.items()}
    return Cells(
        category=(torch.sigmoid(head["category"][0]) * maps[FILLED]).numpy(),
        offset=head["offset"].numpy(),
        confidence=torch.sigmoid(head["confidence"][0]).numpy(),
        kind=torch.softmax(head["kind"], 0).numpy(),
        heading=head["heading"].numpy(),
        height=head["height"][0].numpy(),
    )
