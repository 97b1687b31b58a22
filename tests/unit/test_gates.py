"""Gates of a campaign and of its rules, alone and together, and what they measure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.cli.main import main
from swerve.config.toml import ANYWHERE, Builder, describe, load_campaign
from swerve.core.campaign import Campaign, Record
from swerve.core.case import Case
from swerve.core.errors import SpecError
from swerve.core.gate import Admission, AllOf, AnyOf, Gate, admission, admission_by_all, needs_first_frame_only
from swerve.core.relation import Rule, Status
from swerve.core.space import Over
from swerve.core.values import Image, Steering
from swerve.execution.engine import run
from swerve.relations.gates import Legible, MaxFill
from swerve.relations.steering import same_angle
from swerve.retrain.dataset import DrawnFollowups
from swerve.search.sweep import Sweep
from swerve.sources.windows import Windows
from swerve.store.record_json import record_of, record_row
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.affine import Rotate
from swerve.transformations.photometric import Brighten

CASE = Case("a", {"camera": Image(np.zeros((4, 4, 3), np.uint8))}, (Steering(0),))


@dataclass(frozen=True)
class Says:
    """A gate that decides as it is told, and keeps count."""

    decision: Any = None
    asked: list[str] = field(default_factory=list, compare=False)
    first_frame: bool = False

    def admit(self, source: Case, followup: Case) -> Any:
        del followup
        self.asked.append(source.key)
        return self.decision


def admitted() -> Says:
    return Says(Admission("", {"share": 0.25}))


def refused(why: str = "too dark", **facts: Any) -> Says:
    return Says(Admission(why, facts))


# --- one gate, and several -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "why"),
    [(None, ""), ("", ""), ("too dark", "too dark"), (Admission("no"), "no"), (Admission(), ""), (Admission(None), "")],  # type: ignore[arg-type]
)
def test_gate_returns_a_reason_or_a_decision(decision: Any, why: str) -> None:
    assert admission(Says(decision), CASE, CASE) == Admission(why)


def test_facts_are_plain() -> None:
    """As a resumed run reads them from its journal."""
    given = {"a": np.float32(0.5), "b": 3, "c": True, "d": "x", "e": float("nan"), "f": np.inf, "g": np.array([1])}
    facts = Admission("", given).facts  # type: ignore[arg-type]
    assert facts == {"a": 0.5, "b": 3.0, "c": 1.0, "d": "x", "e": "nan", "f": "inf", "g": "[1]"}
    assert {type(fact) for fact in facts.values()} == {float, str}
    assert json.loads(json.dumps(dict(facts))) == facts
    assert isinstance(Says(), Gate)


decisions = st.lists(st.sampled_from(["", "dark", "grey"]), min_size=1, max_size=4)


@given(decisions)
def test_all_and_any(reasons: list[str]) -> None:
    def gates() -> tuple[Says, ...]:
        return tuple(Says(Admission(why, {f"fact {place}": place})) for place, why in enumerate(reasons))

    every, some = gates(), gates()
    by_all, by_any = AllOf(every).admit(CASE, CASE), AnyOf(some).admit(CASE, CASE)
    assert bool(by_all.why) == any(reasons)
    assert bool(by_any.why) == all(reasons)
    assert by_all.why == next(filter(None, reasons), "")
    assert by_any.why == ("; ".join(reasons) if all(reasons) else "")
    for found, asked, ends in ((by_all, every, bool), (by_any, some, lambda why: not why)):
        last = next((place for place, why in enumerate(reasons) if ends(why)), len(reasons) - 1)
        assert [len(gate.asked) for gate in asked] == [int(place <= last) for place in range(len(reasons))]
        assert found.facts == {f"fact {place}": float(place) for place in range(last + 1)}
    assert admission_by_all(gates(), CASE, CASE) == by_all
    assert AllOf((AllOf(gates()), AnyOf(gates()))).admit(CASE, CASE).why == by_all.why


def test_no_gates_admit_everything() -> None:
    assert admission_by_all((), CASE, CASE) == Admission()


@pytest.mark.parametrize("several", [AllOf, AnyOf])
@pytest.mark.parametrize("wrong", [(), (MaxFill(), "max-fill"), MaxFill()])
def test_gates_must_be_gates(several: Callable[[Any], Gate], wrong: Any) -> None:
    with pytest.raises(TypeError, match="'gates' must be a list of one or more gates, got"):
        several(wrong)


@pytest.mark.parametrize("several", [AllOf, AnyOf])
def test_first_frame_is_enough_for_all_or_not(several: Callable[[Any], Gate]) -> None:
    assert needs_first_frame_only(several((MaxFill(), Legible())))
    assert not needs_first_frame_only(several((MaxFill(), Says())))


# --- in a campaign -------------------------------------------------------------------------------------------------------


def campaign(*rules: Rule, gate: Gate | None = None, source: Any = None) -> Campaign:
    return Campaign(source or FakeSource(6), FakeSystem(), rules, Sweep(per_case=2), gate, seed=3, inference_batch=4)


def carried_out(given: Campaign) -> tuple[dict[str, Any], list[Record]]:
    ledger = MemoryLedger()
    summary = run(given, ledger).as_dict()
    return summary, [item for batch in ledger.batches for item in batch if isinstance(item, Record)]


def test_gate_of_one_rule_leaves_the_others_alone() -> None:
    dark, free = (Rule(name, Over(Brighten), same_angle(15), gate=gate) for name, gate in (("a", refused()), ("b", None)))
    summary, records = carried_out(campaign(dark, free))
    assert {name: counts["skipped"] for name, counts in summary["rules"].items()} == {"a": 12, "b": 0}
    assert {record.verdict.why for record in records if record.trial.rule == "a"} == {"too dark"}


@pytest.mark.parametrize(
    ("general", "own", "why"),
    [
        (None, None, ""),
        (None, "own", "own"),
        ("general", None, "general"),
        ("general", "own", "general"),  # the campaign's is asked first
        ("", "own", "own"),
        ("general", "", "general"),
        ("", "", ""),
    ],
)
def test_rule_and_campaign_must_both_admit(general: str | None, own: str | None, why: str) -> None:
    gates = [None if name is None else refused(name) for name in (general, own)]
    _, records = carried_out(campaign(Rule("a", Over(Brighten), same_angle(90), gate=gates[1]), gate=gates[0]))
    assert {record.verdict.status for record in records} == {Status.SKIPPED if why else Status.HELD}
    assert not why or {record.verdict.why for record in records} == {why}


@dataclass(frozen=True)
class Measured:
    """How much brighter the follow-up is."""

    most: float = 20.0

    def admit(self, source: Case, followup: Case) -> Admission:
        before, after = (case.inputs["camera"].pixels.mean() for case in (source, followup))  # type: ignore[attr-defined]
        gain = after - before
        return Admission(f"brighter by {gain:.0f}" if gain > self.most else "", {"gain": gain})


def test_facts_land_in_the_record() -> None:
    rule = Rule("up", Over(Brighten), same_angle(15), gate=Measured())
    _, records = carried_out(campaign(rule, gate=Says(Admission("", {"admitted": "yes"}))))
    for record in records:
        beta = record.change.beta  # type: ignore[union-attr]
        assert record.facts["gain"] == pytest.approx(beta, abs=1)
        assert record.facts["admitted"] == "yes"
        assert (record.verdict.status is Status.SKIPPED) == (record.facts["gain"] > 20)
        assert record_of(json.loads(json.dumps(record_row(record))), Builder("change")).facts == record.facts
    assert {record.verdict.status for record in records} == {Status.HELD, Status.VIOLATED, Status.SKIPPED}


def test_facts_of_a_change_stay() -> None:
    turned = Rule("turned", Rotate(9.0), same_angle(90), gate=Measured())
    free = Rule("free", Rotate(9.0), same_angle(90))
    _, records = carried_out(campaign(turned, free))
    of = {name: [dict(record.facts) for record in records if record.trial.rule == name] for name in ("turned", "free")}
    assert all(facts["fill"] > 0 for facts in of["free"])
    assert [{name: fact for name, fact in facts.items() if name != "gain"} for facts in of["turned"]] == of["free"]
    assert all("gain" in facts for facts in of["turned"])


def test_facts_are_in_the_run(tmp_path: Path) -> None:
    """In the journal, on the finding's card and in both CSV files."""
    import swerve

    swerve.run(campaign(Rule("up", Brighten(18), same_angle(15), gate=Measured())), tmp_path / "run")
    opened = Run(tmp_path / "run")
    assert all(row["facts"]["gain"] == pytest.approx(18, abs=1) for row in opened.trials())
    assert "measured</small> <bdi>gain 18</bdi>" in (tmp_path / "run" / "report" / "index.html").read_text()
    assert '""gain"": 18.' in (tmp_path / "run" / "tables" / "findings.csv").read_text()
    assert main(["export", str(tmp_path / "run"), "--as", "csv", "--out", str(tmp_path / "found.csv")]) == 0
    assert '""gain"": 18.' in (tmp_path / "found.csv").read_text()


@dataclass(frozen=True)
class Counting(Brighten):
    """Counts the frames that it changes."""

    frames: ClassVar[list[int]] = []

    def image(self, image: Image) -> Image:
        self.frames.append(1)
        return super().image(image)


@pytest.mark.parametrize("first", [True, False])
def test_first_frame_goes_by_the_rule_too(first: bool) -> None:
    """A rule's gate that needs one frame refuses a window of five before the other four are changed."""
    Counting.frames.clear()
    rule = Rule("up", Counting(20), same_angle(15), gate=Says(Admission("no", {"x": 1}), first_frame=first))
    _, records = carried_out(campaign(rule, source=Windows(FakeSource(5, drive=5), 5)))
    assert [record.verdict.why for record in records] == ["no"]
    assert dict(records[0].facts) == {"x": 1.0}
    assert len(Counting.frames) == (1 if first else 5)


class Writer(FakeSystem):
    """Writes into what it is shown."""

    def __call__(self, cases: Sequence[Case]) -> list[Any]:
        answers = super().__call__(cases)
        for case in cases:
            if case.parent is not None or case.inputs["camera"].pixels.max() > 150:  # type: ignore[attr-defined]
                pixels = case.inputs["camera"].pixels  # type: ignore[attr-defined]
                pixels.flags.writeable = True
                pixels[:] = 0
        return answers


def test_facts_survive_a_system_that_writes() -> None:
    given = campaign(Rule("up", Brighten(19), same_angle(15), gate=Measured()))
    _, records = carried_out(Campaign(given.source, Writer(), given.rules, given.search, seed=3, inference_batch=4))
    assert {record.verdict.status for record in records} == {Status.ERROR}
    assert all(record.facts["gain"] == pytest.approx(19, abs=1) for record in records)


def test_retraining_goes_by_the_rule_s_gate() -> None:
    gate = refused()
    kept, none = (Rule(name, Over(Brighten), same_angle(15), gate=one) for name, one in (("kept", None), ("none", gate)))
    given = campaign(kept, none)
    found = DrawnFollowups(given, given.rules).of(given.source.keys(), 1.0)
    assert found
    assert {example.rule for example in found} == {"kept"}
    assert gate.asked


@pytest.mark.parametrize("wrong", ["max-fill", 0.5])
def test_gate_of_a_rule_must_be_one(wrong: Any) -> None:
    with pytest.raises(TypeError, match="rule 'a': 'gate' must be a gate, got"):
        Rule("a", Brighten(5), same_angle(15), gate=wrong)


# --- in a campaign file --------------------------------------------------------------------------------------------------

FILE = """
[source]
use = "swerve.testing:FakeSource"
count = 4
[system]
use = "swerve.testing:FakeSystem"
[[rule]]
name = "turned"
change = {{ use = "rotate", degrees = [5, 40] }}
expect = {{ use = "same-angle", within = 5.0 }}
{rule}
[[rule]]
name = "free"
change = {{ use = "rotate", degrees = [5, 40] }}
expect = {{ use = "same-angle", within = 5.0 }}
"""
FILL, LEGIBLE = MaxFill(0.25), Legible()


def loaded(folder: Path, rule: str = "") -> Campaign:
    (folder / "mine.toml").write_text(FILE.format(rule=rule))
    return load_campaign(str(folder / "mine.toml")).campaign


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("", None),
        ('"legible"', LEGIBLE),
        ('{ use = "max-fill", share = 0.25 }', FILL),
        ('["legible"]', AllOf((LEGIBLE,))),
        ('["legible", { use = "max-fill", share = 0.25 }]', AllOf((LEGIBLE, FILL))),
        ('{ use = "any-of", gates = ["legible", { use = "max-fill", share = 0.25 }] }', AnyOf((LEGIBLE, FILL))),
        ('[{ use = "any-of", gates = ["legible"] }, ["legible"]]', AllOf((AnyOf((LEGIBLE,)), AllOf((LEGIBLE,))))),
        ('{ use = "all-of", gates = ["legible"] }', AllOf((LEGIBLE,))),
    ],
)
def test_gates_in_a_file(tmp_path: Path, text: str, gate: Gate | None) -> None:
    line = f"gate = {text}" if text else ""
    made = loaded(tmp_path, line)
    assert [made.gate, *(rule.gate for rule in made.rules)] == [None, gate, None]
    spec = json.loads(json.dumps(describe(made, ANYWHERE)))
    assert [rule.gate for rule in Builder("campaign.json:", ANYWHERE).campaign(spec).rules] == [gate, None]
    assert ["gate" in rule for rule in spec["rule"]] == [gate is not None, False]


def test_list_of_gates_for_the_campaign() -> None:
    spec = {
        "source": {"use": "swerve.testing:FakeSource"},
        "system": {"use": "swerve.testing:FakeSystem"},
        "gate": ["legible", {"use": "max-fill", "share": 0.25}],
        "rule": [{"name": "a", "change": "rotate", "expect": "same-angle", "least_shift": 2}],
    }
    made = Builder().campaign(spec)
    assert made.gate == AllOf((LEGIBLE, FILL))
    assert made.rules[0].least_shift == 2.0
    assert describe(made, ANYWHERE)["rule"][0]["least_shift"] == 2.0
    again = Builder().campaign(json.loads(json.dumps(describe(made, ANYWHERE))))
    assert (again.gate, again.rules[0].least_shift) == (made.gate, 2.0)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('gate = "sweep"', "rule 'turned'.gate: use = 'sweep': expected a gate, got Sweep"),
        ("gate = []", "rule 'turned'.gate: 'gates' must be a list of one or more gates, got ()"),
        ('gate = ["legible", "rotate"]', "rule 'turned'.gate.[1]: use = 'rotate': expected a gate, got Rotate"),
        ("gate = 3", "rule 'turned'.gate: expected a table with 'use', got int 3"),
        ("least_shift = -1", "rule 'turned': 'least_shift' must be a number of at least 0, got -1"),
        ('least_shift = "1"', "rule 'turned': 'least_shift' must be a number of at least 0, got '1'"),
        ('gates = "legible"', "rule[0]: unknown key 'gates'; did you mean 'gate'?"),
    ],
)
def test_mistake_is_named(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(SpecError) as failed:
        loaded(tmp_path, rule=line)
    assert why in str(failed.value)


def test_gates_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "gates", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["gates"]}
    assert {"all-of", "any-of", "legible", "max-fill"} <= listed.keys()
    assert listed["any-of"]["arguments"] == {"gates": {"type": "list of gates", "needed": True}}
    assert listed["all-of"]["about"].startswith("Admits a follow-up that all `gates` admit")


def test_page_names_the_gate_of_a_rule(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FILE.format(rule='gate = "max-fill"\nleast_shift = 2.5'))
    assert main(["run", str(file), "--into", str(tmp_path / "run"), "--workers", "0"]) in (0, 1)
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert "within 5° of the answer on the source; gate max-fill, share 0.5; least shift 2.5" in page
