"""LPIPS: the distance of two pictures as a network for object recognition sees them, with the published weights (v0.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from swerve.core.arguments import check_known
from swerve.core.values import Array
from swerve.similarity.lpips_weights import load_weights

SIDE = 256  # pixels of the longer side at which pictures are compared
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # of pixels from -1 to 1
TINY = 1e-10
VGG, ALEX = NETS = ("vgg", "alex")


@dataclass(frozen=True)
class LpipsLayer:
    """A convolution: its stride and padding, a pooling before it (size, stride), and whether its features are read."""

    stride: int = 1
    pad: int = 1
    pool: tuple[int, int] | None = None
    read: bool = False


def _vgg() -> tuple[LpipsLayer, ...]:
    depths = (2, 2, 3, 3, 3)
    return tuple(
        LpipsLayer(pool=(2, 2) if block and not place else None, read=place == depth - 1)
        for block, depth in enumerate(depths)
        for place in range(depth)
    )


ALEX_STEPS = (
    LpipsLayer(4, 2, read=True),
    LpipsLayer(1, 2, (3, 2), read=True),
    LpipsLayer(1, 1, (3, 2), read=True),
    LpipsLayer(read=True),
    LpipsLayer(read=True),
)
STEPS: Mapping[str, tuple[LpipsLayer, ...]] = {VGG: _vgg(), ALEX: ALEX_STEPS}


def distance(first: Array, second: Array, steps: Sequence[LpipsLayer], weights: Mapping[str, Tensor]) -> float:
    """Eq. 5 for two pictures of one size: weighted squared differences of unit features, their means added up."""
    both = torch.from_numpy(np.stack([first, second]).astype(np.float32)).permute(0, 3, 1, 2) / 127.5 - 1
    shift, scale = (torch.tensor(numbers).view(1, 3, 1, 1) for numbers in (SHIFT, SCALE))
    found, x = 0.0, (both - shift) / scale
    with torch.inference_mode():
        reads = 0
        for number, step in enumerate(steps):
            x = F.max_pool2d(x, *step.pool) if step.pool else x
            x = F.relu(F.conv2d(x, weights[f"conv{number}.weight"], weights[f"conv{number}.bias"], step.stride, step.pad))
            if step.read:
                unit = x / (x.square().sum(1, keepdim=True).sqrt() + TINY)
                found += float(F.conv2d((unit[:1] - unit[1:]).square(), weights[f"head{reads}"]).mean())
                reads += 1
    return found


def fitted(pixels: Array, side: int = SIDE) -> Array:
    """A picture with a longer side of `side` pixels, in its own proportions."""
    height, width = pixels.shape[:2]
    share = side / max(height, width)
    size = max(1, round(width * share)), max(1, round(height * share))
    way = cv2.INTER_AREA if share < 1 else cv2.INTER_LINEAR
    return pixels if size == (width, height) else np.asarray(cv2.resize(pixels, size, interpolation=way))


@dataclass(frozen=True)
class Lpips:
    """LPIPS of two pictures at 256 pixels, by the network `net`: 0 for equal ones, more for less similar ones.

    Args:
        net: "vgg", the paper's, or "alex", ten times as fast.
        folder: where the weights are, by default where `swerve assets get` puts them.
    """

    # IA-14, D-37

    net: str = VGG
    folder: Path | None = None

    def __post_init__(self) -> None:
        check_known("network of LPIPS:", self.net, NETS)

    @property
    def name(self) -> str:
        """Such as "LPIPS (vgg, 256 px)"."""
        return f"LPIPS ({self.net}, {SIDE} px)"

    def __call__(self, first: Array, second: Array) -> float:
        """The distance of two pictures of one size."""
        return distance(fitted(first), fitted(second), STEPS[self.net], _weights(self.net, self.folder))


@cache
def _weights(net: str, folder: Path | None) -> Mapping[str, Tensor]:
    arrays = load_weights(f"lpips-{net}", folder)
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
