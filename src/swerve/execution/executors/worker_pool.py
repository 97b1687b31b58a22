"""Several workers as one executor: each takes the next batch when it is free, results come in order, dead ones are replaced.

A batch whose worker dies is done again as a whole, as the worker may have been killed for no fault of the batch. If it fails
again, its items are done one by one to find the one at fault. That item is recorded once it has ended a fresh worker too,
after three tries in all. Every death costs the start of a model.

A batch that exceeds its time is done one by one at once. If no item is at fault it was merely slow; then it is done as a
whole once more, now that its pace is known, as the last bits of an answer may depend on the size of a batch.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from swerve.core.campaign import Observation, Record, Trial
from swerve.core.case import Source, group_of
from swerve.core.encode import encode_change
from swerve.core.errors import EnvironmentFault, InputError, ModelError, OutOfMemory, SwerveError, Timeout
from swerve.core.relation import Fault, Verdict
from swerve.store.record_json import observation_of, observation_row

TRIES = 3
Row = Mapping[str, Any]
T = TypeVar("T")
R = TypeVar("R")


class PoolWorker(Protocol):
    """One worker: a process of this machine, or an actor of a cluster."""

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its reply; raises the kind of `ModelError` that says whether it died, was ended, or took too long."""

    def close(self) -> None:
        """End it."""


class WorkerPool:
    """An executor made of the workers that `start` starts; at most `count` at a time."""

    def __init__(
        self,
        start: Callable[[], PoolWorker],
        count: int,
        *,
        source: Source,
        record: Callable[[Mapping[str, Any]], Record],
    ) -> None:
        self._start, self._count, self._source, self._record = start, count, source, record
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="swerve-pool")
        self._idle: queue.SimpleQueue[PoolWorker] = queue.SimpleQueue()
        self._all: list[PoolWorker] = []
        self._guard = threading.Lock()
        self._closed = False
        self._baseline: Mapping[str, Observation] = {}

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterator[Sequence[Observation]]:
        """What the system says of untouched cases."""
        return self._in_order(self._observe_batch, batches)

    def begin(self, baseline: Mapping[str, Observation]) -> None:
        """Workers read the baseline from the journal, which is complete now."""
        self._baseline = baseline

    def evaluate(self, batches: Sequence[Sequence[Trial]]) -> Iterator[Sequence[Record]]:
        """The records of trials."""
        return self._in_order(self._evaluate_batch, batches)

    def repeat(self, asked: Sequence[tuple[Trial, Observation]]) -> Iterator[Record]:
        """The records of trials asked again, one by one."""
        return self._in_order(self._repeated, asked)

    def warm(self, batches: Sequence[Sequence[Trial]]) -> None:
        """Start as many workers as these batches will need, and have each do their first trial."""
        items = [_trial_item(batches[0][0])]
        workers = [self._worker()[0] for _ in range(min(self._count, len(batches)))]
        ready = list(self._threads.map(lambda worker: self._ask(worker, "evaluate", items), workers))
        for worker, rows in zip(workers, ready, strict=True):
            if not isinstance(rows, ModelError):  # one that died of it is gone; the trial itself will show why
                self._idle.put(worker)

    def close(self) -> None:
        """End all workers; what they were doing is lost."""
        with self._guard:
            self._closed = True
            workers, self._all = self._all, []
        for worker in workers:
            worker.close()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _in_order(self, do: Callable[[T], R], batches: Sequence[T]) -> Iterator[R]:
        futures: list[Future[R]] = [self._threads.submit(do, batch) for batch in batches]
        return (future.result() for future in futures)

    def _observe_batch(self, keys: Sequence[str]) -> list[Observation]:
        rows = zip(keys, self._rows("observe", keys), strict=True)
        return [self._unanswered(key, row) if isinstance(row, Verdict) else observation_of(row) for key, row in rows]

    def _evaluate_batch(self, trials: Sequence[Trial]) -> list[Record]:
        rows = zip(trials, self._rows("evaluate", [_trial_item(trial) for trial in trials]), strict=True)
        return [self._failed(trial, row) if isinstance(row, Verdict) else self._record(row) for trial, row in rows]

    def _repeated(self, asked: tuple[Trial, Observation]) -> Record:
        trial, seen = asked
        row = self._alone("repeat", [*_trial_item(trial), observation_row(seen)])
        return self._failed(trial, row) if isinstance(row, Verdict) else self._record(row)

    def _unanswered(self, key: str, verdict: Verdict) -> Observation:
        return Observation(key, group_of(self._source, key), fault=verdict.why)

    def _failed(self, trial: Trial, verdict: Verdict) -> Record:
        """The record of a trial that ends every worker; with its change, if making that does not end the worker too."""
        worker, _ = self._worker()
        kind = verdict.kind.value if verdict.kind else Fault.MODEL.value
        rows = self._ask(worker, "unanswered", [[*_trial_item(trial), verdict.why, kind]])
        if not isinstance(rows, ModelError):
            self._idle.put(worker)
            return self._record(rows[0])
        seen = self._baseline[trial.case]
        return Record(trial, verdict, trial.change, seen.said, source_sha=seen.input_sha)

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
            self._dismiss(worker)
            return OutOfMemory(next(_why(row) for row in rows if _out_of_memory(row))), fresh
        self._idle.put(worker)
        return rows, fresh

    def _ask(self, worker: PoolWorker, ask: str, items: Sequence[Any]) -> list[Row] | ModelError:
        """The rows of a worker, or how it failed; a worker that failed is gone."""
        try:
            reply = worker.ask({"ask": ask, "items": list(items)})
        except ModelError as error:
            self._dismiss(worker)
            if self._closed:
                raise EnvironmentFault("the workers were closed") from error
            return error
        return rows_of(reply)

    def _dismiss(self, worker: PoolWorker) -> None:
        worker.close()
        with self._guard:
            if worker in self._all:
                self._all.remove(worker)

    def _worker(self, fresh: bool = False) -> tuple[PoolWorker, bool]:
        """A free worker, or a new one, and whether it is new; a `fresh` one replaces one that is free."""
        with contextlib.suppress(queue.Empty):
            free = self._idle.get_nowait()
            if not fresh:
                return free, False
            self._dismiss(free)
        worker = self._start()
        with self._guard:
            if self._closed:
                worker.close()
                raise EnvironmentFault("the workers were closed")
            self._all.append(worker)
        return worker, True


def _trial_item(trial: Trial) -> list[Any]:
    change = None if trial.change is None else json.dumps(encode_change(trial.change))
    return [trial.case, trial.rule, trial.draw, change]


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
