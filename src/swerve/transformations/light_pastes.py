"""A space of changes of traffic lights in any labelled picture: which of its lights change, and into what."""

# TG-12..TG-15, D-23, D-38

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from swerve.core.arguments import OneOfNames, check_known, check_number
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.transformation import Transformation
from swerve.core.values import Boxes2D, Image, find
from swerve.relations.matching import overlaps
from swerve.transformations.lamps import TARGETS, colour_of, find_lamp, other_state
from swerve.transformations.light_cut import span_of
from swerve.transformations.light_paste import (
    CLEAN,
    PAPER,
    STYLES,
    PasteLights,
    PasteMore,
    PastePlace,
    PasteState,
    PasteTurned,
    aside,
    is_flat,
    is_inside,
)
from swerve.transformations.light_targets import Corners, turned_box

if TYPE_CHECKING:
    from swerve.core.system import System

Random = np.random.Generator
STATE, PLACE, MORE, TURNED, BACK = CHANGES = ("state", "place", "more", "turned", "back")
SQUARE = 1.25  # aspect ratios up to this are neither flat nor upright
MOST_HIDDEN = 0.3  # share: what hides more of a light would change with it


@dataclass(frozen=True)
class LightPastes:
    """Changes of the traffic lights of a labelled picture, each of a random part of its lights.

    Args:
        change: "state" (red to green and back), "place", "more", "turned", or "back", which only cuts out and pastes.
        style: "clean", or "paper" for the way of TigAug.
        least: the shorter side in pixels of the smallest light that is changed.
    """

    change: Annotated[str, OneOfNames(*CHANGES)] = STATE
    style: Annotated[str, OneOfNames(*STYLES)] = CLEAN
    least: float = 4.0

    def __post_init__(self) -> None:
        check_known("change", self.change, CHANGES)
        check_known("style", self.style, STYLES)
        check_number("least", self.least, 1)

    def propose(self, case: Case, rng: Random, system: System) -> Transformation:
        """One change for `case`; raises `NotApplicable` with the reasons if no light can change."""
        del system
        here = LabelledLights.of(case)
        draw = {STATE: _state, PLACE: _place, MORE: _more, TURNED: _turned, BACK: _back}[self.change]
        return draw(here, self, rng)

    def grid(self) -> Sequence[Transformation]:
        """Empty: the changes depend on the case."""
        return ()

    def usable(self, here: LabelledLights, reason: Callable[[int], str]) -> list[int]:
        """The lights that can change: those without a `reason` why not."""
        found = {row: self._why_not(here, row) or reason(row) for row in range(len(here.boxes))}
        usable = [row for row, why in found.items() if not why]
        if not usable:
            raise NotApplicable(f"no traffic light can change: {', '.join(sorted(set(found.values())))}")
        return usable

    def arguments(self, here: LabelledLights, chosen: Sequence[int], **lists: Sequence[Any]) -> dict[str, Any]:
        """The arguments of a change of the chosen lights."""
        others = tuple(box for row, box in enumerate(here.boxes) if row not in chosen)
        own = {"old": tuple(here.boxes[row] for row in chosen), "was": tuple(here.states[row] for row in chosen)}
        return {**own, "others": others, "style": self.style, **{name: tuple(values) for name, values in lists.items()}}

    def _why_not(self, here: LabelledLights, row: int) -> str:
        box = here.boxes[row]
        if not here.care[row]:
            return "not required"
        if min(box[2] - box[0], box[3] - box[1]) < self.least:
            return f"smaller than {self.least:g} px"
        if not is_inside(box, *here.picture.size):
            return "cut off by the border"
        return "partly hidden" if here.hidden[row] > MOST_HIDDEN else ""


@dataclass(frozen=True, eq=False)
class LabelledLights:
    """The lights of a case, as its label has them, and its picture."""

    picture: Image
    boxes: tuple[Corners, ...]
    states: tuple[str, ...]
    care: tuple[bool, ...]
    hidden: tuple[float, ...]

    @classmethod
    def of(cls, case: Case) -> LabelledLights:
        """The lights of a case; raises `NotApplicable` without a picture of its own or without lights."""
        pictures = [value for value in case.inputs.values() if isinstance(value, Image)]
        label = find(case.truth, Boxes2D.slot)
        if len(pictures) != 1:
            raise NotApplicable("the case has no single picture to change")
        if not isinstance(label, Boxes2D) or not label.kinds:
            raise NotApplicable("no traffic light is labelled in the picture")
        hidden = np.zeros(len(label.kinds)) if label.hidden is None else np.asarray(label.hidden)
        care = tuple(np.asarray(label.care, bool).tolist())
        boxes = tuple((left, top, right, bottom) for left, top, right, bottom in label.xyxy.tolist())
        return cls(pictures[0], boxes, label.kinds, care, tuple(hidden.tolist()))

    def is_free(self, box: Corners, taken: Sequence[Corners]) -> bool:
        """Whether a box lies in the picture and on no light."""
        width, height = self.picture.size
        return is_inside(box, width, height) and not overlaps(np.array([box]), np.array([*self.boxes, *taken])).any()


def _state(here: LabelledLights, space: LightPastes, rng: Random) -> Transformation:
    def reason(row: int) -> str:
        box, state = here.boxes[row], here.states[row]
        colour = colour_of(state)
        if colour not in TARGETS:
            return "neither red nor green"
        if other_state(state, flat=is_flat(box)) is None:
            return "an arrow that a flip would turn round"
        return "" if space.style == PAPER or find_lamp(_cut(here, box), colour) else "no lit lamp found"

    chosen = _some(space.usable(here, reason), rng)
    now = [other_state(here.states[row], flat=is_flat(here.boxes[row])) for row in chosen]
    return PasteState(**space.arguments(here, chosen, now=now))


def _back(here: LabelledLights, space: LightPastes, rng: Random) -> Transformation:
    return PasteLights(**space.arguments(here, _some(space.usable(here, lambda _row: ""), rng)))


def _place(here: LabelledLights, space: LightPastes, rng: Random) -> Transformation:
    chosen = _some(space.usable(here, lambda row: "" if _free_shift(here, row, ()) else "no free space beside"), rng)
    shifts = _shifts(here, chosen)
    return PastePlace(**space.arguments(here, list(shifts), shifts=list(shifts.values())))


def _more(here: LabelledLights, space: LightPastes, rng: Random) -> Transformation:
    """Copies of one to half of the lights (D-23)."""
    usable = space.usable(here, lambda row: "" if _free_shift(here, row, ()) else "no free space beside")
    count = int(rng.integers(1, max(1, len(here.boxes) // 2) + 1))
    shifts = _shifts(here, [usable[place] for place in rng.permutation(len(usable))][:count])
    return PasteMore(**space.arguments(here, list(shifts), shifts=list(shifts.values())))


def _turned(here: LabelledLights, space: LightPastes, rng: Random) -> Transformation:
    def reason(row: int) -> str:
        box = here.boxes[row]
        wide, high = box[2] - box[0], box[3] - box[1]
        if max(wide, high) <= SQUARE * min(wide, high):
            return "nearly square"
        if not is_inside(_quarter(box), *here.picture.size):
            return "would leave the picture"
        others = [other for other in here.boxes if other != box]
        return "would cover another light" if others and overlaps(np.array([_quarter(box)]), np.array(others)).any() else ""

    wanted = _some(space.usable(here, reason), rng)
    chosen: list[int] = []
    for row in wanted:
        taken = np.array([_quarter(here.boxes[one]) for one in chosen])
        if not len(taken) or not overlaps(np.array([_quarter(here.boxes[row])]), taken).any():
            chosen.append(row)
    return PasteTurned(**space.arguments(here, chosen))


def _quarter(box: Corners) -> Corners:
    return turned_box(box, box, -1 if is_flat(box) else 1)


def _some(rows: Sequence[int], rng: Random) -> list[int]:
    """A random part of the lights, at least one."""
    chosen = rng.random(len(rows)) < 0.5
    chosen[int(rng.integers(len(rows)))] = True
    return [row for row, one in zip(rows, chosen, strict=True) if one]


def _shifts(here: LabelledLights, chosen: Sequence[int]) -> dict[int, int]:
    """How far each light moves, one after the other; those without space beside the others stay."""
    found: dict[int, int] = {}
    for row in chosen:
        taken = [aside(here.boxes[other], by) for other, by in found.items()]
        if shift := _free_shift(here, row, taken):
            found[row] = shift
    return found


def _free_shift(here: LabelledLights, row: int, taken: Sequence[Corners]) -> int:
    """The width of the light to the right, or else to the left, where that is free; 0 if neither is."""
    box = here.boxes[row]
    wide = int(np.ceil(box[2] - box[0]))
    return next((by for by in (wide, -wide) if here.is_free(aside(box, by), taken)), 0)


def _cut(here: LabelledLights, box: Corners) -> Any:
    left, top, right, bottom = span_of(box)
    return here.picture.pixels[top:bottom, left:right]
