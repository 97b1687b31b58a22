"""DeepTest's oracle over a run: Eq. 2 and 3, every λ and ε from the same answers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.analysis.angles import Angles, angles_of, radians_of, untouched
from swerve.analysis.oracle import EPSILONS, LAMBDAS, Oracle
from swerve.api import run as run_campaign
from swerve.core.campaign import Campaign, Observation
from swerve.core.errors import InputError
from swerve.core.origin import Origin
from swerve.core.relation import Rule
from swerve.core.space import Choices, Over
from swerve.core.values import Signal, Steering
from swerve.relations.steering import lambda_mse
from swerve.search.sweep import Sweep
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem
from swerve.transformations.photometric import Brighten


def row(rule: str, words: str, case: str, label: float | None, before: float, after: float, status: str = "held") -> dict:
    def told(radians: float | None) -> list:
        return [] if radians is None else [{"slot": "steering", "degrees": math.degrees(radians)}]

    answers = {"before": told(before), "after": told(after), "truth": told(label)}
    return {"rule": rule, "words": words, "case": case, "status": status, **answers}


def test_equal_to_the_limit_is_no_violation() -> None:
    oracle = Oracle(0.0625)
    assert oracle.counts(np.array([0.25]), (4,)) == [0]  # A.8: label 0, said 0.5, λ 4
    assert oracle.counts(np.array([np.nextafter(0.25, 1)]), (4,)) == [1]


def test_mse_is_that_of_the_untouched() -> None:
    seen = [
        Observation("a", "", (Steering(10.0),), (Steering(13.0),)),
        Observation("b", "", (Steering(0.0),), (Signal("speed", 1.0), Steering(-4.0))),
        Observation("c", "", (), (Steering(50.0),)),
        Observation("d", "", (Steering(1.0),), (Steering(90.0),), fault="broken"),
    ]
    labels, said = untouched(seen)
    assert Oracle.of(labels, said).mse == pytest.approx(math.radians(1) ** 2 * (9 + 16) / 2)
    assert math.isnan(radians_of(()))


def test_what_cannot_judge_is_refused() -> None:
    with pytest.raises(InputError, match="no case has one"):
        Oracle.of(np.array([]), np.array([]))
    with pytest.raises(InputError, match="MSE_orig above 0, got 0"):
        Oracle.of(np.array([1.0]), np.array([1.0]))
    with pytest.raises(InputError, match="'mse' or 'rmse'"):
        Oracle(1.0, "mae")


ROWS = [
    row("shift", "10 px", "a", 0.0, 0.1, 0.1),
    row("shift", "10 px", "b", 0.0, 0.1, 0.3),
    row("shift", "20 px", "a", 0.0, 0.1, 0.9, "violated"),
    row("shift", "20 px", "b", 0.5, 0.1, 0.5),
    row("turn", "3°", "a", 0.0, 0.1, 0.1),
    row("turn", "6°", "a", 0.0, 0.1, 0.2, "skipped"),
    row("turn", "9°", "a", 0.0, 0.1, 0.2, "error"),
    row("turn", "12°", "b", None, 0.1, 0.6),
]


def test_only_judged_trials_count() -> None:
    angles = angles_of(ROWS)
    assert (angles.count, angles.rules, angles.cases) == (6, ("shift", "turn"), ("a", "b"))
    assert angles.changes == (("shift", "10 px"), ("shift", "20 px"), ("turn", "3°"), ("turn", "12°"))
    assert angles.of("turn").count == 2
    assert angles.of("fog").count == 0
    assert angles.squared_shifts() == pytest.approx([0, 0.04, 0.64, 0.16, 0, 0.25])
    assert np.isnan(angles.squared_errors()[-1])


def test_changes_far_from_the_original_error_are_left_out() -> None:
    angles, oracle = angles_of(ROWS), Oracle(0.05)
    assert oracle.mean_errors(angles)[:3] == pytest.approx([0.05, 0.405, 0.01])
    assert oracle.kept(angles, 0.039).tolist() == [True, False, False, False]  # the last has no label at all
    assert oracle.kept(angles, 0.041).tolist() == [True, False, True, False]
    assert oracle.kept(angles, 0.36).tolist() == [True, True, True, False]
    root = Oracle(0.05, "rmse")
    assert root.mean_errors(angles)[:2] == pytest.approx([math.sqrt(0.05), math.sqrt(0.405)])
    assert root.kept(angles, 0.1).tolist() == [True, False, False, False]


def test_follow_up_without_label_is_no_violation() -> None:
    assert Oracle(0.02).counts(angles_of(ROWS).squared_errors(), (1,)) == [2]


followups = st.lists(
    st.tuples(st.integers(0, 3), *(st.floats(-2, 2) for _ in range(3))),
    min_size=1,
    max_size=40,
)


@given(followups, st.floats(0.001, 0.3))
def test_table_is_what_counting_one_by_one_gives(drawn: list[tuple[int, float, float, float]], mse: float) -> None:
    rows = [row("r", f"p{which}", f"c{n}", label, before, after) for n, (which, label, before, after) in enumerate(drawn)]
    angles, oracle = angles_of(rows), Oracle(mse)
    table = oracle.table(angles)
    errors = (angles.label - angles.after) ** 2
    for epsilon in EPSILONS:
        for place, factor in enumerate(LAMBDAS):
            count = 0
            for which in range(len(angles.changes)):
                mine = errors[angles.change == which]
                if abs(mine.mean() - mse) <= epsilon:
                    count += sum(error > factor * mse for error in mine)
            assert table[epsilon][place] == count


@given(followups)
def test_counts_fall_with_lambda_and_rise_with_epsilon(drawn: list[tuple[int, float, float, float]]) -> None:
    rows = [row("r", f"p{which}", f"c{n}", label, before, after) for n, (which, label, before, after) in enumerate(drawn)]
    table = Oracle(0.05).table(angles_of(rows))
    for counts in table.values():
        assert counts == sorted(counts, reverse=True)
    for place in range(len(LAMBDAS)):
        column = [table[epsilon][place] for epsilon in EPSILONS]
        assert column == sorted(column)


def test_no_follow_ups_give_an_empty_table() -> None:
    nothing = angles_of([])
    assert isinstance(nothing, Angles)
    assert Oracle(0.1).table(nothing) == {epsilon: [0] * 10 for epsilon in EPSILONS}


@pytest.mark.parametrize("factor", [0.3, 1.0])
def test_origins_are_those_of_a_campaign(tmp_path: Path, factor: float) -> None:
    """Counted from the angles, and by the rule itself."""
    rule = Rule("brighter", Over(Brighten, beta=Choices((1, 2, 5, 10, 40))), lambda_mse(factor))
    source, system = FakeSource(40), FakeSystem(gain=1.5)
    summary = run_campaign(Campaign(source, system, (rule,), Sweep(), seed=3), tmp_path / "run", report=False).summary
    run = Run(tmp_path / "run")
    oracle = Oracle.of(*untouched(run.baseline()))
    found = oracle.origins(angles_of(run.trials()), factor)
    assert {origin.key: found[origin] for origin in Origin} == {origin.key: summary[origin.key] for origin in Origin}
    assert len(found) >= 3
