"""Searches that learn from what they are told, and the plain sweep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import pytest

from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign, Plan, Record, Trial
from swerve.core.errors import StoreError
from swerve.core.relation import Rule, Status
from swerve.core.space import Choices, Over, Range
from swerve.execution.engine import run
from swerve.execution.launch import run_into
from swerve.relations.steering import same_angle
from swerve.search.sweep import MOST_PER_ASK, Sweep
from swerve.testing import FakeSource, FakeSystem, MemoryLedger, SearchContract
from swerve.transformations.photometric import Brighten


@dataclass(frozen=True)
class Bisect:
    """Looks for the weakest brightening that still violates: each ask depends on what was told."""

    steps: int = 8

    def start(self, plan: Plan) -> "Bisection":
        return Bisection(self.steps, plan)


class Bisection:
    total = None

    def __init__(self, steps: int, plan: Plan) -> None:
        self.steps, self.rule = steps, plan.rules[0].name
        self.reach = {key: (0.0, 60.0) for key in plan.keys}

    def ask(self) -> Sequence[Trial]:
        if self.steps == 0:
            return []
        self.steps -= 1
        middle = {key: round((low + high) / 2, 1) for key, (low, high) in self.reach.items()}
        return [Trial(key, self.rule, self.steps, Brighten(beta)) for key, beta in middle.items()]

    def tell(self, records: Sequence[Record]) -> None:
        for record in records:
            low, high = self.reach[record.trial.case]
            assert isinstance(record.change, Brighten)
            violated = record.verdict.status is Status.VIOLATED
            self.reach[record.trial.case] = (low, record.change.beta) if violated else (record.change.beta, high)


class TestBisect(SearchContract):
    def search(self) -> Bisect:
        return Bisect(4)


CAMPAIGN = Campaign(
    FakeSource(5), FakeSystem(), (Rule("brighter", Over(Brighten, beta=Range(1, 60)), same_angle(20)),), Bisect(), seed=1
)


@pytest.mark.parametrize("by", ["case", "change"])
def test_endless_sweep_is_asked_in_parts(by: str) -> None:
    """A billion draws of a case are never all in memory; where a case is cut, equal draws are looked for across asks."""
    plan = Plan(["a", "b"], CAMPAIGN.rules, 1, {}, 16)
    session = Sweep(per_case=1_000_000_000, by=by).start(plan)
    assert session.total == 2_000_000_000
    first, second = session.ask(), session.ask()
    assert len(first) == len(second) == MOST_PER_ASK
    assert len({trial.key for trial in chain(first, second)}) == 2 * MOST_PER_ASK
    assert not session.distinct
    assert Sweep(per_case=6, by=by).start(plan).distinct


def test_cut_sweep_is_the_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = replace(CAMPAIGN, search=Sweep(per_case=60))
    whole, cut = MemoryLedger(), MemoryLedger()
    summary = run(sweep, whole)
    monkeypatch.setattr("swerve.search.sweep.MOST_PER_ASK", 7)
    assert run(sweep, cut).as_dict() == summary.as_dict()
    records = [[item for batch in ledger.batches for item in batch] for ledger in (whole, cut)]
    assert records[0] == records[1]
    assert len(cut.batches) > len(whole.batches)


def test_search_learns_the_limit() -> None:
    ledger = MemoryLedger()
    run(CAMPAIGN, ledger)
    tried = [item for batch in ledger.batches for item in batch if isinstance(item, Record)]
    weakest = min(record.change.beta for record in tried if record.verdict.status is Status.VIOLATED)  # type: ignore[union-attr]
    assert weakest == pytest.approx(20, abs=0.6)


def test_learning_search_resumes_to_same_bytes(tmp_path: Path) -> None:
    run_into(Loaded(CAMPAIGN, tmp_path), tmp_path / "whole")
    journal = (tmp_path / "whole" / "journal.jsonl").read_bytes()
    for cut in range(0, len(journal), len(journal) // 12):
        again = tmp_path / f"cut{cut}"
        again.mkdir()
        for name in ("campaign.json", "origin.json"):
            (again / name).write_bytes((tmp_path / "whole" / name).read_bytes())
        (again / "journal.jsonl").write_bytes(journal[:cut])
        run_into(Loaded(CAMPAIGN, tmp_path), again)
        assert (again / "journal.jsonl").read_bytes() == journal


def test_journal_of_other_trials_is_refused(tmp_path: Path) -> None:
    run_into(Loaded(CAMPAIGN, tmp_path), tmp_path / "run")

    other = replace(CAMPAIGN, search=Bisect(3))
    path = tmp_path / "run" / "campaign.json"
    path.write_text(path.read_text().replace('"steps": 8', '"steps": 3'))
    with pytest.raises(StoreError, match="holds other trials than those of this campaign"):
        run_into(Loaded(other, tmp_path), tmp_path / "run")


def test_sweep_lists_finite_and_draws_endless() -> None:
    rules = (
        Rule("listed", Over(Brighten, beta=Choices((1, 2, 3))), same_angle()),
        Rule("drawn", Over(Brighten, beta=Range(1, 60)), same_angle()),
    )
    summary = run(replace(CAMPAIGN, rules=rules, search=Sweep(per_case=4)), MemoryLedger()).as_dict()
    assert {name: rule["trials"] for name, rule in summary["rules"].items()} == {"listed": 15, "drawn": 20}


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "6"])
def test_wrong_number_of_draws_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="'per_case' must be a whole number of at least 1, got"):
        Sweep(per_case=wrong)  # type: ignore[arg-type]


def test_sweep_by_change_asks_the_same_trials_in_another_order() -> None:
    rules = (Rule("brighter", Over(Brighten, beta="grid"), same_angle(20)), Rule("any", Over(Brighten), same_angle(20)))
    keys = [f"case-{number:02}" for number in range(11)]
    plan = Plan(keys, rules, 1, {}, 4)

    def asked(by: str) -> list[list[Trial]]:
        session, asks = Sweep(per_case=2, by=by).start(plan), []
        while trials := session.ask():
            asks.append(list(trials))
        return asks

    by_case, by_change = asked("case"), asked("change")
    assert sorted(map(str, chain(*by_case))) == sorted(map(str, chain(*by_change)))
    first = by_change[0][:4]
    assert [trial.case for trial in first] == keys[:4]
    assert len({(trial.rule, trial.draw, trial.change) for trial in first}) == 1
    with pytest.raises(ValueError, match="'by' must be 'case' or 'change'"):
        Sweep(by="rule")
