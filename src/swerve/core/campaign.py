"""A campaign and its parts: trials that a search asks for, and records of their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

from swerve.core.arguments import check_whole
from swerve.core.case import Case, Fact, Source
from swerve.core.encode import encode_change
from swerve.core.relation import Fault, Gate, Relation, Rule, Status, Verdict, calibrated
from swerve.core.seeding import digest_of
from swerve.core.system import Answer, System
from swerve.core.transformation import Transformation

ID_LENGTH = 16
Gain = Mapping[str, Mapping[str, Any]]  # what an input covers, by criterion, as plain JSON for the journal
CUSTOM = "custom"  # the method of a campaign that follows no paper


@dataclass(frozen=True)
class Trial:
    """One test to run: a case, a rule and a draw number; `change` is given where the search has fixed it."""

    case: str
    rule: str
    draw: int
    change: Transformation | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """Identifies the trial within its campaign."""
        return self.case, self.rule, self.draw


@dataclass(frozen=True)
class Observation:
    """The system's answer on one unchanged case; `fault` is the reason why it cannot be used."""

    case: str
    group: str
    truth: Answer = ()
    said: Answer = ()
    input_sha: str = ""
    fault: str = ""
    readable: bool = True
    gain: Gain | None = None


class Outcome(NamedTuple):
    """The part of a record that is counted."""

    rule: str
    status: Status
    kind: Fault | None
    introduced: bool | None


@dataclass(frozen=True)
class Record:
    """One trial with its outcome and everything that the analysis needs."""

    trial: Trial
    verdict: Verdict
    change: Transformation | None = None  # resolved; None if none could be proposed
    before: Answer = ()
    after: Answer = ()
    truth: Answer = ()  # label, mapped by the change
    introduced: bool | None = None  # None: unknown, without a label
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
        return Outcome(self.trial.rule, self.verdict.status, self.verdict.kind, self.introduced)


@dataclass(frozen=True)
class Plan:
    """Everything a search may use when it starts."""

    keys: Sequence[str]
    rules: Sequence[Rule]
    seed: int
    baseline: Mapping[str, Observation]
    inference_batch: int
    coverage: CoverageMeter | None = None


class CoverageMeter(Protocol):
    """Measures what inputs cover inside a system, in the same forward pass that answers them."""

    def measured(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Sequence[Gain]]:
        """The answers, and what each case covers on its own."""

    def joined(self, gains: Iterable[Gain | None]) -> Gain:
        """The union of what some inputs cover."""

    def counts(self, gain: Gain) -> Mapping[str, Mapping[str, int]]:
        """The number of covered regions and of all regions, by criterion."""


class Session(Protocol):
    """A search in progress.

    A session that never asks for the same change of a case twice may set `distinct = True`. If its search does not learn
    either, a resumed run does not replay earlier records to it.
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
    """

    def start(self, plan: Plan) -> Session:
        """Start a new session."""


def learns(search: Search) -> bool:
    """Whether the trials of a search depend on its records; True unless the search declares otherwise."""
    return bool(getattr(search, "learns", True))


@dataclass(frozen=True)
class Campaign:
    """Everything that determines the result of a run: cases, system, rules, search, gate and seed."""

    source: Source
    system: System
    rules: tuple[Rule, ...]
    search: Search
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
        gate = () if self.gate is None else ((self.gate, Gate),)
        for part, kind in ((self.source, Source), (self.system, System), (self.search, Search), *gate):
            if not isinstance(part, kind):
                raise TypeError(f"expected a {kind.__name__.lower()}, got {type(part).__name__}")

    def rule(self, name: str) -> Rule:
        """The rule of that name."""
        return next(rule for rule in self.rules if rule.name == name)


def calibrate(rule: Rule, baseline: Sequence[Observation]) -> Rule:
    """`rule` with the limits of its relation computed from the baseline."""
    expect: Relation = calibrated(rule.expect, baseline)
    return Rule(rule.name, rule.change, expect)
