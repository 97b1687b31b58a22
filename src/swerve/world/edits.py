"""Edits of a scene: objects with another model or colour, removed or added; all else stays exactly as it is.

Numbers of things do not change: a removed thing leaves its number unused, and added ones come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from swerve.core.lru import SizedLRU
from swerve.world.mesh import Mesh
from swerve.world.models import build_model, model_count
from swerve.world.paint import painted
from swerve.world.scene import LABELLED, Scene, Solid, Thing

REMOVED = "removed"  # the kind of a thing that is no longer there
_SCENERY = SizedLRU(4)  # recent scenes, which keeps their ids unique, and their scenery of 30 MB each


class Edit(Protocol):
    """A change of one object of a scene."""

    def fault(self, scene: Scene) -> str | None:
        """Why it cannot be made in `scene`, or None."""

    def apply(self, things: list[Thing]) -> None:
        """Make it in the things of a scene."""


@dataclass(frozen=True)
class _OfThing:
    """An edit of the thing with a number, which must be a labelled one."""

    thing: int

    def fault(self, scene: Scene) -> str | None:
        """Why it cannot be made in `scene`, or None."""
        if not 1 <= self.thing <= len(scene.things):
            return f"the scene has no object {self.thing}: its things have the numbers 1 to {len(scene.things)}"
        kind = scene.things[self.thing - 1].kind
        return None if kind in LABELLED else f"object {self.thing} is a {kind}, not a {', '.join(LABELLED)}"


@dataclass(frozen=True)
class SwapModel(_OfThing):
    """Another model of the same kind, at the same pose."""

    model: int

    def fault(self, scene: Scene) -> str | None:
        """Why it cannot be made in `scene`, or None."""
        return super().fault(scene) or _model_fault(scene.things[self.thing - 1].kind, self.model)

    def apply(self, things: list[Thing]) -> None:
        """Make it in the things of a scene."""
        old = things[self.thing - 1]
        things[self.thing - 1] = replace(old, mesh=_model(old.kind, self.model, parked=old.track is None))


@dataclass(frozen=True)
class Paint(_OfThing):
    """The same model with another main colour."""

    colour: str

    def apply(self, things: list[Thing]) -> None:
        """Make it in the things of a scene."""
        old = things[self.thing - 1]
        things[self.thing - 1] = replace(old, mesh=painted(old.mesh, self.colour))


@dataclass(frozen=True)
class Remove(_OfThing):
    """The object is not there."""

    def apply(self, things: list[Thing]) -> None:
        """Make it in the things of a scene."""
        old = things[self.thing - 1]
        empty = Mesh(*(getattr(old.mesh, name)[:0] for name in Mesh.__dataclass_fields__))
        things[self.thing - 1] = replace(old, kind=REMOVED, mesh=empty, track=None)


@dataclass(frozen=True)
class Add:
    """One more object, which stands still at x, y and yaw in the world."""

    kind: str
    model: int
    x: float
    y: float
    yaw: float

    def fault(self, scene: Scene) -> str | None:
        """Why it cannot be made in `scene`, or None."""
        del scene
        if self.kind not in LABELLED:
            return f"a {self.kind} cannot be added, only one of {', '.join(LABELLED)}"
        return _model_fault(self.kind, self.model)

    def apply(self, things: list[Thing]) -> None:
        """Make it in the things of a scene."""
        things.append(Thing(self.kind, _model(self.kind, self.model, parked=True), self.x, self.y, self.yaw))


def _model_fault(kind: str, model: int) -> str | None:
    count = model_count(kind)
    return None if 0 <= model < count else f"there is no {kind} model {model}: they have the numbers 0 to {count - 1}"


def _model(kind: str, number: int, *, parked: bool) -> Mesh:
    body = build_model(kind, number)
    return body.unlit() if parked else body


def edited(scene: Scene, edits: Sequence[Edit]) -> Scene:
    """The scene with all edits made."""
    things = list(scene.things)
    for edit in edits:
        edit.apply(things)
    fields = {name: getattr(scene, name) for name in Scene.__dataclass_fields__}
    return EditedScene(**{**fields, "things": tuple(things)}, base=scene)


def _is_scenery(thing: Thing) -> bool:
    return thing.track is None and thing.kind not in LABELLED


@dataclass(frozen=True, eq=False)
class EditedScene(Scene):
    """A scene made of `base` with edits; shares its Embree tree, or that of its scenery if parked objects have other shapes.

    Building a tree of all that stands takes as long as rendering a frame.
    """

    base: Scene

    @cached_property
    def static(self) -> Solid:
        """Everything that does not move and was not edited."""
        return self._scenery() if self._reshaped else self._repainted(self.base.static)

    def is_loose(self, number: int) -> bool:
        """Whether a thing is not part of `static`: it moves, was added, or stands among parked objects of other shapes."""
        thing = self.things[number - 1]
        added = number > len(self.base.things)
        return added or thing.track is not None or (self._reshaped and thing.kind in LABELLED)

    @cached_property
    def _reshaped(self) -> bool:
        """Whether an object that stood in the original scene has another shape or is gone."""
        pairs = zip(self.base.things, self.things, strict=False)
        return any(old.track is None and old.mesh.corners is not new.mesh.corners for old, new in pairs)

    def _scenery(self) -> Solid:
        _, solid = _SCENERY.get(id(self.base), lambda: (self.base, self.base.standing(_is_scenery)))
        return solid

    def _repainted(self, solid: Solid) -> Solid:
        """The same triangles with the colours of things that were painted."""
        pairs = enumerate(zip(self.base.things, self.things, strict=False), 1)
        changed = [(number, new.mesh) for number, (old, new) in pairs if old.track is None and old.mesh is not new.mesh]
        if not changed:
            return solid
        colour = solid.mesh.colour.copy()
        for number, mesh in changed:
            colour[np.flatnonzero(solid.owner == number)] = mesh.colour
        return replace(solid, mesh=replace(solid.mesh, colour=colour))
