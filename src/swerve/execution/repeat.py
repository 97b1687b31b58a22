"""Findings asked again before they are reported: what does not fail a second time is flaky (R16, R72).

The worst finding of every group is evaluated once more, its source and its follow-up each alone. A group whose worst finding
does not fail again is asked further, by its next worst ones, until one fails again. All of this takes at most `SHARE` of the
number of trials, and is committed to the journal like the trials, so that a run that is stopped here goes on here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from swerve.analysis.groups import FindingGroup, groups, sorter, worst_first
from swerve.core.campaign import Observation, Record, Trial
from swerve.core.relation import Status
from swerve.execution.executors.in_process import Executor
from swerve.execution.ledger import Ledger
from swerve.store.record_json import Finding

SHARE = 0.03  # of the trials that are asked again at most; one in any case
MOST_OF_A_GROUP = 10


def ask_again(ledger: Ledger, executor: Executor, trials: int) -> Iterator[Record]:
    """The records of findings that were evaluated again, in waves of one finding per group."""
    left = max(1, int(SHARE * trials))
    found = groups(ledger)
    wave: Mapping[int, Finding] = {group.number: group.exemplar for group in found[:left]}
    asked, further = 0, None
    while wave:
        records = _repeated(ledger, executor, list(wave.values()), asked)
        yield from records
        asked, left = asked + len(records), left - len(records)
        flaky = [number for number, record in zip(wave, records, strict=True) if not failed_again(record)]
        if flaky and further is None:
            further = _next_worst(ledger, found, flaky)
        wave = {number: further[number].pop(0) for number in flaky[:left] if further and further[number]}


def failed_again(record: Record) -> bool:
    """Whether a finding that was asked again violates its rule again."""
    return record.verdict.status is Status.VIOLATED


def _repeated(ledger: Ledger, executor: Executor, wave: Sequence[Finding], first: int) -> Sequence[Record]:
    trials = [
        Trial(finding.case, finding.rule, number, ledger.change_of(finding)) for number, finding in enumerate(wave, first)
    ]
    return ledger.repeated(trials, partial(_evaluate, executor, trials))


def _evaluate(executor: Executor, trials: Sequence[Trial]) -> list[Record]:
    """Every trial alone, judged against what the system says of its source now, alone too."""
    keys = list(dict.fromkeys(trial.case for trial in trials))
    seen: dict[str, Observation] = {one.case: one for batch in executor.observe([[key] for key in keys]) for one in batch}
    return list(executor.repeat([(trial, seen[trial.case]) for trial in trials]))


def _next_worst(ledger: Ledger, found: Sequence[FindingGroup], flaky: Sequence[int]) -> dict[int, list[Finding]]:
    """The worst findings of the `flaky` groups after the first of each, in one pass over the findings."""
    place = sorter(ledger, found)
    first = {group.number: group.exemplar.id for group in found}
    heaps: dict[int, list[Finding]] = {number: [] for number in flaky}
    for finding in ledger.findings():
        number = place(finding).number
        if number in heaps and finding.id != first[number]:
            heaps[number].append(finding)
            if len(heaps[number]) > 4 * MOST_OF_A_GROUP:
                heaps[number] = heapq.nsmallest(MOST_OF_A_GROUP - 1, heaps[number], worst_first)
    return {number: heapq.nsmallest(MOST_OF_A_GROUP - 1, heap, worst_first) for number, heap in heaps.items()}
