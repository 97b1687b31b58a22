"""A change to a case: a value with every number fixed, that maps images, labels and outputs alike."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import Any, ClassVar, ParamSpec, TypeVar

from swerve.core.case import Case, Fact
from swerve.core.errors import InputError, NotApplicable, UnmappedError, did_you_mean
from swerve.core.lru import SizedLRU
from swerve.core.values import SLOTS, Group, Image, Value

V = TypeVar("V", bound=Value)
P = ParamSpec("P")
R = TypeVar("R")
ANYTHING = "*"


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """`functools.cache` with the signature kept: mypy takes a class of frozen dataclasses for unhashable."""
    return typing.cast(Callable[P, R], cache(function))


@dataclass(frozen=True)
class Param:
    """What a change says of one of its numbers: the range, where it does nothing, and the paper's table."""

    low: float
    high: float
    neutral: float
    grid: tuple[float, ...] = ()
    resolution: float = 0.1
    unit: str = ""
    step: int = 1  # of whole numbers: 2 leaves the odd or the even ones out
    integer: bool = False
    drawn: tuple[float, float] | None = None

    @property
    def usual(self) -> tuple[float, float]:
        """Where draws come from unless told otherwise: as declared, the span of the paper's table, or the whole range."""
        whole = (min(self.grid), max(self.grid)) if len(set(self.grid)) > 1 else (self.low, self.high)
        return self.drawn or whole

    def take(self, name: str, value: object) -> float:
        """`value` as a number of the declared type; ValueError unless it is one in the range."""
        wrong_type = isinstance(value, bool) or not isinstance(value, Real)
        if wrong_type or not math.isfinite(value) or not self.low <= value <= self.high:  # type: ignore[arg-type, operator]
            raise ValueError(f"{name} must be a number from {self.low:g} to {self.high:g}, got {value!r}")
        if self.integer and (value - self.low) % self.step:  # type: ignore[operator]
            steps = ", ".join(f"{self.low + count * self.step:g}" for count in range(3))
            allowed = "a whole number" if self.step == 1 else f"one of {steps}, …"
            raise ValueError(f"{name} must be {allowed}, got {value!r}")
        # 9 and 9.0, 0.0 and -0.0 are the same change: one way to write it, so one finding id.
        return int(value) if self.integer else float(value) + 0.0  # type: ignore[call-overload, arg-type]

    def tidy(self, value: float) -> float:
        """`value` rounded to the resolution and kept in the range."""
        inside = min(max(value, self.low), self.high)
        if self.integer:
            return int(self.low + self.step * round((inside - self.low) / self.step))
        steps = round(inside / self.resolution)
        return min(max(round(steps * self.resolution, 10), self.low), self.high)


def param(
    low: float,
    high: float,
    *,
    neutral: float,
    grid: typing.Iterable[float] = (),
    resolution: float | None = None,
    unit: str = "",
    step: int = 1,
    usual: tuple[float, float] | None = None,
    default: Any = dataclasses.MISSING,
) -> Any:
    """A dataclass field for a number in [`low`, `high`]; at `neutral` the change does nothing.

    Draws and shrinking go in steps of `resolution`; left out, it is about a thousandth of the range. A rule that does not
    name the number draws it from `usual`; left out, that is the span of `grid`, or the whole range.
    """
    if not low < high:
        raise ValueError(f"param({low!r}, {high!r}): the range must rise")
    fine = 10.0 ** math.floor(math.log10((high - low) / 1000))
    if resolution is not None and not 0 < resolution <= (high - low) / 2:
        raise ValueError(f"param({low!r}, {high!r}): resolution {resolution!r} is too coarse for the range")
    if usual is not None and not low <= usual[0] < usual[1] <= high:
        raise ValueError(f"param({low!r}, {high!r}): the usual range {usual!r} must rise within it")
    facts = Param(low, high, neutral, tuple(grid), resolution or fine, unit, step, drawn=usual)
    return dataclasses.field(default=default, metadata={"param": facts})


@dataclass(frozen=True, eq=False)
class _Frame:
    """A member of a group and what a change made of it; holding the first keeps its id its own."""

    frame: Value
    mapped: Value

    def weight(self) -> int:
        pixels = sum(value.pixels.nbytes for value in (self.frame, self.mapped) if isinstance(value, Image))
        return 1024 + pixels


# Windows that lie side by side share most of their frames (DESIGN §2): 300 of 640x360, before and after.
_FRAMES = SizedLRU(400 << 20, weigh=lambda made: made.weight() if isinstance(made, _Frame) else 0)


def forget_frames() -> None:
    """Make changed frames of windows anew from now on: somebody has written into some of them."""
    _FRAMES.clear()


@dataclass(frozen=True)
class Transformation:
    """A change with every number fixed. One method per slot it changes (`image`, `boxes2d`, …).

    `preserves` names the slots it leaves alone ("*": all it has no method for). A value that is
    neither changed nor preserved raises `UnmappedError`: nothing ever passes through unnoticed.
    """

    preserves: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_spelling(cls)

    def __post_init__(self) -> None:
        for name, facts in params_of(type(self)).items():
            object.__setattr__(self, name, facts.take(name, getattr(self, name)))

    def applies(self, case: Case) -> str | None:
        """A reason why this change cannot be made to `case`, or None."""
        del case
        return None

    def facts(self, source: Case) -> Mapping[str, Fact]:
        """What is worth recording about making this change to `source`, such as the share of filled pixels."""
        del source
        return {}

    def map(self, value: V) -> V:
        """What this change makes of one value."""
        if handler := _handler(type(self), value.slot):
            return self._checked(handler(self, value), value)
        if isinstance(value, Group):
            return typing.cast(V, Group(tuple(self._shared(item) for item in value.values)))
        if value.slot in self.preserves or ANYTHING in self.preserves:
            return value
        name = type(self).__name__
        raise UnmappedError(
            f"{name} does not say what happens to '{value.slot}': write a method "
            f"{name}.{value.slot}(value), or add '{value.slot}' to {name}.preserves"
        )

    def __call__(self, case: Case) -> Case:
        """The follow-up of `case`; raises `NotApplicable` where the change cannot be made."""
        if why := self.applies(case):
            raise NotApplicable(why)
        return Case(
            key=case.key,
            inputs={name: self.map(value) for name, value in case.inputs.items()},
            truth=tuple(self.map(value) for value in case.truth),
            group=case.group,
            parent=case.parent or case.key,
            facts={**case.facts, **self.facts(case)},
        )

    def _shared(self, frame: Value) -> Value:
        """A member of a group, mapped once for all the windows it is in."""
        try:
            hash(self)
        except TypeError:  # a change that holds a list or an array
            return self.map(frame)
        return _FRAMES.get((self, id(frame)), lambda: _Frame(frame, self.map(frame))).mapped

    def simpler(self) -> Iterator[Transformation]:
        """Changes nearer to doing nothing: each number at neutral, then half-way there."""
        for name, facts in params_of(type(self)).items():
            value = getattr(self, name)
            tried = {value}
            for target in (facts.neutral, facts.tidy((value + facts.neutral) / 2)):
                if target not in tried and abs(target - facts.neutral) < abs(value - facts.neutral):
                    tried.add(target)
                    yield dataclasses.replace(self, **{name: target})

    def words(self) -> str:
        """The change in words, for people."""
        numbers = ", ".join(_in_words(item, getattr(self, item.name)) for item in dataclasses.fields(self))
        return f"{plain_name(type(self))} {numbers}".strip()

    @classmethod
    def grid(cls) -> tuple[Transformation, ...]:
        """The paper's table of this change: parameter grids advance together, the rest stay neutral."""
        declared = params_of(cls)
        lengths = {len(facts.grid) for facts in declared.values() if facts.grid}
        if len(lengths) != 1:
            return ()
        rows = range(lengths.pop())
        return tuple(cls(**{name: f.grid[row] if f.grid else f.neutral for name, f in declared.items()}) for row in rows)

    def _checked(self, result: object, value: V) -> V:
        if type(result) is not type(value):
            name = f"{type(self).__name__}.{value.slot}"
            raise InputError(f"{name} must return {type(value).__name__}, got {type(result).__name__}")
        return result


@remembered
def params_of(kind: type[Any]) -> dict[str, Param]:
    """The declared numbers of a transformation class, in order."""
    found = [(item, item.metadata["param"]) for item in dataclasses.fields(kind) if "param" in item.metadata]
    hints = typing.get_type_hints(kind) if found else {}
    return {item.name: dataclasses.replace(facts, integer=hints.get(item.name) is int) for item, facts in found}


@remembered
def check_declared(kind: type[Any]) -> None:
    """Refuse a transformation whose numbers no dataclass declares: equality and identity would not see them."""
    own = vars(kind)
    undeclared = "__init__" in own or any("ClassVar" not in str(hint) for hint in own.get("__annotations__", {}).values())
    if undeclared and "__dataclass_fields__" not in own:
        raise InputError(f"{kind.__name__} has fields of its own: decorate the class with @dataclass(frozen=True)")


@remembered
def plain_name(kind: type) -> str:
    """`OverExposure` as `over-exposure`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower()


@remembered
def _handler(kind: type, slot: str) -> Any:
    method = getattr(kind, slot, None)
    return method if inspect.isfunction(method) else None


def _in_words(item: dataclasses.Field[Any], value: object) -> str:
    unit = item.metadata["param"].unit if "param" in item.metadata else ""
    number = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{item.name} {number}{unit}"


def _check_spelling(cls: type[Transformation]) -> None:
    """Refuse a class whose handler or `preserves` entry is nearly, but not quite, a slot."""
    for slot in cls.preserves:
        if slot not in SLOTS and slot != ANYTHING:
            raise InputError(f"{cls.__name__}.preserves names '{slot}', which is no slot; {did_you_mean(slot, SLOTS)}")
    for name, member in vars(cls).items():
        if name.startswith("_") or not inspect.isfunction(member) or hasattr(Transformation, name) or name in SLOTS:
            continue
        if close := difflib.get_close_matches(name, SLOTS, n=1, cutoff=0.75):
            raise InputError(f"{cls.__name__}.{name} looks like a handler but is none; did you mean '{close[0]}'?")


@dataclass(frozen=True)
class Unchanged(Transformation):
    """The change that does nothing: the yardstick of every other (R58)."""

    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        return "unchanged"


@dataclass(frozen=True)
class Chain(Transformation):
    """Several changes, one after the other."""

    steps: tuple[Transformation, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        if not self.steps or not all(isinstance(step, Transformation) for step in self.steps):
            raise ValueError(f"steps must be one or more transformations, got {self.steps!r}")

    def map(self, value: V) -> V:
        for step in self.steps:
            value = step.map(value)
        return value

    def applies(self, case: Case) -> str | None:
        """The first step's reason; each is asked of what the steps before it make."""
        try:
            for step in self.steps[:-1]:
                case = step(case)
        except NotApplicable as why:
            return str(why)
        return self.steps[-1].applies(case)

    def __call__(self, case: Case) -> Case:
        for step in self.steps:
            case = step(case)
        return case

    def simpler(self) -> Iterator[Transformation]:
        """First without each step, then with each step simpler."""
        for index in range(len(self.steps)):
            if rest := self.steps[:index] + self.steps[index + 1 :]:
                yield rest[0] if len(rest) == 1 else Chain(rest)
        for index, step in enumerate(self.steps):
            for easier in step.simpler():
                yield Chain((*self.steps[:index], easier, *self.steps[index + 1 :]))

    def words(self) -> str:
        return ", then ".join(step.words() for step in self.steps)
