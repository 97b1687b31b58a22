"""R1: a run cut by SIGKILL at random moments and started again ends with the bytes of a run that was not."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swerve.store import Run

KILLS = 200 if os.environ.get("SWERVE_SOAK") else 20
BESIDE = {"timings.json", ".lock"}

SWEEP = """
seed = {seed}
inference_batch = 16
[source]
use = "swerve.testing:FakeSource"
count = 90
width = 120
height = 60
[system]
use = "swerve.testing:FakeSystem"
bias = 1.0
[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [1, 40] }}
expect = {{ use = "same-angle", within = 15 }}
[[rule]]
name = "turned"
change = {{ use = "rotate", degrees = "grid" }}
expect = {{ use = "lambda-mse", factor = 5 }}
[search]
use = "sweep"
per_case = 12
"""

WINDOWS = SWEEP.replace(
    'use = "swerve.testing:FakeSource"\ncount = 90\nwidth = 120\nheight = 60',
    'use = "windows"\nlength = 3\nsource = {{ use = "swerve.testing:FakeSource", count = 60, drive = 10, '
    "width = 160, height = 80 }}",
)


def command(file: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "swerve.cli", "run", str(file), "--into", str(folder), "--no-report"]


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in BESIDE
    }


def start(file: Path, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(file, folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)


def killed(process: subprocess.Popen[bytes], after: float) -> bool:
    """Whether the process was still there to be killed."""
    try:
        _, errors = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode == 1, errors.decode()
    return False


@pytest.mark.parametrize("text", [SWEEP, WINDOWS], ids=["sweep", "windows"])
def test_killed_run_ends_with_same_bytes(tmp_path: Path, text: str) -> None:
    moments = random.Random(11)
    kills = campaigns = 0
    while kills < KILLS // 2:
        file = tmp_path / "campaign.toml"
        file.write_text(text.format(seed=campaigns))
        whole = tmp_path / "whole"
        assert not killed(start(file, whole), after=300)
        cut = tmp_path / "cut"
        while killed(start(file, cut), after=moments.uniform(0.3, 2.5)):
            kills += 1
        wanted, found = content(whole), content(cut)
        assert found.keys() == wanted.keys()
        assert [name for name in wanted if wanted[name] != found[name]] == []
        ids = [finding.id for finding in Run(cut).findings()]
        assert len(ids) == len(set(ids)) > 100
        shutil.rmtree(whole)
        shutil.rmtree(cut)
        campaigns += 1


def test_two_writers_never_meet(tmp_path: Path) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text(SWEEP.format(seed=1))
    both = [start(file, tmp_path / "run") for _ in range(2)]
    outcomes = []
    for process in both:
        _, errors = process.communicate(timeout=120)
        outcomes.append((process.returncode, errors.decode()))
    refused = [errors for code, errors in outcomes if code == 4]
    # Either they met, and one was refused by name, or the second came after the first had finished.
    assert sorted(code for code, _ in outcomes) in ([1, 4], [1, 1])
    assert all("is writing here" in errors for errors in refused)
