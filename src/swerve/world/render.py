"""Rendering a frame: ray casting, shading and development, with labels from the same rays."""

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
from swerve.world.lens import develop
from swerve.world.light import Light, light, plain_sky, sky
from swerve.world.mesh import Material, column, row
from swerve.world.scene import FAR, Hits, Scene, Snapshot
from swerve.world.shade import OFF, shade_surfaces
from swerve.world.surface import Surface, apply_weather, dot, surface
from swerve.world.textures import look_up, tile

REACH = 4.0  # metres within which surroundings occlude the sky's light
_TILE = 4  # pixels: each tests another direction for occlusion, and neighbours share the results
_DIRECTIONS = 8  # directions that a tile tests: one for each black square of a chessboard
_SAMPLES = ((-0.25, 0.33), (0.33, -0.25))  # additional rays for pixels on an outline


@dataclass(frozen=True, eq=False)
class Rendered:
    """A frame: its pixels, the number of the thing in each pixel, and depth in metres along the viewing axis."""

    pixels: Array
    things: Array
    depth: Array


def render(scene: Scene, pose: Pose, conditions: Conditions, camera: Camera) -> Rendered:
    """The camera's frame at `pose` under `conditions`; the same arguments give the same bytes."""
    snapshot = scene.at(pose.time)
    shape = (camera.height, camera.width)
    view = _View(snapshot, camera, pose, conditions, light(scene, conditions, yaw=pose.yaw))
    rays = camera.rays(pose)
    hits = snapshot.cast(view.eye, rays)
    found = surface(snapshot, hits, rays, view.eye, pixels=camera.pixels)
    occlusion = _sky_openness(found, snapshot, shape)
    radiance = view.radiance(rays, found, occlusion[found.ray])
    _refine(view, radiance, hits, found, occlusion)
    things = np.zeros(rays.shape[1], np.int32)
    things[found.ray] = found.owner
    forward = row(np.cos(pose.yaw), np.sin(pose.yaw), 0.0) @ rays
    depth = np.where(hits.distance < FAR, hits.distance * forward, np.inf).astype(np.float32).reshape(shape)
    wind = float(rng_for(0, scene.key, "wind", 0).uniform(-0.18, 0.18))  # constant during a drive
    rng = rng_for(0, scene.key, "sensor", round(pose.time * 1000))
    pixels = develop(cv2.merge([part.reshape(shape) for part in radiance]), view.light, rng, depth=depth, wind=wind)
    return Rendered(pixels, things.reshape(shape), depth)


@dataclass(frozen=True, eq=False)
class _View:
    """A camera's view of a snapshot."""

    snapshot: Snapshot
    camera: Camera
    pose: Pose
    conditions: Conditions
    light: Light

    @property
    def eye(self) -> Array:
        return self.camera.eye(self.pose).astype(np.float32)[:, None]

    def radiance(self, rays: Array, found: Surface, occlusion: Array) -> Array:
        """The radiance along each ray."""
        out = np.empty(rays.shape, np.float32)
        met = np.zeros(rays.shape[1], bool)
        met[found.ray] = True
        empty = np.flatnonzero(~met)
        out[:, empty] = sky(self.light, np.take(rays, empty, axis=1), self.snapshot.scene.floor.shift)
        apply_weather(found, self.snapshot, self.conditions, pixels=self.camera.pixels)
        colour = shade_surfaces(found, self.snapshot, self.light, occlusion, eye=self.eye[:, 0], yaw=self.pose.yaw)
        if self.conditions.wet > 0:
            self._reflect(found, colour)
        out[:, found.ray] = self._through_air(colour, found)
        return out

    def _through_air(self, colour: Array, found: Surface) -> Array:
        clear = np.exp(-self.light.extinction * found.distance)
        return colour * clear + self.light.air[:, None] * (1 - clear)

    def _reflect(self, found: Surface, colour: Array) -> None:
        """Add the reflections of a wet road: the actual surroundings, approximately lit."""
        rows = np.flatnonzero((found.wet > 0.08) & (found.distance < 130))
        point, toward = np.take(found.point, rows, axis=1), np.take(found.toward, rows, axis=1)
        out = toward * column(1, 1, -1)
        ripple = look_up(tile("grain", 0.45), point[0], point[1], 23.0) * 0.012
        out[2] = np.maximum(out[2] + ripple, 0.005)
        out /= np.sqrt(dot(out, out))
        start = point + column(0, 0, OFF)
        met = surface(self.snapshot, self.snapshot.cast(start, out), out, start, pixels=self.camera.pixels)
        half_open = np.full(len(met.ray), 0.8, np.float32)
        lit = shade_surfaces(met, self.snapshot, self.light, half_open, eye=self.eye[:, 0], yaw=self.pose.yaw)
        seen = plain_sky(self.light, out)
        seen[:, met.ray] = self._through_air(lit, met)
        fresnel = (0.03 + 0.75 * (1 - np.clip(-toward[2], 0, 1)) ** 5) * found.wet[rows]
        colour[:, rows] = np.take(colour, rows, axis=1) * (1 - fresnel) + seen * fresnel


def _sky_openness(found: Surface, snapshot: Snapshot, shape: tuple[int, int]) -> Array:
    """The share of open sky above each pixel: every other pixel casts one of eight rays, shared among neighbours."""
    line, place = np.divmod(found.ray.astype(np.int32), np.int32(shape[1]))
    near = np.flatnonzero((found.distance < 45) & ((line + place) % 2 == 0))
    number = (line[near] % _TILE) * (_TILE // 2) + place[near] % _TILE // 2
    normal = np.take(found.normal, near, axis=1)
    upward = normal + np.take(_hemisphere(), number, axis=1)
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
def _hemisphere() -> Array:
    """Evenly spread directions of a hemisphere."""
    number = np.arange(_DIRECTIONS)
    turn, lift = number * 2.399963, (number + 0.5) / _DIRECTIONS
    out = np.sqrt(lift)
    return np.stack([np.cos(turn) * out, np.sin(turn) * out, np.sqrt(1 - lift)]).astype(np.float32)


def _refine(view: _View, radiance: Array, hits: Hits, found: Surface, occlusion: Array) -> None:
    """Cast more rays for pixels on an outline."""
    camera = view.camera
    pixel = _outlines(hits, found, (camera.height, camera.width))
    rays = np.concatenate([camera.rays(view.pose, pixel, shift) for shift in _SAMPLES], axis=1)
    met = surface(view.snapshot, view.snapshot.cast(view.eye, rays), rays, view.eye, pixels=camera.pixels)
    open_sky = np.tile(occlusion[pixel], len(_SAMPLES))
    more = np.minimum(view.radiance(rays, met, open_sky[met.ray]), 6.0).reshape(3, len(_SAMPLES), -1)
    radiance[:, pixel] = (np.take(radiance, pixel, axis=1) + more.sum(axis=1)) / (len(_SAMPLES) + 1)


def _outlines(hits: Hits, found: Surface, shape: tuple[int, int]) -> Array:
    """Pixels whose neighbour shows another thing, material, orientation or distance."""
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
