from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from swerve.analysis.statistics import (
    BoxPlot,
    Estimate,
    StatisticalTest,
    a12,
    box_plot,
    cohens_d,
    fleiss_kappa,
    group_means,
    holm,
    kappa,
    mcnemar,
    mean_of_runs,
    paired_bootstrap,
    pearson,
    rank_sum,
    ratio_of_means,
    sign_test,
    signed_rank,
    spearman,
    spearman_interval,
    wilson,
)

RNG = np.random.default_rng(3)
LEFT, RIGHT = RNG.normal(0, 1, 40).tolist(), RNG.normal(0.6, 1, 40).tolist()
small = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)
pairs = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=12)


@pytest.mark.parametrize(("lost", "low", "high"), [(27, 1.86, 3.90), (121, 10.22, 14.27), (335, 30.64, 36.48)])
def test_wilson_gives_published_intervals(lost: int, low: float, high: float) -> None:
    assert [round(100 * end, 2) for end in wilson(lost, 1000)] == [low, high]


def test_interval_of_rank_correlation_by_hand() -> None:
    """ρ = 0.5, n = 30: atanh 0.5 = 0.5493, the standard error √(1.125/27) = 0.2041."""
    low, high = spearman_interval(0.5, 30)
    assert (low, high) == pytest.approx(
        (math.tanh(0.549306 - 1.959964 * 0.204124), math.tanh(0.549306 + 1.959964 * 0.204124))
    )
    assert spearman_interval(-0.5, 30) == pytest.approx((-high, -low))  # type: ignore[operator]
    for rho, n in ((None, 30), (0.5, 3), (1.0, 30), (-1.0, 30)):
        assert spearman_interval(rho, n) == (None, None)


@given(st.floats(-0.99, 0.99), st.integers(4, 10_000))
def test_interval_of_rank_correlation_holds_it(rho: float, n: int) -> None:
    low, high = spearman_interval(rho, n)
    assert low is not None
    assert high is not None
    assert -1 <= low <= rho <= high <= 1


def test_numpy_counts_are_counts() -> None:
    assert wilson(np.int64(3), np.int32(10)) == wilson(3, 10)  # type: ignore[arg-type]
    assert sign_test(np.int64(3), np.int64(1)) == sign_test(3, 1)  # type: ignore[arg-type]


def test_perfect_order_is_never_certain() -> None:
    assert spearman(range(9), range(9)).p == pytest.approx(2 / math.factorial(9))
    assert 0 < (spearman(range(300), range(300)).p or 0) < 1e-100


def test_nothing_tried_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(0, 2000), st.integers(1, 2000))
def test_interval_holds_the_rate(lost: int, more: int) -> None:
    trials = lost + more - 1
    low, high = wilson(lost, trials)
    assert 0 <= low <= (lost / trials if trials else 0) <= high <= 1


@given(st.integers(0, 500), st.integers(0, 500))
def test_interval_mirrors_the_complement(lost: int, held: int) -> None:
    low, high = wilson(lost, lost + held)
    assert wilson(held, lost + held) == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_ends_are_exact() -> None:
    assert wilson(0, 40)[0] == 0.0
    assert wilson(40, 40)[1] == 1.0


def test_more_confidence_is_wider() -> None:
    assert wilson(5, 40, 0.99)[1] > wilson(5, 40, 0.95)[1] > wilson(5, 40, 0.5)[1]


@pytest.mark.parametrize("counts", [(-1, 10), (11, 10), (0, -1)])
def test_impossible_counts_are_refused(counts: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="from 0 to 'trials'"):
        wilson(*counts)


@pytest.mark.parametrize("counts", [(1.0, 10), (1, 10.0), (True, 10)])
def test_counts_must_be_whole(counts: tuple[int, int]) -> None:
    with pytest.raises(TypeError, match="whole number"):
        wilson(*counts)


@pytest.mark.parametrize("confidence", [0, 1, 95, float("nan")])
def test_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        wilson(1, 10, confidence)


@pytest.mark.parametrize(("lost", "won", "p"), [(27, 22, 0.57), (121, 98, 0.14)])
def test_sign_test_sees_flicker(lost: int, won: int, p: float) -> None:
    assert round(sign_test(lost, won).p or 0, 2) == p


def test_sign_test_sees_real_losses() -> None:
    assert 0 < (sign_test(335, 132).p or 0) < 1e-20


def test_sign_test_is_exact() -> None:
    assert sign_test(0, 3) == StatisticalTest(3, 0.0, 0.25, 0.0)
    assert sign_test(2, 2).p == 1.0
    assert sign_test(0, 0) == StatisticalTest(0, why="there are neither losses nor gains")


@given(st.integers(0, 60), st.integers(0, 60))
def test_sign_test_is_symmetric(lost: int, won: int) -> None:
    assert sign_test(lost, won).p == sign_test(won, lost).p


def test_few_discordant_pairs_are_exact() -> None:
    assert mcnemar(1, 5) == StatisticalTest(6, 1.0, pytest.approx(7 / 32), pytest.approx(1 / 6))
    assert mcnemar(0, 0) == StatisticalTest(0, why="the two never differ")


def test_many_discordant_pairs_use_chi2() -> None:
    told = mcnemar(10, 25)
    assert (told.statistic, told.p) == pytest.approx((14**2 / 35, stats.chi2.sf(14**2 / 35, 1)))
    assert mcnemar(12, 13).p == 1.0
    assert mcnemar(20, 20).p == 1.0


@pytest.mark.parametrize("test", [sign_test, mcnemar])
def test_negative_counts_are_refused(test: Callable[[int, int], StatisticalTest]) -> None:
    with pytest.raises(ValueError, match="must be at least 0, got -1"):
        test(-1, 3)
    with pytest.raises(TypeError, match="whole number"):
        test(1.5, 3)  # type: ignore[arg-type]


def test_pearson_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    first = rng.normal(size=40)
    second = 0.6 * first + rng.normal(size=40)
    theirs = stats.pearsonr(first, second)
    low, high = theirs.confidence_interval()
    found = pearson(first.tolist(), second.tolist())
    assert (found.value, found.low, found.high) == pytest.approx((theirs.statistic, low, high), abs=1e-9)
    assert pearson([1, 2, 3, 4], [2, 4, 6, 8]).value == pytest.approx(1)
    assert "constant" in pearson([1, 2, 3, 4], [5, 5, 5, 5]).why
    assert pearson([1, 2, 3], [1, 2, 3]).value is None


def test_spearman_agrees_with_scipy() -> None:
    told, theirs = spearman(LEFT, RIGHT), stats.spearmanr(LEFT, RIGHT)
    assert (told.statistic, told.p, told.n) == pytest.approx((theirs.statistic, theirs.pvalue, 40))


def test_few_pairs_correlate_exactly() -> None:
    assert spearman([1, 2, 3], [10, 20, 90]) == StatisticalTest(3, pytest.approx(1), pytest.approx(2 / 6), pytest.approx(1))
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]).p == pytest.approx(2 / 24)


@given(pairs)
def test_exact_spearman_equals_permutations(given_pairs: list[tuple[int, int]]) -> None:
    first, second = (list(map(float, side)) for side in zip(*given_pairs[:4], strict=True))
    told = spearman(first, second)
    if told.p is None:
        assert len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1
        return
    seen = [stats.spearmanr(first, order).statistic for order in itertools.permutations(second)]
    assert told.p == pytest.approx(np.mean(np.abs(seen) >= abs(told.statistic or 0) - 1e-9))


def test_rank_sum_agrees_with_scipy() -> None:
    told, theirs = rank_sum(LEFT, RIGHT[:30]), stats.mannwhitneyu(LEFT, RIGHT[:30])
    assert (told.statistic, told.p, told.n) == pytest.approx((theirs.statistic, theirs.pvalue, 70))
    assert told.effect == a12(LEFT, RIGHT[:30]).value


def test_small_rank_sum_is_exact() -> None:
    assert rank_sum([1, 2, 3], [4, 5, 6]) == StatisticalTest(6, 0.0, pytest.approx(2 / 20), 0.0, "large")


@given(small, small)
def test_rank_sum_tries_all_splits(first: list[float], second: list[float]) -> None:
    first, second = first[:5], second[:5]
    ranks = stats.rankdata([*first, *second])
    sums = np.array([ranks[list(split)].sum() for split in itertools.combinations(range(len(ranks)), len(first))])
    far = np.abs(sums - sums.mean()) >= abs(ranks[: len(first)].sum() - sums.mean()) - 1e-9
    assert rank_sum(first, second).p == pytest.approx(far.mean())


def test_untied_rank_sum_agrees_with_the_exact_one_of_scipy() -> None:
    for ours, theirs in ((LEFT[:8], RIGHT[:8]), (LEFT[:25], RIGHT[:25]), (LEFT[:3], RIGHT), (RIGHT[:11], LEFT[:30])):
        exact = stats.mannwhitneyu(ours, theirs, method="exact")
        told = rank_sum(ours, theirs)
        assert (told.statistic, told.p) == pytest.approx((exact.statistic, exact.pvalue))


def test_equal_groups_do_not_differ() -> None:
    assert rank_sum([7, 7], [7, 7, 7]) == StatisticalTest(5, 3.0, 1.0, 0.5, "negligible")
    assert signed_rank([7, 8], [7, 8]) == StatisticalTest(2, 0.0, 1.0, 0.0)


def test_signed_rank_agrees_with_scipy() -> None:
    told, theirs = signed_rank(LEFT, RIGHT), stats.wilcoxon(LEFT, RIGHT)
    assert (told.statistic, told.p) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_small_signed_rank_is_exact() -> None:
    assert signed_rank([1, 2, 3, 4, 9], [0, 0, 0, 0, 9]) == StatisticalTest(5, 0.0, pytest.approx(2 / 16), 1.0)


def test_many_pairs_agree_with_scipy() -> None:
    first, second = LEFT + RIGHT, RIGHT[::-1] + LEFT
    told, theirs = signed_rank(first, second), stats.wilcoxon(first, second)
    assert (told.statistic, told.p) == pytest.approx((theirs.statistic, theirs.pvalue))


@given(pairs)
def test_signed_rank_tries_all_signs(given_pairs: list[tuple[int, int]]) -> None:
    gaps = np.array([x - y for x, y in given_pairs[:8] if x != y], dtype=float)
    ranks, told = stats.rankdata(np.abs(gaps)), signed_rank(gaps, [0.0] * len(gaps))
    sums = np.array(list(itertools.product((0, 1), repeat=len(gaps)))) @ ranks
    lower = np.mean(sums <= ranks[gaps > 0].sum()), np.mean(sums >= ranks[gaps > 0].sum())
    assert told.p == (pytest.approx(min(2 * min(lower), 1)) if len(gaps) else None)


@given(pairs)
def test_signed_rank_mirrors_itself(given_pairs: list[tuple[int, int]]) -> None:
    first, second = zip(*given_pairs, strict=True)
    one, other = signed_rank(first, second), signed_rank(second, first)
    assert (one.p, one.effect) == pytest.approx((other.p, -(other.effect or 0)))


@given(small, small)
def test_a12_counts_the_wins(first: list[float], second: list[float]) -> None:
    wins = sum((x > y) + (x == y) / 2 for x in first for y in second)
    assert a12(first, second).value == pytest.approx(wins / len(first) / len(second))


@given(small, small)
def test_tests_never_give_nan(first: list[float], second: list[float]) -> None:
    for told in (
        rank_sum(first, second),
        cohens_d(first, second),
        spearman(first, first[::-1]),
        signed_rank(first, first[::-1]),
    ):
        numbers = [value for value in vars(told).values() if isinstance(value, float)]
        assert all(map(math.isfinite, numbers))
        assert bool(told.why) != bool(numbers)


@pytest.mark.parametrize(
    ("wins", "label"), [(55, "negligible"), (56, "small"), (63, "small"), (64, "medium"), (70, "medium"), (71, "large")]
)
def test_a12_labels_are_published_ones(wins: int, label: str) -> None:
    group = [1.0] * wins + [-1.0] * (100 - wins)
    assert a12(group, [0.0]) == Estimate(101, pytest.approx(wins / 100), label=label)
    assert a12([0.0], group).label == label


def test_cohens_d_is_pooled() -> None:
    assert cohens_d([1, 2, 3], [3, 4, 5]) == Estimate(6, -2.0, label="large")
    assert cohens_d([0, 2], [0, 2, 4]).value == pytest.approx(-1 / math.sqrt(10 / 3))


@pytest.mark.parametrize(
    ("gap", "label"),
    [(0.19, "negligible"), (0.2, "small"), (0.49, "small"), (0.5, "medium"), (0.79, "medium"), (0.8, "large")],
)
def test_cohens_labels_follow_limits(gap: float, label: str) -> None:
    spread = [-1.0, 0.0, 1.0]
    assert cohens_d([x + gap for x in spread], spread).label == label
    assert cohens_d(spread, [x + gap for x in spread]).label == label


def test_no_spread_has_no_d() -> None:
    assert cohens_d([0.1] * 3, [0.1] * 3) == Estimate(6, 0.0, label="negligible")
    assert cohens_d([0.1] * 3, [0.2] * 3) == Estimate(6, why="both groups are constant, so they have no spread")
    assert cohens_d([1e-200, 0], [0, 0]).value is None


@pytest.mark.parametrize("test", [spearman, rank_sum, signed_rank, cohens_d, a12])
@pytest.mark.parametrize("odd", [[], [math.nan, 1.0], [math.inf, 1.0], [1e200, 0.0]])
def test_odd_numbers_give_a_sentence(test: Callable[[Any, Any], Any], odd: list[float]) -> None:
    told = test(odd, odd)
    assert told.why
    assert (getattr(told, "p", None), getattr(told, "value", None)) == (None, None)


def test_sentence_counts_the_odd() -> None:
    assert cohens_d([1, 2], [1, math.nan]).why.startswith("second group: 1 of 2 numbers are not finite")
    assert spearman([1, 2], [3, 4]).why == "too few values: 2, at least 3 needed"
    assert spearman([1, 1, 1], [3, 4, 5]).why == "one of the two is constant, so there is no correlation"


@pytest.mark.parametrize("test", [spearman, signed_rank, lambda a, b: paired_bootstrap(a, b, seed=0)])
def test_pairs_must_be_pairs(test: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(ValueError, match="got 2 and 1"):
        test([1, 2], [1])


def rated(both_yes: int, only_first: int, only_second: int, both_no: int) -> tuple[list[str], list[str]]:
    counts = (both_yes, only_first, only_second, both_no)
    return tuple(  # type: ignore[return-value]
        [label for labels, count in zip(sides, counts, strict=True) for label in [labels] * count]
        for sides in ("yynn", "ynyn")
    )


def test_kappa_equals_the_textbook() -> None:
    told = kappa(*rated(20, 5, 10, 15))
    assert told == Estimate(
        50, pytest.approx(0.4), pytest.approx(0.1511, abs=1e-3), pytest.approx(0.6489, abs=1e-3), "moderate"
    )


def test_perfect_agreement_is_one() -> None:
    assert kappa(*rated(5, 0, 0, 5)) == Estimate(10, 1.0, 1.0, 1.0, "almost perfect")
    assert kappa(*rated(0, 5, 5, 0)).value == -1.0


def test_chance_agreement_is_zero() -> None:
    assert kappa(*rated(4, 4, 4, 4)).value == pytest.approx(0)


def test_one_label_has_no_kappa() -> None:
    assert kappa("aaa", "aaa") == Estimate(3, why="all ratings are the same")
    assert kappa([], []) == Estimate(0, why="nothing was rated")
    assert kappa("aaa", "bbb").value == 0.0
    with pytest.raises(ValueError, match="got 3 and 2 ratings"):
        kappa("aaa", "aa")


def test_kappa_interval_covers_resamples() -> None:
    first, second = map(np.array, rated(60, 15, 10, 40))
    told, rng = kappa(first.tolist(), second.tolist()), np.random.default_rng(0)
    picks = [rng.integers(0, 125, 125) for _ in range(2000)]
    spread = np.quantile([kappa(first[i].tolist(), second[i].tolist()).value for i in picks], [0.025, 0.975])
    assert (told.low, told.high) == pytest.approx(tuple(spread), abs=0.02)


# Fleiss (1971) as tabulated in textbooks: ten items, five labels, fourteen raters.
FLEISS = [
    *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
    *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
]


def test_fleiss_equals_the_textbook() -> None:
    rows = [[label for label, count in enumerate(item) for _ in range(count)] for item in FLEISS]
    told = fleiss_kappa(rows)
    assert round(told.value or 0, 3) == 0.210
    assert told.label == "fair"
    assert (told.low or 0) < 0.21 < (told.high or 0)


def test_fleiss_interval_is_the_jackknife() -> None:
    rows = ["aab", "abb", "aaa", "bbb", "aba", "bbb"]
    left = np.array([fleiss_kappa(rows[:place] + rows[place + 1 :]).value for place in range(6)])
    told, error = fleiss_kappa(rows), math.sqrt(5 / 6 * np.sum((left - left.mean()) ** 2))
    assert told.value is not None
    assert (told.low, told.high) == pytest.approx((told.value - 1.959964 * error, min(told.value + 1.959964 * error, 1)))


def test_fleiss_needs_a_choice() -> None:
    assert fleiss_kappa([["a", "a"], ["a", "a"]]) == Estimate(2, why="all ratings are the same")
    assert fleiss_kappa([["a", "b"]]) == Estimate(1, why="fewer than 2 items were rated")
    assert fleiss_kappa([]).value is None
    with pytest.raises(ValueError, match="same number of ratings"):
        fleiss_kappa([["a"], ["a", "b"]])


def test_fleiss_interval_may_be_missing() -> None:
    assert fleiss_kappa([["a", "a"], ["a", "a"], ["b", "b"]]) == Estimate(3, 1.0, label="almost perfect")


def test_perfect_fleiss_is_one() -> None:
    assert fleiss_kappa([["a"] * 3, ["a"] * 3, ["b"] * 3, ["b"] * 3]).value == pytest.approx(1)


def test_runs_have_a_t_interval() -> None:
    told, theirs = mean_of_runs([1, 2, 6]), stats.t.interval(0.95, 2, 3, stats.sem([1, 2, 6]))
    assert (told.value, told.low, told.high) == pytest.approx((3, *theirs))
    assert mean_of_runs([4]) == Estimate(1, 4.0, why="a single run has no spread")
    assert mean_of_runs([]).why == "too few values: 0, at least 1 needed"
    assert mean_of_runs([5, 5]) == Estimate(2, 5.0, 5.0, 5.0)


def test_bootstrap_repeats_with_its_seed() -> None:
    assert paired_bootstrap(LEFT, RIGHT, seed=5) == paired_bootstrap(LEFT, RIGHT, seed=5)
    assert paired_bootstrap(LEFT, RIGHT, seed=5).low != paired_bootstrap(LEFT, RIGHT, seed=6).low


def test_a_ratio_of_means_resamples_whole_groups() -> None:
    """Two drives, each drawn twice or not at all in half of the resamples: their own ratios are the ends."""
    groups = (["a", "a", "b"], ["a", "b", "b"])
    found = ratio_of_means([1.0, 3.0, 5.0], [4.0, 5.0, 15.0], seed=0, groups=groups)
    assert found.value == pytest.approx(8 / 3)
    assert (found.low, found.high) == (pytest.approx(4 / 2), pytest.approx(8 / 3))  # b alone: 10 / 5, a alone: 4 / 2
    assert ratio_of_means([1.0, 3.0], [2.0, 6.0], seed=0, groups=(["a", "b"], ["a", "b"])).low == pytest.approx(2)
    assert "adds up to 0" in ratio_of_means([0.0, 0.0], [1.0, 2.0], seed=0, groups=(["a"] * 2, ["a"] * 2)).why
    assert "too few" in ratio_of_means([1.0], [1.0, 2.0], seed=0, groups=(["a"], ["a"] * 2)).why


def test_bootstrap_interval_is_near_normal() -> None:
    gaps = np.array(RIGHT) - LEFT
    told, reach = paired_bootstrap(LEFT, RIGHT, seed=1), 1.96 * gaps.std() / math.sqrt(40)
    assert (told.value, told.low, told.high) == pytest.approx(
        (gaps.mean(), gaps.mean() - reach, gaps.mean() + reach), abs=0.03
    )


def test_bootstrap_of_constant_gap() -> None:
    assert paired_bootstrap([1, 2, 3], [2, 3, 4], seed=0) == Estimate(3, 1.0, 1.0, 1.0)
    assert paired_bootstrap([1], [2], seed=0).why == "too few values: 1, at least 2 needed"
    with pytest.raises(ValueError, match="'resamples' must be a whole number of at least 1"):
        paired_bootstrap([1, 2], [2, 3], seed=0, resamples=0)


def test_bootstrap_splits_large_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = paired_bootstrap(LEFT, RIGHT, seed=2, resamples=95)
    monkeypatch.setattr("swerve.analysis.statistics.AT_ONCE", 400)
    assert paired_bootstrap(LEFT, RIGHT, seed=2, resamples=95) == whole


def test_bootstrap_of_groups_of_one_is_the_plain_one() -> None:
    assert paired_bootstrap(LEFT, RIGHT, seed=5, groups=range(40)) == paired_bootstrap(LEFT, RIGHT, seed=5)


def test_bootstrap_draws_whole_groups() -> None:
    once, thrice = (LEFT, RIGHT), (np.repeat(LEFT, 3).tolist(), np.repeat(RIGHT, 3).tolist())
    groups = [f"scene {number // 3}" for number in range(120)]
    told, plain = paired_bootstrap(*thrice, seed=5, groups=groups), paired_bootstrap(*once, seed=5)
    assert (told.low, told.high) == pytest.approx((plain.low, plain.high))  # copies of a frame tell nothing new
    naive = paired_bootstrap(*thrice, seed=5)
    assert naive.high - naive.low < 0.7 * (told.high - told.low)  # type: ignore[operator]


def test_bootstrap_weighs_groups_by_their_size() -> None:
    told = paired_bootstrap([0, 0, 0, 0], [1, 1, 1, 5], seed=0, groups=["a", "a", "a", "b"])
    assert told == Estimate(4, 2.0, 1.0, 5.0)


def test_bootstrap_needs_two_groups() -> None:
    told = paired_bootstrap([1, 2, 3], [2, 3, 5], seed=0, groups=["a"] * 3)
    assert told == Estimate(3, why="at least 2 groups are needed, and all 3 pairs are in one")
    with pytest.raises(ValueError, match="3 observations need as many groups, got 2"):
        paired_bootstrap([1, 2, 3], [2, 3, 5], seed=0, groups=["a", "b"])


def test_group_means_come_in_order() -> None:
    assert group_means([1, 10, 3], ["b", "a", "b"]) == [2.0, 10.0]


def test_box_plot_marks_outliers() -> None:
    assert box_plot([1, 2, 3, 4, 5, 100]) == BoxPlot(6, 1, 2.25, 3.5, 4.75, 5, outliers=1)
    assert box_plot([7]) == BoxPlot(1, 7, 7, 7, 7, 7, outliers=0)
    assert box_plot([]) is None


def test_box_plot_counts_what_is_odd() -> None:
    assert box_plot([1, math.nan, 3, math.inf]) == BoxPlot(2, 1, 1.5, 2, 2.5, 3, outliers=0, left_out=2)
    assert box_plot([math.nan]) is None


def test_whisker_never_enters_the_box() -> None:
    assert box_plot([0, 10, 10, 10]) == BoxPlot(4, 7.5, 7.5, 10, 10, 10, outliers=1)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_box_plot_is_in_order(values: list[float]) -> None:
    told = box_plot(values)
    assert told is not None
    assert min(values) <= told.low <= told.first <= told.median <= told.third <= told.high <= max(values)


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, None, 0.6]) == [1.0, None, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("odd", [-0.1, 1.1, math.nan])
def test_holm_refuses_impossible_values(odd: float) -> None:
    with pytest.raises(ValueError, match="p-values must lie from 0 to 1"):
        holm([0.5, odd])
