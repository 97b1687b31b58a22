"""The statistics of reported results.

Nothing here returns NaN or warns: if the data do not allow a result, the numbers are None and `why` says so.
"""
#

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from swerve.core.arguments import check_whole
from swerve.core.values import Array

COHEN = ((0.2, "negligible"), (0.5, "small"), (0.8, "medium"), (math.inf, "large"))
VARGHA_DELANEY = ((0.06, "negligible"), (0.14, "small"), (0.21, "medium"), (math.inf, "large"))  # of |A12 - 0.5|
LANDIS_KOCH = (
    *((0.0, "poor"), (0.2, "slight"), (0.4, "fair"), (0.6, "moderate"), (0.8, "substantial")),
    (math.inf, "almost perfect"),
)
FEWEST_FOR_CHI2 = 25  # discordant pairs, below which McNemar's approximation is poor
MOST_SIGNED = 50  # pairs, up to which all signs are enumerated
MOST_SPLIT = 50  # numbers in two groups, up to which all splits are counted
MOST_PERMUTED = 8  # pairs, up to which all 40,320 orders are enumerated
AT_ONCE = 1_000_000  # numbers resampled at once
LARGEST = 1e100  # squares of larger numbers would overflow


@dataclass(frozen=True)
class StatisticalTest:
    """The result of a test on `n` observations: its statistic, the two-sided `p`, and the effect size with a label."""

    n: int
    statistic: float | None = None
    p: float | None = None
    effect: float | None = None
    label: str = ""
    why: str = ""  # why there is no result


@dataclass(frozen=True)
class Estimate:
    """An estimate from `n` observations, with a confidence interval and a label where there are any."""

    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    label: str = ""
    why: str = ""  # why there is no result


@dataclass(frozen=True)
class BoxPlot:
    """Median, quartiles and whiskers: the outermost values within 1.5 interquartile ranges; `outliers` lie beyond.

    `left_out` counts the numbers that were not finite.
    """

    n: int
    low: float
    first: float
    median: float
    third: float
    high: float
    outliers: int
    left_out: int = 0


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion, valid for small counts and for 0 of n."""
    _check_counts(successes=successes, trials=trials)
    if not 0 <= successes <= trials:
        raise ValueError(f"'successes' must be from 0 to 'trials', got {successes} of {trials}")
    z = _deviations(confidence)
    if trials == 0:
        return 0.0, 1.0
    rate, spread = successes / trials, z * z / trials
    centre = (rate + spread / 2) / (1 + spread)
    reach = z * math.sqrt(rate * (1 - rate) / trials + spread / trials / 4) / (1 + spread)
    # Exactly 0 and 1 at the ends, where rounding would leave 1e-17.
    return max(centre - reach, 0.0) if successes else 0.0, min(centre + reach, 1.0) if successes < trials else 1.0


def spearman(first: Sequence[float], second: Sequence[float]) -> StatisticalTest:
    """Spearman's rank correlation of pairs; `p` is exact up to 8 pairs and from Student's t beyond."""
    ours, theirs, why = _pairs(first, second, fewest=3)
    if why:
        return StatisticalTest(len(ours), why=why)
    if _constant(ours) or _constant(theirs):
        return StatisticalTest(len(ours), why="one of the two is constant, so there is no correlation")
    if len(ours) > MOST_PERMUTED:
        found = _scipy_stats().spearmanr(ours, theirs)
        least = 2 / math.factorial(min(len(ours), 100))  # of all orders, one agrees perfectly and one is its reverse
        return _outcome(len(ours), found.statistic, max(found.pvalue, least), effect=found.statistic)
    rho, p = _exact_spearman(_ranks(ours), _ranks(theirs))
    return _outcome(len(ours), rho, p, effect=rho)


def pearson(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Pearson's correlation of pairs, with its interval by Fisher's z."""
    reach = _deviations(confidence)
    ours, theirs, why = _pairs(first, second, fewest=4)
    if why:
        return Estimate(len(ours), why=why)
    if _constant(ours) or _constant(theirs):
        return Estimate(len(ours), why="one of the two is constant, so there is no correlation")
    found = min(max(float(np.corrcoef(ours, theirs)[0, 1]), -1.0), 1.0)
    if abs(found) == 1:
        return Estimate(len(ours), found, found, found)
    middle, half = math.atanh(found), reach / math.sqrt(len(ours) - 3)
    return Estimate(len(ours), found, math.tanh(middle - half), math.tanh(middle + half))


def spearman_interval(rho: float | None, n: int, confidence: float = 0.95) -> tuple[float | None, float | None]:
    """The interval of Spearman's ρ of `n` pairs, by Fisher's z with the variance of Bonett and Wright (2000)."""
    if rho is None or n < 4 or abs(rho) == 1:
        return None, None
    reach = _deviations(confidence) * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return math.tanh(math.atanh(rho) - reach), math.tanh(math.atanh(rho) + reach)


def rank_sum(first: Sequence[float], second: Sequence[float]) -> StatisticalTest:
    """Wilcoxon's rank-sum test of two groups (Mann and Whitney's U of the first); the effect is A12.

    `p` is exact up to 50 numbers in all, tied ranks included; beyond it is SciPy's, mostly from the normal distribution.
    """
    ours, theirs, why = _groups(first, second, fewest=1)
    n = len(ours) + len(theirs)
    if why:
        return StatisticalTest(n, why=why)
    effect = _a12(ours, theirs)
    if _constant(np.concatenate([ours, theirs])):
        return StatisticalTest(n, len(ours) * len(theirs) / 2, 1.0, effect, "negligible")
    if n <= MOST_SPLIT:
        p = _exact_rank_sum(_ranks(np.concatenate([ours, theirs])), len(ours))
    else:
        p = _scipy_stats().mannwhitneyu(ours, theirs, alternative="two-sided").pvalue
    label = _label(abs(effect - 0.5), VARGHA_DELANEY)
    return _outcome(n, effect * len(ours) * len(theirs), p, effect=effect, label=label)


def signed_rank(first: Sequence[float], second: Sequence[float]) -> StatisticalTest:
    """Wilcoxon's signed-rank test of pairs without equal ones; the effect is the rank-biserial one of first - second.

    `p` is exact up to 50 pairs, tied ranks included; beyond it is from the normal distribution.
    """
    ours, theirs, why = _pairs(first, second, fewest=1)
    if why:
        return StatisticalTest(len(ours), why=why)
    gaps = (ours - theirs)[ours != theirs]
    if not len(gaps):
        return StatisticalTest(len(ours), 0.0, 1.0, 0.0)
    ranks = _ranks(np.abs(gaps))
    rise, fall = float(ranks[gaps > 0].sum()), float(ranks[gaps < 0].sum())
    exact = len(gaps) <= MOST_SIGNED
    p = _exact_signed_rank(ranks, min(rise, fall)) if exact else _scipy_stats().wilcoxon(gaps).pvalue
    return _outcome(len(ours), min(rise, fall), p, effect=(rise - fall) / (rise + fall))


def sign_test(losses: int, gains: int) -> StatisticalTest:
    """The exact test of whether losses and gains are equally likely; the effect is the share of losses."""
    _check_counts(losses=losses, gains=gains)
    n = losses + gains
    if n == 0:
        return StatisticalTest(0, why="there are neither losses nor gains")
    return _outcome(n, losses, _scipy_stats().binomtest(losses, n).pvalue, effect=losses / n)


def mcnemar(only_first: int, only_second: int) -> StatisticalTest:
    """McNemar's test from the pairs in which only one of two is right; exact below 25 pairs, else χ² with correction."""
    _check_counts(only_first=only_first, only_second=only_second)
    n = only_first + only_second
    if n < FEWEST_FOR_CHI2:
        return sign_test(only_first, only_second) if n else StatisticalTest(0, why="the two never differ")
    statistic = max(abs(only_first - only_second) - 1, 0) ** 2 / n
    return _outcome(n, statistic, math.erfc(math.sqrt(statistic / 2)), effect=only_first / n)


def cohens_d(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """The first mean minus the second, in pooled standard deviations: negligible < 0.2, small < 0.5, medium < 0.8, large."""
    ours, theirs, why = _groups(first, second, fewest=2)
    n = len(ours) + len(theirs)
    if why:
        return Estimate(n, why=why)
    variance = float((len(ours) - 1) * ours.var(ddof=1) + (len(theirs) - 1) * theirs.var(ddof=1)) / (n - 2)
    if (_constant(ours) and _constant(theirs)) or variance == 0:
        alike = Estimate(n, 0.0, label="negligible")
        return alike if ours[0] == theirs[0] else Estimate(n, why="both groups are constant, so they have no spread")
    d = float(ours.mean() - theirs.mean()) / math.sqrt(variance)
    return Estimate(n, d, label=_label(abs(d), COHEN))


def a12(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Vargha and Delaney's A12: the probability that a value of the first group exceeds one of the second, ties half."""
    ours, theirs, why = _groups(first, second, fewest=1)
    n = len(ours) + len(theirs)
    if why:
        return Estimate(n, why=why)
    value = _a12(ours, theirs)
    return Estimate(n, value, label=_label(abs(value - 0.5), VARGHA_DELANEY))


def kappa(first: Sequence[Hashable], second: Sequence[Hashable], confidence: float = 0.95) -> Estimate:
    """Cohen's kappa of two raters, with the large-sample interval of Fleiss, Cohen and Everitt (1969)."""
    z = _deviations(confidence)
    if len(first) != len(second):
        raise ValueError(f"both raters must rate the same items, got {len(first)} and {len(second)} ratings")
    n, labels = len(first), list(dict.fromkeys([*first, *second]))
    if len(labels) < 2:
        return Estimate(n, why="nothing was rated" if not n else "all ratings are the same")
    shares = np.zeros((len(labels), len(labels)))
    for pair, count in Counter(zip(first, second, strict=True)).items():
        shares[labels.index(pair[0]), labels.index(pair[1])] = count / n
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    agreed, chance = float(np.trace(shares)), float(rows @ columns)
    value = (agreed - chance) / (1 - chance)
    kept = np.diag(shares) @ (1 - (rows + columns) * (1 - value)) ** 2
    apart = (shares - np.diag(np.diag(shares))) * (columns[:, None] + rows) ** 2
    variance = kept + (1 - value) ** 2 * apart.sum() - (value - chance * (1 - value)) ** 2
    error = math.sqrt(max(float(variance), 0.0) / n) / (1 - chance)
    return _agreement(n, value, z * error)


def fleiss_kappa(ratings: Sequence[Sequence[Hashable]], confidence: float = 0.95) -> Estimate:
    """Fleiss' kappa of several raters: one row of labels per item; the interval is the jackknife's over items."""
    z = _deviations(confidence)
    raters = {len(row) for row in ratings}
    if len(raters) > 1 or min(raters, default=2) < 2:
        raise ValueError(f"each item needs the same number of ratings, at least 2, got {sorted(raters)}")
    n, labels = len(ratings), list(dict.fromkeys(label for row in ratings for label in row))
    if n < 2 or len(labels) < 2:
        return Estimate(n, why="fewer than 2 items were rated" if n < 2 else "all ratings are the same")
    counts = np.array([[row.count(label) for label in labels] for row in map(list, ratings)], dtype=float)
    alike = (counts * (counts - 1)).sum(axis=1) / (counts.sum(axis=1) * (counts.sum(axis=1) - 1))
    value = float(_fleiss(alike.mean(), counts.mean(axis=0)))
    without = _fleiss((alike.sum() - alike) / (n - 1), (counts.sum(axis=0) - counts) / (n - 1))
    if not np.isfinite(without).all():
        return _agreement(n, value, None)
    return _agreement(n, value, z * math.sqrt((n - 1) / n * float(np.sum((without - without.mean()) ** 2))))


def mean_of_runs(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The mean over repeated runs with Student's t interval; a single run has no interval."""
    _deviations(confidence)
    numbers, why = _finite(values, fewest=1)
    if why:
        return Estimate(len(numbers), why=why)
    mean, n = float(numbers.mean()), len(numbers)
    if n == 1:
        return Estimate(n, mean, why="a single run has no spread")
    reach = float(_scipy_stats().t.ppf((1 + confidence) / 2, n - 1)) * float(numbers.std(ddof=1)) / math.sqrt(n)
    return Estimate(n, mean, mean - reach, mean + reach)


def paired_bootstrap(
    before: Sequence[float],
    after: Sequence[float],
    *,
    seed: int,
    groups: Sequence[Hashable] | None = None,
    resamples: int = 10_000,
    confidence: float = 0.95,
) -> Estimate:
    """The mean of after - before, with a percentile interval from resampled pairs, reproducible by `seed`.

    Pairs of one group, such as frames of one drive, are not independent: with `groups`, the group of every pair, whole
    groups are resampled.
    """
    _deviations(confidence)
    check_whole("resamples", resamples, 1)
    ours, theirs, why = _pairs(before, after, fewest=2)
    if why:
        return Estimate(len(ours), why=why)
    gaps, place = theirs - ours, _places(range(len(ours)) if groups is None else groups, len(ours))
    sums, counts = np.bincount(place, gaps), np.bincount(place)
    if len(sums) < 2:
        return Estimate(len(gaps), why=f"at least 2 groups are needed, and all {len(gaps)} pairs are in one")
    means = _resampled(sums, counts, np.random.default_rng(seed), resamples)
    low, high = np.quantile(means, _ends(confidence))
    return Estimate(len(gaps), float(gaps.mean()), float(low), float(high))


def ratio_of_means(
    before: Sequence[float],
    after: Sequence[float],
    *,
    seed: int,
    groups: tuple[Sequence[Hashable], Sequence[Hashable]],
    resamples: int = 10_000,
    confidence: float = 0.95,
) -> Estimate:
    """The mean of `after` divided by that of `before`, with a percentile interval; the samples need not be pairs.

    Whole groups are resampled, such as drives, of which each sample names one for every number.
    """
    _deviations(confidence)
    below, above, why = _groups(before, after, fewest=2)
    if why or not below.sum() > 0:
        return Estimate(len(above), why=why or "what it is divided by adds up to 0")
    place = _places([*groups[0], *groups[1]], len(below) + len(above))
    parts, most = (place[: len(below)], place[len(below) :]), int(place.max()) + 1
    picks = np.random.default_rng(seed).integers(0, most, (resamples, most))
    weights = ((parts[0], below), (parts[1], above), (parts[0], None), (parts[1], None))
    down, up, fewer, more = (np.bincount(part, own, most)[picks].sum(axis=1) for part, own in weights)
    drawn = (down > 0) & (more > 0)
    low, high = np.quantile((up[drawn] / more[drawn]) / (down[drawn] / fewer[drawn]), _ends(confidence))
    return Estimate(len(above), float(above.mean() / below.mean()), float(low), float(high))


def group_means(values: Sequence[float], groups: Sequence[Hashable]) -> list[float]:
    """The mean of each group's values, groups in order of first appearance."""
    place = _places(groups, len(values))
    return [float(mean) for mean in np.bincount(place, np.asarray(values, dtype=float)) / np.bincount(place)]


def box_plot(values: Sequence[float]) -> BoxPlot | None:
    """The numbers of a box plot, or None without a finite value."""
    given = np.asarray(values, dtype=float).ravel()
    numbers = given[np.isfinite(given)]
    if not len(numbers):
        return None
    first, median, third = (float(edge) for edge in np.quantile(numbers, [0.25, 0.5, 0.75]))
    reach = 1.5 * (third - first)
    inside = numbers[(numbers >= first - reach) & (numbers <= third + reach)]
    # Quartiles are interpolated, so the outermost value kept may lie inside the box; the whisker then has no length.
    low, high = min(float(inside.min()), first), max(float(inside.max()), third)
    return BoxPlot(len(numbers), low, first, median, third, high, len(numbers) - len(inside), len(given) - len(numbers))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's adjustment of several p-values, in the order given; None is left out."""
    known = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    if any(not 0 <= p <= 1 for p, _ in known):
        raise ValueError(f"p-values must lie from 0 to 1, got {list(ps)}")
    adjusted: list[float | None] = [None] * len(ps)
    largest = 0.0
    for done, (p, place) in enumerate(known):
        largest = max(largest, min((len(known) - done) * p, 1.0))
        adjusted[place] = largest
    return adjusted


def _scipy_stats() -> Any:
    """SciPy's tests, imported on demand because that takes a second."""
    from scipy import stats

    return stats


def _outcome(n: int, statistic: float, p: float, *, effect: float, label: str = "") -> StatisticalTest:
    return StatisticalTest(n, float(statistic), min(float(p), 1.0), float(effect), label)


def _agreement(n: int, value: float, reach: float | None) -> Estimate:
    label = _label(value, LANDIS_KOCH)
    if reach is None:
        return Estimate(n, value, label=label)
    return Estimate(n, value, max(value - reach, -1.0), min(value + reach, 1.0), label)


def _label(size: float, steps: Sequence[tuple[float, str]]) -> str:
    return next(label for limit, label in steps if round(size, 12) < limit)


def _deviations(confidence: float) -> float:
    """The number of standard deviations each way that contain the `confidence`."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _ends(confidence: float) -> tuple[float, float]:
    return (1 - confidence) / 2, (1 + confidence) / 2


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer):
            raise TypeError(f"{name} must be a whole number, got {type(count).__name__}")
        if count < 0 and name not in ("successes", "trials"):
            raise ValueError(f"{name} must be at least 0, got {count}")


def _finite(values: Sequence[float], *, fewest: int) -> tuple[Array, str]:
    """The numbers, and why they cannot be used, if they cannot."""
    numbers = np.asarray(values, dtype=float).ravel()
    odd = int(np.count_nonzero(~(np.abs(numbers) <= LARGEST)))
    if odd:
        return numbers, f"{odd} of {len(numbers)} numbers are not finite or beyond ±{LARGEST:g}"
    return numbers, "" if len(numbers) >= fewest else f"too few values: {len(numbers)}, at least {fewest} needed"


def _groups(first: Sequence[float], second: Sequence[float], *, fewest: int) -> tuple[Array, Array, str]:
    (ours, why), (theirs, reason) = _finite(first, fewest=fewest), _finite(second, fewest=fewest)
    faults = "; ".join(f"{name} group: {text}" for name, text in (("first", why), ("second", reason)) if text)
    return ours, theirs, faults


def _pairs(first: Sequence[float], second: Sequence[float], *, fewest: int) -> tuple[Array, Array, str]:
    if len(first) != len(second):
        raise ValueError(f"pairs need equally many first and second numbers, got {len(first)} and {len(second)}")
    (ours, why), (theirs, reason) = _finite(first, fewest=fewest), _finite(second, fewest=fewest)
    return ours, theirs, why or reason


def _places(groups: Sequence[Hashable], count: int) -> Array:
    """The number of every observation's group, from 0 in order of first appearance."""
    if len(groups) != count:
        raise ValueError(f"{count} observations need as many groups, got {len(groups)}")
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return np.array([numbers[group] for group in groups], dtype=int)


def _resampled(sums: Array, counts: Array, rng: np.random.Generator, resamples: int) -> Array:
    """Means over groups drawn with replacement."""
    rows = max(AT_ONCE // len(sums), 1)
    sizes = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    drawn = (rng.integers(0, len(sums), (size, len(sums))) for size in sizes)
    return np.concatenate([sums[picks].sum(axis=1) / counts[picks].sum(axis=1) for picks in drawn])


def _constant(numbers: Array) -> bool:
    return bool((numbers == numbers[0]).all())


def _ranks(numbers: Array) -> Array:
    """Ranks from 1, ties sharing their mean rank."""
    _, place, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def _a12(ours: Array, theirs: Array) -> float:
    """From the first group's rank sum, Vargha and Delaney (2000), Eq. 14."""
    total = float(_ranks(np.concatenate([ours, theirs]))[: len(ours)].sum())
    return (total / len(ours) - (len(ours) + 1) / 2) / len(theirs)


def _exact_spearman(ours: Array, theirs: Array) -> tuple[float, float]:
    """The rank correlation, and the share of all orders in which it is at least as strong."""
    ours, theirs = ours - ours.mean(), theirs - theirs.mean()
    orders = np.array(list(itertools.permutations(theirs)))
    scale = math.sqrt(float(ours @ ours) * float(theirs @ theirs))
    rho = float(ours @ theirs) / scale
    return rho, float(np.mean(np.abs(orders @ ours / scale) >= abs(rho) - 1e-12))


def _exact_rank_sum(ranks: Array, first: int) -> float:
    """The share of all splits whose first group's rank sum is as far from its mean; half ranks are doubled."""
    steps = np.rint(2 * ranks).astype(int)
    ways = np.zeros((first + 1, int(steps.sum()) + 1), np.int64)  # by the number taken, and their sum
    ways[0, 0] = 1
    for step in steps:
        ways[1:, step:] += ways[:-1, : ways.shape[1] - step].copy()
    away = np.abs(len(steps) * np.arange(ways.shape[1]) - first * int(steps.sum()))
    far = away >= abs(len(steps) * int(steps[:first].sum()) - first * int(steps.sum()))
    return int(ways[first, far].sum()) / math.comb(len(steps), first)


def _exact_signed_rank(ranks: Array, smaller: float) -> float:
    """The probability that random signs leave either rank sum at most `smaller`; half ranks are doubled."""
    ways = np.ones(1)
    for step in np.rint(2 * ranks).astype(int):
        ways = (np.pad(ways, (0, step)) + np.pad(ways, (step, 0))) / 2
    return min(2 * float(ways[: round(2 * smaller) + 1].sum()), 1.0)


def _fleiss(alike: Array, counts: Array) -> Array:
    """Fleiss' kappa from the agreement and the mean counts per label (last axis); NaN if there is only one label."""
    shares = counts / counts.sum(axis=-1, keepdims=True)
    room = 1 - (shares**2).sum(axis=-1)
    undefined = np.full(np.shape(room), np.nan)
    return np.asarray(np.divide(alike - 1 + room, room, out=undefined, where=room > 1e-12))
