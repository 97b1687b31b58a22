"""Objects of a picture drawn anew from its label map by a trained painter: same outline, place and kind, another look."""

# IA-9: the second strategy of IATG

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

import cv2
import numpy as np

from swerve.core.arguments import OneOfNames, check_known, check_whole
from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.space import BatchSpace, Proposal
from swerve.core.values import Array
from swerve.explain.heat import picture_of
from swerve.transformations.frame_objects import FrameObject, FrameObjects, classes_of
from swerve.transformations.object_choice import LEAST, ChosenObjects, ObjectChoice, ObjectSelection, RandomObjects
from swerve.transformations.paste import RIM, paste_piece
from swerve.transformations.replace_objects import Retouched
from swerve.transformations.retouch import RIM_WIDE, Placed
from swerve.transformations.retouches import check_single
from swerve.translation.label_window import OWN, LabelWindow, renumbered, square_around, window
from swerve.world.labels import MAX_HIDDEN

if TYPE_CHECKING:
    from swerve.core.system import System
    from swerve.translation.painting import Painting

OTHER, SAME, CROP = LOOKS = ("other", "own", "crop")
CROPPED = -2  # the object's own pixels, pasted back with the same blending


@dataclass(frozen=True)
class TranslateObjects(Retouched):
    """Objects of a picture drawn in the looks numbered `looks` and pasted in their own outlines; nothing has to be filled.

    The look -1 is the object's own, drawn by the painter; -2 are its own pixels. Both are controls.
    """

    looks: tuple[int, ...]
    painter: Asset
    lists: ClassVar[tuple[str, ...]] = (*Retouched.lists, "looks")
    shown_as: ClassVar[str] = "translated"

    def __post_init__(self) -> None:
        super().__post_init__()
        for look in self.looks:
            check_whole("looks", look, CROPPED)
        if self.old != self.new:
            raise ValueError("'new' must be 'old': a translated object keeps its outline")

    def applies(self, case: Case) -> str | None:
        """The reason why `case` cannot be changed like this, or None."""
        try:
            classes_of(case)
        except NotApplicable as why:
            return str(why)
        return super().applies(case)

    def drawn(self, case: Case, seen: FrameObjects, pixels: Array) -> tuple[Array, list[Placed]]:
        """The picture with its objects translated; all of them are drawn from the picture as it was."""
        canvas, painting = pixels.copy(), _painting(self.painter)
        for thing, look in zip(self.things, self.looks, strict=True):
            item = seen.numbered[thing]
            left, top, right, bottom = item.span
            piece = pixels if look == CROPPED else _painted(painting, case, seen, item, look)
            cover = (seen.instances[top:bottom, left:right] == thing).astype(np.float32)
            paste_piece(canvas, piece[top:bottom, left:right], (left, top), cover=cover, blend=RIM, rim=RIM_WIDE)
        return canvas, []

    def words(self) -> str:
        """Such as "object 26003 translated (look 4)"."""
        names = {OWN: "its own look", CROPPED: "its own pixels"}
        pairs = zip(self.things, self.looks, strict=True)
        return ", ".join(f"object {thing} translated ({names.get(look, f'look {look}')})" for thing, look in pairs)


def _painted(painting: Painting, case: Case, seen: FrameObjects, item: FrameObject, look: int) -> Array:
    """The picture with the window around an object drawn by the painter."""
    square = square_around(item.span)
    drawn = painting.drawn(_window(painting, case, seen, item), item.number, item.kind, look)
    way = cv2.INTER_AREA if square.side < painting.about.side else cv2.INTER_CUBIC
    piece = cv2.resize(drawn, (square.side, square.side), interpolation=way)
    canvas = picture_of(case).pixels.copy()
    paste_piece(canvas, piece, (square.left, square.top), blend="copy")
    return canvas


def _window(painting: Painting, case: Case, seen: FrameObjects, item: FrameObject) -> LabelWindow:
    about = painting.about
    classes = renumbered(classes_of(case), about.classes)
    return window(picture_of(case).pixels, classes, seen.labelled, square_around(item.span), about.side)


@dataclass(frozen=True)
class Translations(BatchSpace):
    """Objects of a picture, each drawn anew from the label map in another look of its kind, or as a control.

    Args:
        painter: what draws them; trained by `swerve translate train`.
        look: "other" than the object's own; for the controls "own", drawn as it is, or "crop", its own pixels pasted back.
        choose: which objects are changed first.
        count: how many objects are changed at once; a picture with fewer has no change.
        kinds: of objects that may be changed; all that the painter knows if there are none.
        least: the smallest width and height of an object's visible part: a share of the picture's width, or pixels from 1.
        hidden: the largest share of an object that may be hidden, where that is known.
    """

    painter: Asset
    look: Annotated[str, OneOfNames(*LOOKS)] = OTHER
    choose: ObjectSelection = field(default_factory=RandomObjects)
    count: int = 1
    kinds: tuple[str, ...] = ()
    least: float = LEAST
    hidden: float = MAX_HIDDEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        check_known("look", self.look, LOOKS)
        _painting(self.painter)
        self._choice()  # reports wrong arguments now

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> Sequence[Proposal]:
        """One change for each case, or the reason why there is none."""
        chosen = self._choice().choose(cases, rngs, system, check=_check)
        return [
            one if isinstance(one, NotApplicable) else self._proposal(case, one, rng)
            for case, one, rng in zip(cases, chosen, rngs, strict=True)
        ]

    def _choice(self) -> ObjectChoice:
        kinds = self.kinds or tuple(sorted(_painting(self.painter).about.looks))
        return ObjectChoice(self.choose, self.count, kinds, self.least, self.hidden)

    def _proposal(self, case: Case, chosen: ChosenObjects, rng: np.random.Generator) -> Proposal:
        items = [chosen.objects.numbered[number] for number in chosen.numbers]
        spans = tuple(item.span for item in items)
        try:
            looks = tuple(self._look(case, chosen.objects, item, rng) for item in items)
        except NotApplicable as why:
            return why
        return TranslateObjects(chosen.numbers, spans, spans, looks, self.painter)

    def _look(self, case: Case, seen: FrameObjects, item: FrameObject, rng: np.random.Generator) -> int:
        if self.look != OTHER:
            return OWN if self.look == SAME else CROPPED
        painting = _painting(self.painter)
        able = painting.others(_window(painting, case, seen, item), item.number, item.kind)
        return able[int(rng.integers(len(able)))]


def _check(case: Case) -> None:
    check_single(case)
    classes_of(case)


def _painting(asset: Asset) -> Painting:
    from swerve.translation.painting import painting_of  # needs torch

    return painting_of(asset)
