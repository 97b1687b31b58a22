"""The findings that stand for others: the best of every rule, and of every group the worst and the mildest, also shrunk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from swerve.analysis.groups import FindingGroup, Grouping, Identified, WithFindings, groups, reader_of
from swerve.analysis.strength import WEAK
from swerve.core.errors import StoreError
from swerve.core.relation import Status
from swerve.store.artifacts import shrunk_of
from swerve.store.record_json import Finding, Result, finding_of
from swerve.store.view import PICTURED_PER_RULE, Best, Run


class FoundSoFar:
    """The findings of a run while it goes on: the best of each rule, and their groups."""

    def __init__(self, run: Identified, keep: int = PICTURED_PER_RULE) -> None:
        self._run, self._keep, self._grouping, self._best = run, keep, Grouping(run), Best[Finding](keep)
        self._missed = False  # whether some were in the journal and not decoded

    def add(self, result: Result) -> None:
        """Take in a result, if it is a finding."""
        if result.outcome.status is not Status.VIOLATED:
            return
        if result.is_decoded:
            self._add(finding_of(result.row))
        else:  # a long run goes on at once; its findings are read when it has ended
            self._missed = True

    def complete(self, ledger: WithFindings) -> None:
        """Read all findings from the journal if some were missed."""
        if self._missed:
            self._grouping, self._best, self._missed = Grouping(self._run), Best[Finding](self._keep), False
            for finding in ledger.findings():
                self._add(finding)

    def add_repeat(self, finding: Finding, failed: bool) -> None:
        """Take in whether a finding failed again."""
        self._grouping.prefer(replace(finding, repeated=failed))

    def groups(self) -> list[FindingGroup]:
        """The groups so far, by their symptoms alone."""
        return self._grouping.groups()

    def worth_keeping(self) -> list[Finding]:
        """The findings whose pictures are saved: the best of every rule, and the worst and the mildest of every symptom."""
        return with_exemplars(self._best.sorted(), self.groups())

    def _add(self, finding: Finding) -> None:
        self._grouping.add(finding)
        self._best.add(finding.rule, finding.margin, finding.id, finding)


def worth_keeping(run: Run, keep: int = PICTURED_PER_RULE) -> list[Finding]:
    """The findings whose pictures are saved: the `keep` best of every rule, the worst and the mildest of every symptom.

    Where the mildest was shrunk, also the smallest failing change.
    """
    found = groups(run)
    return with_shrunk(run, with_exemplars(run.best(keep), found), found)


def with_shrunk(run: Run, findings: Sequence[Finding], found: Iterable[FindingGroup]) -> list[Finding]:
    """The findings, and what the mildest of every group was shrunk to."""
    smallest = (shrunk_finding(run, group.mildest) for group in found)
    return [*findings, *(finding for finding in smallest if finding)]


def shrunk_finding(run: Run, finding: Finding) -> Finding | None:
    """What a finding was shrunk to, if that is another input and as good evidence; None also if its file is damaged.

    The smallest failing change may be marginal, where the untouched answer is close to the limit already.
    """
    try:
        shrunk = shrunk_of(run, finding.id)
    except StoreError:
        return None
    smaller = shrunk.finding if shrunk and not shrunk.flaky else None
    if smaller is None or smaller.input_sha in (smaller.source_sha, finding.input_sha):
        return None
    return smaller if smaller.origin not in WEAK or finding.origin in WEAK else None


def with_exemplars(findings: Sequence[Finding], found: Iterable[FindingGroup]) -> list[Finding]:
    """The findings, and the worst and the mildest of every group that are not among them."""
    others = (finding for group in found for finding in (group.exemplar, group.mildest))
    return list({finding.id: finding for finding in (*findings, *others)}.values())


def with_mildest(findings: Sequence[Finding], found: Iterable[FindingGroup]) -> list[Finding]:
    """The findings, and the mildest of every group that is not among them."""
    return list({finding.id: finding for finding in (*findings, *(group.mildest for group in found))}.values())


def smallest_words(run: Run, finding: Finding) -> str:
    """The change that a finding was shrunk to, in words; empty if there is none or its file is damaged."""
    try:
        shrunk = shrunk_of(run, finding.id)
    except StoreError:
        return ""
    if shrunk is None:
        return ""
    read = reader_of(run)
    now = read(shrunk.finding).direction
    # The smallest failing change may fail in another direction than the original one.
    return shrunk.words if now == read(finding).direction else f"{shrunk.words}; with this change the answer is {now}"
