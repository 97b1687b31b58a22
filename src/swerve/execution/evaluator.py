"""Trials turned into records: cases read, changes made in threads, one forward pass per batch, verdicts in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from swerve.core.campaign import Campaign, Observation, Record, Trial, calibrate
from swerve.core.case import Case
from swerve.core.encode import encode_change, storable
from swerve.core.errors import InputError, ModelError, NotApplicable, SwerveError, UnreadableCase
from swerve.core.relation import Fault, Pair, Rule, Status, Verdict, judge_source
from swerve.core.seeding import rng_for
from swerve.core.system import Answer
from swerve.core.transformation import Transformation, Unchanged
from swerve.core.values import Group
from swerve.execution.answers import FOREIGN, WRITTEN, Said, answer_and_measure, brief, sentence, share
from swerve.execution.data_guard import refuse_changed_case

T = TypeVar("T")
R = TypeVar("R")
TRANSFORM_THREADS = 2
REMEMBERED = 4096  # verdicts on untouched cases kept at a time


def observe_batch(campaign: Campaign, keys: Sequence[str]) -> list[Observation]:
    """The observations of one batch, in order; the `fault` of a case says why it does not read or has no sound answer."""
    read = [_read(campaign, key) for key in keys]
    cases = [item for item in read if isinstance(item, Case)]
    shas = [case.input_sha for case in cases]  # as read: a system may write into what it is shown
    answers = answer_and_measure(campaign, cases)
    for case, (answer, _) in zip(cases, answers, strict=True):
        if answer is WRITTEN:
            _read_afresh(campaign, case.key, case)
    observed = iter(map(_observation, cases, shas, answers))
    return [next(observed) if isinstance(item, Case) else item for item in read]


def _read(campaign: Campaign, key: str) -> Case | Observation:
    try:
        case: object = campaign.source[key]
        if not isinstance(case, Case) or case.key != key:
            raise UnreadableCase(f"the source gave {brief(getattr(case, 'key', case))} for it")
        return case
    except UnreadableCase as error:
        return Observation(key, "", fault=str(error), readable=False)
    except FOREIGN as error:  # a source of the user's own
        return Observation(key, "", fault=sentence(error), readable=False)


def read_case(campaign: Campaign, key: str, seen: Observation | None = None) -> Case:
    """A case that the baseline has read before; it must read again, and be what was `seen` then."""
    again = _read(campaign, key)
    if not isinstance(again, Case):
        raise InputError(f"{key} was read at the start of the campaign and cannot be read now: {again.fault}")
    if seen is not None:
        refuse_changed_case(campaign.source, again, seen)
    return again


def _read_afresh(campaign: Campaign, key: str, shown: Case, seen: Observation | None = None) -> Case:
    """The case `key` as it was before it, or a follow-up of it, was written into."""
    again = read_case(campaign, key, seen)
    if share(again, shown):  # every later answer would be to what was written
        raise ModelError(f"{key}: {WRITTEN.why}; the source keeps its cases in memory, so this one is lost")
    return again


def _observation(case: Case, sha: str, outcome: Said) -> Observation:
    answer, gain = outcome
    said, fault = (answer, "") if isinstance(answer, tuple) else ((), answer.why)
    wrong_label = next((why for why in (value.fault() for value in case.truth) if why), None)
    if wrong_label:
        return Observation(case.key, case.group, fault=f"label: {wrong_label}", input_sha=sha, readable=False)
    return Observation(case.key, case.group, storable(case.truth), said, sha, fault, gain=gain)


def _first_frames(case: Case) -> Case:
    """The case with only the first frame of every window; the same object where there is no window."""
    windows = {name: value for name, value in case.inputs.items() if isinstance(value, Group) and len(value.values) > 1}
    first = {name: Group(value.values[:1]) for name, value in windows.items()}
    return replace(case, inputs={**case.inputs, **first}) if first else case


def _calibrated(rule: Rule, baseline: Sequence[Observation]) -> Rule:
    try:
        return calibrate(rule, baseline)
    except SwerveError:
        raise
    except FOREIGN as error:  # a relation of the user's own
        raise InputError(f"rule '{rule.name}' cannot be calibrated: {sentence(error)}") from error


class Threads:
    """A few threads that make changes; each takes a share of a batch, as a hand-over costs as much as a small change."""

    def __init__(self, count: int = TRANSFORM_THREADS) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="swerve-change")

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """`function` of every item, in order."""
        size = -(-len(items) // self._count) or 1
        shares = self._pool.map(lambda part: [function(item) for item in part], chunks(items, size))
        return [result for part in shares for result in part]


class Evaluator:
    """Turns trials into records: changes made in threads, one forward pass per batch, verdicts in order."""

    def __init__(self, campaign: Campaign, baseline: Mapping[str, Observation], threads: int = TRANSFORM_THREADS) -> None:
        self.campaign = campaign
        self.baseline = baseline
        self.rules = {rule.name: _calibrated(rule, list(baseline.values())) for rule in campaign.rules}
        self._threads = Threads(threads)
        self._last: tuple[str, Case] | None = None
        self._alone: dict[tuple[str, str], Verdict | None] = {}

    def __call__(self, trials: Sequence[Trial], now: Mapping[str, Observation] | None = None) -> list[Record]:
        """The records of one batch of trials, in order; judged against what is observed `now`, or else the baseline."""
        cases, known = self._cases(trials), now or self.baseline
        changed = self._threads.map(lambda trial: self._change(trial, cases[trial.case]), trials)
        answers = self._answers(trials, changed, cases)
        for place, said in enumerate(answers):
            if said and said[0] is WRITTEN:
                changed[place] = self._change_again(trials[place], changed[place], cases)
        return [
            self._record(trial, item, said or _known(known[trial.case]), cases[trial.case], known[trial.case].said)
            if isinstance(item, _Changed)
            else self._unchanged_record(trial, item)
            for trial, item, said in zip(trials, changed, answers, strict=True)
        ]

    def _answers(self, trials: Sequence[Trial], changed: Sequence[_Change], cases: Mapping[str, Case]) -> list[Said | None]:
        """What the system says of every follow-up, or None where it was not asked."""
        # A follow-up equal to its source is not asked again: a batch of another size would move the last bits of the answer.
        asked = [
            isinstance(item, _Changed) and not _same(item, cases[t.case]) for t, item in zip(trials, changed, strict=True)
        ]
        ready = [item.followup for item, wanted in zip(changed, asked, strict=True) if wanted and isinstance(item, _Changed)]
        answers = iter(answer_and_measure(self.campaign, ready))
        return [next(answers) if wanted else None for wanted in asked]

    def _change_again(self, trial: Trial, item: _Change, cases: dict[str, Case]) -> _Changed:
        """A follow-up that was written into, as it was; its source too, with which it may have had inputs in common."""
        assert isinstance(item, _Changed)
        self._last = None
        seen = self.baseline[trial.case]
        cases[trial.case] = again = _read_afresh(self.campaign, trial.case, item.followup, seen)
        return _Changed(item.change, item.change(again))

    def repeat(self, trial: Trial, seen: Observation) -> Record:
        """The record of a trial asked again, alone, judged against another observation of its source."""
        if seen.fault:
            return self.unanswered(trial, Verdict.error(seen.fault))
        return self([trial], {seen.case: seen})[0]

    def unanswered(self, trial: Trial, verdict: Verdict) -> Record:
        """The record of a trial that ends every worker: its change is made, but the system is not asked."""
        case = self._cases([trial])[trial.case]
        item = self._change(trial, case)
        if isinstance(item, _Changed):
            return self._record(trial, item, (verdict, None), case, self.baseline[trial.case].said)
        return replace(self._unchanged_record(trial, item), verdict=verdict)

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
        cases = {key: kept[key] if key in kept else read_case(self.campaign, key, self.baseline[key]) for key in keys}
        self._last = next(reversed(cases.items()))
        return cases

    def _change(self, trial: Trial, case: Case) -> _Change:
        change = trial.change
        try:
            if change is None:
                rng = rng_for(self.campaign.seed, trial.case, trial.rule, trial.draw)
                change = self.rules[trial.rule].change.propose(case, rng, self.campaign.system)
            if not isinstance(change, Transformation):
                raise InputError(f"rule '{trial.rule}' proposed {brief(change)}, not a transformation")
            if refused := self._refused_by_first_frame(change, case):
                return refused
            followup: object = change(case)
            if not isinstance(followup, Case):
                raise InputError(f"{type(change).__name__} made {brief(followup)} of {trial.case}, not a case")
            encode_change(change)
            if why := self.campaign.gate and self.campaign.gate.admit(case, followup):
                return _NotChanged(change, Verdict.skipped(str(why)), followup.facts)
            return _Changed(change, followup)
        except NotApplicable as reason:
            return _NotChanged(change, Verdict.skipped(str(reason)))
        except SwerveError:
            raise  # a change that is wrong for every case stops the campaign with its message
        except FOREIGN as error:  # the failure of a user's change is a result
            return _NotChanged(change, Verdict.error(sentence(error), Fault.CHANGE))

    def _refused_by_first_frame(self, change: Transformation, case: Case) -> _NotChanged | None:
        """What a gate that looks at first frames only says of them, before the rest of a long window is made."""
        gate = self.campaign.gate
        if gate is None or not getattr(gate, "first_frame", False) or (first := _first_frames(case)) is case:
            return None
        try:
            followup = change(first)
            why = gate.admit(first, followup)
        except FOREIGN:  # it may need the whole window, which comes next
            return None
        return _NotChanged(change, Verdict.skipped(str(why)), followup.facts) if why else None

    def _record(self, trial: Trial, item: _Changed, outcome: Said, case: Case, before: Answer) -> Record:
        seen = self.baseline[trial.case]
        answer, gain = outcome
        said = answer if isinstance(answer, tuple) else ()
        pair = Pair(case, item.followup, item.change, before, said)
        verdict = checked(self.rules[trial.rule], pair) if isinstance(answer, tuple) else answer
        return Record(
            trial,
            # A journal line keeps the facts with the record's own: what a search is told must not depend on a resume.
            replace(verdict, facts={}) if verdict.facts else verdict,
            item.change,
            before,
            said,
            storable(item.followup.truth),
            introduced=_introduced(self.untouched(trial.rule, seen)),
            gain=gain,
            source_sha=seen.input_sha,
            # Hashing costs as much as a small change; only what may have to be rebuilt and verified is hashed.
            input_sha="" if verdict.status is Status.HELD else item.followup.input_sha,
            facts={**item.followup.facts, **verdict.facts} if verdict.facts else item.followup.facts,
        )

    def _unchanged_record(self, trial: Trial, item: _NotChanged) -> Record:
        return Record(trial, item.verdict, item.change, self.baseline[trial.case].said, facts=item.facts)


def _known(seen: Observation) -> Said:
    return seen.said, seen.gain


def _untouched_verdict(rule: Rule, seen: Observation) -> Verdict | None:
    """The rule on the source alone: its answer judged against its truth, as a follow-up's is against the expected one."""
    if not seen.truth and not callable(getattr(rule.expect, "untouched", None)):
        return None
    case = Case(seen.case, {}, seen.truth, seen.group)
    try:
        verdict: object = judge_source(rule.expect, Pair(case, case, Unchanged(), seen.truth, seen.said))
    except FOREIGN as error:  # a relation of the user's own
        return Verdict.error(sentence(error), Fault.RELATION)
    return verdict if isinstance(verdict, Verdict) else None


@dataclass(frozen=True)
class _Changed:
    change: Transformation
    followup: Case


def _same(item: _Changed, case: Case) -> bool:
    """Whether the follow-up holds the very values of its source."""
    if item.followup.inputs.keys() != case.inputs.keys():
        return False
    return all(value is case.inputs[name] for name, value in item.followup.inputs.items())


@dataclass(frozen=True)
class _NotChanged:
    change: Transformation | None
    verdict: Verdict
    facts: Mapping[str, float | str] = field(default_factory=dict)


_Change = _Changed | _NotChanged


def checked(rule: Rule, pair: Pair) -> Verdict:
    """The rule's verdict; a relation that fails is an ERROR of its own kind."""
    try:
        verdict: object = rule.expect.check(pair)
    except SwerveError:
        raise
    except FOREIGN as error:  # a relation of the user's own
        return Verdict.error(sentence(error), Fault.RELATION)
    if not isinstance(verdict, Verdict):
        return Verdict.error(f"rule '{rule.name}' returned {type(verdict).__name__}, not a verdict", Fault.RELATION)
    if verdict.margin is not None and not math.isfinite(verdict.margin):
        return Verdict.error(f"rule '{rule.name}' gave a margin of {verdict.margin}", Fault.RELATION)
    return verdict


def _introduced(alone: Verdict | None) -> bool | None:
    if alone is None or alone.status in (Status.SKIPPED, Status.ERROR):
        return None
    return alone.status is Status.HELD


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`items` in batches of `size`, the last with what is left."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
