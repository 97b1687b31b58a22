"""What a network's numbers mean: decoders, each a value, that word one case's outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np

from swerve.core.convention import Convention
from swerve.core.errors import InputError, did_you_mean
from swerve.core.values import LARGEST_NUMBER, Array, Signal, Steering, Value
from swerve.systems.preprocessing import ImageView

Outputs = Mapping[str, Array]  # one case's outputs by name, in the model's order, without the batch axis
PER_METRE = "per-metre"  # one divided by the radius of the path, in metres

# What the last layer leaves to do. NVIDIA's PilotNet ends in twice the arctangent, which its exports may lack.
ACTIVATIONS: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "none": lambda number: number,
        "sigmoid": lambda number: (1 + math.tanh(number / 2)) / 2,
        "tanh": math.tanh,
        "twice-arctan": lambda number: 2 * math.atan(number),
    }
)


@runtime_checkable
class Decoder(Protocol):
    """Words one output, or several."""

    def __call__(self, outputs: Outputs, view: ImageView) -> Value:
        """What the outputs say of the picture that was shown as `view`."""


def chosen(outputs: Outputs, which: str | int) -> Array:
    """One output by its name or its place."""
    if isinstance(which, str) and which in outputs:
        return outputs[which]
    if isinstance(which, int) and -len(outputs) <= which < len(outputs):
        return list(outputs.values())[which]
    raise InputError(f"the model has no output {which!r}; {did_you_mean(str(which), outputs)}")


def numbers_of(outputs: Outputs, which: str | int) -> Array:
    """One output as real numbers of double precision; raises `InputError` for anything that is none."""
    given: object = chosen(outputs, which)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise InputError(f"output {which!r} is no array of numbers but {type(given).__name__}") from error
    if array.dtype.kind not in "fiu":
        raise InputError(f"output {which!r} must hold real numbers, it holds {array.dtype}")
    return array.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class SteeringDecoder:
    """One number as an angle of the steering wheel; unit, sign and wheel have no default, published networks differ.

    Args:
        unit: `degrees`, `radians`, `per-metre` (1 / radius of the path), or degrees of one unit for a share of a maximum.
        positive: `left` or `right`.
        kind: `wheel`, the steering wheel, or `road`, the road wheels.
        ratio: degrees of the steering wheel for one of the road wheels; None where nobody declares it.
        wheelbase: metres from axle to axle, where the unit is `per-metre`.
        output: the name or place of the output.
        index: which of its numbers; None where it has but one.
        activation: what the last layer leaves to do: `none`, `tanh`, `sigmoid` or `twice-arctan`.
    """

    unit: str | float
    positive: str
    kind: str
    ratio: float | None = None
    wheelbase: float | None = None
    output: str | int = 0
    index: int | None = None
    activation: str = "none"

    def __post_init__(self) -> None:
        _check_activation(self.activation)
        if (self.unit == PER_METRE) != (self.wheelbase is not None):
            raise InputError(f"steering: unit {PER_METRE!r} and a wheelbase in metres belong together")
        if self.wheelbase is not None and not (math.isfinite(self.wheelbase) and self.wheelbase > 0):
            raise InputError(f"steering: wheelbase must be above 0, got {self.wheelbase!r}")
        if self.wheelbase is not None and self.kind != "road":
            raise InputError(f"steering: a path turns the road wheels, kind must be road, got {self.kind!r}")
        _ = self.convention  # checked now, not at the first answer

    def __call__(self, outputs: Outputs, view: ImageView) -> Steering:
        del view
        number = _number(outputs, self.output, self.index, self.activation)
        if self.wheelbase is not None and _sound(number):
            number = math.atan(self.wheelbase * number)
        return self.convention.steering(number)

    @cached_property
    def convention(self) -> Convention:
        """How the number counts, once a path is an angle."""
        unit = "radians" if self.wheelbase is not None else self.unit
        return Convention(unit, self.positive, self.kind, self.ratio)


@dataclass(frozen=True, kw_only=True)
class SignalDecoder:
    """One number as a signal called `name`, such as the probability of a collision."""

    name: str
    output: str | int = 0
    unit: str = ""
    index: int | None = None
    activation: str = "none"

    def __post_init__(self) -> None:
        _check_activation(self.activation)

    def __call__(self, outputs: Outputs, view: ImageView) -> Signal:
        del view
        return Signal(self.name, _number(outputs, self.output, self.index, self.activation), self.unit)


def _number(outputs: Outputs, which: str | int, index: int | None, activation: str) -> float:
    """One number of an output; a broken one is handed on as it is, since an activation would hide that (R20)."""
    numbers = numbers_of(outputs, which).reshape(-1)
    if index is None and len(numbers) != 1:
        raise InputError(f"output {which!r} holds {len(numbers)} numbers where one was expected; say which by index")
    place = index or 0
    if not -len(numbers) <= place < len(numbers):
        raise InputError(f"output {which!r} holds {len(numbers)} numbers, there is no index {place}")
    number = float(numbers[place])
    return ACTIVATIONS[activation](number) if _sound(number) else number


def _sound(number: float) -> bool:
    return math.isfinite(number) and abs(number) <= LARGEST_NUMBER


def _check_activation(given: str) -> None:
    if given not in ACTIVATIONS:
        raise InputError(f"activation = {given!r} is not known; {did_you_mean(str(given), ACTIVATIONS)}")
