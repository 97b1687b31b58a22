"""Replays one finding: rebuilt from the run folder, evaluated again, and compared with its record.

`replay` runs the system in this process, `replay_guarded` in a worker process with limits on time and memory, as a finding
may hang or crash the system.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swerve.config.toml import call_factory, describe
from swerve.config.trust import Trust, required_trust
from swerve.core.asset import assets_in
from swerve.core.campaign import Campaign
from swerve.core.encode import close, decode_values, encode
from swerve.core.errors import ModelError, StoreError, printable
from swerve.core.relation import Fault, Pair, Status, Verdict
from swerve.core.system import Answer
from swerve.execution.answers import answer_all
from swerve.execution.data_guard import name_changed_files
from swerve.execution.evaluator import Evaluator, checked, read_case
from swerve.execution.executors.processes import Allowance, Pace, WorkerProcess
from swerve.execution.executors.worker_pool import rows_of
from swerve.store.artifacts import shrunk_of
from swerve.store.fingerprint import ASSETS, asset_differences, differences, identity_of
from swerve.store.journal import Row
from swerve.store.record_json import Finding, finding_of
from swerve.store.view import CAMPAIGN, Run, UnknownFinding, one_of

CASES = 2  # of a replay: the source and its follow-up


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay: the system's answers now, and all differences from the record."""

    finding: Finding
    verdict: Verdict
    before: Answer
    after: Answer
    differs: tuple[str, ...]
    changed: tuple[str, ...]  # of the campaign: weights, data, code

    @property
    def reproduced(self) -> bool:
        """Whether the same input led to the same answers and the same verdict."""
        return not self.differs


@dataclass(frozen=True)
class ReplayAnswers:
    """A system's answers to a source and its follow-up in a replay; without hashes if the system crashed."""

    verdict: Verdict
    before: Answer = ()
    after: Answer = ()
    shas: tuple[str, str] | None = None  # of what it was shown

    def row(self) -> dict[str, Any]:
        """The answers as JSON, for the pipe of a worker."""
        verdict = self.verdict
        judged = {"status": verdict.status, "margin": verdict.margin, "why": verdict.why, "error": verdict.kind}
        return {**judged, "before": encode(self.before), "after": encode(self.after), "shas": self.shas}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> ReplayAnswers:
        """The answers in a row."""
        kind = None if row["error"] is None else Fault(row["error"])
        verdict = Verdict(Status(row["status"]), row["margin"], row["why"], kind)
        first, second = row["shas"]
        return cls(verdict, decode_values(row["before"]), decode_values(row["after"]), (first, second))


class ChangedSince(StoreError):
    """A run whose weights, data or code have changed since; `details` lists the differences."""

    def __init__(self, folder: Path, changed: Sequence[str]) -> None:
        self.details = tuple(changed)
        super().__init__(f"{folder}: the campaign has changed since its run; run it again into another folder")


@dataclass(frozen=True)
class ReplayTarget:
    """A trial to run again, a finding or an error, and its recorded outcome."""

    finding: Finding
    status: Status
    kind: Fault | None

    def matches(self, verdict: Verdict) -> bool:
        """Whether a verdict is the recorded one."""
        return (verdict.status, verdict.kind) == (self.status, self.kind)


def replay(
    folder: Path,
    prefix: str,
    *,
    shrunk: bool = False,
    campaign: Campaign | None = None,
    trusted: Collection[str | Path] = (),
) -> ReplayResult:
    """Run the trial whose id starts with `prefix` again, alone and in this process; or what it was `shrunk` to."""
    run = Run(folder)
    target = find_target(run, prefix, shrunk=shrunk)
    trust = run.trust(trusted)
    if campaign is not None:  # the caller's own: what it names needs no further consent
        trust = trust.union(required_trust(describe(campaign, run.base), run.base))
    campaign = refuse_changed_assets(run, campaign) if campaign else rebuild(run, trust)
    answers = ask_target(run, evaluator_of(run, campaign), target, trust)
    return _compare(target, answers, changed_since(run, campaign))


def replay_guarded(
    folder: Path,
    prefix: str,
    *,
    shrunk: bool = False,
    trusted: Collection[str | Path] = (),
    allowance: Allowance | None = None,
) -> ReplayResult:
    """As `replay`, in a worker process: if the system crashes or hangs, that is the verdict."""
    run, allowed = Run(folder), allowance or Allowance()
    target = find_target(run, prefix, shrunk=shrunk)
    worker = WorkerProcess(folder, trusted, allowed, Pace(CASES * allowed.seconds))
    try:
        changed = tuple(rows_of(worker.ask_patiently({"ask": "changed", "items": [[prefix, shrunk]]})))
        answers = _ask_worker(worker)
    finally:
        worker.close()
    return _compare(target, answers, changed)


def _ask_worker(worker: WorkerProcess) -> ReplayAnswers:
    try:
        (row,) = rows_of(worker.ask({"ask": "replay", "items": []}))
    except ModelError as error:
        return ReplayAnswers(Verdict.error(str(error), Fault(error.kind)))
    return ReplayAnswers.from_row(row)


def find_target(run: Run, prefix: str, *, shrunk: bool = False) -> ReplayTarget:
    """The finding whose id starts with `prefix`, or what it was `shrunk` to; an error where no finding has that id."""
    try:
        finding = finding_of(run.row(prefix))
    except UnknownFinding:
        if shrunk or (row := _error_in(run, prefix)) is None:
            raise
        return ReplayTarget(finding_of({**row, "margin": 0.0}), Status.ERROR, Fault(row["error"]))
    return ReplayTarget(_smallest(run, finding) if shrunk else finding, Status.VIOLATED, None)


def _error_in(run: Run, prefix: str) -> Row | None:
    """The one error whose id starts with `prefix`, if its change is known."""
    able = (row for row in run.trials() if prefix and row["id"].startswith(prefix) and row["error"] and row["change"])
    rows = {row["id"]: row for row in able}
    return one_of(rows, prefix, run.folder) if rows else None


def evaluator_of(run: Run, campaign: Campaign) -> Evaluator:
    """The rules of a campaign with their numbers fixed as in the run."""
    return Evaluator(campaign, {seen.case: seen for seen in run.baseline()})


def ask_target(
    run: Run, evaluate: Evaluator, target: ReplayTarget, trusted: Collection[str | Path] | Trust = ()
) -> ReplayAnswers:
    """Ask the system for the source and the follow-up of a trial, each alone."""
    finding, campaign = target.finding, evaluate.campaign
    refuse_strange(run, finding, evaluate.rules, evaluate.baseline)
    case = read_case(campaign, finding.case)
    change = run.builder(trusted=trusted).change(finding.change)
    followup = change(case)
    shas = case.input_sha, followup.input_sha  # as made: a system may write into what it is shown
    before, after = (answer_all(campaign.system, [item])[0] for item in (case, followup))
    broken = next((answer for answer in (before, after) if isinstance(answer, Verdict)), None)
    first, second = (answer if isinstance(answer, tuple) else () for answer in (before, after))
    verdict = broken or checked(evaluate.rules[finding.rule], Pair(case, followup, change, first, second))
    return ReplayAnswers(verdict, first, second, shas)


def refuse_strange(run: Run, finding: Finding, rules: Collection[str], cases: Collection[str]) -> None:
    """Raise `StoreError` for a finding whose rule the campaign lacks, or whose case the journal lacks."""
    for what, name, known in (("rule", finding.rule, rules), ("case", finding.case, cases)):
        if name not in known:
            raise StoreError(
                f"{run.folder}: finding {finding.id} is about {what} '{printable(name, 60)}', which this run does not have; "
                "its journal was changed, or belongs to another campaign"
            )


def changed_since(run: Run, campaign: Campaign) -> tuple[str, ...]:
    """The differences between the campaign and the one that the run started with."""
    then, now = run.identity, identity_of(campaign, run.base, run.identity["factory"])
    return tuple(name_changed_files(run.folder, campaign.source, differences(then, now), then, now))


def refuse_changed(run: Run, campaign: Campaign) -> None:
    """Raise `ChangedSince` if the campaign is not the one that the run started with."""
    if changed := changed_since(run, campaign):
        raise ChangedSince(run.folder, changed)


def _compare(target: ReplayTarget, now: ReplayAnswers, changed: tuple[str, ...]) -> ReplayResult:
    """The record compared with the new answers."""
    finding = target.finding
    shown = (
        ()
        if now.shas is None
        else (
            *_hash_differs("source input", finding.source_sha, now.shas[0]),
            *_hash_differs("follow-up input", finding.input_sha, now.shas[1]),
            *_answer_differs("answer on the source", finding.before, now.before),
            *_answer_differs("answer on the follow-up", finding.after, now.after),
        )
    )
    differs = (*shown, *_verdict_differs(target, now.verdict))
    return ReplayResult(finding, now.verdict, now.before, now.after, differs, changed)


def _smallest(run: Run, finding: Finding) -> Finding:
    shrunk = shrunk_of(run, finding.id)
    if shrunk is None:
        raise StoreError(f"finding {finding.id} is not shrunk yet; shrink it with 'swerve shrink {run.folder} {finding.id}'")
    return shrunk.finding


def rebuild(run: Run, trusted: Collection[str | Path] | Trust = ()) -> Campaign:
    """The campaign of a run folder, from `campaign.json` alone; its assets must be those that the run began with."""
    if factory := run.identity["factory"]:
        return refuse_changed_assets(run, call_factory(factory, run.trust(trusted)))
    if not run.identity["rebuildable"]:
        raise StoreError(
            f"{run.folder}: this campaign of a Python script has objects that cannot be rebuilt from a file; "
            "call swerve.replay(folder, id, campaign=...) from that script"
        )
    return run.builder(f"{CAMPAIGN}:", trusted).campaign(run.identity["campaign"])


def refuse_changed_assets(run: Run, campaign: Campaign) -> Campaign:
    """`campaign`, unless a file that it reads is not the one that the run began with."""
    now = {sha: str(asset) for sha, asset in assets_in(campaign).items()}
    if line := next(asset_differences(run.identity.get(ASSETS, {}), now), None):
        raise StoreError(f"{run.folder}: {line}; restore the file, or run again into another folder")
    return campaign


def _hash_differs(what: str, then: str, now: str) -> list[str]:
    return [] if then == now else [f"{what} differs: sha {then[:8]} then, {now[:8]} now"]


def _answer_differs(what: str, then: Answer, now: Answer) -> list[str]:
    if close(encode(then), encode(now)):
        return []
    return [f"{what} differs: {_format_answer(then)} then, {_format_answer(now)} now"]


def _verdict_differs(target: ReplayTarget, verdict: Verdict) -> list[str]:
    if target.matches(verdict):
        return []
    return [f"verdict differs: {_format_outcome(target)} then, {_format_outcome(verdict)} now ({verdict.why})"]


def _format_outcome(outcome: ReplayTarget | Verdict) -> str:
    return f"{outcome.kind} {outcome.status}" if outcome.kind else str(outcome.status)


def _format_answer(answer: Answer) -> str:
    return ", ".join(str(encode(value)) for value in answer) or "nothing"
