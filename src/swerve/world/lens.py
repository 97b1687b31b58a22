"""From radiance to pixels: exposure, bloom, falling rain or snow, tone mapping and sensor noise."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.values import Array
from swerve.world.light import Light
from swerve.world.mesh import row
from swerve.world.textures import tile

_NOISE = 0.0055  # of full scale, by day


def develop(radiance: Array, light: Light, rng: np.random.Generator, *, depth: Array, wind: float) -> Array:
    """An HxWx3 uint8 image of HxWx3 radiance; `wind` slants the rain."""
    height, width = radiance.shape[:2]
    gain = _exposure(radiance, light)
    picture = radiance * gain
    picture = _bloom(picture, light)
    if light.conditions.rain > 0:
        picture = _rain(picture, light, rng, depth, wind)
    if light.conditions.snowfall > 0:
        picture = _snowfall(picture, light, rng, depth)
    picture *= _vignette(height, width)
    toned = _tone_map(picture)
    grain = tile("sensor", 0.0)
    row, column = rng.integers(0, 1024, 2)
    noise = np.roll(grain, (int(row), int(column)), (0, 1))
    noise = np.tile(noise, (height // 1024 + 1, width // 1024 + 1))[:height, :width]
    toned += (noise * (_NOISE * (1 + 1.6 * light.lamps)))[..., None]
    return np.clip(toned * 255 + 0.5, 0, 255).astype(np.uint8)


def _exposure(radiance: Array, light: Light) -> float:
    """The gain of the exposure meter, set by the lower part of the image, within limits for day and night."""
    low = radiance[radiance.shape[0] * 2 // 5 :: 4, ::4]
    grey = float(np.exp(np.log(low @ row(0.2, 0.7, 0.1) + 0.01).mean()))
    low_gain, high_gain = (0.9, 3.4) if light.lamps < 0.5 else (2.0, 3.4)
    bias = 0.27 * (1 + 0.35 * light.conditions.snow)  # a meter would render snow grey
    return float(np.clip(bias / grey**0.85, low_gain, high_gain))


def _tone_map(picture: Array) -> Array:
    """Highlight compression, which keeps the sky from saturating, then gamma."""
    squeezed = np.clip(picture * (1 + picture / 9.0) / (1 + picture * 0.9), 0, 1)
    curve = cv2.pow(squeezed, 1 / 2.2)
    return curve * (0.72 + curve * (0.84 - 0.56 * curve))  # a little more contrast in the middle


def _bloom(picture: Array, light: Light) -> Array:
    """Light of bright pixels added to their surroundings."""
    height, width = picture.shape[:2]
    bright = np.clip(picture - 1.35, 0, 12)
    small = cv2.resize(bright, (max(width // 4, 1), max(height // 4, 1)), interpolation=cv2.INTER_AREA)
    wide = width / 4
    glow = 0.30 * cv2.GaussianBlur(small, (0, 0), wide * 0.006 + 0.5) + 0.22 * cv2.GaussianBlur(small, (0, 0), wide * 0.03)
    glow += (0.12 + 0.3 * light.conditions.ahead) * cv2.GaussianBlur(small, (0, 0), wide * 0.11)
    return picture + cv2.resize(glow, (width, height), interpolation=cv2.INTER_LINEAR) * (1 + 0.5 * light.lamps)


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


_DROPS = (_Layer(900, 0.05, 0.11, 14.0), _Layer(340, 0.10, 0.13, 6.0), _Layer(60, 0.2, 0.12, 0.0))
_FLAKES = (_Layer(1300, 0.7, 0.75, 10.0), _Layer(380, 1.3, 0.7, 5.0), _Layer(60, 2.6, 0.5, 0.0), _Layer(10, 6.0, 0.28, 0.0))
_FRACTION_BITS = 4  # sub-pixel bits of OpenCV's drawing functions


def _rain(picture: Array, light: Light, rng: np.random.Generator, depth: Array, slant: float) -> Array:
    """Layers of streaks, finer and fainter with distance."""
    bright = 2.0 * (float(light.above.mean()) * 0.9 + 0.35 * light.lamps) + 0.12
    for layer in _DROPS:
        share = _streaks(layer, light.conditions.rain, slant, rng, depth.shape)
        picture = _blend(picture, share * layer.weight * (depth > layer.beyond), bright)
    return picture


def _streaks(layer: _Layer, amount: float, slant: float, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    height, width = shape
    drawn = np.zeros((height, width), np.float32)
    for x, y, stretch, shine in rng.uniform(0, 1, (int(layer.count * amount), 4)):
        long = height * layer.size * (0.6 + 0.8 * stretch)
        ends = np.array(
            [[x * width, (y * 1.2 - 0.15) * height], [x * width + slant * long, (y * 1.2 - 0.15) * height + long]]
        )
        start, end = (ends * 2**_FRACTION_BITS).astype(int).tolist()
        cv2.line(drawn, start, end, 0.35 + 0.65 * float(shine), 1, cv2.LINE_AA, _FRACTION_BITS)
    return cv2.GaussianBlur(drawn, (0, 0), 0.45 + 0.5 * (layer.beyond == 0) * width / 640)


def _snowfall(picture: Array, light: Light, rng: np.random.Generator, depth: Array) -> Array:
    """Flakes of all sizes, the near ones out of focus."""
    bright = min(1.6, float(light.above.mean()) * 1.9 + 0.3 + 0.35 * light.lamps)
    for layer in _FLAKES:
        share = _flakes(layer, light.conditions.snowfall, rng, depth.shape)
        picture = _blend(picture, np.clip(share * layer.weight, 0, 0.92) * (depth > layer.beyond), bright)
    return picture


def _flakes(layer: _Layer, amount: float, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    height, width = shape
    drawn, unit = np.zeros((height, width), np.float32), width / 640
    for x, y, size in rng.uniform(0, 1, (int(layer.count * amount), 3)):
        at = (int(x * width * 2**_FRACTION_BITS), int(y * height * 2**_FRACTION_BITS))
        radius = max(layer.size * unit * (0.7 + 0.7 * size), 0.5)
        cv2.circle(drawn, at, int(radius * 2**_FRACTION_BITS), 1.0, -1, cv2.LINE_AA, _FRACTION_BITS)
    return cv2.GaussianBlur(drawn, (0, 0), (0.5 + layer.size * 0.35) * max(unit, 0.5))


def _blend(picture: Array, share: Array, bright: float) -> Array:
    return picture + (np.float32(bright) - picture) * cv2.merge([share] * 3)
