"""Fog, rain and snow for cameras and LiDARs: seeded, the same in every frame of a window, and stronger with distance.

Distances come from the case's depth map if it has one of the image's size. Otherwise they are those of a road between rows
of houses, with pixels as bright as the sky and connected to it at the sky's distance.

In a LiDAR sweep light travels out and back, so a return from R metres keeps exp(−2·extinction·R) of its intensity, and is
lost once that falls below the 2% that define the visibility. Droplets and flakes also scatter light back (as in LISA, Kilic
et al. 2021), noticeably only near the sensor: their echo fades with the fourth power of the distance, and few are large.
So a metre of the beam at distance r returns an echo with probability `share`·extinction·exp(−r/`depth`), and that echo
replaces the original return. Beams without a return in clear air are not in a sweep, so their echoes, mostly above the
horizon, are missing. Only the strongest return counts, and ranges stay exact.
"""

# DT-18, TG-5..TG-7

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np

from swerve.core.arguments import check_number
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.space import OneOf, Over, Range, Sequenced
from swerve.core.transformation import Transformation, param, params_of
from swerve.core.values import Array, Boxes3D, Depth, Group, Image, PointCloud, Value
from swerve.transformations.atmosphere import (
    KOSCHMIEDER,
    Air,
    ParticleLayer,
    blend_airlight,
    density_noise,
    depths_of,
    draw_particles,
    estimate_air,
    transmission,
)
from swerve.transformations.photometric import Brighten, Contrast, ImageChange, images_of
from swerve.transformations.points import clouds_of

HEAVY_RAIN, HEAVY_SNOW = 350.0, 130.0  # m of visibility at the highest intensity
CLEAR = Air((255.0, 255.0, 255.0), 0.5, 255.0)  # for images without pixels
TIGAUG_FOG = 120.0  # m: severity 2 of 5 (TG-7)
TIGAUG_SNOW = 2.0  # of 5 (TG-6)
BLIND_ZONE = 1.0  # metres: nearer echoes cannot be separated from the lens's own


@dataclass(frozen=True)
class Backscatter:
    """Echoes from the air: their share of the extinction, the depth over which they fade, and the highest intensity."""

    share: float
    depth: float  # metres
    max_intensity: float


# Chosen, not fitted to recordings: the densest fog returns an echo to half of all beams, the heaviest snow to one in six,
# the heaviest rain to one in thirty. Flakes are white, droplets transmit most of the light.
IN_FOG = Backscatter(0.5, 5.0, 0.06)
IN_RAIN = Backscatter(1.0, 4.0, 0.08)
IN_SNOW = Backscatter(1.0, 7.0, 0.25)


@dataclass(frozen=True)
class _Weather(ImageChange):
    """Particles in the air that attenuate what the camera and the LiDAR see."""

    horizon: float | None = dataclasses.field(default=None, kw_only=True)
    seed: int = dataclasses.field(default=0, kw_only=True)
    backscatter: ClassVar[Backscatter]
    preserves: ClassVar[tuple[str, ...]] = (
        *("steering", "signal", "boxes2d"),
        *("masks", "classes", "region", "depth", "calibration", "scene"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is not None and not 0 < self.horizon < 1:
            raise ValueError(
                f"'horizon' must lie between 0 (top) and 1 (bottom), or be None to be estimated, got {self.horizon!r}"
            )

    def applies(self, case: Case) -> str | None:
        """Why it does not apply (`case` has neither an image nor a point cloud), or None."""
        sensed = next(images_of(case), None) or next(clouds_of(case), None)
        return "the case has no image and no point cloud to change" if sensed is None else None

    def __call__(self, case: Case) -> Case:
        """The follow-up of `case`: the same air in all its frames, with its own depth maps if it has any."""
        if why := self.applies(case):
            raise NotApplicable(why)
        images = list(images_of(case))
        air = estimate_air(images[0].pixels, horizon=self.horizon) if images and images[0].pixels.size else CLEAR
        depths = iter(_depth_per_image(images, list(depths_of(case))))
        inputs = {name: self._apply_to(value, air, depths) for name, value in case.inputs.items()}
        truth = tuple(self.map(value) for value in case.truth)
        facts = {**case.facts, **self.facts(case)}
        return dataclasses.replace(case, inputs=inputs, truth=truth, parent=case.parent or case.key, facts=facts)

    def points(self, value: PointCloud) -> PointCloud:
        """The sweep through this air: light travels both ways, so returns end at half the visibility."""
        if self._is_neutral() or not len(value.xyzi):
            return value
        return PointCloud(
            sweep_through_air(value.xyzi, self._extinction(), self.backscatter, rng_for("backscatter", self.seed))
        )

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """The same boxes; those beyond the LiDAR's remaining range get `care` False."""
        if self._is_neutral():
            return value
        visible = np.hypot(value.xyzlwhy[:, 0], value.xyzlwhy[:, 1]) <= max_range(self._extinction())
        return dataclasses.replace(value, care=np.asarray(value.care) & visible)

    def _extinction(self) -> float:
        """The extinction coefficient per metre."""
        raise NotImplementedError(f"{type(self).__name__} must define _extinction")

    def _apply_to(self, value: Value, air: Air, depths: Iterator[Depth | None]) -> Value:
        """`value` in this weather; `depths` are in the order of the images."""
        if isinstance(value, Image):
            depth = next(depths)
            return value if self._is_neutral() or not value.pixels.size else Image(self._render(value.pixels, air, depth))
        if isinstance(value, Group):
            return Group(tuple(self._apply_to(item, air, depths) for item in value.values))
        return self.map(value)

    def _change_pixels(self, pixels: Array) -> Array:
        return self._render(pixels, estimate_air(pixels, horizon=self.horizon), None)

    def _render(self, pixels: Array, air: Air, depth: Depth | None) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _render")


def _depth_per_image(images: list[Image], depths: list[Depth]) -> list[Depth | None]:
    """The depth map of each image, of the same size: its own, or the first for all, or None."""
    found: list[Depth | None] = []
    for index, image in enumerate(images):
        fitting = [depth for depth in depths if depth.metres.shape == image.pixels.shape[:2]]
        own = fitting[index : index + 1] if len(fitting) == len(images) else fitting[:1]
        found.append(own[0] if own else None)
    return found


@dataclass(frozen=True)
class Fog(_Weather):
    """Fog with a `visibility` in metres: I' = I·t + A·(1 − t), t = exp(−3.912/visibility · distance).

    `patchiness` is the largest deviation of its density from the mean, as a share; 0 makes it uniform.
    """

    # DT-18, TG-7
    visibility: float = param(10, 10_000, neutral=10_000, grid=(400, 200, 120, 75, 40), resolution=1, unit=" m")
    patchiness: float = dataclasses.field(default=0.25, kw_only=True)
    backscatter: ClassVar[Backscatter] = IN_FOG

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("patchiness", self.patchiness, 0, 1)

    def words(self) -> str:
        """Such as "fog, visibility 120 m"."""
        return f"fog, visibility {self.visibility:g} m"

    def simpler(self) -> Iterator[Transformation]:
        """No fog, then half the density: twice the visibility."""
        clear = params_of(Fog)["visibility"]
        for metres in (clear.neutral, clear.tidy(2 * self.visibility)):
            if metres > self.visibility:
                yield dataclasses.replace(self, visibility=metres)

    def _extinction(self) -> float:
        return KOSCHMIEDER / self.visibility

    def _render(self, pixels: Array, air: Air, depth: Depth | None) -> Array:
        height, width = pixels.shape[:2]
        density = density_noise(width, height, self.seed, strength=self.patchiness) if self.patchiness else 1.0
        through = transmission(pixels, air, extinction=self._extinction(), depth=depth, density=density)
        return blend_airlight(pixels, through, air.light)


@dataclass(frozen=True)
class Rain(_Weather):
    """Rain of `amount` 0 to 1: slanted streaks near and far, a grey veil and a darker scene.

    `drop_size` and `speed` are the paper's: larger drops make wider streaks, faster drops longer streaks.
    """

    # DT-18, TG-5, D-22
    amount: float = param(0, 1, neutral=0, grid=(0.3, 0.6), resolution=0.01)
    drop_size: float = param(0.01, 1, neutral=0.01, grid=(0.1, 0.2), resolution=0.01, default=0.15)
    speed: float = param(0.01, 1, neutral=0.01, grid=(0.2, 0.3), resolution=0.01, default=0.25)
    slant: float = param(-45, 45, neutral=0, resolution=1, unit="°", default=8.0)
    backscatter: ClassVar[Backscatter] = IN_RAIN

    def words(self) -> str:
        """Such as "rain of 0.5, drops of 0.15 at speed 0.25"."""
        return f"rain of {self.amount:g}, drops of {self.drop_size:g} at speed {self.speed:g}"

    def _is_neutral(self) -> bool:
        return self.amount == 0

    def _extinction(self) -> float:
        return KOSCHMIEDER * self.amount / HEAVY_RAIN

    def _render(self, pixels: Array, air: Air, depth: Depth | None) -> Array:
        height, width = pixels.shape[:2]
        gusts = density_noise(width, height, self.seed, strength=0.5)
        through = transmission(pixels, air, extinction=self._extinction(), depth=depth, density=1.0)
        drops = draw_particles(width, height, self._layers(), slant=self.slant, rng=rng_for("rain", self.seed))
        through *= _transmission_between(drops, gusts)
        # Rain clouds darken the scene and, less, the sky.
        dim = cv2.convertScaleAbs(np.ascontiguousarray(pixels), alpha=1 - 0.25 * self.amount)
        red, green, blue = (level * (1 - 0.15 * self.amount) for level in air.light)
        return _add_glints(blend_airlight(dim, through, (red, green, blue)), drops, 0.12)

    def _layers(self) -> tuple[ParticleLayer, ...]:
        long, wide = self.speed / 0.25, (self.drop_size / 0.15) ** 0.5
        return (
            ParticleLayer(2600 * self.amount, (8 * long, 20 * long), (0.5 * wide, 0.9 * wide), (0.2, 0.5)),
            ParticleLayer(
                800 * self.amount, (26 * long, 56 * long), (0.8 * wide, 1.5 * wide), (0.15, 0.45), blur=0.5, fading=True
            ),
            ParticleLayer(80 * self.amount, (90 * long, 190 * long), (3 * wide, 5 * wide), (0.1, 0.25), blur=2.0, coarse=4),
        )


@dataclass(frozen=True)
class Snow(_Weather):
    """Snowfall of `severity` 0 to 5: flakes near and far, the near ones out of focus, in a white veil."""

    # TG-6
    severity: float = param(0, 5, neutral=0, grid=(1, 2, 3, 4, 5), resolution=0.1)
    slant: float = param(-45, 45, neutral=0, resolution=1, unit="°", default=15.0)
    backscatter: ClassVar[Backscatter] = IN_SNOW

    def words(self) -> str:
        """Such as "snow of severity 2"."""
        return f"snow of severity {self.severity:g}"

    def _is_neutral(self) -> bool:
        return self.severity == 0

    def _extinction(self) -> float:
        return KOSCHMIEDER * self.severity / 5 / HEAVY_SNOW

    def _render(self, pixels: Array, air: Air, depth: Depth | None) -> Array:
        height, width = pixels.shape[:2]
        gusts = density_noise(width, height, self.seed, strength=0.4)
        through = transmission(pixels, air, extinction=self._extinction(), depth=depth, density=gusts)
        flakes = draw_particles(width, height, self._layers(), slant=self.slant, rng=rng_for("snow", self.seed))
        through *= _transmission_between(flakes, gusts)
        return _add_glints(blend_airlight(pixels, through, _snow_light(air.light)), flakes, 0.08)

    def _layers(self) -> tuple[ParticleLayer, ...]:
        share = self.severity / 5
        return (
            ParticleLayer(6000 * share, (0.5, 2.0), (0.5, 1.4), (0.4, 0.8)),
            ParticleLayer(1600 * share, (1.0, 7.0), (1.5, 4.2), (0.4, 0.9), blur=0.7),
            ParticleLayer(140 * share, (6.0, 22.0), (6.0, 15.0), (0.3, 0.6), blur=3.5, coarse=4),
        )


def _transmission_between(particles: Array, gusts: Array) -> Array:
    """The transmission between `particles`, whose density varies with the `gusts`."""
    height, width = particles.shape
    density: Any = cv2.resize(gusts, (width, height), interpolation=cv2.INTER_LINEAR)
    density *= particles
    density *= -1 / 255
    density += 1
    return np.asarray(np.maximum(density, 0, out=density))


def _add_glints(pixels: Array, particles: Array, share: float) -> Array:
    """Particles scatter light from all directions, so they are visible even against haze of their own colour."""
    glint = cv2.convertScaleAbs(particles, alpha=share)
    return np.asarray(cv2.add(pixels, cv2.merge([glint] * 3)))


def _snow_light(light: tuple[float, float, float]) -> tuple[float, float, float]:
    """The light of snow: whiter and a little brighter than the airlight."""
    level = min(1.08 * max(light), 250.0)
    red, green, blue = (0.4 * part + 0.6 * level for part in light)
    return red, green, blue


def max_range(extinction: float) -> float:
    """Metres beyond which all returns are lost."""
    return KOSCHMIEDER / (2 * extinction) if extinction else np.inf


def sweep_through_air(xyzi: Array, extinction: float, air: Backscatter, rng: np.random.Generator) -> Array:
    """The sweep through this air; denser air sends echoes to the same beams, from nearer, and to more of them."""
    far = np.sqrt(np.einsum("ij,ij->i", xyzi[:, :3], xyzi[:, :3], dtype=np.float64))
    chance, light = rng.standard_exponential(len(far)), rng.random(len(far))
    seen = xyzi.copy()
    seen[:, 3] *= np.exp(-2 * extinction * far)
    near = np.flatnonzero(chance < _expected_echoes(far, extinction, air))
    metres = _echo_distances(chance[near], extinction, air)
    seen[near, :3] *= (metres / far[near])[:, None]
    seen[near, 3] = air.max_intensity * light[near] * np.exp(-2 * extinction * metres)
    kept = ~(far > max_range(extinction))  # non-finite points are kept for the system to handle
    kept[near] = True
    return np.asarray(seen[kept])


def _expected_echoes(far: Array, extinction: float, air: Backscatter) -> Array:
    """The expected number of echoes along a beam."""
    thinning = np.exp(-BLIND_ZONE / air.depth) - np.exp(-np.maximum(far, BLIND_ZONE) / air.depth)
    return np.asarray(air.share * extinction * air.depth * thinning)


def _echo_distances(expected: Array, extinction: float, air: Backscatter) -> Array:
    """The distance at which a beam reaches an expected number of echoes: the inverse of `_expected_echoes`."""
    thinning = expected / (air.share * extinction * air.depth)
    return np.asarray(-air.depth * np.log(np.exp(-BLIND_ZONE / air.depth) - thinning))


def fog() -> Over:
    """Fog as in TigAug: severity 2."""
    # TG-7
    return Over(Fog, visibility=TIGAUG_FOG)


def rain() -> Over:
    """Rain as in TigAug: drop size 0.1 to 0.2, speed 0.2 to 0.3."""
    # TG-5, D-22
    return Over(Rain, amount=0.5, drop_size=Range(0.1, 0.2), speed=Range(0.2, 0.3), slant=Range(-15, 15))


def snow() -> Over:
    """Snow as in TigAug: severity 2."""
    # TG-6
    return Over(Snow, severity=TIGAUG_SNOW, slant=Range(-25, 25))


def filtered_conditions() -> Sequenced:
    """Fog, rain, snow and light by image filters, for photographs, within limits that leave the road visible."""
    return Sequenced(
        (
            Over(Contrast, alpha=Range(0.5, 1.6)),
            Over(Brighten, beta=Range(-60.0, 60.0)),
            Over(Fog, visibility=Range(60.0, 10_000.0)),
            Over(Rain, amount=Range(0.0, 0.7), drop_size=0.15, speed=0.25, slant=Range(-20.0, 20.0)),
            Over(Snow, severity=Range(0.0, 2.0), slant=15.0),
        )
    )


def tigaug_weather() -> OneOf:
    """Rain, snow or fog with TigAug's parameters."""
    return OneOf((rain(), snow(), fog()))
