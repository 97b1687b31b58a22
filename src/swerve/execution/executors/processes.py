"""Workers as processes of this machine, each with limits on time and memory."""

from __future__ import annotations

import itertools
import json
import math
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from swerve.config import limits
from swerve.config.trust import Trust
from swerve.core.campaign import Campaign
from swerve.core.errors import EnvironmentFault, ModelError
from swerve.execution.executors.worker_pool import WorkerPool
from swerve.store.view import Run
from swerve.systems.child import Child
from swerve.systems.wire import pack_frame

# Modules are found as in this process; PYTHONPATH could not name a folder with a colon in it.
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); from swerve.execution.executors.worker import main; main()"
)
STARTS = 3  # attempts to start a worker
PATIENCE = 3  # a batch may take this many times its pace so far, once that is more than the limit of one case


@dataclass(frozen=True)
class Allowance:
    """The limits of a worker: seconds for one case, bytes of memory."""

    seconds: float = limits.SECONDS
    memory: int = limits.MEMORY


@dataclass
class Pace:
    """The time limit of a batch: that of one case, or more if cases are known to be slow."""

    seconds: float
    slowest: float = field(default=0.0)

    def limit(self, cases: int) -> float:
        """Seconds for a batch of so many cases."""
        return self.seconds if cases <= 1 else min(self.seconds * cases, max(self.seconds, PATIENCE * self.slowest * cases))

    def note(self, cases: int, taken: float) -> None:
        """Record how long a batch took."""
        self.slowest = max(self.slowest, taken / max(1, cases))


class WorkerProcess:
    """One worker process, started at once."""

    def __init__(
        self,
        folder: Path,
        trusted: Collection[str | Path] | Trust,
        allowance: Allowance,
        pace: Pace,
        paths: Sequence[str] = (),
    ) -> None:
        words = [sys.executable, "-P", "-c", BOOT, json.dumps([*paths] or module_paths()), str(folder.resolve())]
        trust = trusted if isinstance(trusted, Trust) else Run(folder).trust(trusted)
        self._command = [*words, trust.as_json()]
        self._memory = allowance.memory
        self._child = self._start()
        self._pace, self._lock, self._numbers = pace, threading.Lock(), itertools.count()
        self._asked = self._closed = False

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its reply, within the time limit of the batch; the start, which loads the model, is not counted."""
        with self._lock:
            if not self._asked:
                self._make_ready()
            count, started = len(question["items"]), time.monotonic()
            reply = self._exchange(question, self._pace.limit(count))
            self._pace.note(count, time.monotonic() - started)
            return reply

    def ask_patiently(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its reply without a time limit, for work outside the model, such as hashing a data set."""
        with self._lock:
            if not self._asked:
                self._make_ready()
            return self._exchange(question, math.inf)

    def _start(self) -> Child:
        return Child(self._command, None, self._memory)

    def _make_ready(self) -> None:
        """Wait until the worker has loaded the model; one that cannot start is an error of the environment."""
        for left in reversed(range(STARTS)):
            try:
                self._exchange({"ask": "ready"}, limits.START)
                self._exchange({"ask": "prepare"}, math.inf)
                self._asked = True
                return
            except ModelError as error:
                self._child.end()
                if self._closed or not left:
                    raise EnvironmentFault(f"a worker process cannot start: {error}") from error
                self._child = self._start()

    def close(self) -> None:
        """End it, even while it works."""
        self._closed = True
        self._child.kill()  # a thread that waits for its reply wakes up
        with self._lock:
            self._child.end()

    def _exchange(self, question: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        number = next(self._numbers)
        reply = self._child.ask(pack_frame({**question, "number": number}), number, seconds)
        if "error" in reply:  # not an error of the model, which would be a row
            raise ModelError(str(reply["error"]))
        return reply


def module_paths() -> list[str]:
    """Where this process finds modules, including the user's."""
    return [str(Path(path).resolve()) for path in sys.path]


def process_workers(
    campaign: Campaign,
    folder: Path,
    *,
    workers: int,
    trusted: Collection[str | Path] = (),
    allowance: Allowance | None = None,
) -> WorkerPool:
    """Up to `workers` processes that rebuild the campaign of a run folder."""
    allowed = allowance or Allowance()
    builder = Run(folder).builder(trusted=trusted)
    start = partial(WorkerProcess, folder, builder.trust, allowed, Pace(allowed.seconds))
    return WorkerPool(start, workers, source=campaign.source, builder=builder)
