"""Frames of drives, cast once and shaded often: their G-buffers and secondary rays are cached up to a number of bytes.

A frame that will be shaded again needs its scene only if the reflections of the wet road are unknown. A scene is expensive
and too large to keep, so these rays are cast along with the first picture for all conditions that are expected. Shadows are
cast anew for every position of the sun, for which the scene's trees are kept without its meshes, as far as they fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from swerve.core.lru import SizedLRU
from swerve.core.values import SceneRef
from swerve.world.camera import Camera
from swerve.world.conditions import Conditions
from swerve.world.driver import Pose
from swerve.world.drives import drive, parse_frame_key
from swerve.world.edits import Edit, edited
from swerve.world.gbuffer import GBuffer, cast
from swerve.world.light_views import is_light_key, view
from swerve.world.render import Rendered, render, shade, trace
from swerve.world.scene import Blocker, Scene, Snapshot
from swerve.world.secondary_rays import SecondaryRays

BOUND = 640 << 20  # bytes that a process keeps: 21 frames of 640x360
TREES_BOUND = 1280 << 20  # bytes of trees that a process keeps: those of about 64 drives
BYTES_PER_PIXEL = 136  # of a frame with its secondary rays, at most, from 320x180; smaller ones have more outlines
EDITED_BOUND = 64 << 20  # bytes of frames with edits: about 25 of 640x360, as several rules may make the same edits
MOST_EXPECTED = 16  # conditions: each may cost every frame as many rays as it has pixels


def _bytes_of(item: object) -> int:
    """The size of the arrays in a dataclass."""
    if isinstance(item, np.ndarray):
        return item.nbytes
    if is_dataclass(item) and not isinstance(item, type):
        return sum(_bytes_of(getattr(item, part.name)) for part in fields(item))
    return 0


def _bytes_of_trees(item: object) -> int:
    """The size of a tuple of blockers."""
    return sum(blocker.size for blocker in item) if isinstance(item, tuple) else 0


_KEPT = SizedLRU(BOUND, weigh=_bytes_of)
_TREES = SizedLRU(TREES_BOUND, weigh=_bytes_of_trees)
_EDITED = SizedLRU(EDITED_BOUND, weigh=_bytes_of)
_GAINS = SizedLRU(4096)  # exposures of frames
_EXPECTED: dict[Conditions, None] = {}


def expect(conditions: Conditions) -> None:
    """Frames will be rendered again under `conditions`; costs time if they are not, but changes no picture."""
    if len(_EXPECTED) < MOST_EXPECTED:
        _EXPECTED[conditions] = None


def forget() -> None:
    """Drop all that is kept and expected."""
    _KEPT.clear()
    _TREES.clear()
    _EDITED.clear()
    _GAINS.clear()
    _EXPECTED.clear()


def take_frame(ref: SceneRef, camera: Camera, conditions: Conditions, *, among: int) -> Rendered:
    """The first picture of a frame, kept for others if any are expected and all `among` frames of its source fit."""
    if _EXPECTED and among * camera.width * camera.height * BYTES_PER_PIXEL <= BOUND:
        taken = _shaded(ref.scene, camera, conditions, ahead=tuple(_EXPECTED))
    else:
        taken = render(*_scene_and_pose(ref.scene), conditions, camera)
    _GAINS.get((ref.scene, camera, conditions), lambda: taken.gain)
    return taken


def render_frame(ref: SceneRef, camera: Camera, conditions: Conditions) -> Rendered:
    """The frame of a scene reference under any conditions; what its rays met is kept."""
    return _shaded(ref.scene, camera, conditions)


def render_edited(ref: SceneRef, edits: tuple[Edit, ...], camera: Camera, conditions: Conditions) -> Rendered:
    """The frame with edits of its scene, exposed as the frame without them; the last few are kept.

    So pixels differ only where the edits are visible; an exposure meter would brighten all others for a darker car.
    """

    def make() -> Rendered:
        scene, pose = _scene_and_pose(ref.scene)
        return render(edited(scene, edits), pose, conditions, camera, gain=gain_of(ref, camera, conditions))

    return _EDITED.get((ref.scene, edits, camera, conditions), make)


def gain_of(ref: SceneRef, camera: Camera, conditions: Conditions) -> float:
    """The exposure of a frame."""
    gain: float = _GAINS.get((ref.scene, camera, conditions), lambda: render_frame(ref, camera, conditions).gain)
    return gain


def _shaded(name: str, camera: Camera, conditions: Conditions, ahead: tuple[Conditions, ...] = ()) -> Rendered:
    snapshot = cache(partial(_snapshot, name))

    def recall(key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        return _KEPT.get((name, camera, *key), make)

    secondary = SecondaryRays(snapshot, recall, lambda: _blockers(name, snapshot))
    buffer = recall(("rays",), lambda: _cast(name, camera, snapshot))
    for other in ahead:
        trace(buffer, other, secondary)
    return shade(buffer, conditions, secondary)


def _blockers(name: str, snapshot: Callable[[], Snapshot]) -> tuple[Blocker, ...]:
    """The trees of a frame's snapshot: what stands is the same in all frames of a drive."""
    standing = _TREES.get(parse_frame_key(name)[0], lambda: snapshot().blockers[:1])
    return standing + _TREES.get(name, lambda: snapshot().blockers[1:])


def _cast(name: str, camera: Camera, snapshot: Callable[[], Snapshot]) -> GBuffer:
    return cast(snapshot(), _scene_and_pose(name)[1], camera)


def _snapshot(name: str) -> Snapshot:
    scene, pose = _scene_and_pose(name)
    return scene.at(pose.time)


def _scene_and_pose(name: str) -> tuple[Scene, Pose]:
    """The scene of a frame, and where its camera is: at a junction with traffic lights, or on a drive."""
    if is_light_key(name):
        found = view(name)
        return found.scene, found.pose
    key, number = parse_frame_key(name)
    driven = drive(key)
    return driven.scene_of(number), driven.poses[number]
