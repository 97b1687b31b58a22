"""Several workers as one pair of executor: batches handed out as they get free, results in order, the dead replaced.

A batch whose worker dies is done again as a whole, as somebody may have killed the worker for no fault of the batch. If it
fails again, its items are done one by one, so that the one at fault is found: it is recorded once a worker that did nothing
else before has died of it too, which makes three tries. Every death costs the start of a model.

A batch that is not back in time is done one by one at once. If none of its items is at fault it was merely slow; then it is
done as a whole once more, now that its pace is known, as the last bits of an answer may hang on the size of a batch.
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


class Hand(Protocol):
    """One worker, somewhere."""

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its reply; raises `ModelError` of a kind where it died, was ended, or took too long."""

    def close(self) -> None:
        """Send it home."""


class WorkerPool:
    """Hands for `swerve.run.engine.run` made of workers that `hire` starts; at most `count` at a time."""

    def __init__(
        self,
        hire: Callable[[], Hand],
        count: int,
        *,
        source: Source,
        record: Callable[[Mapping[str, Any]], Record],
    ) -> None:
        self._hire, self._count, self._source, self._record = hire, count, source, record
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="swerve-crew")
        self._idle: queue.SimpleQueue[Hand] = queue.SimpleQueue()
        self._all: list[Hand] = []
        self._guard = threading.Lock()
        self._closed = False
        self._baseline: Mapping[str, Observation] = {}

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterator[Sequence[Observation]]:
        """What the system says of untouched cases."""
        return self._in_order(self._observed, batches)

    def begin(self, baseline: Mapping[str, Observation]) -> None:
        """The journal holds the baseline now, and workers read it there."""
        self._baseline = baseline

    def evaluate(self, batches: Sequence[Sequence[Trial]]) -> Iterator[Sequence[Record]]:
        """The records of trials."""
        return self._in_order(self._evaluated, batches)

    def repeat(self, asked: Sequence[tuple[Trial, Observation]]) -> Iterator[Record]:
        """The records of trials asked again, one by one."""
        return self._in_order(self._repeated, asked)

    def warm(self, batches: Sequence[Sequence[Trial]]) -> None:
        """Have as many workers as there will be for these batches start, and each do the first trial of them."""
        items = [_travelling(batches[0][0])]
        workers = [self._worker()[0] for _ in range(min(self._count, len(batches)))]
        ready = list(self._threads.map(lambda worker: self._asked(worker, "evaluate", items), workers))
        for worker, rows in zip(workers, ready, strict=True):
            if not isinstance(rows, ModelError):  # who died of it is gone, and the trial will tell
                self._idle.put(worker)

    def close(self) -> None:
        """Send all workers home; what they were doing is lost."""
        with self._guard:
            self._closed = True
            workers, self._all = self._all, []
        for worker in workers:
            worker.close()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _in_order(self, do: Callable[[T], R], batches: Sequence[T]) -> Iterator[R]:
        futures: list[Future[R]] = [self._threads.submit(do, batch) for batch in batches]
        return (future.result() for future in futures)

    def _observed(self, keys: Sequence[str]) -> list[Observation]:
        rows = zip(keys, self._rows("observe", keys), strict=True)
        return [self._unanswered(key, row) if isinstance(row, Verdict) else observation_of(row) for key, row in rows]

    def _evaluated(self, trials: Sequence[Trial]) -> list[Record]:
        rows = zip(trials, self._rows("evaluate", [_travelling(trial) for trial in trials]), strict=True)
        return [self._failed(trial, row) if isinstance(row, Verdict) else self._record(row) for trial, row in rows]

    def _repeated(self, asked: tuple[Trial, Observation]) -> Record:
        trial, seen = asked
        row = self._alone("repeat", [*_travelling(trial), observation_row(seen)])
        return self._failed(trial, row) if isinstance(row, Verdict) else self._record(row)

    def _unanswered(self, key: str, verdict: Verdict) -> Observation:
        return Observation(key, group_of(self._source, key), fault=verdict.why)

    def _failed(self, trial: Trial, verdict: Verdict) -> Record:
        """What no worker survived; with the change, which may have been drawn there, as long as making it is survived."""
        worker, _ = self._worker()
        kind = verdict.kind.value if verdict.kind else Fault.MODEL.value
        rows = self._asked(worker, "unanswered", [[*_travelling(trial), verdict.why, kind]])
        if not isinstance(rows, ModelError):
            self._idle.put(worker)
            return self._record(rows[0])
        seen = self._baseline[trial.case]
        return Record(trial, verdict, trial.change, seen.said, source_sha=seen.input_sha)

    def _rows(self, ask: str, items: Sequence[Any]) -> list[Row | Verdict]:
        """A row per item, or the verdict on one that no worker survives."""
        if len(items) == 1:
            return [self._alone(ask, items[0])]
        whole = self._whole(ask, items)
        if not isinstance(whole, ModelError):
            return [*whole]
        rows = [self._alone(ask, item, whole) for item in items]
        if isinstance(whole, Timeout) and not any(isinstance(row, Verdict) for row in rows):
            again, _ = self._tried(ask, items)
            return rows if isinstance(again, ModelError) else [*again]
        return rows

    def _whole(self, ask: str, items: Sequence[Any]) -> list[Row] | ModelError:
        """The rows of a batch, or how it failed at last."""
        rows, _ = self._tried(ask, items)
        if not isinstance(rows, ModelError) or isinstance(rows, Timeout):  # which would only take as long again
            return rows
        return self._tried(ask, items, fresh=True)[0]

    def _alone(self, ask: str, item: Any, before: ModelError | None = None) -> Row | Verdict:
        """The row of one item, or the verdict on it; `before` is how its batch failed."""
        failed = before
        for number in range(TRIES):
            rows, fresh = self._tried(ask, [item], fresh=number > 0)
            if not isinstance(rows, ModelError):
                return rows[0]
            failed = rows
            if isinstance(failed, Timeout) or (fresh and before is not None and failed.kind == before.kind):
                break
        assert failed
        return Verdict.error(str(failed), Fault(failed.kind))

    def _tried(self, ask: str, items: Sequence[Any], *, fresh: bool = False) -> tuple[list[Row] | ModelError, bool]:
        """The rows of one try, or how it failed, and whether with a worker that did nothing else before."""
        worker, fresh = self._worker(fresh)
        rows = self._asked(worker, ask, items)
        if isinstance(rows, ModelError):
            return rows, fresh
        if any(map(_out_of_memory, rows)):  # what it lost before stays lost: others must not pay for it
            self._dismiss(worker)
            return OutOfMemory(next(_told(row) for row in rows if _out_of_memory(row))), fresh
        self._idle.put(worker)
        return rows, fresh

    def _asked(self, worker: Hand, ask: str, items: Sequence[Any]) -> list[Row] | ModelError:
        """Its rows, or how it failed: it is gone then."""
        try:
            reply = worker.ask({"ask": ask, "items": list(items)})
        except ModelError as error:
            self._dismiss(worker)
            if self._closed:
                raise EnvironmentFault("the workers were sent home") from error
            return error
        if "stopped" in reply:
            raise stopped(reply)
        return list(reply["rows"])

    def _dismiss(self, worker: Hand) -> None:
        worker.close()
        with self._guard:
            if worker in self._all:
                self._all.remove(worker)

    def _worker(self, fresh: bool = False) -> tuple[Hand, bool]:
        """One that is free, or a new one, and whether it is new; a `fresh` one takes the place of one that is free."""
        with contextlib.suppress(queue.Empty):
            free = self._idle.get_nowait()
            if not fresh:
                return free, False
            self._dismiss(free)
        worker = self._hire()
        with self._guard:
            if self._closed:
                worker.close()
                raise EnvironmentFault("the workers were sent home")
            self._all.append(worker)
        return worker, True


def _travelling(trial: Trial) -> list[Any]:
    change = None if trial.change is None else json.dumps(encode_change(trial.change))
    return [trial.case, trial.rule, trial.draw, change]


def _told(row: Mapping[str, Any]) -> str:
    return str(row.get("why") or row.get("fault") or "")


def _out_of_memory(row: Mapping[str, Any]) -> bool:
    return row.get("error") == Fault.OOM.value or str(row.get("fault", "")).startswith(MemoryError.__name__)


def stopped(reply: Mapping[str, Any]) -> SwerveError:
    """The error by which a worker stopped."""
    kinds = {kind.exit_code: kind for kind in (InputError, ModelError, EnvironmentFault)}
    return kinds.get(reply["exit"], InputError)(reply["stopped"])
