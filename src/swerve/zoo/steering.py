"""The five steering systems: how each reads a case, its packaged weights, and its traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from swerve.core.arguments import check_known, take_paths
from swerve.core.case import Case
from swerve.core.convention import Convention
from swerve.core.errors import InputError
from swerve.core.system import Activations, Answer, Gradients, Traced, Window
from swerve.core.values import Array, Group, Image, Steering
from swerve.systems.gradients import gradients_of
from swerve.systems.probe import catching, layers_of, probe
from swerve.systems.torch import TorchSystem
from swerve.systems.weights import load
from swerve.world.source import World
from swerve.zoo.networks import DEGREES, ChauffeurNet, DaveDropoutNet, DaveOrigNet, EpochNet, RamboNet

PACKAGED = Path(__file__).parent / "weights"
AT_ONCE = 256  # frames in one forward pass, so that memory does not grow with the batch


def unit(pixels: Array) -> Tensor:
    """Bytes as numbers from 0 to 1."""
    return _channels_first(torch.from_numpy(pixels).float().div_(255))


def centred(pixels: Array) -> Tensor:
    """Bytes as numbers from -1 to 1."""
    return _channels_first(torch.from_numpy(pixels).float().div_(127.5).sub_(1))


def equalised_yuv(pixels: Array) -> Tensor:
    """YUV with the histogram of Y equalised, as numbers from -1 to 1."""
    # B.1, item 22
    frames = pixels.reshape(-1, *pixels.shape[-3:])
    return centred(np.stack([_equalised(frame) for frame in frames]).reshape(pixels.shape))


def _equalised(frame: Array) -> Array:
    yuv = cv2.cvtColor(frame, cv2.COLOR_RGB2YUV)
    yuv[..., 0] = cv2.equalizeHist(np.ascontiguousarray(yuv[..., 0]))
    return yuv


def differences(pixels: Array) -> Tensor:
    """Windows of frames as the grey difference of each frame to the next, divided by 64."""
    grey = pixels @ np.array([0.299, 0.587, 0.114], np.float32)
    return torch.from_numpy(np.ascontiguousarray(np.diff(grey, axis=-3) / 64))


def _channels_first(frames: Tensor) -> Tensor:
    return frames.movedim(-1, -3)  # a view: torch's convolutions are faster with channels last in memory


TONES: Mapping[str, Callable[[Array], Tensor]] = MappingProxyType(
    {"unit": unit, "centred": centred, "equalised-yuv": equalised_yuv, "differences": differences}
)


@dataclass(frozen=True)
class CameraCrop:
    """What a network reads of a camera frame: the rows below `top`, a share of the height, reduced to width x height."""

    top: float
    width: int
    height: int
    tone: str
    frames: int = 1  # in a window, oldest first

    def reduced(self, frame: Array, cut: int = 0) -> Array:
        """The reduced frame; `cut` rows at its top were left out before."""
        rows = frame[max(0, round((len(frame) + cut) * self.top) - cut) :]
        return cv2.resize(rows, (self.width, self.height), interpolation=cv2.INTER_AREA)

    def window(self, image: Image) -> Window:
        """The part of a frame that the network reads: left, top, right, bottom."""
        width, height = image.size
        return 0.0, float(round(height * self.top)), float(width), float(height)

    def pixels(self, case: Case) -> Array:
        """The frames of a case, frames x rows x columns x RGB."""
        return np.stack([self.reduced(image.pixels) for image in self.images(case)])

    def tensor(self, pixels: Array) -> Tensor:
        """Windows of reduced frames as the network's input; a window of one frame is that frame."""
        return TONES[self.tone](pixels[..., 0, :, :, :] if self.frames == 1 else pixels)

    def read(self, case: Case) -> Tensor:
        """The network's input for one case."""
        return self.tensor(self.pixels(case))

    def read_all(self, cases: Sequence[Case]) -> Tensor:
        """The network's input for several cases; their bytes are stacked, as stacked tensors would have channels first."""
        return self.tensor(np.stack([self.pixels(case) for case in cases]))

    def images(self, case: Case) -> tuple[Image, ...]:
        """The camera images of a case, oldest first; raises `InputError` if it is not what the network reads."""
        camera = case.inputs.get("camera")
        if self.frames == 1 and isinstance(camera, Image):
            return (camera,)
        if self.frames > 1 and isinstance(camera, Group) and len(camera.values) == self.frames:
            images = tuple(value for value in camera.values if isinstance(value, Image))
            if len(images) == self.frames:
                return images
        raise InputError(self._refusal(case))

    def _refusal(self, case: Case) -> str:
        camera = case.inputs.get("camera")
        given = f"a {type(camera).__name__}" if camera is not None else f"only {', '.join(case.inputs) or 'nothing'}"
        if isinstance(camera, Group):
            given = f"a window of {len(camera.values)}"
        if self.frames == 1:
            return f"{case.key}: this network reads one image named 'camera', got {given}"
        return (
            f"{case.key}: this network reads a window of {self.frames} images named 'camera', got {given}; "
            f"wrap the source in Windows(source, {self.frames}), "
            f"in a campaign file use = 'windows', length = {self.frames}, source = {{ … }}"
        )


@dataclass(frozen=True)
class Trained:
    """A steering network with the packaged weights or those of another file."""

    weights: Path | None = None
    name: ClassVar[str]
    convention: ClassVar[Convention] = Convention(DEGREES, "left", "wheel", World.convention.ratio)
    net: ClassVar[type[nn.Module]]
    view: ClassVar[CameraCrop]

    def __post_init__(self) -> None:
        take_paths(self)
        _ = self.system  # refuses a bad file now rather than in the middle of a campaign

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        return self.system(cases)

    def fingerprint(self) -> str:
        return self._fingerprint

    def sees(self, case: Case) -> Array:
        """The reduced frames of a case that the network reads."""
        return self.view.pixels(case)

    def layers(self) -> Sequence[str]:
        return layers_of(self.system.net)

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        step = max(1, AT_ONCE // self.view.frames)
        parts = [self._trace(cases[start : start + step], layers) for start in range(0, len(cases), step)]
        return join_traces(parts)

    def _trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        rows, found = probe(self.system.net, self.system.batch(cases), layers)
        return Traced([(steering_of(row),) for row in rows], found)

    def gradients(self, cases: Sequence[Case], layer: str) -> Gradients:
        """Feature maps of a layer, and how the angle changes with them."""
        net = self.system.net.eval()
        windows = [self.view.window(self.view.images(case)[-1]) for case in cases]
        return gradients_of(net, self.system.batch(cases), catching(net, layer), lambda rows: rows, windows=windows)

    @cached_property
    def system(self) -> TorchSystem:
        """The network, its weights read once."""
        file = self.weights or PACKAGED / f"{self.name}.safetensors"
        return TorchSystem(load(self.net, file), self.view.read, steering_of, self.view.read_all)

    @cached_property
    def _fingerprint(self) -> str:
        return self.system.fingerprint()


def steering_of(row: Tensor) -> Steering:
    """The network's output in degrees of the wheel."""
    return Trained.convention.steering(row.item())


def join_traces(parts: Sequence[Traced]) -> Traced:
    """The traces of consecutive batches as one."""
    if not parts:
        return Traced([], {})
    answers = [answer for part in parts for answer in part.answers]
    return Traced(answers, {name: _stacked([part.layers[name] for part in parts]) for name in parts[0].layers})


def _stacked(parts: Sequence[Activations]) -> Activations:
    mean, low, high = (np.concatenate([getattr(part, what) for part in parts]) for what in ("mean", "low", "high"))
    return replace(parts[0], mean=mean, low=low, high=high)


@dataclass(frozen=True)
class Epoch(Trained):
    """A convolutional network on one frame, after DeepTest's Epoch."""

    name, net = "epoch", EpochNet
    view = CameraCrop(top=5 / 12, width=128, height=128, tone="unit")  # the top 200 of 480 rows are cut off: B.1, item 22


@dataclass(frozen=True)
class DaveOrig(Trained):
    """NVIDIA's PilotNet on one frame, as DeepXplore's Dave-orig."""

    name, net = "dave-orig", DaveOrigNet
    view = CameraCrop(top=0.38, width=200, height=66, tone="centred")


@dataclass(frozen=True)
class DaveObjects(Trained):
    """PilotNet on one frame, trained on the cautious driver: objects matter more to it than to Dave-orig."""

    name, net = "dave-objects", DaveOrigNet
    view = CameraCrop(top=0.38, width=200, height=66, tone="centred")


@dataclass(frozen=True)
class DaveDropout(Trained):
    """A smaller relative of PilotNet with dropout on one frame, after DeepXplore's Dave-dropout."""

    name, net = "dave-dropout", DaveDropoutNet
    view = CameraCrop(top=0.38, width=200, height=66, tone="centred")


@dataclass(frozen=True)
class Rambo(Trained):
    """Three branches (`s1`, `s2`, `s3`) on the differences of three frames, after DeepTest's Rambo: `Windows(source, 3)`."""

    name, net = "rambo", RamboNet
    view = CameraCrop(top=0.35, width=160, height=60, tone="differences", frames=3)


@dataclass(frozen=True)
class Chauffeur(Trained):
    """An encoder (`cnn`) and a memory (`lstm`) over 100 frames, after DeepTest's Chauffeur: `Windows(source, 100)`."""

    name, net = "chauffeur", ChauffeurNet
    view = CameraCrop(top=0.5, width=160, height=60, tone="equalised-yuv", frames=100)  # the lower half: B.1, item 22

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        """One answer per window; a frame that several windows share is encoded once."""
        return self.trace(cases, ()).answers

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        if not cases:
            return Traced([], {})
        net = self.system.net.eval()
        assert isinstance(net, ChauffeurNet)
        frames, order = _shared([self.view.images(case) for case in cases])
        encoder, memory = [name for name in layers if not name.startswith(LSTM)], [n for n in layers if n.startswith(LSTM)]
        parts = [probe(net.cnn, batch, [name.removeprefix(CNN) for name in encoder]) for batch in self._batches(frames)]
        features = torch.cat([output for output, _ in parts])
        rows, remembered = probe(net.lstm, features[order], [name.removeprefix(LSTM) for name in memory])
        found = {
            name: _spread(_stacked([layer[name.removeprefix(CNN)] for _, layer in parts]), order.numpy()) for name in encoder
        }
        every = found | {name: remembered[name.removeprefix(LSTM)] for name in memory}
        return Traced([(steering_of(row),) for row in rows], {name: every[name] for name in layers})

    def _batches(self, images: Sequence[Image]) -> Iterator[Tensor]:
        for start in range(0, len(images), AT_ONCE):
            yield equalised_yuv(np.stack([self.view.reduced(image.pixels) for image in images[start : start + AT_ONCE]]))


CNN, LSTM = "cnn.", "lstm."


def _shared(windows: Sequence[Sequence[Image]]) -> tuple[list[Image], Tensor]:
    """Every distinct frame once, and for each window the positions of its frames."""
    frames = {image.digest: image for window in windows for image in window}
    place = {digest: number for number, digest in enumerate(frames)}
    return list(frames.values()), torch.tensor([[place[image.digest] for image in window] for window in windows])


def _spread(layer: Activations, order: Array) -> Activations:
    """A layer's activations of distinct frames, repeated for all frames of the first window, then the second, and so on."""
    rows, passes = order.ravel(), order.shape[1]
    return replace(layer, mean=layer.mean[rows], low=layer.low[rows], high=layer.high[rows], passes=passes)


STEERING: Mapping[str, type[Trained]] = MappingProxyType(
    {kind.name: kind for kind in (Epoch, DaveOrig, DaveDropout, Chauffeur, Rambo)}
)


# Systems with a recipe and no packaged weights: they need a file of their own, which `swerve zoo train` writes.
UNTRAINED: Mapping[str, type[Trained]] = MappingProxyType({DaveObjects.name: DaveObjects})


def steering_named(name: str) -> type[Trained]:
    """The steering system called `name`; raises `InputError` for any other name."""
    known = {**STEERING, **UNTRAINED}
    check_known("steering system", name, known)
    return known[name]
