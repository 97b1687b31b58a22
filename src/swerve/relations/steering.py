"""Comparisons of steering angles and other numbers a driving model says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from swerve.core.encode import CLOSE
from swerve.core.errors import InputError
from swerve.core.relation import Algebra, Correct, Equivariant, Pair, Verdict
from swerve.core.values import Signal, Steering, Value, find

if TYPE_CHECKING:
    from swerve.core.campaign import Observation


def _check_limit(name: str, value: object, *, above: bool = False) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < 0 or (above and value == 0):  # type: ignore[operator]
        raise ValueError(f"{name} must be a number {'above' if above else 'of at least'} 0, got {value!r}")


@dataclass(frozen=True)
class AngleWithin:
    """Two steering angles differ by less than `within` degrees (TA-9), or not at all where `within` is 0 (DT-23).

    "Not at all" allows for 0.0001°: another batch size moves the last bits of a network's sums.
    """

    within: float = 5.0
    slot: ClassVar[str] = Steering.slot

    def __post_init__(self) -> None:
        _check_limit("within", self.within)

    def compare(self, expected: Value, actual: Value) -> Verdict:
        wanted, said = _degrees(expected), _degrees(actual)
        why = f"{abs(said - wanted):.1f}° apart: {wanted:+.1f}° became {said:+.1f}° (limit {self.within:g}°)"
        # TA-9: |θo - θt| < ε holds, so the limit itself violates; the strict relation has no such gap.
        if self.within > 0:
            return Verdict.below(abs(said - wanted), self.within, why)
        return Verdict.at_most(abs(said - wanted), CLOSE, why)


@dataclass(frozen=True)
class SquaredError:
    """(label - angle)² ≤ λ·MSE of the system on the untouched cases (DT Eq. 2); `mse` in degrees², fixed by calibration."""

    factor: float = 5.0
    mse: float | None = None
    slot: ClassVar[str] = Steering.slot

    def __post_init__(self) -> None:
        _check_limit("factor", self.factor, above=True)
        if self.mse is not None:
            _check_limit("mse", self.mse, above=True)

    def calibrate(self, baseline: Sequence[Observation]) -> SquaredError:
        """With MSE_orig (DT-24) taken over every labelled, answered case."""
        if self.mse is not None:
            return self
        errors = [error for error in map(_label_error, baseline) if error is not None]
        if not errors:
            raise InputError("lambda-mse needs steering labels, and no answered case has one; use same-angle instead")
        mse = math.fsum(error * error for error in errors) / len(errors)
        if mse == 0:
            raise InputError("lambda-mse cannot judge: the system is exactly right on every case, so MSE_orig = 0")
        return SquaredError(self.factor, mse)

    def compare(self, expected: Value, actual: Value) -> Verdict:
        if self.mse is None:
            return Verdict.error("lambda-mse was not calibrated on a baseline")
        error, limit = _degrees(actual) - _degrees(expected), self.factor * self.mse
        reach = math.sqrt(limit)
        told = f"said {_degrees(actual):+.1f}°, label {_degrees(expected):+.1f}°"
        why = f"off by {abs(error):.1f}°: {told} (limit √(λ·MSE) = {reach:.1f}°)"
        judged = Verdict.at_most(error * error, limit, why)
        if judged.margin is None:
            return judged
        # The squares decide; the margin is told in degrees so that rules can be ranked side by side.
        margin = abs(error) - reach
        return Verdict(judged.status, max(margin, 0.0) if judged.margin > 0 else min(margin, 0.0), why)


@dataclass(frozen=True)
class SignalWithin:
    """Two signals of one name differ by at most `within`."""

    name: str
    within: float
    slot: ClassVar[str] = Signal.slot

    def __post_init__(self) -> None:
        _check_limit("within", self.within)

    def compare(self, expected: Value, actual: Value) -> Verdict:
        assert isinstance(expected, Signal)
        assert isinstance(actual, Signal)
        wanted, said = expected.value, actual.value
        why = f"{self.name} {wanted:g} became {said:g} (limit {self.within:g})"
        return Verdict.at_most(abs(said - wanted), self.within, why)


@dataclass(frozen=True)
class Decrease(Algebra):
    """A signal must fall by at least `by`: an ordered relation, such as speed in fog."""

    name: str
    by: float = 0.0

    def __post_init__(self) -> None:
        _check_limit("by", self.by)

    def check(self, pair: Pair) -> Verdict:
        before, after = find(pair.expected, Signal.slot, self.name), find(pair.after, Signal.slot, self.name)
        if not isinstance(before, Signal) or not isinstance(after, Signal):
            return Verdict.error(f"the system said no signal '{self.name}'")
        why = f"{self.name} {before.value:g} became {after.value:g} (must fall by {self.by:g})"
        return Verdict.at_least(before.value - after.value, self.by, why)

    def untouched(self, alone: Pair) -> None:
        """Nothing can be said: a fall takes two cases."""
        del alone


def same_angle(within: float = 5.0) -> Equivariant:
    """The steering angle stays within `within` degrees of the system's own answer on the source (TA-9, D-28)."""
    return Equivariant(AngleWithin(within))


def lambda_mse(factor: float = 5.0) -> Correct:
    """DeepTest's oracle, Eq. 2: the squared error stays at or below `factor` times the MSE on untouched cases."""
    return Correct(SquaredError(factor))


def _degrees(value: Value) -> float:
    assert isinstance(value, Steering)
    return value.degrees


def _label_error(seen: Observation) -> float | None:
    if seen.fault:
        return None
    label, said = find(seen.truth, Steering.slot), find(seen.said, Steering.slot)
    if label is None or said is None:
        return None
    return _degrees(said) - _degrees(label)
