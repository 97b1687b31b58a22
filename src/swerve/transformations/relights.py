"""A space of changes of traffic lights that are rendered again: which lights of a frame change, and into what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from swerve.core.arguments import OneOfNames, check_known, check_number
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.transformation import Transformation
from swerve.core.values import Boxes2D, SceneRef, find
from swerve.relations.matching import overlaps
from swerve.transformations.light_targets import Corners
from swerve.transformations.relight import (
    RelightFarther,
    RelightMore,
    RelightPlace,
    RelightState,
    RelightTurned,
    light_input,
    shifted,
    zoomed,
)
from swerve.world.camera import Camera
from swerve.world.light_labels import MAX_HIDDEN, HeadPixels, VisibleHead, head_pixels, in_view
from swerve.world.light_views import View, camera_of, is_light_key, view
from swerve.world.signal_heads import COLOURS, SignalHead

if TYPE_CHECKING:
    from swerve.core.system import System

Random = np.random.Generator
CHANGES = ("state", "place", "more", "turned", "farther")
OTHER_STATE = {"red": "green", "green": "red"}  # TG-12
GAPS = (1.05, 1.6)  # a head moves by so many of its own widths


@dataclass(frozen=True)
class Relights:
    """Changes of the traffic lights of a frame of `world-lights`, each of a random part of its lights.

    `change` is "state", "place", "more", "turned" or "farther". A state changes from red to green and back, or with
    `any_state` to any other colour. "farther" changes all lights, with `zoom` times the focal length.
    """

    change: Annotated[str, OneOfNames(*CHANGES)] = "state"
    any_state: bool = False
    zoom: float = 0.8

    def __post_init__(self) -> None:
        check_known("change", self.change, CHANGES)
        check_number("zoom", self.zoom, 0.25, 1.0)

    def propose(self, case: Case, rng: Random, system: System) -> Transformation:
        """One change for `case`; raises `NotApplicable` if there is none."""
        del system
        here = _Frame.of(case)
        if self.change == "farther":
            return here.farther(self.zoom)
        return {"state": self._state, "place": _place, "more": _more, "turned": _turned}[self.change](here, rng)

    def grid(self) -> Sequence[Transformation]:
        """Empty: the changes depend on the case."""
        return ()

    def _state(self, here: _Frame, rng: Random) -> Transformation:
        lit = [item for item in here.required if item.kind in (COLOURS if self.any_state else OTHER_STATE)]
        chosen = _some(lit, rng, "no required light of the frame is red or green")
        states = tuple(self._other(item.kind, rng) for item in chosen)
        return RelightState(**here.rows(chosen, [item.box for item in chosen]), states=states)

    def _other(self, state: str, rng: Random) -> str:
        if not self.any_state:
            return OTHER_STATE[state]
        return str(rng.choice([each for each in COLOURS if each != state]))


@dataclass(frozen=True, eq=False)
class _Frame:
    """A frame with its visible heads, as the label has them."""

    name: str
    view: View
    camera: Camera
    items: tuple[VisibleHead, ...]

    @classmethod
    def of(cls, case: Case) -> _Frame:
        ref, boxes = find(case.truth, "scene"), find(case.truth, "boxes2d")
        if not isinstance(ref, SceneRef) or not is_light_key(ref.scene):
            raise NotApplicable("the case is not a frame of 'world-lights'")
        if case.parent is not None:
            raise NotApplicable("the frame was already changed: a change of its lights must be the first step of a chain")
        if not isinstance(boxes, Boxes2D) or not len(boxes.xyxy):
            raise NotApplicable("no traffic light is visible in the frame")
        here, camera = view(ref.scene), camera_of(ref.scene, light_input(case)[1].size)
        return cls(ref.scene, here, camera, tuple(in_view(here.scene, here.pose, camera)))

    @property
    def required(self) -> list[VisibleHead]:
        """The heads that must be detected."""
        return [item for item in self.items if item.care]

    def head(self, item: VisibleHead) -> SignalHead:
        """The head of an item."""
        return self.view.scene.heads[item.number]

    def rows(self, chosen: Sequence[VisibleHead], new: Sequence[Corners]) -> dict[str, Any]:
        """The arguments of a change of the chosen heads."""
        return {
            "frame": self.name,
            "heads": tuple(item.number for item in chosen),
            "old": tuple(item.box for item in chosen),
            "new": tuple(new),
            "was": tuple(item.kind for item in chosen),
            "care": (True,) * len(chosen),
        }

    def pixels(self, head: SignalHead) -> HeadPixels | None:
        """The pixels that a head would have, if all of it is in the frame, large enough, and hardly hidden."""
        found = head_pixels(head, self.view.pose, self.camera)
        if found is None or found.inside < 1 or not found.is_large:
            return None
        return found if found.hidden_in(self.view.scene, self.view.pose, self.camera, head) <= MAX_HIDDEN / 5 else None

    def farther(self, zoom: float) -> RelightFarther:
        """All heads by a camera with another zoom."""
        after = {item.number: item for item in in_view(self.view.scene, self.view.pose, zoomed(self.camera, zoom))}
        kept = [item for item in self.items if item.number in after]
        if not kept:
            raise NotApplicable("no traffic light is left in the frame with this zoom")
        known = {item.number for item in self.items}
        rows = self.rows(kept, [after[item.number].box for item in kept])
        care = tuple(after[item.number].care for item in kept)
        fresh = tuple(item.box for number, item in after.items() if number not in known)
        return RelightFarther(**{**rows, "care": care}, zoom=zoom, fresh=fresh)


def _some(items: Sequence[VisibleHead], rng: Random, reason: str) -> list[VisibleHead]:
    """A random part of the heads, at least one."""
    if not items:
        raise NotApplicable(reason)
    chosen = rng.random(len(items)) < 0.5
    chosen[int(rng.integers(len(items)))] = True
    return [item for item, one in zip(items, chosen, strict=True) if one]


def _place(here: _Frame, rng: Random) -> Transformation:
    return _beside(here, rng, RelightPlace, here.required)


def _more(here: _Frame, rng: Random) -> Transformation:
    """Copies of one to half of the lights (D-23)."""
    count = int(rng.integers(1, max(1, len(here.required) // 2) + 1))
    return _beside(here, rng, RelightMore, [here.required[row] for row in rng.permutation(len(here.required))][:count])


def _beside(
    here: _Frame, rng: Random, kind: type[RelightPlace | RelightMore], wanted: Sequence[VisibleHead]
) -> Transformation:
    """Lights at places beside their own: to one side or else to the other, where they are free of all other lights."""
    chosen = wanted if kind is RelightMore else _some(wanted, rng, "no light of the frame must be detected")
    taken = [item.box for item in here.items]
    found: list[tuple[VisibleHead, Corners, float]] = []
    for item in chosen:
        if spot := _free_spot(here, item, rng, [*taken, *(box for _, box, _ in found)]):
            found.append((item, *spot))
    if not found:
        raise NotApplicable("no light has free space beside it")
    rows = here.rows([item for item, _, _ in found], [box for _, box, _ in found])
    return kind(**rows, shifts=tuple(by for _, _, by in found))


def _free_spot(here: _Frame, item: VisibleHead, rng: Random, taken: Sequence[Corners]) -> tuple[Corners, float] | None:
    head = here.head(item)
    low, high = head.mesh.bounds()
    by = round(float(high[1] - low[1]) * float(rng.uniform(*GAPS)), 3) * float(rng.choice([-1, 1]))
    for shift in (by, -by):
        pixels = here.pixels(shifted(head, shift))
        if pixels is not None and not overlaps(np.array([pixels.box]), np.array(taken)).any():
            return pixels.box, shift
    return None


def _turned(here: _Frame, rng: Random) -> Transformation:
    """Lights turned by 90 degrees where they then fit."""
    fitting = {}
    for item in here.required:
        pixels = here.pixels(here.head(item).turned())
        others = [other.box for other in here.items if other.number != item.number]
        if pixels is not None and (not others or not overlaps(np.array([pixels.box]), np.array(others)).any()):
            fitting[item.number] = pixels.box
    chosen = _some([item for item in here.required if item.number in fitting], rng, "no light of the frame can be turned")
    return RelightTurned(**here.rows(chosen, [fitting[item.number] for item in chosen]))
