"""A campaign and its parts: trials that a search asks for, and records of their outcomes."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from swerve.core.arguments import check_whole
from swerve.core.case import Case, Fact, Source
from swerve.core.encode import encode_change
from swerve.core.gate import Gate
from swerve.core.names import OURS
from swerve.core.origin import Origin
from swerve.core.relation import Fault, Relation, Rule, Status, Verdict, calibrated
from swerve.core.seeding import Stream, digest_of, rng_for, rng_from
from swerve.core.space import Sequenced, Space, alternatives
from swerve.core.system import Answer, System
from swerve.core.transformation import Chain, Transformation

ID_LENGTH = 16
Gain = Mapping[str, Mapping[str, Any]]  # what an input covers, by criterion, as plain JSON for the journal
CUSTOM = "custom"  # the method of a campaign that follows no paper
USUAL_SEARCH = "sweep"
NEURONS, ALWAYS = "neurons", "always"  # of a linear layer: all, and those that are active on every untouched case


@dataclass(frozen=True)
class Continuation:
    """Further changes to a case that was changed before; each is drawn for the case as those before it left it.

    Args:
        made: the changes so far.
        kinds: for each further change, the number of the rule's alternative that it is drawn from.
        stream: the state of the random generator to draw with; None for that of the trial.
    """

    made: tuple[Transformation, ...]
    kinds: tuple[int, ...]
    stream: Stream | None = None

    def space(self, whole: Space) -> Space:
        """The further changes that the rule's space allows."""
        kinds = alternatives(whole)
        return Sequenced(tuple(kinds[kind] for kind in self.kinds))

    def begin(self, case: Case) -> Case:
        """The case as the changes so far leave it."""
        return Chain(self.made)(case) if self.made else case

    def chain(self, further: Chain) -> Chain:
        """All changes, those so far and the further ones."""
        return Chain((*self.made, *further.steps))


@dataclass(frozen=True)
class Trial:
    """One test to run: a case, a rule and a draw number.

    `change` is given where the search has fixed it. Otherwise it is drawn where the system is: from the rule's space, or as
    a chain that `continues` other changes. The search finds it in the record.
    """

    case: str
    rule: str
    draw: int
    change: Transformation | None = None
    continues: Continuation | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """Identifies the trial within its campaign."""
        return self.case, self.rule, self.draw

    def rng(self, seed: int) -> np.random.Generator:
        """The random numbers that its change is drawn with, from the start."""
        stream = self.continues and self.continues.stream
        return rng_from(stream) if stream else rng_for(seed, *self.key)


@dataclass(frozen=True)
class Observation:
    """The system's answer on one unchanged case; `fault` is the reason why it cannot be used."""

    case: str
    group: str
    truth: Answer = ()
    answer: Answer = ()
    input_sha: str = ""
    fault: str = ""
    readable: bool = True
    gain: Gain | None = None
    truth_sha: str = ""  # of the labels that are too large for the journal


class Outcome(NamedTuple):
    """The part of a record that is counted."""

    rule: str
    status: Status
    kind: Fault | None
    origin: Origin | None


@dataclass(frozen=True)
class Record:
    """One trial with its outcome and everything that the analysis needs."""

    trial: Trial
    verdict: Verdict
    change: Transformation | None = None  # resolved; None if none could be proposed
    before: Answer = ()
    after: Answer = ()
    truth: Answer = ()  # label, mapped by the change
    origin: Origin | None = None  # where a violation comes from; None for other trials
    gain: Gain | None = None
    source_sha: str = ""
    input_sha: str = ""  # of the follow-up; only for trials that did not hold
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """The id of the finding, from case, rule and change only, so that runs of two models can be compared."""
        return digest_of(self.trial.case, self.trial.rule, encode_change(self.change))[:ID_LENGTH]

    @property
    def outcome(self) -> Outcome:
        """The part that is counted."""
        return Outcome(self.trial.rule, self.verdict.status, self.verdict.kind, self.origin)


@dataclass(frozen=True)
class Plan:
    """Everything a search may use when it starts."""

    keys: Sequence[str]
    rules: Sequence[Rule]
    seed: int
    baseline: Mapping[str, Observation]
    inference_batch: int
    coverage: CoverageMeter | None = None
    covered: Gain | None = None  # by the unchanged cases together, if coverage is measured


class CoverageMeter(Protocol):
    """Measures what inputs cover inside a system, in the same forward pass that answers them."""

    def measured(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Sequence[Gain]]:
        """The answers, and what each case covers on its own."""

    def joined(self, gains: Iterable[Gain | None]) -> Gain:
        """The union of what some inputs cover."""

    def counts(self, gain: Gain) -> Mapping[str, Mapping[str, int]]:
        """The number of covered regions and of all regions, by criterion."""


@runtime_checkable
class MergingMeter(CoverageMeter, Protocol):
    """A meter that can also measure what many inputs cover together, for a search that needs no more."""

    def measured_together(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Gain]:
        """The answers, and what all cases cover together."""

    def beyond(self, gain: Gain, known: Gain) -> Gain:
        """The part of `gain` that `known` does not cover."""


@runtime_checkable
class ProfilingMeter(CoverageMeter, Protocol):
    """A meter that may have to run the system on a data set before its first measurement."""

    def prepare(self, system: System, source: Source) -> None:
        """Do that now, if `system` can be run on the first case of `source`."""


class Session(Protocol):
    """A search in progress.

    A session that never asks for the same change of a case twice may set `distinct = True`. If its search does not learn
    either, a resumed run does not replay earlier records to it.

    With a search that has `gain_per_ask = True`, `tell_gain(gain)` is called before `tell`, if the session has it: `gain` is
    what the last trials cover that nothing before them did, or that the session's own `covered` lacks, if it has that
    attribute. Their records have no gain.

    A session may have `results()`: what it found in all, as JSON for `summary.json`.
    """

    @property
    def total(self) -> int | None:
        """The number of trials in all, if known."""

    def ask(self) -> Sequence[Trial]:
        """The next trials; none when the search is finished."""

    def tell(self, records: Sequence[Record]) -> None:
        """Take the records of the last trials asked for, in the same order."""


@runtime_checkable
class Search(Protocol):
    """Chooses trials. The same plan and the same records must lead to the same trials.

    A search whose trials do not depend on the records may set the class attribute `learns = False`: trials are then
    requested in advance, and treated as a sample that is the same for every system.

    A search that asks one change of many cases, and needs only what they cover together, may set `gain_per_ask = True`: the
    journal then has one gain per ask, and not one per trial.
    """

    def start(self, plan: Plan) -> Session:
        """Start a new session."""


def learns(search: Search) -> bool:
    """Whether the trials of a search depend on its records; True unless the search declares otherwise."""
    return bool(getattr(search, "learns", True))


def has_gain_per_ask(search: Search) -> bool:
    """Whether coverage is recorded once per ask and not with every trial; False unless the search declares otherwise."""
    return bool(getattr(search, "gain_per_ask", False))


def usual_search() -> Search:
    """The search of a campaign that names none: a sweep over all cases."""
    module, _, name = OURS["searches"][USUAL_SEARCH].partition(":")
    search: Search = getattr(importlib.import_module(module), name)()
    return search


@dataclass(frozen=True)
class Campaign:
    """Everything that determines the result of a run: cases, system, rules, search, gate and seed."""

    source: Source
    system: System
    rules: tuple[Rule, ...]
    search: Search = field(default_factory=lambda: usual_search())
    gate: Gate | None = None
    coverage: CoverageMeter | None = None
    seed: int = 0
    inference_batch: int = 16
    method: str = CUSTOM

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        if not self.rules:
            raise ValueError("a campaign needs at least one rule")
        names = [rule.name for rule in self.rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"rule names must be unique, but two rules are named '{twice[0]}'")
        for name, low in (("seed", 0), ("inference_batch", 1)):
            check_whole(name, getattr(self, name), low)
            object.__setattr__(self, name, int(getattr(self, name)))  # a numpy number cannot be hashed as JSON
        self._check_conditions()
        gate = () if self.gate is None else ((self.gate, Gate),)
        for part, kind in ((self.source, Source), (self.system, System), (self.search, Search), *gate):
            if not isinstance(part, kind):
                raise TypeError(
                    f"the {kind.__name__.lower()} of a campaign must be a {kind.__name__}, got {type(part).__name__}"
                )

    def _check_conditions(self) -> None:
        """Refuse a condition on the interval of a rate where the trials are not a sample."""
        for rule in self.rules:
            needing = [one.text for one in rule.conditions if one.needs_interval]
            if needing and isinstance(self.search, Search) and learns(self.search):
                raise ValueError(
                    f"rule '{rule.name}': fail_if = '{needing[0]}' needs an interval, but the search adapts to results, so "
                    f"its trials are not a sample; use 'rate', 'violated' or 'map_drop'"
                )

    def rule(self, name: str) -> Rule:
        """The rule of that name."""
        return next(rule for rule in self.rules if rule.name == name)

    def gates(self, rule: Rule) -> tuple[Gate, ...]:
        """The gates that a follow-up of `rule` must pass: the campaign's, then the rule's own."""
        return tuple(gate for gate in (self.gate, rule.gate) if gate is not None)


def calibrate(rule: Rule, baseline: Sequence[Observation]) -> Rule:
    """`rule` with the limits of its relation computed from the baseline."""
    expect: Relation = calibrated(rule.expect, baseline)
    return replace(rule, expect=expect)
