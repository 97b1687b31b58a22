"""Trials turned into records: cases read, changes made in threads, one forward pass per batch, verdicts in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from swerve.core.campaign import Campaign, CoverageMeter, Gain, Observation, Record, Trial, calibrate
from swerve.core.case import Case
from swerve.core.encode import encode_change, storable
from swerve.core.errors import InputError, ModelError, NotApplicable, SwerveError, UnreadableCase, printable
from swerve.core.relation import Fault, Pair, Rule, Status, Verdict, judge_source
from swerve.core.seeding import rng_for
from swerve.core.system import Answer, System
from swerve.core.transformation import Transformation, Unchanged, clear_frame_cache
from swerve.core.values import KINDS, Group
from swerve.execution.input_guard import marks_of, share

T = TypeVar("T")
R = TypeVar("R")
Said = tuple[Answer | Verdict, Gain | None]
SPOKEN = frozenset(KINDS.values())
TRANSFORM_THREADS = 2
WRITTEN = Verdict.error("the system writes into its input; have it work on a copy (numpy: .copy(), torch: .clone())")
REMEMBERED = 4096  # verdicts on untouched cases kept at a time
FOREIGN = (Exception, SystemExit)  # what other people's code may raise; sys.exit() in it must not end the run


def observe_batch(campaign: Campaign, keys: Sequence[str]) -> list[Observation]:
    """The observations of one batch, in order; a case that does not read, or answers nonsense, says why."""
    read = [_read(campaign, key) for key in keys]
    cases = [item for item in read if isinstance(item, Case)]
    shas = [case.input_sha for case in cases]  # as read: a system may write into what it is shown
    answers = answer_and_measure(campaign, cases)
    for case, (answer, _) in zip(cases, answers, strict=True):
        if _wrote(answer):
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
    except FOREIGN as error:  # somebody else's reader
        return Observation(key, "", fault=sentence(error), readable=False)


def read_case(campaign: Campaign, key: str) -> Case:
    """A case that the baseline has read before; it must read again."""
    again = _read(campaign, key)
    if isinstance(again, Case):
        return again
    raise InputError(f"{key} was read at the start of the campaign and cannot be read now: {again.fault}")


def _read_afresh(campaign: Campaign, key: str, shown: Case) -> Case:
    """The case `key` as it was before it, or a follow-up of it, was written into."""
    again = read_case(campaign, key)
    if share(again, shown):  # every later answer would be to what was written
        raise ModelError(f"{key}: {WRITTEN.why}; the source keeps its cases in memory, so this one is lost")
    return again


def _observation(case: Case, sha: str, told: Said) -> Observation:
    answer, gain = told
    said, fault = (answer, "") if isinstance(answer, tuple) else ((), answer.why)
    wrong_label = next((why for why in (value.fault() for value in case.truth) if why), None)
    if wrong_label:
        return Observation(case.key, case.group, fault=f"label: {wrong_label}", input_sha=sha, readable=False)
    return Observation(case.key, case.group, storable(case.truth), said, sha, fault, gain=gain)


def _first_frames(case: Case) -> Case:
    """The case with the first frame alone of every window; the very same where there is none."""
    windows = {name: value for name, value in case.inputs.items() if isinstance(value, Group) and len(value.values) > 1}
    first = {name: Group(value.values[:1]) for name, value in windows.items()}
    return replace(case, inputs={**case.inputs, **first}) if first else case


def _calibrated(rule: Rule, baseline: Sequence[Observation]) -> Rule:
    try:
        return calibrate(rule, baseline)
    except SwerveError:
        raise
    except FOREIGN as error:  # a user's relation
        raise InputError(f"rule '{rule.name}' cannot be calibrated: {sentence(error)}") from error


class Threads:
    """A few threads that make changes; each takes a share of a batch, as a hand-over costs as much as a small change."""

    def __init__(self, count: int = TRANSFORM_THREADS) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="swerve-change")

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """`function` of every item, in order."""
        share = -(-len(items) // self._count) or 1
        shares = self._pool.map(lambda part: [function(item) for item in part], chunks(items, share))
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

    def __call__(self, trials: Sequence[Trial]) -> list[Record]:
        """The records of one batch of trials, in order."""
        cases = self._cases(trials)
        changed = self._threads.map(lambda trial: self._change(trial, cases[trial.case]), trials)
        told = self._told(trials, changed, cases)
        for place, said in enumerate(told):
            if said and _wrote(said[0]):
                changed[place] = self._made_again(trials[place], changed[place], cases)
        return [
            self._record(trial, item, said or self._known(trial.case), cases[trial.case])
            if isinstance(item, _Changed)
            else self._unmade(trial, item)
            for trial, item, said in zip(trials, changed, told, strict=True)
        ]

    def _told(self, trials: Sequence[Trial], changed: Sequence[_Made], cases: Mapping[str, Case]) -> list[Said | None]:
        """What the system says of every follow-up, or None of what it was not asked."""
        # What looks as before is not asked again: a batch of another size would move the last bits of the answer.
        asked = [
            isinstance(item, _Changed) and not _same(item, cases[t.case]) for t, item in zip(trials, changed, strict=True)
        ]
        ready = [item.followup for item, wanted in zip(changed, asked, strict=True) if wanted and isinstance(item, _Changed)]
        answers = iter(answer_and_measure(self.campaign, ready))
        return [next(answers) if wanted else None for wanted in asked]

    def _made_again(self, trial: Trial, item: _Made, cases: dict[str, Case]) -> _Changed:
        """A follow-up that was written into, as it was; its source too, with which it may have had inputs in common."""
        assert isinstance(item, _Changed)
        self._last = None
        cases[trial.case] = again = _read_afresh(self.campaign, trial.case, item.followup)
        return _Changed(item.change, item.change(again))

    def unanswered(self, trial: Trial, verdict: Verdict) -> Record:
        """The record of a trial that no system survived: its change is made, and nobody is shown it."""
        case = self._cases([trial])[trial.case]
        item = self._change(trial, case)
        if isinstance(item, _Changed):
            return self._record(trial, item, (verdict, None), case)
        return replace(self._unmade(trial, item), verdict=verdict)

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

    def _change(self, trial: Trial, case: Case) -> _Made:
        change = trial.change
        try:
            if change is None:
                rng = rng_for(self.campaign.seed, trial.case, trial.rule, trial.draw)
                change = self.rules[trial.rule].change.propose(case, rng, self.campaign.system)
            if not isinstance(change, Transformation):
                raise InputError(f"rule '{trial.rule}' proposed {brief(change)}, not a transformation")
            if refused := self._refused_at_sight(change, case):
                return refused
            followup: object = change(case)
            if not isinstance(followup, Case):
                raise InputError(f"{type(change).__name__} made {brief(followup)} of {trial.case}, not a case")
            encode_change(change)
            if why := self.campaign.gate and self.campaign.gate.admit(case, followup):
                return _Unmade(change, Verdict.skipped(str(why)), followup.facts)
            return _Changed(change, followup)
        except NotApplicable as reason:
            return _Unmade(change, Verdict.skipped(str(reason)))
        except SwerveError:
            raise  # a change that is wrong for every case stops the campaign with its sentence
        except FOREIGN as error:  # somebody else's code: its failure is a result, not ours
            return _Unmade(change, Verdict.error(sentence(error), Fault.CHANGE))

    def _refused_at_sight(self, change: Transformation, case: Case) -> _Unmade | None:
        """What a gate that goes by first frames alone says of them, before the rest of a long window is made."""
        gate = self.campaign.gate
        if gate is None or not getattr(gate, "first_frame", False) or (first := _first_frames(case)) is case:
            return None
        try:
            followup = change(first)
            why = gate.admit(first, followup)
        except FOREIGN:  # it may take the whole window, which is asked next
            return None
        return _Unmade(change, Verdict.skipped(str(why)), followup.facts) if why else None

    def _known(self, key: str) -> Said:
        seen = self.baseline[key]
        return seen.said, seen.gain

    def _record(self, trial: Trial, item: _Changed, told: Said, case: Case) -> Record:
        seen = self.baseline[trial.case]
        answer, gain = told
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
            storable(item.followup.truth),
            introduced=_introduced(self.untouched(trial.rule, seen)),
            gain=gain,
            source_sha=seen.input_sha,
            # Hashing costs as much as a small change; only what may have to be rebuilt and verified is hashed.
            input_sha="" if verdict.status is Status.HELD else item.followup.input_sha,
            facts={**item.followup.facts, **verdict.facts} if verdict.facts else item.followup.facts,
        )

    def _unmade(self, trial: Trial, item: _Unmade) -> Record:
        return Record(trial, item.verdict, item.change, self.baseline[trial.case].said, facts=item.facts)


def _untouched_verdict(rule: Rule, seen: Observation) -> Verdict | None:
    """The rule on the source alone: its answer held against its truth, as a follow-up's is against what was expected."""
    if not seen.truth and not callable(getattr(rule.expect, "untouched", None)):
        return None
    case = Case(seen.case, {}, seen.truth, seen.group)
    try:
        verdict: object = judge_source(rule.expect, Pair(case, case, Unchanged(), seen.truth, seen.said))
    except FOREIGN as error:  # a user's relation
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
class _Unmade:
    change: Transformation | None
    verdict: Verdict
    facts: Mapping[str, float | str] = field(default_factory=dict)


_Made = _Changed | _Unmade


def checked(rule: Rule, pair: Pair) -> Verdict:
    """The rule's verdict; a relation that breaks is an ERROR of its own kind."""
    try:
        verdict: object = rule.expect.check(pair)
    except SwerveError:
        raise
    except FOREIGN as error:  # a user's relation
        return Verdict.error(sentence(error), Fault.RELATION)
    if not isinstance(verdict, Verdict):
        return Verdict.error(f"rule '{rule.name}' returned {type(verdict).__name__}, not a verdict", Fault.RELATION)
    if verdict.margin is not None and not math.isfinite(verdict.margin):
        return Verdict.error(f"rule '{rule.name}' gave a margin of {verdict.margin}", Fault.RELATION)
    return verdict


def answer_all(system: System, cases: Sequence[Case]) -> list[Answer | Verdict]:
    """One answer per case from one forward pass; if the pass fails, each case alone, so that one cannot spoil the rest."""
    if not cases:
        return []
    before = marks_of(cases)
    answers = _answers(system, cases)
    written = [one != other for one, other in zip(before, marks_of(cases), strict=True)]
    if any(written):
        clear_frame_cache()
    if answers is None:
        answers = [WRITTEN if spoilt else answer_all(system, [case])[0] for case, spoilt in zip(cases, written, strict=True)]
    return [WRITTEN if spoilt else answer for answer, spoilt in zip(answers, written, strict=True)]


def _answers(system: System, cases: Sequence[Case]) -> list[Answer | Verdict] | None:
    """One pass; None where it failed and its cases are to be tried alone."""
    try:
        answers = list(system(cases))
    except FOREIGN as error:  # the system under test may do anything
        return [_model_error(error)] if len(cases) == 1 else None
    if len(answers) != len(cases):
        return [Verdict.error(f"the system gave {len(answers)} answers to {len(cases)} cases")] * len(cases)
    return [_judged(answer) for answer in answers]


def _wrote(answer: Answer | Verdict) -> bool:
    return answer is WRITTEN


def answer_and_measure(campaign: Campaign, cases: Sequence[Case]) -> list[Said]:
    """`answer_all`, with what each case covers where the campaign measures that."""
    if campaign.coverage is None:
        return [(answer, None) for answer in answer_all(campaign.system, cases)]
    measured = _Measured(campaign.system, campaign.coverage)
    answers = answer_all(measured, cases)
    return [(answer, measured.gains.get(id(case))) for case, answer in zip(cases, answers, strict=True)]


class _Measured:
    """A system whose every pass is measured."""

    def __init__(self, system: System, meter: CoverageMeter) -> None:
        self._system, self._meter = system, meter
        self.gains: dict[int, Gain] = {}  # by the case's id, while the batch lives

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        answers, gains = self._meter.measured(self._system, cases)
        self.gains.update((id(case), gain) for case, gain in zip(cases, gains, strict=True))
        return answers

    def fingerprint(self) -> str:
        return self._system.fingerprint()


def _judged(answer: object) -> Answer | Verdict:
    try:
        return _sound(answer)
    except FOREIGN as error:  # a value of somebody's own
        return _model_error(error)


def _sound(answer: object) -> Answer | Verdict:
    if not isinstance(answer, tuple) or not answer or not all(type(value) in SPOKEN for value in answer):
        return Verdict.error(f"the system must say a tuple of values, it said {brief(answer)}")
    if storable(answer) != answer:
        return Verdict.error(f"the system must say what a journal can hold, it said {', '.join(v.slot for v in answer)}")
    fault = next((why for why in (value.fault() for value in answer) if why), None)
    return Verdict.error(fault) if fault else answer


def _model_error(error: BaseException) -> Verdict:
    if isinstance(error, ModelError):  # a sentence of its own, and it knows what happened
        return Verdict.error(printable(str(error), 200), Fault(error.kind))
    kind = Fault.OOM if isinstance(error, MemoryError) else Fault.TIMEOUT if isinstance(error, TimeoutError) else Fault.MODEL
    return Verdict.error(sentence(error), kind)


def sentence(error: BaseException) -> str:
    """An error of somebody else's code in one line."""
    try:
        return printable(f"{type(error).__name__}: {error}", 200)
    except FOREIGN:  # an error that cannot even be told
        return type(error).__name__


def brief(thing: object) -> str:
    """Anything at all in a few words."""
    try:
        return printable(f"{type(thing).__name__} {thing!r}", 80)
    except FOREIGN:
        return type(thing).__name__


def _introduced(alone: Verdict | None) -> bool | None:
    if alone is None or alone.status in (Status.SKIPPED, Status.ERROR):
        return None
    return alone.status is Status.HELD


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`items` in batches of `size`, the last with what is left."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
