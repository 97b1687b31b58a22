"""Changes to cases: a transformation has fixed parameters and maps images, labels and outputs alike."""

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
from typing import Any, ClassVar, ParamSpec, TypeVar

from swerve.core.arguments import check_number
from swerve.core.case import Case, Fact
from swerve.core.errors import InputError, NotApplicable, UnmappedError, did_you_mean
from swerve.core.lru import SizedLRU
from swerve.core.values import SLOTS, Group, Image, Value

V = TypeVar("V", bound=Value)
P = ParamSpec("P")
R = TypeVar("R")
ANYTHING = "*"


def cached(function: Callable[P, R]) -> Callable[P, R]:
    """`functools.cache` that keeps the signature, as mypy takes classes of frozen dataclasses for unhashable."""
    return typing.cast(Callable[P, R], cache(function))


@dataclass(frozen=True)
class Param:
    """The declaration of one parameter: its range, its neutral value, and the paper's values."""

    low: float
    high: float
    neutral: float
    grid: tuple[float, ...] = ()
    resolution: float = 0.1
    unit: str = ""
    step: int = 1  # of integers: 2 allows every second one
    integer: bool = False
    drawn: tuple[float, float] | None = None
    graded: bool = True  # a larger number is a stronger change; a direction is not

    @property
    def usual(self) -> tuple[float, float]:
        """The default range of draws: as declared, else the range of the paper's values, else the whole range."""
        whole = (min(self.grid), max(self.grid)) if len(set(self.grid)) > 1 else (self.low, self.high)
        return self.drawn or whole

    def take(self, name: str, value: object) -> float:
        """`value` converted to the declared type; raises `ValueError` unless it is a number in the range."""
        check_number(name, value, self.low, self.high)
        if self.integer and (value - self.low) % self.step:  # type: ignore[operator]
            steps = ", ".join(f"{self.low + count * self.step:g}" for count in range(3))
            allowed = "a whole number" if self.step == 1 else f"one of {steps}, …"
            raise ValueError(f"'{name}' must be {allowed}, got {value!r}")
        # 9 and 9.0, 0.0 and -0.0 are the same change and need the same finding id.
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
    graded: bool = True,
    default: Any = dataclasses.MISSING,
) -> Any:
    """A dataclass field for a number in [`low`, `high`]; at `neutral` the change does nothing.

    A number that says nothing about how strong the change is, such as a direction, is not `graded`.

    Draws and shrinking use steps of `resolution`, by default about a thousandth of the range. A rule that does not give the
    parameter draws it from `usual`, by default the range of `grid` or the whole range.
    """
    if not low < high:
        raise ValueError(f"param({low!r}, {high!r}): 'low' must be below 'high'")
    fine = 10.0 ** math.floor(math.log10((high - low) / 1000))
    if resolution is not None and not 0 < resolution <= (high - low) / 2:
        raise ValueError(
            f"param({low!r}, {high!r}): 'resolution' must be above 0 and at most half the range, got {resolution!r}"
        )
    if usual is not None and not low <= usual[0] < usual[1] <= high:
        raise ValueError(f"param({low!r}, {high!r}): 'usual' must be an increasing pair within that range, got {usual!r}")
    facts = Param(low, high, neutral, tuple(grid), resolution or fine, unit, step, drawn=usual, graded=graded)
    return dataclasses.field(default=default, metadata={"param": facts})


@dataclass(frozen=True, eq=False)
class _Frame:
    """A frame of a group and its changed version; keeping the frame alive keeps its `id` unique."""

    frame: Value
    mapped: Value

    def weight(self) -> int:
        pixels = sum(value.pixels.nbytes for value in (self.frame, self.mapped) if isinstance(value, Image))
        return 1024 + pixels


# Overlapping windows share most of their frames (DESIGN §2): room for 300 of 640x360, before and after.
_FRAMES = SizedLRU(400 << 20, weigh=lambda item: item.weight() if isinstance(item, _Frame) else 0)


def clear_frame_cache() -> None:
    """Drop all cached changed frames of windows, after some of them were modified."""
    _FRAMES.clear()


@dataclass(frozen=True)
class Transformation:
    """A change with fixed parameters, and one method per slot that it changes (`image`, `boxes2d`, …).

    `preserves` names the slots that stay unchanged ("*": all without a method). A value that is neither changed nor
    preserved raises `UnmappedError`.
    """

    preserves: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_spelling(cls)

    def __post_init__(self) -> None:
        for name, facts in params_of(type(self)).items():
            object.__setattr__(self, name, facts.take(name, getattr(self, name)))

    def applies(self, case: Case) -> str | None:
        """The reason why this change cannot be applied to `case`, or None."""
        del case
        return None

    def facts(self, source: Case) -> Mapping[str, Fact]:
        """Facts to record when this change is applied to `source`, such as the share of filled pixels."""
        del source
        return {}

    def map(self, value: V) -> V:
        """One value, changed."""
        if handler := _handler(type(self), value.slot):
            return self._checked(handler(self, value), value)
        if isinstance(value, Group):
            return typing.cast(V, Group(tuple(self._map_frame(item) for item in value.values)))
        if value.slot in self.preserves or ANYTHING in self.preserves:
            return value
        name = type(self).__name__
        raise UnmappedError(
            f"{name} does not define what happens to '{value.slot}': write a method "
            f"{name}.{value.slot}(value), or add '{value.slot}' to {name}.preserves"
        )

    def __call__(self, case: Case) -> Case:
        """The follow-up of `case`; raises `NotApplicable` if the change cannot be applied."""
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

    def _map_frame(self, frame: Value) -> Value:
        """A frame of a group, mapped once for all windows that contain it."""
        if not is_hashable(self):
            return self.map(frame)
        return _FRAMES.get((self, id(frame)), lambda: _Frame(frame, self.map(frame))).mapped

    def simpler(self) -> Iterator[Transformation]:
        """Changes closer to neutral: each parameter at its neutral value, then half-way there."""
        for name, facts in params_of(type(self)).items():
            value = getattr(self, name)
            seen = {value}
            for target in (facts.neutral, facts.tidy((value + facts.neutral) / 2)):
                if target not in seen and abs(target - facts.neutral) < abs(value - facts.neutral):
                    seen.add(target)
                    yield dataclasses.replace(self, **{name: target})

    def words(self) -> str:
        """A readable description of the change."""
        numbers = ", ".join(_describe_field(item, getattr(self, item.name)) for item in dataclasses.fields(self))
        return f"{plain_name(type(self))} {numbers}".strip()

    @classmethod
    def grid(cls) -> tuple[Transformation, ...]:
        """The changes of the paper's table: grids advance together, parameters without a grid are neutral."""
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


def is_hashable(change: Transformation) -> bool:
    """Whether a change can be remembered; one with a list or an array cannot."""
    try:
        hash(change)
    except TypeError:
        return False
    return True


@cached
def params_of(kind: type[Any]) -> dict[str, Param]:
    """The declared parameters of a transformation class, in order."""
    found = [(item, item.metadata["param"]) for item in dataclasses.fields(kind) if "param" in item.metadata]
    hints = typing.get_type_hints(kind) if found else {}
    return {item.name: dataclasses.replace(facts, integer=hints.get(item.name) is int) for item, facts in found}


@cached
def check_declared(kind: type[Any]) -> None:
    """Reject a transformation whose fields no dataclass declares, as equality and finding ids would ignore them."""
    own = vars(kind)
    undeclared = "__init__" in own or any("ClassVar" not in str(hint) for hint in own.get("__annotations__", {}).values())
    if undeclared and "__dataclass_fields__" not in own:
        raise InputError(f"{kind.__name__} has fields of its own: decorate the class with @dataclass(frozen=True)")


@cached
def plain_name(kind: type) -> str:
    """`OverExposure` as `over-exposure`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower()


@cached
def _handler(kind: type, slot: str) -> Any:
    method = getattr(kind, slot, None)
    return method if inspect.isfunction(method) else None


def _describe_field(item: dataclasses.Field[Any], value: object) -> str:
    unit = item.metadata["param"].unit if "param" in item.metadata else ""
    number = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{item.name} {number}{unit}"


def _check_spelling(cls: type[Transformation]) -> None:
    """Reject a class whose method or `preserves` entry looks like a misspelt slot."""
    for slot in cls.preserves:
        if slot not in SLOTS and slot != ANYTHING:
            raise InputError(f"{cls.__name__}.preserves names '{slot}', which is not a slot; {did_you_mean(slot, SLOTS)}")
    for name, member in vars(cls).items():
        if name.startswith("_") or not inspect.isfunction(member) or hasattr(Transformation, name) or name in SLOTS:
            continue
        if close := difflib.get_close_matches(name, SLOTS, n=1, cutoff=0.75):
            raise InputError(f"{cls.__name__}.{name} looks like a misspelt slot; did you mean '{close[0]}'?")


@dataclass(frozen=True)
class Unchanged(Transformation):
    """No change, as the reference for all others."""

    # R58

    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def words(self) -> str:
        return "unchanged"


@dataclass(frozen=True)
class Chain(Transformation):
    """Several changes, applied one after the other."""

    steps: tuple[Transformation, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        if not self.steps or not all(isinstance(step, Transformation) for step in self.steps):
            raise ValueError(f"'steps' must be a list of one or more transformations, got {self.steps!r}")

    def map(self, value: V) -> V:
        for step in self.steps:
            value = step.map(value)
        return value

    def applies(self, case: Case) -> str | None:
        """The reason of the first step that cannot be applied to the result of the steps before it."""
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
        """The chain without one of its steps, then with one step simpler."""
        for index in range(len(self.steps)):
            if rest := self.steps[:index] + self.steps[index + 1 :]:
                yield rest[0] if len(rest) == 1 else Chain(rest)
        for index, step in enumerate(self.steps):
            for easier in step.simpler():
                yield Chain((*self.steps[:index], easier, *self.steps[index + 1 :]))

    def words(self) -> str:
        return ", then ".join(step.words() for step in self.steps)
