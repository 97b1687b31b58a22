"""A space of changes of objects within pictures that have instance masks: which objects, and into what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.space import BatchSpace, Proposal
from swerve.core.values import Group
from swerve.transformations.fill import METHODS, PATCH
from swerve.transformations.frame_objects import FrameObject
from swerve.transformations.object_choice import LEAST, ChosenObjects, ObjectChoice, ObjectSelection, RandomObjects
from swerve.transformations.object_library import ObjectLibrary, open_library
from swerve.transformations.replace_objects import PasteBack, PasteObjects, target
from swerve.world.labels import MAX_HIDDEN

if TYPE_CHECKING:
    from swerve.core.system import System

REPLACE, BACK = CHANGES = ("replace", "paste-back")
NEAREST, ANY = PICKS = ("nearest", "any")


@dataclass(frozen=True)
class Retouches(BatchSpace):
    """Objects of a picture, each replaced by one of a library, or removed and pasted back as a control.

    Args:
        library: the objects to paste; built by `swerve objects build`.
        change: "replace", or "paste-back" for the control, which skips the same pictures.
        choose: which objects are changed first.
        pick: the "nearest" object of the library in shape and area, or "any" of its kind.
        count: how many objects are changed at once; a picture with fewer has no change.
        kinds: of objects that may be changed; all if there are none.
        least: the smallest width and height of an object's visible part: a share of the picture's width, or pixels from 1.
        hidden: the largest share of an object that may be hidden, where that is known.
        whole: whether objects at an edge of the picture are left alone, as their true size is not known.
        fill: how the hole of a removed object is filled.
    """

    library: Asset
    change: Annotated[str, OneOfNames(*CHANGES)] = REPLACE
    choose: ObjectSelection = field(default_factory=RandomObjects)
    pick: Annotated[str, OneOfNames(*PICKS)] = NEAREST
    count: int = 1
    kinds: tuple[str, ...] = ()
    least: float = LEAST
    hidden: float = MAX_HIDDEN
    whole: bool = True
    fill: Annotated[str, OneOfNames(*METHODS)] = PATCH

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        check_known("change", self.change, CHANGES)
        check_known("pick", self.pick, PICKS)
        check_known("method of filling:", self.fill, METHODS)
        open_library(self.library)
        self._choice()  # reports wrong arguments now

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> Sequence[Proposal]:
        """One change for each case, or the reason why there is none."""
        chosen = self._choice().choose(cases, rngs, system, check=check_single)
        return [
            one if isinstance(one, NotApplicable) else self._proposal(case, one, rng)
            for case, one, rng in zip(cases, chosen, rngs, strict=True)
        ]

    def _choice(self) -> ObjectChoice:
        return ObjectChoice(self.choose, self.count, self.kinds, self.least, self.hidden, self.whole)

    def _proposal(self, case: Case, chosen: ChosenObjects, rng: np.random.Generator) -> Proposal:
        library, items = open_library(self.library), [chosen.objects.numbered[number] for number in chosen.numbers]
        old = tuple(item.span for item in items)
        try:
            names = tuple(self._picked(library, case, item, rng) for item in items)
            new = tuple(target(library.cutout(name), item, chosen.objects) for name, item in zip(names, items, strict=True))
        except NotApplicable as why:
            return why
        if self.change == BACK:
            return PasteBack(chosen.numbers, old, old, fill=self.fill)
        return PasteObjects(chosen.numbers, old, new, names, self.library, fill=self.fill)

    def _picked(self, library: ObjectLibrary, case: Case, item: FrameObject, rng: np.random.Generator) -> str:
        able = library.ranked(item, case)
        return able[0 if self.pick == NEAREST else int(rng.integers(len(able)))].name


def check_single(case: Case) -> None:
    """Raise `NotApplicable` for a window of frames."""
    if any(isinstance(value, Group) for value in case.inputs.values()):
        raise NotApplicable("the case is a window of frames, of which the masks show one")
