"""Workers: the same bytes however many there are, and no case lost when one of them dies, hangs or fills its memory."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from swerve.cli.main import main
from swerve.core.case import Case
from swerve.core.errors import Timeout
from swerve.core.system import Answer
from swerve.execution.executors.processes import Allowance, Pace, WorkerProcess
from swerve.execution.executors.worker import Worker
from swerve.store.view import Run
from swerve.testing import FakeSystem
from tests.quality.campaigns import written
from tests.quality.children import NEVER, workers_of

SOAK = os.environ.get("SWERVE_SOAK") == "1"
FORKED = pytest.mark.usefixtures(*(() if SOAK else ("forked_workers",)))
BESIDE = {"timings.json", ".lock"}
LEAKED: list[bytearray] = []
START, KILL = (5, 2) if SOAK else (NEVER, NEVER)  # seconds that these may take; a busy neighbour is no fault
LOUD = 20 if SOAK else 1  # times 3 MB to each stream, for every tenth follow-up: 1 GB in all, or more
CAMPAIGN = """
seed = 5
inference_batch = 8
[source]
use = "swerve.testing:FakeSource"
count = {count}
width = 60
height = 40
drive = 6
[system]
use = "tests.quality.test_workers:Moody"
bias = 1.0
{mood}
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
per_case = 3
"""


@dataclass(frozen=True)
class Moody(FakeSystem):
    """Steers well, but for some follow-ups does something else entirely; which, depends on the picture alone."""

    mood: str = "well"
    share: int = 10  # of how many inputs one is hit
    once: str = ""  # a file that, once there, keeps it well

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        if any(self._hit(case) for case in cases):
            self._misbehave(cases)
        return super().__call__(cases)

    def _hit(self, case: Case) -> bool:
        return case.parent is not None and int(case.input_sha[:8], 16) % self.share == 0

    def _misbehave(self, cases: Sequence[Case]) -> None:
        if self.once:
            if Path(self.once).exists():
                return
            Path(self.once).touch()
        if self.mood == "abort":
            os.abort()
        elif self.mood == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif self.mood == "exit":
            os._exit(7)
        elif self.mood == "raise":
            raise RuntimeError("out of sorts")
        elif self.mood == "sys.exit":
            sys.exit(0)
        elif self.mood == "hang":
            time.sleep(3600)
        elif self.mood == "busy":
            while True:
                pass
        elif self.mood == "greedy":
            _ = bytearray(64_000_000_000)
        elif self.mood == "leaky":
            LEAKED.append(bytearray(100_000_000))
        elif self.mood == "deaf and hangs":
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            if os.fork() == 0:
                time.sleep(3600)
            time.sleep(3600)
        elif self.mood == "loud":
            for stream in (sys.stdout, sys.stderr):
                for _ in range(LOUD):
                    print("x" * 3_000_000, file=stream, flush=True)
        elif self.mood == "elsewhere":
            os.chdir("/")
        elif self.mood == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elif self.mood == "random":
            import random

            import numpy as np

            random.seed(0)
            np.random.seed(0)
        elif self.mood == "forks" and os.fork() == 0:
            time.sleep(30)
            os._exit(0)


def run(
    tmp_path: Path,
    mood: str = "",
    *,
    workers: int = 2,
    count: int = 18,
    name: str = "run",
    words: Sequence[str] = (),
    system: str = "Moody",
) -> Path:
    file = tmp_path / "campaign.toml"
    file.write_text(CAMPAIGN.format(count=count, mood=mood).replace(":Moody", f":{system}"))
    code = main(["run", str(file), "--into", str(tmp_path / name), "--no-report", "--workers", str(workers), *words])
    assert code == 1
    return tmp_path / name


def content(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in BESIDE]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def counts(folder: Path) -> dict[str, int]:
    summary: dict[str, int] = json.loads((folder / "summary.json").read_text())
    return summary


def place(row: dict[str, object]) -> tuple[object, ...]:
    return row["case"], row["rule"], row["draw"]


@FORKED
@pytest.mark.parametrize("workers", [1, 2, 4, *([8] if SOAK else [])])
def test_any_number_of_workers_writes_same_bytes(tmp_path: Path, workers: int) -> None:
    here = content(run(tmp_path, workers=0, name="here"))
    there = content(run(tmp_path, workers=workers, name="there"))
    assert here == there
    assert "journal.jsonl" in here


@FORKED
@pytest.mark.parametrize("workers", [1, 2])
def test_changes_drawn_by_workers_are_the_same(tmp_path: Path, workers: int) -> None:
    """The spaces read the case and ask the system, and the search goes on from what a worker drew."""
    file = written(tmp_path / "campaign.toml", "reading", count=4)
    for name, count in (("here", 0), ("there", workers)):
        words = ["run", str(file), "--into", str(tmp_path / name), "--no-report", "--workers", str(count)]
        assert main(words) == 1
    assert content(tmp_path / "here") == content(tmp_path / "there")
    rows = list(Run(tmp_path / "here").trials())
    assert {row["case"] for row in rows} == {f"{number}.png" for number in range(4)}
    assert max(len(row["change"]["steps"]) for row in rows) > 2


@FORKED
@pytest.mark.parametrize("mood", ["abort", "segfault", "exit"])
def test_dead_workers_cost_their_case_alone(tmp_path: Path, mood: str) -> None:
    """R13: one input in ten kills whoever looks at it; it is recorded by its kind, and all others are as without."""
    count = 12 if SOAK else 4  # every death costs the start of a worker
    well = {place(row): row for row in Run(run(tmp_path, count=count, name="well")).trials()}
    folder = run(tmp_path, f'mood = "{mood}"\nshare = 10', count=count)
    rows = list(Run(folder).trials())
    dead = [row for row in rows if row["status"] == "error"]
    assert len(rows) == len(well) == counts(folder)["trials"]
    assert 0.04 < len(dead) / len(rows) < 0.2  # about one in ten
    assert {row["error"] for row in dead} == {"model" if mood == "exit" else "signal"}
    for row in rows:
        assert row["change"] == well[place(row)]["change"]  # of those that kill as well, though they were drawn in a worker
        if row["status"] != "error":
            assert row["after"] == well[place(row)]["after"]
            assert row["status"] == well[place(row)]["status"]


@FORKED
@pytest.mark.parametrize(
    ("mood", "words"), [("abort", []), ("exit", []), ("hang", ["--timeout", "1.5"]), ("greedy", ["--memory", "2"])]
)
def test_what_kills_is_recorded_with_its_change(tmp_path: Path, mood: str, words: list[str]) -> None:
    """The record is the one of a system that raises an exception instead: only the words of the error differ."""
    shared = "share = 30"
    raised = [row for row in Run(run(tmp_path, f'mood = "raise"\n{shared}', count=6, name="raised")).trials()]
    killed = [row for row in Run(run(tmp_path, f'mood = "{mood}"\n{shared}', count=6, words=words)).trials()]
    hit = 0
    for one, other in zip(raised, killed, strict=True):
        hit += one["status"] == "error"
        beside = {"why", "error"} if one["status"] == "error" else set()
        assert {key: one[key] for key in one.keys() - beside} == {key: other[key] for key in one.keys() - beside}
        if one["status"] == "error":
            assert one["words"]
            assert len(one["input_sha"]) == 64
    assert hit >= 2


@dataclass(frozen=True)
class Slow(FakeSystem):
    """Takes its time over every case, and says something else to a batch of another size."""

    seconds: float = 0.0

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        time.sleep(self.seconds * len(cases))
        return FakeSystem(bias=self.bias + len(cases) / 8)(cases)


@FORKED
def test_batch_slower_than_the_limit_changes_nothing(tmp_path: Path) -> None:
    """No case reaches the limit, and every batch does: the bytes are those of a run without any limit."""
    here, there = (
        content(run(tmp_path, "seconds = 0.15", system="Slow", count=2, workers=workers, name=f"run{workers}", words=words))
        for workers, words in ((0, ["--force"]), (1, ["--force", "--timeout", "0.8"]))
    )
    assert here == there


@FORKED
def test_worker_killed_from_outside_loses_nothing(tmp_path: Path) -> None:
    """Somebody kills a worker in the middle of a batch, once: the batch is done again, and nobody can tell."""
    untouched = content(run(tmp_path, 'mood = "abort"\nonce = "/dev/null"', name="whole"))
    once = tmp_path / "died"
    folder = run(tmp_path, f'mood = "abort"\nonce = "{once}"')
    assert once.exists()
    assert counts(folder)["errors"] == 0
    journal = "journal.jsonl"
    assert content(folder)[journal] == untouched[journal]


@FORKED
@pytest.mark.parametrize("mood", ["hang", "busy"])
def test_hanging_case_is_ended_and_recorded(tmp_path: Path, mood: str) -> None:
    """R24."""
    started = time.monotonic()
    folder = run(tmp_path, f'mood = "{mood}"\nshare = 40', count=6, words=["--timeout", "1.5"])
    rows = [row for row in Run(folder).trials() if row["status"] == "error"]
    assert 1 <= len(rows) < 8
    assert {row["error"] for row in rows} == {"timeout"}
    # Each is met twice at most, in its batch and alone, and every meeting costs the limit, a kill and a start.
    assert time.monotonic() - started < 6 * START + 2 * len(rows) * (1.5 + KILL + START)


@FORKED
@pytest.mark.parametrize("mood", ["hang", "busy", "deaf and hangs"])
def test_hang_is_ended_soon(tmp_path: Path, mood: str) -> None:
    """R24: soon after the limit, with all that the worker started; 100 times and within two seconds with SWERVE_SOAK=1."""
    folder = run(tmp_path, f'mood = "{mood}"\nshare = 1\nonce = "/dev/null"', workers=0, count=2)
    identity = folder / "campaign.json"
    identity.write_text(identity.read_text().replace('"/dev/null"', '""'))
    trial = next(Run(folder).trials())
    question = {"ask": "evaluate", "items": [[trial["case"], trial["rule"], trial["draw"], json.dumps(trial["change"])]]}
    for _ in range(34 if SOAK else 1):
        hand = WorkerProcess(folder, [__name__], Allowance(1.0), Pace(1.0))
        hand.ask({"ask": "observe", "items": [trial["case"]]})
        started = time.monotonic()
        with pytest.raises(Timeout, match="the process did not reply within 1 s"):
            hand.ask(question)
        hand.close()
        assert time.monotonic() - started < 1 + KILL
        assert not workers_of(folder)


def test_greedy_case_is_ended_and_recorded(tmp_path: Path) -> None:
    """R25: 64 GB at once; the limit is the child's, this process goes on; 100 times with SWERVE_SOAK=1."""
    before = resident()
    folder = run(tmp_path, f'mood = "greedy"\nshare = {2 if SOAK else 60}', words=["--memory", "2"])
    rows = [row for row in Run(folder).trials() if row["status"] == "error"]
    assert len(rows) >= (100 if SOAK else 1)
    assert {row["error"] for row in rows} == {"oom"}
    assert resident() < 1.2 * before


def resident() -> int:
    """The memory of this process in pages."""
    return int(Path("/proc/self/statm").read_text().split()[1])


def test_leak_costs_no_case(tmp_path: Path) -> None:
    """R25: 100 MB more with every call, 100 calls under soak; workers are replaced as they fill up, and nobody can tell."""
    count = 100 if SOAK else 6
    well = content(run(tmp_path, 'mood = "well"', count=count, name="well"))
    before = resident()
    leaky = content(run(tmp_path, 'mood = "leaky"\nshare = 1', count=count, name="leaky", words=["--memory", "1.6"]))
    assert resident() < 1.2 * before
    assert {name for name in well if well[name] != leaky.get(name)} == {"campaign.json"}


def test_leak_of_the_test_above_fills_a_worker(tmp_path: Path) -> None:
    """Otherwise it would say nothing."""
    folder = run(tmp_path, 'mood = "leaky"\nshare = 1', workers=0, count=2)
    LEAKED.clear()
    trial = next(Run(folder).trials())
    question = {"ask": "evaluate", "items": [[trial["case"], trial["rule"], trial["draw"], json.dumps(trial["change"])]]}
    hand = WorkerProcess(folder, (), Allowance(memory=1_600_000_000), Pace(60.0))
    ended = [hand.ask(question)["rows"][0]["error"] for _ in range(20)]
    hand.close()
    assert ended[0] is None
    assert ended[-1] == "oom"


@FORKED
@pytest.mark.parametrize("mood", ["loud", "elsewhere", "deaf", "random", "forks"])
def test_bad_manners_change_nothing(tmp_path: Path, mood: str) -> None:
    """R26: what a model does beside answering has no effect on the campaign."""
    well = content(run(tmp_path, 'mood = "well"', name="well"))
    bad = content(run(tmp_path, f'mood = "{mood}"', name="bad"))
    differing = {name for name in well if well[name] != bad.get(name)}
    assert differing == {"campaign.json"}  # which tells the mood


def test_sys_exit_is_an_error_of_its_case(tmp_path: Path) -> None:
    folder = run(tmp_path, 'mood = "sys.exit"')
    errors = [row for row in Run(folder).trials() if row["status"] == "error"]
    assert errors
    assert {row["error"] for row in errors} == {"model"}


def test_modules_are_found_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may have a colon in its name, which no PYTHONPATH can tell, or be the one where the command is run."""
    for name, place in (("colon_driver", tmp_path / "with:colon é"), ("local_driver", tmp_path / "here")):
        place.mkdir()
        (place / f"{name}.py").write_text("from swerve.testing import FakeSystem\nclass Driver(FakeSystem): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path / "with:colon é"))
    monkeypatch.syspath_prepend("")
    monkeypatch.chdir(tmp_path / "here")
    for name in ("colon_driver", "local_driver"):
        file = tmp_path / "campaign.toml"
        file.write_text(CAMPAIGN.format(count=3, mood="").replace("tests.quality.test_workers:Moody", f"{name}:Driver"))
        assert main(["run", str(file), "--into", str(tmp_path / name), "--no-report", "--workers", "1"]) == 1
        assert counts(tmp_path / name)["errors"] == 0


def test_no_worker_is_left_behind(tmp_path: Path) -> None:
    run(tmp_path)
    mine = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"swerve.execution" in _told(path)]
    assert [path for path in mine if str(tmp_path).encode() in _told(path)] == []


def _told(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@dataclass(frozen=True)
class Weighted(FakeSystem):
    """A system whose weights lie in a file."""

    file: str = ""

    def fingerprint(self) -> str:
        return hashlib.sha256(Path(self.file).read_bytes()).hexdigest()


def test_exchanged_weights_stop_a_worker(tmp_path: Path) -> None:
    """R47: a worker that starts after the file was exchanged does not answer for another model."""
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"first")
    folder = run(tmp_path, f'file = "{weights}"', workers=0, system="Weighted")
    worker = Worker(folder, Run(folder).trust())
    assert "rows" in worker.answer({"ask": "observe", "items": ["fake-00000"]})
    weights.write_bytes(b"second")
    told = Worker(folder, Run(folder).trust()).answer({"ask": "observe", "items": ["fake-00000"]})
    assert "the system changed during the run (weights: sha " in told["stopped"]
