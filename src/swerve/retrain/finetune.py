"""Fine-tuning a steering network: squared error, stopped when validation gets no better, the best weights kept.

The weights that the network came with take part: what comes out is never worse than them on the validation set.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from swerve.core.case import Case, Source
from swerve.core.errors import EnvironmentFault, InputError
from swerve.core.seeding import rng_for
from swerve.core.system import Answer
from swerve.core.values import Array, Steering, Value, find
from swerve.execution.engine import NoProgress, Progress
from swerve.retrain.dataset import Skips, stream
from swerve.systems.function import answer_of
from swerve.systems.torch import TorchSystem

PROBES = (0.0, 1.0, -0.75, 3.0)  # outputs that say must word along a straight line
FASTEST = 10.0  # a learning rate beyond is a slip
AT_ONCE = 128  # examples in one pass of validation


@dataclass(frozen=True)
class FineTuning:
    """How long and how fast to go on learning; `patience` passes without a better validation error end it."""

    passes: int = 20
    batch: int = 32
    rate: float = 1e-4
    decay: float = 0.0
    patience: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("passes", "batch", "patience"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 at least, got {getattr(self, name)}")
        if not 0 < self.rate <= FASTEST:
            raise InputError(f"the rate must be a number above 0 and at most {FASTEST:g}, got {self.rate!r}")


@dataclass(frozen=True)
class Tuned:
    """A network that went on learning; `errors` are its mean squared validation errors in rad² (D-34), first as it came."""

    system: TorchSystem
    errors: tuple[float, ...]
    best: int  # the pass whose weights were kept; 0: those it came with
    ended: str  # why it stopped
    skipped: tuple[tuple[str, str], ...] = ()


def torch_of(system: object) -> TorchSystem:
    """The torch system that `system` is or wraps."""
    inner = system if isinstance(system, TorchSystem) else getattr(system, "system", None)
    if isinstance(inner, TorchSystem):
        return inner
    raise InputError(
        f"{type(system).__name__} is no torch network and cannot be fine-tuned here; "
        "export the set and give the command that trains it"
    )


def finetune(
    system: object, train: Source, val: Source, *, recipe: FineTuning | None = None, progress: Progress | None = None
) -> Tuned:
    """A copy of `system` trained on `train`: the same seed gives the same weights; torch's own generator is left alone."""
    given, recipe, progress = torch_of(system), recipe or FineTuning(), progress or NoProgress()
    skipped: Skips = []
    with tempfile.TemporaryDirectory() as scratch:
        learnt, aside = (
            Inputs.read(given, source, Path(scratch) / name, progress=progress, skipped=skipped)
            for name, source in (("training", train), ("validation", val))
        )
        learner = Learner(deepcopy(given.net), learnt, aside, scale_of(given, learnt))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            ended = learner.learn(recipe, progress)
    tuned = TorchSystem(learner.net, given.read, given.say)
    return Tuned(tuned, tuple(learner.errors), learner.best, ended, tuple(skipped))


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the network sees of every example, on disk, and the angle it should say, in degrees."""

    tensors: Array
    degrees: Array

    @classmethod
    def read(cls, system: TorchSystem, source: Source, path: Path, *, progress: Progress, skipped: Skips) -> Inputs:
        """Every example of `source` made once and kept in a file, so that memory does not grow with the set."""
        progress.begin(f"reading {path.name} set", len(source.keys()))
        angles: list[float] = []
        shape: tuple[int, ...] = ()
        already = len(skipped)
        try:
            with path.open("wb") as file:
                for case in stream(source, skipped):
                    seen = np.ascontiguousarray(system.read(case).numpy(), np.float32)
                    shape = _same_shape(seen.shape, shape, case)
                    angles.append(degrees_of(case.truth, case.key))
                    file.write(seen.data)
                    progress.advance(1, 0)
        except OSError as error:
            raise EnvironmentFault(f"{path}: the network's inputs cannot be kept: {error.strerror}") from error
        if not angles:
            why = f"none of its {len(source.keys())} cases can be used"
            first = f", the first because {skipped[already][1]}" if len(skipped) > already else ""
            raise InputError(f"the {path.name} set is empty: {why}{first}")
        return cls(np.memmap(path, np.float32, mode="r", shape=(len(angles), *shape)), np.array(angles))

    def batch(self, chosen: Array) -> torch.Tensor:
        """Some examples as a tensor."""
        return torch.from_numpy(np.array(self.tensors[chosen]))


def _same_shape(shape: tuple[int, ...], before: tuple[int, ...], case: Case) -> tuple[int, ...]:
    if before and shape != before:
        told = " and ".join("x".join(map(str, one)) for one in (before, shape))
        raise InputError(f"'{case.key}': the network's inputs must be alike to be trained on together, got {told}")
    return shape


def degrees_of(values: Sequence[Value], who: str) -> float:
    """The steering angle among `values`."""
    value = find(values, Steering.slot)
    if not isinstance(value, Steering):
        raise InputError(f"'{who}' has no steering angle; its values are {', '.join(v.slot for v in values) or 'none'}")
    if why := value.fault():
        raise InputError(f"'{who}' cannot be learnt from: {why}")
    return value.degrees


@dataclass(frozen=True)
class OutputScale:
    """Degrees of the wheel for one unit of the network's output, and for none."""

    gain: float
    offset: float

    def units(self, degrees: Array) -> Array:
        """What the network should put out."""
        return ((degrees - self.offset) / self.gain).astype(np.float32)

    def rad2(self, units: float) -> float:
        """A squared error of the output in squared radians of the wheel."""
        return units * math.radians(self.gain) ** 2


def scale_of(system: TorchSystem, inputs: Inputs) -> OutputScale:
    """How `system.say` words an output, found by asking: it must be one number and a straight line."""
    net = system.net.eval()
    with torch.inference_mode():
        row = net(inputs.batch(np.arange(1)))[0]
    who = type(net).__name__
    if row.numel() != 1:
        raise InputError(f"{who} puts out {row.numel()} numbers; only a network with one angle can be fine-tuned here")
    said = [_said(system.say, torch.full_like(row, probe), who) for probe in PROBES]
    gain, offset = said[1] - said[0], said[0]
    straight = all(
        math.isclose(one, offset + gain * probe, rel_tol=1e-4, abs_tol=1e-4) for one, probe in zip(said, PROBES, strict=True)
    )
    if not gain or not straight:
        raise InputError(f"{who}: degrees must follow its output along a straight line to be fine-tuned here")
    return OutputScale(gain, offset)


def _said(say: Callable[[torch.Tensor], Value | Answer], row: torch.Tensor, who: str) -> float:
    return degrees_of(answer_of(say(row), who), who)


@dataclass(eq=False)
class Learner:
    """A network under training, its validation errors so far and its best weights."""

    net: nn.Module
    train: Inputs
    val: Inputs
    scale: OutputScale
    errors: list[float] = field(default_factory=list)
    best: int = 0
    _kept: dict[str, Any] = field(default_factory=dict)

    def learn(self, recipe: FineTuning, progress: Progress) -> str:
        """Train until done, leave the best weights in the network, and say why it ended."""
        optimiser = torch.optim.AdamW(self.net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
        self._measure()
        ended = f"all {recipe.passes} passes done"
        for number in range(1, recipe.passes + 1):
            progress.begin(f"pass {number} of {recipe.passes}", len(self.train.degrees))
            order = rng_for(recipe.seed, "retrain", "order", number).permutation(len(self.train.degrees))
            if not self._pass(order, recipe.batch, optimiser, progress):
                ended = f"the loss was no number in pass {number}; a smaller rate may help"
                break
            self._measure()
            if number - self.best >= recipe.patience:
                ended = f"no better for {recipe.patience} passes"
                break
        self.net.load_state_dict(self._kept)
        self.net.eval()
        return ended

    def _pass(self, order: Array, batch: int, optimiser: torch.optim.Optimizer, progress: Progress) -> bool:
        """One pass over the training set; False as soon as the loss is no number."""
        _train_mode(self.net)
        for start in range(0, len(order), batch):
            chosen = np.sort(order[start : start + batch])  # in the order of the file
            wanted = torch.from_numpy(self.scale.units(self.train.degrees[chosen]))
            loss = nn.functional.mse_loss(self.net(self.train.batch(chosen)).reshape(-1), wanted)
            if not torch.isfinite(loss):
                return False
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            progress.advance(len(chosen), 0)
        return True

    def _measure(self) -> None:
        self.net.eval()
        wanted, places = self.scale.units(self.val.degrees), np.arange(len(self.val.degrees))
        with torch.inference_mode():
            parts = [self.net(self.val.batch(places[at : at + AT_ONCE])) for at in range(0, len(places), AT_ONCE)]
        said = torch.cat(parts).reshape(-1).numpy().astype(np.float64)
        self.errors.append(self.scale.rad2(float(np.mean((said - wanted) ** 2))))
        better = math.isfinite(self.errors[-1]) and not self.errors[self.best] <= self.errors[-1]
        if better or len(self.errors) == 1:
            self.best = len(self.errors) - 1
            self._kept = deepcopy(self.net.state_dict())


def _train_mode(net: nn.Module) -> None:
    """Training mode, but for the statistics of normalised layers, which small batches would spoil."""
    net.train()
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
