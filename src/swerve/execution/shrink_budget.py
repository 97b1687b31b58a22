"""At the end of a run, shrinks the finding that represents each group, within a budget of trials.

The journal is not touched: the results are those of `swerve shrink`, and `shrinking.json` states the budget and what it was
used for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from swerve.analysis.groups import FindingGroup, same_fault
from swerve.execution.engine import NoProgress, Progress
from swerve.execution.executors.in_process import Executor
from swerve.execution.shrink import side_by_side
from swerve.store.artifacts import SHRINKING, SHRUNK, save_shrunk, shrunk_of
from swerve.store.files import json_bytes, make_folder, write_whole
from swerve.store.view import Run

SHARE, MOST = 0.2, 400  # the budget by default: a share of the run's trials, and its most
TOGETHER = 8  # findings that are shrunk at a time


def default_budget(trials: int) -> int:
    """The most trials that shrinking may take after a run of `trials`."""
    return min(int(SHARE * trials), MOST)


def shrink_exemplars(
    run: Run,
    groups: Sequence[FindingGroup],
    executor: Executor,
    budget: int,
    *,
    trusted: Collection[str | Path] = (),
    progress: Progress | None = None,
) -> None:
    """Shrink the mildest finding of each group, in order, until `budget` trials are used; once for a run folder."""
    if (run.folder / SHRINKING).exists() or not groups or budget < 1:
        return
    findings = [group.mildest for group in groups if not group.mildest.flaky]
    progress = progress or NoProgress()
    progress.begin("shrunk", len(findings))
    make_folder(run.folder / SHRUNK)
    used, done, builder = 0, 0, run.builder(trusted=trusted)
    for start in range(0, len(findings), TOGETHER):
        waiting = [one for one in findings[start : start + TOGETHER] if shrunk_of(run, one.id) is None]
        for shrunk, row in side_by_side(waiting, executor, same_fault(run), builder, budget - used):
            save_shrunk(run, shrunk, row or run.row(shrunk.of))
        known = [found for one in findings[start : start + TOGETHER] if (found := shrunk_of(run, one.id))]
        used, done = used + sum(found.tries for found in known), done + len(known)
        progress.advance(len(known), 0)
        if len(known) < len(findings[start : start + TOGETHER]):
            used = budget  # the rest of it was not enough for the next ones
            break
    content = {"budget": budget, "used": used, "shrunk": done, "groups": len(groups)}
    write_whole(run.folder / SHRINKING, json_bytes(content))
