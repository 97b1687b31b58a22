"""Spaces of swaps: which objects of a frame are changed, and into what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import numpy as np
from scipy.ndimage import find_objects

from swerve.core.arguments import OneOfNames, check_known, check_number, check_whole
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.space import BatchSpace, Proposal
from swerve.core.transformation import Transformation
from swerve.transformations.reswap import Recolour, RemoveObjects, Reswap
from swerve.world.drives import drive, parse_frame_key
from swerve.world.labels import MAX_HIDDEN, VisibleThing
from swerve.world.model_sizes import models_by_size
from swerve.world.objects import SeenObjects, objects_of, scene_of
from swerve.world.paint import other_colours
from swerve.world.scene import LABELLED, Thing

if TYPE_CHECKING:
    from swerve.core.system import System

MODEL, COLOUR, REMOVE = CHANGES = ("model", "colour", "remove")
NEAREST, ANY = SIZES = ("nearest", "any")
LEAST = 50 / 2048  # of the image's width: objects narrower or lower are not changed (IA-5, D-31)


@runtime_checkable
class ObjectSelection(Protocol):
    """Chooses among the objects of frames, for example by what a system looks at."""

    def rank(
        self, cases: Sequence[Case], objects: Sequence[SeenObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Sequence[int]]:
        """For each case the numbers of its `objects`, those to change first in front."""


@dataclass(frozen=True)
class RandomObjects:
    """Objects in random order."""

    def rank(
        self, cases: Sequence[Case], objects: Sequence[SeenObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Sequence[int]]:
        """For each case the numbers of its objects in random order."""
        del cases, system
        numbers = [sorted(seen.numbered) for seen in objects]
        return [[some[place] for place in rng.permutation(len(some))] for some, rng in zip(numbers, rngs, strict=True)]


@dataclass(frozen=True)
class LargestObjects:
    """Objects with the most visible pixels first."""

    def rank(
        self, cases: Sequence[Case], objects: Sequence[SeenObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Sequence[int]]:
        """For each case the numbers of its objects by visible pixels."""
        del cases, rngs, system
        return [[item.number for item in sorted(seen.items, key=_by_pixels)] for seen in objects]


@dataclass(frozen=True)
class NearestObjects:
    """Objects nearest to the camera first."""

    def rank(
        self, cases: Sequence[Case], objects: Sequence[SeenObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Sequence[int]]:
        """For each case the numbers of its objects by the distance of their centres."""
        del cases, rngs, system
        return [[item.number for item in sorted(seen.items, key=_by_distance)] for seen in objects]


def _by_pixels(item: VisibleThing) -> tuple[int, int]:
    return -item.visible, item.number


def _by_distance(item: VisibleThing) -> tuple[float, int]:
    return float(np.hypot(item.place[0], item.place[1])), item.number


@dataclass(frozen=True)
class Swaps(BatchSpace):
    """Objects of a frame of the embedded world, each with another "model" or "colour", or without it ("remove").

    Args:
        change: what is changed.
        choose: which objects are changed first.
        size: whether the new model is the one "nearest" in size, or "any" other of its kind.
        count: how many objects are changed at once; a frame with fewer has no change.
        kinds: of objects that may be changed.
        least: the smallest width and height of an object's visible part, as a share of the image's width.
        hidden: the largest share of an object that may be hidden.
    """

    change: Annotated[str, OneOfNames(*CHANGES)] = MODEL
    choose: ObjectSelection = RandomObjects()
    size: Annotated[str, OneOfNames(*SIZES)] = NEAREST
    count: int = 1
    kinds: tuple[str, ...] = LABELLED
    least: float = LEAST
    hidden: float = MAX_HIDDEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        check_known("change", self.change, CHANGES)
        check_known("size", self.size, SIZES)
        for kind in self.kinds:
            check_known("kind", kind, LABELLED)
        check_whole("count", self.count, 1)
        check_number("least", self.least, 0, 1)
        check_number("hidden", self.hidden, 0, 1)
        if not isinstance(self.choose, ObjectSelection):
            raise TypeError(f"'choose' must select objects, such as RandomObjects(), got {type(self.choose).__name__}")

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> Sequence[Proposal]:
        """One change for each case, or the reason why there is none."""
        found = [self._candidates(case) for case in cases]
        able = [place for place, seen in enumerate(found) if isinstance(seen, SeenObjects)]
        objects = [seen for seen in found if isinstance(seen, SeenObjects)]
        ranked = self.choose.rank([cases[place] for place in able], objects, [rngs[place] for place in able], system)
        changes = {
            place: self._change(cases[place], tuple(numbers[: self.count]), rngs[place])
            for place, numbers in zip(able, ranked, strict=True)
        }
        return [seen if isinstance(seen, NotApplicable) else changes[place] for place, seen in enumerate(found)]

    def _candidates(self, case: Case) -> SeenObjects | NotApplicable:
        """The objects of a case that may be changed, or why there are too few."""
        if case.parent is not None:
            return NotApplicable("the frame was already changed: an edit of its scene must be the first step of a chain")
        try:
            seen = objects_of(case)
        except NotApplicable as why:
            return why
        spans, limit = find_objects(seen.things), self.least * seen.things.shape[1]
        items = tuple(item for item in seen.items if self._is_candidate(item, spans[item.number - 1], limit))
        if len(items) >= self.count:
            return replace(seen, items=items)
        return NotApplicable(
            f"the frame has {len(items)} objects of at least {limit:.0f}x{limit:.0f} visible pixels, {self.count} are needed"
        )

    def _is_candidate(self, item: VisibleThing, span: tuple[slice, slice], limit: float) -> bool:
        large = all(part.stop - part.start >= limit for part in span)
        return large and item.kind in self.kinds and item.hidden <= self.hidden

    def _change(self, case: Case, numbers: tuple[int, ...], rng: np.random.Generator) -> Transformation:
        frame = scene_of(case).scene
        scene = drive(parse_frame_key(frame)[0]).scene
        things = [scene.things[number - 1] for number in numbers]
        if self.change == MODEL:
            return Reswap(frame, numbers, tuple(self._model(thing, rng) for thing in things))
        if self.change == COLOUR:
            return Recolour(frame, numbers, tuple(_pick(other_colours(thing.mesh), rng) for thing in things))
        return RemoveObjects(frame, numbers)

    def _model(self, thing: Thing, rng: np.random.Generator) -> int:
        models = models_by_size(thing)
        return models[0] if self.size == NEAREST else models[int(rng.integers(len(models)))]


def _pick(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))]
