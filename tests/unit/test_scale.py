from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.report.axis import LARGEST, LEAST, AxisScale, drawable, fitted, spell_number

NUMBERS = st.floats(-1e99, 1e99, allow_nan=False).map(lambda number: drawable(number) or 0.0)
POSITIVE = st.floats(1e-90, 1e90)


def texts(scale: AxisScale) -> list[str]:
    return [told for _, told in scale.ticks()]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0.02, 0.335), ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30", "0.35"]),
        ((1, 10), ["0", "2", "4", "6", "8", "10"]),
        ((5, 29649), ["0", "5,000", "10,000", "15,000", "20,000", "25,000", "30,000"]),
        ((-5, 7), ["-6", "-4", "-2", "0", "2", "4", "6", "8"]),
        ((-0.3, -0.1), ["-0.30", "-0.25", "-0.20", "-0.15", "-0.10", "-0.05", "0.00"]),
        ((97, 98), ["97.0", "97.2", "97.4", "97.6", "97.8", "98.0"]),
        ((0, 0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ((3, 3), ["2.7", "2.8", "2.9", "3.0", "3.1", "3.2", "3.3"]),
        ((1e6, 3e7), ["0", "5e6", "1.0e7", "1.5e7", "2.0e7", "2.5e7", "3.0e7"]),
        ((1e-9, 3e-9), ["0", "5e-10", "1.0e-9", "1.5e-9", "2.0e-9", "2.5e-9", "3.0e-9"]),
        ((1e7 + 1, 1e7 + 5), ["10,000,001", "10,000,002", "10,000,003", "10,000,004", "10,000,005"]),
    ],
)
def test_ticks_are_round(numbers: tuple[float, ...], expected: list[str]) -> None:
    assert texts(fitted(numbers, 0, 500)) == expected


def test_percent_ticks() -> None:
    assert texts(fitted([0.1, 0.98], 0, 500, percent=True)) == ["0%", "20%", "40%", "60%", "80%", "100%"]
    assert texts(fitted([0.0001, 0.0008], 0, 500, percent=True)) == ["0.00%", "0.02%", "0.04%", "0.06%", "0.08%"]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((10, 1000), ["10", "20", "50", "100", "200", "500", "1,000"]),
        ((3, 50), ["2", "5", "10", "20", "50"]),
        ((0.001, 1e9), ["0.001", "0.1", "10", "1,000", "100,000", "1e7", "1e9"]),
        ((10, 20), ["10", "20"]),
    ],
)
def test_log_ticks_are_round(numbers: tuple[float, ...], expected: list[str]) -> None:
    assert texts(fitted(numbers, 0, 500, log=True)) == expected


def test_zero_can_be_asked_for() -> None:
    assert fitted([97, 98], 0, 500, zero=True).low == 0
    assert fitted([1, 98], 0, 500, zero=False).low == 0  # the next round number below, not zero for its own sake
    assert fitted([30, 98], 0, 500, zero=False).low == 30
    assert fitted([30, 98], 0, 500).low == 0


def test_ends_lie_at_the_ends() -> None:
    scale = AxisScale(2, 4, 100, 300)
    assert [scale(number) for number in (2, 3, 4)] == [100, 200, 300]
    assert AxisScale(2, 4, 300, 100)(2.5) == 250
    assert [AxisScale(1, 100, 0, 200, log=True)(number) for number in (1, 10, 100)] == [0, 100, 200]


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.sampled_from([None, True, False]), st.booleans())
def test_all_numbers_fit(numbers: list[float], zero: bool | None, percent: bool) -> None:
    scale = fitted(numbers, 40, 560, zero=zero, percent=percent)
    assert scale.low < scale.high
    assert all(39.9 <= scale(number) <= 560.1 for number in numbers)
    places = [place for place, _ in scale.ticks()]
    assert 2 <= len(places) <= scale.most + 3
    assert places == sorted(set(places))


@given(st.lists(POSITIVE, min_size=1, max_size=6))
def test_all_numbers_fit_a_log_axis(numbers: list[float]) -> None:
    scale = fitted(numbers, 40, 560, log=True)
    assert all(39.9 <= scale(number) <= 560.1 for number in numbers)
    places = [place for place, _ in scale.ticks()]
    assert 2 <= len(places) <= scale.most + 2
    assert places == sorted(set(places))


@given(st.floats(-1e6, 1e6), st.floats(0.001, 1e6))
def test_ticks_say_where_they_are(low: float, span: float) -> None:
    scale = fitted([low, low + span], 0, 500)
    for place, told in scale.ticks():
        assert abs(scale(float(told.replace(",", ""))) - place) <= 1


@given(st.floats(-1e6, 1e6), st.floats(0.001, 1e6))
def test_ticks_differ_in_text(low: float, span: float) -> None:
    told = texts(fitted([low, low + span], 0, 500))
    assert len(set(told)) == len(told)


def test_drawable_numbers() -> None:
    assert drawable(3) == 3.0
    assert drawable(1e-200) == 0.0
    assert drawable(LARGEST) == LARGEST
    for number in (None, math.nan, math.inf, -math.inf, 2 * LARGEST):
        assert drawable(number) is None
    assert drawable(0.0, log=True) is None
    assert drawable(-1.0, log=True) is None
    assert drawable(LEAST, log=True) == LEAST


def test_numbers_in_words() -> None:
    assert [spell_number(number) for number in (0.12345, 12, 999.96, 12345.6, -2e20)] == [
        "0.1235",
        "12",
        "1000",
        "12,346",
        "-2e+20",
    ]
    assert spell_number(0.1234, percent=True) == "12.3%"


def test_told_has_two_digits_more_than_ticks() -> None:
    scale = fitted([0, 1], 0, 500)
    assert texts(scale)[1] == "0.2"
    assert [scale.label(number) for number in (0.15511, 0.5, 1.0)] == ["0.155", "0.500", "1"]
    assert fitted([0, 1], 0, 500, percent=True).label(0.5) == "50.0%"
