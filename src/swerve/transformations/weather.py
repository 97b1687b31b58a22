"""Fog, rain and snow (DT-18, TG-5..TG-7): seeded, alike in every frame of a window, farther things fainter.

Where a case holds a depth map of the image's size, distances are those; else they are those of a road between rows of
houses, with what is as bright as the sky and hangs together with it as far away as the sky.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.space import OneOf, Over, Range
from swerve.core.transformation import Transformation, param, params_of
from swerve.core.values import Array, Boxes3D, Depth, Group, Image, PointCloud, Value
from swerve.transformations.atmosphere import KOSCHMIEDER, Air, air_of, depths_of, patches, transmission, veiled
from swerve.transformations.lidar_weather import IN_FOG, IN_RAIN, IN_SNOW, Backscatter, reach, swept
from swerve.transformations.particles import ParticleLayer, falling
from swerve.transformations.photometric import ImageChange, images_of
from swerve.transformations.points import clouds_of

HEAVY_RAIN, HEAVY_SNOW = 350.0, 130.0  # m of visibility in the strongest
CLEAR = Air((255.0, 255.0, 255.0), 0.5, 255.0)  # around an image without pixels
TIGAUG_FOG = 120.0  # m: severity 2 of 5 (TG-7)
TIGAUG_SNOW = 2.0  # of 5 (TG-6)


@dataclass(frozen=True)
class _Weather(ImageChange):
    """What hangs in the air, between the camera or the LiDAR and what they see."""

    horizon: float | None = dataclasses.field(default=None, kw_only=True)
    seed: int = dataclasses.field(default=0, kw_only=True)
    answers: ClassVar[Backscatter]  # of this air to a LiDAR
    preserves: ClassVar[tuple[str, ...]] = (
        *("steering", "signal", "boxes2d"),
        *("masks", "region", "depth", "calibration", "scene"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is not None and not 0 < self.horizon < 1:
            raise ValueError(f"horizon must lie between 0 (top) and 1 (bottom), or be None to be seen, got {self.horizon!r}")

    def applies(self, case: Case) -> str | None:
        """A reason when `case` has nothing that looks through the air."""
        seeing = next(images_of(case), None) or next(clouds_of(case), None)
        return "the case has no image and no point cloud to change" if seeing is None else None

    def __call__(self, case: Case) -> Case:
        """The follow-up of `case`: one air for all its frames, and its own depths where it has them."""
        if why := self.applies(case):
            raise NotApplicable(why)
        images = list(images_of(case))
        air = air_of(images[0].pixels, horizon=self.horizon) if images and images[0].pixels.size else CLEAR
        depths = iter(_paired(images, list(depths_of(case))))
        inputs = {name: self._under(value, air, depths) for name, value in case.inputs.items()}
        truth = tuple(self.map(value) for value in case.truth)
        facts = {**case.facts, **self.facts(case)}
        return dataclasses.replace(case, inputs=inputs, truth=truth, parent=case.parent or case.key, facts=facts)

    def points(self, value: PointCloud) -> PointCloud:
        """The sweep through this air: light goes both ways, so returns fade twice, and end at half the visibility."""
        if self._idle() or not len(value.xyzi):
            return value
        return PointCloud(swept(value.xyzi, self._extinction(), self.answers, rng_for("backscatter", self.seed)))

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """The same boxes; beyond where the LiDAR gets a return none is demanded."""
        if self._idle():
            return value
        seen = np.hypot(value.xyzlwhy[:, 0], value.xyzlwhy[:, 1]) <= reach(self._extinction())
        return dataclasses.replace(value, care=np.asarray(value.care) & seen)

    def _extinction(self) -> float:
        """The share of light lost per metre."""
        raise NotImplementedError(f"{type(self).__name__} does not say how far one sees")

    def _under(self, value: Value, air: Air, depths: Iterator[Depth | None]) -> Value:
        """`value` under this weather; `depths` come in the order of the images."""
        if isinstance(value, Image):
            depth = next(depths)
            return value if self._idle() or not value.pixels.size else Image(self._seen(value.pixels, air, depth))
        if isinstance(value, Group):
            return Group(tuple(self._under(item, air, depths) for item in value.values))
        return self.map(value)

    def _redraw(self, pixels: Array) -> Array:
        return self._seen(pixels, air_of(pixels, horizon=self.horizon), None)

    def _seen(self, pixels: Array, air: Air, depth: Depth | None) -> Array:
        raise NotImplementedError(f"{type(self).__name__} does not say what it looks like")


def _paired(images: list[Image], depths: list[Depth]) -> list[Depth | None]:
    """A depth map of its own size for each image: one for each, or the first for all, or None."""
    found: list[Depth | None] = []
    for index, image in enumerate(images):
        fitting = [depth for depth in depths if depth.metres.shape == image.pixels.shape[:2]]
        own = fitting[index : index + 1] if len(fitting) == len(images) else fitting[:1]
        found.append(own[0] if own else None)
    return found


@dataclass(frozen=True)
class Fog(_Weather):
    """Fog in which one sees `visibility` metres: I' = I·t + A·(1 − t), t = exp(−3.912/visibility · distance) (DT-18, TG-7).

    `patchiness` is how far its density strays from the mean, as a share of it; 0 makes it even.
    """

    visibility: float = param(10, 10_000, neutral=10_000, grid=(400, 200, 120, 75, 40), resolution=1, unit=" m")
    patchiness: float = dataclasses.field(default=0.25, kw_only=True)
    answers: ClassVar[Backscatter] = IN_FOG

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.patchiness <= 1:
            raise ValueError(f"patchiness must be a number from 0 (even) to 1, got {self.patchiness!r}")

    def words(self) -> str:
        """Such as "fog, one sees 120 m"."""
        return f"fog, one sees {self.visibility:g} m"

    def simpler(self) -> Iterator[Transformation]:
        """No fog, then half as dense: half of 40 m is 80 m."""
        clear = params_of(Fog)["visibility"]
        for metres in (clear.neutral, clear.tidy(2 * self.visibility)):
            if metres > self.visibility:
                yield dataclasses.replace(self, visibility=metres)

    def _extinction(self) -> float:
        return KOSCHMIEDER / self.visibility

    def _seen(self, pixels: Array, air: Air, depth: Depth | None) -> Array:
        height, width = pixels.shape[:2]
        density = patches(width, height, self.seed, strength=self.patchiness) if self.patchiness else 1.0
        through = transmission(pixels, air, extinction=self._extinction(), depth=depth, patches=density)
        return veiled(pixels, through, air.light)


@dataclass(frozen=True)
class Rain(_Weather):
    """Rain of `amount` 0 to 1: slanting streaks near and far, a grey veil and a darker scene (DT-18, TG-5, D-22).

    `drop_size` and `speed` are the paper's: larger drops leave wider streaks, faster ones longer streaks.
    """

    amount: float = param(0, 1, neutral=0, grid=(0.3, 0.6), resolution=0.01)
    drop_size: float = param(0.01, 1, neutral=0.01, grid=(0.1, 0.2), resolution=0.01, default=0.15)
    speed: float = param(0.01, 1, neutral=0.01, grid=(0.2, 0.3), resolution=0.01, default=0.25)
    slant: float = param(-45, 45, neutral=0, resolution=1, unit="°", default=8.0)
    answers: ClassVar[Backscatter] = IN_RAIN

    def words(self) -> str:
        """Such as "rain of 0.5, drops of 0.15 at speed 0.25"."""
        return f"rain of {self.amount:g}, drops of {self.drop_size:g} at speed {self.speed:g}"

    def _idle(self) -> bool:
        return self.amount == 0

    def _extinction(self) -> float:
        return KOSCHMIEDER * self.amount / HEAVY_RAIN

    def _seen(self, pixels: Array, air: Air, depth: Depth | None) -> Array:
        height, width = pixels.shape[:2]
        gusts = patches(width, height, self.seed, strength=0.5)
        through = transmission(pixels, air, extinction=self._extinction(), depth=depth, patches=1.0)
        drops = falling(width, height, self._layers(), slant=self.slant, rng=rng_for("rain", self.seed))
        through *= _gaps(drops, gusts)
        # Rain clouds take light from the scene and, less, from the sky.
        dim = cv2.convertScaleAbs(np.ascontiguousarray(pixels), alpha=1 - 0.25 * self.amount)
        red, green, blue = (level * (1 - 0.15 * self.amount) for level in air.light)
        return _glinting(veiled(dim, through, (red, green, blue)), drops, 0.12)

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
    """Snowfall of `severity` 0 to 5: flakes near and far, the near ones out of focus, in a white veil (TG-6)."""

    severity: float = param(0, 5, neutral=0, grid=(1, 2, 3, 4, 5), resolution=0.1)
    slant: float = param(-45, 45, neutral=0, resolution=1, unit="°", default=15.0)
    answers: ClassVar[Backscatter] = IN_SNOW

    def words(self) -> str:
        """Such as "snow of severity 2"."""
        return f"snow of severity {self.severity:g}"

    def _idle(self) -> bool:
        return self.severity == 0

    def _extinction(self) -> float:
        return KOSCHMIEDER * self.severity / 5 / HEAVY_SNOW

    def _seen(self, pixels: Array, air: Air, depth: Depth | None) -> Array:
        height, width = pixels.shape[:2]
        gusts = patches(width, height, self.seed, strength=0.4)
        through = transmission(pixels, air, extinction=self._extinction(), depth=depth, patches=gusts)
        flakes = falling(width, height, self._layers(), slant=self.slant, rng=rng_for("snow", self.seed))
        through *= _gaps(flakes, gusts)
        return _glinting(veiled(pixels, through, _whiter(air.light)), flakes, 0.08)

    def _layers(self) -> tuple[ParticleLayer, ...]:
        share = self.severity / 5
        return (
            ParticleLayer(6000 * share, (0.5, 2.0), (0.5, 1.4), (0.4, 0.8)),
            ParticleLayer(1600 * share, (1.0, 7.0), (1.5, 4.2), (0.4, 0.9), blur=0.7),
            ParticleLayer(140 * share, (6.0, 22.0), (6.0, 15.0), (0.3, 0.6), blur=3.5, coarse=4),
        )


def _gaps(particles: Array, gusts: Array) -> Array:
    """The share of light that passes between `particles`, which come in gusts."""
    height, width = particles.shape
    density: Any = cv2.resize(gusts, (width, height), interpolation=cv2.INTER_LINEAR)
    density *= particles
    density *= -1 / 255
    density += 1
    return np.asarray(np.maximum(density, 0, out=density))


def _glinting(pixels: Array, particles: Array, share: float) -> Array:
    """What falls gathers light from all around, so it shows a little even before the haze."""
    glint = cv2.convertScaleAbs(particles, alpha=share)
    return np.asarray(cv2.add(pixels, cv2.merge([glint] * 3)))


def _whiter(light: tuple[float, float, float]) -> tuple[float, float, float]:
    """Snow reflects all colours, and a little more than the haze."""
    level = min(1.08 * max(light), 250.0)
    red, green, blue = (0.4 * part + 0.6 * level for part in light)
    return red, green, blue


def fog() -> Over:
    """Fog as in TigAug: severity 2 (TG-7)."""
    return Over(Fog, visibility=TIGAUG_FOG)


def rain() -> Over:
    """Rain as in TigAug: drop size 0.1 to 0.2, speed 0.2 to 0.3 (TG-5, D-22)."""
    return Over(Rain, amount=0.5, drop_size=Range(0.1, 0.2), speed=Range(0.2, 0.3), slant=Range(-15, 15))


def snow() -> Over:
    """Snow as in TigAug: severity 2 (TG-6)."""
    return Over(Snow, severity=TIGAUG_SNOW, slant=Range(-25, 25))


def tigaug_weather() -> OneOf:
    """Rain, snow or fog with TigAug's parameters."""
    return OneOf((rain(), snow(), fog()))
