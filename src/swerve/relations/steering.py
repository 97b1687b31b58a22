"""Comparisons of steering angles and of other numbers that a driving model predicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from swerve.core.arguments import check_number
from swerve.core.encode import CLOSE, CLOSE_RELATIVE
from swerve.core.errors import InputError
from swerve.core.origin import Attribution, LeastShift, origin_by_shift
from swerve.core.relation import Algebra, Correct, Equivariant, Pair, Verdict
from swerve.core.values import Signal, Steering, Value, find

if TYPE_CHECKING:
    from swerve.core.campaign import Observation


@dataclass(frozen=True)
class AngleWithin:
    """Two steering angles differ by less than `within` degrees, or not at all if `within` is 0.

    "Not at all" tolerates 0.0001°: another batch size changes the last bits of a network's sums.
    """

    # TA-9, DT-23
    within: float = 5.0
    slot: ClassVar[str] = Steering.slot

    def __post_init__(self) -> None:
        check_number("within", self.within, 0)

    def compare(self, expected: Value, actual: Value) -> Verdict:
        before, after = _degrees(expected), _degrees(actual)
        why = f"{abs(after - before):.1f}° apart: {before:+.1f}° became {after:+.1f}° (limit {self.within:g}°)"
        # TA-9: |θo - θt| < ε holds, so the limit itself violates; the strict relation allows no gap.
        if self.within > 0:
            return Verdict.below(abs(after - before), self.within, why)
        return Verdict.at_most(abs(after - before), CLOSE, why)


@dataclass(frozen=True)
class SquaredError:
    """(label - angle)² ≤ λ·MSE of the system on original cases (DeepTest Eq. 2); `mse` in degrees², set by calibration."""

    factor: float = 5.0
    mse: float | None = None
    slot: ClassVar[str] = Steering.slot

    def __post_init__(self) -> None:
        check_number("factor", self.factor, 0, above=True)
        if self.mse is not None:
            check_number("mse", self.mse, 0, above=True)

    def calibrate(self, baseline: Sequence[Observation]) -> SquaredError:
        """A copy with the MSE of all labelled cases that the system answered."""
        # DT-24: MSE_orig
        if self.mse is not None:
            return self
        errors = [error for error in map(_label_error, baseline) if error is not None]
        if not errors:
            raise InputError("lambda-mse needs steering labels, and no answered case has one; use same-angle instead")
        mse = math.fsum(error * error for error in errors) / len(errors)
        if mse == 0:
            raise InputError(
                "lambda-mse cannot judge: the system is exactly right on every case, so its MSE is 0; use same-angle instead"
            )
        return SquaredError(self.factor, mse)

    def compare(self, expected: Value, actual: Value) -> Verdict:
        if self.mse is None:
            return Verdict.error("lambda-mse was not calibrated on a baseline")
        error, limit = _degrees(actual) - _degrees(expected), self.factor * self.mse
        reach = math.sqrt(limit)
        angles = f"predicted {_degrees(actual):+.1f}°, label {_degrees(expected):+.1f}°"
        why = f"off by {abs(error):.1f}°: {angles} (limit √(λ·MSE) = {reach:.1f}°)"
        judged = Verdict.at_most(error * error, limit, why)
        if judged.margin is None:
            return judged
        # The squares decide; the margin is in degrees so that rules can be ranked together.
        margin = abs(error) - reach
        return Verdict(judged.status, max(margin, 0.0) if judged.margin > 0 else min(margin, 0.0), why)


@dataclass(frozen=True)
class SignalWithin:
    """Two signals of one name differ by at most `within`."""

    name: str
    within: float
    slot: ClassVar[str] = Signal.slot

    def __post_init__(self) -> None:
        check_number("within", self.within, 0)

    def compare(self, expected: Value, actual: Value) -> Verdict:
        assert isinstance(expected, Signal)
        assert isinstance(actual, Signal)
        before, after = expected.value, actual.value
        why = f"{self.name} {before:g} became {after:g} (limit {self.within:g})"
        return Verdict.at_most(abs(after - before), self.within, why)


@dataclass(frozen=True)
class DecisionAlike:
    """Two signals of one name lie on the same side of `threshold`: both brake, or neither does.

    Signals that agree to five digits are the same: another batch size may move the last bits across the threshold.
    """

    # TA-10
    name: str
    threshold: float = 0.5
    slot: ClassVar[str] = Signal.slot

    def __post_init__(self) -> None:
        check_number("threshold", self.threshold)

    def compare(self, expected: Value, actual: Value) -> Verdict:
        assert isinstance(expected, Signal)
        assert isinstance(actual, Signal)
        before, after = expected.value, actual.value
        why = f"{self.name} {before:g} became {after:g} (decided at {self.threshold:g})"
        differs = (before >= self.threshold) != (after >= self.threshold)
        differs = differs and not math.isclose(before, after, rel_tol=CLOSE_RELATIVE)
        distance = abs(after - self.threshold) if math.isfinite(before) else before
        return Verdict.below(distance, 0.0, why) if differs else Verdict.at_most(-distance, 0.0, why)


@dataclass(frozen=True)
class Decrease(Algebra):
    """A signal must decrease by at least `by`, such as the speed in fog."""

    name: str
    by: float = 0.0

    def __post_init__(self) -> None:
        check_number("by", self.by, 0)

    def check(self, pair: Pair) -> Verdict:
        before, after = find(pair.expected, Signal.slot, self.name), find(pair.after, Signal.slot, self.name)
        if not isinstance(before, Signal) or not isinstance(after, Signal):
            return Verdict.error(f"the system returned no signal '{self.name}'")
        why = f"{self.name} {before.value:g} became {after.value:g} (must fall by {self.by:g})"
        return Verdict.at_least(before.value - after.value, self.by, why)

    def untouched(self, alone: Pair) -> None:
        """No verdict: a decrease takes two cases."""
        del alone

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        """Introduced by the change that requires the decrease; marginal if it is short of the limit by the least shift."""
        short, shift = self.check(pair).margin or 0.0, least.of(Signal.slot, self.name)
        return Attribution(origin_by_shift(held=True, moved=short, grown=short, least=shift))


def same_angle(within: float = 5.0) -> Equivariant:
    """The steering angle stays within `within` degrees of the system's own answer on the source."""
    # TA-9, D-28
    return Equivariant(AngleWithin(within))


def lambda_mse(factor: float = 5.0) -> Correct:
    """DeepTest's oracle (Eq. 2): the squared error stays at or below `factor` times the MSE on original cases."""
    return Correct(SquaredError(factor))


def same_decision(name: str, threshold: float = 0.5) -> Equivariant:
    """A signal such as `brake` or `collision` stays on its side of `threshold`, that of the answer on the source."""
    return Equivariant(DecisionAlike(name, threshold))


def _degrees(value: Value) -> float:
    assert isinstance(value, Steering)
    return value.degrees


def _label_error(seen: Observation) -> float | None:
    if seen.fault:
        return None
    label, after = find(seen.truth, Steering.slot), find(seen.answer, Steering.slot)
    if label is None or after is None:
        return None
    return _degrees(after) - _degrees(label)
