"""The steering convention of a data set or model: unit, sign, and steering wheel or road wheels (D-1, D-30)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from swerve.core.arguments import check_number
from swerve.core.errors import InputError
from swerve.core.values import Steering

UNITS = {"degrees": 1.0, "radians": 180 / math.pi}
SIDES, WHEELS = ("left", "right"), ("wheel", "road")


@dataclass(frozen=True)
class Convention:
    """How a source or a model expresses steering; there are no defaults, since published systems differ in every field.

    Args:
        unit: `degrees`, `radians`, or the number of degrees per unit, for a model with a normalised output.
        positive: `left` or `right`.
        kind: `wheel` for the steering wheel, `road` for the road wheels.
        ratio: steering-wheel degrees per road-wheel degree; None if not declared.
    """

    unit: str | float
    positive: str
    kind: str
    ratio: float | None

    def __post_init__(self) -> None:
        if isinstance(self.unit, str) and self.unit not in UNITS:
            raise InputError(
                f"steering: 'unit' must be {', '.join(UNITS)} or a number of degrees per unit, got {self.unit!r}"
            )
        if not isinstance(self.unit, str):
            check_number("steering: degrees per unit", self.unit, 0, above=True, error=InputError)
        if self.positive not in SIDES:
            raise InputError(f"steering: 'positive' must be 'left' or 'right', got {self.positive!r}")
        if self.kind not in WHEELS:
            raise InputError(f"steering: 'kind' must be 'wheel' or 'road', got {self.kind!r}")
        if self.ratio is not None:
            check_number("steering: ratio", self.ratio, 0, above=True, error=InputError)
        if self.kind == "road" and self.ratio is None:
            raise InputError("steering: kind = 'road' needs 'ratio', the steering-wheel degrees per road-wheel degree")

    def steering(self, number: float) -> Steering:
        """`number` converted to degrees of the steering wheel, left positive."""
        degrees = number * (UNITS[self.unit] if isinstance(self.unit, str) else self.unit)
        return Steering(degrees * (1 if self.positive == "left" else -1) * self._wheel_ratio)

    @property
    def _wheel_ratio(self) -> float:
        """Degrees of the steering wheel per degree in this convention."""
        return 1.0 if self.kind == "wheel" or self.ratio is None else self.ratio

    def __str__(self) -> str:
        """The convention in words, for model cards and reports."""
        unit = self.unit if isinstance(self.unit, str) else f"units of {self.unit:g} degrees"
        wheel = "the steering wheel" if self.kind == "wheel" else "the road wheels"
        ratio = "no ratio declared" if self.ratio is None else f"ratio {self.ratio:g}"
        return f"{unit} of {wheel}, {self.positive} positive, {ratio}"
