"""Objects of a picture in other colours, as the published code of semSensFuzz changes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.space import BatchSpace, Proposal
from swerve.core.transformation import param
from swerve.core.values import Array
from swerve.transformations.frame_objects import FrameObjects
from swerve.transformations.object_choice import LEAST, ObjectChoice, ObjectSelection, RandomObjects
from swerve.transformations.replace_objects import Retouched
from swerve.transformations.retouch import Placed
from swerve.transformations.retouches import check_single
from swerve.world.labels import MAX_HIDDEN

if TYPE_CHECKING:
    from swerve.core.system import System

LIGHT = 100  # of 255: the level from which an object, and a pixel, is light (B.4, item 44)
PALE = 100  # of 255: the saturation below which a light object gets more of it
HUES, DARKER, RICHER = (90, 270), (20, 50), (10, 40)


@dataclass(frozen=True)
class TintObjects(Retouched):
    """The objects `things` with their hue turned, all of their pixels; light ones also get darker and richer in colour."""

    # B.4, item 44

    hue: float = param(0, 360, neutral=0, resolution=1, unit="°", usual=HUES, default=180.0)
    darker: float = param(0, 255, neutral=0, resolution=1, usual=DARKER, default=35.0)
    richer: float = param(0, 255, neutral=0, resolution=1, usual=RICHER, default=25.0)
    shown_as: ClassVar[str] = "tinted"

    def drawn(self, case: Case, seen: FrameObjects, pixels: Array) -> tuple[Array, list[Placed]]:
        """The picture with the objects in their new colours; all outlines stay."""
        del case
        canvas = pixels.copy()
        for thing in self.things:
            left, top, right, bottom = seen.numbered[thing].span
            box = canvas[top:bottom, left:right]
            mask = seen.instances[top:bottom, left:right] == thing
            box[mask] = self._tinted(np.ascontiguousarray(box[mask][None]))[0]
        return canvas, []

    def words(self) -> str:
        """Such as "object 26003 in another colour, hue turned by 120°"."""
        objects = ", ".join(map(str, self.things))
        return f"object{'s' if len(self.things) > 1 else ''} {objects} in another colour, hue turned by {self.hue:g}°"

    def _tinted(self, pixels: Array) -> Array:
        hls = cv2.cvtColor(pixels, cv2.COLOR_RGB2HLS).astype(np.int32)
        hue, light, rich = hls[..., 0], hls[..., 1], hls[..., 2]  # OpenCV has 180 hues
        hue[:] = (hue + round(self.hue / 2)) % 180
        if light.mean() > LIGHT:
            rich[:] = np.where(rich < PALE, np.minimum(rich + round(self.richer), 255), rich)
            light[:] = np.where(light >= LIGHT, np.maximum(light - round(self.darker), 0), light)
        return np.asarray(cv2.cvtColor(hls.astype(np.uint8), cv2.COLOR_HLS2RGB))


@dataclass(frozen=True)
class Tints(BatchSpace):
    """Objects of a picture in random other colours: semSensFuzz's change, of random objects or of those of a selection.

    Args:
        choose: which objects are changed first.
        count: how many objects are changed at once; a picture with fewer has no change.
        kinds: of objects that may be changed; all if there are none.
        least: the smallest width and height of an object's visible part: a share of the picture's width, or pixels from 1.
        hidden: the largest share of an object that may be hidden, where that is known.
    """

    choose: ObjectSelection = field(default_factory=RandomObjects)
    count: int = 1
    kinds: tuple[str, ...] = ()
    least: float = LEAST
    hidden: float = MAX_HIDDEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        self._choice()  # reports wrong arguments now

    def propose_all(self, cases: Sequence[Case], rngs: Sequence[np.random.Generator], system: System) -> Sequence[Proposal]:
        """One change for each case, or the reason why there is none."""
        chosen = self._choice().choose(cases, rngs, system, check=check_single)
        return [
            one if isinstance(one, NotApplicable) else self._tint(one.numbers, one.objects, rng)
            for one, rng in zip(chosen, rngs, strict=True)
        ]

    def _choice(self) -> ObjectChoice:
        return ObjectChoice(self.choose, self.count, self.kinds, self.least, self.hidden)

    def _tint(self, numbers: tuple[int, ...], seen: FrameObjects, rng: np.random.Generator) -> TintObjects:
        boxes = tuple(seen.numbered[number].span for number in numbers)
        hue, darker, richer = (float(rng.integers(low, high + 1)) for low, high in (HUES, DARKER, RICHER))
        return TintObjects(numbers, boxes, boxes, hue, darker, richer)
