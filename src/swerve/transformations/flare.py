"""Lens flare: light from a bright source, scattered and reflected inside the lens and added to the image."""

# TG-8

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.seeding import rng_for
from swerve.core.space import Over, Range
from swerve.core.transformation import ANYTHING, param
from swerve.core.values import Array, SceneRef, find
from swerve.transformations.photometric import ImageChange, images_of

# TG-8, TG-27: the authors leave night images without a flare. An image counts as night if 90% of its upper third is below
# the first grey level and its mean below the second; a wood by day has a dark top too, but usually a bright road.
NIGHT_SKY, NIGHT = 90.0, 75.0
COARSE = 4  # image pixels per flare pixel: the flare has no sharp edges
BLADES = 6  # of the aperture: a ghost has as many corners, the star twice as many rays
SUNLIGHT = (1.0, 0.95, 0.84)
# Per ghost: its position on the line from the light through the centre (1: as far on the other side), its radius in image
# diagonals, its brightness and its colour (coatings reflect different wavelengths).
GHOSTS = (
    (-0.55, 0.016, 0.34, (1.0, 0.72, 0.45)),
    (-0.25, 0.032, 0.16, (0.55, 1.0, 0.65)),
    (0.35, 0.024, 0.30, (0.5, 0.8, 1.0)),
    (0.62, 0.055, 0.18, (1.0, 0.6, 0.4)),
    (0.9, 0.038, 0.26, (0.6, 1.0, 0.8)),
    (1.3, 0.085, 0.17, (0.7, 0.55, 1.0)),
    (1.7, 0.05, 0.12, (1.0, 0.85, 0.5)),
)


@dataclass(frozen=True)
class LensFlare(ImageChange):
    """A sun at (`x`, `y`), in shares of width and height: glow, star, and ghosts in a line through the centre."""

    x: float = param(0, 1, neutral=0.5, resolution=0.01)
    y: float = param(0, 1, neutral=0, resolution=0.01)
    strength: float = param(0, 1, neutral=0, grid=(0.4, 0.7, 1.0), resolution=0.01, default=0.8)
    seed: int = dataclasses.field(default=0, kw_only=True)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def applies(self, case: Case) -> str | None:
        """Why it does not apply (`case` has no image, or was taken at night), or None."""
        if why := super().applies(case):
            return why
        if self._is_neutral():
            return None
        scene = find(case.truth, SceneRef.slot)
        if isinstance(scene, SceneRef) and "sun" in scene.conditions:
            return "the sun has set" if float(scene.conditions["sun"]) < 0 else None
        if not all(_looks_like_night(image.pixels) for image in images_of(case)):
            return None
        return f"a night image (mean grey level below {NIGHT:.0f}, nearly all of its top below {NIGHT_SKY:.0f}) has no sun"

    def words(self) -> str:
        """Such as "lens flare of 0.8 from 20% across and 10% down"."""
        return f"lens flare of {self.strength:g} from {self.x:.0%} across and {self.y:.0%} down"

    def _is_neutral(self) -> bool:
        return self.strength == 0

    def _change_pixels(self, pixels: Array) -> Array:
        height, width = pixels.shape[:2]
        coarse = max(width // COARSE, 1), max(height // COARSE, 1)
        flare = cv2.resize(self._flare_layer(*coarse), (width, height), interpolation=cv2.INTER_LINEAR)
        # Screen blending: the flare fills part of the range that the image leaves free.
        rest = cv2.multiply(cv2.bitwise_not(np.ascontiguousarray(pixels)), cv2.bitwise_not(flare), scale=1 / 255)
        return np.asarray(cv2.bitwise_not(rest)).reshape(pixels.shape)

    def _flare_layer(self, width: int, height: int) -> Array:
        """The flare alone, RGB."""
        diagonal = math.hypot(width, height)
        sun = np.array([self.x * width, self.y * height])
        across = ((np.arange(width) + 0.5 - sun[0]) / diagonal).astype(np.float32)[None]
        down = ((np.arange(height) + 0.5 - sun[1]) / diagonal).astype(np.float32)[:, None]
        turn = rng_for("flare", self.seed).uniform(0, math.pi / BLADES)
        white = _glow(across, down) + _star(across, down, turn)
        light = cv2.merge([white * part for part in SUNLIGHT])
        for corners, colour in _ghosts(sun, np.array([width / 2, height / 2]), diagonal, turn):
            light += _soft_polygon(corners, width, height, diagonal)[..., None] * np.array(colour, dtype=np.float32)
        return np.asarray(np.clip(255 * self.strength * light, 0, 255), dtype=np.uint8)


def _looks_like_night(pixels: Array) -> bool:
    if not pixels.size:
        return True
    grey = cv2.cvtColor(cv2.resize(pixels, (64, 36), interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)
    return bool(np.percentile(grey[:12], 90) < NIGHT_SKY and grey.mean() < NIGHT)


def _glow(across: Array, down: Array) -> Array:
    """A saturated core, a halo, and a veil over the whole image; distances are in diagonals."""
    squared = across**2 + down**2
    core = 1.3 * np.exp(-squared / 0.03**2)
    return np.asarray(core + 0.6 / (1 + squared / 0.07**2) + 0.34 / (1 + squared / 0.4**2) - 0.04)


def _star(across: Array, down: Array, turn: float) -> Array:
    """Diffraction at the aperture blades: thin rays that fade."""
    wide, high = (np.ascontiguousarray(part) for part in np.broadcast_arrays(across, down))
    distance, angle = cv2.cartToPolar(wide, high)
    rays = np.abs(np.cos(BLADES * (angle + turn))) ** 60 + 0.35 * np.abs(np.cos(2.5 * BLADES * angle + turn)) ** 8
    return np.asarray(0.6 * rays * np.exp(-distance / 0.09))


def _ghosts(sun: Array, centre: Array, diagonal: float, turn: float) -> Iterator[tuple[Array, tuple[float, ...]]]:
    """The corners and the light of each ghost: an image of the aperture, inverted on the far side."""
    angles = turn + 2 * math.pi * np.arange(BLADES) / BLADES
    rim = np.column_stack([np.cos(angles), np.sin(angles)])
    for along, radius, level, colour in GHOSTS:
        yield centre + along * (centre - sun) + radius * diagonal * rim, tuple(level * part for part in colour)


def _soft_polygon(corners: Array, width: int, height: int, diagonal: float) -> Array:
    """A polygon with a brighter rim, as ghosts have, and a blurred edge."""
    canvas = np.zeros((height, width), dtype=np.float32)
    middle = corners.mean(axis=0)
    for share, level in ((1.0, 1.0), (0.8, 0.75), (0.5, 0.6)):
        points = np.rint((middle + share * (corners - middle)) * 16).astype(np.int32)
        cv2.fillConvexPoly(canvas, points, level, cv2.LINE_AA, 4)
    return np.asarray(cv2.GaussianBlur(canvas, (0, 0), max(0.004 * diagonal, 0.3)))


def lens_flare() -> Over:
    """A flare from the upper third of the image, where TigAug puts it."""
    return Over(LensFlare, x=Range(0.1, 0.9), y=Range(0.03, 0.33), strength=Range(0.6, 1.0))
