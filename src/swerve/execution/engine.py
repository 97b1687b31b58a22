"""Runs a campaign: the baseline first, then ask, evaluate, commit, tell, until the search is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from swerve.core.campaign import Campaign, CoverageMeter, Observation, Plan, Record, Session, Trial, learns
from swerve.core.errors import InputError, ModelError, printable
from swerve.core.relation import Status, Verdict
from swerve.execution.answers import FOREIGN, brief, sentence, without_truth
from swerve.execution.evaluator import Evaluator, chunks, read_case
from swerve.execution.executors.in_process import Executor, InProcess
from swerve.execution.ledger import Ledger
from swerve.execution.repeat import ask_again, failed_again
from swerve.execution.summary import Summary, Tally

BATCHES_PER_COMMIT = 8  # of the baseline: enough to feed several workers
LONGEST_FAULT = 140  # characters of the first fault in a message


class Progress(Protocol):
    """Receives how far a run has come."""

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
) -> Summary:
    """Run `campaign` to its end; what `ledger` already holds is not run again. `inspect` may refuse the baseline.

    `executor` evaluates the trials, by default in this process. Results do not depend on which executor is used.
    """
    progress, executor = progress or NoProgress(), executor or InProcess(campaign)
    baseline = observe(campaign, ledger, progress, executor)
    if inspect:
        inspect(baseline)
    evaluate = Evaluator(campaign, baseline)
    usable = [key for key, seen in baseline.items() if not seen.fault]
    plan = Plan(usable, campaign.rules, campaign.seed, baseline, campaign.inference_batch, campaign.coverage)
    session, covered = campaign.search.start(plan), _Covered(campaign.coverage, baseline)
    summary = _empty_summary(campaign, evaluate, baseline)
    progress.begin("trials", session.total)
    distinct = getattr(session, "distinct", False)  # it never asks for a change twice, so none has to be remembered
    ahead = not learns(campaign.search)
    committed = ledger.outcomes if distinct and ahead and not campaign.coverage else _no_outcomes
    known = _KnownChanges()
    for trials, work in _asks(session, executor, campaign.inference_batch, ahead=ahead):
        if (outcomes := committed(trials)) is None:
            records = ledger.recorded(trials, partial(_evaluate, work, known))
            if not distinct:
                known.add(records)
            covered.add(records)
            session.tell(records)
            outcomes = [record.outcome for record in records]
        counts = Counter(outcomes)
        for outcome, count in counts.items():
            summary.overall.add(outcome, count)
            summary.rules[outcome.rule].add(outcome, count)
        found = sum(count for outcome, count in counts.items() if outcome.status is Status.VIOLATED)
        progress.advance(len(outcomes), found)
    if summary.overall.counts[Status.VIOLATED]:
        progress.begin("findings asked again", None)
        for record in ask_again(ledger, executor, summary.overall.counts.total()):
            for tally in (summary.overall, summary.rules[record.trial.rule]):
                tally.add_repeat(failed_again(record))
            progress.advance(1, 0)
    summary.coverage, summary.layers = covered.counts(), _layers(campaign, usable)
    return summary


def _layers(campaign: Campaign, usable: Sequence[str]) -> dict[str, int]:
    """The layers that coverage counts, where the meter can list them; a failure of theirs must not end the run."""
    layers = getattr(campaign.coverage, "layers", None)
    try:
        return dict(layers(campaign.system, without_truth(read_case(campaign, usable[0])))) if callable(layers) else {}
    except FOREIGN:
        return {}


def _no_outcomes(trials: Sequence[Trial]) -> None:
    del trials


class _KnownChanges:
    """The changes tried so far, as the 64 bits of their ids: a million of them take 70 MB."""

    def __init__(self) -> None:
        self._ids: set[int] = set()

    def __contains__(self, name: object) -> bool:
        return int(str(name), 16) in self._ids

    def add(self, records: Sequence[Record]) -> None:
        self._ids.update(int(record.id, 16) for record in records if _counts(record))


class NothingUsable(InputError):
    """A source of which no case can be used."""


class NothingAnswered(ModelError):
    """A system that has no answer to any case."""


class _Covered:
    """What is covered so far, by the untouched cases and by all follow-ups, merged in the order of the trials."""

    def __init__(self, meter: CoverageMeter | None, baseline: Mapping[str, Observation]) -> None:
        self._meter = meter
        self._first = meter.joined(seen.gain for seen in baseline.values()) if meter else {}
        self._all = self._first

    def add(self, records: Sequence[Record]) -> None:
        if self._meter:
            self._all = self._meter.joined([self._all, *(record.gain for record in records)])

    def counts(self) -> dict[str, dict[str, int]]:
        if self._meter is None:
            return {}
        first = self._meter.counts(self._first)
        return {name: {**all_, "untouched": first[name]["covered"]} for name, all_ in self._meter.counts(self._all).items()}


class _Work:
    """The evaluation of one ask: started when the journal turns out not to hold it, or ahead of that."""

    def __init__(self, executor: Executor, batches: Sequence[Sequence[Trial]]) -> None:
        self._executor, self._batches = executor, batches
        self._results: Iterable[Sequence[Record]] | None = None
        self.next: _Work | None = None

    def begin(self) -> Iterable[Sequence[Record]]:
        if self._results is None:
            self._results = self._executor.evaluate(self._batches)
        return self._results

    def records(self) -> Iterator[Record]:
        """All records, in order; the next ask is started first, so that no worker is idle."""
        results = self.begin()
        if self.next:
            self.next.begin()
        for batch in results:
            yield from batch


def _asks(session: Session, executor: Executor, size: int, *, ahead: bool) -> Iterator[tuple[Sequence[Trial], _Work]]:
    """Every ask with its work; a search that does not learn is asked one step `ahead`."""
    trials = session.ask()
    work = _Work(executor, list(chunks(trials, size)))
    while trials:
        later = session.ask() if ahead else ()
        work.next = following = _Work(executor, list(chunks(later, size))) if later else None
        yield trials, work
        if not ahead:
            later = session.ask()
        trials, work = later, following or _Work(executor, list(chunks(later, size)))


def observe(
    campaign: Campaign, ledger: Ledger, progress: Progress | None = None, executor: Executor | None = None
) -> dict[str, Observation]:
    """What the system says of every untouched case, each computed once and committed."""
    progress, executor = progress or NoProgress(), executor or InProcess(campaign)
    keys = _keys(campaign)
    if not keys:
        raise InputError("0 cases: the source is empty")
    if len(set(keys)) < len(keys):
        raise InputError(f"two cases are named '{Counter(keys).most_common(1)[0][0]}'; a source must name each once")
    progress.begin("baseline", len(keys))
    baseline: dict[str, Observation] = {}
    for asked in chunks(keys, campaign.inference_batch * BATCHES_PER_COMMIT):
        batches = list(chunks(asked, campaign.inference_batch))
        seen = ledger.observed(asked, partial(_observe, executor, batches))
        baseline.update((item.case, item) for item in seen)
        progress.advance(len(asked), 0)
    _refuse_useless(baseline)
    executor.begin(baseline)
    return baseline


def _observe(executor: Executor, batches: Sequence[Sequence[str]]) -> list[Observation]:
    return [item for batch in executor.observe(batches) for item in batch]


def _keys(campaign: Campaign) -> list[str]:
    try:
        keys = list(campaign.source.keys())
    except FOREIGN as error:  # a source of the user's own
        raise InputError(f"the source cannot list its cases: {sentence(error)}") from error
    for key in keys:
        if not isinstance(key, str):
            raise InputError(f"the source names a case {brief(key)}; a key must be a text")
    return keys


def _refuse_useless(baseline: Mapping[str, Observation]) -> None:
    faults = [seen for seen in baseline.values() if seen.fault]
    if len(faults) < len(baseline):
        return
    if broken := [seen for seen in faults if seen.readable]:
        fault = printable(broken[0].fault, LONGEST_FAULT)
        raise NothingAnswered(f"the system failed on all {len(broken)} cases; first, {broken[0].case}: {fault}")
    raise NothingUsable(f"0 usable cases of {len(baseline)}; first, {faults[0].case}: {faults[0].fault}")


def _without_repeats(records: Sequence[Record], before: Container[str]) -> list[Record]:
    """The records, with a change that was made before to the same case under the same rule skipped, not counted twice."""
    seen: set[str] = set()
    return [_skip_repeat(record, before, seen) for record in records]


def _skip_repeat(record: Record, before: Container[str], seen: set[str]) -> Record:
    if not _counts(record):
        return record
    if record.id in before or record.id in seen:
        return replace(record, verdict=Verdict.skipped("the same change as in an earlier trial"))
    seen.add(record.id)
    return record


def _counts(record: Record) -> bool:
    return record.change is not None and record.verdict.status is not Status.SKIPPED


def _evaluate(work: _Work, before: Container[str]) -> list[Record]:
    return _without_repeats(list(work.records()), before)


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
    return Summary(campaign.method, campaign.seed, len(usable), unusable, failed, Tally(), tallies, untouched)
