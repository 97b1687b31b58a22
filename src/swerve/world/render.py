"""One frame: cast, shade, develop, and label from the very same rays."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from swerve.seeding import rng_for
from swerve.values import Array
from swerve.world.camera import Camera
from swerve.world.conditions import Conditions
from swerve.world.driver import Pose
from swerve.world.lens import developed
from swerve.world.light import Light, light, plain_sky, sky
from swerve.world.mesh import Material, row
from swerve.world.scene import FAR, Hits, Scene, Snapshot
from swerve.world.shade import OFF, shaded
from swerve.world.surface import Surface, surface, weathered
from swerve.world.textures import look_up, tile

REACH = 4.0  # metres within which surroundings keep the sky's light away
_TILE = 4  # pixels: each looks another way for what is near, and neighbours share what they saw
_SAMPLES = ((-0.3, -0.1), (0.1, 0.3), (0.3, -0.3))  # more rays for pixels on an outline, beside the one in the middle


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
    hits = look.cast(rays)
    found = surface(snapshot, hits, rays, look.eye, pixels=camera.pixels)
    occlusion = _openness(found, snapshot, shape)
    radiance = look.radiance(rays, found, occlusion[found.ray])
    _refine(look, radiance, hits, found, occlusion)
    things = np.zeros(len(rays), np.int32)
    things[found.ray] = found.owner
    forward = rays @ row(np.cos(pose.yaw), np.sin(pose.yaw), 0.0)
    depth = np.where(hits.distance < FAR, hits.distance * forward, np.inf).astype(np.float32).reshape(shape)
    wind = float(rng_for(0, scene.key, "wind", 0).uniform(-0.18, 0.18))  # the same all along a drive
    rng = rng_for(0, scene.key, "sensor", round(pose.time * 1000))
    pixels = developed(radiance.reshape(*shape, 3), look.light, rng, depth=depth, wind=wind)
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
        return self.camera.eye(self.pose).astype(np.float32)

    def cast(self, rays: Array) -> Hits:
        return self.snapshot.cast(np.broadcast_to(self.eye, rays.shape).copy(), rays)

    def radiance(self, rays: Array, found: Surface, occlusion: Array) -> Array:
        """The light along each ray."""
        out = np.empty((len(rays), 3), np.float32)
        empty = np.ones(len(rays), bool)
        empty[found.ray] = False
        shift = self.snapshot.scene.floor.shift
        out[empty] = sky(self.light, rays[empty], shift)
        weathered(found, self.snapshot, self.conditions, pixels=self.camera.pixels)
        colour = shaded(found, self.snapshot, self.light, occlusion, eye=self.eye, yaw=self.pose.yaw)
        if self.conditions.wet > 0:
            self._reflect(found, colour)
        clear = np.exp(-self.light.extinction * found.distance)[:, None]
        out[found.ray] = colour * clear + self.light.air * (1 - clear)
        return out

    def _reflect(self, found: Surface, colour: Array) -> None:
        """What a wet road mirrors: the real surroundings, roughly lit."""
        rows = np.flatnonzero((found.wet > 0.08) & (found.distance < 130))
        point, toward = found.point[rows], found.toward[rows]
        out = toward * row(1, 1, -1)
        ripple = look_up(tile("grain", 0.45), point[:, 0], point[:, 1], 23.0) * 0.012
        out[:, 2] = np.maximum(out[:, 2] + ripple, 0.005)
        out /= np.linalg.norm(out, axis=1, keepdims=True)
        start = point + row(0, 0, OFF)
        hits = self.snapshot.cast(start.astype(np.float32), out.astype(np.float32))
        seen = plain_sky(self.light, out)
        met = surface(self.snapshot, hits, out, start, pixels=self.camera.pixels)
        lit = shaded(met, self.snapshot, self.light, np.full(len(met.ray), 0.8, np.float32), eye=self.eye, yaw=self.pose.yaw)
        clear = np.exp(-self.light.extinction * met.distance)[:, None]
        seen[met.ray] = lit * clear + self.light.air * (1 - clear)
        facing = np.clip(-toward[:, 2], 0, 1)
        fresnel = (0.03 + 0.75 * (1 - facing) ** 5) * found.wet[rows]
        colour[rows] = colour[rows] * (1 - fresnel[:, None]) + seen * fresnel[:, None]


def _openness(found: Surface, snapshot: Snapshot, shape: tuple[int, int]) -> Array:
    """How open the sky is above each pixel: one ray each, in sixteen directions, shared among neighbours."""
    row, column = np.divmod(found.ray, shape[1])
    pattern = (row % _TILE) * _TILE + column % _TILE
    turn, lift = (pattern * 2.399963).astype(np.float32), ((pattern + 0.5) / _TILE**2).astype(np.float32)
    out = np.sqrt(lift)
    way = np.stack([np.cos(turn) * out, np.sin(turn) * out, np.sqrt(1 - lift)], -1)
    upward = found.normal + way
    upward /= np.maximum(np.linalg.norm(upward, axis=1, keepdims=True), 1e-6)
    start = found.point + found.normal * OFF
    near = np.flatnonzero(found.distance < 45)
    free = np.ones(len(found.ray), np.float32)
    free[near[snapshot.blocked(start[near], upward[near].astype(np.float32), REACH)]] = 0.15
    level = found.normal[:, 2] > 0.9
    result = np.ones(shape[0] * shape[1], np.float32)
    for group in (level, ~level):
        rays = found.ray[group]
        shared = np.zeros((shape[0] * shape[1], 2), np.float32)
        shared[rays, 0], shared[rays, 1] = free[group], 1.0
        value, weight = cv2.blur(shared.reshape(*shape, 2), (_TILE, _TILE)).reshape(-1, 2)[rays].T
        result[rays] = value / np.maximum(weight, 1e-3)
    return result


def _refine(look: _Look, radiance: Array, hits: Hits, found: Surface, occlusion: Array) -> None:
    """More rays where an outline runs through a pixel."""
    camera = look.camera
    pixel = _outlines(hits, found, (camera.height, camera.width))
    total = radiance[pixel].copy()
    for shift in _SAMPLES:
        rays = camera.rays(look.pose, pixel, shift)
        more = look.cast(rays)
        met = surface(look.snapshot, more, rays, look.eye, pixels=camera.pixels)
        total += np.minimum(look.radiance(rays, met, occlusion[pixel][met.ray]), 6.0)
    radiance[pixel] = total / (len(_SAMPLES) + 1)


def _outlines(hits: Hits, found: Surface, shape: tuple[int, int]) -> Array:
    """Pixels whose neighbour shows another thing, another material or another distance."""
    label = np.full(shape, -1, np.int32)
    label.flat[found.ray] = found.owner * 32 + found.material
    near = 1 / np.maximum(np.where(np.isfinite(hits.distance), hits.distance, 1e4), 0.1).reshape(shape)
    fold = np.zeros((*shape, 3), np.float32)
    fold.reshape(-1, 3)[found.ray] = np.where((found.material == Material.LEAVES)[:, None], 0, found.normal)
    edge = np.zeros(shape, bool)
    for axis in (0, 1):
        here, there = (slice(None, -1), slice(None)), (slice(1, None), slice(None))
        if axis:
            here, there = here[::-1], there[::-1]
        step = (label[here] != label[there]) | (
            np.abs(near[here] - near[there]) > 0.12 * np.maximum(near[here], near[there])
        )
        step |= np.abs(fold[here] - fold[there]).sum(-1) > 0.5
        edge[here] |= step
        edge[there] |= step
    return np.flatnonzero(edge)
