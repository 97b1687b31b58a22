"""How the steering networks learn: windows of kept frames, small variations of them, and the loops over both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
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
from swerve.zoo.data import FrameParts, SteeringFrames, Watch, rendered, unwatched
from swerve.zoo.networks import FEATURES, ChauffeurNet, folded, normalised
from swerve.zoo.steering import AT_ONCE, DEGREES, CameraCrop, steering_named

NEIGHBOURS = 3  # frames of a short run from one that is learnt from to the next: neighbours look alike
SETTLING = 10  # steps of a window before the memory is asked for an angle in training
STARTS = 8  # windows of each long drive in one pass over the drives


@dataclass(frozen=True)
class Recipe:
    """How long and how fast a network learns; `memory` passes are for the recurrent half of Chauffeur."""

    passes: int
    batch: int = 64
    rate: float = 2e-3  # the peak of one cycle
    decay: float = 0.02
    every: int = 5  # neighbours in a long drive look alike: each fifth is learnt from
    patience: int = 6  # passes without a better validation score before it stops
    memory: int = 0


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "epoch": Recipe(passes=14),
        "dave-orig": Recipe(passes=20),
        "dave-dropout": Recipe(passes=24),
        "chauffeur": Recipe(passes=22, memory=40),
        "rambo": Recipe(passes=18, every=2),
    }
)


@dataclass(frozen=True, eq=False)
class TrainingFrames:
    """The frames of every part."""

    short: SteeringFrames
    long: SteeringFrames
    val_short: SteeringFrames
    val_long: SteeringFrames
    test_short: SteeringFrames
    test_long: SteeringFrames

    @classmethod
    def under(cls, folder: Path, parts: FrameParts, *, workers: int = 2, progress: Watch = unwatched) -> TrainingFrames:
        """The material kept in `folder`, rendered where it is missing."""
        made = {part: rendered(part, folder, workers=workers, progress=progress) for part in parts.all()}
        return cls(*(made[part] for part in parts.in_order()))

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
    """Windows of `view.frames` neighbours; of the windows of a run, each `every`th of its set is taken."""
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
    flat = given.pixels.reshape(-1, *given.pixels.shape[2:])
    return np.stack([view.reduced(frame, given.cut) for frame in flat])


def varied(pixels: Array, rng: np.random.Generator) -> Array:
    """Each window a little darker, brighter, flatter or harder, one in five blurred; never mirrored or moved.

    Traffic keeps to one side, and where the lane lies in the frame is what a network is to learn.
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


@dataclass(frozen=True)
class Lesson:
    """What there is to learn: the loss of some of `count` samples, and the error on frames kept aside."""

    count: int
    loss: Callable[[Array], Tensor]
    error: Callable[[], float]


def fit(
    net: nn.Module, lesson: Lesson, recipe: Recipe, *, rng: np.random.Generator, progress: Watch = unwatched
) -> list[float]:
    """Train `net` and leave it with the weights that had the smallest error kept aside; returns the error of each pass."""
    steps = -(-lesson.count // recipe.batch)
    optimiser = torch.optim.AdamW(net.parameters(), weight_decay=recipe.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.rate, total_steps=steps * recipe.passes)
    errors: list[float] = []
    best = deepcopy(net.state_dict())
    for number in range(recipe.passes):
        order = np.array_split(rng.permutation(lesson.count), steps)
        for step in progress(range(steps), f"pass {number + 1} of {recipe.passes}", steps):
            _step(net, lesson.loss, order[step], optimiser)
            schedule.step()
        errors.append(lesson.error())
        if errors[-1] == min(errors):
            best = deepcopy(net.state_dict())
        elif len(errors) - errors.index(min(errors)) > recipe.patience:
            break
    net.load_state_dict(best)
    return errors


def _step(net: nn.Module, loss: Callable[[Array], Tensor], chosen: Array, optimiser: torch.optim.Optimizer) -> None:
    net.train()
    optimiser.zero_grad()
    loss(chosen).backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def frame_lesson(net: nn.Module, view: CameraCrop, learnt: Samples, aside: Samples, rng: np.random.Generator) -> Lesson:
    """Squared error on varied windows."""

    def loss(chosen: Array) -> Tensor:
        given = view.tensor(varied(learnt.pixels(chosen), rng))
        return nn.functional.mse_loss(net(given).squeeze(1), torch.from_numpy(learnt.units[chosen]))

    return Lesson(len(learnt.units), loss, lambda: rmse(answers(net, view, aside), aside.units))


def answers(net: nn.Module, view: CameraCrop, asked: Samples) -> Array:
    """What a network says of every window, in its units."""
    net.eval()
    step = max(1, AT_ONCE // view.frames)
    starts = range(0, len(asked.units), step)
    everything = np.arange(len(asked.units))
    with torch.inference_mode():
        rows = [net(view.tensor(asked.pixels(everything[start : start + step]))) for start in starts]
    return torch.cat(rows).squeeze(1).numpy()


def rmse(said: Array, true: Array) -> float:
    """The root mean square error."""
    return float(np.sqrt(np.mean((said.astype(np.float64) - true) ** 2)))


def learn(name: str, given: TrainingFrames, *, recipe: Recipe, seed: int = 7, progress: Watch = unwatched) -> nn.Module:
    """A trained network; the same seed and threads give the same one, and torch's own generator is left alone."""
    kind = steering_named(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net: nn.Module = normalised(kind.net()).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if isinstance(net, ChauffeurNet):
            _learn_in_halves(net, kind.view, given, recipe, seed=seed, progress=progress)
        else:
            _learn_at_once(net, kind.view, given, recipe, seed=seed, progress=progress)
    return folded(net)


def _learn_at_once(
    net: nn.Module, view: CameraCrop, given: TrainingFrames, recipe: Recipe, *, seed: int, progress: Watch
) -> None:
    learnt = samples(view, given.short, given.long, every=(NEIGHBOURS, recipe.every))
    aside = samples(view, given.val_short, given.val_long, every=(1, recipe.every))
    rng = rng_for(seed, "zoo", "frames")
    fit(net, frame_lesson(net, view, learnt, aside, rng), recipe, rng=rng, progress=progress)


def _learn_in_halves(
    net: ChauffeurNet, view: CameraCrop, given: TrainingFrames, recipe: Recipe, *, seed: int, progress: Watch
) -> None:
    """First the encoder on short runs with a head of its own, then the memory on what it says of long ones.

    The encoder has not learnt the long drives by heart, so the memory learns how far its features can be trusted.
    """
    single = replace(view, frames=1)
    steering = nn.Sequential(net.cnn, nn.Linear(FEATURES, 1))
    learnt = samples(single, given.short, every=(NEIGHBOURS,))
    aside = samples(single, given.val_short, every=(1,))
    rng = rng_for(seed, "zoo", "encoder")
    fit(steering, frame_lesson(steering, single, learnt, aside, rng), recipe, rng=rng, progress=progress)
    learnt_windows, aside_windows = (_features(net, single, part) for part in (given.long, given.val_long))
    rng = rng_for(seed, "zoo", "memory")
    lesson = memory_lesson(net, view.frames, learnt_windows, aside_windows, rng)
    fit(net.lstm, lesson, replace(recipe, passes=recipe.memory, batch=16), rng=rng, progress=progress)


@dataclass(frozen=True, eq=False)
class Features:
    """What the encoder says of every frame, drives x frames x features, and the angles."""

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


def memory_lesson(net: ChauffeurNet, length: int, learnt: Features, aside: Features, rng: np.random.Generator) -> Lesson:
    """Squared error at every step of a window once it has settled; the error kept aside is that of last steps alone."""
    drives, frames = learnt.units.shape
    if min(frames, aside.units.shape[1]) < length:
        raise InputError(f"long drives must have {length} frames at least, got {frames} and {aside.units.shape[1]}")

    def loss(chosen: Array) -> Tensor:
        drive, starts = torch.from_numpy(chosen % drives), rng.integers(0, frames - length + 1, len(chosen))
        at = torch.from_numpy(starts)[:, None] + torch.arange(length)
        given = nn.functional.dropout(learnt.numbers[drive[:, None], at], 0.2)
        said = net.lstm.read(net.lstm.cells(given)[0][:, SETTLING:]).squeeze(2)
        return nn.functional.mse_loss(said, learnt.units[drive[:, None], at][:, SETTLING:])

    return Lesson(drives * STARTS, loss, lambda: _memory_error(net, length, aside))


def _memory_error(net: ChauffeurNet, length: int, aside: Features) -> float:
    net.eval()
    with torch.inference_mode():
        said = [net.lstm(aside.numbers[:, end - length : end]) for end in range(length, aside.units.shape[1] + 1)]
    return rmse(torch.cat(said, 1).numpy(), aside.units[:, length - 1 :].numpy())
