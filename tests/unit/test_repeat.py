"""R72: findings are asked again, alone, before they are reported; what does not fail again is flaky."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from swerve.analysis.groups import groups
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import StoreError
from swerve.core.relation import Rule
from swerve.core.space import Over, Range
from swerve.core.system import Answer
from swerve.core.values import Steering
from swerve.execution.engine import run
from swerve.execution.launch import SUMMARY, run_into
from swerve.execution.rule_tests import RuleTestRequest, RuleTests
from swerve.relations.steering import same_angle
from swerve.report.html import write_report
from swerve.report.templating import PAGE
from swerve.report.terminal import print_groups, print_summary
from swerve.search.sweep import Sweep
from swerve.store.journal import Journal
from swerve.store.view import JOURNAL, Run
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.photometric import Brighten

RULES = (
    Rule("brighter", Over(Brighten, beta=Range(20, 30)), same_angle(15)),
    Rule("darker", Over(Brighten, beta=Range(-30, -20)), same_angle(15)),
)


@dataclass
class Flicker:
    """Wrong about a follow-up the first time that it is shown one, if it is brighter than `above`; right from then on."""

    above: float = -1e9
    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(Steering(self._angle(case)),) for case in cases]

    def _angle(self, case: Case) -> float:
        image = case.inputs["camera"]
        self.seen[image.digest] += 1
        level = float(image.pixels.mean()) - 100  # type: ignore[attr-defined]
        if case.parent is None:
            return level / 100
        if level <= self.above:
            return 50.0
        return 60.0 if self.seen[image.digest] == 1 else level / 100

    def fingerprint(self) -> str:
        return "flicker"


def campaign(system: object, per_case: int = 20) -> Campaign:
    return Campaign(FakeSource(10), system, RULES, Sweep(per_case=per_case), inference_batch=4)  # type: ignore[arg-type]


def test_findings_of_a_steady_system_fail_again() -> None:
    counts = run(campaign(FakeSystem()), MemoryLedger()).as_dict()
    assert (counts["violated"], counts["asked_again"], counts["flaky"]) == (184, 2, 0)
    assert counts["rules"]["darker"]["asked_again"] == 1


def test_findings_that_do_not_fail_again_are_flaky_and_their_groups_are_asked_further() -> None:
    counts = run(campaign(Flicker()), MemoryLedger()).as_dict()
    assert counts["violated"] == 184
    assert counts["asked_again"] == counts["flaky"] == 12  # 3% of 400 trials


@pytest.mark.parametrize(("per_case", "most"), [(1, 1), (2, 1), (4, 2)])
def test_no_more_than_their_share_is_asked_again(per_case: int, most: int) -> None:
    assert run(campaign(Flicker(), per_case), MemoryLedger()).as_dict()["asked_again"] == most


def test_tag_is_shown_and_the_exemplar_is_one_that_failed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    given = campaign(Flicker(above=0.0))  # darker pictures fail for good
    told = run_into(Loaded(given, tmp_path), folder, force=True).as_dict()
    finished = Run(folder)
    assert told["rules"]["darker"]["flaky"] == 0 < told["rules"]["brighter"]["flaky"] == told["flaky"]
    assert len(list(finished.trials())) == told["trials"] == 400
    flaky = {finding.id for finding in finished.findings() if finding.flaky}
    assert len(flaky) == told["flaky"]
    by_rule = {group.symptom.rule: group.exemplar for group in groups(finished)}
    assert by_rule["darker"].repeated
    assert by_rule["brighter"].flaky
    write_report(finished)
    assert "did not fail again (flaky)." in (page := (folder / PAGE).read_text())
    assert '<span class="badge flaky">flaky</span>' in page
    print_summary(finished, Console())
    assert f"{told['asked_again']} findings asked again, each alone: {told['flaky']} did not fail again (flaky)." in (
        shown := capsys.readouterr().out
    )
    assert ", flaky" in shown


def test_group_whose_worst_does_not_repeat_is_led_by_one_that_does(tmp_path: Path) -> None:
    rules = (Rule("both", Over(Brighten, beta=Range(-30, 30)), same_angle(15)),)
    given = Campaign(FakeSource(20), Flicker(above=30.1), rules, Sweep(per_case=40), inference_batch=4)
    run_into(Loaded(given, tmp_path), tmp_path / "run", force=True, pictures=False)
    finished = Run(tmp_path / "run")
    assert set(finished.repeats.values()) == {True, False}
    assert all(group.exemplar.repeated for group in groups(finished))


def test_run_stopped_between_two_waves_goes_on(tmp_path: Path) -> None:
    given, folder = campaign(FakeSystem(gain=2)), tmp_path / "run"
    run_into(Loaded(given, tmp_path), folder)
    whole, summary = (folder / JOURNAL).read_bytes(), (folder / SUMMARY).read_bytes()
    assert list(Journal(folder / JOURNAL).batches())[-1][0]["kind"] == "repeat"
    lines = whole.splitlines(keepends=True)
    for cut in (1, 2, 4, 5):
        (folder / JOURNAL).write_bytes(b"".join(lines[:-cut]))
        run_into(Loaded(given, tmp_path), folder)
        assert (folder / JOURNAL).read_bytes() == whole
        assert (folder / SUMMARY).read_bytes() == summary


def test_repeats_are_no_trials(tmp_path: Path) -> None:
    run_into(Loaded(campaign(FakeSystem(gain=2)), tmp_path), tmp_path / "run")
    finished = Run(tmp_path / "run")
    assert finished.repeats
    assert {row["kind"] for row in finished.rows()} == {"baseline", "trial"}
    print_groups(finished, Console(quiet=True), 3)
    with pytest.raises(StoreError, match="no finding"):
        finished.row("ffffffffffff")


@dataclass
class FlickeringSource:
    """Wrong about one untouched case the first time that it is shown it."""

    shown: Counter[str] = field(default_factory=Counter)

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(Steering(self._angle(case)),) for case in cases]

    def _angle(self, case: Case) -> float:
        (angle,) = FakeSystem()([case])[0]
        self.shown[case.key] += case.parent is None
        wrong = case.parent is None and case.key == "fake-00005" and self.shown[case.key] == 1
        return angle.degrees + 60 * wrong  # type: ignore[attr-defined,no-any-return]

    def fingerprint(self) -> str:
        return "flickering source"


def test_rule_as_a_test_asks_the_source_again(tmp_path: Path) -> None:
    rule = Rule("brighter", Over(Brighten, beta=Range(1, 5)), same_angle(15))
    given = Campaign(FakeSource(12), FlickeringSource(), (rule,), Sweep(per_case=4), inference_batch=4)
    tests = RuleTests(RuleTestRequest(given, force=True), tmp_path, tmp_path / "run")
    assert "are flaky" in tests.run_rule("brighter").summary
    assert any(finding.flaky for finding in Run(tests.folder("brighter")).findings())
