"""R24-R26 beyond a run: `swerve check` and `swerve replay` survive whatever the system does, and tell it."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from swerve.cli.main import main
from swerve.core.case import Case
from swerve.core.errors import StoreError
from swerve.core.relation import Fault, Status
from swerve.core.system import Answer
from swerve.execution.executors.processes import Allowance
from swerve.execution.replay import find_target, replay, replay_guarded
from swerve.store.view import Run
from swerve.testing import FakeSystem
from tests.fixture_runs import Made, failed, held
from tests.quality.children import until, workers_of

HANG = 3600  # seconds
CAMPAIGN = """
seed = 3
inference_batch = 4
[source]
use = "swerve.testing:FakeSource"
count = 4
[system]
use = "tests.quality.test_guarded:Changeable"
mood = "{mood}"
[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [10, 40] }}
expect = {{ use = "same-angle", within = 15 }}
[search]
use = "sweep"
per_case = 3
"""


@dataclass(frozen=True)
class Changeable(FakeSystem):
    """Steers well until a file tells it how to misbehave, on every follow-up or on everything."""

    mood: str = ""  # a file

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        mood, _, always = Path(self.mood).read_text().partition(" ") if Path(self.mood).exists() else ("", "", "")
        if mood and (always or any(case.parent for case in cases)):
            self._misbehave(mood)
        return super().__call__(cases)

    def _misbehave(self, mood: str) -> None:
        if mood == "hang":
            time.sleep(HANG)
        elif mood == "abort":
            os.abort()
        elif mood == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif mood == "exit":
            os._exit(0)
        elif mood == "greedy":
            _ = bytearray(64_000_000_000)
        elif mood == "loud":
            for stream in (sys.stdout, sys.stderr):
                print("x" * 2_000_000, file=stream, flush=True)
        elif mood == "elsewhere":
            os.chdir("/")


@pytest.fixture
def mood(tmp_path: Path) -> Path:
    return tmp_path / "mood"


@pytest.fixture
def file(tmp_path: Path, mood: Path) -> Path:
    path = tmp_path / "campaign.toml"
    path.write_text(CAMPAIGN.format(mood=mood))
    return path


@pytest.fixture
def run(tmp_path: Path, file: Path) -> Run:
    """A finished run of the system while it behaved."""
    assert main(["run", str(file), "--into", str(tmp_path / "run"), "--no-report", "--workers", "0"]) == 1
    return Run(tmp_path / "run")


ENDINGS = {
    "hang": (Fault.TIMEOUT, r"the process did not reply within \d+ s"),
    "abort": (Fault.SIGNAL, r"killed by signal 6 \(SIGABRT\)"),
    "kill": (Fault.SIGNAL, r"killed by signal 9 \(SIGKILL\)"),
    "exit": (Fault.MODEL, "exited with code 0 before it replied"),
    "greedy": (Fault.OOM, "MemoryError"),
}


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("how", ENDINGS)
def test_replay_survives_and_tells(run: Run, mood: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    mood.write_text(how)
    finding, started = next(run.findings()), time.monotonic()
    capsys.readouterr()
    assert main(["replay", str(run.folder), finding.id, "--timeout", "2"]) == 1
    assert time.monotonic() - started < HANG / 10
    told = capsys.readouterr().out
    kind, words = ENDINGS[how]
    assert re.search(words, told), told
    assert f"verdict differs: violated then, {kind} error now" in told
    assert told.rstrip().endswith("not reproduced")
    until(lambda: not workers_of(run.folder))


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("how", ["loud", "elsewhere"])
def test_bad_manners_are_not_heard_of(run: Run, mood: Path, how: str, capfd: pytest.CaptureFixture[str]) -> None:
    mood.write_text(how)
    finding, here = next(run.findings()), os.getcwd()
    capfd.readouterr()
    assert main(["replay", str(run.folder), finding.id]) == 0
    out, errors = capfd.readouterr()
    assert (out.splitlines()[-1], errors, os.getcwd()) == ("reproduced", "", here)


def test_guarded_replay_is_the_plain_one(run: Run) -> None:
    for finding in list(run.findings())[:3]:
        assert replay_guarded(run.folder, finding.id) == replay(run.folder, finding.id)


@pytest.mark.usefixtures("forked_workers")
def test_other_weights_are_told_and_not_refused(run: Run) -> None:
    """A run refuses to go on with them; a replay is there to tell what they do."""
    path = run.folder / "campaign.json"
    finding = next(run.findings())
    path.write_text(path.read_text().replace('"gain": 1.0', '"gain": 0.0'))
    trusted = [__name__]  # a campaign.json that was edited has lost the consent of its run
    again = replay_guarded(run.folder, finding.id, trusted=trusted)
    assert again == replay(run.folder, finding.id, trusted=trusted)
    assert again.verdict.status is Status.HELD
    assert any(line.startswith("weights differ: sha ") for line in again.changed)


def test_unknown_finding_starts_no_worker(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(run.folder), "0000dead"]) == 2
    assert "no finding '0000dead'" in capsys.readouterr().err


@pytest.mark.usefixtures("forked_workers")
def test_case_that_reads_no_more_stops_with_its_sentence(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    path = run.folder / "campaign.json"
    finding = list(run.findings())[-1]
    path.write_text(path.read_text().replace('"count": 4', '"count": 1'))
    assert main(["replay", str(run.folder), finding.id, "--trust", __name__]) == 2
    assert (
        f"case {finding.case} could be read at the start of the campaign, but cannot be read now" in capsys.readouterr().err
    )


# Errors can be run again too: they have their change, and a process of their own.


@pytest.fixture
def small(file: Path) -> Path:
    """Every death costs a start: two cases, and one change."""
    file.write_text(file.read_text().replace("count = 4", "count = 2").replace("beta = [10, 40]", "beta = 30.0"))
    return file


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("how", ["abort", "hang", "greedy"])
def test_error_of_a_run_replays(
    tmp_path: Path, small: Path, mood: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mood.write_text(how)
    words = ["--no-report", "--workers", "1", "--timeout", "1", "--force"]
    assert main(["run", str(small), "--into", str(tmp_path / "run"), *words]) == 3
    folder = tmp_path / "run"
    rows = list(Run(folder).trials())
    assert {row["status"] for row in rows} == {"error"}
    assert all(row["change"] and row["words"] for row in rows)
    capsys.readouterr()
    assert main(["replay", str(folder), rows[0]["id"], "--timeout", "1"]) == 0
    told = capsys.readouterr().out
    assert rows[0]["words"] in told
    assert told.rstrip().endswith("\nreproduced")
    mood.unlink()
    assert main(["replay", str(folder), rows[0]["id"], "--timeout", "1"]) == 1
    assert f"verdict differs: {rows[0]['error']} error then, " in capsys.readouterr().out


def test_errors_are_sought_by_enough_of_their_id(tmp_path: Path) -> None:
    run = Made([failed("a", "boom", kind=Fault.OOM), held("b")]).write(tmp_path / "run")
    row = next(run.trials())
    sought = find_target(run, row["id"][:8])
    assert (sought.finding.id, sought.status, sought.kind) == (row["id"], Status.ERROR, Fault.OOM)
    assert find_target(run, row["id"][:3]).finding.id == row["id"]  # a short start is enough where only one id has it
    for prefix in ("", "zzzz"):
        with pytest.raises(StoreError, match="no finding"):
            find_target(run, prefix)
    with pytest.raises(StoreError, match="no finding"):
        find_target(run, row["id"], shrunk=True)


@pytest.mark.usefixtures("forked_workers")
def test_recorded_failure_says_how_to_ask_again(
    tmp_path: Path, small: Path, mood: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More time in the same folder changes nothing, as the journal has its answers; so it is said."""
    mood.write_text("hang always")
    words = ["run", str(small), "--no-report", "--workers", "1"]
    assert main([*words, "--into", str(tmp_path / "run"), "--timeout", "1"]) == 3
    first = capsys.readouterr().err
    mood.unlink()
    assert main([*words, "--into", str(tmp_path / "run"), "--timeout", "60"]) == 3
    assert capsys.readouterr().err == first
    assert "the process did not reply within 1 s" in first
    assert first.endswith(f"; as recorded in {tmp_path / 'run'}: choose another --into to ask again\n")
    assert main([*words, "--into", str(tmp_path / "other"), "--timeout", "60"]) in (0, 1)


# `swerve check`.


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("how", ["abort", "exit", "hang", "greedy"])
def test_check_survives_a_system_that_always_fails(
    small: Path, mood: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mood.write_text(f"{how} always")
    started = time.monotonic()
    assert main(["check", str(small), "--timeout", "1", "--workers", "2"]) == 3
    assert time.monotonic() - started < HANG / 10
    told = capsys.readouterr().err
    assert "the system failed on all 2 cases; the first, fake-00000: " in told
    assert re.search(ENDINGS[how][1], told), told


@pytest.mark.usefixtures("forked_workers")
def test_check_survives_follow_ups_that_fail(small: Path, mood: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mood.write_text("abort")
    assert main(["check", str(small), "--workers", "2"]) == 0
    told = capsys.readouterr().out
    assert (
        "never judged: rule 'brighter': none of 2 changes tried could be judged: the process was killed by signal 6" in told
    )


@pytest.mark.usefixtures("forked_workers")
def test_check_says_the_same_with_any_workers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for workers in ("0", "2"):
        assert main(["check", str(file), "--workers", workers]) == 0
        told.append([line for line in capsys.readouterr().out.splitlines() if "CPU minutes" not in line])
    assert told[0] == told[1]


@pytest.mark.usefixtures("forked_workers")
def test_check_leaves_nothing_behind(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    assert main(["check", str(file), "--workers", "1"]) == 0
    assert list(place.iterdir()) == []
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("forked_workers")
def test_allowance_is_that_of_two_cases(run: Run, mood: Path) -> None:
    """A replay asks for the source and its follow-up: each may take as long as a case of a run."""
    mood.write_text("hang")
    again = replay_guarded(run.folder, next(run.findings()).id, allowance=replace(Allowance(), seconds=0.5))
    assert again.verdict.why.startswith("the process did not reply within 1 s")
    assert again.differs == (f"verdict differs: violated then, timeout error now ({again.verdict.why})",)
