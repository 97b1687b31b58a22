"""The statistics that rates are reported with."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion: honest for small counts and for 0 of n, unlike the textbook one."""
    for name, count in (("successes", successes), ("trials", trials)):
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"{name} must be a whole number, got {type(count).__name__}")
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must lie from 0 to trials, got {successes} of {trials}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    if trials == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, spread = successes / trials, z * z / trials
    centre = (rate + spread / 2) / (1 + spread)
    reach = z * sqrt(rate * (1 - rate) / trials + spread / trials / 4) / (1 + spread)
    # Exactly 0 and 1 at the ends, where rounding would leave 1e-17.
    return max(centre - reach, 0.0) if successes else 0.0, min(centre + reach, 1.0) if successes < trials else 1.0
