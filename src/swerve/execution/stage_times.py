"""Where the time of a run goes: into changing cases, into the system's answers, or into the search."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

CHANGES, ANSWERS, SEARCH = "changes", "answers", "search"


class StageTimes:
    """Seconds by stage, added up from all threads and workers; no result depends on them."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._guard = threading.Lock()

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Add the time that the block takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add({stage: time.perf_counter() - started})

    def add(self, seconds: Mapping[str, float]) -> None:
        """Add seconds that were measured elsewhere."""
        with self._guard:
            for stage, spent in seconds.items():
                self._seconds[stage] = self._seconds.get(stage, 0.0) + spent

    def taken(self) -> dict[str, float]:
        """The seconds so far, which are forgotten."""
        with self._guard:
            seconds, self._seconds = self._seconds, {}
        return seconds
