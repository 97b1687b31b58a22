"""Which trials are reviewed, in which order: the same for every reviewer."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from swerve.journal import Row
from swerve.relation import Status
from swerve.rows import Finding, finding_of, is_finding
from swerve.seeding import digest_of
from swerve.store import KEPT_PER_RULE, Run, best_of


def queue(run: Run, sample: int | None = None, *, seed: int = 0, held: bool = False) -> list[Finding]:
    """`sample` findings drawn at random from all; without a number the kept ones of each rule, largest margin first.

    With `held`, the sample is of all judged trials, held ones too, so that their share of unnatural ones is the run's
    (TG-24). A larger sample of the same seed starts with the smaller one, so a pilot is the head of the whole.
    """
    if sample is None:
        return [finding_of(row) for row in best_of(judged(run, held=False), KEPT_PER_RULE)]
    rows = judged(run, held=held)
    return [finding_of(row) for row in heapq.nsmallest(sample, rows, key=lambda row: _place(seed, row))]


def judged(run: Run, *, held: bool = True) -> Iterator[dict[str, Any]]:
    """The row of every finding, and of every trial that held, each once: a search may have drawn the same change twice."""
    seen: set[str] = set()
    for row in run.trials():
        wanted = is_finding(row) or (held and row["status"] == Status.HELD)
        if wanted and row["id"] not in seen:
            seen.add(row["id"])
            yield row


def is_held(finding: Finding) -> bool:
    """Whether this is a trial that held, told by the follow-up's hash, which only other trials have."""
    return not finding.input_sha


def _place(seed: int, row: Row) -> str:
    return digest_of("review", seed, row["id"])
