"""Conditions as vectors: the numbers of a space that a search can move, and the change that they stand for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.space import GRID, LARGEST_SEED, SEED, Choices, Over, Range, Sequenced, Space
from swerve.core.transformation import Chain, Param, Transformation, params_of, plain_name
from swerve.core.values import Array

DECADES = 10.0  # a range whose ends are this many times apart is moved in logarithmically
UNIFORM_DEVIATION = 1 / math.sqrt(12)  # of a uniform number from 0 to 1
CLOSE_TO_END = 0.01  # of a range: this near to its end counts as on it


class Coordinates(Protocol):
    """The vectors of a space of conditions; a space may have a method `coordinates(seed)` that returns its own.

    `scale` is the standard deviation of each number of a random vector. `neutral` is the vector of a change that does
    nothing, if there is one. Coordinates may also have `marks(vector)`: what a reader should know of this place besides
    bounds, in words, such as that the renderer switches something on there.
    """

    @property
    def names(self) -> Sequence[str]:
        """What each number of a vector stands for."""

    @property
    def scale(self) -> float:
        """The standard deviation of each number of a random vector."""

    @property
    def neutral(self) -> Array | None:
        """The vector of no change, if there is one."""

    @property
    def ends(self) -> tuple[float, float] | None:
        """The smallest and the largest number of a vector; None without bounds."""

    def draw(self, rng: np.random.Generator) -> Array:
        """A random vector."""

    def inside(self, vector: Array) -> Array:
        """`vector` brought back into the bounds, if there are any."""

    def change(self, vector: Array) -> Transformation:
        """The change that a vector stands for."""

    def on_bounds(self, vector: Array) -> Sequence[str]:
        """The numbers of `vector` that lie on a bound of the space, in words."""

    def in_words(self, place: int, vector: Array) -> str:
        """One number of a vector in words, such as "sun 6°"."""


@dataclass(frozen=True)
class Axis:
    """One parameter that is moved: from `low` at 0 to `high` at 1."""

    name: str
    low: float
    high: float
    facts: Param | None = None
    switches: Mapping[float, str] = field(default_factory=dict)  # values at which the change switches something

    @property
    def logarithmic(self) -> bool:
        """Whether equal steps multiply the value: 20 m and 40 m of visibility are as far apart as 500 m and 1000 m."""
        return self.low > 0 and self.high / self.low >= DECADES

    def value(self, place: float) -> float:
        """The parameter's value at a place from 0 to 1, rounded to its resolution."""
        straight = self.low + (self.high - self.low) * place
        value = self.low * (self.high / self.low) ** place if self.logarithmic else straight
        tidy = self.facts.tidy(value) if self.facts else round(value, 6)
        return min(max(tidy, self.low), self.high)

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        inside = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return (inside - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class RangeCoordinates:
    """The ranges of one or several changes as a cube of side 1; several are applied in order.

    A parameter with a fixed value does not move. Random patterns, such as the streaks of rain, have the same seed in every
    condition.
    """

    changes: tuple[Over, ...]
    seed: int = 0

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """All parameters with a range, in order."""
        found = tuple(axis for change in self.changes for axis in _axes(change, prefix=len(self.changes) > 1))
        if not found:
            raise InputError("the space has no parameter with a range, so there is nothing to search for")
        return found

    @property
    def names(self) -> Sequence[str]:
        return [axis.name for axis in self.axes]

    @property
    def scale(self) -> float:
        return UNIFORM_DEVIATION

    @property
    def ends(self) -> tuple[float, float] | None:
        return 0.0, 1.0

    @cached_property
    def neutral(self) -> Array | None:
        return np.array([axis.place(axis.facts.neutral if axis.facts else 0.0) for axis in self.axes])

    def draw(self, rng: np.random.Generator) -> Array:
        return rng.random(len(self.axes))

    def inside(self, vector: Array) -> Array:
        """Reflected at the sides of the cube, so that the bounds themselves are no more likely than other places."""
        folded = np.mod(vector, 2.0)
        return np.where(folded > 1, 2 - folded, folded)

    def change(self, vector: Array) -> Transformation:
        values = iter([axis.value(float(place)) for axis, place in zip(self.axes, vector, strict=True)])
        steps = [self._step(change, values) for change in self.changes]
        return steps[0] if len(steps) == 1 else Chain(tuple(steps))

    def on_bounds(self, vector: Array) -> Sequence[str]:
        near = [place for place, number in enumerate(vector) if min(number, 1 - number) <= CLOSE_TO_END]
        return [self.in_words(place, vector) for place in near if not self._is_neutral(place, vector)]

    def marks(self, vector: Array) -> Sequence[str]:
        """The numbers of `vector` at which the change switches something, as that may be the cause, and not the weather."""
        pairs = [(place, axis, number) for place, (axis, number) in enumerate(zip(self.axes, vector, strict=True))]
        return [
            f"at {self.in_words(place, vector)} the renderer switches: {what}"
            for place, axis, number in pairs
            for value, what in axis.switches.items()
            if axis.low < value < axis.high and abs(axis.place(value) - number) <= CLOSE_TO_END
        ]

    def in_words(self, place: int, vector: Array) -> str:
        axis = self.axes[place]
        return f"{axis.name} {axis.value(float(vector[place])):g}{axis.facts.unit if axis.facts else ''}"

    def _is_neutral(self, place: int, vector: Array) -> bool:
        assert self.neutral is not None
        return self.axes[place].value(float(vector[place])) == self.axes[place].value(float(self.neutral[place]))

    def _step(self, change: Over, values: Iterator[float]) -> Transformation:
        given = {name: domain for name, domain in change.domains.items() if not isinstance(domain, Range)}
        moved = {axis.name: next(values) for axis in _axes(change)}
        seeded = {SEED: self._pattern()} if isinstance(change.domains.get(SEED), Range) else {}
        return change.kind(**given, **moved, **seeded)

    def _pattern(self) -> int:
        return int(rng_for(self.seed, "pattern of a condition").integers(LARGEST_SEED))


def _axes(change: Over, *, prefix: bool = False) -> list[Axis]:
    declared = params_of(change.kind)
    before = f"{plain_name(change.kind)} " if prefix else ""
    ranges = {name: domain for name, domain in change.domains.items() if isinstance(domain, Range) and name != SEED}
    switches = getattr(change.kind, "switches", {})
    return [
        Axis(before + name, domain.low, domain.high, declared.get(name), switches.get(name, {}))
        for name, domain in ranges.items()
    ]


def marks_of(where: Coordinates, vector: Array) -> list[str]:
    """What the coordinates say of a place besides its bounds; nothing if they cannot."""
    tell = getattr(where, "marks", None)
    return list(tell(vector)) if callable(tell) else []


def coordinates_of(space: Space, seed: int) -> Coordinates:
    """The coordinates of a space: its own, or those of its ranges."""
    own = getattr(space, "coordinates", None)
    if callable(own):
        found: Coordinates = own(seed)
        return found
    parts = space.spaces if isinstance(space, Sequenced) else (space,)
    changes = tuple(part for part in parts if isinstance(part, Over) and not _has_lists(part))
    if len(changes) < len(parts):
        raise InputError(
            "a search for conditions moves numbers: give a change with ranges such as visibility = [40, 1000], "
            "or several of them in sequence, without choices and grids"
        )
    return RangeCoordinates(changes, seed)


def _has_lists(change: Over) -> bool:
    return any(isinstance(domain, Choices) or domain == GRID for domain in change.domains.values())
