"""What a number of a steering source or model means: its unit, its sign, and which wheel it turns (D-1, D-30)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from swerve.core.errors import InputError
from swerve.core.values import Steering

UNITS = {"degrees": 1.0, "radians": 180 / math.pi}


@dataclass(frozen=True)
class Convention:
    """How a source or a model counts steering; nothing has a default, since published systems differ in all of it.

    Args:
        unit: `degrees`, `radians`, or degrees of one unit for a model that says a share of something.
        positive: `left` or `right`.
        kind: `wheel`, the steering wheel, or `road`, the road wheels.
        ratio: degrees of the steering wheel for one of the road wheels; None where nobody declares it.
    """

    unit: str | float
    positive: str
    kind: str
    ratio: float | None

    def __post_init__(self) -> None:
        if isinstance(self.unit, str) and self.unit not in UNITS:
            raise InputError(f"steering: unit must be {', '.join(UNITS)} or degrees per unit, got {self.unit!r}")
        if not isinstance(self.unit, str) and not (math.isfinite(self.unit) and self.unit > 0):
            raise InputError(f"steering: degrees per unit must be above 0, got {self.unit!r}")
        if self.positive not in ("left", "right"):
            raise InputError(f"steering: positive must be left or right, got {self.positive!r}")
        if self.kind not in ("wheel", "road"):
            raise InputError(f"steering: kind must be wheel or road, got {self.kind!r}")
        if self.ratio is not None and not (math.isfinite(self.ratio) and self.ratio > 0):
            raise InputError(f"steering: ratio must be above 0, got {self.ratio!r}")
        if self.kind == "road" and self.ratio is None:
            raise InputError("steering: angles of the road wheels need a ratio to become those of the steering wheel")

    def steering(self, number: float) -> Steering:
        """`number` as degrees of the steering wheel, left positive."""
        degrees = number * (UNITS[self.unit] if isinstance(self.unit, str) else self.unit)
        return Steering(degrees * (1 if self.positive == "left" else -1) * self._turns)

    @property
    def _turns(self) -> float:
        """Degrees of the steering wheel for one of the wheel that is meant."""
        return 1.0 if self.kind == "wheel" or self.ratio is None else self.ratio

    def __str__(self) -> str:
        """In words, for cards and reports."""
        unit = self.unit if isinstance(self.unit, str) else f"units of {self.unit:g} degrees"
        wheel = "the steering wheel" if self.kind == "wheel" else "the road wheels"
        ratio = "no ratio declared" if self.ratio is None else f"ratio {self.ratio:g}"
        return f"{unit} of {wheel}, {self.positive} positive, {ratio}"
