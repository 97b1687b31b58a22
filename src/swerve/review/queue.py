"""Which findings are reviewed, in which order: the same for every reviewer."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from swerve.journal import Row
from swerve.rows import Finding, finding_of, is_finding
from swerve.seeding import digest_of
from swerve.store import KEPT_PER_RULE, Run, best_of


def queue(run: Run, sample: int | None = None, *, seed: int = 0) -> list[Finding]:
    """`sample` findings drawn at random from all; without a number the kept ones of each rule, largest margin first.

    A larger sample of the same seed starts with the smaller one, so a pilot (TG-24) is the head of the whole.
    """
    rows = _once(row for row in run.trials() if is_finding(row))
    if sample is None:
        return [finding_of(row) for row in best_of(rows, KEPT_PER_RULE)]
    return [finding_of(row) for row in heapq.nsmallest(sample, rows, key=lambda row: _place(seed, row))]


def _place(seed: int, row: Row) -> str:
    return digest_of("review", seed, row["id"])


def _once(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each finding once: a search may have drawn the same change twice."""
    seen: set[str] = set()
    for row in rows:
        if row["id"] not in seen:
            seen.add(row["id"])
            yield row
