"""A function of the user's, named in a campaign file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from swerve.config.toml import load_campaign
from swerve.core.errors import SpecError
from swerve.execution.launch import run_into
from swerve.execution.replay import replay
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem

MINE = """
from swerve.testing import FakeSystem

def drive(case):
    return FakeSystem(bias=2)([case])[0]
"""
CAMPAIGN = """
[source]
use = "swerve.testing.fakes:FakeSource"
count = 3

[system]
use = "swerve.systems.function:FunctionSystem"
function = "{function}"

[search]
use = "sweep"
per_case = 4

[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [1, 40] }}
expect = {{ use = "same-angle", within = 15 }}
"""


def write(folder: Path, function: str, module: str) -> Path:
    (folder / f"{module}.py").write_text(MINE)
    (folder / "campaign.toml").write_text(CAMPAIGN.format(function=function))
    return folder / "campaign.toml"


def test_function_on_the_path_runs_and_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = load_campaign(str(write(tmp_path, "mine_on_path:drive", "mine_on_path")))
    cases = [FakeSource(3)[key] for key in FakeSource(3).keys()]
    assert loaded.campaign.system(cases) == FakeSystem(bias=2)(cases)
    run_into(loaded, tmp_path / "run")
    findings = list(Run(tmp_path / "run").findings())
    assert findings
    assert all(result.reproduced and not result.changed for result in (replay(tmp_path / "run", f.id) for f in findings))


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command itself, in a fresh process: nothing is remembered from the run."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("swerve")), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_fresh_process_replays_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    run_into(load_campaign(str(write(tmp_path, "mine_afresh:drive", "mine_afresh"))), tmp_path / "run")
    identity = json.loads((tmp_path / "run" / "campaign.json").read_text())
    assert identity["rebuildable"] is True
    assert identity["campaign"]["system"]["function"] == "mine_afresh:drive"
    finding = next(Run(tmp_path / "run").findings())
    same = command(tmp_path, "replay", "run", finding.id)
    assert (same.returncode, same.stdout.splitlines()[-1]) == (0, "reproduced"), same.stdout + same.stderr
    assert "differ" not in same.stdout
    # Of another length: Python takes a file of the same size and second for the one that it compiled before.
    (tmp_path / "mine_afresh.py").write_text(MINE.replace("bias=2", "gain=0.0"))
    other = command(tmp_path, "replay", "run", finding.id)
    assert (other.returncode, other.stdout.splitlines()[-1]) == (1, "not reproduced"), other.stdout + other.stderr
    assert "weights differ: sha" in other.stdout


def test_function_of_a_file_needs_trust(tmp_path: Path) -> None:
    campaign = write(tmp_path, "own.py:drive", "own")
    with pytest.raises(SpecError, match=r"system.function: own.py: is Python code and runs only with --trust"):
        load_campaign(str(campaign))
    trusted = [tmp_path / "own.py"]
    run_into(load_campaign(str(campaign), trusted), tmp_path / "run", trusted=trusted)
    finding = next(Run(tmp_path / "run").findings())
    assert replay(tmp_path / "run", finding.id, trusted=trusted).reproduced


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("no_such_module:drive", "system.function: .*there is no module 'no_such_module' on the Python path"),
        ("swerve.testing:fly", "system.function: .*swerve.testing has no class or function 'fly'"),
        ("drive", "system.function: use: unknown name 'drive'"),
    ],
)
def test_unknown_function_is_named(tmp_path: Path, function: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        load_campaign(str(write(tmp_path, function, "unused")))
