"""R1, R8: runs cut by SIGKILL at random moments end with the bytes of one that was not; two writers never meet.

264 kills over at least 48 campaigns with SWERVE_SOAK=1, 60 over at least 12 otherwise; 100 races always. Otherwise, too,
runs and their workers are forked from a process that has imported everything, where they would import it all again.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.quality.campaigns import written
from tests.quality.children import (
    LONGEST,
    NEVER,
    ROOT,
    SOAK,
    Cradled,
    Nursery,
    assert_each_once,
    assert_same,
    at_work,
    command,
    content,
    environment,
    start,
    until,
    workers_of,
)

KILLS = 22 if SOAK else 5  # of each kind, with workers and without: 264 or 60
EACH = 7  # of one campaign: it is left in peace then
RACES = 100
JITTER = 0.2
Starting = Callable[[Sequence[str]], "Cradled | subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def starting(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Starting:
    """How a command is started."""
    if SOAK:
        return start
    errors = tmp_path_factory.mktemp("errors") / "errors"
    return lambda words: nursery.start(words, errors, "tests.quality.forks:fork_workers")


def ended(process: Cradled | subprocess.Popen[str]) -> int | None:
    """Its exit code, when it comes to that."""
    process.communicate(timeout=LONGEST)
    return process.returncode


def killed(process: Cradled | subprocess.Popen[str], folder: Path, size: float, after: float) -> bool:
    """Whether the run was still there to be killed so long after its journal had that size; its workers go by themselves."""
    until(lambda: process.poll() is not None or (_holds(folder, process.pid) and _journal(folder) >= size), LONGEST)
    try:
        _, errors = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        until(lambda: not workers_of(folder), pause=0.02)
        return True
    assert process.returncode == 1, errors
    return False


def _holds(folder: Path, process: int) -> bool:
    lock = folder / ".lock"
    return lock.exists() and lock.read_text() in (str(process), str(at_work(process)))


def _journal(folder: Path) -> int:
    journal = folder / "journal.jsonl"
    return journal.stat().st_size if journal.exists() else 0


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["sweep", "windows", "climb", "guided", "reading", "points", "boxes"])
def test_killed_runs_end_with_same_bytes(tmp_path: Path, starting: Starting, kind: str, workers: int) -> None:
    moments = random.Random(f"{kind} {workers}")
    kills = campaigns = 0
    count = 9 if kind == "points" else 24  # a sweep has far more trials than a picture
    while kills < KILLS:
        file = written(tmp_path / "campaign.toml", kind, seed=campaigns, count=count, width=60, batch=count // 3)
        whole, cut = tmp_path / "whole", tmp_path / "cut"
        assert ended(starting(command(file, whole, "--workers", "0"))) == 1
        words = command(file, cut, "--workers", str(workers))
        # Some beyond the whole journal: while pictures and tables are written.
        marks = sorted(moments.uniform(0, 1.2) * _journal(whole) for _ in range(EACH))
        for mark in marks:
            if not killed(starting(words), cut, min(mark, _journal(whole)), moments.uniform(0, JITTER)):
                break
            kills += 1
        assert ended(starting(words)) == 1
        assert_same(content(cut), content(whole))
        assert_each_once(cut)
        shutil.rmtree(whole)
        shutil.rmtree(cut)
        campaigns += 1
    print(f"{kind}, {workers} workers: {kills} kills over {campaigns} campaigns, none lost, none doubled, the same bytes")


RACER = """
import os, sys, time
from pathlib import Path
from swerve.core.errors import EnvironmentFault
from swerve.store.folder import Store
identity = {"format": 3, "factory": None, "rebuildable": True, "fingerprints": {}, "campaign": {}}
for line in sys.stdin:
    folder, moment = line.rsplit(maxsplit=1)
    while time.time() < float(moment):
        pass
    started = time.monotonic()
    try:
        store = Store(Path(folder), identity, Path("/"))
        print("runs", flush=True)
        sys.stdin.readline()
        store.__exit__(None, None, None)
    except EnvironmentFault as error:
        print(f"{time.monotonic() - started} {error}", flush=True)
"""


def racer() -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", RACER], stdin=pipe, stdout=pipe, text=True, bufsize=1, cwd=ROOT, env=environment()
    )


def asked(racers: list[subprocess.Popen[str]], folder: Path) -> list[str]:
    moment = time.time() + 0.01
    for one in racers:
        assert one.stdin
        print(folder, moment, file=one.stdin, flush=True)
    return [one.stdout.readline().strip() for one in racers if one.stdout]


def test_of_two_writers_exactly_one_runs(tmp_path: Path) -> None:
    racers = [racer(), racer()]
    for race in range(RACES):
        told = asked(racers, tmp_path / f"run{race}")
        assert sorted(said == "runs" for said in told) == [False, True], told
        winner = racers[told.index("runs")]
        refusal = next(said for said in told if said != "runs")
        assert float(refusal.split()[0]) < NEVER  # it does not wait for the winner, who waits for us
        assert f"(pid {winner.pid}) is writing here" in refusal
        assert winner.stdin
        if race == RACES - 1:  # after a SIGKILL the lock is free at once
            winner.kill()
            winner.communicate()
            racers.remove(winner)
            assert asked(racers, tmp_path / f"run{race}") == ["runs"]
        else:
            print(file=winner.stdin, flush=True)
    for one in racers:
        one.communicate()


def test_two_commands_never_meet(tmp_path: Path) -> None:
    file = written(tmp_path / "campaign.toml", count=20)
    outcomes = []
    for process in [start(command(file, tmp_path / "run")) for _ in range(2)]:
        _, errors = process.communicate(timeout=LONGEST)
        outcomes.append((process.returncode, errors))
    refused = [errors for code, errors in outcomes if code == 4]
    # Either they met, and one was refused by name, or the second came after the first had finished.
    assert sorted(code for code, _ in outcomes) in ([1, 4], [1, 1])
    assert all("is writing here" in errors for errors in refused)
