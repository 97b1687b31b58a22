"""R4, R5: Ctrl-C and SIGTERM end a run within seconds, with one line that says how to go on; a second Ctrl-C at once.

100 signals and 50 second ones with SWERVE_SOAK=1, by the clock; 6 and 4 otherwise.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from swerve.core.case import Case
from swerve.core.system import Answer
from swerve.testing import FakeSystem
from tests.quality.campaigns import SWEEP, written
from tests.quality.children import (
    LONGEST,
    NEVER,
    SOAK,
    Cradled,
    Nursery,
    assert_each_once,
    assert_same,
    command,
    content,
    environment,
    finish,
    start,
    until,
    workers_of,
)
from tests.quality.forks import fork_workers

MARK = "SWERVE_TEST_MARK"
SIGNALS = 100 if SOAK else 6
TWICE = 50 if SOAK else 4
PROMPT, AT_ONCE = (5.0, 2.0) if SOAK else (NEVER, NEVER)  # seconds; a busy neighbour is no fault
STOPS = {signal.SIGINT: 130, signal.SIGTERM: 143}
Process = Cradled | subprocess.Popen[str]
# Whoever started the tests may have told its children to ignore Ctrl-C.
HEARING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("signals") / "campaign.toml", count=20, width=40, batch=8)


@pytest.fixture(scope="module")
def whole(file: Path) -> Path:
    assert finish(command(file, file.parent / "whole", "--workers", "0"))[0] == 1
    return file.parent / "whole"


def hear() -> None:
    """Before a command that is forked."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fork_workers()


@pytest.fixture
def starting(tmp_path: Path, nursery: Nursery) -> Callable[[Sequence[str]], Process]:
    """How a command is started: from nothing with SWERVE_SOAK=1."""
    if SOAK:
        return lambda words: start(words, code=HEARING)
    return lambda words: nursery.start(words, tmp_path / "errors", f"{__name__}:hear")


def under_way(process: Process, folder: Path, size: float) -> Process:
    """A run, once its journal has come to that size."""
    journal = folder / "journal.jsonl"
    until(lambda: process.poll() is not None or (journal.exists() and journal.stat().st_size >= size), LONGEST)
    return process


def moments(whole: Path, count: int) -> list[tuple[int, float, float]]:
    """For each signal: workers, the size of the journal to wait for, up to all of it, and further seconds."""
    chance = random.Random(count)
    size = (whole / "journal.jsonl").stat().st_size
    return [(2 * (number % 2), chance.uniform(0, 0.9) * size, chance.uniform(0, 0.1)) for number in range(count)]


def ended(process: Process, within: float) -> str:
    """What it wrote to stderr before it ended, which must be soon."""
    _, errors = process.communicate(timeout=within)
    assert "Traceback" not in errors
    return errors


def test_signal_ends_a_run_that_goes_on(
    tmp_path: Path, nursery: Nursery, starting: Callable[[Sequence[str]], Process], file: Path, whole: Path
) -> None:
    late = 0
    for number, (workers, size, later) in enumerate(moments(whole, SIGNALS)):
        stop = list(STOPS)[number // 2 % 2]
        folder = tmp_path / "run"
        process = under_way(starting(command(file, folder, "--workers", str(workers))), folder, size)
        time.sleep(later)
        os.kill(process.pid, stop)
        lines = ended(process, PROMPT).splitlines()
        if not lines:  # all trials were done before the signal came
            assert process.returncode in (1, STOPS[stop])
            assert_same(content(folder), content(whole))
            late += 1
            shutil.rmtree(folder)
            continue
        assert process.returncode == STOPS[stop], lines
        assert len(lines) == 1, lines
        again = re.fullmatch(r"stopped; completed trials are saved\. To resume: swerve (run .*)", lines[0])
        assert again, lines
        assert not workers_of(folder)
        assert (folder / "journal.jsonl").stat().st_size >= size
        assert nursery.run([*shlex.split(again[1]), "--workers", "0"]).code == 1
        assert_same(content(folder), content(whole))
        assert_each_once(folder)
        shutil.rmtree(folder)
    assert late <= SIGNALS // 3


def test_second_interrupt_ends_at_once(tmp_path: Path, nursery: Nursery, file: Path, whole: Path) -> None:
    chance = random.Random(5)
    for workers, size, later in moments(whole, TWICE):
        folder = tmp_path / "run"
        process = start(command(file, folder, "--workers", str(workers)), code=HEARING)
        under_way(process, folder, size)
        time.sleep(later)
        process.send_signal(signal.SIGINT)
        time.sleep(chance.choice([0, 0.005, 0.02, 0.05]))
        process.send_signal(signal.SIGINT)
        ended(process, AT_ONCE)
        assert process.returncode in (130, -signal.SIGINT)
        until(lambda folder=folder: not workers_of(folder), PROMPT)
        assert nursery.run(command(file, folder, "--workers", "0")).code == 1
        assert_same(content(folder), content(whole))
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Sleeper:
    """Falls asleep over the first follow-up, and leaves a mark when it does."""

    mark: str

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        if any(case.parent for case in cases):
            Path(self.mark).touch()
            time.sleep(60)
        return FakeSystem(bias=0.2)(cases)

    def fingerprint(self) -> str:
        return "sleeper"


def marked(mark: str) -> list[str]:
    """The processes, and what they started, that were given the mark in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_bytes().decode())
        except OSError:  # it has just ended
            continue
    return found


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", STOPS)
def test_signal_in_the_first_trial_leaves_no_process(tmp_path: Path, stop: signal.Signals, workers: int) -> None:
    asleep, mark = tmp_path / "asleep", uuid.uuid4().hex
    system = f'use = "tests.quality.test_signals:Sleeper"\nmark = "{asleep}"'
    told = SWEEP.replace('use = "swerve.testing:FakeSystem"\nbias = 0.2', system)
    (tmp_path / "campaign.toml").write_text(told.format(seed=0, count=4, width=24, batch=2))
    words = command(tmp_path / "campaign.toml", tmp_path / "run", "--workers", str(workers), "--force")
    process = start(words, code=HEARING, env=environment(**{MARK: mark}))
    until(lambda: asleep.exists() or process.poll() is not None, LONGEST)
    process.send_signal(stop)
    ended(process, NEVER)
    assert process.returncode == STOPS[stop]
    until(lambda: not marked(mark), NEVER)


@pytest.mark.parametrize("stop", STOPS)
def test_signal_while_rendering_leaves_no_process(tmp_path: Path, stop: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    words = ["zoo", "render", "--data", str(tmp_path), "--workers", "2"]
    process = start(words, code=HEARING, env=environment(**{MARK: mark}))
    until(lambda: sum("spawn_main" in line for line in marked(mark)) >= 2 or process.poll() is not None, LONGEST)
    time.sleep(2)
    process.send_signal(stop)
    ended(process, NEVER)
    assert process.returncode == STOPS[stop]
    until(lambda: not marked(mark), NEVER)
