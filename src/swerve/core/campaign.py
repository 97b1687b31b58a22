"""A campaign and what it is made of: trials asked for, records told back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

from swerve.core.case import Case, Fact, Source
from swerve.core.encode import encode_change
from swerve.core.relation import Fault, Gate, Relation, Rule, Status, Verdict, calibrated
from swerve.core.seeding import digest_of
from swerve.core.system import Answer, System
from swerve.core.transformation import Transformation

ID_LENGTH = 16
Gain = Mapping[str, Mapping[str, Any]]  # what an input covers, by criterion; plain enough for a journal line
CUSTOM = "custom"  # the method of a campaign that no paper describes


@dataclass(frozen=True)
class Trial:
    """One question: this case, this rule, this draw; the change too where it is already fixed."""

    case: str
    rule: str
    draw: int
    change: Transformation | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells a trial from every other of its campaign."""
        return self.case, self.rule, self.draw


@dataclass(frozen=True)
class Observation:
    """What the system said of one untouched case; `fault` is why it cannot be used."""

    case: str
    group: str
    truth: Answer = ()
    said: Answer = ()
    input_sha: str = ""
    fault: str = ""
    readable: bool = True
    gain: Gain | None = None


class Outcome(NamedTuple):
    """All that is counted of a record."""

    rule: str
    status: Status
    kind: Fault | None
    introduced: bool | None


@dataclass(frozen=True)
class Record:
    """One trial and all that analysis needs to know of how it ended."""

    trial: Trial
    verdict: Verdict
    change: Transformation | None = None  # resolved; None where none could be made
    before: Answer = ()
    after: Answer = ()
    truth: Answer = ()  # mapped by the change
    introduced: bool | None = None  # None: no truth to tell by
    gain: Gain | None = None
    source_sha: str = ""
    input_sha: str = ""  # of the follow-up; only where the trial did not hold
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """The finding's name: case, rule and change, whatever the weights, so that two models can be compared."""
        return digest_of(self.trial.case, self.trial.rule, encode_change(self.change))[:ID_LENGTH]

    @property
    def ended(self) -> Outcome:
        """What is counted of it."""
        return Outcome(self.trial.rule, self.verdict.status, self.verdict.kind, self.introduced)


@dataclass(frozen=True)
class Plan:
    """All a search may know when it starts."""

    keys: Sequence[str]
    rules: Sequence[Rule]
    seed: int
    baseline: Mapping[str, Observation]
    inference_batch: int
    coverage: CoverageMeter | None = None


class CoverageMeter(Protocol):
    """Measures what inputs cover inside a system, in the pass that answers them."""

    def measured(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Sequence[Gain]]:
        """Answers, and what each case covers by itself."""

    def joined(self, gains: Iterable[Gain | None]) -> Gain:
        """What some inputs cover together."""

    def counts(self, gain: Gain) -> Mapping[str, Mapping[str, int]]:
        """Covered and total by criterion."""


class Session(Protocol):
    """A search under way.

    One that never asks the same change of a case twice, across asks, may say `distinct = True`. If its search does not learn
    either, it is not told what was committed by an earlier process.
    """

    @property
    def total(self) -> int | None:
        """How many trials there will be, where that is known."""

    def ask(self) -> Sequence[Trial]:
        """The next trials, or none when the search is done."""

    def tell(self, records: Sequence[Record]) -> None:
        """The outcome of the last ask, in its order."""


@runtime_checkable
class Search(Protocol):
    """How trials are chosen. The same plan and the same records told must lead to the same trials asked.

    One whose asks do not depend on what it is told may say `learns = False`, as an attribute of its class: it is then asked
    ahead, and its trials are taken for a sample, the same of any system.
    """

    def start(self, plan: Plan) -> Session:
        """A new session."""


def learns(search: Search) -> bool:
    """Whether the trials of a search hang on what it is told; so it is unless it says otherwise."""
    return bool(getattr(search, "learns", True))


@dataclass(frozen=True)
class Campaign:
    """Everything that decides the outcome: cases, system, rules, search, gate and seed."""

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
            raise ValueError(f"two rules are named '{twice[0]}'")
        for name, low in (("seed", 0), ("inference_batch", 1)):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < low:
                raise ValueError(f"{name} must be a whole number of at least {low}, got {number!r}")
        gate = () if self.gate is None else ((self.gate, Gate),)
        for part, kind in ((self.source, Source), (self.system, System), (self.search, Search), *gate):
            if not isinstance(part, kind):
                raise TypeError(f"expected a {kind.__name__.lower()}, got {type(part).__name__}")

    def rule(self, name: str) -> Rule:
        """The rule of that name."""
        return next(rule for rule in self.rules if rule.name == name)


def calibrate(rule: Rule, baseline: Sequence[Observation]) -> Rule:
    """`rule` with the numbers of its relation fixed from the baseline."""
    expect: Relation = calibrated(rule.expect, baseline)
    return Rule(rule.name, rule.change, expect)
