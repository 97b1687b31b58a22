"""Numbers that constructors are given."""

import math

import numpy as np
import pytest

from swerve.core.arguments import check_number, check_whole


@pytest.mark.parametrize("value", [0, 1, 7, np.int64(3)])
def test_whole_numbers_within_bounds_pass(value: object) -> None:
    check_whole("count", value)
    check_whole("count", value, 0, 7)


@pytest.mark.parametrize("value", [True, -1, 1.0, "1", None, math.nan])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="'count' must be a whole number of at least 0, got "):
        check_whole("count", value)


def test_whole_numbers_above_the_upper_bound_are_refused() -> None:
    with pytest.raises(ValueError, match="'pad' must be a whole number from 0 to 255, got 256"):
        check_whole("pad", 256, 0, 255)


@pytest.mark.parametrize("value", [0, 0.5, 1, np.float32(0.25)])
def test_numbers_within_bounds_pass(value: object) -> None:
    check_number("share", value, 0, 1)


@pytest.mark.parametrize("value", [True, math.nan, math.inf, -math.inf, "0.5", None, -0.1, 1.1])
def test_what_is_no_number_within_bounds_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="'share' must be a number from 0 to 1, got "):
        check_number("share", value, 0, 1)


@pytest.mark.parametrize(
    ("low", "high", "above", "wanted"),
    [
        (0, math.inf, True, "a number above 0"),
        (0, math.inf, False, "a number of at least 0"),
        (0, 5, True, "a number above 0 and at most 5"),
        (-math.inf, 5, False, "a number of at most 5"),
        (-math.inf, math.inf, False, "a finite number"),
    ],
)
def test_bounds_are_in_the_message(low: float, high: float, above: bool, wanted: str) -> None:
    with pytest.raises(ValueError, match=f"'near' must be {wanted}, got nan"):
        check_number("near", math.nan, low, high, above=above)


def test_an_open_bound_refuses_itself() -> None:
    check_number("near", 1e-9, 0, above=True)
    with pytest.raises(ValueError, match="'near' must be a number above 0, got 0"):
        check_number("near", 0, 0, above=True)
