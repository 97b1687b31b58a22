"""Trials turned into records: changes drawn, then made in threads, one forward pass per batch, verdicts in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from swerve.core.asset import assets_in
from swerve.core.campaign import Campaign, Observation, Record, Trial, calibrate, has_gain_per_ask
from swerve.core.case import Case
from swerve.core.encode import digest_of_large, encode_change, storable
from swerve.core.errors import InputError, ModelError, NotApplicable, SwerveError, UnreadableCase
from swerve.core.gate import admission_by_all, needs_first_frame_only
from swerve.core.lru import SizedLRU
from swerve.core.origin import Attribution, LeastShift, Origin, rmse_of
from swerve.core.relation import Fault, Pair, Rule, Status, Verdict, attribute, judge_source
from swerve.core.system import Answer
from swerve.core.transformation import Chain, Transformation, Unchanged, is_hashable
from swerve.core.values import Group
from swerve.execution.answers import FOREIGN, WRITTEN, MeasuredAnswer, answer_and_measure, brief, sentence, share_memory
from swerve.execution.data_guard import refuse_changed_case
from swerve.execution.proposals import SPOILT, Drawn, draw_changes, resolved
from swerve.execution.stage_times import ANSWERS, CHANGES, StageTimes

T = TypeVar("T")
R = TypeVar("R")
TRANSFORM_THREADS = 2
REMEMBERED = 4096  # cached verdicts on unchanged cases


def observe_batch(campaign: Campaign, keys: Sequence[str]) -> list[Observation]:
    """The observations of one batch, in order; `fault` is why a case cannot be read or has no valid answer."""
    read = [_read(campaign, key) for key in keys]
    cases = [item for item in read if isinstance(item, Case)]
    shas = [case.input_sha for case in cases]  # as read: a system may write into what it is shown
    answers = answer_and_measure(campaign, cases)
    for case, (answer, _) in zip(cases, answers, strict=True):
        if answer is WRITTEN:
            _read_afresh(campaign, case.key, case)
    observed: Iterator[Observation] = map(_observation, cases, shas, answers)
    if has_gain_per_ask(campaign.search):  # a gain is that of the batch, whatever is wrong with the label beside it
        observed = iter([replace(seen, gain=gain) for seen, (_, gain) in zip(observed, answers, strict=True)])
    return [next(observed) if isinstance(item, Case) else item for item in read]


def _read(campaign: Campaign, key: str) -> Case | Observation:
    try:
        case: object = campaign.source[key]
        if not isinstance(case, Case) or case.key != key:
            raise UnreadableCase(
                f"the source returned {brief(getattr(case, 'key', case))} instead of the case with this key"
            )
        return case
    except UnreadableCase as error:
        return Observation(key, "", fault=str(error), readable=False)
    except FOREIGN as error:  # a source of the user's own
        return Observation(key, "", fault=sentence(error), readable=False)


def read_case(campaign: Campaign, key: str, seen: Observation | None = None) -> Case:
    """A case of the baseline, read again; raises `InputError` if it cannot be read or is not what was `seen`."""
    again = _read(campaign, key)
    if not isinstance(again, Case):
        raise InputError(f"case {key} could be read at the start of the campaign, but cannot be read now: {again.fault}")
    if seen is not None:
        refuse_changed_case(campaign.source, again, seen)
    return again


def _read_afresh(campaign: Campaign, key: str, shown: Case, seen: Observation | None = None, why: str = WRITTEN.why) -> Case:
    """The case `key` as it was before it, or a follow-up of it, was written into."""
    again = read_case(campaign, key, seen)
    if share_memory(again, shown):  # every later answer would be to what was written
        raise ModelError(f"case {key}: {why}; the original is lost, because the source keeps its cases in memory")
    return again


def _observation(case: Case, sha: str, outcome: MeasuredAnswer) -> Observation:
    given, gain = outcome
    answer, fault = (given, "") if isinstance(given, tuple) else ((), given.why)
    wrong_label = next((why for why in (value.fault() for value in case.truth) if why), None)
    if wrong_label:
        return Observation(case.key, case.group, fault=f"label: {wrong_label}", input_sha=sha, readable=False)
    small, large = storable(case.truth), digest_of_large(case.truth)
    return Observation(case.key, case.group, small, answer, sha, fault, gain=gain, truth_sha=large)


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
    """A few threads that apply changes; each gets a share of a batch, as a hand-over costs as much as a small change."""

    def __init__(self, count: int = TRANSFORM_THREADS) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="swerve-change")

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """`function` of every item, in order."""
        if len(items) == 1:
            return [function(items[0])]
        size = -(-len(items) // self._count) or 1
        shares = self._pool.map(lambda part: [function(item) for item in part], chunks(items, size))
        return [result for part in shares for result in part]


class Evaluator:
    """Turns trials into records: changes applied in threads, one forward pass per batch, verdicts in order."""

    def __init__(self, campaign: Campaign, baseline: Mapping[str, Observation], threads: int = TRANSFORM_THREADS) -> None:
        self.campaign = campaign
        self.baseline = baseline
        self.rules = {rule.name: _calibrated(rule, list(baseline.values())) for rule in campaign.rules}
        self._threads = Threads(threads)
        self._last: tuple[str, Case] | None = None
        self._begun = SizedLRU(1)  # the follow-up that was continued last, so that a try makes its further changes alone
        self._alone: dict[tuple[str, str], Verdict | None] = {}
        rmse = rmse_of(baseline.values())
        self._least = {rule.name: LeastShift(rule.least_shift, rmse) for rule in campaign.rules}
        self._assets = assets_in(campaign).keys()
        self.times = StageTimes()

    def __call__(self, trials: Sequence[Trial], now: Mapping[str, Observation] | None = None) -> list[Record]:
        """The records of one batch of trials, in order; judged against what is observed `now`, or else the baseline."""
        cases, known = self._cases(trials), now or self.baseline
        with self.times.during(CHANGES):
            drawn = self._draw(trials, cases)
            made = [len(trial.continues.made) if trial.continues else 0 for trial in trials]
            trials = [resolved(trial, change) for trial, change in zip(trials, drawn, strict=True)]
            proposed = list(zip(trials, drawn, made, strict=True))
            changed = self._threads.map(
                lambda item: self._change(item[0].rule, item[1], cases[item[0].case], item[2]), proposed
            )
        with self.times.during(ANSWERS):
            answers = self._answers(trials, changed, cases)
        for place, answered in enumerate(answers):
            if answered and answered[0] is WRITTEN:
                changed[place] = self._change_again(trials[place], changed[place], cases)
        return [
            self._record(trial, item, answered or _known(known[trial.case]), cases[trial.case], known[trial.case].answer)
            if isinstance(item, _Changed)
            else self._unchanged_record(trial, item)
            for trial, item, answered in zip(trials, changed, answers, strict=True)
        ]

    def _answers(
        self, trials: Sequence[Trial], changed: Sequence[_Change], cases: Mapping[str, Case]
    ) -> list[MeasuredAnswer | None]:
        """The system's answer to every follow-up, or None if it was not run on it."""
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
        self._forget()
        seen = self.baseline[trial.case]
        cases[trial.case] = again = _read_afresh(self.campaign, trial.case, item.followup, seen)
        return _Changed(item.change, replace(item.change(again), facts=item.followup.facts))

    def repeat(self, trial: Trial, seen: Observation) -> Record:
        """The record of a trial asked again, alone, judged against another observation of its source."""
        if seen.fault:
            return self.unanswered(trial, Verdict.error(seen.fault))
        return self([trial], {seen.case: seen})[0]

    def unanswered(self, trial: Trial, verdict: Verdict) -> Record:
        """The record of a trial that ends every worker: its change is made, but the system is not asked."""
        cases = self._cases([trial])
        (drawn,) = self._draw([trial], cases)
        trial, case = resolved(trial, drawn), cases[trial.case]
        item = self._change(trial.rule, drawn, case)
        if isinstance(item, _Changed):
            return self._record(trial, item, (verdict, None), case, self.baseline[trial.case].answer)
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

    def _draw(self, trials: Sequence[Trial], cases: dict[str, Case]) -> list[Drawn]:
        """The change of every trial; a case that drawing them has changed is read again."""
        drawn = draw_changes(self.campaign, trials, cases)
        for key in {trial.case for trial, change in zip(trials, drawn, strict=True) if change is SPOILT}:
            self._forget()
            cases[key] = _read_afresh(self.campaign, key, cases[key], self.baseline[key], SPOILT.why)
        for trial, change in zip(trials, drawn, strict=True):
            self._refuse_unnamed_asset(trial.rule, change)
        return drawn

    def _refuse_unnamed_asset(self, rule: str, change: Drawn) -> None:
        """Refuse a change that reads a file which is not part of the campaign's identity."""
        if asset := next((asset for sha, asset in assets_in(change).items() if sha not in self._assets), None):
            raise InputError(
                f"rule '{rule}' proposed a change that reads {asset.path}, which no part of the campaign names; "
                "give its space a field with the asset"
            )

    def _forget(self) -> None:
        """Keep no case that may share memory with one that was written into."""
        self._last = None
        self._begun.clear()

    def _change(self, rule: str, change: Drawn, case: Case, made: int = 0) -> _Change:
        """The follow-up; the first `made` steps of a chain are what it continues."""
        if isinstance(change, Verdict):
            return _NotChanged(None, change)
        try:
            if refused := self._refused_by_first_frame(rule, change, case):
                return refused
            followup: object = self._followup(change, case, made)
            if not isinstance(followup, Case):
                raise InputError(f"{type(change).__name__} must return a case, got {brief(followup)} for {case.key}")
            encode_change(change)
            decision = admission_by_all(self.campaign.gates(self.rules[rule]), case, followup)
            facts = {**followup.facts, **decision.facts}
            if decision.why:
                return _NotChanged(change, Verdict.skipped(decision.why), facts)
            return _Changed(change, replace(followup, facts=facts) if decision.facts else followup)
        except NotApplicable as reason:
            return _NotChanged(change, Verdict.skipped(str(reason)))
        except SwerveError:
            raise  # a change that is wrong for every case stops the campaign with its message
        except FOREIGN as error:  # the failure of a user's change is a result
            return _NotChanged(change, Verdict.error(sentence(error), Fault.CHANGE))

    def _followup(self, change: Transformation, case: Case, made: int) -> object:
        """The changed case, from where the changes that it continues left it; windows have a cache of their frames."""
        if not made or not isinstance(change, Chain) or _first_frames(case) is not case or not is_hashable(change):
            return change(case)
        begin, further = Chain(change.steps[:made]), Chain(change.steps[made:])
        return further(self._begun.get((case.key, begin), lambda: begin(case)))

    def _refused_by_first_frame(self, rule: str, change: Transformation, case: Case) -> _NotChanged | None:
        """The rejection by gates that need only the first frame, before the rest of a long window is changed."""
        gates = [gate for gate in self.campaign.gates(self.rules[rule]) if needs_first_frame_only(gate)]
        if not gates or (first := _first_frames(case)) is case:
            return None
        try:
            followup = change(first)
            decision = admission_by_all(gates, first, followup)
        except FOREIGN:  # it may need the whole window, which comes next
            return None
        facts = {**followup.facts, **decision.facts}
        return _NotChanged(change, Verdict.skipped(decision.why), facts) if decision.why else None

    def _record(self, trial: Trial, item: _Changed, outcome: MeasuredAnswer, case: Case, before: Answer) -> Record:
        seen = self.baseline[trial.case]
        given, gain = outcome
        after = given if isinstance(given, tuple) else ()
        pair = Pair(case, item.followup, item.change, before, after)
        verdict = checked(self.rules[trial.rule], pair) if isinstance(given, tuple) else given
        found = self._attribute(trial.rule, pair, verdict) if verdict.status is Status.VIOLATED else None
        facts = {**item.followup.facts, **verdict.facts, **(found.facts if found else {})}
        return Record(
            trial,
            # A journal line has one set of facts, so the verdict has none, as after a resume.
            replace(verdict, facts={}) if verdict.facts else verdict,
            item.change,
            before,
            after,
            storable(item.followup.truth),
            origin=found.origin if found else None,
            gain=gain,
            source_sha=seen.input_sha,
            # Hashing costs as much as a small change; only what may have to be rebuilt and verified is hashed.
            input_sha="" if verdict.status is Status.HELD else item.followup.input_sha,
            facts=facts,
        )

    def _attribute(self, rule: str, pair: Pair, verdict: Verdict) -> Attribution:
        """Where a violation comes from; unknown if a relation of the user's own cannot tell."""
        try:
            return attribute(self.rules[rule].expect, pair, verdict, self._least[rule])
        except FOREIGN:
            return Attribution(Origin.UNKNOWN)

    def _unchanged_record(self, trial: Trial, item: _NotChanged) -> Record:
        return Record(trial, item.verdict, item.change, self.baseline[trial.case].answer, facts=item.facts)


def _known(seen: Observation) -> MeasuredAnswer:
    return seen.answer, seen.gain


def _untouched_verdict(rule: Rule, seen: Observation) -> Verdict | None:
    """The rule's verdict on the unchanged case, whose answer is compared with its label instead of the expected answer."""
    if not seen.truth and not callable(getattr(rule.expect, "untouched", None)):
        return None
    case = Case(seen.case, {}, seen.truth, seen.group)
    try:
        verdict: object = judge_source(rule.expect, Pair(case, case, Unchanged(), seen.truth, seen.answer))
    except FOREIGN as error:  # a relation of the user's own
        return Verdict.error(sentence(error), Fault.RELATION)
    return verdict if isinstance(verdict, Verdict) else None


@dataclass(frozen=True)
class _Changed:
    change: Transformation
    followup: Case


def _same(item: _Changed, case: Case) -> bool:
    """Whether the follow-up has exactly the input objects of its source."""
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


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`items` in batches of `size`, the last with what is left."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
