"""Five steering networks: from one camera frame, a window of frames, or the differences of three frames to one number.

Every layer has a name, every activation is a module, and sub-models are prefixes of the names (`cnn.`, `s1.`), so that
coverage can be measured layer by layer. Batch normalisation is used in training only and then folded into the convolutions.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

DEGREES = 40.0  # of the wheel per unit of a network's output
FEATURES = 128  # numbers that the memory of the Chauffeur network reads for each frame
Net = TypeVar("Net", bound=nn.Module)


def _named(**parts: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(parts))


def _dense(first: int, *widths: int) -> dict[str, nn.Module]:
    """Dense layers with their activations, named `fc1`, `relu_fc1`, `fc2`, ..."""
    parts: dict[str, nn.Module] = {}
    for number, (into, out) in enumerate(pairwise((first, *widths)), 1):
        parts |= {f"fc{number}": nn.Linear(into, out), f"relu_fc{number}": nn.ReLU()}
    return parts


class EpochNet(nn.Module):
    """Epoch: three convolutions with pooling and dropout, 1024 units, one output.

    A first stride of 2 and the reduction to 4x4 before the 1024 units keep it small; neither adds neurons.
    """

    # The layer list of D-5.

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu1 = nn.Conv2d(3, 32, 5, stride=2, padding=2), nn.ReLU()
        self.pool1, self.drop1 = nn.MaxPool2d(2), nn.Dropout(0.1)
        self.conv2, self.relu2 = nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()
        self.pool2, self.drop2 = nn.MaxPool2d(2), nn.Dropout(0.1)
        self.conv3, self.relu3 = nn.Conv2d(64, 128, 3, padding=1), nn.ReLU()
        self.pool3, self.drop3 = nn.AdaptiveAvgPool2d(4), nn.Dropout(0.1)
        self.flat = nn.Flatten()
        self.dense, self.relu4, self.drop4 = nn.Linear(128 * 16, 1024), nn.ReLU(), nn.Dropout(0.5)
        self.out = nn.Linear(1024, 1)

    def forward(self, frames: Tensor) -> Tensor:
        """One number per frame."""
        for part in self.children():
            frames = part(frames)
        return frames


class TwiceAtan(nn.Module):
    """The last step of both Dave networks: 2·atan, an angle in radians: at most half a turn of the wheel."""

    # B.2

    def forward(self, numbers: Tensor) -> Tensor:
        """2·atan of every number, in units of `DEGREES`."""
        return 2 / math.radians(DEGREES) * torch.atan(numbers)


class DaveOrigNet(nn.Sequential):
    """Dave-orig: PilotNet on 66x200, five convolutions and five dense layers."""

    def __init__(self) -> None:
        parts: dict[str, nn.Module] = {}
        widths, kernels = (3, 24, 36, 48, 64, 64), ((5, 2), (5, 2), (5, 2), (3, 1), (3, 1))
        for number, ((into, out), (size, stride)) in enumerate(zip(pairwise(widths), kernels, strict=True), 1):
            parts |= {f"conv{number}": nn.Conv2d(into, out, size, stride), f"relu{number}": nn.ReLU()}
        parts |= {"flat": nn.Flatten()} | _dense(64 * 1 * 18, 1164, 100, 50, 10)
        super().__init__(OrderedDict(parts, out=nn.Linear(10, 1), turn=TwiceAtan()))


class DaveDropoutNet(nn.Sequential):
    """Dave-dropout: three convolutions with pooling and three dense layers, dropout after the first two."""

    def __init__(self) -> None:
        parts: dict[str, nn.Module] = {}
        kernels = ((2, (2, 2)), (1, (2, 2)), (1, (2, 1)))  # stride and pooling, down to 4x25: finer sideways than in height
        for number, ((into, out), (stride, pool)) in enumerate(zip(pairwise((3, 16, 32, 64)), kernels, strict=True), 1):
            parts |= {f"conv{number}": nn.Conv2d(into, out, 3, stride, padding=1), f"relu{number}": nn.ReLU()}
            parts |= {f"pool{number}": nn.MaxPool2d(pool)}
        dense = _dense(64 * 4 * 25, 500, 100, 20)
        drops = {"relu_fc1": {"drop1": nn.Dropout(0.5)}, "relu_fc2": {"drop2": nn.Dropout(0.25)}}
        parts["flat"] = nn.Flatten()
        for name, part in dense.items():
            parts |= {name: part} | drops.get(name, {})
        super().__init__(OrderedDict(parts, out=nn.Linear(20, 1), turn=TwiceAtan()))


class Memory(nn.Module):
    """The second half of Chauffeur: 256 recurrent units over the features of a window, 256 dense ones, one output."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(FEATURES, 256, batch_first=True)
        self.dense, self.relu, self.out = nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)

    def forward(self, features: Tensor) -> Tensor:
        """One number per window, predicted at its last frame."""
        return self.read(self.cells(features)[0][:, -1])

    def read(self, states: Tensor) -> Tensor:
        """The number that goes with each recurrent state."""
        angle: Tensor = self.out(self.relu(self.dense(states)))
        return angle


class ChauffeurNet(nn.Module):
    """Chauffeur: `cnn` turns each frame into features, `lstm` reads those of the whole window."""

    def __init__(self) -> None:
        super().__init__()
        parts: dict[str, nn.Module] = {}
        kernels = (5, 5, 3, 3)
        for number, ((into, out), size) in enumerate(zip(pairwise((3, 24, 36, 48, 64)), kernels, strict=True), 1):
            convolution = nn.Conv2d(into, out, size, stride=2, padding=size // 2)
            parts |= {f"conv{number}": convolution, f"relu{number}": nn.ReLU()}
        self.cnn = _named(**parts, flat=nn.Flatten(), dense=nn.Linear(64 * 4 * 10, FEATURES), relu=nn.ReLU())
        self.lstm = Memory()

    def forward(self, windows: Tensor) -> Tensor:
        """One number per window of frames, given as windows x frames x channels x rows x columns."""
        angle: Tensor = self.lstm(self.cnn(windows.flatten(0, 1)).unflatten(0, windows.shape[:2]))
        return angle


class RamboNet(nn.Module):
    """Rambo: three branches read the differences of three frames, a last dense layer merges their outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.s1, self.s2, self.s3 = _pilot_branch(16, 24, 32, 48, 48), _pilot_branch(24, 36, 48, 64, 64), _comma_branch()
        self.merge = nn.Linear(10 + 10 + 256, 1)

    def forward(self, differences: Tensor) -> Tensor:
        """One number per pair of difference images of 60x160."""
        outputs = [branch(differences) for branch in (self.s1, self.s2, self.s3)]
        angle: Tensor = self.merge(torch.cat(outputs, 1))
        return angle


def _pilot_branch(*widths: int) -> nn.Sequential:
    """S1 and S2: as NVIDIA's PilotNet, the first one narrower."""
    parts: dict[str, nn.Module] = {}
    kernels = ((5, 2, 0), (5, 2, 0), (5, 2, 0), (3, 1, 1), (3, 1, 1))
    for number, ((into, out), kernel) in enumerate(zip(pairwise((2, *widths)), kernels, strict=True), 1):
        parts |= {f"conv{number}": nn.Conv2d(into, out, *kernel), f"relu{number}": nn.ReLU()}
    return _named(**parts, flat=nn.Flatten(), **_dense(widths[-1] * 4 * 17, 100, 50, 10))


def _comma_branch() -> nn.Sequential:
    """S3: as comma.ai's network, large strides and exponential units."""
    parts: dict[str, nn.Module] = {}
    kernels = ((8, 4, 2), (5, 2, 2), (5, 2, 2))
    for number, ((into, out), kernel) in enumerate(zip(pairwise((2, 16, 32, 64)), kernels, strict=True), 1):
        parts |= {f"conv{number}": nn.Conv2d(into, out, *kernel), f"elu{number}": nn.ELU()}
    parts |= {"flat": nn.Flatten(), "drop1": nn.Dropout(0.2)}
    return _named(**parts, dense=nn.Linear(64 * 4 * 10, 256), elu_dense=nn.ELU(), drop2=nn.Dropout(0.5))


class Normalised(nn.Sequential):
    """A convolution and the batch normalisation it is trained with."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__(convolution, nn.BatchNorm2d(convolution.out_channels))

    def folded(self) -> nn.Conv2d:
        """One convolution with the same output as the two."""
        convolution, norm = self
        assert isinstance(convolution, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        return fuse_conv_bn_eval(convolution, norm)


def normalised(net: Net) -> Net:
    """`net` itself, now with batch normalisation after every convolution: without it, training takes hours."""
    for parent in list(net.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, nn.Conv2d):
                setattr(parent, name, Normalised(part))
    return net


def folded(net: Net) -> Net:
    """`net` itself with each normalisation folded into its convolution: the same outputs from the plain layer list."""
    net.eval()
    for parent in list(net.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, Normalised):
                setattr(parent, name, part.folded())
    return net
