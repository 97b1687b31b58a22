"""Misleading angles, their rates at the limit, and the time until a car leaves its lane."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.analysis.angles import Angles
from swerve.analysis.misleading import (
    ALPHAS,
    LOWER_ALPHAS,
    departure_words,
    misleading_angles,
    misleading_rates,
    seconds_to_departure,
    seconds_to_departure_at_wheel,
    usable_alphas,
)


def moved(*degrees: float, cases: tuple[int, ...] = ()) -> Angles:
    """Follow-ups whose answers moved from 0 by that many degrees."""
    count = len(degrees)
    case = np.array(cases or range(count), int)
    zero = np.zeros(count, int)
    names = tuple(f"case {number}" for number in range(count))
    return Angles(
        ("swap",), (("swap", "a"),), names, zero, zero, case, np.zeros(count), np.zeros(count), np.radians(degrees)
    )


@pytest.mark.parametrize(("heading", "seconds"), [(5, 0.702), (7, 0.502), (9, 0.391), (-5, 0.702)])
def test_the_paper_s_times_to_lane_departure(heading: float, seconds: float) -> None:
    assert seconds_to_departure(heading) == pytest.approx(seconds, abs=5e-4)


def test_a_car_that_heads_straight_never_departs() -> None:
    assert seconds_to_departure(0) is None
    assert departure_words(None) == "n/a"
    assert departure_words(0.702) == "0.70 s"


def test_wheel_angles_need_a_ratio() -> None:
    assert seconds_to_departure_at_wheel(75, None) is None
    assert seconds_to_departure_at_wheel(75, 15) == seconds_to_departure(5)
    assert seconds_to_departure_at_wheel(9000, 15) == seconds_to_departure(90)


@given(st.floats(0.1, 89), st.floats(0.1, 5), st.floats(1, 200))
def test_a_sharper_heading_departs_sooner(heading: float, leeway: float, speed: float) -> None:
    first, second = (seconds_to_departure(angle, leeway=leeway, speed=speed) for angle in (heading, heading + 0.5))
    assert first is not None
    assert second is not None
    assert second < first
    assert first == pytest.approx(leeway / (speed / 3.6 * math.sin(math.radians(heading))))


@pytest.mark.parametrize(("name", "value"), [("heading", 91), ("leeway", 0), ("speed", -1)])
def test_impossible_numbers_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        seconds_to_departure(**{"heading": 5.0, name: value})  # type: ignore[arg-type]


def test_rates_count_both_sides_and_strictly_more() -> None:
    at_limit = Angles(*[getattr(moved(1, 1), name) for name in Angles.__dataclass_fields__])
    exact = float(misleading_angles(at_limit)[0])
    assert [rate.misled for rate in misleading_rates(at_limit, (exact, np.nextafter(exact, 0)))] == [0, 2]
    rates = misleading_rates(moved(-9.5, 8, 6, -4, 0, cases=(0, 0, 1, 1, 2)))
    assert [(rate.alpha, rate.misled, rate.tests, rate.originals) for rate in rates] == [
        (5, 3, 5, 3),
        (7, 2, 5, 3),
        (9, 1, 5, 3),
    ]
    assert rates[0].rate == 0.6
    low, high = rates[0].interval or (1.0, 0.0)
    assert low < 0.6 < high


def test_the_last_test_counts() -> None:
    assert misleading_rates(moved(0, 0, 20))[0].misled == 1


def test_without_tests_there_is_no_rate() -> None:
    rate = misleading_rates(moved())[0]
    assert (rate.rate, rate.interval, rate.tests) == (None, None, 0)


def test_lower_alphas_are_used_where_the_paper_s_leave_nothing() -> None:
    assert usable_alphas(moved(1.5, 4.9)) == (*LOWER_ALPHAS, *ALPHAS)
    assert usable_alphas(moved(1.5, -5.1)) == ALPHAS


@given(st.lists(st.floats(-90, 90), min_size=1, max_size=30))
def test_rates_fall_with_alpha_and_ignore_the_sign(degrees: list[float]) -> None:
    counts = [rate.misled for rate in misleading_rates(moved(*degrees), (0, 1, 5, 9, 45))]
    assert counts == sorted(counts, reverse=True)
    assert counts == [rate.misled for rate in misleading_rates(moved(*(-angle for angle in degrees)), (0, 1, 5, 9, 45))]
