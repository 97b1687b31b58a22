"""A run ends by shrinking one finding of each group, within its budget; the journal is not touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swerve.cli.main import main
from swerve.execution.executors.in_process import InProcess
from swerve.execution.shrink_budget import default_budget
from swerve.store.artifacts import shrunk_of
from swerve.store.view import Run

CAMPAIGN = """
seed = 3
[source]
use = "swerve.testing:FakeSource"
count = 6
[system]
use = "swerve.testing:FakeSystem"
[search]
use = "sweep"
[[rule]]
name = "light"
change = { use = "brighten", beta = "grid" }
expect = { use = "same-angle", within = 0.5 }
[[rule]]
name = "contrast"
change = { use = "contrast", alpha = "grid" }
expect = { use = "same-angle", within = 0.5 }
"""


def run_with(folder: Path, *options: str) -> Run:
    file = folder / "campaign.toml"
    file.write_text(CAMPAIGN)
    into = folder / f"run{''.join(options)}"
    assert main(["run", str(file), "--into", str(into), "--workers", "0", *options]) == 1
    return Run(into)


def test_budget_is_a_share_of_the_trials() -> None:
    assert [default_budget(trials) for trials in (0, 4, 100, 5000)] == [0, 0, 20, 400]


def test_exemplars_are_shrunk_and_the_journal_stays(tmp_path: Path) -> None:
    plain, shrunk = run_with(tmp_path, "--shrink", "0"), run_with(tmp_path, "--shrink", "300")
    assert (plain.folder / "journal.jsonl").read_bytes() == (shrunk.folder / "journal.jsonl").read_bytes()
    assert not (plain.folder / "shrinking.json").exists()
    told = json.loads((shrunk.folder / "shrinking.json").read_text())
    assert told["budget"] == 300
    assert 0 < told["used"] <= 300
    assert told["shrunk"] == told["groups"] > 0
    found = [one for finding in shrunk.findings() if (one := shrunk_of(shrunk, finding.id))]
    assert len(found) == told["shrunk"]
    assert sum(one.tries for one in found) == told["used"]
    assert any("holds at" in one.words for one in found)
    page = (shrunk.folder / "report" / "index.html").read_text()
    assert f"with {told['used']} of at most 300 further trials" in page


def test_small_budget_is_not_exceeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    evaluate = InProcess.evaluate
    monkeypatch.setattr(
        InProcess, "evaluate", lambda self, batches: (asked.append(len(batches)), evaluate(self, batches))[1]
    )
    whole = run_with(tmp_path, "--shrink", "0")
    without = sum(asked)
    asked.clear()
    few = run_with(tmp_path, "--shrink", "5")
    assert sum(asked) - without <= 5
    assert (few.folder / "journal.jsonl").read_bytes() == (whole.folder / "journal.jsonl").read_bytes()
