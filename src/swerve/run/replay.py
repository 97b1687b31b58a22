"""One finding alone: rebuilt from the run folder, asked again, and compared with what was recorded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from swerve.config.toml import Builder, build_change, call_factory, describe
from swerve.config.trust import Trust, named_in
from swerve.core.campaign import Campaign
from swerve.core.encode import close, encode
from swerve.core.errors import StoreError
from swerve.core.relation import Fault, Pair, Status, Verdict
from swerve.core.system import Answer
from swerve.run.evaluator import Evaluator, answer_all, checked, read_case
from swerve.store.artifacts import shrunk_of
from swerve.store.fingerprint import differences, identity_of
from swerve.store.journal import Row
from swerve.store.record_json import Finding, finding_of
from swerve.store.view import CAMPAIGN, SHORTEST_ID, Run


@dataclass(frozen=True)
class ReplayResult:
    """How a replay went: what the system says now, and every way in which it differs from then."""

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
class Answered:
    """What a system says when asked again, of the source and of the follow-up; without hashes if it did not survive that."""

    verdict: Verdict
    before: Answer = ()
    after: Answer = ()
    shas: tuple[str, str] | None = None  # of what it was shown


class ChangedSince(StoreError):
    """A run whose weights, data or code are others now; `changed` lists how they differ."""

    def __init__(self, folder: Path, changed: Sequence[str]) -> None:
        self.changed = tuple(changed)
        super().__init__(f"{folder}: the campaign is not what it was when it ran; run it again into another folder")


@dataclass(frozen=True)
class ReplayTarget:
    """A trial to run again, a finding or an error, and how it ended."""

    finding: Finding
    status: Status
    kind: Fault | None

    def ends_alike(self, verdict: Verdict) -> bool:
        """Whether that is how it ended."""
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
    sought = sought_in(run, prefix, shrunk=shrunk)
    trust = run.trust(trusted)
    if campaign is not None:  # the caller's own: what it names needs no further consent
        trust = trust.joined(named_in(describe(campaign, run.base), run.base))
    campaign = campaign or rebuild(run, trust)
    return compared(sought, answered(run, evaluator_of(run, campaign), sought, trust), changed_since(run, campaign))


def sought_in(run: Run, prefix: str, *, shrunk: bool = False) -> ReplayTarget:
    """The finding whose id starts with `prefix`, or what it was `shrunk` to; an error where no finding has that id."""
    try:
        finding = finding_of(run.row(prefix))
    except StoreError:
        if shrunk or (row := _error_in(run, prefix)) is None:
            raise
        return ReplayTarget(finding_of({**row, "margin": 0.0}), Status.ERROR, Fault(row["error"]))
    return ReplayTarget(_smallest(run, finding) if shrunk else finding, Status.VIOLATED, None)


def _error_in(run: Run, prefix: str) -> Row | None:
    """The one error whose id starts with `prefix`, if its change is known."""
    if len(prefix) < SHORTEST_ID:
        return None
    rows = {row["id"]: row for row in run.trials() if row["id"].startswith(prefix) and row["error"] and row["change"]}
    return next(iter(rows.values())) if len(rows) == 1 else None


def evaluator_of(run: Run, campaign: Campaign) -> Evaluator:
    """The rules of a campaign with their numbers fixed as in the run."""
    return Evaluator(campaign, {seen.case: seen for seen in run.baseline()})


def answered(run: Run, evaluate: Evaluator, sought: ReplayTarget, trusted: Collection[str | Path] | Trust = ()) -> Answered:
    """Ask the system again, here and now."""
    finding, campaign = sought.finding, evaluate.campaign
    case = read_case(campaign, finding.case)
    change = build_change(finding.change, run.base, run.trust(trusted))
    followup = change(case)
    shas = case.input_sha, followup.input_sha  # as made: a system may write into what it is shown
    before, after = (answer_all(campaign.system, [item])[0] for item in (case, followup))
    broken = next((answer for answer in (before, after) if isinstance(answer, Verdict)), None)
    said = [answer if isinstance(answer, tuple) else () for answer in (before, after)]
    verdict = broken or checked(evaluate.rules[finding.rule], Pair(case, followup, change, said[0], said[1]))
    return Answered(verdict, said[0], said[1], shas)


def changed_since(run: Run, campaign: Campaign) -> tuple[str, ...]:
    """How the campaign differs from what the run began with."""
    return tuple(differences(run.identity, identity_of(campaign, run.base, run.identity["factory"])))


def refuse_changed(run: Run, campaign: Campaign) -> None:
    """Raise `ChangedSince` unless the campaign is what the run began with."""
    if changed := changed_since(run, campaign):
        raise ChangedSince(run.folder, changed)


def compared(sought: ReplayTarget, told: Answered, changed: tuple[str, ...]) -> ReplayResult:
    """What was said then beside what is said now."""
    finding = sought.finding
    shown = (
        ()
        if told.shas is None
        else (
            *_hash_differs("source input", finding.source_sha, told.shas[0]),
            *_hash_differs("follow-up input", finding.input_sha, told.shas[1]),
            *_answer_differs("answer on the source", finding.before, told.before),
            *_answer_differs("answer on the follow-up", finding.after, told.after),
        )
    )
    differs = (*shown, *_verdict_differs(sought, told.verdict))
    return ReplayResult(finding, told.verdict, told.before, told.after, differs, changed)


def _smallest(run: Run, finding: Finding) -> Finding:
    made = shrunk_of(run, finding.id)
    if made is None:
        raise StoreError(f"finding {finding.id} was never shrunk; do so with 'swerve shrink {run.folder} {finding.id}'")
    return made.finding


def rebuild(run: Run, trusted: Collection[str | Path] | Trust = ()) -> Campaign:
    """The campaign of a run folder, from `campaign.json` alone."""
    if factory := run.identity["factory"]:
        return call_factory(factory, run.trust(trusted))
    if not run.identity["rebuildable"]:
        raise StoreError(
            f"{run.folder}: this campaign was made by a Python script and holds objects that no file can rebuild; "
            "call swerve.replay(folder, id, campaign=...) from that script"
        )
    return Builder(f"{CAMPAIGN}:", run.base, run.trust(trusted)).campaign(run.identity["campaign"])


def _hash_differs(what: str, then: str, now: str) -> list[str]:
    return [] if then == now else [f"{what} differs: sha {then[:8]} then, {now[:8]} now"]


def _answer_differs(what: str, then: Answer, now: Answer) -> list[str]:
    if close(encode(then), encode(now)):
        return []
    return [f"{what} differs: {_told(then)} then, {_told(now)} now"]


def _verdict_differs(sought: ReplayTarget, verdict: Verdict) -> list[str]:
    if sought.ends_alike(verdict):
        return []
    return [f"verdict differs: {_ended(sought)} then, {_ended(verdict)} now ({verdict.why})"]


def _ended(one: ReplayTarget | Verdict) -> str:
    return f"{one.kind} {one.status}" if one.kind else str(one.status)


def _told(answer: Answer) -> str:
    return ", ".join(str(encode(value)) for value in answer) or "nothing"
