from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.analysis.statistics import wilson


@pytest.mark.parametrize(("lost", "low", "high"), [(27, 1.86, 3.90), (121, 10.22, 14.27), (335, 30.64, 36.48)])
def test_wilson_gives_published_intervals(lost: int, low: float, high: float) -> None:
    assert [round(100 * end, 2) for end in wilson(lost, 1000)] == [low, high]


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
    with pytest.raises(ValueError, match="from 0 to trials"):
        wilson(*counts)


@pytest.mark.parametrize("counts", [(1.0, 10), (1, 10.0), (True, 10)])
def test_counts_must_be_whole(counts: tuple[int, int]) -> None:
    with pytest.raises(TypeError, match="whole number"):
        wilson(*counts)


@pytest.mark.parametrize("confidence", [0, 1, 95, float("nan")])
def test_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        wilson(1, 10, confidence)
