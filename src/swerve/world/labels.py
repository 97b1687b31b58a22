"""The labels of a frame: which objects are visible where, how much of each is hidden, and their 3-D boxes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from swerve.core.values import Array, Boxes2D, Boxes3D, Masks
from swerve.world.camera import Camera
from swerve.world.driver import Pose
from swerve.world.mesh import column
from swerve.world.scene import LABELLED, Scene, Thing

REACH = 120.0  # metres: farther objects need not be detected
NEAREST = 0.3  # metres ahead of the camera
SMALLEST = 12  # visible pixels: smaller objects need not be detected
MAX_HIDDEN = 0.85  # share: objects hidden more need not be detected


Place = tuple[float, float, float, float, float, float, float]
Spot = tuple[float, float, float]  # x, y and yaw


@dataclass(frozen=True)
class VisibleThing:
    """A labelled thing in one frame: its box around visible and hidden parts, and the hidden share."""

    number: int
    kind: str
    box: tuple[float, float, float, float]
    visible: int
    hidden: float
    place: Place  # of the 3-D box, relative to the ground below the camera

    @property
    def care(self) -> bool:
        """Whether a detector must find it."""
        near = float(np.hypot(self.place[0], self.place[1])) <= REACH
        return near and self.visible >= SMALLEST and self.hidden <= MAX_HIDDEN


class Shown(Protocol):
    """A frame that knows the number of the thing in each pixel."""

    @property
    def things(self) -> Array:
        """The numbers, 0 for none."""


def visible_things(scene: Scene, pose: Pose, camera: Camera, frame: Shown) -> list[VisibleThing]:
    """Every labelled thing of which at least one pixel is visible, nearest first."""
    from scipy.ndimage import find_objects  # takes 0.2 s to import

    visible = np.bincount(frame.things.ravel(), minlength=len(scene.things) + 1)
    numbers = [int(number) for number in np.flatnonzero(visible[1:]) + 1]
    spans = find_objects(frame.things)
    found = [
        _visible_thing(scene, number, pose, camera, (frame.things, spans[number - 1]))
        for number in numbers
        if scene.things[number - 1].kind in LABELLED
    ]
    return sorted(found, key=lambda item: (item.place[0], item.number))


def _visible_thing(
    scene: Scene, number: int, pose: Pose, camera: Camera, visible: tuple[Array, tuple[slice, slice]]
) -> VisibleThing:
    """One thing; `visible` is the number of the thing in each pixel, and the rows and columns that it spans."""
    thing = scene.things[number - 1]
    place = thing.pose(scene.road, pose.time)
    things, (rows, columns) = visible
    size = np.array([camera.width, camera.height])
    least, most = np.array([columns.start, rows.start]), np.array([columns.stop, rows.stop])
    points = _projected_corners(thing.mesh.placed(*place[:2], yaw=place[2]).corners.astype(np.float64), camera, pose)
    low, high = (
        (points.min(axis=0), points.max(axis=0)) if len(points) else (least, most)
    )  # nearer than the camera's near plane
    left, top = np.minimum(np.clip(np.floor(low), 0, size), least).astype(int)
    right, bottom = np.maximum(np.clip(np.ceil(high), 0, size), most).astype(int)
    mine = things[top:bottom, left:right] == number
    unoccluded = mine | _unoccluded_pixels(thing, place, (left, top, right, bottom), camera, pose)
    # For a thing partly out of frame, its pixels bound the visible part; projected corners do not.
    inside = (low >= 0).all() and (high <= size).all()
    box = (float(low[0]), float(low[1]), float(high[0]), float(high[1])) if inside else pixel_bounds(unoccluded, left, top)
    return VisibleThing(
        number, thing.kind, box, int(mine.sum()), 1.0 - mine.sum() / unoccluded.sum(), box3d(thing, place, pose, camera)
    )


def box3d(thing: Thing, at: Spot, pose: Pose, camera: Camera) -> Place:
    """Centre, size and yaw of the 3-D box: x ahead, y left, z up from the ground below the camera."""
    low, high = (part.astype(float) for part in thing.mesh.bounds())
    x, y, yaw = at
    middle = (low + high) / 2
    eye = camera.eye(pose)
    east = x + middle[0] * np.cos(yaw) - middle[1] * np.sin(yaw) - eye[0]
    north = y + middle[0] * np.sin(yaw) + middle[1] * np.cos(yaw) - eye[1]
    cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
    turned = (yaw - pose.yaw + np.pi) % (2 * np.pi) - np.pi
    return (
        float(east * cos + north * sin),
        float(north * cos - east * sin),
        float(middle[2]),
        float(high[0] - low[0]),
        float(high[1] - low[1]),
        float(high[2] - low[2]),
        float(turned),
    )


def _projected_corners(corners: Array, camera: Camera, pose: Pose) -> Array:
    """The projected corners of triangles, clipped at the camera's near plane."""
    turned = camera.pose_matrix(pose)
    start = corners @ turned[:3, :3].T + turned[:3, 3]
    end = np.roll(start, -1, axis=1)
    ahead = start[..., 2] >= NEAREST
    crosses = ahead != (end[..., 2] >= NEAREST)
    share = (NEAREST - start[crosses][:, 2]) / (end[crosses] - start[crosses])[:, 2]
    clipped = np.concatenate([start[ahead], start[crosses] + (end - start)[crosses] * share[:, None]])
    return clipped[:, :2] / clipped[:, 2:3] * camera.pixels + [camera.width / 2, camera.horizon * camera.height]


def _unoccluded_pixels(thing: Thing, place: Spot, window: tuple[int, int, int, int], camera: Camera, pose: Pose) -> Array:
    """Which pixels of a window of the frame would show a thing if nothing occluded it; cast in the thing's own frame."""
    left, top, right, bottom = window
    x, y, yaw = place
    east, north, up = camera.eye(pose) - [x, y, 0.0]
    cos, sin = np.cos(yaw), np.sin(yaw)
    eye = column(east * cos + north * sin, north * cos - east * sin, up)
    pixel = (np.arange(top, bottom)[:, None] * camera.width + np.arange(left, right)).ravel()
    rays = camera.rays(replace(pose, yaw=pose.yaw - yaw), pixel)
    return thing.solid.is_hit(eye, rays).reshape(bottom - top, right - left)


def pixel_bounds(pixels: Array, left: int, top: int) -> tuple[float, float, float, float]:
    """The box around pixels of a window."""
    columns, rows = (np.flatnonzero(pixels.any(axis=axis)) for axis in (0, 1))
    return float(left + columns[0]), float(top + rows[0]), float(left + columns[-1] + 1), float(top + rows[-1] + 1)


def boxes2d(items: list[VisibleThing], camera: Camera) -> Boxes2D:
    """The boxes in the frame; those that need not be detected get `care` False."""
    return Boxes2D(
        np.array([item.box for item in items]).reshape(-1, 4),
        tuple(item.kind for item in items),
        size=(camera.width, camera.height),
        care=np.array([item.care for item in items], bool),
        hidden=np.array([item.hidden for item in items], float),
    )


def boxes3d(items: list[VisibleThing]) -> Boxes3D:
    """The boxes on the ground: x ahead, y left, z up from the ground below the camera."""
    return Boxes3D(
        np.array([item.place for item in items]).reshape(-1, 7),
        tuple(item.kind for item in items),
        care=np.array([item.care for item in items], bool),
    )


def masks(items: list[VisibleThing], frame: Shown) -> Masks:
    """The number of the labelled thing in each pixel, 0 for everything else."""
    kinds = {item.number: item.kind for item in items}
    known = np.zeros(int(frame.things.max()) + 1, np.int32)
    known[list(kinds)] = list(kinds)
    return Masks(known[frame.things], kinds)
