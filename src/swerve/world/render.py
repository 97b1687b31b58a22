"""Rendering a frame: its G-buffer shaded under given conditions and developed into a picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.world.camera import Camera
from swerve.world.conditions import Conditions
from swerve.world.driver import Pose
from swerve.world.gbuffer import SAMPLES, CastRays, GBuffer, cast
from swerve.world.lens import develop, exposure
from swerve.world.light import Light, light, plain_sky, sky
from swerve.world.scene import Scene
from swerve.world.secondary_rays import Mirror, SecondaryRays
from swerve.world.shade import Lamps, shade_surfaces
from swerve.world.surface import Surface
from swerve.world.weathering import Weathered, in_weather

_BRIGHTEST = 6.0  # radiance of an additional ray: a lamp must not outshine its pixel's neighbours
_MIRRORED = "mirrored "
_HALF_OPEN = np.float32(0.8)  # openness of the sky above what a wet road reflects


@dataclass(frozen=True, eq=False)
class Rendered:
    """A frame: its pixels, the number of the thing in each pixel, depth in metres along the viewing axis, its exposure."""

    pixels: Array
    things: Array
    depth: Array
    gain: float


def render(scene: Scene, pose: Pose, conditions: Conditions, camera: Camera, *, gain: float | None = None) -> Rendered:
    """The camera's frame at `pose` under `conditions`; the same arguments give the same bytes.

    It is exposed with `gain`, or as the exposure meter says.
    """
    snapshot = scene.at(pose.time)
    return shade(cast(snapshot, pose, camera), conditions, SecondaryRays(lambda: snapshot), gain=gain)


def shade(buffer: GBuffer, conditions: Conditions, secondary: SecondaryRays, *, gain: float | None = None) -> Rendered:
    """The frame of a G-buffer under `conditions`: the same bytes as rendering it afresh."""
    site, pose, shape = buffer.site, buffer.pose, buffer.things.shape
    view = _View(buffer, conditions, light(site, conditions, yaw=pose.yaw), secondary)
    radiance = view.radiance("pixels", buffer.pixels)
    if buffer.edges.count:
        more = np.minimum(view.radiance("edges", buffer.edges), _BRIGHTEST).reshape(3, len(SAMPLES), -1)
        radiance[:, buffer.outline] = (np.take(radiance, buffer.outline, axis=1) + more.sum(axis=1)) / (len(SAMPLES) + 1)
    rng = rng_for(0, site.key, "sensor", round(pose.time * 1000))
    merged = cv2.merge([part.reshape(shape) for part in radiance])
    cut = buffer.camera.cut
    gain = exposure(merged, conditions, cut=cut) if gain is None else gain
    pixels = develop(merged, view.light, rng, gain=gain, depth=buffer.depth, wind=_wind(site.key), cut=cut)
    return Rendered(pixels, buffer.things, buffer.depth, gain)


@lru_cache(maxsize=64)
def _wind(key: str) -> float:
    """How far the wind slants the rain of a scene; constant during a drive."""
    return float(rng_for(0, key, "wind", 0).uniform(-0.18, 0.18))


def trace(buffer: GBuffer, conditions: Conditions, secondary: SecondaryRays) -> None:
    """Cast the secondary rays that `shade` will need under `conditions`."""
    view = _View(buffer, conditions, light(buffer.site, conditions, yaw=buffer.pose.yaw), secondary)
    for name, rays in (("pixels", buffer.pixels), ("edges", buffer.edges)):
        view.trace(name, rays)


@dataclass(frozen=True, eq=False)
class _View:
    """A G-buffer under given conditions."""

    buffer: GBuffer
    conditions: Conditions
    light: Light
    secondary: SecondaryRays

    def trace(self, name: str, rays: CastRays) -> None:
        """Cast the secondary rays of some rays."""
        found = [(name, rays.found)]
        if self.conditions.wet > 0:
            found.append((_MIRRORED + name, self._mirror(name, rays).found))
        if self.light.has_shadows:
            for part, surfaces in found:
                self.secondary.shadow(part, surfaces, self.light.sun)

    def _mirror(self, name: str, rays: CastRays) -> Mirror:
        return self.secondary.mirror(name, rays, self.buffer.camera.pixels)

    def radiance(self, name: str, rays: CastRays) -> Array:
        """The radiance along each of some rays."""
        out = np.empty((3, rays.count), np.float32)
        out[:, rays.empty] = sky(self.light, rays.sky, self.buffer.site.shift)
        seen = in_weather(rays.found, rays.ground, self.conditions)
        colour = self._lit(name, rays.found, seen, rays.openness, rays.ground.rows)
        if self.conditions.wet > 0:
            self._reflect(name, rays, seen.wet, colour)
        out[:, rays.found.ray] = self._through_air(colour, rays.found)
        return out

    def _lit(self, name: str, found: Surface, seen: Weathered, openness: Array, ground: Array) -> Array:
        pose = self.buffer.pose
        site, eye = self.buffer.site, self.buffer.camera.eye(pose).astype(np.float32)
        lamps = Lamps(site.lamps, self.buffer.beams, eye, pose.yaw)
        shadow = lambda sun: self.secondary.shadow(name, found, sun)  # noqa: E731
        return shade_surfaces(found, seen, self.light, openness, shadow=shadow, lamps=lamps, ground=ground)

    def _through_air(self, colour: Array, found: Surface) -> Array:
        clear = np.exp(-self.light.extinction * found.distance)
        return colour * clear + self.light.air[:, None] * (1 - clear)

    def _reflect(self, name: str, rays: CastRays, wet: Array, colour: Array) -> None:
        """Add the reflections of a wet road: the actual surroundings, approximately lit."""
        mirror = self._mirror(name, rays)
        met = mirror.found
        dry = Weathered(met.colour, np.empty(0, np.float32), np.empty(0, np.float32))
        half_open = np.full(len(met.ray), _HALF_OPEN)
        lit = self._lit(_MIRRORED + name, met, dry, half_open, np.empty(0, np.intp))
        seen = plain_sky(self.light, mirror.out)
        seen[:, met.ray] = self._through_air(lit, met)
        rows = rays.ground.rows[mirror.ground]
        down = np.take(rays.found.toward[2], rows)
        fresnel = (0.03 + 0.75 * (1 - np.clip(-down, 0, 1)) ** 5) * wet[mirror.ground]
        colour[:, rows] = np.take(colour, rows, axis=1) * (1 - fresnel) + seen * fresnel
