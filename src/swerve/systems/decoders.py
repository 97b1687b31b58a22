"""Decoders, which turn a network's outputs for one case into values such as a steering angle."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Protocol, runtime_checkable

import numpy as np

from swerve.core.arguments import OneOfNames, check_known, check_number
from swerve.core.convention import SIDES, WHEELS, Convention
from swerve.core.errors import InputError, did_you_mean
from swerve.core.values import LARGEST_NUMBER, Array, Signal, Steering, Value
from swerve.systems.preprocessing import ImageView

Outputs = Mapping[str, Array]  # one case's outputs by name, in the model's order, without the batch axis
PER_METRE = "per-metre"  # curvature: one divided by the radius of the path in metres

# Activations that exports may lack. NVIDIA's PilotNet ends in twice the arctangent.
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
    """Turns one or several outputs into a value."""

    def __call__(self, outputs: Outputs, view: ImageView) -> Value:
        """The value that the outputs mean for the picture behind `view`."""


def select_output(outputs: Outputs, which: str | int) -> Array:
    """One output by name or index."""
    if isinstance(which, str) and which in outputs:
        return outputs[which]
    if isinstance(which, int) and -len(outputs) <= which < len(outputs):
        return list(outputs.values())[which]
    raise InputError(f"the model has no output {which!r}; {did_you_mean(str(which), outputs)}")


def numbers_of(outputs: Outputs, which: str | int) -> Array:
    """One output as double-precision numbers; raises `InputError` if it is not an array of real numbers."""
    given: object = select_output(outputs, which)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise InputError(f"output {which!r} must be an array of numbers, got {type(given).__name__}") from error
    if array.dtype.kind not in "fiu":
        raise InputError(f"output {which!r} must contain real numbers, got {array.dtype}")
    return array.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class SteeringDecoder:
    """One number as a steering angle; unit, sign and wheel have no defaults, as published networks differ.

    Args:
        unit: `degrees`, `radians`, `per-metre` (1 / radius of the path), or the degrees of one unit, such as a maximum.
        positive: `left` or `right`.
        kind: `wheel`, the steering wheel, or `road`, the road wheels.
        ratio: degrees of the steering wheel for one degree of the road wheels; None if unknown.
        wheelbase: metres between the axles, for the unit `per-metre`.
        output: the name or index of the output.
        index: which of its numbers to use; None if it has only one.
        activation: a missing last activation to apply: `none`, `tanh`, `sigmoid` or `twice-arctan`.
    """

    unit: str | float
    positive: Annotated[str, OneOfNames(*SIDES)]
    kind: Annotated[str, OneOfNames(*WHEELS)]
    ratio: float | None = None
    wheelbase: float | None = None
    output: str | int = 0
    index: int | None = None
    activation: Annotated[str, OneOfNames(*ACTIVATIONS)] = "none"

    def __post_init__(self) -> None:
        check_known("activation", self.activation, ACTIVATIONS)
        if (self.unit == PER_METRE) != (self.wheelbase is not None):
            raise InputError(
                f"steering: unit {PER_METRE!r} needs 'wheelbase', in metres; leave 'wheelbase' out with any other unit"
            )
        if self.wheelbase is not None:
            check_number("steering: wheelbase", self.wheelbase, 0, above=True, error=InputError)
        if self.wheelbase is not None and self.kind != "road":
            raise InputError(f"steering: unit {PER_METRE!r} needs kind = 'road', got {self.kind!r}")
        _ = self.convention  # validated now, not at the first answer

    def __call__(self, outputs: Outputs, view: ImageView) -> Steering:
        del view
        number = _number(outputs, self.output, self.index, self.activation)
        if self.wheelbase is not None and _is_plausible(number):
            number = math.atan(self.wheelbase * number)
        return self.convention.steering(number)

    @cached_property
    def convention(self) -> Convention:
        """The convention of the number, after a curvature has become an angle."""
        unit = "radians" if self.wheelbase is not None else self.unit
        return Convention(unit, self.positive, self.kind, self.ratio)


@dataclass(frozen=True, kw_only=True)
class SignalDecoder:
    """One number as a signal called `name`, such as the probability of a collision."""

    name: str
    output: str | int = 0
    unit: str = ""
    index: int | None = None
    activation: Annotated[str, OneOfNames(*ACTIVATIONS)] = "none"

    def __post_init__(self) -> None:
        check_known("activation", self.activation, ACTIVATIONS)

    def __call__(self, outputs: Outputs, view: ImageView) -> Signal:
        del view
        return Signal(self.name, _number(outputs, self.output, self.index, self.activation), self.unit)


def _number(outputs: Outputs, which: str | int, index: int | None, activation: str) -> float:
    """One number of an output; a faulty one is returned unchanged, since an activation would hide the fault."""
    # R20
    numbers = numbers_of(outputs, which).reshape(-1)
    if index is None and len(numbers) != 1:
        raise InputError(f"output {which!r} has {len(numbers)} numbers, expected one; set 'index' to choose one")
    place = index or 0
    if not -len(numbers) <= place < len(numbers):
        raise InputError(f"output {which!r} has {len(numbers)} numbers, so index {place} does not exist")
    number = float(numbers[place])
    return ACTIVATIONS[activation](number) if _is_plausible(number) else number


def _is_plausible(number: float) -> bool:
    return math.isfinite(number) and abs(number) <= LARGEST_NUMBER
