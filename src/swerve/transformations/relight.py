"""Frames of `world-lights` rendered again with other traffic lights: another state or place, one more, turned, farther.

Each change is fixed: it names its frame, the numbers of its heads, and their boxes and states before and after, so that it
maps answers as it maps labels. `relights` (`swerve.transformations.relights`) proposes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from swerve.core.arguments import OneOfNames, check_known, check_number, check_whole
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.transformation import Transformation, param
from swerve.core.values import Boxes2D, Image, SceneRef, Value, find
from swerve.transformations.light_targets import Corners, LightTarget, edited_lights, targets_of, with_optional
from swerve.world.camera import Camera
from swerve.world.conditions import Conditions
from swerve.world.frames import gain_of
from swerve.world.labels import box3d
from swerve.world.light_labels import VisibleHead, light_labels, visible_heads
from swerve.world.light_views import Staged, View, camera_of, is_light_key, view
from swerve.world.mesh import Material, mesh
from swerve.world.render import render
from swerve.world.scene import Thing
from swerve.world.shapes import tube
from swerve.world.signal_heads import STATES, SignalHead

State = Annotated[str, OneOfNames(*STATES)]
BRACKET = 0.025  # metres: radius of what holds a head beside its old place


@dataclass(frozen=True)
class Relit(Transformation):
    """The frame `frame` rendered again with changes of the lights `heads`, in the same light; labels are exact.

    `old` and `new` are their boxes before and after, `was` their states before, and `care` whether they must be detected
    after the change. An answer is expected to change as the labels do: boxes on a light (IoU ≥ 0.5) are edited, others stay.
    """

    frame: str
    heads: tuple[int, ...]
    old: tuple[Corners, ...]
    new: tuple[Corners, ...]
    was: tuple[State, ...]
    care: tuple[bool, ...]
    preserves: ClassVar[tuple[str, ...]] = ("steering", "signal")
    lists: ClassVar[tuple[str, ...]] = ("heads", "old", "new", "was", "care")  # fields with an entry for each head

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.lists:
            given = tuple(tuple(item) if isinstance(item, list) else item for item in getattr(self, name))
            if len(given) != len(self.heads):
                raise ValueError(f"'{name}' must have an entry for each of the {len(self.heads)} heads, got {len(given)}")
            object.__setattr__(self, name, given)
        if not self.heads or len(set(self.heads)) < len(self.heads):
            raise ValueError(f"'heads' must be one or more different numbers of heads, got {self.heads!r}")
        for box in (*self.old, *self.new):
            if len(box) != 4:
                raise ValueError(f"'old' and 'new' must have boxes of four numbers (left, top, right, bottom), got {box!r}")
        for head, was in zip(self.heads, self.was, strict=True):
            check_whole("heads", head, 1)
            check_known("state", was, STATES)

    @property
    def now(self) -> tuple[str, ...]:
        """The states after the change."""
        return self.was

    @property
    def targets(self) -> tuple[LightTarget, ...]:
        """What the change edits."""
        rows = zip(self.old, self.new, self.was, self.now, self.care, strict=True)
        return tuple(LightTarget(*row) for row in rows)

    def edited(self, scene: Staged) -> Staged:
        """The scene after the change."""
        raise NotImplementedError

    def seen_by(self, camera: Camera) -> Camera:
        """The camera after the change."""
        return camera

    def placed(self) -> Boxes2D:
        """The changed lights in the changed image, with their new states."""
        return Boxes2D(np.array(self.new), self.now, care=np.array(self.care))

    def applies(self, case: Case) -> str | None:
        """The reason why `case` cannot be rendered with this change, or None: it must be the unchanged frame."""
        ref = find(case.truth, "scene")
        if not isinstance(ref, SceneRef) or not is_light_key(ref.scene):
            return "the case is not a frame of 'world-lights'"
        if case.parent is not None:
            return "the frame was already changed: a change of its lights must be the first step of a chain"
        if ref.scene != self.frame:
            return f"the change is for the frame {self.frame}, not {ref.scene}"
        lacking = set(self.heads) - view(self.frame).scene.heads.keys()
        return f"the frame {self.frame} has no traffic light {min(lacking)}" if lacking else None

    def __call__(self, case: Case) -> Case:
        if why := self.applies(case):
            raise NotApplicable(why)
        here, ref = view(self.frame), find(case.truth, "scene")
        name, image = light_input(case)
        assert isinstance(ref, SceneRef)
        camera, scene = self.seen_by(camera_of(self.frame, image.size)), self.edited(here.scene)
        weather = conditions_of(ref)
        gain = gain_of(ref, camera_of(self.frame, image.size), weather)
        seen = render(scene, here.pose, weather, camera, gain=gain)
        items = self._in_order(visible_heads(scene, here.pose, camera, seen), here)
        known = light_labels(items, here.pose, camera, seen)
        truth = tuple(known[value.slot]() if value.slot in known else self.map(value) for value in case.truth)
        inputs: dict[str, Value] = {**case.inputs, name: Image(seen.pixels)}
        return Case(case.key, inputs, truth, group=case.group, parent=case.key, facts=case.facts)

    def _in_order(self, items: Sequence[VisibleHead], here: View) -> list[VisibleHead]:
        """The heads after the change in the order of before it, and new ones behind: relations know a head by its place."""
        order = {
            number: box3d(head, (head.x, head.y, head.yaw), here.pose, here.camera)[0] for number, head in self._known(here)
        }
        return sorted(items, key=lambda item: (item.number not in order, order.get(item.number, 0.0), item.number))

    def _known(self, here: View) -> list[tuple[int, SignalHead]]:
        """The heads that may have been visible before the change."""
        return list(here.scene.heads.items())

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """The boxes of an answer as they are expected in the changed frame."""
        return edited_lights(value, self.targets)

    def scene(self, value: SceneRef) -> SceneRef:
        """The frame with its change, which cannot be taken for the frame without it."""
        return dataclasses.replace(value, scene=f"{value.scene} ({self.words()})")

    def simpler(self) -> Iterator[Transformation]:
        """The same with one light fewer."""
        for place in range(len(self.heads) if len(self.heads) > 1 else 0):
            shorter: dict[str, Any] = {name: _without(getattr(self, name), place) for name in self.lists}
            yield dataclasses.replace(self, **shorter)

    def _names(self) -> str:
        return f"light{'s' * (len(self.heads) > 1)} {', '.join(map(str, self.heads))}"


def _without(values: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    return values[:place] + values[place + 1 :]


def light_input(case: Case) -> tuple[str, Image]:
    """The picture of a case, and its name."""
    for name, value in case.inputs.items():
        if isinstance(value, Image):
            return name, value
    raise NotApplicable("the case has no picture")


def conditions_of(ref: SceneRef) -> Conditions:
    """The conditions that a scene reference states."""
    return Conditions(**{name: float(value) for name, value in ref.conditions.items()})


@dataclass(frozen=True)
class RelightState(Relit):
    """The frame with other `states` of the lights `heads`: only their colours and materials differ."""

    states: tuple[State, ...]
    lists: ClassVar[tuple[str, ...]] = (*Relit.lists, "states")

    def __post_init__(self) -> None:
        super().__post_init__()
        for state in self.states:
            check_known("state", state, STATES)

    @property
    def now(self) -> tuple[str, ...]:
        """The states after the change."""
        return self.states

    def edited(self, scene: Staged) -> Staged:
        """The scene with the new states, and the same tree."""
        return scene.relit(dict(zip(self.heads, self.states, strict=True)))

    def words(self) -> str:
        """Such as "lights 512, 513 rendered again: red to green, red to green"."""
        pairs = zip(self.was, self.states, strict=True)
        return f"{self._names()} rendered again: {', '.join(f'{was} to {now}' for was, now in pairs)}"


@dataclass(frozen=True)
class _Beside(Relit):
    """Lights at a place `shifts` metres to the right of their own, on a bracket."""

    shifts: tuple[float, ...]
    lists: ClassVar[tuple[str, ...]] = (*Relit.lists, "shifts")

    def __post_init__(self) -> None:
        super().__post_init__()
        for shift in self.shifts:
            check_number("shifts", shift)

    def _beside(self, scene: Staged) -> dict[int, SignalHead]:
        heads = scene.heads
        return {number: shifted(heads[number], by) for number, by in zip(self.heads, self.shifts, strict=True)}

    def _metres(self) -> str:
        return ", ".join(f"{abs(by):.2f} m to the {'right' if by > 0 else 'left'}" for by in self.shifts)


def shifted(head: SignalHead, by: float) -> SignalHead:
    """A head `by` metres to the right, as its traffic sees it."""
    return head.changed(place=(head.x + by * float(np.sin(head.yaw)), head.y - by * float(np.cos(head.yaw)), head.z))


def bracket(head: SignalHead, by: float) -> Thing:
    """What holds a head beside its old place."""
    behind = head.design.deep * head.design.lens * 0.7
    rod = tube((behind, 0.0, head.z), (behind, -by, head.z), radii=(BRACKET, BRACKET), sides=6, capped=True)
    return Thing("signal-post", mesh(rod, (0.1, 0.1, 0.1), Material.METAL, smooth=True), head.x, head.y, head.yaw)


@dataclass(frozen=True)
class RelightPlace(_Beside):
    """The frame with the lights `heads` moved sideways."""

    def edited(self, scene: Staged) -> Staged:
        """The scene with the lights at their new places."""
        rods = tuple(bracket(scene.heads[head], by) for head, by in zip(self.heads, self.shifts, strict=True))
        return scene.with_heads(self._beside(scene), rods)

    def words(self) -> str:
        """Such as "light 512 rendered again: moved 0.41 m to the right"."""
        return f"{self._names()} rendered again: moved {self._metres()}"


@dataclass(frozen=True)
class RelightMore(_Beside):
    """The frame with a copy of each of the lights `heads` beside it; the copies are numbered after all other things."""

    @property
    def targets(self) -> tuple[LightTarget, ...]:
        """What the change edits."""
        return tuple(dataclasses.replace(target, copied=True) for target in super().targets)

    def edited(self, scene: Staged) -> Staged:
        """The scene with the copies."""
        rods = tuple(bracket(scene.heads[head], by) for head, by in zip(self.heads, self.shifts, strict=True))
        return scene.with_heads({}, (*self._beside(scene).values(), *rods))

    def words(self) -> str:
        """Such as "light 512 rendered again: another one 0.41 m to the right"."""
        return f"{self._names()} rendered again: another one {self._metres()}"


@dataclass(frozen=True)
class RelightTurned(Relit):
    """The frame with lamps side by side instead of on top of each other, or the other way round; red is on top or left."""

    def edited(self, scene: Staged) -> Staged:
        """The scene with the lights turned."""
        heads = scene.heads
        return scene.with_heads({number: heads[number].turned() for number in self.heads})

    def words(self) -> str:
        """Such as "light 512 rendered again: turned by 90°"."""
        return f"{self._names()} rendered again: turned by 90°"


@dataclass(frozen=True)
class RelightFarther(Relit):
    """The frame by a camera with `zoom` times the focal length: everything is smaller, and more is in the frame.

    All lights of the frame change. A box of an answer that is on none of them shrinks towards the middle of the picture.
    Lights that come into the frame have the boxes `fresh`: the system was not asked about them, so either is right.
    """

    # The twin of TigAug's scaling of the canvas (D-24): the middle of the picture stays where it is.
    zoom: float = param(0.25, 1.0, neutral=1.0, resolution=0.01, default=0.8)
    fresh: tuple[Corners, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "fresh", tuple(map(tuple, self.fresh)))

    def seen_by(self, camera: Camera) -> Camera:
        """The camera after the change."""
        return zoomed(camera, self.zoom)

    def edited(self, scene: Staged) -> Staged:
        """The scene as it is."""
        return scene

    def _known(self, here: View) -> list[tuple[int, SignalHead]]:
        return [(number, here.scene.heads[number]) for number in self.heads]

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """The boxes of an answer as they are expected in the changed frame."""
        if value.size is None:
            raise ValueError("boxes2d of a frame with another zoom need their image size: Boxes2D(size=(width, height))")
        middle = np.tile(np.array(value.size) / 2, 2)
        small = middle + (value.xyxy - middle) * self.zoom
        elsewhere = [target is None for target in targets_of(value, self.targets)]
        mapped = edited_lights(value, self.targets)
        rows = np.where(np.array(elsewhere, bool)[:, None], small, mapped.xyxy)
        return with_optional(dataclasses.replace(mapped, xyxy=rows), self.fresh)

    def simpler(self) -> Iterator[Transformation]:
        """None: the boxes belong to the zoom."""
        return iter(())

    def words(self) -> str:
        """Such as "rendered again with 0.8 times the focal length"."""
        return f"rendered again with {self.zoom:g} times the focal length"


def zoomed(camera: Camera, zoom: float) -> Camera:
    """A camera with another focal length, in whose picture the middle shows the same."""
    if zoom == 1:
        return camera  # to the last bit
    return dataclasses.replace(camera, focal=camera.focal * zoom, horizon=0.5 + (camera.horizon - 0.5) * zoom)
