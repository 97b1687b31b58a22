"""How the steering networks are trained: windows of frames, their augmentation, and a task for each network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import cv2
import numpy as np
import torch
from torch import Tensor, nn

from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.train.loop import Checkpoint, Recipe, Task, fit, shuffled
from swerve.world.drives import CAUTIOUS, STANDARD
from swerve.zoo.networks import DEGREES, FEATURES, ChauffeurNet, folded, normalised
from swerve.zoo.steering import AT_ONCE, CameraCrop, steering_named
from swerve.zoo.steering_data import FrameParts, SteeringFrames, rendered

SETTLING = 10  # first steps of a window, on which the memory is not trained
STARTS = 8  # windows of each long drive in one pass
MEMORY_BATCH = 16


@dataclass(frozen=True)
class SteeringRecipe:
    """How long and how fast a network is trained; `memory` is the number of passes of the recurrent half of Chauffeur."""

    passes: int
    batch: int = 64
    rate: float = 2e-3  # the peak of one cycle
    decay: float = 0.02
    every: int = 5  # of the windows of a long drive, each fifth is trained on: neighbours look alike
    patience: int = 6  # passes without a better validation error that end the training
    memory: int = 0
    driver: str = STANDARD  # whose drives it is trained on

    @property
    def frames(self) -> Recipe:
        """The loop over windows of frames."""
        return Recipe(self.passes, self.batch, self.rate, self.decay, self.patience, one_cycle=True)

    @property
    def recurrent(self) -> Recipe:
        """The loop of Chauffeur's memory."""
        return replace(self.frames, passes=self.memory, batch=MEMORY_BATCH)


RECIPES: Mapping[str, SteeringRecipe] = MappingProxyType(
    {
        "epoch": SteeringRecipe(passes=10),
        "dave-orig": SteeringRecipe(passes=12),
        "dave-dropout": SteeringRecipe(passes=28),
        "chauffeur": SteeringRecipe(passes=12, memory=40),
        "rambo": SteeringRecipe(passes=18, every=2),
        "dave-objects": SteeringRecipe(passes=16, driver=CAUTIOUS),
    }
)


@dataclass(frozen=True, eq=False)
class TrainingFrames:
    """The frames of every part of `FrameParts`."""

    short: SteeringFrames
    long: SteeringFrames
    val_short: SteeringFrames
    val_long: SteeringFrames
    test_short: SteeringFrames
    test_long: SteeringFrames

    @classmethod
    def under(cls, folder: Path, parts: FrameParts, *, workers: int = 2, progress: Progress | None = None) -> TrainingFrames:
        """The frames in the cache under `folder`, rendered where they are missing."""
        return cls(*(rendered(part, folder, workers=workers, progress=progress) for part in parts.all()))

    @property
    def minutes(self) -> float:
        """CPU minutes that rendering took."""
        return float(sum(getattr(self, name).minutes for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class Samples:
    """Reduced frames, the windows over them as rows of frame numbers, and the angle at the end of each window."""

    frames: Array
    windows: Array
    units: Array  # of `DEGREES`

    def pixels(self, chosen: Array) -> Array:
        """Some windows, windows x frames x rows x columns x RGB."""
        return np.asarray(self.frames[self.windows[chosen]])


def samples(view: CameraCrop, *sets: SteeringFrames, every: Sequence[int]) -> Samples:
    """Windows of `view.frames` consecutive frames; `every` says for each set which of a run's windows are taken."""
    frames, windows, units, first = [], [], [], 0
    for given, step in zip(sets, every, strict=True):
        runs, length = given.degrees.shape
        ends = np.arange(view.frames - 1, length, step)
        last = (np.arange(runs)[:, None] * length + ends).reshape(-1)
        windows.append(first + last[:, None] + np.arange(1 - view.frames, 1))
        units.append(given.degrees[:, ends].reshape(-1) / DEGREES)
        frames.append(reduced(view, given))
        first += runs * length
    return Samples(np.concatenate(frames), np.concatenate(windows), np.concatenate(units).astype(np.float32))


def reduced(view: CameraCrop, given: SteeringFrames) -> Array:
    """Every frame as the network sees it, frames x rows x columns x RGB."""
    return np.stack([view.reduced(frame, given.cut) for run in given.pixels for frame in run])


def varied(pixels: Array, rng: np.random.Generator) -> Array:
    """Each window with another brightness and contrast, one in five blurred; never mirrored or moved.

    Traffic keeps to one side, and the position of the lane in the frame is what a network is to learn.
    """
    gain, contrast, offset = (
        rng.uniform(low, high, (len(pixels), 1, 1, 1, 1)).astype(np.float32)
        for low, high in ((0.75, 1.25), (0.8, 1.2), (-15, 15))
    )
    mean = pixels.mean(axis=(1, 2, 3, 4), keepdims=True, dtype=np.float32)
    changed: Array = np.clip((pixels - mean) * contrast + mean * gain + offset, 0, 255).astype(np.uint8)
    for number in np.flatnonzero(rng.random(len(changed)) < 0.2):
        changed[number] = [cv2.blur(frame, (3, 3)) for frame in changed[number]]
    return changed


def frame_task(
    net: nn.Module, view: CameraCrop, train: Samples, val: Samples, *, recipe: Recipe, rng: np.random.Generator
) -> Task:
    """Squared error on augmented windows."""

    def loss(chosen: Array) -> Tensor:
        batch = view.tensor(varied(train.pixels(chosen), rng))
        return nn.functional.mse_loss(net(batch).squeeze(1), torch.from_numpy(train.units[chosen]))

    return Task(shuffled(len(train.units), recipe.batch, rng), loss, lambda: rmse(predictions(net, view, val), val.units))


def predictions(net: nn.Module, view: CameraCrop, asked: Samples) -> Array:
    """The network's output for every window, in its units."""
    net.eval()
    step = max(1, AT_ONCE // view.frames)
    starts = range(0, len(asked.units), step)
    everything = np.arange(len(asked.units))
    with torch.inference_mode():
        rows = [net(view.tensor(asked.pixels(everything[start : start + step]))) for start in starts]
    return torch.cat(rows).squeeze(1).numpy()


def rmse(predicted: Array, true: Array) -> float:
    """The root mean square error."""
    return float(np.sqrt(np.mean((predicted.astype(np.float64) - true) ** 2)))


def learn(
    name: str,
    frames: TrainingFrames,
    *,
    recipe: SteeringRecipe,
    seed: int = 7,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> nn.Module:
    """A trained network; the same seed and threads give the same one, and torch's own generator is left alone."""
    kind = steering_named(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net: nn.Module = normalised(kind.net()).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        trainer = Trainer(kind.view, frames, recipe, seed, progress, checkpoint)
        if isinstance(net, ChauffeurNet):
            trainer.train_in_halves(net)
        else:
            trainer.train_at_once(net)
    return folded(net)


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains networks of one view on the same frames."""

    view: CameraCrop
    frames: TrainingFrames
    recipe: SteeringRecipe
    seed: int
    progress: Progress | None
    checkpoint: Checkpoint | None

    def train_at_once(self, net: nn.Module) -> None:
        """Train a whole network on windows of frames."""
        given, every = self.frames, self.recipe.every
        train = samples(self.view, given.short, given.long, every=(1, every))
        val = samples(self.view, given.val_short, given.val_long, every=(1, every))
        self._fit_frames(net, self.view, train, val, "frames")

    def train_in_halves(self, net: ChauffeurNet) -> None:
        """First the encoder on short runs with a head of its own, then the memory on its features of long runs.

        The encoder is not trained on the long drives, so the memory learns how far its features can be trusted.
        """
        given, single = self.frames, replace(self.view, frames=1)
        steering = nn.Sequential(net.cnn, nn.Linear(FEATURES, 1))
        train = samples(single, given.short, every=(1,))
        self._fit_frames(steering, single, train, samples(single, given.val_short, every=(1,)), "encoder")
        windows = (_features(net, single, part) for part in (given.long, given.val_long))
        rng, recipe = rng_for(self.seed, "zoo", "memory"), self.recipe.recurrent
        task = memory_task(net, self.view.frames, *windows, recipe=recipe, rng=rng)
        self._fit(net.lstm, task, recipe, rng, "memory")

    def _fit_frames(self, net: nn.Module, view: CameraCrop, train: Samples, val: Samples, stage: str) -> None:
        rng, recipe = rng_for(self.seed, "zoo", stage), self.recipe.frames
        self._fit(net, frame_task(net, view, train, val, recipe=recipe, rng=rng), recipe, rng, stage)

    def _fit(self, net: nn.Module, task: Task, recipe: Recipe, rng: np.random.Generator, stage: str) -> None:
        checkpoint = replace(self.checkpoint, stage=stage) if self.checkpoint else None
        fit(net, task, recipe, rng=rng, progress=self.progress, checkpoint=checkpoint)


@dataclass(frozen=True, eq=False)
class Features:
    """The encoder's output for every frame, drives x frames x features, and the angles."""

    numbers: Tensor
    units: Tensor


def _features(net: ChauffeurNet, single: CameraCrop, part: SteeringFrames) -> Features:
    seen = samples(single, part, every=(1,))
    drives, length = part.degrees.shape
    net.eval()
    with torch.no_grad():
        starts = range(0, len(seen.units), AT_ONCE)
        rows = torch.cat([net.cnn(single.tensor(seen.frames[start : start + AT_ONCE][:, None])) for start in starts])
    return Features(rows.reshape(drives, length, -1), torch.from_numpy(seen.units).reshape(drives, length))


def memory_task(
    net: ChauffeurNet, length: int, train: Features, val: Features, *, recipe: Recipe, rng: np.random.Generator
) -> Task:
    """Squared error at every step of a window after the first ones; validation takes the last step of each window alone."""
    drives, frames = train.units.shape
    if min(frames, val.units.shape[1]) < length:
        raise InputError(f"long drives must have at least {length} frames, got {frames} and {val.units.shape[1]}")

    def loss(chosen: Array) -> Tensor:
        drive, starts = torch.from_numpy(chosen % drives), rng.integers(0, frames - length + 1, len(chosen))
        at = torch.from_numpy(starts)[:, None] + torch.arange(length)
        features = nn.functional.dropout(train.numbers[drive[:, None], at], 0.2)
        predicted = net.lstm.read(net.lstm.cells(features)[0][:, SETTLING:]).squeeze(2)
        return nn.functional.mse_loss(predicted, train.units[drive[:, None], at][:, SETTLING:])

    return Task(shuffled(drives * STARTS, recipe.batch, rng), loss, lambda: _memory_error(net, length, val))


def _memory_error(net: ChauffeurNet, length: int, val: Features) -> float:
    net.eval()
    with torch.inference_mode():
        ends = range(length, val.units.shape[1] + 1)
        predicted = [net.lstm(val.numbers[:, end - length : end]) for end in ends]
    return rmse(torch.cat(predicted, 1).numpy(), val.units[:, length - 1 :].numpy())
