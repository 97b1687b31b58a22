"""Spaces of swaps: which objects of a frame are changed, and into what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.space import BatchSpace, Proposal
from swerve.core.transformation import Transformation
from swerve.transformations.object_choice import LEAST, ObjectChoice, ObjectSelection, RandomObjects
from swerve.transformations.pasted_reswap import PastedReswap
from swerve.transformations.reswap import Recolour, RemoveObjects, Reswap
from swerve.world.drives import drive, parse_frame_key
from swerve.world.labels import MAX_HIDDEN
from swerve.world.model_sizes import models_by_size
from swerve.world.objects import scene_of
from swerve.world.paint import other_colours
from swerve.world.scene import LABELLED, Thing

if TYPE_CHECKING:
    from swerve.core.system import System

MODEL, COLOUR, REMOVE, PASTED = CHANGES = ("model", "colour", "remove", "pasted-model")
NEAREST, ANY = SIZES = ("nearest", "any")


@dataclass(frozen=True)
class Swaps(BatchSpace):
    """Objects of a frame of the embedded world, each with another "model" or "colour", or without it ("remove").

    "pasted-model" pastes the rendered models into the picture of the frame, which shows what pasting does to answers.

    Args:
        change: what is changed.
        choose: which objects are changed first.
        size: whether the new model is the one "nearest" in size, or "any" other of its kind.
        count: how many objects are changed at once; a frame with fewer has no change.
        kinds: of objects that may be changed.
        least: the smallest width and height of an object's visible part: a share of the image's width, or pixels from 1 on.
        hidden: the largest share of an object that may be hidden.
    """

    change: Annotated[str, OneOfNames(*CHANGES)] = MODEL
    choose: ObjectSelection = field(default_factory=RandomObjects)
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
        self._choice()  # reports wrong arguments now

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> Sequence[Proposal]:
        """One change for each case, or the reason why there is none."""
        chosen = self._choice().choose(cases, rngs, system, check=_check_unchanged)
        return [
            one if isinstance(one, NotApplicable) else self._change(case, tuple(sorted(one.numbers)), rng)
            for case, one, rng in zip(cases, chosen, rngs, strict=True)
        ]

    def _choice(self) -> ObjectChoice:
        return ObjectChoice(self.choose, self.count, self.kinds, self.least, self.hidden)

    def _change(self, case: Case, numbers: tuple[int, ...], rng: np.random.Generator) -> Transformation:
        frame = scene_of(case).scene
        scene = drive(parse_frame_key(frame)[0]).scene
        things = [scene.things[number - 1] for number in numbers]
        if self.change in (MODEL, PASTED):
            swap = Reswap if self.change == MODEL else PastedReswap
            return swap(frame, numbers, tuple(self._model(thing, rng) for thing in things))
        if self.change == COLOUR:
            return Recolour(frame, numbers, tuple(_pick(other_colours(thing.mesh), rng) for thing in things))
        return RemoveObjects(frame, numbers)

    def _model(self, thing: Thing, rng: np.random.Generator) -> int:
        models = models_by_size(thing)
        return models[0] if self.size == NEAREST else models[int(rng.integers(len(models)))]


def _check_unchanged(case: Case) -> None:
    """Raise `NotApplicable` unless a case is a frame of the embedded world as it was rendered."""
    scene_of(case)
    if case.parent is not None:
        raise NotApplicable("the frame was already changed: an edit of its scene must be the first step of a chain")


def _pick(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))]
