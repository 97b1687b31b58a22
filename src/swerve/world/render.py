"""One frame: cast, shade, develop, and label from the very same rays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np

from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.world.camera import Camera
from swerve.world.conditions import Conditions
from swerve.world.driver import Pose
from swerve.world.lens import developed
from swerve.world.light import Light, light, plain_sky, sky
from swerve.world.mesh import Material, column, row
from swerve.world.scene import FAR, Hits, Scene, Snapshot
from swerve.world.shade import OFF, shaded
from swerve.world.surface import Surface, dot, surface, weathered
from swerve.world.textures import look_up, tile

REACH = 4.0  # metres within which surroundings keep the sky's light away
_TILE = 4  # pixels: each looks another way for what is near, and neighbours share what they saw
_WAYS = 8  # directions in which a tile looks: those of a chessboard's black squares
_SAMPLES = ((-0.25, 0.33), (0.33, -0.25))  # more rays for pixels on an outline, beside the one in the middle


@dataclass(frozen=True, eq=False)
class Rendered:
    """A frame and what its rays met: pixels, the number of the thing in each pixel, and metres along the axis."""

    pixels: Array
    things: Array
    depth: Array


def render(scene: Scene, pose: Pose, conditions: Conditions, camera: Camera) -> Rendered:
    """The frame that the camera takes at `pose` under `conditions`; the same arguments give the same bytes."""
    snapshot = scene.at(pose.time)
    shape = (camera.height, camera.width)
    look = _Look(snapshot, camera, pose, conditions, light(scene, conditions, yaw=pose.yaw))
    rays = camera.rays(pose)
    hits = snapshot.cast(look.eye, rays)
    found = surface(snapshot, hits, rays, look.eye, pixels=camera.pixels)
    occlusion = _openness(found, snapshot, shape)
    radiance = look.radiance(rays, found, occlusion[found.ray])
    _refine(look, radiance, hits, found, occlusion)
    things = np.zeros(rays.shape[1], np.int32)
    things[found.ray] = found.owner
    forward = row(np.cos(pose.yaw), np.sin(pose.yaw), 0.0) @ rays
    depth = np.where(hits.distance < FAR, hits.distance * forward, np.inf).astype(np.float32).reshape(shape)
    wind = float(rng_for(0, scene.key, "wind", 0).uniform(-0.18, 0.18))  # the same all along a drive
    rng = rng_for(0, scene.key, "sensor", round(pose.time * 1000))
    pixels = developed(cv2.merge([part.reshape(shape) for part in radiance]), look.light, rng, depth=depth, wind=wind)
    return Rendered(pixels, things.reshape(shape), depth)


@dataclass(frozen=True, eq=False)
class _Look:
    """One glance at a snapshot."""

    snapshot: Snapshot
    camera: Camera
    pose: Pose
    conditions: Conditions
    light: Light

    @property
    def eye(self) -> Array:
        return self.camera.eye(self.pose).astype(np.float32)[:, None]

    def radiance(self, rays: Array, found: Surface, occlusion: Array) -> Array:
        """The light along each ray."""
        out = np.empty(rays.shape, np.float32)
        met = np.zeros(rays.shape[1], bool)
        met[found.ray] = True
        empty = np.flatnonzero(~met)
        out[:, empty] = sky(self.light, np.take(rays, empty, axis=1), self.snapshot.scene.floor.shift)
        weathered(found, self.snapshot, self.conditions, pixels=self.camera.pixels)
        colour = shaded(found, self.snapshot, self.light, occlusion, eye=self.eye[:, 0], yaw=self.pose.yaw)
        if self.conditions.wet > 0:
            self._reflect(found, colour)
        out[:, found.ray] = self._through_air(colour, found)
        return out

    def _through_air(self, colour: Array, found: Surface) -> Array:
        clear = np.exp(-self.light.extinction * found.distance)
        return colour * clear + self.light.air[:, None] * (1 - clear)

    def _reflect(self, found: Surface, colour: Array) -> None:
        """What a wet road mirrors: the real surroundings, roughly lit."""
        rows = np.flatnonzero((found.wet > 0.08) & (found.distance < 130))
        point, toward = np.take(found.point, rows, axis=1), np.take(found.toward, rows, axis=1)
        out = toward * column(1, 1, -1)
        ripple = look_up(tile("grain", 0.45), point[0], point[1], 23.0) * 0.012
        out[2] = np.maximum(out[2] + ripple, 0.005)
        out /= np.sqrt(dot(out, out))
        start = point + column(0, 0, OFF)
        met = surface(self.snapshot, self.snapshot.cast(start, out), out, start, pixels=self.camera.pixels)
        half_open = np.full(len(met.ray), 0.8, np.float32)
        lit = shaded(met, self.snapshot, self.light, half_open, eye=self.eye[:, 0], yaw=self.pose.yaw)
        seen = plain_sky(self.light, out)
        seen[:, met.ray] = self._through_air(lit, met)
        fresnel = (0.03 + 0.75 * (1 - np.clip(-toward[2], 0, 1)) ** 5) * found.wet[rows]
        colour[:, rows] = np.take(colour, rows, axis=1) * (1 - fresnel) + seen * fresnel


def _openness(found: Surface, snapshot: Snapshot, shape: tuple[int, int]) -> Array:
    """How open the sky is above each pixel: every other one casts a ray, in eight directions, shared among neighbours."""
    line, place = np.divmod(found.ray.astype(np.int32), np.int32(shape[1]))
    near = np.flatnonzero((found.distance < 45) & ((line + place) % 2 == 0))
    number = (line[near] % _TILE) * (_TILE // 2) + place[near] % _TILE // 2
    normal = np.take(found.normal, near, axis=1)
    upward = normal + np.take(_ways(), number, axis=1)
    upward /= np.maximum(np.sqrt(dot(upward, upward)), 1e-6)
    start = np.take(found.point, near, axis=1) + normal * OFF
    free = np.where(snapshot.blocked(start, upward, REACH), np.float32(0.15), np.float32(1.0))
    result = np.ones(shape[0] * shape[1], np.float32)
    level = found.normal[2] > 0.9
    for group, asked in ((level, level[near]), (~level, ~level[near])):
        shared = np.zeros((2, *shape), np.float32)
        value, weight = shared
        value.flat[found.ray[near[asked]]], weight.flat[found.ray[near[asked]]] = free[asked], 1.0
        rays = found.ray[group]
        value, weight = (cv2.blur(part, (_TILE, _TILE)).ravel()[rays] for part in shared)
        result[rays] = np.where(weight > 1e-3, value / np.maximum(weight, 1e-3), 1.0)
    return result


@cache
def _ways() -> Array:
    """Directions into a half sphere, evenly spread."""
    number = np.arange(_WAYS)
    turn, lift = number * 2.399963, (number + 0.5) / _WAYS
    out = np.sqrt(lift)
    return np.stack([np.cos(turn) * out, np.sin(turn) * out, np.sqrt(1 - lift)]).astype(np.float32)


def _refine(look: _Look, radiance: Array, hits: Hits, found: Surface, occlusion: Array) -> None:
    """More rays where an outline runs through a pixel."""
    camera = look.camera
    pixel = _outlines(hits, found, (camera.height, camera.width))
    rays = np.concatenate([camera.rays(look.pose, pixel, shift) for shift in _SAMPLES], axis=1)
    met = surface(look.snapshot, look.snapshot.cast(look.eye, rays), rays, look.eye, pixels=camera.pixels)
    open_sky = np.tile(occlusion[pixel], len(_SAMPLES))
    more = np.minimum(look.radiance(rays, met, open_sky[met.ray]), 6.0).reshape(3, len(_SAMPLES), -1)
    radiance[:, pixel] = (np.take(radiance, pixel, axis=1) + more.sum(axis=1)) / (len(_SAMPLES) + 1)


def _outlines(hits: Hits, found: Surface, shape: tuple[int, int]) -> Array:
    """Pixels whose neighbour shows another thing, another material or another distance."""
    label = np.full(shape, -1, np.int32)
    label.flat[found.ray] = found.owner * 32 + found.material
    near = 1 / np.clip(hits.distance, 0.1, 1e4).reshape(shape)
    fold = np.zeros((3, *shape), np.float32)
    fold.reshape(3, -1)[:, found.ray] = np.where(found.material == Material.LEAVES, np.float32(0), found.normal)
    edge = np.zeros(shape, bool)
    for axis in (0, 1):
        here, there = (slice(None, -1), slice(None)), (slice(1, None), slice(None))
        if axis:
            here, there = here[::-1], there[::-1]
        step = (label[here] != label[there]) | (
            np.abs(near[here] - near[there]) > 0.12 * np.maximum(near[here], near[there])
        )
        step |= sum(np.abs(part[here] - part[there]) for part in fold) > 0.5
        edge[here] |= step
        edge[there] |= step
    return np.flatnonzero(edge)
