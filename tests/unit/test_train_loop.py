"""The training loop on small networks: the best weights are kept, and a stopped training resumes to the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.train.loop import Checkpoint, Fitted, Guard, Recipe, Task, fit, shuffled

pytestmark = pytest.mark.usefixtures("one_thread")


class Foretold:
    """A task whose validation errors are fixed in advance."""

    def __init__(self, errors: list[float], guarded: list[float] | None = None, limit: float = 0.5) -> None:
        self.net, self.errors, self.weights = nn.Linear(1, 1), iter(errors), []
        self.guard = Guard(iter(guarded).__next__, limit) if guarded else None

    def validate(self) -> float:
        self.weights.append(self.net.weight.item())
        return next(self.errors)

    def fit(self, recipe: Recipe, *, initial: bool = False) -> Fitted:
        rng = np.random.default_rng(0)
        loss = lambda chosen: (self.net(torch.ones(1, 1)) - 9).square().sum()  # noqa: E731
        task = Task(shuffled(4, recipe.batch, rng), loss, self.validate, self.guard)
        return fit(self.net, task, recipe, rng=rng, initial=initial)


def test_best_pass_is_kept() -> None:
    told = Foretold([3.0, 1.0, 2.0])
    fitted = told.fit(Recipe(passes=3, batch=1, rate=2e-3, one_cycle=True))
    assert told.net.weight.item() == told.weights[1] != told.weights[2]
    assert (fitted.best, fitted.stopped) == (2, "all 3 passes done")


def test_patience_ends_training() -> None:
    fitted = Foretold([1.0, 2.0, 2.0, 2.0, 0.0]).fit(Recipe(passes=5, patience=2))
    assert fitted.errors == (1.0, 2.0, 2.0)
    assert fitted.stopped == "the validation error did not improve for 2 passes"


def test_initial_weights_compete() -> None:
    told = Foretold([1.0, 2.0, 3.0])
    before = told.net.weight.item()
    fitted = told.fit(Recipe(passes=2, patience=9), initial=True)
    assert (fitted.best, fitted.errors) == (0, (1.0, 2.0, 3.0))
    assert told.net.weight.item() == before


def test_errors_that_are_no_numbers_are_never_better() -> None:
    told = Foretold([3.0, float("nan"), 1.0, float("nan")])
    assert told.fit(Recipe(passes=4, batch=1, patience=9)).best == 3
    assert told.net.weight.item() == told.weights[2]


def test_pass_beyond_the_guard_is_not_kept() -> None:
    told = Foretold([4.0, 1.0, 2.0, 3.0], guarded=[2.0, 3.1, 3.0, 2.0])
    fitted = told.fit(Recipe(passes=3, patience=9), initial=True)
    assert (fitted.best, fitted.guarded) == (2, (2.0, 3.1, 3.0, 2.0))  # 3.0 is just allowed
    assert told.net.weight.item() == told.weights[2]


def test_initial_weights_stay_if_the_guard_allows_no_pass() -> None:
    told = Foretold([4.0, 1.0, float("nan"), 2.0], guarded=[2.0, 9.0, float("nan"), 9.0])
    fitted = told.fit(Recipe(passes=3, patience=3), initial=True)
    assert (fitted.best, fitted.stopped) == (0, "the validation error did not improve for 3 passes")
    assert told.net.weight.item() == told.weights[0]


def test_what_is_kept_is_the_average_of_the_weights() -> None:
    # The weight grows from 0 by 1 a step; step n of the average keeps n / (n + 20) of what it was.
    told = Foretold([1.0, 0.0])
    with torch.no_grad():
        told.net.weight.zero_()
        told.net.bias.fill_(0.0)
    average = 0.0
    for number in range(1, 9):
        average += (1 - number / (number + 20)) * (number - average)
    rng = np.random.default_rng(0)
    task = Task(shuffled(4, 1, rng), lambda _: -told.net.weight.sum(), told.validate)
    fit(told.net, task, Recipe(passes=2, batch=1, rate=1.0, patience=9, average=0.999), rng=rng)
    assert told.net.weight.item() == pytest.approx(average, rel=1e-5)  # AdamW steps by its rate where gradients are equal


def test_large_gradients_are_clipped() -> None:
    net = nn.Linear(1, 1, bias=False)
    task = Task(shuffled(1, 1, np.random.default_rng(0)), lambda _: 1e4 * net.weight.sum(), lambda: 0.0)
    fit(net, task, Recipe(passes=2, batch=1, patience=9, clip=3.0))
    assert net.weight.grad is not None
    assert net.weight.grad.abs().item() == pytest.approx(3.0, rel=1e-4)


@pytest.mark.parametrize(("name", "value"), [("average", 1.5), ("average", -0.1), ("clip", -1.0)])
def test_impossible_recipes_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"'{name}'"):
        Recipe(**{name: value})


def test_guard_needs_initial_weights() -> None:
    with pytest.raises(ValueError, match="a guard compares with the initial weights"):
        Foretold([1.0], guarded=[1.0]).fit(Recipe(passes=1))


# --- resuming ------------------------------------------------------------------------------------------------------------

SAMPLES, BATCH = 20, 4
INPUTS = torch.from_numpy(rng_for("inputs").standard_normal((SAMPLES, 3, 8, 8)).astype(np.float32))
WANTED = INPUTS.mean(dim=(1, 2, 3))


class Stop(Exception):
    pass


class Noisy:
    """A network with everything that has a state: batch normalisation, dropout, and noise that the loss draws."""

    def __init__(self, recipe: Recipe, *, stop_after: int | None = None) -> None:
        torch.manual_seed(3)
        parts = (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 1))
        self.net = nn.Sequential(*parts).to(memory_format=torch.channels_last)
        self.recipe, self.rng, self.left = recipe, rng_for("noisy"), stop_after

    def loss(self, chosen: np.ndarray) -> torch.Tensor:
        if self.left == 0:
            raise Stop
        self.left = None if self.left is None else self.left - 1
        noise = torch.from_numpy(self.rng.normal(0, 0.1, (len(chosen), 3, 8, 8)).astype(np.float32))
        return nn.functional.mse_loss(self.net(INPUTS[chosen] + noise).squeeze(1), WANTED[chosen])

    def validate(self) -> float:
        self.net.eval()
        with torch.inference_mode():
            return float((self.net(INPUTS).squeeze(1) - WANTED).square().mean())

    def train(self, checkpoint: Checkpoint | None, *, initial: bool = False) -> tuple[Fitted, bytes, object]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            guard = Guard(lambda: 1 + self.net[0].weight.mean().item(), 0.001) if initial else None
            task = Task(shuffled(SAMPLES, BATCH, self.rng), self.loss, self.validate, guard)
            fitted = fit(self.net, task, self.recipe, rng=self.rng, initial=initial, checkpoint=checkpoint)
            weights = b"".join(part.contiguous().numpy().tobytes() for part in self.net.state_dict().values())
            return fitted, weights, (torch.get_rng_state().tolist(), str(self.rng.bit_generator.state))


CYCLE = Recipe(passes=4, batch=BATCH, rate=0.02, decay=0.01, patience=9, one_cycle=True)
STEADY = Recipe(passes=4, batch=BATCH, rate=0.01, patience=9)
BLEND = Recipe(passes=3, batch=BATCH, rate=0.02, patience=9, one_cycle=True, average=0.9, clip=0.5)


@pytest.mark.parametrize("recipe", [CYCLE, STEADY], ids=["one cycle", "constant rate"])
@pytest.mark.parametrize("stops", [(1,), (3,), (5,), (7, 6), (2, 2, 2, 2), (19,)], ids=str)
def test_resumed_training_has_the_same_bytes(tmp_path: Path, recipe: Recipe, stops: tuple[int, ...]) -> None:
    straight = Noisy(recipe).train(None, initial=True)
    checkpoint = Checkpoint(tmp_path / "net.checkpoint", "key", every=1)
    for steps in stops:
        with pytest.raises(Stop):
            Noisy(recipe, stop_after=steps).train(checkpoint, initial=True)
    assert Noisy(recipe).train(checkpoint, initial=True) == straight


@pytest.mark.parametrize("stop", [2, 5, 8])
def test_the_average_of_the_weights_resumes_too(tmp_path: Path, stop: int) -> None:
    checkpoint = Checkpoint(tmp_path / "net.checkpoint", "key", every=1)
    with pytest.raises(Stop):
        Noisy(BLEND, stop_after=stop).train(checkpoint)
    assert Noisy(BLEND).train(checkpoint) == Noisy(BLEND).train(None)


def test_minutes_of_an_interrupted_training_count(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "net.checkpoint", "key", every=1)
    with pytest.raises(Stop):
        Noisy(STEADY, stop_after=3).train(checkpoint)
    state, tensors = checkpoint.load() or pytest.fail("there is a checkpoint")
    checkpoint.save({name: item for name, item in state.items() if name != "key"} | {"seconds": 600.0}, tensors)
    assert Noisy(STEADY).train(checkpoint)[0].minutes > 10


def test_steps_since_the_checkpoint_are_trained_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "net.checkpoint", "key", every=3)
    with pytest.raises(Stop):
        Noisy(CYCLE, stop_after=5).train(checkpoint)
    assert Noisy(CYCLE).train(checkpoint) == Noisy(CYCLE).train(None)


def test_finished_training_is_not_repeated(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "net.checkpoint", "key")
    first = Noisy(STEADY).train(checkpoint)
    assert Noisy(STEADY, stop_after=0).train(checkpoint) == first


def test_other_training_s_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        Noisy(STEADY, stop_after=6).train(Checkpoint(tmp_path, "seed 1"))
    with pytest.raises(InputError, match="belongs to a training with another recipe, seed or data; delete it"):
        Noisy(STEADY).train(Checkpoint(tmp_path, "seed 2"))


def test_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "key")
    checkpoint.file.write_bytes(b"no checkpoint")
    with pytest.raises(InputError, match=r"not a checkpoint .*; delete it to train from the start"):
        Noisy(STEADY).train(checkpoint)


def test_checkpoint_is_one_file_with_readable_state(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "net.checkpoint", "key")
    with pytest.raises(Stop):
        Noisy(STEADY, stop_after=6).train(checkpoint)
    assert [file.name for file in checkpoint.folder.iterdir()] == ["training.safetensors"]
    data = checkpoint.file.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    state = json.loads(header["__metadata__"]["state"])
    assert (state["pass"], state["step"], len(state["errors"]), state["key"]) == (2, 0, 1, "key")
    checkpoint.remove()
    assert not checkpoint.folder.exists()
