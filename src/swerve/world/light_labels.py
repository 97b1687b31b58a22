"""The labels of traffic lights: one box per head of our traffic, with its state as the kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from swerve.core.values import Array, Depth, Value
from swerve.world import labels
from swerve.world.camera import Camera
from swerve.world.driver import Pose
from swerve.world.labels import NEAREST, VisibleThing, box3d, pixel_bounds
from swerve.world.light_views import SMALLEST, Staged
from swerve.world.render import Rendered
from swerve.world.scene import Scene, Snapshot, Solid
from swerve.world.signal_heads import SignalHead

MAX_HIDDEN = 0.5  # share: heads hidden more need not be detected
CLOSE = 0.6  # metres: what is so near to a head may be the head itself, before a change
LEAST_INSIDE = 0.5  # share: heads of which less is in the frame need not be detected


@dataclass(frozen=True)
class VisibleHead(VisibleThing):
    """A head in one frame; its box surrounds the pixels that it has, and those that it would have if nothing hid it."""

    inside: float = 1.0  # share in the frame

    @property
    def care(self) -> bool:
        """Whether a detector must find it."""
        left, top, right, bottom = self.box
        large = min(right - left, bottom - top) >= SMALLEST
        return large and self.hidden <= MAX_HIDDEN and self.inside >= LEAST_INSIDE


@dataclass(frozen=True, eq=False)
class HeadPixels:
    """The pixels of a frame that show a head if nothing hides it, in a window of the frame."""

    left: int
    top: int
    pixels: Array
    inside: float  # share of the head in the frame

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The box around the pixels."""
        return pixel_bounds(self.pixels, self.left, self.top)

    @property
    def is_large(self) -> bool:
        """Whether a detector can be asked to find it."""
        left, top, right, bottom = self.box
        return min(right - left, bottom - top) >= SMALLEST

    def hidden_in(self, scene: Scene, pose: Pose, camera: Camera, head: SignalHead) -> float:
        """The share of the pixels in which something in the scene is in front of a head that may not be part of it."""
        rows, columns = np.nonzero(self.pixels)
        pixel = (rows + self.top) * camera.width + columns + self.left
        eye, rays = camera.eye(pose).astype(np.float32)[:, None], camera.rays(pose, pixel)
        body = head.mesh.placed(head.x, head.y, yaw=head.yaw)
        away = Snapshot(scene, pose.time, (Solid.of([(body, 1)]),)).cast(eye, rays).distance
        return float((scene.at(pose.time).cast(eye, rays).distance < away - CLOSE).mean())

    def of(self, picture: Array) -> Array:
        """The window's part of a picture."""
        height, width = self.pixels.shape
        return picture[self.top : self.top + height, self.left : self.left + width]


def head_pixels(head: SignalHead, pose: Pose, camera: Camera) -> HeadPixels | None:
    """Where a head is in the frame, or None if nowhere: its own triangles are cast alone, with the rays of the frame."""
    body = head.mesh.placed(head.x, head.y, yaw=head.yaw)
    at, ahead = camera.project(pose, body.corners.reshape(-1, 3).astype(np.float64))
    if ahead.min() < NEAREST:
        return None
    low, high, size = at.min(axis=0), at.max(axis=0), np.array([camera.width, camera.height])
    left, top = np.clip(np.floor(low) - 1, 0, size).astype(int)
    right, bottom = np.clip(np.ceil(high) + 1, 0, size).astype(int)
    if left >= right or top >= bottom:
        return None
    pixel = (np.arange(top, bottom)[:, None] * camera.width + np.arange(left, right)).ravel()
    eye = camera.eye(pose).astype(np.float32)[:, None]
    hit = Solid.of([(body, 1)]).is_hit(eye, camera.rays(pose, pixel)).reshape(bottom - top, right - left)
    within = np.prod(np.clip(np.minimum(high, size) - np.maximum(low, 0), 0, None) / (high - low))
    return HeadPixels(int(left), int(top), hit, float(within)) if hit.any() else None


def visible_heads(scene: Staged, pose: Pose, camera: Camera, frame: Rendered) -> list[VisibleHead]:
    """Every head of our traffic of which at least one pixel is visible, nearest first."""
    return _visible(scene, pose, camera, lambda number, whole: int((whole.of(frame.things) == number).sum()))


def in_view(scene: Staged, pose: Pose, camera: Camera) -> list[VisibleHead]:
    """The same without a frame: only the rays of the heads' own pixels are cast."""
    snapshot, eye = scene.at(pose.time), camera.eye(pose).astype(np.float32)[:, None]

    def count(number: int, whole: HeadPixels) -> int:
        rows, columns = np.nonzero(whole.pixels)
        hits = snapshot.cast(eye, camera.rays(pose, (rows + whole.top) * camera.width + columns + whole.left))
        return int((snapshot.of("owner", hits.triangle) == number).sum())

    return _visible(scene, pose, camera, count)


def _visible(scene: Staged, pose: Pose, camera: Camera, count: Callable[[int, HeadPixels], int]) -> list[VisibleHead]:
    """The heads with visible pixels, which `count` counts."""
    found = []
    for number, head in scene.heads.items():
        whole = head_pixels(head, pose, camera)
        visible = 0 if whole is None else count(number, whole)
        if whole is not None and visible:
            hidden = max(0.0, 1.0 - visible / int(whole.pixels.sum()))
            place = box3d(head, (head.x, head.y, head.yaw), pose, camera)
            found.append(VisibleHead(number, head.state, whole.box, visible, hidden, place, whole.inside))
    return sorted(found, key=lambda item: (item.place[0], item.number))


def light_labels(
    items: Sequence[VisibleHead], pose: Pose, camera: Camera, frame: Rendered
) -> Mapping[str, Callable[[], Value]]:
    """What computes each label of a frame, by its slot."""
    heads = list[VisibleThing](items)
    return {
        "boxes2d": lambda: labels.boxes2d(heads, camera),
        "boxes3d": lambda: labels.boxes3d(heads),
        "masks": lambda: labels.masks(heads, frame),
        "depth": lambda: Depth(frame.depth),
        "calibration": lambda: camera.calibration(pose),
    }
