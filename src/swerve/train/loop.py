"""The training loop: batches, AdamW, early stopping by the validation error, and checkpoints to resume from.

What is learnt is a `Task`: the loss on some samples, the validation error, and the batches of a pass.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from swerve.core.arguments import check_number, check_whole
from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.execution.engine import NoProgress, Progress
from swerve.store.files import make_folder, write_whole

HIGHEST_RATE = 10.0  # a learning rate above it is a typing mistake
STATE = "state"  # of the loop, as JSON in the header of a checkpoint
NET, BEST, AVERAGE, OPTIMISER, TORCH_RNG = "net.", "best.", "average.", "optimiser.", "torch_rng"
SETTLING = 20  # steps over which the average of the weights begins to remember


@dataclass(frozen=True)
class Recipe:
    """Passes, batch size and learning rate; `patience` passes without a better validation error end the training.

    With `one_cycle`, `rate` is the peak of a one-cycle schedule, otherwise it is constant. `average` is the decay of a
    moving average of the weights, which is then what is measured and kept; 0: there is none. `clip` is the largest norm
    of a gradient; 0: any.
    """

    passes: int = 20
    batch: int = 32
    rate: float = 1e-4
    decay: float = 0.0
    patience: int = 3
    one_cycle: bool = False
    betas: tuple[float, float] = (0.9, 0.999)  # of AdamW
    average: float = 0.0
    clip: float = 0.0

    def __post_init__(self) -> None:
        for name in ("passes", "batch", "patience"):
            check_whole(name, getattr(self, name), 1, error=InputError)
        check_number("average", self.average, 0, 1, error=InputError)
        check_number("clip", self.clip, 0, error=InputError)
        check_number("rate", self.rate, 0, HIGHEST_RATE, above=True, error=InputError)


@dataclass(frozen=True)
class Guard:
    """An error that may hardly grow: a pass is not kept if it exceeds that of the initial weights by more than `limit`."""

    measure: Callable[[], float]
    limit: float  # as a share


@dataclass(frozen=True)
class Task:
    """What a network learns. `batches` gives the sample numbers of each batch of a pass, the same number in every pass."""

    batches: Callable[[int], Sequence[Array]]
    loss: Callable[[Array], Tensor]
    validate: Callable[[], float]
    guard: Guard | None = None  # only where the initial weights compete


def shuffled(count: int, size: int, rng: np.random.Generator) -> Callable[[int], Sequence[Array]]:
    """Batches of about `size` of `count` samples, in another order drawn from `rng` in every pass."""
    return lambda _: np.array_split(rng.permutation(count), -(-count // size))


@dataclass(frozen=True)
class Fitted:
    """The validation error of every pass, the pass whose weights were kept, and why training stopped."""

    errors: tuple[float, ...]
    best: int  # 0: the initial weights
    stopped: str
    guarded: tuple[float, ...] = ()  # the guarded error of every pass
    minutes: float = field(default=0.0, compare=False)  # of CPU, with those before an interruption


@dataclass(frozen=True)
class Checkpoint:
    """Where a training saves its state after every pass and every so many steps; `stage` names one of several loops.

    `key` stands for everything that decides the weights (recipe, seed, data): a checkpoint with another key is refused.
    """

    folder: Path
    key: str
    stage: str = "training"
    every: int = 100  # steps

    @property
    def file(self) -> Path:
        """The file of this stage."""
        return self.folder / f"{self.stage}.safetensors"

    def save(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Write one file, whole or not at all: the tensors, and the JSON state in its header."""
        make_folder(self.folder, parents=True)
        kept = {name: part.detach().clone().contiguous() for name, part in tensors.items()}
        write_whole(self.file, save(kept, {STATE: json.dumps({"key": self.key, **state}, default=np.ndarray.tolist)}))

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """What was saved last, or None if there is nothing yet."""
        if not self.file.exists():
            return None
        try:
            with safe_open(self.file, "pt") as kept:
                state = json.loads(kept.metadata()[STATE])
                tensors = {name: kept.get_tensor(name) for name in kept.keys()}
                key = state["key"]
        except (SafetensorError, TypeError, KeyError, ValueError, RecursionError) as error:
            raise self.unusable(error) from error
        if key != self.key:
            raise InputError(
                f"{self.file}: belongs to a training with another recipe, seed or data; delete it to train from the start"
            )
        return state, tensors

    def unusable(self, why: Exception) -> InputError:
        """What to say of a file that is no checkpoint, or not a whole one."""
        first = (str(why).splitlines() or [""])[0]
        return InputError(f"{self.file}: not a checkpoint ({first}); delete it to train from the start")

    def remove(self) -> None:
        """Delete the files of all stages."""
        for file in self.folder.glob("*.safetensors"):
            file.unlink()
        if self.folder.exists():
            self.folder.rmdir()


def fit(
    net: nn.Module,
    task: Task,
    recipe: Recipe,
    *,
    rng: np.random.Generator | None = None,
    initial: bool = False,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fitted:
    """Train `net` and leave it with the weights of the smallest validation error; with `initial`, its own compete as pass 0.

    `rng` is the generator that the task draws from, so that a checkpoint can save it. A training that resumes from a
    checkpoint ends with the same bytes as one that was never stopped.
    """
    if task.guard and not initial:
        raise ValueError("a guard compares with the initial weights, which compete only with initial=True")
    loop = _Loop(net, task, recipe, rng or np.random.default_rng(0), initial, checkpoint)
    return loop.train(progress or NoProgress())


@dataclass(eq=False)
class _Loop:
    net: nn.Module
    task: Task
    recipe: Recipe
    rng: np.random.Generator
    initial: bool
    checkpoint: Checkpoint | None
    errors: list[float] = field(default_factory=list)
    guarded: list[float] = field(default_factory=list)
    best: int = 0  # place of the smallest error
    number: int = 1  # the pass
    step: int = 0  # batches of the pass that are done
    steps: int = 0  # of all passes
    seconds: float = 0.0  # of CPU, before this process
    pass_rng: Any = None  # the generator's state before the pass drew its order
    stopped: str = ""

    def __post_init__(self) -> None:
        self.started = time.process_time()
        recipe = self.recipe
        self.optimiser = torch.optim.AdamW(
            self.net.parameters(), lr=recipe.rate, betas=recipe.betas, weight_decay=recipe.decay
        )
        self.schedule: torch.optim.lr_scheduler.OneCycleLR | None = None
        self.best_weights = deepcopy(self.net.state_dict())
        self.average = deepcopy(self.net.state_dict()) if recipe.average else {}

    def train(self, progress: Progress) -> Fitted:
        saved = self.checkpoint.load() if self.checkpoint else None
        if self.checkpoint and saved:
            try:
                self._restore(*saved)
            except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
                raise self.checkpoint.unusable(error) from error
        elif self.initial:
            self._measure()
        while not self.stopped:
            self._pass(progress)
        self.net.load_state_dict(self.best_weights)
        self.net.eval()
        errors, guarded, minutes = tuple(self.errors), tuple(self.guarded), self._spent() / 60
        return Fitted(errors, self.best + (not self.initial), self.stopped, guarded, minutes)

    def _spent(self) -> float:
        """Seconds of CPU so far."""
        return self.seconds + time.process_time() - self.started

    def _pass(self, progress: Progress) -> None:
        """One pass, or the rest of one that was interrupted."""
        batches = self._batches()
        if self.recipe.one_cycle and self.schedule is None:
            self._start_schedule(len(batches))
        progress.begin(f"pass {self.number} of {self.recipe.passes}", sum(map(len, batches)))
        progress.advance(sum(map(len, batches[: self.step])), 0)
        for chosen in batches[self.step :]:
            if not self._step(chosen):
                self.stopped = f"the loss was not a finite number in pass {self.number}; try a smaller rate"
                break
            progress.advance(len(chosen), 0)
            self.step += 1
            if self.checkpoint and self.step % self.checkpoint.every == 0:
                self._save()
        else:
            self._end_pass()
        self._save()

    def _batches(self) -> Sequence[Array]:
        """The batches of the pass, drawn as they were before it was interrupted."""
        now = self.rng.bit_generator.state
        if self.step:
            self.rng.bit_generator.state = self.pass_rng
        else:
            self.pass_rng = now
        batches = self.task.batches(self.number)
        if self.step:
            self.rng.bit_generator.state = now
        return batches

    def _step(self, chosen: Array) -> bool:
        """One step of the optimiser; False if the loss is not finite."""
        self.net.train()
        loss = self.task.loss(chosen)
        if not torch.isfinite(loss):
            return False
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.recipe.clip:
            nn.utils.clip_grad_norm_(self.net.parameters(), self.recipe.clip)
        self.optimiser.step()
        self.steps += 1
        self._blend()
        if self.schedule:
            self.schedule.step()
        return True

    def _blend(self) -> None:
        """Add the weights of this step to their moving average, which forgets the initial ones quickly."""
        decay = min(self.recipe.average, self.steps / (self.steps + SETTLING))
        now = self.net.state_dict()
        for name, part in self.average.items():
            if part.dtype.is_floating_point:
                part.lerp_(now[name], 1 - decay)
            else:
                part.copy_(now[name])

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The network with the average of its weights, if there is one."""
        if not self.average:
            yield
            return
        now = deepcopy(self.net.state_dict())
        self.net.load_state_dict(self.average)
        try:
            yield
        finally:
            self.net.load_state_dict(now)

    def _end_pass(self) -> None:
        self._measure()
        if len(self.errors) - 1 - self.best >= self.recipe.patience:
            self.stopped = f"the validation error did not improve for {self.recipe.patience} passes"
        elif self.number == self.recipe.passes:
            self.stopped = f"all {self.recipe.passes} passes done"
        self.number, self.step = self.number + 1, 0

    def _measure(self) -> None:
        with self._averaged():
            self._compare()

    def _compare(self) -> None:
        """Measure the weights as they are, and keep them if they are the best so far."""
        self.errors.append(self.task.validate())
        now, least = self.errors[-1], self.errors[self.best]
        # Of equal passes the last is kept, but initial weights give way only to better ones.
        better = math.isfinite(now) and not (least <= now if self.initial else least < now)
        if guard := self.task.guard:
            self.guarded.append(guard.measure())
            better = better and self.guarded[-1] <= (1 + guard.limit) * self.guarded[0]
        if better or len(self.errors) == 1:
            self.best = len(self.errors) - 1
            self.best_weights = deepcopy(self.net.state_dict())

    def _start_schedule(self, steps: int) -> None:
        saved = [dict(group) for group in self.optimiser.param_groups]
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser, self.recipe.rate, total_steps=steps * self.recipe.passes
        )
        if done := (self.number - 1) * steps + self.step:
            # Everything else follows from the number of steps, but starting the schedule has reset the optimiser's numbers.
            self.schedule.last_epoch = done
            for group, numbers in zip(self.optimiser.param_groups, saved, strict=True):
                group.update(numbers)

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        optimiser = self.optimiser.state_dict()
        state = {
            "errors": [repr(error) for error in self.errors],
            "guarded": [repr(error) for error in self.guarded],
            "best": self.best,
            "pass": self.number,
            "step": self.step,
            "steps": self.steps,
            "seconds": self._spent(),
            "pass_rng": self.pass_rng,
            "rng": self.rng.bit_generator.state,
            "groups": optimiser["param_groups"],
            "stopped": self.stopped,
        }
        tensors = {f"{NET}{name}": part for name, part in self.net.state_dict().items()}
        tensors |= {f"{BEST}{name}": part for name, part in self.best_weights.items()}
        tensors |= {f"{AVERAGE}{name}": part for name, part in self.average.items()}
        for place, parts in optimiser["state"].items():
            tensors |= {f"{OPTIMISER}{place}.{name}": part for name, part in parts.items()}
        self.checkpoint.save(state, tensors | {TORCH_RNG: torch.get_rng_state()})

    def _restore(self, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.errors, self.guarded = ([float(error) for error in state[name]] for name in ("errors", "guarded"))
        self.best, self.steps, self.seconds = state["best"], state["steps"], state["seconds"]
        self.number, self.step, self.stopped = state["pass"], state["step"], state["stopped"]
        self.pass_rng, self.rng.bit_generator.state = state["pass_rng"], state["rng"]
        self.net.load_state_dict(_under(NET, tensors))
        self.best_weights, self.average = _under(BEST, tensors), _under(AVERAGE, tensors)
        self.optimiser.load_state_dict(self._optimiser_state(state["groups"], _under(OPTIMISER, tensors)))
        torch.set_rng_state(tensors[TORCH_RNG])

    def _optimiser_state(self, groups: Sequence[Mapping[str, Any]], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        parameters = [part for group in self.optimiser.param_groups for part in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for key, part in tensors.items():
            place, _, name = key.partition(".")
            like = parameters[int(place)]
            # In the parameter's memory layout: sums in another order round differently.
            kept = torch.empty_like(like).copy_(part) if part.shape == like.shape else part
            state.setdefault(int(place), {})[name] = kept
        # JSON has no tuples.
        plain = [{name: tuple(v) if name == "betas" else v for name, v in group.items()} for group in groups]
        return {"state": state, "param_groups": plain}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): part for name, part in tensors.items() if name.startswith(prefix)}


def save_weights(net: nn.Module, path: Path) -> None:
    """Write the weights in half precision, whole or not at all."""
    write_whole(path, save({name: part.half().contiguous() for name, part in net.state_dict().items()}))
