"""How far changes of objects mislead a steering network: misleading angles, their rates, and the time to lane departure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swerve.analysis.angles import Angles
from swerve.analysis.statistics import wilson
from swerve.core.arguments import check_number
from swerve.core.values import Array

ALPHAS = (5.0, 7.0, 9.0)  # degrees (IA-12)
LOWER_ALPHAS = (1.0, 2.0, 3.0)  # where the paper's leave nothing to compare
LEEWAY, SPEED = 0.85, 50.0  # metres from a centred car of 1.8 m to the edge of a lane of 3.5 m; km/h (IA-13)


def misleading_angles(angles: Angles) -> Array:
    """The answer to each follow-up minus the answer before, degrees of the wheel, left positive."""
    return np.asarray(np.degrees(angles.after - angles.before))


@dataclass(frozen=True)
class MisleadingRate:
    """M1: how many of `tests` follow-ups moved the answer by more than `alpha` degrees; they have `originals` sources."""

    alpha: float
    misled: int
    tests: int
    originals: int

    @property
    def rate(self) -> float | None:
        """The share of misled tests; None without tests."""
        return self.misled / self.tests if self.tests else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its 95% Wilson interval; None without tests."""
        return wilson(self.misled, self.tests) if self.tests else None


def misleading_rates(angles: Angles, alphas: Sequence[float] = ALPHAS) -> list[MisleadingRate]:
    """M1 for each alpha: the share of follow-ups whose answer moved by strictly more, to either side."""
    # IA-12, D-13b, D-39
    moved, originals = np.abs(misleading_angles(angles)), len(np.unique(angles.case))
    return [MisleadingRate(alpha, int((moved > alpha).sum()), angles.count, originals) for alpha in alphas]


def usable_alphas(angles: Angles) -> tuple[float, ...]:
    """The paper's alphas, and lower ones if not one follow-up exceeds the paper's."""
    rates = misleading_rates(angles)
    return ALPHAS if any(rate.misled for rate in rates) else (*LOWER_ALPHAS, *ALPHAS)


def seconds_to_departure(heading: float, *, leeway: float = LEEWAY, speed: float = SPEED) -> float | None:
    """Seconds until a car that heads `heading` degrees off its lane has moved aside by `leeway` metres at `speed` km/h.

    None if it never does.
    """
    check_number("heading", heading, -90, 90)
    check_number("leeway", leeway, 0, above=True)
    check_number("speed", speed, 0, above=True)
    aside = speed / 3.6 * abs(math.sin(math.radians(heading)))
    return leeway / aside if aside else None


def seconds_to_departure_at_wheel(
    degrees: float, ratio: float | None, *, leeway: float = LEEWAY, speed: float = SPEED
) -> float | None:
    """The same for an error of the steering wheel; None without a declared `ratio` of wheel to road-wheel degrees."""
    # D-30
    if ratio is None:
        return None
    check_number("steering ratio", ratio, 0, above=True)
    return seconds_to_departure(min(max(degrees / ratio, -90.0), 90.0), leeway=leeway, speed=speed)


def departure_words(seconds: float | None) -> str:
    """Such as "0.70 s"; "n/a" where no ratio is declared or the car never leaves."""
    return "n/a" if seconds is None else f"{seconds:.2f} s"
