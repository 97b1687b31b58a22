"""Fine-tuning of a steering network on squared error, with early stopping.

The initial weights compete with those of every pass: the result is never worse than them on the validation set. A limit on
the error of untouched validation cases keeps a pass from being chosen that pays for follow-ups with them.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

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
from swerve.train.loop import Checkpoint, Guard, Recipe, Task, fit

PROBES = (0.0, 1.0, -0.75, 3.0)  # outputs of the network, whose angles must lie on a straight line
AT_ONCE = 128  # examples in one batch of validation


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned network; `errors` are its mean squared validation errors in rad², first of the initial weights."""

    # D-34
    system: TorchSystem
    errors: tuple[float, ...]
    best: int  # the pass whose weights were kept; 0: the initial ones
    ended: str  # why training stopped
    skipped: tuple[tuple[str, str], ...] = ()
    originals: tuple[float, ...] = ()  # the errors on untouched validation cases alone, if `worse` limits them
    worse: float | None = None

    def describe(self) -> str:
        """The pass that was kept and why training stopped, in words."""
        first, kept, refused = self.errors[0], self.errors[self.best], self._refused()
        if self.best:
            parts = [f"pass {self.best} of {len(self.errors) - 1} was kept: validation error {first:.3g} → {kept:.3g} rad²"]
        else:
            parts = ["the network is unchanged" if refused else "no pass improved validation: the network is unchanged"]
        if refused:
            passes = f"pass {', '.join(map(str, refused))} had a smaller validation error"
            parts.append(f"{passes}, but raised that of untouched cases by more than {self.worse:.0%}")
        return "; ".join((*parts, self.ended))

    def _refused(self) -> list[int]:
        """The passes with a smaller validation error than the kept one that raised the error on originals too far."""
        if self.worse is None:
            return []
        limit, least = (1 + self.worse) * self.originals[0], self.errors[self.best]
        pairs = enumerate(zip(self.errors, self.originals, strict=True))
        return [number for number, (error, original) in pairs if error < least and original > limit]


def torch_of(system: object) -> TorchSystem:
    """The torch system that `system` is or wraps."""
    inner = system if isinstance(system, TorchSystem) else getattr(system, "system", None)
    if isinstance(inner, TorchSystem):
        return inner
    raise InputError(
        f"{type(system).__name__} is not a torch network and cannot be fine-tuned; "
        "export the set with --export and train it with --command"
    )


def finetune(
    system: object,
    train: Source,
    val: Source,
    *,
    recipe: Recipe | None = None,
    seed: int = 0,
    worse: float | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    scratch_in: Path | None = None,
) -> Tuned:
    """A copy of `system` trained on `train`: the same seed gives the same weights; torch's own generator is left alone.

    Args:
        worse: the share by which the error on untouched validation cases may grow in a pass that is kept; None: any.
        scratch_in: the folder for temporary files, which hold the network's inputs; None: the system's.
    """
    original, recipe, progress = torch_of(system), recipe or Recipe(), progress or NoProgress()
    skipped: Skips = []
    net = deepcopy(original.net)
    with tempfile.TemporaryDirectory(prefix=".inputs-", dir=scratch_in) as scratch:
        inputs, held_out = (
            Inputs.read(original, source, Path(scratch) / name, progress=progress, skipped=skipped)
            for name, source in (("training", train), ("validation", val))
        )
        task = steering_task(net, inputs, held_out, scale_of(original, inputs), batch=recipe.batch, seed=seed, worse=worse)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fitted = fit(net, task, recipe, initial=True, progress=progress, checkpoint=checkpoint)
    tuned = TorchSystem(net, original.read, original.say, original.read_all)
    return Tuned(tuned, fitted.errors, fitted.best, fitted.stopped, tuple(skipped), fitted.guarded, worse)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The network's input for every example, on disk, the label in degrees, and whether it is an unchanged case."""

    tensors: Array
    degrees: Array
    untouched: Array

    @classmethod
    def read(cls, system: TorchSystem, source: Source, path: Path, *, progress: Progress, skipped: Skips) -> Inputs:
        """Every example of `source`, made once and stored in a file, so that memory does not grow with the set."""
        progress.begin(f"reading {path.name} set", len(source.keys()))
        angles: list[float] = []
        untouched: list[bool] = []
        shape: tuple[int, ...] = ()
        already = len(skipped)
        try:
            with path.open("wb") as file:
                for case in stream(source, skipped):
                    numbers = np.ascontiguousarray(system.read(case).numpy(), np.float32)
                    shape = _same_shape(numbers.shape, shape, case)
                    angles.append(degrees_of(case.truth, f"case '{case.key}'"))
                    untouched.append(case.parent is None)
                    file.write(numbers.data)
                    progress.advance(1, 0)
        except OSError as error:
            raise EnvironmentFault(f"{path}: the network's inputs cannot be stored: {error.strerror}") from error
        if not angles:
            why = f"none of its {len(source.keys())} cases can be used"
            first = f" (the first one: {skipped[already][1]})" if len(skipped) > already else ""
            raise InputError(f"the {path.name} set is empty: {why}{first}")
        tensors = np.memmap(path, np.float32, mode="r", shape=(len(angles), *shape))
        return cls(tensors, np.array(angles), np.array(untouched))

    def batch(self, chosen: Array) -> torch.Tensor:
        """Some examples as a tensor."""
        return torch.from_numpy(np.array(self.tensors[chosen]))


def _same_shape(shape: tuple[int, ...], before: tuple[int, ...], case: Case) -> tuple[int, ...]:
    if before and shape != before:
        shapes = " and ".join("x".join(map(str, one)) for one in (before, shape))
        raise InputError(f"'{case.key}': all inputs of the network must have the same shape, got {shapes}")
    return shape


def degrees_of(values: Sequence[Value], who: str) -> float:
    """The steering angle among `values`; `who` names their case or network in an error."""
    value = find(values, Steering.slot)
    if not isinstance(value, Steering):
        given = f"only {', '.join(value.slot for value in values)}" if values else "and no other value"
        raise InputError(
            f"{who} has no steering angle, {given}; fine-tuning needs a source and a system with steering angles"
        )
    if why := value.fault():
        raise InputError(f"{who} cannot be used for training: {why}")
    return value.degrees


@dataclass(frozen=True)
class OutputScale:
    """The line from the network's output to degrees of the wheel."""

    gain: float
    offset: float

    def units(self, degrees: Array) -> Array:
        """The output that corresponds to each angle."""
        return ((degrees - self.offset) / self.gain).astype(np.float32)

    def rad2(self, units: float) -> float:
        """A squared error of the output in squared radians of the wheel."""
        return units * math.radians(self.gain) ** 2


def scale_of(system: TorchSystem, inputs: Inputs) -> OutputScale:
    """The line along which `system.say` turns the output into degrees, found by probing it; raises if there is none."""
    net = system.net.eval()
    with torch.inference_mode():
        row = net(inputs.batch(np.arange(1)))[0]
    who = type(net).__name__
    if row.numel() != 1:
        raise InputError(f"network {who} has {row.numel()} outputs; only a network with a single output can be fine-tuned")
    angles = [_angle(system.say, torch.full_like(row, probe), who) for probe in PROBES]
    gain, offset = angles[1] - angles[0], angles[0]
    straight = all(
        math.isclose(angle, offset + gain * probe, rel_tol=1e-4, abs_tol=1e-4)
        for angle, probe in zip(angles, PROBES, strict=True)
    )
    if not gain or not straight:
        raise InputError(
            f"network {who} cannot be fine-tuned: the angle from 'say' must be a linear function of the network's output"
        )
    return OutputScale(gain, offset)


def _angle(say: Callable[[torch.Tensor], Value | Answer], row: torch.Tensor, who: str) -> float:
    return degrees_of(answer_of(say(row), who), f"the answer of network {who}")


def steering_task(
    net: nn.Module, train: Inputs, val: Inputs, scale: OutputScale, *, batch: int, seed: int, worse: float | None = None
) -> Task:
    """Squared error of the network's output; the validation error is in rad² of the wheel."""

    def batches(number: int) -> list[Array]:
        order = rng_for(seed, "retrain", "order", number).permutation(len(train.degrees))
        return [order[start : start + batch] for start in range(0, len(order), batch)]

    def loss(chosen: Array) -> torch.Tensor:
        _freeze_statistics(net)
        rows = np.sort(chosen)  # in the order of the file
        wanted = torch.from_numpy(scale.units(train.degrees[rows]))
        return nn.functional.mse_loss(net(train.batch(rows)).reshape(-1), wanted)

    def error_at(places: Array) -> float:
        net.eval()
        with torch.inference_mode():
            parts = [net(val.batch(places[at : at + AT_ONCE])) for at in range(0, len(places), AT_ONCE)]
        predicted = torch.cat(parts).reshape(-1).numpy().astype(np.float64)
        return scale.rad2(float(np.mean((predicted - scale.units(val.degrees[places])) ** 2)))

    untouched = np.flatnonzero(val.untouched)
    if worse is not None and not len(untouched):
        raise InputError(
            "--worse (the argument 'worse') needs untouched cases in the validation set, which has "
            "only follow-ups; leave it out"
        )
    guard = None if worse is None else Guard(lambda: error_at(untouched), worse)
    return Task(batches, loss, lambda: error_at(np.arange(len(val.degrees))), guard)


def _freeze_statistics(net: nn.Module) -> None:
    """Leave the statistics of batch normalisation as they are: small batches would spoil them."""
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
