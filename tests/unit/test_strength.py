from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.analysis.strength import UNKNOWN, MilderTrials, believable_first, strength
from swerve.core.encode import encode_change
from swerve.core.origin import Origin
from swerve.core.transformation import Chain, Transformation, Unchanged
from swerve.store.journal import Row
from swerve.store.record_json import Finding, finding_of, record_row
from swerve.transformations.affine import Rotate, Scale, Translate
from swerve.transformations.photometric import Brighten
from tests.fixture_runs import finding, held


@dataclass(frozen=True)
class Mine(Transformation):
    """A change that no report may import."""

    much: float = 1.0
    preserves: ClassVar[tuple[str, ...]] = ("*",)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Rotate(3.0), 0.1),
        (Rotate(-3.0), 0.1),
        (Rotate(30.0), 1.0),
        (Rotate(0.0), 0.0),
        (Translate(90.0, 90.0), 0.9),
        (Scale(6.0, 6.0), 1.0),
        (Scale(1.5, 1.5), 0.1),
        (Chain((Rotate(3.0), Scale(6.0, 6.0))), 1.0),
        (Unchanged(), 0.0),
        (Mine(), UNKNOWN),
    ],
)
def test_strength_is_the_share_of_the_usual_range(change: Transformation, expected: float) -> None:
    assert strength(encode_change(change)) == pytest.approx(expected)


@given(st.floats(-180, 180))
def test_strength_is_from_0_to_1(degrees: float) -> None:
    assert 0 <= strength(encode_change(Rotate(degrees))) <= 1


def made(case: str, degrees: float, off: float = 10.0, **parts: object) -> Finding:
    record = finding(case, change=Rotate(degrees), off=off)
    return replace(finding_of(record_row(record)), **parts)  # type: ignore[arg-type]


def test_evidence_is_sorted() -> None:
    found = {
        "mild": made("a", 3.0),
        "mild and worse": made("b", 3.0, 20.0),
        "strong": made("c", 30.0, 39.0),
        "empty": made("d", 3.0, facts={"fill": 0.4}),
        "marginal": made("e", 3.0, origin=Origin.MARGINAL),
        "already wrong": made("f", 3.0, 39.0, origin=Origin.ALREADY_WRONG),
        "flaky": made("g", 3.0, 39.0, repeated=False),
    }
    assert sorted(found, key=lambda name: believable_first(found[name])) == [
        *("mild and worse", "mild", "empty", "strong", "already wrong", "marginal", "flaky"),
    ]


def holds(finding: Finding, rows: Sequence[Row]) -> str:
    trials = MilderTrials()
    for row in rows:
        trials.add(row)
    return trials.words(finding)


def test_milder_change_that_held_is_named() -> None:
    fails = made("a", -9.0)
    rows = [record_row(held("a", change=Rotate(degrees))) for degrees in (-3.0, -6.0, 6.0, -12.0)]
    rows += [record_row(held("b", change=Rotate(-8.0))), record_row(held("a", "other", Rotate(-8.0)))]
    rows += [record_row(held("a", change=Brighten(1.0))), record_row(finding("a", change=Rotate(-8.0)))]
    assert holds(fails, rows) == "degrees fails at -9°, holds at -6°"
    assert holds(fails, rows[2:4]) == ""


def test_several_numbers_have_no_edge() -> None:
    one = replace(made("a", 3.0), change=encode_change(Translate(10.0, 20.0)))
    assert holds(one, [record_row(held("a", change=Translate(5.0, 0.0)))]) == ""


def test_values_of_a_case_are_bounded() -> None:
    trials = MilderTrials()
    for place in range(1000):
        trials.add(record_row(held("a", change=Rotate(0.01 * place))))
    assert trials.words(made("a", 9.0)) == "degrees fails at 9°, holds at 0.64°"
