"""Metamorphic relations: what must hold between a case and its follow-up, judged with a signed margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

from swerve.core.arguments import OneOfNames, check_number
from swerve.core.case import Case, Fact
from swerve.core.fail_if import FailIf, texts
from swerve.core.gate import Gate
from swerve.core.origin import OF_ALL, OF_SOME, Attribution, Course, LeastShift, Origin, combined, origin_by_shift
from swerve.core.space import Space, as_space
from swerve.core.system import Answer
from swerve.core.transformation import Transformation, Unchanged
from swerve.core.values import Group, Value, find

if TYPE_CHECKING:
    from swerve.core.campaign import Observation


class Status(StrEnum):
    """How a trial ended."""

    HELD = "held"
    VIOLATED = "violated"
    SKIPPED = "skipped"
    ERROR = "error"


class Fault(StrEnum):
    """What caused an ERROR: the model, its time, memory or process, or the change or relation itself."""

    MODEL = "model"
    TIMEOUT = "timeout"
    OOM = "oom"
    SIGNAL = "signal"
    CHANGE = "change"
    RELATION = "relation"


@dataclass(frozen=True)
class Verdict:
    """The result of a check. The margin is the signed distance to the limit; the status decides if the two disagree."""

    status: Status
    margin: float | None = None
    why: str = ""
    kind: Fault | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict, compare=False)  # further numbers for the tables

    def __post_init__(self) -> None:
        # A user's relation may return numpy numbers; the journal needs plain ones.
        object.__setattr__(self, "status", Status(self.status))
        object.__setattr__(self, "why", str(self.why))
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))
        if self.status in (Status.HELD, Status.VIOLATED):
            object.__setattr__(self, "margin", float(self.margin or 0.0))

    @staticmethod
    def at_most(distance: float, limit: float, why: str) -> Verdict:
        """Held if `distance` ≤ `limit`."""
        return _judge(distance, limit, why, violated=distance > limit)

    @staticmethod
    def below(distance: float, limit: float, why: str) -> Verdict:
        """Held if `distance` < `limit`, violated at the limit."""
        return _judge(distance, limit, why, violated=distance >= limit)

    @staticmethod
    def at_least(amount: float, limit: float, why: str) -> Verdict:
        """Held if `amount` ≥ `limit`."""
        return _judge(-amount, -limit, why, violated=amount < limit)

    @staticmethod
    def skipped(why: str) -> Verdict:
        """The check was not possible, for the reason given."""
        return Verdict(Status.SKIPPED, None, why)

    @staticmethod
    def error(why: str, kind: Fault = Fault.MODEL) -> Verdict:
        """The check failed; it counts neither as held nor as violated."""
        return Verdict(Status.ERROR, None, why, kind)


def _judge(distance: float, limit: float, why: str, *, violated: bool) -> Verdict:
    # NaN compares False with everything and would pass any limit (R20).
    if not (math.isfinite(distance) and math.isfinite(limit)):
        return Verdict.error(f"{why}: compared {distance} with {limit}")
    return Verdict(Status.VIOLATED if violated else Status.HELD, distance - limit, why)


@dataclass(frozen=True)
class Pair:
    """A case and its follow-up, with the system's answers to both."""

    source: Case
    followup: Case
    change: Transformation
    before: Answer
    after: Answer

    @cached_property
    def expected(self) -> Answer:
        """The answer expected on the follow-up: the answer on the source, mapped by the change."""
        return tuple(self.change.map(value) for value in self.before)

    def untouched(self, reference: Answer) -> Pair:
        """The untouched case as its own follow-up, its answer expected to be `reference`."""
        return Pair(self.source, self.source, Unchanged(), reference, self.before)


@runtime_checkable
class Relation(Protocol):
    """What must hold between a case and its follow-up.

    A relation may also have `calibrate(baseline)`, which returns a relation with its limits computed; `untouched(pair)`, its
    verdict (or None) on an unchanged case compared with its label; and `origin(pair, least)`, where a violation comes from.
    Without them, `check` is used.
    """

    def check(self, pair: Pair) -> Verdict:
        """The verdict on one pair."""


@runtime_checkable
class Comparison(Protocol):
    """Compares two values of one slot.

    It may have the `name` of a signal, `calibrate` like a relation, and `origin(course)`, where a violation comes from.
    """

    @property
    def slot(self) -> str:
        """The slot of the values."""

    def compare(self, expected: Value, actual: Value) -> Verdict:
        """The verdict on `actual`, compared with `expected`."""


def _check_relations(relations: Sequence[object]) -> None:
    if not relations or not all(isinstance(relation, Relation) for relation in relations):
        raise TypeError(f"'relations' must be a list of one or more relations, got {relations!r}")


def _check_comparison(compare: object) -> None:
    if not isinstance(compare, Comparison):
        raise TypeError(f"'compare' must be a comparison such as AngleWithin, got {type(compare).__name__}")


class Algebra:
    """Base class of relations that can be combined with `&` and `|`."""

    def __and__(self, other: Relation) -> Both:
        return Both((self, other))  # type: ignore[arg-type]

    def __or__(self, other: Relation) -> Either:
        return Either((self, other))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Equivariant(Algebra):
    """The answer on the follow-up must equal the answer on the source, mapped by the change."""

    compare: Comparison

    def __post_init__(self) -> None:
        _check_comparison(self.compare)

    def check(self, pair: Pair) -> Verdict:
        return _compare(self.compare, pair.expected, pair.after)

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        """Where a violation comes from; the label is ignored, so the untouched answer held."""
        return _compared_origin(self.compare, pair, (pair.before, pair.expected), least)

    def calibrate(self, baseline: Sequence[Observation]) -> Equivariant:
        return Equivariant(calibrated(self.compare, baseline))


@dataclass(frozen=True)
class Correct(Algebra):
    """The answer on the follow-up must equal the label, mapped by the change."""

    compare: Comparison

    def __post_init__(self) -> None:
        _check_comparison(self.compare)

    def check(self, pair: Pair) -> Verdict:
        if _value_for(self.compare, pair.followup.truth) is None:
            return Verdict.skipped(f"no {self.compare.slot} label")
        return _compare(self.compare, pair.followup.truth, pair.after)

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        """Where a violation comes from, by the labels of the untouched case and of the follow-up."""
        return _compared_origin(self.compare, pair, (pair.source.truth, pair.followup.truth), least)

    def calibrate(self, baseline: Sequence[Observation]) -> Correct:
        return Correct(calibrated(self.compare, baseline))


@dataclass(frozen=True)
class Agreement(Algebra):
    """The members of an ensemble must agree on the follow-up; the margin is that of the worst pair.

    Args:
        compare: how two members' values are compared.
        between: `first` compares every member with the first, `each` compares all pairs.
    """

    compare: Comparison
    between: Annotated[str, OneOfNames("first", "each")] = "first"

    def __post_init__(self) -> None:
        _check_comparison(self.compare)
        if self.between not in ("first", "each"):
            raise ValueError(f"'between' must be 'first' or 'each', got {self.between!r}")

    def check(self, pair: Pair) -> Verdict:
        answers = next((group.values for group in pair.after if isinstance(group, Group) and self._applies_to(group)), ())
        if len(answers) < 2:
            what = f"{self.compare.slot} {getattr(self.compare, 'name', '')}".rstrip()
            return Verdict.error(f"agreement needs the answers of an ensemble: a group of at least two values of {what}")
        places = combinations(range(len(answers)), 2)
        chosen = [(one, other) for one, other in places if one == 0 or self.between == "each"]
        return _all_of([self._compare(answers, one, other) for one, other in chosen])

    def untouched(self, alone: Pair) -> Verdict:
        """Whether the members agree on the unchanged case."""
        return self.check(alone)

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        """Where a disagreement comes from, by how far the members disagree on the unchanged case."""
        return _origin_by_margins(self.check(pair.untouched(pair.before)), self.check(pair), _shift_for(self.compare, least))

    def calibrate(self, baseline: Sequence[Observation]) -> Agreement:
        return replace(self, compare=calibrated(self.compare, baseline))

    def _applies_to(self, group: Group) -> bool:
        return all(_value_for(self.compare, (value,)) is not None for value in group.values)

    def _compare(self, answers: Sequence[Value], one: int, other: int) -> Verdict:
        verdict = self.compare.compare(answers[one], answers[other])
        return replace(verdict, why=f"member {other + 1} against member {one + 1}: {verdict.why}")


@dataclass(frozen=True)
class Both(Algebra):
    """All relations must hold; the margin is the worst of their margins."""

    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        _check_relations(self.relations)

    def check(self, pair: Pair) -> Verdict:
        return _all_of([relation.check(pair) for relation in self.relations])

    def untouched(self, alone: Pair) -> Verdict | None:
        """The combined verdict of its parts on the unchanged case."""
        verdicts = _source_verdicts(self.relations, alone)
        return _all_of(verdicts) if verdicts else None

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        """Introduced if the violation of any part is."""
        return combined(_attributions(self.relations, pair, least), OF_SOME)

    def calibrate(self, baseline: Sequence[Observation]) -> Both:
        return Both(tuple(calibrated(relation, baseline) for relation in self.relations))


@dataclass(frozen=True)
class Either(Algebra):
    """At least one relation must hold; the margin is the best of their margins."""

    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        _check_relations(self.relations)

    def check(self, pair: Pair) -> Verdict:
        return _any_of([relation.check(pair) for relation in self.relations])

    def untouched(self, alone: Pair) -> Verdict | None:
        """The combined verdict of its parts on the unchanged case."""
        verdicts = _source_verdicts(self.relations, alone)
        return _any_of(verdicts) if verdicts else None

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        """Introduced or marginal if any part held before."""
        return combined(_attributions(self.relations, pair, least), OF_ALL)

    def calibrate(self, baseline: Sequence[Observation]) -> Either:
        return Either(tuple(calibrated(relation, baseline) for relation in self.relations))


@dataclass(frozen=True)
class OnlyIf(Algebra):
    """The relation, skipped for pairs that do not meet `condition`."""

    condition: Callable[[Pair], bool]
    relation: Relation

    def check(self, pair: Pair) -> Verdict:
        return self.relation.check(pair) if self.condition(pair) else Verdict.skipped("the condition is not met")

    def untouched(self, alone: Pair) -> Verdict | None:
        """The verdict of the relation on the unchanged case; the condition applies to pairs only."""
        return judge_source(self.relation, alone)

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        """Where a violation of the relation comes from."""
        return attribute(self.relation, pair, self.relation.check(pair), least)

    def calibrate(self, baseline: Sequence[Observation]) -> OnlyIf:
        return OnlyIf(self.condition, calibrated(self.relation, baseline))


def judge_source(relation: Relation, alone: Pair) -> Verdict | None:
    """The relation's verdict on an unchanged case, or None if it cannot judge a single case."""
    own = getattr(relation, "untouched", None)
    verdict: Verdict | None = own(alone) if callable(own) else relation.check(alone)
    return verdict


def _source_verdicts(relations: Sequence[Relation], alone: Pair) -> list[Verdict]:
    return [verdict for verdict in (judge_source(relation, alone) for relation in relations) if verdict is not None]


def attribute(relation: Relation, pair: Pair, verdict: Verdict, least: LeastShift) -> Attribution:
    """Where a violation comes from, by the relation's own `origin`, or by the margins before and after the change."""
    own = getattr(relation, "origin", None)
    if callable(own):
        found: Attribution | str = own(pair, least)
        return found if isinstance(found, Attribution) else Attribution(Origin(found))
    judges_alone = callable(getattr(relation, "untouched", None))
    # A relation on the system's own answer holds for the untouched case whatever its label is.
    alone = pair.untouched(pair.source.truth if judges_alone else pair.before)
    return _origin_by_margins(judge_source(relation, alone), verdict, least.given)


def _attributions(relations: Sequence[Relation], pair: Pair, least: LeastShift) -> list[Attribution]:
    """The attribution of every relation that the pair violates."""
    verdicts = [(relation, relation.check(pair)) for relation in relations]
    return [attribute(one, pair, verdict, least) for one, verdict in verdicts if verdict.status is Status.VIOLATED]


def _compared_origin(compare: Comparison, pair: Pair, references: tuple[Answer, Answer], least: LeastShift) -> Attribution:
    """Where the violation of a comparison comes from; `references` are those of the untouched case and of the follow-up."""
    reference, before = _value_for(compare, references[0]), _value_for(compare, pair.before)
    expected, after = _value_for(compare, references[1]), _value_for(compare, pair.after)
    if reference is None or before is None or expected is None or after is None:
        return Attribution(Origin.UNKNOWN)
    course = Course(reference, before, expected, after, pair.change)
    own = getattr(compare, "origin", None)
    if callable(own):
        attribution: Attribution = own(course)
        return attribution
    alone = compare.compare(reference, before)
    if alone.status not in (Status.HELD, Status.VIOLATED):
        return Attribution(Origin.UNKNOWN)
    by_numbers = course.origin(held=alone.status is Status.HELD, least=_shift_for(compare, least))
    return by_numbers or _origin_by_margins(alone, compare.compare(expected, after), least.given)


def _shift_for(compare: Comparison, least: LeastShift) -> float | None:
    return least.of(compare.slot, getattr(compare, "name", None))


def _origin_by_margins(before: Verdict | None, after: Verdict, least: float | None) -> Attribution:
    if before is None or before.status not in (Status.HELD, Status.VIOLATED):
        return Attribution(Origin.UNKNOWN)
    grown = (after.margin or 0.0) - (before.margin or 0.0)
    if not math.isfinite(grown):
        return Attribution(Origin.UNKNOWN)
    return Attribution(origin_by_shift(held=before.status is Status.HELD, moved=grown, grown=grown, least=least))


def calibrated(part: Any, baseline: Sequence[Observation]) -> Any:
    """`part` with its limits computed from the baseline, if it has `calibrate`."""
    calibrate = getattr(part, "calibrate", None)
    return calibrate(baseline) if callable(calibrate) else part


def _compare(compare: Comparison, expected: Answer, actual: Answer) -> Verdict:
    wanted, answer = _value_for(compare, expected), _value_for(compare, actual)
    if wanted is None or answer is None:
        what = f"{compare.slot} {getattr(compare, 'name', '')}".rstrip()
        return Verdict.error(f"the system gave no {what} for the {'source' if wanted is None else 'follow-up'}")
    return compare.compare(wanted, answer)


def _value_for(compare: Comparison, values: Answer) -> Value | None:
    """The value that a comparison needs; signals are selected by name."""
    return find(values, compare.slot, getattr(compare, "name", None))


def _all_of(verdicts: Sequence[Verdict]) -> Verdict:
    return _combine(verdicts, (Status.ERROR, Status.VIOLATED, Status.HELD), max)


def _any_of(verdicts: Sequence[Verdict]) -> Verdict:
    return _combine(verdicts, (Status.ERROR, Status.HELD, Status.VIOLATED), min)


def _combine(verdicts: Sequence[Verdict], ranking: tuple[Status, ...], best: Callable[..., Verdict]) -> Verdict:
    """The verdict of the first status in `ranking` that occurs, with the `best` margin; skipped if all are."""
    for status in ranking:
        if having := [verdict for verdict in verdicts if verdict.status is status]:
            chosen = best(having, key=lambda verdict: verdict.margin if verdict.margin is not None else 0.0)
            facts = {name: fact for verdict in verdicts for name, fact in verdict.facts.items()}
            return replace(chosen, facts={**facts, **chosen.facts})
    return verdicts[0]


@dataclass(frozen=True)
class Rule:
    """A named metamorphic relation: the changes to apply and what must hold afterwards.

    Args:
        gate: decides which follow-ups of this rule are judged, beside the campaign's gate.
        least_shift: how far an answer must move to count, in degrees or in the signal's unit; by default 25% of the
            system's RMSE, and at least one degree of steering.
        fail_if: conditions such as `rate > 0.10`, any of which fails the rule; without one, any finding does.
        requirement: ids of the requirements that the rule tests, for reports.
    """

    name: str
    change: Space
    expect: Relation
    gate: Gate | None = None
    least_shift: float | None = None
    fail_if: tuple[str, ...] = ()
    requirement: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        change: Space | Transformation | type[Transformation],
        expect: Relation,
        *,
        gate: Gate | None = None,
        least_shift: float | None = None,
        fail_if: str | Sequence[str] = (),
        requirement: str | Sequence[str] = (),
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"the name of a rule must be a non-empty string, got {name!r}")
        if not isinstance(expect, Relation):
            raise TypeError(f"rule '{name}': 'expect' must be a relation, got {type(expect).__name__}")
        if gate is not None and not isinstance(gate, Gate):
            raise TypeError(f"rule '{name}': 'gate' must be a gate, got {type(gate).__name__}")
        if least_shift is not None:
            check_number("least_shift", least_shift, 0)
        given = {"name": name, "change": as_space(change), "expect": expect, "gate": gate}
        shift = None if least_shift is None else float(least_shift)
        accepted = {"fail_if": texts("fail_if", fail_if), "requirement": texts("requirement", requirement)}
        for key, part in {**given, "least_shift": shift, **accepted}.items():
            object.__setattr__(self, key, part)
        _ = self.conditions  # refuses what is no condition

    @property
    def conditions(self) -> tuple[FailIf, ...]:
        """The conditions of `fail_if`."""
        return tuple(map(FailIf.parse, self.fail_if))
