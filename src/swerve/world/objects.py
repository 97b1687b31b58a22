"""The labelled objects of a frame by their numbers, for everything that chooses among them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.lru import SizedLRU
from swerve.core.values import Array, Group, Image, Masks, SceneRef, Value, find
from swerve.world.camera import Camera
from swerve.world.driver import Pose
from swerve.world.drives import CROWDED, drive, parse_frame_key
from swerve.world.edits import Edit, edited
from swerve.world.gbuffer import depth_along
from swerve.world.labels import VisibleThing, masks, visible_things
from swerve.world.light_views import is_light_key
from swerve.world.render import Rendered
from swerve.world.scene import Scene

_SEEN = SizedLRU(16)


@dataclass(frozen=True, eq=False)
class SeenObjects:
    """The labelled objects of a frame, nearest first, and the number of the thing in each pixel with its depth."""

    items: tuple[VisibleThing, ...]
    things: Array
    depth: Array

    @cached_property
    def numbered(self) -> dict[int, VisibleThing]:
        """Every object by its number."""
        return {item.number: item for item in self.items}

    @property
    def masks(self) -> Masks:
        """The number of the object in each pixel, 0 for everything else."""
        return masks(list(self.items), self)

    def mask(self, number: int) -> Array:
        """Which pixels show an object."""
        return np.asarray(self.things == number)


def scene_of(case: Case) -> SceneRef:
    """The scene reference of a frame of the world; raises `NotApplicable` if a case has none or is a LiDAR's."""
    ref = find(case.truth, SceneRef.slot)
    if not isinstance(ref, SceneRef):
        raise NotApplicable("the case has no scene reference: only frames of the embedded world have objects to edit")
    if ref.scene.startswith(CROWDED):
        raise NotApplicable("the case has a LiDAR, whose sweep would not show the edit: use the camera's world")
    if is_light_key(ref.scene):
        raise NotApplicable("nobody drives at junctions with traffic lights: only objects of drives can be edited")
    return ref


def view_of(case: Case) -> Camera:
    """The camera that took the frames of a case; raises `NotApplicable` if it has none."""
    image = next((found for found in map(_last_image, case.inputs.values()) if found is not None), None)
    if image is None:
        raise NotApplicable("the case has no camera image")
    return Camera(*image.size)


def _last_image(value: Value) -> Image | None:
    if isinstance(value, Group):
        return _last_image(value.values[-1]) if value.values else None
    return value if isinstance(value, Image) else None


def objects_of(case: Case) -> SeenObjects:
    """The objects of a frame, or of the last frame of a window; raises `NotApplicable` if it is none of the world's."""
    return objects_in(scene_of(case).scene, view_of(case))


def objects_in(frame: str, camera: Camera, edits: tuple[Edit, ...] = ()) -> SeenObjects:
    """The objects of a frame with edits of its scene; the last few are cached."""
    return _SEEN.get((frame, camera, edits), lambda: _look(frame, camera, edits))


def note_objects(frame: str, camera: Camera, edits: tuple[Edit, ...], rendered: Rendered) -> SeenObjects:
    """The same for a frame that was rendered: no ray is cast again."""
    return _SEEN.get((frame, camera, edits), lambda: _look(frame, camera, edits, (rendered.things, rendered.depth)))


def _look(frame: str, camera: Camera, edits: tuple[Edit, ...], seen: tuple[Array, Array] | None = None) -> SeenObjects:
    key, number = parse_frame_key(frame)
    driven = drive(key)
    scene, pose = edited(driven.scene, edits) if edits else driven.scene, driven.poses[number]
    blank = SeenObjects((), *(seen or _cast(scene, pose, camera)))
    return replace(blank, items=tuple(visible_things(scene, pose, camera, blank)))


def _cast(scene: Scene, pose: Pose, camera: Camera) -> tuple[Array, Array]:
    """The number of the thing in each pixel and its depth, as a rendered frame has them."""
    snapshot, rays = scene.at(pose.time), camera.rays(pose)
    hits = snapshot.cast(camera.eye(pose).astype(np.float32)[:, None], rays)
    things = np.where(hits.triangle >= 0, snapshot.of("owner", hits.triangle), np.int32(0))
    depth = depth_along(pose, rays, hits.distance)
    return things.reshape(camera.height, camera.width), depth.reshape(camera.height, camera.width)
