"""From radiance to pixels: exposure, bloom, falling rain or snow, tone mapping and sensor noise."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from swerve.core.values import Array
from swerve.world.conditions import Conditions
from swerve.world.light import Light
from swerve.world.mesh import row
from swerve.world.textures import tile

_NOISE = 0.0055  # of full scale, by day
_HIGHEST_GAIN = 3.4
_SETS_IN = 0.2  # of the most rain or snowfall: from here the noise is its own


def develop(
    radiance: Array, light: Light, rng: np.random.Generator, *, gain: float, depth: Array, wind: float, cut: int = 0
) -> Array:
    """An HxWx3 uint8 image of HxWx3 radiance, exposed with `gain`; `wind` slants the rain.

    `cut` rows at the top of the whole frame are not in the picture.
    """
    here = light.conditions
    # Each has the same numbers, whatever the others draw; a copy takes as long as the noise itself.
    wet, white = (deepcopy(rng) if amount > 0 else rng for amount in (here.rain, here.snowfall))
    dry = rng
    picture = radiance * gain
    picture = _bloom(picture, here)
    if here.rain > 0:
        picture = _rain(picture, light, wet, depth, wind)
    if here.snowfall > 0:
        picture = _snowfall(picture, light, white, depth)
    height, width = depth.shape[0] + cut, depth.shape[1]
    picture *= _vignette(height, width)[cut:]
    toned = _tone_map(picture)
    noise = _noise(((dry, 1.0), (wet, here.rain_share), (white, here.snowfall_share)), (height, width))[cut:]
    toned += (noise * (_NOISE * (1 + 1.6 * here.dark)))[..., None]
    return np.clip(toned * 255 + 0.5, 0, 255).astype(np.uint8)


def exposure(radiance: Array, here: Conditions, *, cut: int = 0) -> float:
    """The gain of the exposure meter, set by the lower part of the frame, within limits for day and night."""
    low = radiance[max((radiance.shape[0] + cut) * 2 // 5 - cut, 0) :: 4, ::4]
    grey = float(np.exp(np.log(low @ row(0.2, 0.7, 0.1) + 0.01).mean()))
    lowest = 0.9 + 1.1 * min(max((here.dark - 0.25) / 0.33, 0.0), 1.0)
    bias = 0.27 * (1 + 0.35 * here.snow)  # a meter would render snow grey
    return float(np.clip(bias / grey**0.85, lowest, _HIGHEST_GAIN))


def _noise(sources: tuple[tuple[np.random.Generator, float], ...], shape: tuple[int, ...]) -> Array:
    """The sensor's noise: that of the dry frame, which gives way to another as rain or snowfall sets in."""
    (_, dry), *falling = sources
    shares = [min(1.0, amount / _SETS_IN) for _, amount in falling]
    shares = [dry * math.prod(1 - share for share in shares), *shares]
    height, width = shape
    mixed = np.zeros((height, width), np.float32)
    for (rng, _), share in zip(sources, shares, strict=True):
        if share > 0:
            down, right = rng.integers(0, 1024, 2)
            rows, columns = (np.arange(height) - down) % 1024, (np.arange(width) - right) % 1024
            mixed += np.float32(share / math.hypot(*shares)) * tile("sensor", 0.0)[np.ix_(rows, columns)]
    return mixed


def _tone_map(picture: Array) -> Array:
    """Highlight compression, which keeps the sky from saturating, then gamma."""
    squeezed = np.clip(picture * (1 + picture / 9.0) / (1 + picture * 0.9), 0, 1)
    curve = cv2.pow(squeezed, 1 / 2.2)
    return curve * (0.72 + curve * (0.84 - 0.56 * curve))  # a little more contrast in the middle


def _bloom(picture: Array, here: Conditions) -> Array:
    """Light of bright pixels added to their surroundings."""
    height, width = picture.shape[:2]
    bright = np.clip(picture - 1.35, 0, 12 + 30 * here.dark)
    small = cv2.resize(bright, (max(width // 4, 1), max(height // 4, 1)), interpolation=cv2.INTER_AREA)
    wide = width / 4
    glow = 0.30 * cv2.GaussianBlur(small, (0, 0), wide * 0.006 + 0.5) + 0.22 * cv2.GaussianBlur(small, (0, 0), wide * 0.03)
    glow += (0.12 + 0.3 * here.ahead) * cv2.GaussianBlur(small, (0, 0), wide * 0.11)
    return picture + cv2.resize(glow, (width, height), interpolation=cv2.INTER_LINEAR) * (1 + 0.5 * here.dark)


@lru_cache(maxsize=16)
def _vignette(height: int, width: int) -> Array:
    x, y = np.linspace(-1, 1, width, dtype=np.float32), np.linspace(-1, 1, height, dtype=np.float32)
    return (1 - 0.16 * (x[None] ** 2 + 0.6 * y[:, None] ** 2))[..., None]


@dataclass(frozen=True)
class _Layer:
    """Drops or flakes at one distance: number, size, opacity, and the distance that they need behind them."""

    count: int
    size: float
    weight: float
    beyond: float  # metres: drawn only over pixels that are farther away
    usual: float  # amount that is drawn at first

    def drawn(self, rng: np.random.Generator, amount: float, numbers: int) -> Array:
        """So many random numbers of each drop; a larger amount adds drops and moves none."""
        usual, wanted = int(self.count * self.usual), int(self.count * amount)
        first = rng.uniform(0, 1, (usual, numbers))
        if wanted <= usual:
            return first[:wanted]
        ahead = np.random.Generator(rng.bit_generator.jumped())  # type: ignore[attr-defined]
        return np.vstack([first, ahead.uniform(0, 1, (wanted - usual, numbers))])


_DROPS = (_Layer(900, 0.05, 0.11, 14.0, 0.75), _Layer(340, 0.10, 0.13, 6.0, 0.75), _Layer(60, 0.2, 0.12, 0.0, 0.75))
_FLAKES = (
    _Layer(1300, 0.7, 0.75, 10.0, 0.6),
    _Layer(380, 1.3, 0.7, 5.0, 0.6),
    _Layer(60, 2.6, 0.5, 0.0, 0.6),
    _Layer(10, 6.0, 0.28, 0.0, 0.6),
)
_FRACTION_BITS = 4  # sub-pixel bits of OpenCV's drawing functions


def _rain(picture: Array, light: Light, rng: np.random.Generator, depth: Array, slant: float) -> Array:
    """Layers of streaks, finer and fainter with distance."""
    bright = 2.0 * (float(light.above.mean()) * 0.9 + 0.35 * light.lamps) + 0.12
    for layer in _DROPS:
        share = _streaks(layer, light.conditions.rain_share, slant, rng, depth.shape)
        picture = _blend(picture, share * layer.weight * (depth > layer.beyond), bright)
    return picture


def _streaks(layer: _Layer, amount: float, slant: float, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    height, width = shape
    drawn = np.zeros((height, width), np.float32)
    x, y, stretch, shine = layer.drawn(rng, amount, 4).T
    long = height * layer.size * (0.6 + 0.8 * stretch)
    left, top = x * width, (y * 1.2 - 0.15) * height
    ends = np.stack([left, top, left + slant * long, top + long], 1)
    places = (ends * 2**_FRACTION_BITS).astype(int).reshape(-1, 2, 2).tolist()
    for (start, end), bright in zip(places, (0.35 + 0.65 * shine).tolist(), strict=True):
        cv2.line(drawn, start, end, bright, 1, cv2.LINE_AA, _FRACTION_BITS)
    return cv2.GaussianBlur(drawn, (0, 0), 0.45 + 0.5 * (layer.beyond == 0) * width / 640)


def _snowfall(picture: Array, light: Light, rng: np.random.Generator, depth: Array) -> Array:
    """Flakes of all sizes, the near ones out of focus."""
    bright = min(1.6, float(light.above.mean()) * 1.9 + 0.3 + 0.35 * light.lamps)
    for layer in _FLAKES:
        share = _flakes(layer, light.conditions.snowfall_share, rng, depth.shape)
        picture = _blend(picture, np.clip(share * layer.weight, 0, 0.92) * (depth > layer.beyond), bright)
    return picture


def _flakes(layer: _Layer, amount: float, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    height, width = shape
    drawn, unit = np.zeros((height, width), np.float32), width / 640
    x, y, size = layer.drawn(rng, amount, 3).T
    radius = np.maximum(layer.size * unit * (0.7 + 0.7 * size), 0.5)
    places = (np.stack([x * width, y * height, radius], 1) * 2**_FRACTION_BITS).astype(int).tolist()
    for left, top, wide in places:
        cv2.circle(drawn, (left, top), wide, 1.0, -1, cv2.LINE_AA, _FRACTION_BITS)
    return cv2.GaussianBlur(drawn, (0, 0), (0.5 + layer.size * 0.35) * max(unit, 0.5))


def _blend(picture: Array, share: Array, bright: float) -> Array:
    return picture + (np.float32(bright) - picture) * cv2.merge([share] * 3)
