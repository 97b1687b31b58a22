"""Spaces of changes: a space proposes transformations with all parameters fixed."""

from __future__ import annotations

import dataclasses
import itertools
import math
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable, did_you_mean
from swerve.core.transformation import Chain, Transformation, check_declared, params_of, plain_name

if TYPE_CHECKING:
    from swerve.core.system import System

T = TypeVar("T")
SEED = "seed"
LARGEST_SEED = 2**31
GRID = "grid"


Proposal = Transformation | NotApplicable  # a change, or the reason why there is none


@runtime_checkable
class Space(Protocol):
    """A set of changes to draw from.

    A space may also have `propose_all(cases, rngs, system)`, which returns a proposal for each of several cases, for example
    from one forward pass. A space that reads neither the case nor the system may set the class attribute `reads = False`:
    changes that come before its own in a sequence then need not be applied for it.
    """

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        """One change for `case`; raises `NotApplicable` if there is none."""

    def grid(self) -> Sequence[Transformation]:
        """All changes in order, or () for a space that cannot be listed."""


def propose_all(space: Space, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> list[Proposal]:
    """One proposal per case: by the space's own `propose_all`, or else from one `propose` after the other."""
    together = getattr(space, "propose_all", None)
    if not callable(together):
        return [_propose_one(space, case, rng, system) for case, rng in zip(cases, rngs, strict=True)]
    proposals = list(together(cases, rngs, system)) if cases else []
    if len(proposals) != len(cases):
        raise InputError(
            f"{type(space).__name__} proposed {len(proposals)} changes for {len(cases)} cases; it must propose one for each"
        )
    return proposals


def _propose_one(space: Space, case: Case, rng: np.random.Generator, system: System) -> Proposal:
    try:
        return space.propose(case, rng, system)
    except NotApplicable as reason:
        return reason


def reads(space: Space) -> bool:
    """Whether proposals of a space may depend on the case or the system; True unless the space declares otherwise."""
    return bool(getattr(space, "reads", True))


class BatchSpace:
    """A space that proposes for many cases at once: a subclass has `propose_all`, and inherits `propose`."""

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> Sequence[Proposal]:
        """A change for each case, or a `NotApplicable` with the reason why there is none."""
        raise NotImplementedError

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        """One change for `case`; raises `NotApplicable` if there is none."""
        (proposal,) = propose_all(self, [case], [rng], system)
        if isinstance(proposal, NotApplicable):
            raise proposal
        return proposal

    def grid(self) -> Sequence[Transformation]:
        """Empty: the changes depend on the case."""
        return ()


@dataclass(frozen=True)
class Range:
    """A number anywhere from `low` to `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (self.low, self.high))
        if not numbers or not math.isfinite(self.high - self.low) or self.low >= self.high:
            raise ValueError(f"a range needs two finite numbers in increasing order, got [{self.low!r}, {self.high!r}]")


@dataclass(frozen=True)
class Choices:
    """One of the listed values."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise ValueError("'choices' must contain at least one value")


Domain = float | int | str | bool | Range | Choices | tuple[float, float] | Asset


@dataclass(frozen=True, init=False)
class Over:
    """Changes of one class: each parameter is a fixed value, a `Range`, `Choices`, or "grid" for the paper's values.

    A parameter that is not given is drawn from its usual range, or neutral if another has a grid. Grids advance together,
    as in the papers' tables.
    """

    kind: type[Transformation]
    domains: Mapping[str, Domain]
    reads: ClassVar[bool] = False

    def __init__(self, kind: type[Transformation], /, **domains: Domain) -> None:
        object.__setattr__(self, "kind", kind)
        check_declared(kind)
        object.__setattr__(self, "domains", MappingProxyType(_complete(kind, domains)))
        for sample in self.samples():
            self.kind(**sample)  # reports an invalid value now instead of in the middle of a campaign

    def samples(self) -> Iterator[dict[str, Any]]:
        """Arguments that together contain every listed value and both ends of every range."""
        listed = {name: _ends(domain) for name, domain in self.domains.items() if name not in self._grids()}
        rows = self._grid_rows()
        for index in range(max([len(rows), *map(len, listed.values())], default=1)):
            row = {name: values[min(index, len(values) - 1)] for name, values in listed.items()}
            yield {**row, **rows[min(index, len(rows) - 1)]}

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        del case, system
        row = _pick(self._grid_rows(), rng)
        free = {name: domain for name, domain in self.domains.items() if name not in row}
        return self.kind(**row, **{name: self._draw(name, domain, rng) for name, domain in free.items()})

    def grid(self) -> Sequence[Transformation]:
        if any(isinstance(domain, Range) for domain in self.domains.values()):
            return ()
        lists = {n: d.values if isinstance(d, Choices) else (d,) for n, d in self.domains.items() if n not in self._grids()}
        rows = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
        return tuple(self.kind(**row, **table) for row in rows for table in self._grid_rows())

    def _grids(self) -> dict[str, tuple[float, ...]]:
        declared = params_of(self.kind)
        return {name: declared[name].grid for name, domain in self.domains.items() if domain == GRID and name in declared}

    def _grid_rows(self) -> list[dict[str, float]]:
        grids = self._grids()
        if len({len(grid) for grid in grids.values()}) > 1:
            raise ValueError(
                f"the grids of {', '.join(grids)} must have the same length, because they are "
                f"swept together; give a number, a range or choices for some of them"
            )
        return [dict(zip(grids, row, strict=True)) for row in zip(*grids.values(), strict=True)] if grids else [{}]

    def _draw(self, name: str, domain: Domain, rng: np.random.Generator) -> Any:
        if isinstance(domain, Choices):
            return _pick(domain.values, rng)
        if not isinstance(domain, Range):
            return domain
        facts = params_of(self.kind).get(name)
        if facts is None and _hint(self.kind, name) is not int:
            return float(rng.uniform(domain.low, domain.high))
        if facts is None or facts.integer:
            step = facts.step if facts else 1
            return int(domain.low + step * rng.integers(int(domain.high - domain.low) // step, endpoint=True))
        return min(max(facts.tidy(rng.uniform(domain.low, domain.high)), domain.low), domain.high)


def _complete(kind: type[Transformation], given: Mapping[str, Domain]) -> dict[str, Domain]:
    """`given` checked against the class, with missing parameters filled in."""
    declared = params_of(kind)
    names = {item.name: item for item in dataclasses.fields(kind)}
    for name in given:
        if name not in names:
            raise ValueError(f"{plain_name(kind)} has no parameter '{name}'; {did_you_mean(name, names)}")
    domains: dict[str, Domain] = {}
    for name, item in names.items():
        if name in given:
            domains[name] = given[name]
        elif name in declared and GRID in given.values():
            domains[name] = declared[name].neutral
        elif name in declared:
            domains[name] = Range(*declared[name].usual)
        elif name == SEED:
            domains[name] = Range(0, LARGEST_SEED)
        elif item.default is not dataclasses.MISSING:
            domains[name] = item.default
        else:
            raise ValueError(f"{plain_name(kind)} needs a value for '{name}'")
    return {name: _check_domain(kind, name, domain) for name, domain in domains.items()}


def _check_domain(kind: type[Transformation], name: str, domain: Domain) -> Domain:
    """`domain` checked against the declared parameter, its numbers converted to the declared type."""
    domain = _plain_domain(kind, name, domain)
    facts = params_of(kind).get(name)
    if facts is None:
        return _check_undeclared(kind, name, domain)
    if domain == GRID:
        if not facts.grid:
            raise ValueError(f"{plain_name(kind)}.{name} has no grid to sweep; give a number, a range or choices")
        return domain
    if isinstance(domain, Range):
        return Range(facts.take(name, domain.low), facts.take(name, domain.high))
    if isinstance(domain, Choices):
        return Choices(tuple(facts.take(name, value) for value in domain.values))
    return facts.take(name, domain)


def _plain_domain(kind: type[Transformation], name: str, domain: Any) -> Domain:
    """`domain` with what a campaign file may write too: a pair for a range, and the path of a file for an asset."""
    hints = options(_hint(kind, name))
    if Asset in hints and isinstance(domain, Choices):
        return Choices(tuple(map(_asset, domain.values)))
    if isinstance(domain, tuple | list) and not any(hint is tuple or typing.get_origin(hint) is tuple for hint in hints):
        if len(domain) != 2:
            raise ValueError(f"{plain_name(kind)}.{name}: a range is a pair (low, high), got {domain!r}; a set is Choices")
        return Range(*domain)
    plain: Domain = _asset(domain) if Asset in hints else domain
    return plain


def _asset(given: Any) -> Any:
    return Asset(Path(given)) if isinstance(given, str | Path) else given


def options(hint: Any) -> tuple[Any, ...]:
    """The types that an annotation allows: the members of a union, or the type itself."""
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def _ends(domain: Domain) -> tuple[Any, ...]:
    if isinstance(domain, Range):
        return domain.low, domain.high
    return domain.values if isinstance(domain, Choices) else (domain,)


def _check_undeclared(kind: type[Transformation], name: str, domain: Domain) -> Domain:
    """`domain` of a field not declared with `param`: only a number may have a range."""
    if isinstance(domain, Range) and _hint(kind, name) not in (int, float):
        raise ValueError(f"{plain_name(kind)}.{name} is not a number; give a value or choices instead of a range")
    return domain


def _hint(kind: type[Transformation], name: str) -> Any:
    try:
        return typing.get_type_hints(kind).get(name)
    except (NameError, TypeError):  # an annotation that only a type checker can resolve
        return None


@dataclass(frozen=True)
class Table:
    """A list of changes."""

    changes: tuple[Transformation, ...]
    reads: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_parts("changes", self.changes, Transformation)

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        del case, system
        return _pick(self.changes, rng)

    def grid(self) -> Sequence[Transformation]:
        return self.changes


@dataclass(frozen=True)
class _Combined(BatchSpace):
    """A space made of others."""

    spaces: tuple[Space, ...]

    def __post_init__(self) -> None:
        _check_parts("spaces", self.spaces, Space)

    @property
    def reads(self) -> bool:
        """Whether any of the spaces does."""
        return any(map(reads, self.spaces))


@dataclass(frozen=True)
class OneOf(_Combined):
    """A change from one of several spaces, each with the same probability."""

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> Sequence[Proposal]:
        chosen = [int(rng.integers(len(self.spaces))) for rng in rngs]
        proposals: dict[int, Proposal] = {}
        for kind in dict.fromkeys(chosen):
            places = [place for place, other in enumerate(chosen) if other == kind]
            found = propose_all(self.spaces[kind], [cases[p] for p in places], [rngs[p] for p in places], system)
            proposals.update(zip(places, found, strict=True))
        return [proposals[place] for place in range(len(cases))]

    def grid(self) -> Sequence[Transformation]:
        grids = [space.grid() for space in self.spaces]
        return tuple(itertools.chain(*grids)) if all(grids) else ()


@dataclass(frozen=True)
class Sequenced(_Combined):
    """One change from each space, applied in order; a space that reads the case sees it as the changes before left it."""

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> Sequence[Proposal]:
        begun = [_Sequence(case) for case in cases]
        for place, space in enumerate(self.spaces):
            going = [number for number, one in enumerate(begun) if one.reason is None]
            drawn = propose_all(space, [begun[n].case for n in going], [rngs[n] for n in going], system)
            seen_later = any(map(reads, self.spaces[place + 1 :]))
            for number, proposal in zip(going, drawn, strict=True):
                begun[number].add(proposal, apply=seen_later)
        return [one.reason or Chain(tuple(one.steps)) for one in begun]

    def grid(self) -> Sequence[Transformation]:
        grids = [space.grid() for space in self.spaces]
        return tuple(Chain(steps) for steps in itertools.product(*grids)) if all(grids) else ()


@dataclass
class _Sequence:
    """The changes proposed so far for a case, the case as they leave it, and why there can be no more."""

    case: Case
    steps: list[Transformation] = field(default_factory=list)
    reason: NotApplicable | None = None

    def add(self, proposal: Proposal, *, apply: bool) -> None:
        """Add a change; it is applied only if a later space reads the case, as that may take as long as the trial itself."""
        if isinstance(proposal, NotApplicable):
            self.reason = proposal
            return
        self.steps.append(proposal)
        try:
            self.case = proposal(self.case) if apply else self.case
        except NotApplicable as reason:
            self.reason = reason


def alternatives(space: Space) -> Sequence[Space]:
    """The spaces between which a search may choose: those of a `OneOf`, or the space itself."""
    return space.spaces if isinstance(space, OneOf) else (space,)


def _check_parts(name: str, parts: Sequence[object], kind: type) -> None:
    if not parts or not all(isinstance(part, kind) for part in parts):
        raise ValueError(f"'{name}' must be a list of one or more {kind.__name__.lower()}s, got {parts!r}")


def as_space(change: Space | Transformation | type[Transformation]) -> Space:
    """A change or a class of changes as a space."""
    if isinstance(change, Chain):
        return Sequenced(tuple(map(as_space, change.steps)))
    if isinstance(change, Transformation):
        return Over(type(change), **{item.name: getattr(change, item.name) for item in dataclasses.fields(change)})
    if isinstance(change, type) and issubclass(change, Transformation):
        return Over(change)
    if isinstance(change, Space):
        return change
    raise TypeError(f"expected a space, a transformation or a transformation class, got {type(change).__name__}")


def _pick(items: Sequence[T], rng: np.random.Generator) -> T:
    return items[int(rng.integers(len(items)))]
