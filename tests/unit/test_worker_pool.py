"""A pool of made-up workers: who is asked what, how often, and what is recorded of those that no worker survives."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from swerve.config.toml import Builder
from swerve.core.campaign import Observation, Record, Trial
from swerve.core.errors import EnvironmentFault, InputError, Killed, ModelError, OutOfMemory, Timeout
from swerve.core.relation import Fault, Status, Verdict
from swerve.core.seeding import rng_for
from swerve.core.values import Steering
from swerve.execution.executors.processes import Pace
from swerve.execution.executors.worker_pool import WorkerPool
from swerve.store.record_json import observation_row, record_row
from swerve.testing import FakeSource
from swerve.transformations.photometric import Brighten

SOURCE = FakeSource(16)
DRIVES = FakeSource(16, drive=8)
KEYS = SOURCE.keys()
Fate = Callable[["Scene", "Made", Sequence[str]], None]


@dataclass
class Scene:
    """What happens to workers, and all that was asked of them."""

    fate: Fate
    asked: list[tuple[int, ...]] = field(default_factory=list)  # how many items, by whom
    deaths: int = 0
    started: int = 0
    closed: int = 0
    source: FakeSource = SOURCE

    def start(self) -> Made:
        self.started += 1
        return Made(self, self.started)

    def pool(self, workers: int = 1) -> WorkerPool:
        return WorkerPool(self.start, workers, source=self.source)


@dataclass
class Made:
    """A worker that says how many it was shown at a time."""

    scene: Scene
    number: int
    served: int = 0

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        items = question["items"]
        self.scene.asked.append((len(items), self.number))
        try:
            self.scene.fate(self.scene, self, items)
        except ModelError:
            self.scene.deaths += 1
            raise
        self.served += len(items)
        return {"rows": [observation_row(Observation(key, key, answer=(Steering(len(items)),))) for key in items]}

    def close(self) -> None:
        self.scene.closed += 1


def well(scene: Scene, worker: Made, items: Sequence[str]) -> None:
    """Nothing happens."""


def kills(*keys: str, error: type[ModelError] = Killed) -> Fate:
    """Whoever sees one of these dies."""

    def fate(scene: Scene, worker: Made, items: Sequence[str]) -> None:
        if set(keys) & set(items):
            raise error("died by signal 6 (SIGABRT)")

    return fate


def observed(scene: Scene, keys: Sequence[str] = KEYS, workers: int = 1) -> list[Observation]:
    with scene.pool(workers) as pool:
        (seen,) = pool.observe([keys])
    assert [item.case for item in seen] == list(keys)
    assert scene.closed >= scene.started
    return list(seen)


def together(seen: Sequence[Observation]) -> list[int]:
    """With how many others each was answered; 0: not at all."""
    return [int(item.answer[0].degrees) if item.answer else 0 for item in seen]  # type: ignore[attr-defined]


def test_batch_is_asked_as_a_whole() -> None:
    assert together(observed(scene := Scene(well))) == [16] * 16
    assert scene.asked == [(16, 1)]


@pytest.mark.parametrize("deadly", range(16))
def test_three_tries_find_the_one_that_kills(deadly: int) -> None:
    """Two as a whole and one alone: no other case costs a worker."""
    scene = Scene(kills(KEYS[deadly]))
    seen = observed(scene)
    assert together(seen) == [int(place != deadly) for place in range(16)]
    assert seen[deadly].fault == "died by signal 6 (SIGABRT)"
    # Another one where the worker at hand had done others before, and might have died of them.
    assert scene.deaths == (3 if deadly == 0 else 4)


def test_every_case_that_kills_costs_one_worker_more() -> None:
    scene = Scene(kills(*KEYS))
    assert together(observed(scene)) == [0] * 16
    assert scene.deaths == 2 + 16


def test_single_case_is_tried_three_times() -> None:
    scene = Scene(kills(KEYS[3]))
    assert together(observed(scene, KEYS[3:4])) == [0]
    assert scene.asked == [(1, 1), (1, 2), (1, 3)]


@pytest.mark.parametrize("after", range(3))
def test_outside_kill_costs_nothing(after: int) -> None:
    """Whoever dies once for no reason is replaced, and the batch is answered as a whole."""

    def once(scene: Scene, worker: Made, items: Sequence[str]) -> None:
        if len(scene.asked) == after + 1:
            raise Killed("died by signal 9 (SIGKILL)")

    scene = Scene(once)
    with scene.pool() as pool:
        batches = list(pool.observe([KEYS[:4], KEYS[4:8], KEYS[8:]]))
    assert [together(batch) for batch in batches] == [[4] * 4, [4] * 4, [8] * 8]
    assert scene.deaths == 1


def test_innocent_that_dies_alone_of_something_else_is_tried_again() -> None:
    """The batch aborts by its third case; while its cases are done one by one, memory runs out for another, once."""
    lacking = iter([True])

    def fate(scene: Scene, worker: Made, items: Sequence[str]) -> None:
        kills(KEYS[2])(scene, worker, items)
        if items == [KEYS[9]] and next(lacking, False):
            raise OutOfMemory("out of memory")

    assert together(observed(Scene(fate))) == [int(place != 2) for place in range(16)]


def test_leak_of_others_is_not_held_against_a_case() -> None:
    """Workers that die once they have answered forty cases, whatever these are: no case is at fault."""

    def leaky(scene: Scene, worker: Made, items: Sequence[str]) -> None:
        if worker.served + len(items) > 40:
            raise OutOfMemory("out of memory")

    for workers in (1, 3, 8):
        scene = Scene(leaky)
        with scene.pool(workers) as pool:
            batches = list(pool.observe([KEYS] * 60))
        assert all(together(batch) == [16] * 16 for batch in batches)
        assert scene.deaths >= 60 // 2 - workers


def test_memory_lost_in_a_row_is_held_against_its_case_alone() -> None:
    """A worker that catches its MemoryError goes home all the same, as it may lack that memory still."""

    class Lean(Made):
        def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
            rows = list(super().ask(question)["rows"])
            return {"rows": [{**row, "fault": "MemoryError: 64 GB"} if row["case"] == KEYS[5] else row for row in rows]}

    scene = Scene(well)
    scene.start = lambda: Lean(scene, 0)  # type: ignore[method-assign]
    seen = observed(scene)
    assert together(seen) == [int(place != 5) for place in range(16)]
    assert seen[5].fault == "MemoryError: 64 GB"
    assert sum(count == 16 for count, _ in scene.asked) == 2


def timed(pace: Pace, each: float, hangs: Sequence[str] = ()) -> Fate:
    """Workers that take so long over a case, held to a pace; some cases never end."""

    def fate(scene: Scene, worker: Made, items: Sequence[str]) -> None:
        taken = 1e9 if set(hangs) & set(items) else each * len(items)
        if taken > pace.limit(len(items)):
            raise Timeout(f"no answer after {pace.limit(len(items)):g} s")
        pace.note(len(items), taken)

    return fate


@pytest.mark.parametrize("each", [0.1, 3.7, 3.8, 20.0, 59.0])
def test_slow_batches_are_answered_as_a_whole(each: float) -> None:
    """A limit that no case reaches changes no answer, however long a batch takes."""
    scene = Scene(timed(Pace(60.0), each))
    with scene.pool() as pool:
        batches = list(pool.observe([KEYS, KEYS[:9], KEYS]))
    assert [together(batch) for batch in batches] == [[16] * 16, [9] * 9, [16] * 16]
    assert scene.deaths == (1 if each * 16 > 60 else 0)  # the first batch: from then on the pace is known


def test_hanging_case_costs_its_time_twice() -> None:
    scene = Scene(timed(Pace(60.0), 1.0, KEYS[7:8]))
    seen = observed(scene)
    assert together(seen) == [int(place != 7) for place in range(16)]
    assert seen[7].fault == "no answer after 60 s"
    assert scene.deaths == 2


def test_batch_that_hangs_only_as_a_whole_is_answered_one_by_one() -> None:
    def deadlock(scene: Scene, worker: Made, items: Sequence[str]) -> None:
        if len(items) > 1:
            raise Timeout("no answer after 60 s")

    scene = Scene(deadlock)
    assert together(observed(scene)) == [1] * 16
    assert scene.deaths == 2


def test_random_fates_lose_no_case() -> None:
    """Workers die at random, and some cases always kill: those are recorded, and another only if luck hits its third try."""
    unlucky = 0
    for seed in range(30):
        rng = rng_for("fates", seed)
        deadly = {key for key in KEYS if rng.random() < 0.1}

        def fate(scene: Scene, worker: Made, items: Sequence[str], rng: Any = rng, deadly: set[str] = deadly) -> None:
            kills(*deadly)(scene, worker, items)
            if rng.random() < 0.02:
                raise Killed("died by signal 9 (SIGKILL)")

        scene = Scene(fate)
        lost = {item.case for item in observed(scene) if item.fault}
        assert deadly <= lost
        unlucky += len(lost - deadly)
    assert unlucky <= 30 * 16 * 0.02


# Drives.


class Meeting:
    """Two workers meet at their first batch; then the first one is busy until the other has done what it waits for."""

    def __init__(self, last: str) -> None:
        self.both, self.go_on, self.last = threading.Barrier(2, timeout=60), threading.Event(), last
        self.done: dict[int, list[str]] = {1: [], 2: []}
        self.homes: dict[str, int] = {}

    def __call__(self, scene: Scene, worker: Made, items: Sequence[str]) -> None:
        drive = DRIVES.group(items[0])
        if not self.done[worker.number]:
            self.both.wait()
            self.homes[drive] = worker.number
        elif drive == "drive-0" and self.homes[drive] == worker.number:
            self.go_on.wait(60)
        self.done[worker.number].append(items[0])
        if items[0] == self.last:
            self.go_on.set()


def test_drive_stays_with_its_worker() -> None:
    """While one worker is busy with its drive, the other does its own batches first, although they come later."""
    first, second = ([key for key in KEYS if DRIVES.group(key) == name] for name in ("drive-0", "drive-1"))
    meeting = Meeting(second[-1])
    with Scene(meeting, source=DRIVES).pool(2) as pool:
        list(pool.observe([first[:1], second[:1]]))
        batches = [[key] for pair in zip(first[1:], second[1:], strict=True) for key in pair]
        assert [seen[0].case for seen in pool.observe(batches)] == [key for (key,) in batches]
    other = meeting.done[meeting.homes["drive-1"]]
    assert other[: len(second)] == second


def test_no_worker_is_idle_for_a_drive() -> None:
    """Batches of one drive are done by two workers at the same time."""
    both = threading.Barrier(2, timeout=60)

    def meet(scene: Scene, worker: Made, items: Sequence[str]) -> None:
        if worker.served == 0:
            both.wait()

    with (scene := Scene(meet, source=DRIVES)).pool(2) as pool:
        list(pool.observe([[key] for key in KEYS[:4]]))
    assert scene.started == 2


def test_one_batch_at_a_time_needs_one_worker() -> None:
    with (scene := Scene(well)).pool(4) as pool:
        for key in KEYS * 4:
            list(pool.observe([[key]]))
    assert scene.started == 1


# Trials.


@dataclass
class Evaluating:
    """A worker that dies of every trial, and of making the changes to some cases."""

    scene: Scene
    log: list[str]

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        self.log.append(question["ask"])
        if question["ask"] == "evaluate":
            raise OutOfMemory("out of memory")
        ((case, rule, draw, change, why, kind),) = question["items"]
        if case == KEYS[1]:
            raise Killed("died by signal 11 (SIGSEGV)")
        assert change is None
        record = Record(Trial(case, rule, draw), Verdict.error(why, Fault(kind)), Brighten(3), input_sha="abc")
        return {"rows": [record_row(record)]}

    def close(self) -> None:
        """Nothing to do."""


def test_drawn_change_that_kills_is_recorded_with_it() -> None:
    scene, log = Scene(well), list[str]()
    with WorkerPool(lambda: Evaluating(scene, log), 1, source=SOURCE, builder=Builder("change")) as pool:
        pool.begin({key: Observation(key, key, answer=(Steering(1.0),), input_sha=f"sha of {key}") for key in KEYS})
        (results,) = pool.evaluate([[Trial(KEYS[0], "rule", 4), Trial(KEYS[1], "rule", 5)]])
    made, unmade = records = [result.record for result in results]
    assert {(record.verdict.status, record.verdict.kind) for record in records} == {(Status.ERROR, Fault.OOM)}
    assert (made.change, made.input_sha) == (Brighten(3), "abc")
    # Nobody survives even the making of the other: what is known of it is recorded.
    assert (unmade.change, unmade.before, unmade.source_sha) == (None, (Steering(1.0),), f"sha of {KEYS[1]}")
    assert Counter(log)["unanswered"] == 2


def test_sentence_that_stops_a_campaign_keeps_its_kind() -> None:
    class Stopping(Made):
        def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
            return {"stopped": "rule 'x' proposed nothing", "exit": 2}

    scene = Scene(well)
    scene.start = lambda: Stopping(scene, 0)  # type: ignore[method-assign]
    with pytest.raises(InputError, match=r"^rule 'x' proposed nothing$"), scene.pool() as pool:
        list(pool.observe([KEYS]))


def test_closed_pool_records_nothing() -> None:
    """Workers that die because they were closed are no fault of a case."""
    pool: WorkerPool

    def close_first(scene: Scene, worker: Made, items: Sequence[str]) -> None:
        pool._closed = True
        raise Killed("died by signal 9 (SIGKILL)")

    pool = Scene(close_first).pool()
    with pytest.raises(EnvironmentFault, match="the worker pool was closed"):
        list(pool.observe([KEYS]))
    pool.close()
