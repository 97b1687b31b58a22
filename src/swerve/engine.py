"""Runs a campaign: the baseline first, then ask, evaluate, commit, tell, until the search is done."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from swerve.campaign import Campaign, Observation, Plan, Record, Trial, calibrate
from swerve.case import Case
from swerve.codec import encode_change, light
from swerve.errors import InputError, ModelError, NotApplicable, SwerveError, UnreadableCase, printable
from swerve.relation import Fault, Pair, Rule, Status, Verdict, judge_source
from swerve.seeding import rng_for
from swerve.system import Answer, System
from swerve.transformation import Transformation, Unchanged
from swerve.values import Value

T = TypeVar("T")
R = TypeVar("R")
TRANSFORM_THREADS = 2
REMEMBERED = 4096  # verdicts on untouched cases kept at a time
FOREIGN = (Exception, SystemExit)  # what other people's code may raise; sys.exit() in it must not end the run


class Ledger(Protocol):
    """Where results are committed: a batch found there is not computed again."""

    def observed(self, keys: Sequence[str], compute: Callable[[], Sequence[Observation]]) -> Sequence[Observation]:
        """The committed observations of `keys`, or those of `compute`, committed now."""

    def recorded(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Record]]) -> Sequence[Record]:
        """The committed records of `trials`, or those of `compute`, committed now."""


class Progress(Protocol):
    """Told how far a run has come."""

    def begin(self, stage: str, total: int | None) -> None:
        """A stage starts."""

    def advance(self, done: int, found: int) -> None:
        """`done` more are through, `found` of them findings."""


class Silent:
    """Progress that nobody watches."""

    def begin(self, stage: str, total: int | None) -> None:
        """Say nothing."""

    def advance(self, done: int, found: int) -> None:
        """Say nothing."""


@dataclass
class Tally:
    """Counts of one rule, or of all: trials = held + violated + skipped + errors."""

    counts: Counter[Status] = field(default_factory=Counter)
    kinds: Counter[Fault] = field(default_factory=Counter)
    introduced: int = 0
    already_wrong: int = 0

    def add(self, record: Record) -> None:
        """Count one record."""
        self.counts[record.verdict.status] += 1
        if record.verdict.kind:
            self.kinds[record.verdict.kind] += 1
        if record.verdict.status is Status.VIOLATED:
            self.introduced += record.introduced is True
            self.already_wrong += record.introduced is False

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {
            "trials": self.counts.total(),
            "held": self.counts[Status.HELD],
            "violated": self.counts[Status.VIOLATED],
            "skipped": self.counts[Status.SKIPPED],
            "errors": self.counts[Status.ERROR],
            "introduced": self.introduced,
            "already_wrong": self.already_wrong,
        }


@dataclass
class Summary:
    """How a campaign ended, in numbers."""

    method: str
    seed: int
    cases: int
    unusable: int  # cases left out: they did not read, or
    failed: int  # among them, the system had no answer to them
    overall: Tally
    rules: dict[str, Tally]
    untouched: dict[str, Tally]

    def as_dict(self) -> dict[str, Any]:
        """The content of `summary.json`."""
        rules = {
            name: {**tally.as_dict(), "untouched": _untouched(self.untouched[name])} for name, tally in self.rules.items()
        }
        head = {
            "method": self.method,
            "seed": self.seed,
            "cases": self.cases,
            "unusable_cases": self.unusable,
            "failed_cases": self.failed,
        }
        kinds = {kind.value: self.overall.kinds[kind] for kind in Fault if self.overall.kinds[kind]}
        return {**head, **self.overall.as_dict(), "error_kinds": kinds, "rules": rules, "coverage": {}}


def _untouched(tally: Tally) -> dict[str, int]:
    counted = tally.as_dict()
    return {"cases": counted["held"] + counted["violated"], "violated": counted["violated"]}


def run(
    campaign: Campaign,
    ledger: Ledger,
    *,
    progress: Progress | None = None,
    map: Callable[..., Iterable[Any]] = map,
) -> Summary:
    """Run `campaign` to its end; what `ledger` already holds is not run again."""
    watch = progress or Silent()
    baseline = observe(campaign, ledger, watch)
    evaluate = Evaluator(campaign, baseline)
    usable = [key for key, seen in baseline.items() if not seen.fault]
    session = campaign.search.start(Plan(usable, campaign.rules, campaign.seed, baseline, campaign.inference_batch))
    summary = _empty_summary(campaign, evaluate, baseline)
    watch.begin("trials", session.total)
    made: set[str] = set()
    while trials := session.ask():
        compute = partial(_evaluated, evaluate, trials, campaign.inference_batch, map, made)
        records = ledger.recorded(trials, compute)
        if not getattr(session, "distinct", False):  # one that never asks the same of a case twice needs no memory
            made.update(record.id for record in records if _counts(record))
        for record in records:
            summary.overall.add(record)
            summary.rules[record.trial.rule].add(record)
        watch.advance(len(records), sum(record.verdict.status is Status.VIOLATED for record in records))
        session.tell(records)
    return summary


def observe(campaign: Campaign, ledger: Ledger, watch: Progress) -> dict[str, Observation]:
    """What the system says of every untouched case, each computed once and committed."""
    keys = _keys(campaign)
    if not keys:
        raise InputError("0 cases: the source is empty")
    if len(set(keys)) < len(keys):
        raise InputError(f"two cases are named '{Counter(keys).most_common(1)[0][0]}'; a source must name each once")
    watch.begin("baseline", len(keys))
    baseline: dict[str, Observation] = {}
    for batch in _chunks(keys, campaign.inference_batch):
        seen = ledger.observed(batch, partial(observe_batch, campaign, batch))
        baseline.update((item.case, item) for item in seen)
        watch.advance(len(batch), 0)
    _refuse_useless(baseline)
    return baseline


def _keys(campaign: Campaign) -> list[str]:
    try:
        keys = list(campaign.source.keys())
    except FOREIGN as error:  # somebody else's source
        raise InputError(f"the source cannot list its cases: {_sentence(error)}") from error
    for key in keys:
        if not isinstance(key, str):
            raise InputError(f"the source names a case {_brief(key)}; a key must be a text")
    return keys


def observe_batch(campaign: Campaign, keys: Sequence[str]) -> list[Observation]:
    """The observations of one batch, in order; a case that does not read, or answers nonsense, says why."""
    read = [_read(campaign, key) for key in keys]
    answers = iter(answer_all(campaign.system, [case for case in read if isinstance(case, Case)]))
    return [_observation(item, next(answers)) if isinstance(item, Case) else item for item in read]


def _read(campaign: Campaign, key: str) -> Case | Observation:
    try:
        case: object = campaign.source[key]
        if not isinstance(case, Case) or case.key != key:
            raise UnreadableCase(f"the source gave {_brief(getattr(case, 'key', case))} for it")
        return case
    except UnreadableCase as error:
        return Observation(key, "", fault=str(error), readable=False)
    except FOREIGN as error:  # somebody else's reader
        return Observation(key, "", fault=_sentence(error), readable=False)


def read_case(campaign: Campaign, key: str) -> Case:
    """A case that the baseline has read before; it must read again."""
    again = _read(campaign, key)
    if isinstance(again, Case):
        return again
    raise InputError(f"{key} was read at the start of the campaign and cannot be read now: {again.fault}")


def _observation(case: Case, answer: Answer | Verdict) -> Observation:
    said, fault = (answer, "") if isinstance(answer, tuple) else ((), answer.why)
    wrong_label = next((why for why in (value.fault() for value in case.truth) if why), None)
    if wrong_label:
        return Observation(case.key, case.group, fault=f"label: {wrong_label}", input_sha=case.input_sha, readable=False)
    return Observation(case.key, case.group, light(case.truth), said, case.input_sha, fault)


def _refuse_useless(baseline: Mapping[str, Observation]) -> None:
    faults = [seen for seen in baseline.values() if seen.fault]
    if len(faults) < len(baseline):
        return
    if broken := [seen for seen in faults if seen.readable]:
        raise ModelError(f"the system failed on all {len(broken)} cases; first, {broken[0].case}: {broken[0].fault}")
    raise InputError(f"0 usable cases of {len(baseline)} (see skipped.csv); first, {faults[0].case}: {faults[0].fault}")


def _calibrated(rule: Rule, baseline: Sequence[Observation]) -> Rule:
    try:
        return calibrate(rule, baseline)
    except SwerveError:
        raise
    except FOREIGN as error:  # a user's relation
        raise InputError(f"rule '{rule.name}' cannot be calibrated: {_sentence(error)}") from error


class Threads:
    """A few threads that make changes; each takes a share of a batch, as a hand-over costs as much as a small change."""

    def __init__(self, count: int = TRANSFORM_THREADS) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="swerve-change")

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """`function` of every item, in order."""
        share = -(-len(items) // self._count) or 1
        shares = self._pool.map(lambda part: [function(item) for item in part], _chunks(items, share))
        return [result for part in shares for result in part]


class Evaluator:
    """Turns trials into records: changes made in threads, one forward pass per batch, verdicts in order."""

    def __init__(self, campaign: Campaign, baseline: Mapping[str, Observation]) -> None:
        self.campaign = campaign
        self.baseline = baseline
        self.rules = {rule.name: _calibrated(rule, list(baseline.values())) for rule in campaign.rules}
        self._threads = Threads()
        self._last: tuple[str, Case] | None = None
        self._alone: dict[tuple[str, str], Verdict | None] = {}

    def __call__(self, trials: Sequence[Trial]) -> list[Record]:
        """The records of one batch of trials, in order."""
        cases = self._cases(trials)
        changed = self._threads.map(lambda trial: self._change(trial, cases[trial.case]), trials)
        # What looks as before is not asked again: a batch of another size would move the last bits of the answer.
        same = {id(item) for trial, item in zip(trials, changed, strict=True) if _same(item, cases[trial.case])}
        ready = [item for item in changed if isinstance(item, _Changed) and id(item) not in same]
        fresh = iter(answer_all(self.campaign.system, [item.followup for item in ready]))
        return [
            self._record(trial, item, self.baseline[trial.case].said if id(item) in same else next(fresh), cases[trial.case])
            if isinstance(item, _Changed)
            else self._unmade(trial, item)
            for trial, item in zip(trials, changed, strict=True)
        ]

    def untouched(self, name: str, seen: Observation) -> Verdict | None:
        """The rule's verdict on the untouched case against its truth, or None without one."""
        key = (name, seen.case)
        if key not in self._alone:
            if len(self._alone) >= REMEMBERED:
                self._alone.clear()
            self._alone[key] = _untouched_verdict(self.rules[name], seen)
        return self._alone[key]

    def _cases(self, trials: Sequence[Trial]) -> dict[str, Case]:
        """Each source case of the batch, read once; the last one is kept, as the next batch often starts with it."""
        keys = dict.fromkeys(trial.case for trial in trials)
        kept = dict([self._last]) if self._last else {}
        cases = {key: kept[key] if key in kept else read_case(self.campaign, key) for key in keys}
        self._last = next(reversed(cases.items()))
        return cases

    def _change(self, trial: Trial, case: Case) -> _Changed | _Unmade:
        change = trial.change
        try:
            if change is None:
                rng = rng_for(self.campaign.seed, trial.case, trial.rule, trial.draw)
                change = self.rules[trial.rule].change.propose(case, rng, self.campaign.system)
            if not isinstance(change, Transformation):
                raise InputError(f"rule '{trial.rule}' proposed {_brief(change)}, not a transformation")
            followup: object = change(case)
            if not isinstance(followup, Case):
                raise InputError(f"{type(change).__name__} made {_brief(followup)} of {trial.case}, not a case")
            encode_change(change)
            if why := self.campaign.gate and self.campaign.gate.admit(case, followup):
                return _Unmade(change, Verdict.skipped(str(why)), followup.facts)
            return _Changed(change, followup)
        except NotApplicable as reason:
            return _Unmade(change, Verdict.skipped(str(reason)))
        except SwerveError:
            raise  # a change that is wrong for every case stops the campaign with its sentence
        except FOREIGN as error:  # somebody else's code: its failure is a result, not ours
            return _Unmade(change, Verdict.error(_sentence(error), Fault.CHANGE))

    def _record(self, trial: Trial, item: _Changed, answer: Answer | Verdict, case: Case) -> Record:
        seen = self.baseline[trial.case]
        said = answer if isinstance(answer, tuple) else ()
        pair = Pair(case, item.followup, item.change, seen.said, said)
        verdict = checked(self.rules[trial.rule], pair) if isinstance(answer, tuple) else answer
        return Record(
            trial,
            # A journal line keeps the facts with the record's own: what a search is told must not depend on a resume.
            replace(verdict, facts={}) if verdict.facts else verdict,
            item.change,
            seen.said,
            said,
            light(item.followup.truth),
            introduced=_introduced(self.untouched(trial.rule, seen)),
            source_sha=seen.input_sha,
            # Hashing costs as much as a small change; only what may have to be rebuilt and verified is hashed.
            input_sha="" if verdict.status is Status.HELD else item.followup.input_sha,
            facts={**item.followup.facts, **verdict.facts} if verdict.facts else item.followup.facts,
        )

    def _unmade(self, trial: Trial, item: _Unmade) -> Record:
        return Record(trial, item.verdict, item.change, self.baseline[trial.case].said, facts=item.facts)


def _untouched_verdict(rule: Rule, seen: Observation) -> Verdict | None:
    """The rule on the source alone: its answer held against its truth, as a follow-up's is against what was expected."""
    if not seen.truth:
        return None
    case = Case(seen.case, {}, seen.truth, seen.group)
    try:
        verdict: object = judge_source(rule.expect, Pair(case, case, Unchanged(), seen.truth, seen.said))
    except FOREIGN as error:  # a user's relation
        return Verdict.error(_sentence(error), Fault.RELATION)
    return verdict if isinstance(verdict, Verdict) else None


@dataclass(frozen=True)
class _Changed:
    change: Transformation
    followup: Case


def _same(item: _Changed | _Unmade, case: Case) -> bool:
    """Whether the follow-up holds the very values of its source."""
    if not isinstance(item, _Changed) or item.followup.inputs.keys() != case.inputs.keys():
        return False
    return all(value is case.inputs[name] for name, value in item.followup.inputs.items())


@dataclass(frozen=True)
class _Unmade:
    change: Transformation | None
    verdict: Verdict
    facts: Mapping[str, float | str] = field(default_factory=dict)


def _without_repeats(records: Sequence[Record], before: Container[str]) -> list[Record]:
    """A change made twice to one case under one rule would be counted twice: the second is skipped."""
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


def checked(rule: Rule, pair: Pair) -> Verdict:
    """The rule's verdict; a relation that breaks is an ERROR of its own kind."""
    try:
        verdict: object = rule.expect.check(pair)
    except SwerveError:
        raise
    except FOREIGN as error:  # a user's relation
        return Verdict.error(_sentence(error), Fault.RELATION)
    if not isinstance(verdict, Verdict):
        return Verdict.error(f"rule '{rule.name}' returned {type(verdict).__name__}, not a verdict", Fault.RELATION)
    if verdict.margin is not None and not math.isfinite(verdict.margin):
        return Verdict.error(f"rule '{rule.name}' gave a margin of {verdict.margin}", Fault.RELATION)
    return verdict


def answer_all(system: System, cases: Sequence[Case]) -> list[Answer | Verdict]:
    """One answer per case from one forward pass; if the pass fails, each case alone, so that one cannot spoil the rest."""
    if not cases:
        return []
    try:
        answers = list(system(cases))
    except FOREIGN as error:  # the system under test may do anything
        if len(cases) == 1:
            return [_model_error(error)]
        return [answer_all(system, [case])[0] for case in cases]
    if len(answers) != len(cases):
        return [Verdict.error(f"the system gave {len(answers)} answers to {len(cases)} cases")] * len(cases)
    return [_sound(answer) for answer in answers]


def _sound(answer: object) -> Answer | Verdict:
    if not isinstance(answer, tuple) or not answer or not all(isinstance(value, Value) for value in answer):
        return Verdict.error(f"the system must say a tuple of values, it said {_brief(answer)}")
    if light(answer) != answer:
        return Verdict.error(f"the system must say what a journal can hold, it said {', '.join(v.slot for v in answer)}")
    fault = next((why for why in (value.fault() for value in answer) if why), None)
    return Verdict.error(fault) if fault else answer


def _model_error(error: BaseException) -> Verdict:
    kind = Fault.OOM if isinstance(error, MemoryError) else Fault.TIMEOUT if isinstance(error, TimeoutError) else Fault.MODEL
    return Verdict.error(_sentence(error), kind)


def _sentence(error: BaseException) -> str:
    return printable(f"{type(error).__name__}: {error}", 200)


def _brief(thing: object) -> str:
    return printable(f"{type(thing).__name__} {thing!r}", 80)


def _introduced(alone: Verdict | None) -> bool | None:
    if alone is None or alone.status in (Status.SKIPPED, Status.ERROR):
        return None
    return alone.status is Status.HELD


def _evaluated(
    evaluate: Callable[..., list[Record]], trials: Sequence[Trial], size: int, map: Any, before: Container[str]
) -> list[Record]:
    records = [record for batch in map(evaluate, list(_chunks(trials, size))) for record in batch]
    return _without_repeats(records, before)


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


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
