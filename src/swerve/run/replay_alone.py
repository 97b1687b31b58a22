"""One finding again, in a process of its own that is held to its time and memory: what fails may also hang, or crash."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from swerve.core.encode import decode_values, encode
from swerve.core.errors import ModelError
from swerve.core.relation import Fault, Status, Verdict
from swerve.run.executors.processes import Allowance, Pace, WorkerProcess
from swerve.run.executors.worker_pool import stopped
from swerve.run.replay import Answered, ReplayResult, compared, sought_in
from swerve.store.view import Run

CASES = 2  # that a replay asks for: the source and its follow-up


def replay_guarded(
    folder: Path,
    prefix: str,
    *,
    shrunk: bool = False,
    trusted: Collection[str | Path] = (),
    allowance: Allowance | None = None,
) -> ReplayResult:
    """As `swerve.run.replay.replay`, but whatever the system does is told and not suffered."""
    run, allowed = Run(folder), allowance or Allowance()
    sought = sought_in(run, prefix, shrunk=shrunk)
    worker = WorkerProcess(folder, trusted, allowed, Pace(CASES * allowed.seconds))
    try:
        changed = tuple(_rows(worker.ask_patiently({"ask": "changed", "items": [[prefix, shrunk]]})))
        told = _answered(worker)
    finally:
        worker.close()
    return compared(sought, told, changed)


def _answered(worker: WorkerProcess) -> Answered:
    try:
        (row,) = _rows(worker.ask({"ask": "replay", "items": []}))
    except ModelError as error:
        return Answered(Verdict.error(str(error), Fault(error.kind)))
    return answered_of(row)


def _rows(reply: Mapping[str, Any]) -> list[Any]:
    if "stopped" in reply:
        raise stopped(reply)
    return list(reply["rows"])


def answered_row(told: Answered) -> dict[str, Any]:
    """An answer as a row that travels."""
    verdict = told.verdict
    ended = {"status": verdict.status, "margin": verdict.margin, "why": verdict.why, "error": verdict.kind}
    return {**ended, "before": encode(told.before), "after": encode(told.after), "shas": told.shas}


def answered_of(row: Mapping[str, Any]) -> Answered:
    """The answer that a row holds."""
    kind = None if row["error"] is None else Fault(row["error"])
    verdict = Verdict(Status(row["status"]), row["margin"], row["why"], kind)
    first, second = row["shas"]
    return Answered(verdict, decode_values(row["before"]), decode_values(row["after"]), (first, second))
