"""How many workers a machine is asked to bear."""

from __future__ import annotations

from pathlib import Path

import pytest

from swerve.cli.main import main
from swerve.core.errors import InputError
from swerve.execution.executors import cores

CAMPAIGN = """
[source]
use = "swerve.testing:FakeSource"
[system]
use = "swerve.testing:FakeSystem"
[[rule]]
name = "brighter"
change = { use = "brighten", beta = [1, 40] }
expect = { use = "same-angle", within = 15 }
"""


@pytest.mark.parametrize(("there", "most"), [(1, 8), (2, 8), (3, 12), (64, 256)])
def test_four_workers_a_core_are_enough(there: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "cores", lambda: there)
    for workers in (0, 1, most):
        cores.refuse_crowd(workers)
        cores.refuse_crowd(workers, "ray")
    told = rf"^--workers {most + 1}: this machine has {there} cores; at most {most} workers make sense on it$"
    for on in (None, "ray"):  # which is a cluster of this machine
        with pytest.raises(InputError, match=told):
            cores.refuse_crowd(most + 1, on)
    cores.refuse_crowd(most + 1, "ray://elsewhere:10001")


def test_there_is_a_core() -> None:
    assert cores.cores() >= 1


@pytest.mark.parametrize("verb", ["run", "check", "shrink"])
def test_crowd_is_refused_before_anything_is_done(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "campaign.toml", tmp_path / "run"
    file.write_text(CAMPAIGN)
    words = {"run": [str(file), "--into", str(folder)], "check": [str(file)], "shrink": [str(folder), "--all"]}[verb]
    assert main([verb, *words, "--workers", "100000"]) == 2
    assert capsys.readouterr().err.startswith("error: --workers 100000: this machine has ")
    assert not folder.exists()
