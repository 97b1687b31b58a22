"""An executor with several workers: each takes the next batch when free, results come in order, dead workers are replaced.

A batch whose worker dies is run again as a whole, as the batch may not be the cause. If it fails again, its items are run
one by one to find the cause. An item is recorded as an error once it has ended a fresh worker too, after three tries in
all. Every replacement costs the start of a model.

Batches of one drive go to the worker that has run others of it, unless another worker would be idle: it may have cached
what they need. Results do not depend on it.

The items of a batch that exceeds its time limit are run one by one immediately. If none of them fails, the batch was only
slow; then it is run as a whole again with a limit by its measured pace, as the last bits of an answer may depend on the
size of a batch.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from swerve.config.toml import Builder
from swerve.core.campaign import Observation, Record, Trial
from swerve.core.case import Source, group_of
from swerve.core.encode import encode_change
from swerve.core.errors import EnvironmentFault, InputError, ModelError, OutOfMemory, SwerveError, Timeout
from swerve.core.relation import Fault, Verdict
from swerve.core.transformation import Transformation
from swerve.execution.answers import FOREIGN
from swerve.execution.stage_times import StageTimes
from swerve.store.record_json import Result, observation_of, observation_row

TRIES = 3
CLOSED = "the worker pool was closed while it had work; start the run again to resume it"
LOOKAHEAD = 64  # batches of which a worker may choose: what is done early waits in memory
Row = Mapping[str, Any]
T = TypeVar("T")
R = TypeVar("R")


class PoolWorker(Protocol):
    """One worker: a process of this machine, or an actor of a cluster."""

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its reply; raises the kind of `ModelError` that says whether it died, was ended, or took too long."""

    def close(self) -> None:
        """End it."""


@dataclass(eq=False)
class _Job:
    """A batch that waits for a worker."""

    do: Callable[[], Any]
    groups: Sequence[str]  # drives or scenes of its cases
    result: Future[Any] = field(default_factory=Future)


class _Held(threading.local):
    """The worker that the present thread works with."""

    worker: PoolWorker | None = None


class WorkerPool:
    """An executor made of the workers that `start` starts; at most `count` at a time."""

    def __init__(
        self,
        start: Callable[[], PoolWorker],
        count: int,
        *,
        source: Source,
        builder: Builder | None = None,
    ) -> None:
        self._start, self._count, self._source, self._builder = start, count, source, builder
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="swerve-pool")
        self._pending: list[_Job] = []
        self._held, self._idle = _Held(), list[PoolWorker]()
        self._all: list[PoolWorker] = []
        self._homes: dict[str, PoolWorker] = {}  # of every drive: the worker that knows it
        self._guard = threading.Lock()
        self._closed = False
        self._times = StageTimes()
        self._baseline: Mapping[str, Observation] = {}

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterator[Sequence[Observation]]:
        """The observations of unchanged cases."""
        return self._in_order(self._observe_batch, batches, lambda keys: [self._group(key) for key in keys])

    def begin(self, baseline: Mapping[str, Observation]) -> None:
        """Workers read the baseline from the journal, which is complete now."""
        self._baseline = baseline

    def evaluate(self, batches: Sequence[Sequence[Trial]]) -> Iterator[Sequence[Result]]:
        """The results of trials."""
        return self._in_order(self._evaluate_batch, batches, lambda trials: [self._group(trial.case) for trial in trials])

    def repeat(self, pairs: Sequence[tuple[Trial, Observation]]) -> Iterator[Result]:
        """The results of repeated trials, one by one."""
        return self._in_order(self._repeated, pairs, lambda pair: [self._group(pair[0].case)])

    def stage_seconds(self) -> dict[str, float]:
        """The seconds spent on changes and on answers since the last call, of all workers together."""
        return self._times.taken()

    def warm(self, batches: Sequence[Sequence[Trial]]) -> None:
        """Start as many workers as these batches will need, and have each do their first trial."""
        items = [_trial_item(batches[0][0])]
        count = min(self._count, len(batches))
        workers = [self._idle.pop() if self._idle else self._start_worker() for _ in range(count)]
        ready = list(self._threads.map(lambda worker: self._ask(worker, "evaluate", items), workers))
        # One that died of it is gone; the trial itself will show why.
        self._idle += [worker for worker, rows in zip(workers, ready, strict=True) if not isinstance(rows, ModelError)]

    def close(self) -> None:
        """End all workers and drop their unfinished work."""
        with self._guard:
            self._closed = True
            workers, self._all = self._all, []
            jobs, self._pending = self._pending, []
        for job in jobs:
            job.result.cancel()
        for worker in workers:
            worker.close()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _in_order(self, do: Callable[[T], R], batches: Sequence[T], groups: Callable[[T], Sequence[str]]) -> Iterator[R]:
        jobs = [_Job(partial(do, batch), groups(batch)) for batch in batches]
        with self._guard:
            self._pending += jobs
        for _ in jobs:
            self._threads.submit(self._work)
        return (job.result.result() for job in jobs)

    def _group(self, key: str) -> str:
        """The drive of a case, or the case itself if that is not known without reading it."""
        seen = self._baseline.get(key)
        if seen is not None:
            return seen.group or key
        try:
            return group_of(self._source, key) if callable(getattr(self._source, "group", None)) else key
        except FOREIGN:  # a source of the user's own
            return key

    def _work(self) -> None:
        """Do one of the pending jobs, with the worker that suits it best."""
        with self._guard:
            job, self._held.worker = self._match()
            self._pending.remove(job)
            if self._held.worker:
                self._idle.remove(self._held.worker)
        try:
            done = job.do()
        except BaseException as error:
            job.result.set_exception(error)
            return
        self._release(job.groups)
        job.result.set_result(done)

    def _match(self) -> tuple[_Job, PoolWorker | None]:
        """A job and an idle worker, or None for a new one: its own worker's, else one that is no worker's, else any."""
        homes = [(job, self._homes.get(job.groups[0])) for job in self._pending[:LOOKAHEAD]]
        for job, home in homes:
            if home in self._idle:
                return job, home
        free = next((job for job, home in homes if home not in self._all), self._pending[0])
        return free, self._idle[0] if self._idle else None

    def _release(self, groups: Sequence[str]) -> None:
        """The worker of this thread is idle again, and knows these drives."""
        worker, self._held.worker = self._held.worker, None
        if worker is None:
            return
        with self._guard:
            self._idle.append(worker)
            for group in groups:
                if self._homes.get(group) not in self._all:
                    self._homes[group] = worker

    def _observe_batch(self, keys: Sequence[str]) -> list[Observation]:
        rows = zip(keys, self._rows("observe", keys), strict=True)
        return [self._unanswered(key, row) if isinstance(row, Verdict) else observation_of(row) for key, row in rows]

    def _evaluate_batch(self, trials: Sequence[Trial]) -> list[Result]:
        rows = self._rows("evaluate", [_trial_item(trial) for trial in trials])
        return [self._result(trial, row) for trial, row in zip(trials, rows, strict=True)]

    def _repeated(self, pair: tuple[Trial, Observation]) -> Result:
        trial, seen = pair
        return self._result(trial, self._alone("repeat", [*_trial_item(trial), observation_row(seen)]))

    def _result(self, trial: Trial, row: Row | Verdict) -> Result:
        return self._failed(trial, row) if isinstance(row, Verdict) else Result(row=row, builder=self._builder)

    def _unanswered(self, key: str, verdict: Verdict) -> Observation:
        return Observation(key, group_of(self._source, key), fault=verdict.why)

    def _failed(self, trial: Trial, verdict: Verdict) -> Result:
        """The result of a trial that crashes every worker; with its change, unless applying that crashes the worker too."""
        worker, _ = self._worker()
        kind = verdict.kind.value if verdict.kind else Fault.MODEL.value
        rows = self._ask(worker, "unanswered", [[*_trial_item(trial), verdict.why, kind]])
        if not isinstance(rows, ModelError):
            self._held.worker = worker
            return Result(row=rows[0], builder=self._builder)
        seen = self._baseline[trial.case]
        asked = Trial(*trial.key, trial.change)
        return Result(Record(asked, verdict, trial.change, seen.answer, source_sha=seen.input_sha))

    def _rows(self, ask: str, items: Sequence[Any]) -> list[Row | Verdict]:
        """A row per item, or the verdict on one that ends every worker."""
        if len(items) == 1:
            return [self._alone(ask, items[0])]
        whole = self._whole(ask, items)
        if not isinstance(whole, ModelError):
            return [*whole]
        rows = [self._alone(ask, item, whole) for item in items]
        if isinstance(whole, Timeout) and not any(isinstance(row, Verdict) for row in rows):
            again, _ = self._attempt(ask, items)
            return rows if isinstance(again, ModelError) else [*again]
        return rows

    def _whole(self, ask: str, items: Sequence[Any]) -> list[Row] | ModelError:
        """The rows of a batch, or how its last attempt failed."""
        rows, _ = self._attempt(ask, items)
        if not isinstance(rows, ModelError) or isinstance(rows, Timeout):  # which would only take as long again
            return rows
        return self._attempt(ask, items, fresh=True)[0]

    def _alone(self, ask: str, item: Any, before: ModelError | None = None) -> Row | Verdict:
        """The row of one item, or the error verdict on it; `before` is how its batch failed."""
        failed = before
        for number in range(TRIES):
            rows, fresh = self._attempt(ask, [item], fresh=number > 0)
            if not isinstance(rows, ModelError):
                return rows[0]
            failed = rows
            if isinstance(failed, Timeout) or (fresh and before is not None and failed.kind == before.kind):
                break
        assert failed
        return Verdict.error(str(failed), Fault(failed.kind))

    def _attempt(self, ask: str, items: Sequence[Any], *, fresh: bool = False) -> tuple[list[Row] | ModelError, bool]:
        """The rows of one attempt, or how it failed, and whether its worker was fresh."""
        worker, fresh = self._worker(fresh)
        rows = self._ask(worker, ask, items)
        if isinstance(rows, ModelError):
            return rows, fresh
        if any(map(_out_of_memory, rows)):  # memory that it leaked stays lost: later items must not suffer from it
            self._stop(worker)
            return OutOfMemory(next(_why(row) for row in rows if _out_of_memory(row))), fresh
        self._held.worker = worker
        return rows, fresh

    def _ask(self, worker: PoolWorker, ask: str, items: Sequence[Any]) -> list[Row] | ModelError:
        """The rows of a worker, or how it failed; a worker that failed is gone."""
        try:
            reply = worker.ask({"ask": ask, "items": list(items)})
        except ModelError as error:
            self._stop(worker)
            if self._closed:
                raise EnvironmentFault(CLOSED) from error
            return error
        self._times.add(reply.get("seconds", {}))
        return rows_of(reply)

    def _stop(self, worker: PoolWorker) -> None:
        worker.close()
        with self._guard:
            if worker in self._all:
                self._all.remove(worker)

    def _worker(self, fresh: bool = False) -> tuple[PoolWorker, bool]:
        """The worker of this thread, taken out of `_held`, or a new one; and whether it is new. `fresh`: always new."""
        held, self._held.worker = self._held.worker, None
        if held and not fresh:
            return held, False
        if held:
            self._stop(held)
        return self._start_worker(), True

    def _start_worker(self) -> PoolWorker:
        worker = self._start()
        with self._guard:
            if self._closed:
                worker.close()
                raise EnvironmentFault(CLOSED)
            self._all.append(worker)
        return worker


def _trial_item(trial: Trial) -> list[Any]:
    """A trial for a worker: its key and its change, or the changes that the worker is to continue."""
    change = None if trial.change is None else _change_text(trial.change)
    if (further := trial.continues) is None:
        return [*trial.key, change]
    return [*trial.key, change, [list(map(_change_text, further.made)), further.kinds, further.stream]]


def _change_text(change: Transformation) -> str:
    return json.dumps(encode_change(change))


def _why(row: Mapping[str, Any]) -> str:
    return str(row.get("why") or row.get("fault") or "")


def _out_of_memory(row: Mapping[str, Any]) -> bool:
    return row.get("error") == Fault.OOM.value or str(row.get("fault", "")).startswith(MemoryError.__name__)


def rows_of(reply: Mapping[str, Any]) -> list[Any]:
    """The rows of a worker's reply; raises the error that stops the campaign, if it is one."""
    if "stopped" in reply:
        raise _stop_error(reply)
    return list(reply["rows"])


def _stop_error(reply: Mapping[str, Any]) -> SwerveError:
    kinds = {kind.exit_code: kind for kind in (InputError, ModelError, EnvironmentFault)}
    return kinds.get(reply["exit"], InputError)(reply["stopped"])
