"""Rules that fail a build only under a condition, and the requirements that rules test."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from swerve.analysis.acceptance import Acceptance, acceptances
from swerve.analysis.numbers import RuleCounts, numbers_of
from swerve.analysis.statistics import wilson
from swerve.cli.main import main
from swerve.cli.run import exit_code
from swerve.config.toml import Builder, describe
from swerve.core.errors import InputError, SpecError
from swerve.core.fail_if import COUNTS, SHARES, FailIf
from swerve.core.origin import Origin
from swerve.report.html import write_report
from swerve.store.view import Run

pytestmark = pytest.mark.usefixtures("forked_workers")

FILE = """
seed = 7
[source]
use = "swerve.testing:FakeSource"
count = 8
[system]
use = "swerve.testing:FakeSystem"
bias = 1.0
[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [1, 40] }}
expect = {{ use = "same-angle", within = 15 }}
{more}
"""


def campaign(more: str = "") -> dict[str, Any]:
    import tomllib

    return tomllib.loads(FILE.format(more=more))


def finish(folder: Path, more: str = "") -> int:
    file = folder / "mine.toml"
    file.write_text(FILE.format(more=more))
    return main(["run", str(file), "--into", str(folder / "run"), "--workers", "0"])


@pytest.mark.parametrize(
    ("text", "limit", "met"),
    [
        ("rate > 0.10", 0.1, {"rate": 0.11}),
        ("rate>10%", 0.1, {"rate": 0.11}),
        ("low >= .25", 0.25, {"low": 0.25}),
        ("high < 5 %", 0.05, {"high": 0.04}),
        ("judged <= 100", 100, {"judged": 100}),
    ],
)
def test_condition_is_parsed_and_decided(text: str, limit: float, met: dict[str, float]) -> None:
    condition = FailIf.parse(text)
    assert (condition.limit, condition.text) == (limit, text)
    assert condition.met(met)
    shifted = {name: number + (-0.06 if condition.comparison[0] == ">" else 1) for name, number in met.items()}
    assert not condition.met(shifted)


def test_limit_in_percent_is_that_share() -> None:
    """7 of 1,000 are not more than 0.7%, though 0.7 / 100 is less than 7 / 1000 in floats; nor are they fewer."""
    for thousandths in range(1001):
        rate = thousandths / 1000
        for text in (f"{thousandths / 10:g}%", f"{thousandths / 10:.3f} %", f"{rate:g}", f"{rate:.5f}"):
            assert not FailIf.parse(f"rate > {text}").met({"rate": rate}), text
            assert not FailIf.parse(f"rate < {text}").met({"rate": rate}), text
            assert FailIf.parse(f"rate >= {text}").met({"rate": rate}), text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rat > 0.1", "unknown quantity 'rat'; did you mean 'rate'?"),
        ("rate > 10", "is a share from 0 to 1; for 10 percent write 0.10 or 10%"),
        ("violated > 10%", "is a number of trials, not a percentage"),
        ("rate", "expected a condition such as 'rate > 0.10'"),
        ("rate > 0.1 or 1", "expected a condition"),
        ("__import__('os') > 1", "expected a condition"),
        ("rate == 0.1", "expected a condition"),
        ("rate > -1", "expected a condition"),
    ],
)
def test_other_texts_are_refused(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="rule 'brighter'") as refused:
        Builder("mine.toml:", tmp_path).campaign(campaign(f"fail_if = {json.dumps(text)}"))
    assert why in str(refused.value)


@pytest.mark.parametrize("given", ['""', "3", "[1]", "{ a = 1 }"])
def test_requirement_is_text(given: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="'requirement' must be a text or a list of texts"):
        Builder("", tmp_path).campaign(campaign(f"requirement = {given}"))


def test_interval_needs_a_sample(tmp_path: Path) -> None:
    """A search that adapts has no rate with an interval, so a condition on its ends is refused."""
    table = {**campaign('fail_if = "low > 0.1"'), "search": {"use": "greedy", "follow": "chance", "budget": 3}}
    with pytest.raises(SpecError, match="needs an interval, but the search adapts"):
        Builder("", tmp_path).campaign(table)
    assert Builder("", tmp_path).campaign({**table, **campaign('fail_if = "rate > 0.1"')})


def test_rule_without_new_keys_is_described_as_before(tmp_path: Path) -> None:
    plain = describe(Builder("", tmp_path).campaign(campaign()), tmp_path)
    assert list(plain["rule"][0]) == ["name", "change", "expect"]
    full = campaign('fail_if = "rate > 0.5"\nrequirement = ["SYS-12", "SYS-13"]')
    described = describe(Builder("", tmp_path).campaign(full), tmp_path)["rule"][0]
    assert (described["fail_if"], described["requirement"]) == (["rate > 0.5"], ["SYS-12", "SYS-13"])
    again = Builder("", tmp_path).campaign({**full, "rule": [described]})
    assert again.rules[0].requirement == ("SYS-12", "SYS-13")


LINE = RuleCounts("r", held=6, violated=4, skipped=3, errors=2, origins={Origin.INTRODUCED: 3, Origin.MARGINAL: 1})


@pytest.mark.parametrize(
    ("quantity", "number"),
    [
        ("rate", 0.4),
        ("low", wilson(4, 10)[0]),
        ("high", wilson(4, 10)[1]),
        ("violated", 4),
        ("introduced", 3),
        ("judged", 10),
        ("skipped", 3),
        ("errors", 2),
    ],
)
def test_quantities_are_those_of_the_rule(quantity: str, number: float) -> None:
    assert {*SHARES, *COUNTS} >= {quantity}
    assert Acceptance(LINE, (FailIf(quantity, ">=", number, ""),)).failed
    assert not Acceptance(LINE, (FailIf(quantity, ">", number, ""),)).failed


def test_any_condition_fails_a_rule() -> None:
    conditions = FailIf.parse("rate > 0.5"), FailIf.parse("errors > 0")
    accepted = Acceptance(LINE, conditions)
    assert accepted.failed
    assert [one.text for one in accepted.met] == ["errors > 0"]
    assert "failed, as errors > 0 (4 of 10 violated, 40.0%, 95% Wilson 16.8% to 68.7%)" in accepted.words
    assert Acceptance(LINE).failed  # without a condition any finding fails it
    assert not Acceptance(replace(LINE, violated=0)).failed


def test_rule_without_judged_trials_is_not_accepted() -> None:
    nothing = Acceptance(RuleCounts("r", skipped=9), (FailIf.parse("rate > 0.5"),))
    assert nothing.failed
    assert not nothing.tolerated
    assert "cannot be decided" in nothing.words
    assert nothing.as_dict()["acceptance"] == {
        "fail_if": ["rate > 0.5"],
        "met": [],
        "failed": True,
        "undecided": "no trial was judged",
    }


def test_condition_decides_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(tmp_path) == 1
    journal = (tmp_path / "run" / "journal.jsonl").read_bytes()
    before = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert "acceptance" not in before["rules"]["brighter"]
    rate = before["violated"] / (before["held"] + before["violated"])
    assert 0 < rate < 1
    capsys.readouterr()
    # The same folder is judged anew: nothing is run again, and the journal keeps its bytes.
    assert finish(tmp_path, f'fail_if = "rate > {rate + 0.01:.4f}"\nrequirement = "SYS-12"') == 0
    assert "brighter: accepted, as not rate > " in capsys.readouterr().out
    assert finish(tmp_path, f'fail_if = "rate > {rate - 0.01:.4f}"\nrequirement = "SYS-12"') == 1
    out = capsys.readouterr().out
    assert "brighter: failed, as rate > " in out
    assert "[SYS-12]" in out
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == journal
    rule = json.loads((tmp_path / "run" / "summary.json").read_text())["rules"]["brighter"]
    assert rule["requirement"] == ["SYS-12"]
    assert rule["acceptance"]["failed"] is True
    assert rule["acceptance"]["rate"] == pytest.approx(rate)
    assert rule["acceptance"]["interval"] == pytest.approx(wilson(rule["violated"], rule["held"] + rule["violated"]))


def counts(**rules: dict[str, Any]) -> dict[str, Any]:
    whole = {name: sum(rule[name] for rule in rules.values()) for name in ("held", "violated", "skipped", "errors")}
    return {**whole, "error_kinds": {}, "failed_cases": 0, "rules": rules}


def test_other_rules_fail_as_before() -> None:
    tolerated = {"held": 5, "violated": 5, "skipped": 0, "errors": 0, "acceptance": {"failed": False}}
    plain = {"held": 5, "violated": 0, "skipped": 0, "errors": 0}
    assert exit_code(counts(a=tolerated, b=plain)) == 0
    assert exit_code(counts(a=tolerated, b={**plain, "violated": 1})) == 1
    assert exit_code({**counts(a=tolerated, b={**plain, "errors": 1}), "error_kinds": {"model": 1}}) == 3
    unjudged = {
        "held": 0,
        "violated": 0,
        "skipped": 9,
        "errors": 0,
        "acceptance": {"failed": True, "undecided": "no trial was judged"},
    }
    with pytest.raises(InputError, match="rule 'a': no trial was judged, so its fail_if cannot be decided"):
        exit_code(counts(a=unjudged, b=plain))


@pytest.mark.parametrize(("limit", "failures"), [("rate > 0", True), ("rate > 0.99", False)])
def test_requirements_reach_every_export(limit: str, failures: bool, tmp_path: Path) -> None:
    finish(tmp_path, f'fail_if = "{limit}"\nrequirement = ["SYS-12", "<SYS> & 13"]')
    run = Run(tmp_path / "run")
    for form in ("junit", "sarif"):
        assert main(["export", str(run.folder), "--as", form, "--out", str(tmp_path / form)]) == 0
    (suite,) = ElementTree.fromstring((tmp_path / "junit").read_text())
    properties = [(item.get("name"), item.get("value")) for item in suite.iter("property")]
    assert properties[:2] == [("requirement", "SYS-12"), ("requirement", "<SYS> & 13")]
    deciding = [case for case in suite.iter("testcase") if case.get("name") == f"fail_if: {limit}"]
    assert [bool(len(case)) for case in deciding] == [failures]
    assert bool(int(suite.get("failures", ""))) is failures
    shown = [case for case in suite.iter("testcase") if case.find("skipped") is not None]
    assert all("tolerated by fail_if" in case.find("skipped").get("message") for case in shown)  # type: ignore[union-attr]
    assert bool(shown) is not failures
    (sarif,) = json.loads((tmp_path / "sarif").read_text())["runs"]
    (rule,) = sarif["tool"]["driver"]["rules"]
    assert rule["properties"]["requirement"] == ["SYS-12", "<SYS> & 13"]
    assert rule["properties"]["acceptance"]["failed"] is failures
    assert {result["level"] for result in sarif["results"]} == ({"error"} if failures else {"note"})
    assert all(result["properties"]["requirement"] == ["SYS-12", "<SYS> & 13"] for result in sarif["results"])
    page = write_report(run).read_text()
    assert f"tests SYS-12, &lt;SYS&gt; &amp; 13; fails if {limit.replace('>', '&gt;')}" in page


def test_edited_conditions_are_ignored(tmp_path: Path) -> None:
    """A damaged run folder is still readable; its rule then fails by any finding."""
    finish(tmp_path, 'fail_if = "rate > 0.99"')
    path = tmp_path / "copy"
    shutil.copytree(tmp_path / "run", path)
    identity = json.loads((path / "campaign.json").read_text())
    identity["campaign"]["rule"][0]["fail_if"] = ["__import__('os')"]
    (path / "campaign.json").write_text(json.dumps(identity))
    run = Run(path)
    (found,) = acceptances(run.identity["campaign"], numbers_of(run).rules, {}).values()
    assert found.conditions == ()
    assert found.failed
