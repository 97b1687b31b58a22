"""R12: however many trials, the memory of a run stays flat, its report opens, and it goes on at once.

1,000,000 trials of 100,000 cases with SWERVE_SOAK=1; 5,000 of 125 otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.values import Image, Steering
from tests.quality.children import LONGEST, SOAK, assert_same, at_work, command, content, start

CASES, RULES, DRAWS = (100_000, 1, 10) if SOAK else (125, 2, 20)
TRIALS = CASES * RULES * DRAWS
MOST_GROWTH = 1.10  # from a tenth of the trials to all of them
MOST_AFTER = 40_000  # kB more for pictures, tables and the page: the same, however many trials there were
PATIENCE = 7200 if SOAK else LONGEST  # seconds
MOST_PAGE = 5_000_000  # bytes
MOST_START = 10.0 if SOAK else 4.0  # seconds of CPU

HEAD = f"""
inference_batch = 64
[source]
use = "{__name__}:Grey"
count = {CASES}
[system]
use = "swerve.testing:FakeSystem"
[search]
use = "sweep"
per_case = {DRAWS}
"""
RULE = """
[[rule]]
name = "brighter {number}"
change = {{ use = "brighten", beta = [{number}, {most}] }}
expect = {{ use = "same-angle", within = 15 }}
"""


@dataclass(frozen=True)
class Grey:
    """Tiny grey pictures: all the time goes into what is measured."""

    count: int = 100

    @cached_property
    def _levels(self) -> dict[str, int]:
        return {f"grey-{number:06d}": 60 + number % 80 for number in range(self.count)}

    def keys(self) -> Sequence[str]:
        return list(self._levels)

    def __getitem__(self, key: str) -> Case:
        level = self._levels[key]
        return Case(key, {"camera": Image(np.full((4, 4, 3), level, np.uint8))}, (Steering(level - 100.0),), group=key)

    def fingerprint(self) -> str:
        return f"grey {self.count}"


def resident(process: int) -> int | None:
    """The memory of a process in kB, None once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return None
    told = [line.split()[1] for line in lines if line.startswith("VmRSS")]
    return int(told[0]) if told else None


@dataclass(frozen=True)
class Watched:
    """A finished run, its command, and its memory in kB at every size of its journal in bytes."""

    words: list[str]
    folder: Path
    samples: list[tuple[int, int]]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    place = tmp_path_factory.mktemp("scale")
    rules = "".join(RULE.format(number=number, most=40 + number) for number in range(1, RULES + 1))
    (place / "campaign.toml").write_text(HEAD + rules)
    words = command(place / "campaign.toml", place / "run", "--workers", "0")
    process = start([word for word in words if word != "--no-report"])
    samples = list(_samples(process.pid, place / "run" / "journal.jsonl"))
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, errors
    return Watched(words, place / "run", samples)


def _samples(process: int, journal: Path) -> Iterator[tuple[int, int]]:
    while (memory := resident(at_work(process))) is not None:
        yield journal.stat().st_size if journal.exists() else 0, memory
        time.sleep(0.02)


def test_memory_stays_flat(watched: Watched) -> None:
    whole = watched.samples[-1][0]
    assert whole > 500 * TRIALS
    early = max(memory for size, memory in watched.samples if size <= whole / 10)
    late = max(memory for size, memory in watched.samples if size < whole)
    after = max(memory for size, memory in watched.samples)
    print(f"{TRIALS} trials: {early} kB at 10%, {late} kB at 100%, {after} kB at the most")
    assert late < MOST_GROWTH * early
    assert after < early + MOST_AFTER


def test_page_stays_small(watched: Watched) -> None:
    assert 100_000 < (watched.folder / "report" / "index.html").stat().st_size < MOST_PAGE


CLOCKED = """
import time
import swerve.execution.engine
evaluate = swerve.execution.executors.in_process.InProcess.evaluate
def clocked(here, batches):
    open({path!r}, "a").write(f"{{time.process_time()}}\\n")
    return evaluate(here, batches)
swerve.execution.executors.in_process.InProcess.evaluate = clocked
"""


def test_long_run_goes_on_soon(watched: Watched, tmp_path: Path) -> None:
    before = content(watched.folder)
    journal = watched.folder / "journal.jsonl"
    whole = before["journal.jsonl"]
    trials = whole[: whole.index(b'"kind":"repeat"')]  # findings asked again follow all trials
    journal.write_bytes(trials[:-100])
    (watched.folder / "summary.json").unlink()
    process = start(watched.words, code=CLOCKED.format(path=str(tmp_path / "clock")))
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, errors
    first = float((tmp_path / "clock").read_text().split()[0])
    print(f"{TRIALS} trials: {first:.1f} s of CPU until the first new one")
    assert first < MOST_START
    assert_same(content(watched.folder), before)
