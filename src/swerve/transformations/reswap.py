"""A frame of the embedded world rendered again with other objects: true swaps, with the labels of the edited scene."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from swerve.core.arguments import check_known, check_number, check_whole
from swerve.core.case import Case, Fact
from swerve.core.errors import NotApplicable
from swerve.core.lru import SizedLRU
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes2D, Boxes3D, Depth, Image, Masks, SceneRef, Steering, Value
from swerve.relations.matching import overlaps
from swerve.transformations.edited_boxes import expected_boxes, in_order
from swerve.transformations.rerender import rendered_inputs
from swerve.transformations.same_objects import object_facts
from swerve.world.camera import Camera
from swerve.world.class_map import class_map
from swerve.world.conditions import Conditions
from swerve.world.drives import drive, parse_frame_key
from swerve.world.edits import Add, Edit, Paint, Remove, SwapModel, edited
from swerve.world.frames import render_edited
from swerve.world.labels import boxes2d, boxes3d
from swerve.world.objects import SeenObjects, note_objects, objects_in, scene_of, view_of
from swerve.world.paint import COLOURS
from swerve.world.render import Rendered
from swerve.world.scene import LABELLED

KEPT = 1.0  # degrees of the wheel: a label that moves farther is told apart
_LABELS = SizedLRU(1024)


@dataclass(frozen=True)
class SceneEdited(Transformation):
    """The frame `frame` rendered again with `edits` of its scene, at the same pose, in the same light and exposure.

    Labels are those of the edited scene: the driver steers as it would there. An answer is expected to move as the label
    does; boxes of edited objects move with them, and objects that get hidden or visible need not be detected.
    """

    frame: str
    preserves: ClassVar[tuple[str, ...]] = ("calibration", "signal")

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits of the scene."""
        raise NotImplementedError

    def applies(self, case: Case) -> str | None:
        """The reason why `case` cannot be rendered with these edits, or None: it must be the unchanged frame."""
        try:
            ref, _ = scene_of(case), view_of(case)
        except NotApplicable as reason:
            return str(reason)
        if case.parent is not None:
            return "the frame was already changed: an edit of its scene must be the first step of a chain"
        if ref.scene != self.frame:
            return f"the change edits the frame {self.frame}, not {ref.scene}"
        scene = drive(parse_frame_key(self.frame)[0]).scene
        return next((why for edit in self.edits if (why := edit.fault(scene))), None)

    def __call__(self, case: Case) -> Case:
        if why := self.applies(case):
            raise NotApplicable(why)
        ref, camera = scene_of(case), view_of(case)
        taken: dict[str, Rendered] = {}

        def render(one: SceneRef, view: Camera) -> Image:
            taken[one.scene] = render_edited(one, self.edits, view, _conditions(one))
            return Image(self.drawn(case, taken[one.scene]))

        inputs = rendered_inputs(case, ref, render)
        seen = note_objects(self.frame, camera, self.edits, taken[self.frame])
        truth = tuple(self._label(value, camera, seen) for value in case.truth)
        facts = {**case.facts, **self._facts(case, inputs, camera)}
        return Case(case.key, inputs, truth, group=case.group, parent=case.key, facts=facts)

    @property
    def labels(self) -> tuple[float, float]:
        """The driver's steering angle in the frame and in the edited frame."""
        return _LABELS.get((self.frame, self.edits), lambda: _steering(self.frame, self.edits))

    def steering(self, value: Steering) -> Steering:
        """The angle moved as the driver's label moves; the label itself becomes exactly the new one."""
        before, after = self.labels
        return Steering(after if value.degrees == before else value.degrees + (after - before))

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """The boxes of an answer as they are expected in the edited frame."""
        if value.size is None:
            raise ValueError("boxes2d of an edited scene need their image size: give Boxes2D(size=(width, height))")
        before, after = self._objects(Camera(*value.size))
        camera = Camera(*value.size)
        return expected_boxes(value, before, after, lambda items: boxes2d(items, camera), edited=self._numbers)

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """The boxes of an answer as they are expected in the edited frame."""
        before, after = self._objects(Camera())
        return expected_boxes(value, before, after, boxes3d, edited=self._numbers)

    def masks(self, value: Masks) -> Masks:
        """The masks of an answer, with the true ones where the edits changed the object of a pixel."""
        before, after = self._objects(_camera_for(value.instances))
        changed, true = before.things != after.things, after.masks
        return Masks(np.where(changed, true.instances, value.instances), {**value.kinds, **true.kinds})

    def depth(self, value: Depth) -> Depth:
        """The depth of an answer, with the true one where the edits changed it."""
        before, after = self._objects(_camera_for(value.metres))
        return Depth(np.where(before.depth != after.depth, after.depth, value.metres))

    def scene(self, value: SceneRef) -> SceneRef:
        """The frame with its edits, which cannot be taken for the frame without them."""
        return dataclasses.replace(value, scene=f"{value.scene} ({self.words()})")

    @property
    def _numbers(self) -> frozenset[int]:
        """The numbers of the edited objects."""
        count = len(drive(parse_frame_key(self.frame)[0]).scene.things)
        added = sum(isinstance(edit, Add) for edit in self.edits)
        own = (edit.thing for edit in self.edits if isinstance(edit, SwapModel | Paint | Remove))
        return frozenset((*own, *range(count + 1, count + added + 1)))

    def _objects(self, camera: Camera) -> tuple[SeenObjects, SeenObjects]:
        """The objects of the frame and of the edited frame."""
        return objects_in(self.frame, camera), objects_in(self.frame, camera, self.edits)

    def drawn(self, case: Case, taken: Rendered) -> Array:
        """The pixels of the follow-up, from the rendered frame."""
        del case
        return taken.pixels.copy()  # it is kept, and a system may write into what it is shown

    def _label(self, value: Value, camera: Camera, seen: SeenObjects) -> Value:
        """A label of the edited frame; rows of boxes keep their places."""
        items = in_order(objects_in(self.frame, camera), seen)
        labels: Mapping[str, Callable[[], Value]] = {
            "steering": lambda: Steering(self.labels[1]),
            "boxes2d": lambda: boxes2d(items, camera),
            "boxes3d": lambda: boxes3d(items),
            "masks": lambda: seen.masks,
            "classes": lambda: _class_map(self.frame, self.edits, camera),
            "depth": lambda: Depth(seen.depth),
        }
        return labels[value.slot]() if value.slot in labels else self.map(value)

    def _facts(self, case: Case, inputs: Mapping[str, Value], camera: Camera) -> Mapping[str, Fact]:
        before, after = self.labels
        old, new = self._objects(camera)
        return {
            "label_before": before,
            "label_after": after,
            "label_moved": abs(after - before),
            "label_kept": "yes" if abs(after - before) <= KEPT else "no",
            "changed": _changed_share(case.inputs, inputs),
            "box_overlap": min((_overlap(old, new, number) for number in self._numbers), default=0.0),
            **object_facts(old.things, new.things, {item.number: _longer_side(item.box) for item in old.items}),
        }


def _class_map(frame: str, edits: tuple[Edit, ...], camera: Camera) -> Value:
    key, number = parse_frame_key(frame)
    driven = drive(key)
    return class_map(edited(driven.scene, edits), driven.poses[number], camera)


def _steering(frame: str, edits: tuple[Edit, ...]) -> tuple[float, float]:
    key, number = parse_frame_key(frame)
    driven = drive(key)
    pose, there = driven.poses[number], dataclasses.replace(driven.driver, scene=edited(driven.scene, edits))
    return driven.driver.wheel(pose), there.wheel(pose)


def _conditions(ref: SceneRef) -> Conditions:
    return Conditions(**{name: float(value) for name, value in ref.conditions.items()})


def _camera_for(pixels: Array) -> Camera:
    return Camera(pixels.shape[1], pixels.shape[0])


def _changed_share(before: Mapping[str, Value], after: Mapping[str, Value]) -> float:
    """The share of changed pixels in the first image."""
    for name, value in before.items():
        other = after[name]
        if isinstance(value, Image) and isinstance(other, Image):
            return float((value.pixels != other.pixels).any(axis=2).mean())
    return 0.0


def _longer_side(box: tuple[float, float, float, float]) -> float:
    return max(box[2] - box[0], box[3] - box[1], 1.0)


def _overlap(old: SeenObjects, new: SeenObjects, number: int) -> float:
    """The IoU of an object's boxes before and after; 0 if it is not visible in one of them."""
    if number not in old.numbered or number not in new.numbered:
        return 0.0
    one, other = (np.array([seen.numbered[number].box]) for seen in (old, new))
    return float(overlaps(one, other)[0, 0])


@dataclass(frozen=True)
class _OfThings(SceneEdited):
    """Edits of the objects with the numbers `things`."""

    things: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_frame_key(self.frame)
        for item in dataclasses.fields(self):
            if item.name != "frame":
                object.__setattr__(self, item.name, tuple(getattr(self, item.name)))
        if not self.things or len(set(self.things)) < len(self.things):
            raise ValueError(f"'things' must be one or more different numbers of objects, got {self.things!r}")
        for thing in self.things:
            check_whole("things", thing, 1)

    def simpler(self) -> Iterator[Transformation]:
        """The same with one object fewer."""
        for place in range(len(self.things) if len(self.things) > 1 else 0):
            yield dataclasses.replace(self, **_without(self, place))


def _without(change: SceneEdited, place: int) -> dict[str, Any]:
    """The lists of a change without one place."""
    lists = {item.name: getattr(change, item.name) for item in dataclasses.fields(change) if item.name != "frame"}
    return {name: values[:place] + values[place + 1 :] for name, values in lists.items()}


@dataclass(frozen=True)
class Reswap(_OfThings):
    """The frame rendered again with other `models` of the same kinds in place of the objects `things`, at the same poses."""

    models: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_as_many("models", self.models, self.things)
        for model in self.models:
            check_whole("models", model, 0)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """One swap for each object."""
        return tuple(SwapModel(*pair) for pair in zip(self.things, self.models, strict=True))

    def words(self) -> str:
        """Such as "object 57 swapped for model 12"."""
        pairs = zip(self.things, self.models, strict=True)
        return ", ".join(f"object {thing} swapped for model {model}" for thing, model in pairs)


@dataclass(frozen=True)
class Recolour(_OfThings):
    """The frame rendered again with the objects `things` in other `colours`."""

    colours: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_as_many("colours", self.colours, self.things)
        for colour in self.colours:
            check_known("colour", colour, COLOURS)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """One colour for each object."""
        return tuple(Paint(*pair) for pair in zip(self.things, self.colours, strict=True))

    def words(self) -> str:
        """Such as "object 57 painted red"."""
        pairs = zip(self.things, self.colours, strict=True)
        return ", ".join(f"object {thing} painted {colour}" for thing, colour in pairs)


@dataclass(frozen=True)
class RemoveObjects(_OfThings):
    """The frame rendered again without the objects `things`."""

    @property
    def edits(self) -> tuple[Edit, ...]:
        """One removal for each object."""
        return tuple(map(Remove, self.things))

    def words(self) -> str:
        """Such as "object 57 removed"."""
        return ", ".join(f"object {thing} removed" for thing in self.things)


@dataclass(frozen=True)
class AddObjects(SceneEdited):
    """The frame rendered again with more objects: `kinds`, their `models`, and `places`.

    A place is metres ahead and to the left of our rear axle in `frame`, and degrees turned to the left. The objects stand.
    """

    kinds: tuple[str, ...]
    models: tuple[int, ...]
    places: tuple[tuple[float, float, float], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_frame_key(self.frame)
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "models", tuple(self.models))
        object.__setattr__(self, "places", tuple(tuple(float(part) + 0.0 for part in place) for place in self.places))
        _check_as_many("models", self.models, self.kinds)
        _check_as_many("places", self.places, self.kinds)
        for kind, model, place in zip(self.kinds, self.models, self.places, strict=True):
            check_known("kind", kind, LABELLED)
            check_whole("models", model, 0)
            _check_place(place)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """One more object for each place."""
        key, number = parse_frame_key(self.frame)
        pose = drive(key).poses[number]
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        spots = [
            (pose.x + cos * ahead - sin * left, pose.y + sin * ahead + cos * left, pose.yaw + math.radians(turn))
            for ahead, left, turn in self.places
        ]
        return tuple(Add(kind, model, *spot) for kind, model, spot in zip(self.kinds, self.models, spots, strict=True))

    def simpler(self) -> Iterator[Transformation]:
        """The same with one object fewer."""
        for place in range(len(self.kinds) if len(self.kinds) > 1 else 0):
            yield dataclasses.replace(self, **_without(self, place))

    def words(self) -> str:
        """Such as "a van (model 3) added 18 m ahead and 3.1 m to the right"."""
        things = zip(self.kinds, self.models, self.places, strict=True)
        return ", ".join(f"a {kind} (model {model}) added {_where(place)}" for kind, model, place in things)


def _where(place: tuple[float, float, float]) -> str:
    ahead, left, turn = place
    aside = f"{abs(left):g} m to the {'left' if left >= 0 else 'right'}"
    turned = f", turned by {turn:g}°" if turn else ""
    return f"{abs(ahead):g} m {'ahead' if ahead >= 0 else 'behind'} and {aside}{turned}"


def _check_place(place: tuple[float, ...]) -> None:
    if len(place) != 3:
        raise ValueError(f"a place is metres ahead, metres to the left and degrees, got {place!r}")
    for name, number in zip(("ahead", "left", "turn"), place, strict=True):
        check_number(name, number)


def _check_as_many(name: str, given: tuple[Any, ...], others: tuple[Any, ...]) -> None:
    if not given or len(given) != len(others):
        raise ValueError(f"'{name}' must have one entry for each object: got {len(given)} for {len(others)}")
