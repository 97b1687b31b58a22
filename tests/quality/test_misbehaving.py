"""R20, R26, R71-R73: models that misbehave, with and without workers: no wrong verdict and no false exit code.

Each misbehaves on the follow-ups of the cases that it is told to, and is right about all others, for which every verdict
is that the rule holds. Without workers each has a command of its own; with two workers three commands are shared, a case for
each mood: those that fail, those that do no harm, and those that end their process. Under SWERVE_SOAK=1 each has its own.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import itertools
import math
import os
import random
import resource
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from swerve.analysis.numbers import numbers_of
from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, InputError, NotApplicable
from swerve.core.system import Answer
from swerve.core.values import Boxes2D, Boxes3D, Group, Masks, Signal, Steering
from swerve.store.view import Run
from swerve.testing import FakeSource, FakeSystem
from tests.quality.children import SOAK, Ended, Nursery, command, command_line

CAMPAIGN = """
inference_batch = 4
[source]
use = "swerve.testing:FakeSource"
count = {count}
[system]
use = "tests.quality.test_misbehaving:Misbehaving"
moods = {moods}
folder = "{folder}"
[[rule]]
name = "brighter"
change = {{ use = "brighten", beta = [1, 5] }}
expect = {{ use = "same-angle", within = 15 }}
[search]
use = "sweep"
per_case = {per_case}
"""
ODD = 3  # the case that a mood of its own command is about
HELD, FOUND, REFUSED, FAILED = 0, 1, 2, 3


class Private(BaseException):
    """An exception that nobody else knows."""


def boxes(*sides: float) -> Answer:
    return Steering(0), Boxes2D(np.array([[4.0, 4, 4 + sides[0], 4 + sides[1]]]), ("car",))


def raised(error: BaseException) -> Any:
    raise error


def forked(case: Case) -> Answer:
    os.fork()  # both go on
    return FakeSystem()([case])[0]


def left_behind(case: Case) -> Answer:
    if not os.fork():
        os.execvp("sleep", ["sleep", "600.25"])
    return FakeSystem()([case])[0]


def written_into(case: Case) -> Answer:
    said = FakeSystem()([case])[0]
    case.inputs["camera"].pixels.flags.writeable = True  # type: ignore[attr-defined]
    case.inputs["camera"].pixels[...] = 0  # type: ignore[attr-defined]
    return said


def global_state(case: Case) -> Answer:
    """Changes all that a process has only one of."""
    np.seterr(all="raise")
    cv2.setNumThreads(4)
    warnings.simplefilter("error")
    sys.setrecursionlimit(150)
    gc.disable()
    os.umask(0o077)
    os.environ.clear()
    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
    return FakeSystem()([case])[0]


def endless_thread(case: Case) -> Answer:
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return FakeSystem()([case])[0]


def last_words(case: Case) -> Answer:
    """Has its say when the process ends."""
    atexit.register(os._exit, 0)
    return FakeSystem()([case])[0]


def closed_streams(case: Case) -> Answer:
    for stream in (sys.stdout, sys.stderr):
        stream.close()
    return FakeSystem()([case])[0]


def closed_descriptors(case: Case) -> Answer:
    os.closerange(3, 256)
    return FakeSystem()([case])[0]


def forked_and_left(case: Case) -> Answer:
    if os.fork():
        os._exit(0)  # its copy goes on
    return FakeSystem()([case])[0]


class Silent(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError


def too_many_boxes() -> Answer:
    count = 200_000
    return Steering(0), Boxes2D(np.tile([[1.0, 1, 2, 2]], (count, 1)), ("car",) * count)


def nested(depth: int) -> Answer:
    """Deeper than a line of the journal may be."""
    inner: Answer = (Steering(0),)
    for _ in range(depth):
        inner = (Group(inner),)
    return (Steering(0), *inner)


SHOWN: list[Case] = []  # in this process, to a model that does not let go


def write_later(cases: Sequence[Case]) -> None:
    """Write into the inputs of the batch before, when nobody looks at them."""
    for before in SHOWN:
        pixels: Any = before.inputs["camera"].pixels  # type: ignore[attr-defined]
        while pixels.base is not None:
            pixels = pixels.base
        pixels.flags.writeable = True
        pixels[...] = 0
    SHOWN[:] = cases


BUFFER = np.zeros((1, 4))


def one_buffer(case: Case) -> Answer:
    """Answers in the same memory each time."""
    BUFFER[:] = [[4, 4, 8 + case.inputs["camera"].pixels.mean(), 9]]  # type: ignore[attr-defined]
    return (FakeSystem()([case])[0][0], Boxes2D(BUFFER, ("car",)))


def bad_manners(case: Case) -> Answer:
    print("x" * 100_000)
    random.seed(1)
    np.random.seed(1)
    os.chdir("/")
    return FakeSystem()([case])[0]


FAILING: dict[str, Callable[[Case], Any]] = {
    "nan": lambda case: (Steering(math.nan),),
    "infinite": lambda case: (Steering(math.inf),),
    "none": lambda case: None,
    "text": lambda case: "left",
    "empty": lambda case: (),
    "bare value": lambda case: Steering(0),
    "raises": lambda case: raised(RuntimeError("broken")),
    "out of memory": lambda case: raised(MemoryError("no more")),
    "generator exit": lambda case: raised(GeneratorExit()),
    "exception of its own": lambda case: raised(Private("unknown")),
    "sys.exit": lambda case: sys.exit(0),
    "stop of an iteration": lambda case: raised(StopIteration()),
    "cancelled": lambda case: raised(asyncio.CancelledError()),
    "closed pipe": lambda case: raised(BrokenPipeError(32, "closed")),
    "end of file": lambda case: raised(EOFError()),
    "group of exceptions": lambda case: raised(BaseExceptionGroup("all", [SystemExit(0), KeyboardInterrupt()])),
    "error of ours": lambda case: raised(InputError("the campaign is wrong")),
    "fault of ours": lambda case: raised(EnvironmentFault("the disk is full")),
    "skip of ours": lambda case: raised(NotApplicable("not this one")),
    "silent exception": lambda case: raised(Silent()),
    "endless message": lambda case: raised(ValueError("x" * 20_000_000)),
    "endless recursion": lambda case: MOODS["endless recursion"](case),
    "too many boxes": lambda case: too_many_boxes(),
    "huge number": lambda case: (Steering(1e308),),
    "writes into its input": written_into,
    "two angles": lambda case: (Steering(0), Steering(1)),
    "two signals": lambda case: (Steering(0), Signal("brake", 0), Signal("brake", 1)),
    "flat box": lambda case: boxes(5, 0),
    "box turned round": lambda case: boxes(-5, 5),
    "not a number among boxes": lambda case: boxes(math.nan, 5),
    "kinds in one text": lambda case: (Steering(0), Boxes2D(np.tile([[1.0, 1, 2, 2]], (3, 1)), "car")),  # type: ignore[arg-type]
    "size that is none": lambda case: (Steering(0), Boxes2D(np.array([[1.0, 1, 2, 2]]), ("car",), size=(10**400, 1))),
    "number too large for its kind": lambda case: (Steering(0), Masks(np.array([[2**40]]), {1: "car"})),
    "two groups": lambda case: (Steering(0), Group((Steering(0),)), Group((Steering(1),))),
    "group of nothing known": lambda case: (Steering(0), Group((3,))),  # type: ignore[arg-type]
    "groups in groups": lambda case: nested(60),
    "endless groups": lambda case: nested(5000),
    "flat obstacle": lambda case: (Steering(0), Boxes3D(np.array([[1.0, 1, 1, 0, 2, 2, 0]]), ("car",))),
}
HARMLESS: dict[str, Callable[[Case], Any]] = {
    "forks and goes on twice": forked,
    "leaves a process behind": left_behind,
    "bad manners": bad_manners,
    "global state": global_state,
    "endless thread": endless_thread,
    "last words": last_words,
    "answers in one buffer": one_buffer,
}
ENDING: dict[str, Callable[[Case], Any]] = {
    "os._exit(0)": lambda case: os._exit(0),
    "os._exit(1)": lambda case: os._exit(1),
    "aborts": lambda case: os.abort(),
    "interrupts": lambda case: raised(KeyboardInterrupt()),
    "forks and leaves": forked_and_left,
}
# Streams are needed by the command, descriptors by a worker: each ends one of them and does no harm to the other.
STREAMS, DESCRIPTORS = "closes streams", "closes descriptors"
CLOSING: dict[str, Callable[[Case], Any]] = {STREAMS: closed_streams, DESCRIPTORS: closed_descriptors}
MOODS = {**FAILING, **HARMLESS, **ENDING, **CLOSING}
IN_BATCH = ("place in the batch", "size of the batch", "rest of the batch")
ORDERS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "reversed": lambda said: said[::-1],
    "the last for all": lambda said: [said[-1]] * len(said),
    "no number in second place": lambda said: [(Steering(math.nan),) if n == 1 else one for n, one in enumerate(said)],
}
WRONG_COUNTS: dict[str, Callable[[list[Any]], Any]] = {
    "one answer too many": lambda said: [*said, said[0]],
    "one answer too few": lambda said: said[1:],
    "no answers": lambda said: [],
    "answers without end": lambda said: itertools.cycle(said),
    "answers by name": lambda said: {"steering": said, "more": said, "yet more": said},
}
LATER = "writes into earlier inputs"
CALLS = 12  # after which a model changes


@dataclass(frozen=True)
class Misbehaving:
    """Answers by brightness; on the follow-ups of case N in the Nth mood, if there is one."""

    moods: tuple[str, ...]
    folder: str

    def __call__(self, cases: Sequence[Case]) -> Any:
        if LATER in self.moods:
            write_later(cases)
        said: list[Any] = [MOODS[mood](case) if (mood := self._mood(case)) in MOODS else self._said(case) for case in cases]
        for mood in IN_BATCH:
            if mood in self.moods:
                said = [self._in_batch(mood, answer, place, said) for place, answer in enumerate(said)]
        for mood in ORDERS.keys() & {*self.moods}:
            said = ORDERS[mood](said)
        if "changes with time" in self.moods:
            (Path(self.folder) / f"{os.getpid()}-{time.monotonic_ns()}").touch()
            said = [(Steering(90),)] * len(said) if len(os.listdir(self.folder)) > CALLS else said
        counts = WRONG_COUNTS.keys() & {*self.moods} if any(case.parent for case in cases) else set()
        return WRONG_COUNTS[counts.pop()](said) if counts else said

    def fingerprint(self) -> str:
        return "misbehaving"

    def _mood(self, case: Case) -> str:
        place = int(case.key.split("-")[1][:5])
        return self.moods[place] if case.parent and place < len(self.moods) else ""

    def _said(self, case: Case) -> Answer:
        if "reads the label" in self.moods:
            return (case.truth[0],)
        if "flickers" in self.moods and case.parent:
            mark = Path(self.folder) / case.inputs["camera"].digest
            if not mark.exists():
                mark.touch()
                return (Steering(90),)
        return FakeSystem()([case])[0]

    def _in_batch(self, mood: str, answer: Answer, place: int, said: Sequence[Answer]) -> Answer:
        angles = [item[0].degrees for item in said]  # type: ignore[union-attr]
        more = {IN_BATCH[0]: 0.5 * place, IN_BATCH[1]: 0.5 * len(said), IN_BATCH[2]: float(np.mean(angles))}[mood]
        return (replace(answer[0], degrees=answer[0].degrees + more),)  # type: ignore[call-arg, attr-defined]


class KeepingSource(FakeSource):
    """Keeps its cases in memory, where a model can reach them."""

    def __getitem__(self, key: str) -> Case:
        kept: dict[str, Case] = self.__dict__.setdefault("kept", {})
        return kept.setdefault(key, super().__getitem__(key))


def carried_out(
    nursery: Nursery, folder: Path, workers: int, moods: Sequence[str], per_case: int = 3, source: str = ""
) -> Ended:
    (folder / "marks").mkdir()
    told = CAMPAIGN.format(count=max(8, len(moods)), moods=list(moods), folder=folder / "marks", per_case=per_case)
    told = told.replace("swerve.testing:FakeSource", source or "swerve.testing:FakeSource")
    (folder / "campaign.toml").write_text(told)
    words = command(folder / "campaign.toml", folder / "run", "--workers", str(workers), "--timeout", "30")
    ended = nursery.load(__name__).run(words, "tests.quality.forks:fork_workers", supervised=True)
    assert "Traceback" not in ended.errors
    return ended


def check_verdicts(
    folder: Path, moods: Sequence[str], complete: bool = True, spoiling: Collection[str] = (*FAILING, *ENDING)
) -> None:
    """Every trial once; each on a case with a failing or ending mood is an error, all others hold."""
    rows = list(Run(folder / "run").trials())
    assert len({(row["case"], row["draw"]) for row in rows}) == len(rows)
    for row in rows:
        place = int(row["case"].split("-")[1])
        spoilt = place < len(moods) and moods[place] in spoiling
        assert row["status"] == ("error" if spoilt else "held") or row["why"].startswith("the same change"), row
    assert not complete or (folder / "run" / "summary.json").exists()


def alone(mood: str) -> list[str]:
    return [*[""] * ODD, mood]


@pytest.mark.parametrize("mood", [*FAILING, *HARMLESS, DESCRIPTORS])
def test_model_in_the_process_of_the_command(nursery: Nursery, tmp_path: Path, mood: str) -> None:
    ended = carried_out(nursery, tmp_path, 0, alone(mood))
    assert ended.code == (FAILED if mood in FAILING else HELD), ended
    check_verdicts(tmp_path, alone(mood))
    assert not _sleepers()


def _sleepers() -> list[str]:
    lines = (command_line(path) for path in Path("/proc").glob("[0-9]*/cmdline"))
    return [line.decode() for line in lines if b"600.25" in line]


@pytest.mark.parametrize("mood", [*ENDING, STREAMS])
def test_model_that_ends_the_process_of_the_command(nursery: Nursery, tmp_path: Path, mood: str) -> None:
    ended = carried_out(nursery, tmp_path, 0, alone(mood))
    assert ended.code == (130 if mood == "interrupts" else FAILED), ended
    assert len(ended.errors.splitlines()) == 1
    assert mood == "interrupts" or "the system under test ended the run" in ended.errors
    check_verdicts(tmp_path, alone(mood), complete=False)


FINE, FATAL = (*HARMLESS, STREAMS), (*ENDING, DESCRIPTORS)  # for a worker
SOME = ["os._exit(0)", "aborts", "interrupts", DESCRIPTORS]  # every death costs the start of several workers
SHARED = {"failing": ([*FAILING], 2, FAILED), "harmless": ([*HARMLESS], 2, HELD), "ending": (SOME, 1, FAILED)}
EACH = {mood: (alone(mood), 1, HELD if mood in FINE else FAILED) for mood in MOODS} if SOAK else {}


@pytest.mark.parametrize(("moods", "per_case", "code"), [*SHARED.values(), *EACH.values()], ids=[*SHARED, *EACH])
def test_models_in_workers(nursery: Nursery, tmp_path: Path, moods: list[str], per_case: int, code: int) -> None:
    ended = carried_out(nursery, tmp_path, 2, moods, per_case)
    assert ended.code == code, ended
    check_verdicts(tmp_path, moods, spoiling=(*FAILING, *FATAL))
    assert not _sleepers()


@pytest.mark.parametrize(
    ("mood", "workers"), [*((mood, 0) for mood in IN_BATCH), (IN_BATCH[1], 2)], ids=lambda given: str(given)
)
def test_answers_that_depend_on_the_batch_are_refused(nursery: Nursery, tmp_path: Path, mood: str, workers: int) -> None:
    ended = carried_out(nursery, tmp_path, workers, [mood])
    assert ended.code == REFUSED, ended
    assert "asked again in another batch or alone, the system answers" in ended.errors
    assert "(up to " in ended.errors
    assert not list(Run(tmp_path / "run").trials())


@pytest.mark.parametrize("workers", [0, 2])
def test_finding_that_does_not_repeat_is_flaky(nursery: Nursery, tmp_path: Path, workers: int) -> None:
    ended = carried_out(nursery, tmp_path, workers, ["flickers"])
    assert ended.code == FOUND
    finished = Run(tmp_path / "run")
    assert set(finished.repeats.values()) == {False}
    assert any(finding.flaky for finding in finished.findings())


def test_labels_are_not_shown(nursery: Nursery, tmp_path: Path) -> None:
    ended = carried_out(nursery, tmp_path, 0, ["reads the label"])
    assert ended.code == FAILED
    assert "the system failed on all 8 cases; the first, fake-00000: IndexError" in ended.errors


@pytest.mark.parametrize("mood", WRONG_COUNTS)
def test_wrong_number_of_answers_is_an_error(nursery: Nursery, tmp_path: Path, mood: str) -> None:
    assert carried_out(nursery, tmp_path, 0, [mood]).code == FAILED
    assert {row["status"] for row in Run(tmp_path / "run").trials()} == {"error", "skipped"}


@pytest.mark.parametrize("mood", ORDERS)
def test_answers_in_a_wrong_order_are_refused(nursery: Nursery, tmp_path: Path, mood: str) -> None:
    ended = carried_out(nursery, tmp_path, 0, [mood])
    assert ended.code == REFUSED, ended
    assert not list(Run(tmp_path / "run").trials())


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_written_into_earlier_inputs_does_no_harm(nursery: Nursery, tmp_path: Path, workers: int) -> None:
    assert carried_out(nursery, tmp_path, workers, [LATER]).code == HELD
    check_verdicts(tmp_path, [])


def test_what_is_written_into_the_cases_of_a_source_is_noticed(nursery: Nursery, tmp_path: Path) -> None:
    ended = carried_out(nursery, tmp_path, 0, [LATER], source=f"{__name__}:KeepingSource")
    assert ended.code == REFUSED, ended
    assert not list(Run(tmp_path / "run").trials())


@pytest.mark.parametrize("workers", [0, 2])
def test_model_that_changes_with_time_is_told(nursery: Nursery, tmp_path: Path, workers: int) -> None:
    """Its findings are about its age, and not about the changes: what was asked again shows it."""
    ended = carried_out(nursery, tmp_path, workers, ["changes with time"])
    assert ended.code == FOUND, ended
    finished = Run(tmp_path / "run")
    assert set(finished.repeats.values()) == {False}
    numbers = numbers_of(finished)
    assert (numbers.moved, numbers.answered_again) == (1, 1)
    assert "1 of 1 of their unchanged cases got another answer than at the start of the run" in numbers.repeats
