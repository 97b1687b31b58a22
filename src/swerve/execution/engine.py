"""Runs a campaign: first the baseline, then ask, evaluate, commit and tell, until the search has finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from swerve.analysis.exemplars import FoundSoFar
from swerve.core.campaign import (
    Campaign,
    Observation,
    Plan,
    Session,
    Trial,
    learns,
)
from swerve.core.errors import InputError, ModelError, printable
from swerve.core.relation import Status, Verdict
from swerve.execution.answers import FOREIGN, brief, sentence, without_truth
from swerve.execution.covered import Covered
from swerve.execution.evaluator import Evaluator, chunks, read_case
from swerve.execution.executors.in_process import Executor, InProcess
from swerve.execution.ledger import Ledger
from swerve.execution.repeat import ask_again, failed_again
from swerve.execution.stage_times import SEARCH, StageTimes
from swerve.execution.summary import Summary, Tally
from swerve.store.record_json import Records, Result

BATCHES_PER_COMMIT = 8  # of the baseline: enough to feed several workers
T = TypeVar("T")
LONGEST_FAULT = 200  # characters of the first fault in a message


class Progress(Protocol):
    """Receives the progress of a run; what is counted has been committed.

    It may also have `tick(done)`: `done` more are finished but not committed yet, and will be counted later.
    """

    def begin(self, stage: str, total: int | None) -> None:
        """A stage starts."""

    def advance(self, done: int, found: int) -> None:
        """`done` more are finished, `found` of them findings."""


class NoProgress:
    """Progress that is not shown."""

    def begin(self, stage: str, total: int | None) -> None:
        """Ignore it."""

    def advance(self, done: int, found: int) -> None:
        """Ignore it."""


def run(
    campaign: Campaign,
    ledger: Ledger,
    *,
    progress: Progress | None = None,
    inspect: Callable[[Mapping[str, Observation]], None] | None = None,
    executor: Executor | None = None,
    so_far: FoundSoFar | None = None,
) -> Summary:
    """Run `campaign` to its end; what `ledger` already holds is not run again. `inspect` may refuse the baseline.

    `executor` evaluates the trials, by default in this process. Results do not depend on which executor is used. All
    findings are added to `so_far`.
    """
    progress, executor, so_far = progress or NoProgress(), executor or InProcess(campaign), so_far or FoundSoFar(ledger)
    covered = Covered(campaign)
    baseline = observe(campaign, ledger, progress, executor, covered)
    untouched = covered.gain
    if inspect:
        inspect(baseline)
    evaluate = Evaluator(campaign, baseline)
    usable = [key for key, seen in baseline.items() if not seen.fault]
    how = campaign.inference_batch, campaign.coverage, untouched if campaign.coverage else None
    session = campaign.search.start(Plan(usable, campaign.rules, campaign.seed, baseline, *how))
    summary = _empty_summary(campaign, evaluate, baseline)
    progress.begin("trials", session.total)
    distinct = getattr(session, "distinct", False)  # it never asks for a change twice, so none has to be remembered
    ahead = not learns(campaign.search)
    known, times = _KnownChanges(), StageTimes()
    for trials, work in _asks(session, executor, campaign.inference_batch, ahead=ahead, times=times):
        ticks = _Ticks(progress)
        evaluate_now = partial(_evaluate, work, known, ticks)
        results = covered.recorded(ledger, trials, evaluate_now, getattr(session, "covered", None))
        if not distinct:
            known.add(results)
        if work.is_done or not (distinct and ahead):
            with times.during(SEARCH):
                covered.tell(session)
                session.tell(Records(results))
        for result in results:
            so_far.add(result)
        counts = Counter(result.outcome for result in results)
        for outcome, count in counts.items():
            summary.overall.add(outcome, count)
            summary.rules[outcome.rule].add(outcome, count)
        found = sum(count for outcome, count in counts.items() if outcome.status is Status.VIOLATED)
        ticks.end(len(results), found)
    if summary.overall.counts[Status.VIOLATED]:
        progress.begin("findings asked again", None)
        for result in ask_again(ledger, executor, so_far, summary.overall.counts.total()):
            for tally in (summary.overall, summary.rules[result.outcome.rule]):
                tally.add_repeat(failed_again(result))
            progress.advance(1, 0)
    summary.stage_seconds = {**executor.stage_seconds(), **times.taken()}
    summary.coverage = covered.counts(untouched)
    if tell := getattr(session, "results", None):
        summary.search = tell()
    summary.layers = _layers(campaign, usable, "layers")
    gains = [baseline[key].gain for key in usable]
    summary.linear_layers = _layers(campaign, usable, "linear_layers", gains)
    return summary


def _layers(campaign: Campaign, usable: Sequence[str], method: str, *arguments: object) -> dict[str, Any]:
    """The layers that coverage counts, if the meter can list them; an error there must not end the run."""
    layers = getattr(campaign.coverage, method, None)
    if not callable(layers):
        return {}
    try:
        return dict(layers(campaign.system, without_truth(read_case(campaign, usable[0])), *arguments))
    except FOREIGN:
        return {}


class _KnownChanges:
    """The changes tried so far, as their 64-bit ids: a million of them take 70 MB."""

    def __init__(self) -> None:
        self._ids: set[int] = set()

    def __contains__(self, name: object) -> bool:
        return int(str(name), 16) in self._ids

    def add(self, results: Sequence[Result]) -> None:
        self._ids.update(int(result.id, 16) for result in results if _counts(result))


class NothingUsable(InputError):
    """A source of which no case can be used."""


class NothingAnswered(ModelError):
    """A system that has no answer to any case."""


class _Ticks:
    """Progress within an ask or a group of cases, which is committed as a whole and counted then."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def over(self, batches: Iterable[Sequence[T]]) -> Iterator[Sequence[T]]:
        """The batches, each told after it has been taken."""
        tick = getattr(self._progress, "tick", None)
        for batch in batches:
            yield batch
            if tick:
                tick(len(batch))

    def end(self, count: int, found: int) -> None:
        """Count all of them, now that they are committed."""
        self._progress.advance(count, found)


class _Work:
    """The evaluation of one ask: started in advance, or when the journal does not contain it."""

    def __init__(self, executor: Executor, batches: Sequence[Sequence[Trial]]) -> None:
        self._executor, self._batches = executor, batches
        self._results: Iterable[Sequence[Result]] | None = None
        self.next: _Work | None = None
        self.is_done = False  # and not found in the journal

    def begin(self) -> Iterable[Sequence[Result]]:
        if self._results is None:
            self._results = self._executor.evaluate(self._batches)
        return self._results

    def results(self, ticks: _Ticks) -> Iterator[Result]:
        """All results, in order; the next ask is started first, so that no worker is idle."""
        results = self.begin()
        if self.next:
            self.next.begin()
        for batch in ticks.over(results):
            yield from batch
        self.is_done = True


def _asks(
    session: Session, executor: Executor, size: int, *, ahead: bool, times: StageTimes
) -> Iterator[tuple[Sequence[Trial], _Work]]:
    """Every ask with its work; a search that does not learn is asked one step `ahead`."""

    def ask() -> Sequence[Trial]:
        with times.during(SEARCH):
            return session.ask()

    trials = ask()
    work = _Work(executor, list(chunks(trials, size)))
    while trials:
        later = ask() if ahead else ()
        work.next = following = _Work(executor, list(chunks(later, size))) if later else None
        yield trials, work
        if not ahead:
            later = ask()
        trials, work = later, following or _Work(executor, list(chunks(later, size)))


def observe(
    campaign: Campaign,
    ledger: Ledger,
    progress: Progress | None = None,
    executor: Executor | None = None,
    covered: Covered | None = None,
) -> dict[str, Observation]:
    """The system's answers to all unchanged cases, each computed once and committed; `covered` gets what they cover."""
    progress, executor, covered = progress or NoProgress(), executor or InProcess(campaign), covered or Covered(campaign)
    keys = _keys(campaign)
    if not keys:
        raise InputError("the source has no cases; check its folder and settings")
    if len(set(keys)) < len(keys):
        raise InputError(
            f"the source lists the key '{Counter(keys).most_common(1)[0][0]}' more than once; keys must be unique"
        )
    progress.begin("baseline", len(keys))
    baseline: dict[str, Observation] = {}
    for asked in chunks(keys, campaign.inference_batch * BATCHES_PER_COMMIT):
        batches = list(chunks(asked, campaign.inference_batch))
        ticks = _Ticks(progress)
        seen = covered.observed(ledger, asked, partial(_observe, executor, batches, ticks))
        baseline.update((item.case, item) for item in seen)
        ticks.end(len(asked), 0)
    _refuse_useless(baseline)
    executor.begin(baseline)
    return baseline


def _observe(executor: Executor, batches: Sequence[Sequence[str]], ticks: _Ticks) -> list[Observation]:
    return [item for batch in ticks.over(executor.observe(batches)) for item in batch]


def _keys(campaign: Campaign) -> list[str]:
    try:
        keys = list(campaign.source.keys())
    except FOREIGN as error:  # a source of the user's own
        raise InputError(f"the source cannot list its cases: {sentence(error)}") from error
    for key in keys:
        if not isinstance(key, str):
            raise InputError(f"the source has the key {brief(key)}; a key must be a string")
    return keys


def _refuse_useless(baseline: Mapping[str, Observation]) -> None:
    faults = [seen for seen in baseline.values() if seen.fault]
    if len(faults) < len(baseline):
        return
    if broken := [seen for seen in faults if seen.readable]:
        fault = printable(broken[0].fault, LONGEST_FAULT)
        raise NothingAnswered(f"the system failed on all {len(broken)} cases; the first, {broken[0].case}: {fault}")
    raise NothingUsable(f"none of the {len(baseline)} cases can be used; the first, {faults[0].case}: {faults[0].fault}")


def _without_repeats(results: Sequence[Result], before: Container[str]) -> list[Result]:
    """The results; a change already tried on the same case under the same rule is skipped, so that it counts once."""
    seen: set[str] = set()
    return [_skip_repeat(result, before, seen) for result in results]


def _skip_repeat(result: Result, before: Container[str], seen: set[str]) -> Result:
    if not _counts(result):
        return result
    if result.id in before or result.id in seen:
        verdict = Verdict.skipped("the same change as in an earlier trial")
        return Result(replace(result.record, verdict=verdict, origin=None))
    seen.add(result.id)
    return result


def _counts(result: Result) -> bool:
    return result.has_change and result.outcome.status is not Status.SKIPPED


def _evaluate(work: _Work, before: Container[str], ticks: _Ticks) -> list[Result]:
    return _without_repeats(list(work.results(ticks)), before)


def _empty_summary(campaign: Campaign, evaluate: Evaluator, baseline: Mapping[str, Observation]) -> Summary:
    usable = [seen for seen in baseline.values() if not seen.fault]
    untouched = {name: Tally() for name in evaluate.rules}
    for seen in usable:
        for name in evaluate.rules:
            if (alone := evaluate.untouched(name, seen)) is not None:
                untouched[name].counts[alone.status] += 1
    tallies = {name: Tally() for name in evaluate.rules}
    failed = sum(bool(seen.fault) and seen.readable for seen in baseline.values())
    unusable = len(baseline) - len(usable)
    counts = len(usable), unusable, failed, Tally(), tallies, untouched
    sampled = not learns(campaign.search)
    return Summary(campaign.method, campaign.seed, *counts, judged_by=campaign.rules, sampled=sampled)
