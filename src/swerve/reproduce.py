"""One finding alone: rebuilt from the run folder, asked again, and compared with what was recorded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from swerve.campaign import Campaign
from swerve.codec import close, encode
from swerve.errors import StoreError
from swerve.evaluation import Evaluator, answer_all, checked, read_case
from swerve.identity import differences, identity_of
from swerve.relation import Pair, Status, Verdict
from swerve.rows import Finding, finding_of
from swerve.shrink import shrunk_of
from swerve.spec import Builder, build_change, load_campaign
from swerve.store import CAMPAIGN, Run
from swerve.system import Answer


@dataclass(frozen=True)
class Replayed:
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


def replay(
    folder: Path, prefix: str, *, shrunk: bool = False, campaign: Campaign | None = None, trusted: Collection[Path] = ()
) -> Replayed:
    """Run the finding whose id starts with `prefix` again, alone; or what it was `shrunk` to."""
    run = Run(folder)
    finding = finding_of(run.row(prefix))
    if shrunk:
        finding = _smallest(run, finding)
    campaign = campaign or rebuild(run, trusted)
    now = identity_of(campaign, run.base, run.identity["factory"])
    baseline = {seen.case: seen for seen in run.baseline()}
    evaluate = Evaluator(campaign, baseline)
    case = read_case(campaign, finding.case)
    change = build_change(finding.change, run.base, trusted)
    followup = change(case)
    shas = case.input_sha, followup.input_sha  # as made: a system may write into what it is shown
    before, after = (answer_all(campaign.system, [item])[0] for item in (case, followup))
    broken = next((answer for answer in (before, after) if isinstance(answer, Verdict)), None)
    said = [answer if isinstance(answer, tuple) else () for answer in (before, after)]
    verdict = broken or checked(evaluate.rules[finding.rule], Pair(case, followup, change, said[0], said[1]))
    differs = (
        *_hash_differs("source input", finding.source_sha, shas[0]),
        *_hash_differs("follow-up input", finding.input_sha, shas[1]),
        *_answer_differs("answer on the source", finding.before, said[0]),
        *_answer_differs("answer on the follow-up", finding.after, said[1]),
        *_verdict_differs(verdict),
    )
    return Replayed(finding, verdict, said[0], said[1], differs, tuple(differences(run.identity, now)))


def _smallest(run: Run, finding: Finding) -> Finding:
    made = shrunk_of(run, finding.id)
    if made is None:
        raise StoreError(f"finding {finding.id} was never shrunk; do so with 'swerve shrink {run.folder} {finding.id}'")
    return made.finding


def rebuild(run: Run, trusted: Collection[Path] = ()) -> Campaign:
    """The campaign of a run folder, from `campaign.json` alone."""
    if factory := run.identity["factory"]:
        return load_campaign(factory, trusted).campaign
    if not run.identity["rebuildable"]:
        raise StoreError(
            f"{run.folder}: this campaign was made by a Python script and holds objects that no file can rebuild; "
            "call swerve.replay(folder, id, campaign=...) from that script"
        )
    return Builder(f"{CAMPAIGN}:", run.base, trusted).campaign(run.identity["campaign"])


def _hash_differs(what: str, then: str, now: str) -> list[str]:
    return [] if then == now else [f"{what} differs: sha {then[:8]} then, {now[:8]} now"]


def _answer_differs(what: str, then: Answer, now: Answer) -> list[str]:
    if close(encode(then), encode(now)):
        return []
    return [f"{what} differs: {_told(then)} then, {_told(now)} now"]


def _verdict_differs(verdict: Verdict) -> list[str]:
    return (
        []
        if verdict.status is Status.VIOLATED
        else [f"verdict differs: violated then, {verdict.status} now ({verdict.why})"]
    )


def _told(answer: Answer) -> str:
    return ", ".join(str(encode(value)) for value in answer) or "nothing"
