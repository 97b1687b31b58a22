"""What must hold between a case and its follow-up: a comparison plus a reference, with a signed margin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from swerve.core.case import Case, Fact
from swerve.core.space import Space, as_space
from swerve.core.system import Answer
from swerve.core.transformation import Transformation
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
    """What an ERROR was: of the model, its time, memory or process, or of the change or the relation itself."""

    MODEL = "model"
    TIMEOUT = "timeout"
    OOM = "oom"
    SIGNAL = "signal"
    CHANGE = "change"
    RELATION = "relation"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check. The status rules; the margin is the signed distance to the limit, > 0 when violated."""

    status: Status
    margin: float | None = None
    why: str = ""
    kind: Fault | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict, compare=False)  # what was counted on the way, for tables

    def __post_init__(self) -> None:
        # A user's relation may hand over numpy numbers; a journal line holds plain ones.
        object.__setattr__(self, "status", Status(self.status))
        object.__setattr__(self, "why", str(self.why))
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))
        if self.status in (Status.HELD, Status.VIOLATED):
            object.__setattr__(self, "margin", float(self.margin or 0.0))

    @staticmethod
    def at_most(distance: float, limit: float, why: str) -> Verdict:
        """Held while `distance` ≤ `limit`."""
        return _judge(distance, limit, why, violated=distance > limit)

    @staticmethod
    def below(distance: float, limit: float, why: str) -> Verdict:
        """Held while `distance` < `limit`: on the limit it is violated."""
        return _judge(distance, limit, why, violated=distance >= limit)

    @staticmethod
    def at_least(amount: float, limit: float, why: str) -> Verdict:
        """Held while `amount` ≥ `limit`."""
        return _judge(-amount, -limit, why, violated=amount < limit)

    @staticmethod
    def skipped(why: str) -> Verdict:
        """Nothing could be checked, for a stated reason."""
        return Verdict(Status.SKIPPED, None, why)

    @staticmethod
    def error(why: str, kind: Fault = Fault.MODEL) -> Verdict:
        """The check could not be trusted; never counted as held or violated."""
        return Verdict(Status.ERROR, None, why, kind)


def _judge(distance: float, limit: float, why: str, *, violated: bool) -> Verdict:
    # NaN compares False with everything, so it would pass any limit by accident (R20).
    if not (math.isfinite(distance) and math.isfinite(limit)):
        return Verdict.error(f"{why}: compared {distance} with {limit}")
    return Verdict(Status.VIOLATED if violated else Status.HELD, distance - limit, why)


@dataclass(frozen=True)
class Pair:
    """A case and its follow-up, with what the system said of both."""

    source: Case
    followup: Case
    change: Transformation
    before: Answer
    after: Answer

    @cached_property
    def expected(self) -> Answer:
        """What the system should say of the follow-up, given what it said of the source."""
        return tuple(self.change.map(value) for value in self.before)


@runtime_checkable
class Relation(Protocol):
    """What must hold.

    A relation may also offer `calibrate(baseline)`, which returns a relation with its numbers fixed, and `untouched(pair)`,
    its verdict (or None) on a source alone, held against its truth; without it, `check` is asked.
    """

    def check(self, pair: Pair) -> Verdict:
        """The verdict on one pair."""


@runtime_checkable
class Comparison(Protocol):
    """How two values of one slot are compared. It may have the `name` of a signal, and `calibrate` as a relation may."""

    @property
    def slot(self) -> str:
        """The slot it compares."""

    def compare(self, expected: Value, actual: Value) -> Verdict:
        """The verdict on `actual`, given what was `expected`."""


def _check_relations(relations: Sequence[object]) -> None:
    if not relations or not all(isinstance(relation, Relation) for relation in relations):
        raise TypeError(f"relations must be one or more relations, got {relations!r}")


def _check_comparison(compare: object) -> None:
    if not isinstance(compare, Comparison):
        raise TypeError(f"compare must be a comparison, got {type(compare).__name__}")


class Algebra:
    """Lets relations be combined with `&` and `|`."""

    def __and__(self, other: Relation) -> Both:
        return Both((self, other))  # type: ignore[arg-type]

    def __or__(self, other: Relation) -> Either:
        return Either((self, other))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Equivariant(Algebra):
    """The answer must be what the change makes of the source's answer."""

    compare: Comparison

    def __post_init__(self) -> None:
        _check_comparison(self.compare)

    def check(self, pair: Pair) -> Verdict:
        return _compare(self.compare, pair.expected, pair.after)

    def calibrate(self, baseline: Sequence[Observation]) -> Equivariant:
        return Equivariant(calibrated(self.compare, baseline))


@dataclass(frozen=True)
class Correct(Algebra):
    """The answer must be what the change makes of the truth."""

    compare: Comparison

    def __post_init__(self) -> None:
        _check_comparison(self.compare)

    def check(self, pair: Pair) -> Verdict:
        if _found(self.compare, pair.followup.truth) is None:
            return Verdict.skipped(f"no {self.compare.slot} label")
        return _compare(self.compare, pair.followup.truth, pair.after)

    def calibrate(self, baseline: Sequence[Observation]) -> Correct:
        return Correct(calibrated(self.compare, baseline))


@dataclass(frozen=True)
class Agreement(Algebra):
    """The members of an ensemble must agree on the follow-up; the margin is the worst.

    Args:
        compare: how two members' values are compared.
        between: `first`, every member against the first, or `each`, every two members.
    """

    compare: Comparison
    between: str = "first"

    def __post_init__(self) -> None:
        _check_comparison(self.compare)
        if self.between not in ("first", "each"):
            raise ValueError(f"between must be first or each, got {self.between!r}")

    def check(self, pair: Pair) -> Verdict:
        said = next((group.values for group in pair.after if isinstance(group, Group) and self._is_about(group)), ())
        if len(said) < 2:
            what = f"{self.compare.slot} {getattr(self.compare, 'name', '')}".rstrip()
            return Verdict.error(f"agreement needs a group of at least two values of {what}, as an ensemble says them")
        places = combinations(range(len(said)), 2)
        chosen = [(one, other) for one, other in places if one == 0 or self.between == "each"]
        return _all_of([self._compared(said, one, other) for one, other in chosen])

    def untouched(self, alone: Pair) -> Verdict:
        """Whether the members agree on the source alone."""
        return self.check(alone)

    def calibrate(self, baseline: Sequence[Observation]) -> Agreement:
        return replace(self, compare=calibrated(self.compare, baseline))

    def _is_about(self, group: Group) -> bool:
        return all(_found(self.compare, (value,)) is not None for value in group.values)

    def _compared(self, said: Sequence[Value], one: int, other: int) -> Verdict:
        verdict = self.compare.compare(said[one], said[other])
        return replace(verdict, why=f"member {other + 1} against member {one + 1}: {verdict.why}")


@dataclass(frozen=True)
class Both(Algebra):
    """All relations must hold; the margin is the worst."""

    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        _check_relations(self.relations)

    def check(self, pair: Pair) -> Verdict:
        return _all_of([relation.check(pair) for relation in self.relations])

    def untouched(self, alone: Pair) -> Verdict | None:
        """What its parts say of the source alone."""
        verdicts = _judged_sources(self.relations, alone)
        return _all_of(verdicts) if verdicts else None

    def calibrate(self, baseline: Sequence[Observation]) -> Both:
        return Both(tuple(calibrated(relation, baseline) for relation in self.relations))


@dataclass(frozen=True)
class Either(Algebra):
    """One relation must hold; the margin is the best."""

    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        _check_relations(self.relations)

    def check(self, pair: Pair) -> Verdict:
        return _any_of([relation.check(pair) for relation in self.relations])

    def untouched(self, alone: Pair) -> Verdict | None:
        """What its parts say of the source alone."""
        verdicts = _judged_sources(self.relations, alone)
        return _any_of(verdicts) if verdicts else None

    def calibrate(self, baseline: Sequence[Observation]) -> Either:
        return Either(tuple(calibrated(relation, baseline) for relation in self.relations))


@dataclass(frozen=True)
class OnlyIf(Algebra):
    """The relation, where `condition` holds of the pair; skipped elsewhere."""

    condition: Callable[[Pair], bool]
    relation: Relation

    def check(self, pair: Pair) -> Verdict:
        return self.relation.check(pair) if self.condition(pair) else Verdict.skipped("the condition does not hold")

    def untouched(self, alone: Pair) -> Verdict | None:
        """What the relation says of the source alone; the condition is about pairs."""
        return judge_source(self.relation, alone)

    def calibrate(self, baseline: Sequence[Observation]) -> OnlyIf:
        return OnlyIf(self.condition, calibrated(self.relation, baseline))


def judge_source(relation: Relation, alone: Pair) -> Verdict | None:
    """The relation's verdict on an untouched case, or None where it has no say about one case alone."""
    own = getattr(relation, "untouched", None)
    verdict: Verdict | None = own(alone) if callable(own) else relation.check(alone)
    return verdict


def _judged_sources(relations: Sequence[Relation], alone: Pair) -> list[Verdict]:
    return [verdict for verdict in (judge_source(relation, alone) for relation in relations) if verdict is not None]


def calibrated(part: Any, baseline: Sequence[Observation]) -> Any:
    """`part` with its numbers fixed from the baseline, where it has any to fix."""
    calibrate = getattr(part, "calibrate", None)
    return calibrate(baseline) if callable(calibrate) else part


def _compare(compare: Comparison, expected: Answer, actual: Answer) -> Verdict:
    wanted, said = _found(compare, expected), _found(compare, actual)
    if wanted is None or said is None:
        of = "source" if wanted is None else "follow-up"
        return Verdict.error(f"the system said no {compare.slot} {getattr(compare, 'name', '')}".rstrip() + f" of the {of}")
    return compare.compare(wanted, said)


def _found(compare: Comparison, values: Answer) -> Value | None:
    """The value a comparison is about; signals go by their name too."""
    return find(values, compare.slot, getattr(compare, "name", None))


def _all_of(verdicts: Sequence[Verdict]) -> Verdict:
    return _combined(verdicts, (Status.ERROR, Status.VIOLATED, Status.HELD), max)


def _any_of(verdicts: Sequence[Verdict]) -> Verdict:
    return _combined(verdicts, (Status.ERROR, Status.HELD, Status.VIOLATED), min)


def _combined(verdicts: Sequence[Verdict], ranking: tuple[Status, ...], best: Callable[..., Verdict]) -> Verdict:
    """The first status of `ranking` that any verdict has, with the `best` margin among those; skipped if all are."""
    for status in ranking:
        if having := [verdict for verdict in verdicts if verdict.status is status]:
            chosen = best(having, key=lambda verdict: verdict.margin if verdict.margin is not None else 0.0)
            told = {name: fact for verdict in verdicts for name, fact in verdict.facts.items()}
            return replace(chosen, facts={**told, **chosen.facts})
    return verdicts[0]


@dataclass(frozen=True)
class Rule:
    """A named metamorphic relation: the changes to make and what must hold after them."""

    name: str
    change: Space
    expect: Relation

    def __init__(self, name: str, change: Space | Transformation | type[Transformation], expect: Relation) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"a rule needs a name, got {name!r}")
        if not isinstance(expect, Relation):
            raise TypeError(f"rule '{name}': expect must be a relation, got {type(expect).__name__}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "change", as_space(change))
        object.__setattr__(self, "expect", expect)


@runtime_checkable
class Gate(Protocol):
    """Decides whether a follow-up is valid enough to count.

    One with `first_frame = True` goes by the first frame of a window alone, and is asked before the others are made.
    """

    def admit(self, source: Case, followup: Case) -> str | None:
        """A reason to reject the follow-up, or None."""
