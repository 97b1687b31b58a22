from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.config.toml import Builder
from swerve.core.campaign import Observation
from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.relation import Agreement, Both, Pair, Status, Verdict, judge_source
from swerve.core.system import Answer
from swerve.core.transformation import Unchanged
from swerve.core.values import Boxes2D, Group, Signal, Steering
from swerve.relations.boxes import BoxesAlike
from swerve.relations.steering import AngleWithin, SignalWithin, SquaredError, same_angle

WITHIN = Agreement(AngleWithin(5))


def pair(after: Answer, before: Answer = ()) -> Pair:
    case = Case("one", {})
    return Pair(case, case, Unchanged(), before, after)


def angles(*degrees: float) -> Answer:
    return Steering(degrees[0]), Group(tuple(map(Steering, degrees)))


def check(relation: Agreement, after: Answer) -> tuple[Status, float | None]:
    verdict = relation.check(pair(after))
    return verdict.status, verdict.margin


def test_all_are_held_against_the_first() -> None:
    assert check(WITHIN, angles(0, 4, -4)) == (Status.HELD, -1)
    assert check(WITHIN, angles(0, 4, -5)) == (Status.VIOLATED, 0)
    assert check(WITHIN, angles(0, 9, -6)) == (Status.VIOLATED, 4)


def test_each_is_held_against_each() -> None:
    each = Agreement(AngleWithin(5), between="each")
    assert check(each, angles(0, 4, -4)) == (Status.VIOLATED, 3)
    assert each.check(pair(angles(0, 4, -4))).why.startswith("member 3 against member 2: 8.0° apart")
    assert check(each, angles(0, 2, -2)) == (Status.HELD, -1)


@given(st.lists(st.floats(-90, 90), min_size=2, max_size=6))
def test_margin_is_the_worst(said: list[float]) -> None:
    first = max(abs(angle - said[0]) for angle in said[1:])
    each = max(said) - min(said)
    assert WITHIN.check(pair(angles(*said))).margin == first - 5
    margin = Agreement(AngleWithin(5), "each").check(pair(angles(*said))).margin
    assert margin == pytest.approx(each - 5, abs=1e-12)


def test_member_that_disagrees_is_named() -> None:
    why = WITHIN.check(pair(angles(1, 2, 9))).why
    assert why == "member 3 against member 1: 8.0° apart: +1.0° became +9.0° (limit 5°)"


def test_group_is_found_by_what_it_is_about() -> None:
    brakes, speeds = (Group((Signal(name, 0.0), Signal(name, apart))) for name, apart in (("brake", 0.5), ("speed", 9.0)))
    said = (Steering(1), Group((Steering(1), Steering(2))), brakes, speeds)
    assert check(Agreement(SignalWithin("brake", 0.5)), said) == (Status.HELD, 0)
    assert check(Agreement(SignalWithin("speed", 1)), said) == (Status.VIOLATED, 8)
    assert check(Agreement(AngleWithin(1.5)), said) == (Status.HELD, -0.5)


def test_boxes_can_be_compared() -> None:
    one, other = (Boxes2D(np.array([[0, 0, 10, 10]]) + shift, ("car",), size=(60, 60)) for shift in (0, 30))
    assert check(Agreement(BoxesAlike()), (one, Group((one, one))))[0] is Status.HELD
    assert check(Agreement(BoxesAlike()), (one, Group((one, other))))[0] is Status.VIOLATED


@pytest.mark.parametrize(
    "said",
    [
        (),
        (Steering(1),),
        (Group(()),),
        (Group((Steering(1),)),),
        (Group((Signal("brake", 1), Signal("brake", 2))),),
        (Group((Steering(1), Signal("brake", 2))),),
    ],
)
def test_without_a_group_there_is_no_verdict(said: Answer) -> None:
    verdict = WITHIN.check(pair(said))
    assert verdict.status is Status.ERROR
    assert verdict.why == "agreement needs the answers of an ensemble: a group of at least two values of steering"
    assert Agreement(SignalWithin("speed", 1)).check(pair(said)).why.count("signal speed") == 1


def test_wild_numbers_are_never_judged() -> None:
    for wild in (float("nan"), float("inf")):
        assert WITHIN.check(pair(angles(0, wild))).status is Status.ERROR
        assert WITHIN.check(pair(angles(wild, 0))).status is Status.ERROR


def test_disagreement_before_the_change_is_known() -> None:
    wrong, right = pair(angles(0, 9), (Steering(0),)), pair(angles(0, 1), (Steering(0),))
    for relation in (WITHIN, Both((WITHIN, same_angle(90)))):
        assert [judge_source(relation, alone).status for alone in (wrong, right)] == [Status.VIOLATED, Status.HELD]  # type: ignore[union-attr]


def test_source_needs_no_label() -> None:
    alone = judge_source(WITHIN, pair(angles(0, 9)))
    assert isinstance(alone, Verdict)
    assert alone.status is Status.VIOLATED


def test_calibration_reaches_the_comparison() -> None:
    baseline = [Observation("one", "", (Steering(0),), (Steering(2),))]
    fixed = Agreement(SquaredError(1), between="each").calibrate(baseline)
    assert fixed == Agreement(SquaredError(1, mse=4.0), between="each")
    assert WITHIN.calibrate(baseline) == WITHIN


def test_bad_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="'compare' must be a comparison such as AngleWithin, got str"):
        Agreement("angle-within")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'between' must be 'first' or 'each', got 'all'"):
        Agreement(AngleWithin(5), "all")


def test_toml_and_back() -> None:
    table = {"use": "agreement", "compare": {"use": "angle-within", "within": 1.0}, "between": "each"}
    assert Builder().component(table) == Agreement(AngleWithin(1.0), "each")
    assert encode(Builder().component(table)) == table
