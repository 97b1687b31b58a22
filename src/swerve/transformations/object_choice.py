"""Which objects of a picture are changed: those that may be, in the order of a selection, as many as are wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from swerve.core.arguments import check_number, check_whole
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.transformations.frame_objects import FrameObject, FrameObjects, frame_objects
from swerve.world.labels import MAX_HIDDEN

if TYPE_CHECKING:
    from swerve.core.system import System

LEAST = 50 / 2048  # of the picture's width: objects narrower or lower are not changed (IA-5, D-31)
Ranking = Sequence[int] | NotApplicable  # numbers of objects, or why none is to be changed


@runtime_checkable
class ObjectSelection(Protocol):
    """An order of the objects of pictures, for example by what a system looks at."""

    def rank(
        self, cases: Sequence[Case], objects: Sequence[FrameObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Ranking]:
        """For each case the numbers of its `objects`, those to change first in front, or why none is to be changed."""


@dataclass(frozen=True)
class RandomObjects:
    """Objects in random order."""

    def rank(
        self, cases: Sequence[Case], objects: Sequence[FrameObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Ranking]:
        """For each case the numbers of its objects in random order."""
        del cases, system
        numbers = [sorted(seen.numbered) for seen in objects]
        return [[some[place] for place in rng.permutation(len(some))] for some, rng in zip(numbers, rngs, strict=True)]


@dataclass(frozen=True)
class LargestObjects:
    """Objects with the most visible pixels first."""

    def rank(
        self, cases: Sequence[Case], objects: Sequence[FrameObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Ranking]:
        """For each case the numbers of its objects by visible pixels."""
        del cases, rngs, system
        return [_sorted(seen, lambda item: -item.pixels) for seen in objects]


@dataclass(frozen=True)
class NearestObjects:
    """Objects nearest to the camera first; where distances are not known, those that reach furthest down."""

    def rank(
        self, cases: Sequence[Case], objects: Sequence[FrameObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Ranking]:
        """For each case the numbers of its objects by their distance."""
        del cases, rngs, system
        return [_sorted(seen, lambda item: item.nearness) for seen in objects]


def _sorted(seen: FrameObjects, key: Callable[[FrameObject], float]) -> list[int]:
    return [item.number for item in sorted(seen.items, key=lambda item: (key(item), item.number))]


@dataclass(frozen=True)
class ChosenObjects:
    """The numbers of the objects to change, the most important first, and the objects of the picture that may be."""

    numbers: tuple[int, ...]
    objects: FrameObjects


@dataclass(frozen=True)
class ObjectChoice:
    """Chooses objects for any change of objects.

    Args:
        order: which objects come first.
        count: how many are changed; a picture with fewer has no change.
        kinds: of objects that may be changed; all if there are none.
        least: the smallest width and height of an object's visible part: a share of the picture's width, or pixels
            from 1 on.
        hidden: the largest share of an object that may be hidden, where that is known.
        whole: whether objects at an edge of the picture, which may cut them off, are left alone.
    """

    # IA-5, IA-7, IA-11, D-31

    order: ObjectSelection = RandomObjects()
    count: int = 1
    kinds: tuple[str, ...] = ()
    least: float = LEAST
    hidden: float = MAX_HIDDEN
    whole: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        check_whole("count", self.count, 1)
        check_number("least", self.least, 0)
        check_number("hidden", self.hidden, 0, 1)
        if not isinstance(self.order, ObjectSelection):
            raise TypeError(f"'choose' must select objects, such as RandomObjects(), got {type(self.order).__name__}")

    def choose(
        self,
        cases: Sequence[Case],
        rngs: Sequence[np.random.Generator],
        system: System,
        *,
        check: Callable[[Case], object] = bool,
    ) -> list[ChosenObjects | NotApplicable]:
        """The objects of each case to change, or why there are none; the system is asked once for all cases.

        `check` raises `NotApplicable` for a case that cannot be changed, whatever its objects are.
        """
        found = [self._candidates(case, check) for case in cases]
        able = [place for place, seen in enumerate(found) if isinstance(seen, FrameObjects)]
        objects = [seen for seen in found if isinstance(seen, FrameObjects)]
        ranked = self.order.rank([cases[place] for place in able], objects, [rngs[place] for place in able], system)
        chosen = {place: self._chosen(seen, order) for place, seen, order in zip(able, objects, ranked, strict=True)}
        return [seen if isinstance(seen, NotApplicable) else chosen[place] for place, seen in enumerate(found)]

    def candidates(self, case: Case) -> FrameObjects:
        """The objects of a case that may be changed, `count` or more; raises `NotApplicable` if there are fewer."""
        seen = frame_objects(case)
        items = tuple(item for item in seen.items if self._may_change(item, seen))
        if len(items) >= self.count:
            return replace(seen, items=items)
        limit = self._limit(seen)
        what = " or ".join(self.kinds) if self.kinds and len(self.kinds) < 3 else "objects"
        raise NotApplicable(
            f"the frame has {len(items)} {what} of at least {limit:.0f}x{limit:.0f} visible pixels, {self.count} are needed"
        )

    def _candidates(self, case: Case, check: Callable[[Case], object]) -> FrameObjects | NotApplicable:
        try:
            check(case)
            return self.candidates(case)
        except NotApplicable as why:
            return why

    def _may_change(self, item: FrameObject, seen: FrameObjects) -> bool:
        large = min(item.size) >= self._limit(seen)
        known = not self.kinds or item.kind in self.kinds
        visible = item.hidden is None or item.hidden <= self.hidden
        return large and known and visible and not (self.whole and seen.is_cut_off(item))

    def _limit(self, seen: FrameObjects) -> float:
        return self.least if self.least >= 1 else self.least * seen.width

    def _chosen(self, seen: FrameObjects, order: Ranking) -> ChosenObjects | NotApplicable:
        if isinstance(order, NotApplicable):
            return order
        numbers = tuple(order[: self.count])
        if len(numbers) == self.count:
            return ChosenObjects(numbers, seen)
        return NotApplicable(f"the selection chose {len(numbers)} of {len(seen.items)} objects, {self.count} are needed")
