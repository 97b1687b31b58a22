from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.system import System
from swerve.core.values import Signal, Steering
from swerve.systems.function import FunctionSystem
from swerve.systems.torch import TorchSystem

CASES = [Case(str(number), {"speed": Signal("speed", number)}) for number in range(5)]


def speed(case: Case) -> float:
    return case.inputs["speed"].value


def steer(case: Case) -> Steering:
    return Steering(speed(case))


def steer_and_brake(case: Case) -> tuple[Steering, Signal]:
    return Steering(speed(case)), Signal("brake", 0.0)


class Counting(torch.nn.Module):
    """Doubles its input, and remembers the shape of every batch and whether it was training."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Linear(1, 1)
        self.scale.load_state_dict({"weight": torch.tensor([[2.0]]), "bias": torch.zeros(1)})
        self.drop = torch.nn.Dropout(0.9)
        self.seen: list[tuple[int, ...]] = []

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.seen.append(tuple(batch.shape))
        return self.drop(self.scale(batch))


def read(case: Case) -> torch.Tensor:
    return torch.tensor([speed(case)])


def say(row: torch.Tensor) -> Steering:
    assert not row.requires_grad
    return Steering(row.item())


def doubling() -> TorchSystem:
    return TorchSystem(Counting(), read, say)


@pytest.mark.parametrize("system", [FunctionSystem(steer), doubling()])
def test_systems_fulfil_the_protocol(system):
    assert isinstance(system, System)
    assert system([]) == []
    assert [len(answer) for answer in system(CASES)] == [1] * len(CASES)


def test_single_value_becomes_answer():
    assert FunctionSystem(steer)(CASES[:2]) == [(Steering(0.0),), (Steering(1.0),)]
    assert FunctionSystem(steer_and_brake)(CASES[1:2]) == [(Steering(1.0), Signal("brake", 0.0))]


@pytest.mark.parametrize("said", [3.0, None, (Steering(1.0), 2.0)])
def test_other_answers_are_refused(said):
    with pytest.raises(InputError, match=r"^pilot must return a Value"):
        FunctionSystem(lambda case: said, name="pilot")(CASES)


def test_function_fingerprint_follows_source():
    assert FunctionSystem(steer).fingerprint() == FunctionSystem(steer).fingerprint()
    others = [FunctionSystem(steer_and_brake), FunctionSystem(steer, name="other"), FunctionSystem(np.sin)]
    assert len({system.fingerprint() for system in [*others, FunctionSystem(steer)]}) == 4


def test_name_tells_closures_apart():
    one, two = (FunctionSystem(lambda case, n=n: Steering(n), name=f"always {n}") for n in (1, 2))
    assert one.fingerprint() != two.fingerprint()


def test_function_without_source_works():
    space: dict[str, object] = {"__name__": "made"}
    exec("def nothing(case): return ()", space)
    system = FunctionSystem(space["nothing"])
    assert system(CASES[:1]) == [()]
    assert system.fingerprint() != FunctionSystem(steer).fingerprint()


def test_callable_object_has_fingerprint():
    class Pilot:
        def __call__(self, case: Case) -> Steering:
            return steer(case)

    assert FunctionSystem(Pilot()).name.endswith("Pilot")
    assert FunctionSystem(Pilot()).fingerprint() == FunctionSystem(Pilot()).fingerprint()


def test_batch_is_one_pass():
    system = doubling()
    assert system(CASES) == [(Steering(2.0 * number),) for number in range(5)]
    assert system.net.seen == [(5, 1)]
    system([])
    assert len(system.net.seen) == 1


def test_net_stays_in_eval():
    system = doubling()
    assert not any(part.training for part in system.net.modules())
    system.net.train()
    assert system(CASES) == [(Steering(2.0 * number),) for number in range(5)]
    assert not any(part.training for part in system.net.modules())


def test_missing_rows_are_refused():
    system = TorchSystem(torch.nn.Flatten(0), read, say)
    system.net.forward = lambda batch: batch[:-1]
    with pytest.raises(ValueError, match="zip"):
        system(CASES)


def test_fingerprint_follows_weights():
    system = doubling()
    before = system.fingerprint()
    system(CASES)
    assert system.fingerprint() == before == doubling().fingerprint()
    with torch.no_grad():
        system.net.scale.bias += 1e-6
    assert system.fingerprint() != before


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_fingerprint_follows_precision(dtype):
    exact = doubling()
    exact.net.to(dtype)
    assert exact.fingerprint() != doubling().fingerprint()


def test_fingerprint_follows_reading():
    other = TorchSystem(Counting(), lambda case: 2 * read(case), say)
    assert other.fingerprint() != doubling().fingerprint()


def _make(gain):
    return lambda case: Steering(float(gain))


class _Gained:
    def __init__(self, gain):
        self.gain = gain

    def __call__(self, case):
        return Steering(float(self.gain))

    def say(self, case):
        return Steering(float(self.gain))


def _scaled(case, gain=1):
    return Steering(float(gain))


@pytest.mark.parametrize(
    "make", [_make, _Gained, lambda gain: _Gained(gain).say, lambda gain: functools.partial(_scaled, gain=gain)]
)
def test_what_a_function_remembers_counts(make):
    first, again, other = (FunctionSystem(make(gain)).fingerprint() for gain in (1, 1, 2))
    assert first == again
    assert first != other


def test_layers_without_weights_count():
    nets = [torch.nn.Sequential(torch.nn.ReLU()), torch.nn.Sequential(torch.nn.Sigmoid())]
    assert len({TorchSystem(net, _make(1), _make(1)).fingerprint() for net in nets}) == 2


def test_numbers_of_a_network_count():
    class Net(torch.nn.Module):
        def __init__(self, gain):
            super().__init__()
            self.gain = gain

    assert len({TorchSystem(Net(gain), _make(1), _make(1)).fingerprint() for gain in (1, -1, 1)}) == 2
