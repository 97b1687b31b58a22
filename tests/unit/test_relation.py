import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.campaign import Observation
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.relation import (
    Agreement,
    Both,
    Correct,
    Either,
    Equivariant,
    OnlyIf,
    Pair,
    Relation,
    Rule,
    Status,
    Verdict,
    judge_source,
)
from swerve.core.system import Answer
from swerve.core.transformation import Unchanged
from swerve.core.values import Boxes3D, Group, Signal, Steering, Value
from swerve.relations.sets import NoFewer
from swerve.relations.steering import AngleWithin, Decrease, SignalWithin, SquaredError, lambda_mse, same_angle

angles = st.floats(-900, 900)


def pair(before: float | Answer, after: float | Answer, label: float | None = None) -> Pair:
    truth: Answer = () if label is None else (Steering(label),)
    case = Case("one", {}, truth)
    answers = [(Steering(said),) if isinstance(said, float | int) else said for said in (before, after)]
    return Pair(case, case, Unchanged(), answers[0], answers[1])


def seen(label: float, said: float, fault: str = "") -> Observation:
    return Observation("one", "", (Steering(label),), (Steering(said),), fault=fault)


def status(relation: Relation, given: Pair) -> Status:
    return relation.check(given).status


@pytest.mark.parametrize(
    ("apart", "expected"), [(4.5, Status.HELD), (5.0, Status.VIOLATED), (5.5, Status.VIOLATED), (-5.0, Status.VIOLATED)]
)
def test_limit_itself_violates_angle(apart: float, expected: Status) -> None:
    assert status(same_angle(5), pair(1.0, 1.0 + apart)) is expected


def test_strict_angle_allows_equality() -> None:
    assert status(same_angle(0), pair(0.1 + 0.2, 0.1 + 0.2)) is Status.HELD
    assert status(same_angle(0), pair(0.1 + 0.2, 0.30005)) is Status.HELD  # the noise of a batch
    assert status(same_angle(0), pair(0.1 + 0.2, 0.3002)) is Status.VIOLATED


def test_equation_two_allows_equality() -> None:
    exact = Correct(SquaredError(4, mse=0.0625))
    assert status(exact, pair(0.0, 0.5, label=0.0)) is Status.HELD
    assert exact.check(pair(0.0, 0.5, label=0.0)).margin == 0
    assert status(exact, pair(0.0, math.nextafter(0.5, 1), label=0.0)) is Status.VIOLATED


def test_calibration_takes_mean_of_squares() -> None:
    baseline = [seen(0, 1), seen(2, 5), seen(0, 900, fault="steering is nan")]
    assert lambda_mse(3).calibrate(baseline) == Correct(SquaredError(3, mse=5.0))


def test_calibration_survives_combination() -> None:
    both = (lambda_mse(3) & same_angle(2)).calibrate([seen(0, 1)])
    assert both == Both((Correct(SquaredError(3, mse=1.0)), Equivariant(AngleWithin(2))))


def test_perfect_model_cannot_be_calibrated() -> None:
    with pytest.raises(InputError, match="so its MSE is 0"):
        lambda_mse(5).calibrate([seen(3, 3)])
    with pytest.raises(InputError, match="needs steering labels"):
        lambda_mse(5).calibrate([Observation("one", "", (), (Steering(1),))])


def test_uncalibrated_oracle_is_an_error() -> None:
    assert status(lambda_mse(5), pair(0.0, 0.0, label=0.0)) is Status.ERROR


def test_missing_label_is_skipped() -> None:
    assert status(Correct(AngleWithin(5)), pair(0.0, 0.0)) is Status.SKIPPED


def test_missing_answer_is_an_error() -> None:
    assert status(same_angle(5), pair((Signal("brake", 1),), (Signal("brake", 1),))) is Status.ERROR
    assert status(same_angle(5), pair((), 1.0)) is Status.ERROR


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("relation", [same_angle(5), same_angle(0), Correct(SquaredError(5, 1.0)), Correct(AngleWithin(5))])
def test_non_finite_is_never_judged(relation: Relation, odd: float) -> None:
    assert status(relation, pair(1.0, odd, label=0.0)) is Status.ERROR
    assert status(Equivariant(AngleWithin(5)), pair(odd, 1.0)) is Status.ERROR


def test_overflow_is_never_judged() -> None:
    assert status(Correct(SquaredError(5, 1.0)), pair(0.0, 1e200, label=0.0)) is Status.ERROR


@given(angles, angles, st.floats(0.1, 50))
def test_margin_has_the_verdict_s_sign(before: float, after: float, within: float) -> None:
    verdict = same_angle(within).check(pair(before, after))
    assert verdict.margin is not None
    assert (verdict.margin >= 0) == (verdict.status is Status.VIOLATED)


@given(angles, angles, st.floats(0.1, 50), st.floats(0.01, 400))
def test_squared_margin_has_the_sign(label: float, said: float, factor: float, mse: float) -> None:
    verdict = SquaredError(factor, mse).compare(Steering(label), Steering(said))
    assert verdict.margin is not None
    assert verdict.margin >= 0 if verdict.status is Status.VIOLATED else verdict.margin <= 0
    assert (verdict.status is Status.VIOLATED) == ((said - label) ** 2 > factor * mse)


@given(angles, angles)
def test_same_answer_always_holds(before: float, label: float) -> None:
    assert status(same_angle(0.5), pair(before, before, label)) is Status.HELD


HOLDS, FAILS = same_angle(5), same_angle(1)
SKIPS, BREAKS = Correct(AngleWithin(5)), lambda_mse()


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (HOLDS & FAILS, Status.VIOLATED),
        (HOLDS | FAILS, Status.HELD),
        (FAILS | FAILS, Status.VIOLATED),
        (HOLDS & HOLDS, Status.HELD),
        (HOLDS & SKIPS, Status.HELD),
        (FAILS & SKIPS, Status.VIOLATED),
        (FAILS | SKIPS, Status.VIOLATED),
        (SKIPS & SKIPS, Status.SKIPPED),
    ],
)
def test_algebra_of_statuses(relation: Relation, expected: Status) -> None:
    assert status(relation, pair(0.0, 3.0)) is expected


def test_error_is_never_outvoted() -> None:
    for relation in (HOLDS & BREAKS, HOLDS | BREAKS, FAILS & BREAKS):
        assert status(relation, pair(0.0, 3.0, label=0.0)) is Status.ERROR


def test_algebra_keeps_the_margin() -> None:
    assert (HOLDS & FAILS).check(pair(0.0, 3.0)).margin == 2.0
    assert (FAILS & same_angle(2)).check(pair(0.0, 3.0)).margin == 2.0
    assert (FAILS | same_angle(2)).check(pair(0.0, 3.0)).margin == 1.0
    assert isinstance(HOLDS | FAILS, Either)


def test_condition_decides_what_is_asked() -> None:
    turning = OnlyIf(lambda given: abs(given.before[0].degrees) > 1, FAILS)  # type: ignore[attr-defined]
    assert status(turning, pair(0.0, 9.0)) is Status.SKIPPED
    assert status(turning, pair(2.0, 9.0)) is Status.VIOLATED


def test_agreement_looks_inside_group() -> None:
    answers = Group((Steering(1), Steering(2), Steering(9)))
    assert status(Agreement(AngleWithin(5)), pair((answers,), (answers,))) is Status.VIOLATED
    assert status(Agreement(AngleWithin(10)), pair((answers,), (answers,))) is Status.HELD
    assert status(Agreement(AngleWithin(5)), pair(1.0, 1.0)) is Status.ERROR


def test_decrease_is_ordered() -> None:
    fast, slow = (Signal("speed", 20),), (Signal("speed", 14),)
    assert status(Decrease("speed", 5), pair(fast, slow)) is Status.HELD
    assert status(Decrease("speed", 6), pair(fast, slow)) is Status.HELD
    assert status(Decrease("speed", 7), pair(fast, slow)) is Status.VIOLATED
    assert status(Decrease("speed"), pair(slow, fast)) is Status.VIOLATED


def test_signal_goes_by_name() -> None:
    close = Equivariant(SignalWithin("brake", 0.25))
    slow = Signal("speed", 3)
    assert status(close, pair((slow, Signal("brake", 0.5)), (slow, Signal("brake", 0.75)))) is Status.HELD
    assert status(close, pair((slow, Signal("brake", 0.5)), (slow, Signal("brake", 0.8)))) is Status.VIOLATED
    missing = close.check(pair((slow,), (slow,)))
    assert (missing.status, missing.why) == (Status.ERROR, "the system gave no signal brake for the source")


def boxes(count: int, care: bool = True) -> tuple[Value, ...]:
    return (Boxes3D(np.zeros((count, 7)), ("car",) * count, care=np.full(count, care)),)


def test_no_fewer_counts_what_one_cares_about() -> None:
    assert status(NoFewer(), pair(boxes(2), boxes(3))) is Status.HELD
    assert status(NoFewer(), pair(boxes(2), boxes(1))) is Status.VIOLATED
    assert status(NoFewer(), pair(boxes(2, care=False), boxes(0))) is Status.HELD
    assert NoFewer().check(pair(boxes(5), boxes(2))).margin == 3


def test_source_alone_is_judged() -> None:
    wrong, right = pair(1.0, 8.0), pair(1.0, 2.0)
    never = OnlyIf(lambda given: False, same_angle(5))
    for relation in (same_angle(5), never, same_angle(5) & never, same_angle(5) | never):
        assert [judge_source(relation, alone).status for alone in (wrong, right)] == [Status.VIOLATED, Status.HELD]  # type: ignore[union-attr]


def test_ordered_relation_needs_two_cases() -> None:
    fast = pair((Signal("speed", 60),), (Signal("speed", 60),))
    assert judge_source(Decrease("speed", 5), fast) is None
    assert judge_source(Decrease("speed", 5) & Decrease("speed"), fast) is None


def test_given_mse_is_kept() -> None:
    assert Correct(SquaredError(5, mse=9.0)).calibrate([seen(0, 1)]) == Correct(SquaredError(5, mse=9.0))


def test_foreign_numbers_become_plain() -> None:
    verdict = Verdict.at_most(np.float32(30), np.int64(5), "x")  # type: ignore[arg-type]
    assert (type(verdict.margin), verdict.margin, verdict.status) == (float, 25.0, Status.VIOLATED)
    assert Verdict("violated").margin == 0.0  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [(), ("same-angle",), (AngleWithin(5),)])
def test_algebra_takes_relations_only(wrong: tuple[object, ...]) -> None:
    for kind in (Both, Either):
        with pytest.raises(TypeError, match="'relations' must be a list of one or more relations"):
            kind(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'compare' must be a comparison such as AngleWithin, got str"):
        Equivariant("angle-within")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "5", None, True])
def test_bad_limit_is_named(wrong: object) -> None:
    with pytest.raises(ValueError, match="'within' must be a number of at least 0, got"):
        same_angle(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'factor' must be a number above 0, got"):
        lambda_mse(wrong)  # type: ignore[arg-type]


def test_rule_needs_name_and_relation() -> None:
    with pytest.raises(ValueError, match="the name of a rule must be a non-empty string"):
        Rule("", Unchanged(), same_angle())
    with pytest.raises(TypeError, match="'expect' must be a relation, got AngleWithin"):
        Rule("x", Unchanged(), AngleWithin())  # type: ignore[arg-type]


def test_verdict_says_why() -> None:
    assert same_angle(5).check(pair(1.0, 9.5)).why == "8.5° apart: +1.0° became +9.5° (limit 5°)"
    assert Verdict.at_least(3, 2, "enough").margin == -1
