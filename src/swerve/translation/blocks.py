"""The parts of MUNIT and UNIT: convolutions, residual blocks, adaptive normalisation, and the detail of a picture."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

REACH = 9 / 128  # of the blur that detail is taken from, as a share of the width
EVEN = 0.02  # contrast of detail below which it counts as noise
STRONGEST = 4.0  # detail beyond that many standard deviations is cut off


def convolution(into: int, out: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that mirrors the picture at its border."""
    return nn.Conv2d(into, out, size, stride, (size - 1) // 2, padding_mode="reflect")


def layer_norm(width: int) -> nn.GroupNorm:
    """Normalisation over all channels and places of a picture, which keeps the relation between channels."""
    return nn.GroupNorm(1, width)


class ResidualBlock(nn.Module):
    """Two convolutions with instance normalisation, added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = convolution(width, width, 3), convolution(width, width, 3)

    def forward(self, codes: Tensor) -> Tensor:
        """Codes of the same shape."""
        inner = functional.relu(functional.instance_norm(self.first(codes)))
        return codes + functional.instance_norm(self.second(inner))


class StyledBlock(nn.Module):
    """A residual block whose normalisation takes mean and deviation of every channel from a style (AdaIN)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = convolution(width, width, 3), convolution(width, width, 3)
        self.numbers = 4 * width

    def forward(self, codes: Tensor, numbers: Tensor) -> Tensor:
        """Codes of the same shape; `numbers` has four for each channel and picture."""
        gain1, shift1, gain2, shift2 = numbers[:, :, None, None].chunk(4, 1)
        inner = functional.relu(functional.instance_norm(self.first(codes)) * gain1 + shift1)
        return codes + functional.instance_norm(self.second(inner)) * gain2 + shift2


def detail_of(pictures: Tensor) -> Tensor:
    """The fine structure of pictures, batch x 1 x rows x columns: brightness without its blurred self, at equal contrast.

    The blur is in proportion to the width, so a picture of another size has the same detail.
    """
    luma = pictures.mean(1, keepdim=True)
    size = max(3, round(luma.shape[-1] * REACH) // 2 * 2 + 1)
    blurred = luma
    for _ in range(2):
        padded = functional.pad(blurred, (size // 2,) * 4, mode="replicate")
        blurred = functional.avg_pool2d(padded, size, 1)
    high = luma - blurred
    return (high / (high.std((1, 2, 3), keepdim=True) + EVEN)).clamp(-STRONGEST, STRONGEST)


def places(like: Tensor) -> Tensor:
    """Height, its square, the squared distance from the middle and a product, for every place: batch x 4 x rows x columns.

    A street looks different at the top and at the bottom, and the same on either side.
    """
    rows = torch.linspace(-1, 1, like.shape[-2], device=like.device)[:, None].expand(like.shape[-2:])
    columns = torch.linspace(-1, 1, like.shape[-1], device=like.device)[None, :].expand(like.shape[-2:])
    stacked = torch.stack([rows, columns**2, rows**2, rows * columns**2])
    return stacked[None].expand(len(like), -1, -1, -1)
