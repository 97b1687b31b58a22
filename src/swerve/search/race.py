"""A race between a candidate and the best so far: how well can the candidate still do, after some of the scenes?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from scipy.stats import t as student

from swerve.core.values import Array


def rungs(first: int, total: int) -> Iterator[int]:
    """After how many scenes a candidate is judged: `first`, half as many more, and so on, at last all."""
    while first < total:
        yield first
        first += first // 2 or 1
    yield total


def highest_mean(differences: Array, total: int, confidence: float) -> float:
    """An upper bound of the mean difference over all `total` scenes, from a random part of them.

    The bound is Student's, one-sided, for a sample without replacement from a finite set: it is the mean itself once all
    scenes are known. The mean exceeds it with a probability of 1 - `confidence`, if the differences are not far from normal.
    """
    count = len(differences)
    mean = float(differences.mean())
    if count >= total:
        return mean
    if count < 2:
        return math.inf
    error = float(differences.std(ddof=1)) / math.sqrt(count) * math.sqrt((total - count) / (total - 1))
    return mean + float(student.ppf(confidence, count - 1)) * error


def most_coverage(grown: Sequence[tuple[int, float]], total: int) -> float:
    """An upper bound of the share that all `total` scenes newly cover; `grown` has what the first few covered, in order.

    Every further scene adds on average less than those before it, as more and more is covered already: less than the last
    scenes did, of which at least half are looked at.
    """
    count, new = grown[-1]
    before, old = next(((n, share) for n, share in reversed(grown) if 2 * n <= count), (0, 0.0))
    return min(1.0, new + (total - count) * (new - old) / (count - before))
