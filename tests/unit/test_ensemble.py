from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from swerve.config.toml import Builder, load_campaign
from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.errors import InputError
from swerve.core.relation import Status, Verdict
from swerve.core.system import Answer, System
from swerve.core.values import Group, Signal, Steering
from swerve.execution.answers import answer_all
from swerve.execution.launch import run_into
from swerve.execution.replay import replay
from swerve.store.view import Run
from swerve.systems.ensemble import Ensemble
from swerve.systems.function import FunctionSystem
from swerve.testing import FakeSource, FakeSystem, SystemContract

SOURCE = FakeSource(4)
CASES = [SOURCE[key] for key in SOURCE.keys()]


@dataclass(frozen=True)
class Says:
    """A system that always says the same."""

    answer: Answer

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [self.answer] * len(cases)

    def fingerprint(self) -> str:
        return str(hash(self.answer))


def together(*answers: Answer) -> Answer:
    return Ensemble(tuple(map(Says, answers)))(CASES[:1])[0]


class TestEnsemble(SystemContract):
    def system(self) -> System:
        return Ensemble((FakeSystem(), FakeSystem(gain=2), FakeSystem(bias=1)))


def test_first_speaks_and_all_are_grouped() -> None:
    first, second = FakeSystem(), FakeSystem(gain=2)
    expected = [(one[0], Group((one[0], two[0]))) for one, two in zip(first(CASES), second(CASES), strict=True)]
    assert Ensemble((first, second))(CASES) == expected


def test_every_quantity_has_a_group_of_its_own() -> None:
    both = [(Steering(degrees), Signal("brake", 0.1), Signal("throttle", 0.2)) for degrees in (1, 2)]
    answer = together(*both)
    assert answer == (*both[0], *(Group(values) for values in zip(*both, strict=True)))
    assert answer_all(Ensemble(tuple(map(Says, both))), CASES[:1]) == [answer]


def test_two_groups_of_one_quantity_are_ambiguous() -> None:
    group = Group((Steering(1), Steering(2)))
    (verdict,) = answer_all(Says((Steering(1), group, group)), CASES[:1])
    assert verdict == Verdict.error("the answer has 2 values of 'group steering'; one is allowed")


def test_members_keep_their_order() -> None:
    answer = together((Steering(1),), (Steering(2),), (Steering(3),))
    assert answer == (Steering(1), Group((Steering(1), Steering(2), Steering(3))))


def test_signals_go_by_name() -> None:
    brake, speed = Signal("brake", 1), Signal("speed", 2)
    answer = together((brake, speed), (Signal("speed", 3), Signal("brake", 4)))
    assert answer == (brake, speed, Group((brake, Signal("brake", 4))), Group((speed, Signal("speed", 3))))


def test_only_what_all_say_is_grouped() -> None:
    answer = together((Steering(1), Signal("brake", 0)), (Steering(2),))
    assert answer == (Steering(1), Signal("brake", 0), Group((Steering(1), Steering(2))))
    assert together((Steering(1),), (Signal("brake", 0), Steering(2)))[1:] == (Group((Steering(1), Steering(2))),)


def test_groups_are_not_grouped() -> None:
    window = Group((Steering(1), Steering(2)))
    assert together((window, Steering(1)), (window, Steering(3))) == (window, Steering(1), Group((Steering(1), Steering(3))))


def test_second_member_s_nonsense_is_an_error() -> None:
    for answer in (Steering(float("nan")), Steering(1e300)):
        verdict = answer_all(Ensemble((Says((Steering(1),)), Says((answer,)))), CASES)[0]
        assert isinstance(verdict, Verdict)
        assert verdict.why.startswith("steering is ")


def test_failing_member_is_an_error() -> None:
    def fail(case: Case) -> Steering:
        if case.key == CASES[1].key:
            raise RuntimeError("broken")
        return Steering(1)

    answers = answer_all(Ensemble((FakeSystem(), FunctionSystem(fail))), CASES)
    assert [isinstance(answer, Verdict) for answer in answers] == [False, True, False, False]


def test_missing_answers_are_named() -> None:
    class Short(Says):
        def __call__(self, cases: Sequence[Case]) -> list[Answer]:
            return []

    verdict = answer_all(Ensemble((FakeSystem(), Short((Steering(1),)))), CASES)[0]
    assert isinstance(verdict, Verdict)
    assert verdict.why == "member 2 of the ensemble returned 0 answers for 1 cases"


def test_fingerprint_follows_members_and_order() -> None:
    one, two = FakeSystem(), FakeSystem(gain=2)
    ensembles = [Ensemble((one, two)), Ensemble((two, one)), Ensemble((one, one)), Ensemble((one, two, two))]
    assert len({ensemble.fingerprint() for ensemble in ensembles}) == 4
    assert Ensemble((one, two)).fingerprint() == Ensemble((FakeSystem(), FakeSystem(gain=2))).fingerprint()


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ((), "an ensemble needs at least two members, got 0"),
        ((FakeSystem(),), "an ensemble needs at least two members, got 1"),
        ((FakeSystem(), 3), "member 2 of the ensemble must be a system, got int"),
        ((Ensemble((FakeSystem(), FakeSystem())), FakeSystem()), "member 1 of the ensemble is an ensemble itself"),
    ],
)
def test_bad_members_are_named(members: tuple[object, ...], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Ensemble(members)  # type: ignore[arg-type]


def test_json_and_back() -> None:
    made = Ensemble((FakeSystem(), FakeSystem(gain=2)))
    assert Builder().component(encode(made)) == made


CAMPAIGN = """
[source]
use = "swerve.testing.fakes:FakeSource"
count = 4

[system]
use = "swerve.systems.ensemble:Ensemble"
members = [
    { use = "swerve.testing.fakes:FakeSystem" },
    { use = "swerve.testing.fakes:FakeSystem", bias = 0.5 },
    { use = "swerve.testing.fakes:FakeSystem", gain = 1.5 },
]

[search]
use = "sweep"
per_case = 6

[[rule]]
name = "agree"
change = { use = "brighten", beta = [0, 20] }
expect = { use = "agreement", compare = { use = "angle-within", within = 5.0 } }

[[rule]]
name = "same"
change = { use = "brighten", beta = [0, 20] }
expect = { use = "same-angle", within = 15 }
"""


def test_campaign_finds_the_planted_disagreement(tmp_path: Path) -> None:
    """The third member steers half as much again: 5° apart where the picture is 10 grey levels above 100."""
    (tmp_path / "campaign.toml").write_text(textwrap.dedent(CAMPAIGN))
    loaded = load_campaign(str(tmp_path / "campaign.toml"))
    summary = run_into(loaded, tmp_path / "run").as_dict()
    run = Run(tmp_path / "run")
    judged = [row for row in run.trials() if row["rule"] == "agree" and row["status"] in (Status.HELD, Status.VIOLATED)]
    assert summary["errors"] == 0
    assert 0 < summary["rules"]["agree"]["violated"] < len(judged)
    assert summary["rules"]["agree"]["introduced"] == summary["rules"]["agree"]["violated"]
    assert all((row["status"] == Status.VIOLATED) == (row["after"][0]["degrees"] / 2 >= 5) for row in judged)
    findings = [finding for finding in run.findings() if finding.rule == "agree"]
    assert all(finding.why.startswith("member 3 against member 1: ") for finding in findings)
    again = [replay(run.folder, finding.id) for finding in findings[:5]]
    assert all(result.reproduced and not result.changed for result in again)
