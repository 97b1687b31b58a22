"""Repeats findings before they are reported: a finding that does not fail again is flaky (R16, R72).

The worst finding of every group is evaluated again, its source and its follow-up each alone. If it does not fail again, the
next worst findings of the group are repeated until one does. This takes at most `SHARE` of the number of trials, and is
committed to the journal like the trials, so that an interrupted run continues here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from swerve.analysis.exemplars import FoundSoFar
from swerve.analysis.groups import FindingGroup, sorter, worst_first
from swerve.core.campaign import Observation, Trial
from swerve.core.relation import Status
from swerve.execution.executors.in_process import Executor
from swerve.execution.ledger import Ledger
from swerve.store.record_json import Finding, Result

SHARE = 0.03  # of the number of trials; at least one finding is repeated
MOST_OF_A_GROUP = 10


def ask_again(ledger: Ledger, executor: Executor, so_far: FoundSoFar, trials: int) -> Iterator[Result]:
    """The results of findings that were evaluated again, in waves of one finding per group."""
    left = max(1, int(SHARE * trials))
    so_far.complete(ledger)
    found = so_far.groups()
    wave: Mapping[int, Finding] = {group.number: group.exemplar for group in found[:left]}
    asked, further = 0, None
    while wave:
        results = _repeated(ledger, executor, list(wave.values()), asked)
        for finding, result in zip(wave.values(), results, strict=True):
            so_far.add_repeat(finding, failed_again(result))
            yield result
        asked, left = asked + len(results), left - len(results)
        flaky = [number for number, result in zip(wave, results, strict=True) if not failed_again(result)]
        if flaky and further is None:
            further = _next_worst(ledger, found, flaky)
        wave = {number: further[number].pop(0) for number in flaky[:left] if further and further[number]}


def failed_again(result: Result) -> bool:
    """Whether a repeated finding violates its rule again."""
    return result.outcome.status is Status.VIOLATED


def _repeated(ledger: Ledger, executor: Executor, wave: Sequence[Finding], first: int) -> Sequence[Result]:
    trials = [
        Trial(finding.case, finding.rule, number, ledger.change_of(finding)) for number, finding in enumerate(wave, first)
    ]
    return ledger.repeated(trials, partial(_evaluate, executor, trials))


def _evaluate(executor: Executor, trials: Sequence[Trial]) -> list[Result]:
    """Every trial alone, judged against a new answer to its source, alone too."""
    keys = list(dict.fromkeys(trial.case for trial in trials))
    seen: dict[str, Observation] = {one.case: one for batch in executor.observe([[key] for key in keys]) for one in batch}
    return [result.without_gain() for result in executor.repeat([(trial, seen[trial.case]) for trial in trials])]


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
