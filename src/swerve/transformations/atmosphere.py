"""The air between camera and scene: airlight, visibility, assumed depth, and rain or snow falling through it.

All weather follows Koschmieder's law I' = I·t + A·(1 − t), where t is the transmission and A the airlight. In fog t falls
with distance; a raindrop or snowflake is a local drop of t.

Particles come in layers, from far (small and many) to near (large and out of focus). A layer is an opacity only, since
particles have the colour of the airlight. Sizes are in units of 1/960 of the geometric mean of width and height, so that
the result looks alike at every image size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Depth, Group, Value

# At the visibility, the contrast of a black object against the sky has fallen to 2%: 3.912 = −ln 0.02 (Koschmieder).
KOSCHMIEDER = 3.912

# Without a depth map: a road between rows of houses or trees, seen by a camera with a view of 60°.
FOCAL_LENGTH = 0.87  # of the width
CAMERA_HEIGHT = 1.4  # m above the road
ROW_DISTANCE, ROW_HEIGHT = 12.0, 25.0  # m: distance to the rows beside the road, and their height
HORIZON, LOWEST_HORIZON, HORIZON_BLUR = 0.55, 0.92, 0.07  # of the height
MAX_DEPTH, SKY_DEPTH = 180.0, 500.0  # m
COARSE = 8  # image pixels per pixel of slowly varying fields: distance and density
THUMBNAIL = (64, 36)  # pixels: enough to estimate the light and the sky

TILE_SIZE = 256  # pixels of the noise from which fog banks and gusts are sampled
MAX_LIGHT = 240.0  # even fog in full sun is not pure white
HAZE_TINT = 0.35  # the share of the sky's colour that fog keeps, since it scatters all colours alike
SKY_DULL, SKY_BRIGHT = 0.62, 0.82  # of the brightest level: a pixel below is not sky, a pixel above is

UNITS = 960.0  # per geometric mean of width and height
FRACTION_BITS = 4  # sub-pixel bits of OpenCV's drawing functions
SHADES = 6  # opacity levels per layer


@dataclass(frozen=True)
class Air:
    """The airlight (RGB), the horizon (as a share of the height) and the brightest grey level of a scene."""

    light: tuple[float, float, float]
    horizon: float
    brightest: float


def estimate_air(pixels: Array, *, horizon: float | None = None) -> Air:
    """The air of an image: its light is that of the brightest tenth, its horizon is below all sky unless given."""
    thumbnail = cv2.resize(pixels, THUMBNAIL, interpolation=cv2.INTER_AREA).astype(np.float32)
    grey = thumbnail @ np.array((0.299, 0.587, 0.114), dtype=np.float32)
    brightest = float(np.percentile(grey, 95))
    haze = thumbnail[grey >= np.percentile(grey, 90)].mean(axis=0)
    light = HAZE_TINT * haze + (1 - HAZE_TINT) * haze.mean()
    light *= min(1.0, MAX_LIGHT / max(float(light.max()), 1.0))
    seen = _estimate_horizon(grey / max(brightest, 1.0)) if horizon is None else horizon
    return Air((float(light[0]), float(light[1]), float(light[2])), seen, brightest)


def _estimate_horizon(levels: Array) -> float:
    """The assumed horizon, or the lower edge of the sky in the middle of the image if that is lower."""
    middle = levels[:, THUMBNAIL[0] // 5 : -THUMBNAIL[0] // 5]
    depth_of_sky = (_sky_above(_ramp(middle, SKY_DULL, SKY_BRIGHT)) > 0.5).mean(axis=0)
    return float(np.clip(np.percentile(depth_of_sky, 90), HORIZON, LOWEST_HORIZON))


def depths_of(case: Case) -> Iterator[Depth]:
    """Every depth map of `case`, those of its inputs first."""
    return _depths((*case.inputs.values(), *case.truth))


def _depths(values: tuple[Value, ...]) -> Iterator[Depth]:
    for value in values:
        if isinstance(value, Depth):
            yield value
        elif isinstance(value, Group):
            yield from _depths(value.values)


def transmission(pixels: Array, air: Air, *, extinction: float, depth: Depth | None, density: Array | float) -> Array:
    """The transmission (float32, 0 to 1) of each pixel, in air of `extinction` per metre."""
    height, width = pixels.shape[:2]
    coarse = np.exp(-extinction * assumed_depth(width, height, air.horizon) * density)
    if depth is None:
        assumed = np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR))
        return _with_distant_sky(assumed, pixels, air, clear=float(np.exp(-extinction * SKY_DEPTH)))
    thickness = density if isinstance(density, float) else cv2.resize(density, (width, height))
    measured = np.exp(-extinction * np.maximum(depth.metres, 0) * thickness).astype(np.float32)
    unknown = np.isnan(measured)
    if unknown.any():
        measured[unknown] = cv2.resize(coarse, (width, height))[unknown]
    return measured


@lru_cache(maxsize=32)
def assumed_depth(width: int, height: int, horizon: float) -> Array:
    """Metres to each coarse pixel, assuming a road between rows of houses or trees."""
    columns, rows = -(-width // COARSE), -(-height // COARSE)
    across = ((np.arange(columns) + 0.5) / columns - 0.5) / FOCAL_LENGTH  # tangents of the viewing angle
    down = ((np.arange(rows) + 0.5) / rows - horizon) * height / width / FOCAL_LENGTH
    upright: Array = np.where(down > 0, down / CAMERA_HEIGHT, -down / ROW_HEIGHT)[:, None].astype(np.float32)
    # Roads rise and fall, and objects hide the horizon: it is blurred, not a sharp line.
    sigma = max(HORIZON_BLUR * rows, 0.1)
    upright = np.asarray(cv2.GaussianBlur(upright, (1, 0), 0.1, sigmaY=sigma, borderType=cv2.BORDER_REPLICATE))
    # The nearest of road, rows and their tops; the sum of squares rounds the corners between them.
    near = np.sqrt((across[None] / ROW_DISTANCE) ** 2 + upright.reshape(rows, 1) ** 2 + MAX_DEPTH**-2)
    metres: Array = (1 / near).astype(np.float32)
    metres.flags.writeable = False
    return metres


def _with_distant_sky(through: Array, pixels: Array, air: Air, *, clear: float) -> Array:
    """`through`, with pixels as bright as the sky and connected to it at the sky's distance."""
    height, width = pixels.shape[:2]
    if air.brightest <= 0:
        return through
    grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    likely: Array = cv2.LUT(grey, _ramp(np.arange(256, dtype=np.float32) / air.brightest, SKY_DULL, SKY_BRIGHT))
    thumbnail = cv2.resize(likely, THUMBNAIL, interpolation=cv2.INTER_AREA)
    likely *= cv2.resize(_sky_above(thumbnail), (width, height), interpolation=cv2.INTER_LINEAR)
    # through + (clear − through) · likely, in place: allocating memory would take longer than the arithmetic.
    np.subtract(1, likely, out=likely)
    through -= clear
    through *= likely
    through += clear
    return through


def _sky_above(likely: Array) -> Array:
    """How much open sky each pixel has above it: a white van in front of a wall has none."""
    # Twigs and wires in front of the sky dim it but do not end it.
    share = np.minimum.accumulate(_ramp(likely, 0.15, 0.5), axis=0)
    return np.asarray(cv2.blur(share, (5, 1)))


def _ramp(given: Array, low: float, high: float) -> Array:
    """0 up to `low`, 1 from `high` on, linear in between."""
    return np.clip((given - low) / (high - low), 0, 1).astype(np.float32)


def blend_airlight(pixels: Array, through: Array, light: tuple[float, float, float]) -> Array:
    """Koschmieder's law: each pixel weighted by its transmission `through`, and the airlight by the rest."""
    height, width = pixels.shape[:2]
    air = cv2.merge([np.full((height, width), round(level), dtype=np.uint8) for level in light])
    return np.asarray(cv2.blendLinear(np.ascontiguousarray(pixels), air, through, 1 - through))


def density_noise(width: int, height: int, seed: int, *, strength: float) -> Array:
    """Smooth seeded noise for coarse pixels, within `strength` of 1: fog banks, wider than high."""
    columns, rows = -(-width // COARSE), -(-height // COARSE)
    rng = rng_for("patches", seed)
    across, down = 0.35 * TILE_SIZE / columns, 0.5 * TILE_SIZE / rows
    shift = rng.uniform(0, TILE_SIZE, 2)
    matrix = np.array([[across, 0, shift[0]], [0, down, shift[1]]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    noise = cv2.warpAffine(_noise_tile(), matrix, (columns, rows), flags=flags, borderMode=cv2.BORDER_WRAP)
    return np.asarray(1 + strength * noise, dtype=np.float32)


@lru_cache(maxsize=1)
def _noise_tile() -> Array:
    """Smooth noise from −1 to 1 that tiles seamlessly."""
    frequencies = np.hypot(np.fft.fftfreq(TILE_SIZE)[:, None], np.fft.fftfreq(TILE_SIZE)[None]) * TILE_SIZE
    # Amplitudes fall with the square of the frequency, as in clouds; no period is longer than a third of the tile.
    weights = np.where(frequencies >= 3, np.maximum(frequencies, 1) ** -2.0, 0)
    white = np.fft.fft2(rng_for("atmosphere").standard_normal((TILE_SIZE, TILE_SIZE)))
    noise = np.fft.ifft2(white * weights).real
    tile: Array = np.clip(noise / (2.2 * noise.std()), -1, 1).astype(np.float32)
    tile.flags.writeable = False
    return tile


@dataclass(frozen=True)
class ParticleLayer:
    """Particles at one distance; pairs are minimum and maximum."""

    count: float
    length: tuple[float, float]
    width: tuple[float, float]
    opacity: tuple[float, float]
    blur: float = 0.0  # in units
    fading: bool = False  # towards both ends
    coarse: int = 1  # drawn at 1/coarse of the size, which is enough for blurred particles


def draw_particles(
    width: int, height: int, layers: Iterable[ParticleLayer], *, slant: float, rng: np.random.Generator
) -> Array:
    """The opacity (uint8) of all `layers`, falling at `slant` degrees from the vertical and fanning out."""
    opacity: Array = np.zeros((height, width), dtype=np.uint8)
    for layer in layers:
        drawn = _draw_layer(max(width // layer.coarse, 1), max(height // layer.coarse, 1), layer, slant=slant, rng=rng)
        if layer.coarse > 1:
            drawn = cv2.resize(drawn, (width, height), interpolation=cv2.INTER_LINEAR)
        opacity = np.asarray(cv2.add(opacity, drawn)).reshape(height, width)
    return opacity


def _draw_layer(width: int, height: int, layer: ParticleLayer, *, slant: float, rng: np.random.Generator) -> Array:
    unit = math.sqrt(width * height) / UNITS
    canvas = np.zeros((height, width), dtype=np.uint8)
    each = max(1, round(layer.count / SHADES))
    for shade in range(SHADES):
        mix = (shade + 0.5) / SHADES
        thick = _interpolate(layer.width, mix) * unit
        # A line cannot be thinner than a pixel: it gets fainter instead.
        level = 255 * _interpolate(layer.opacity, 1 - mix) * math.sqrt(min(thick, 1.0))
        lines = _random_lines(width, height, each, _interpolate(layer.length, mix) * unit, slant=slant, rng=rng)
        if layer.fading:
            _draw_lines(canvas, lines, level * 0.5, thick)
            middle = lines.mean(axis=1, keepdims=True)
            lines = middle + 0.55 * (lines - middle)
        _draw_lines(canvas, lines, level, thick)
    sigma = layer.blur * unit
    return np.asarray(cv2.GaussianBlur(canvas, (0, 0), sigma)) if sigma > 0.3 else canvas


def _draw_lines(canvas: Array, lines: Array, level: float, thick: float) -> None:
    fixed = np.rint(lines * (1 << FRACTION_BITS)).astype(np.int32)
    cv2.polylines(canvas, fixed, False, round(level), max(1, round(thick)), cv2.LINE_AA, FRACTION_BITS)


def _interpolate(span: tuple[float, float], mix: float) -> float:
    return span[0] + (span[1] - span[0]) * mix


def _random_lines(width: int, height: int, count: int, length: float, *, slant: float, rng: np.random.Generator) -> Array:
    """`count` lines of about `length` pixels, N×2×2: two points each."""
    start = rng.uniform((-0.05 * width, -0.1 * height), (1.05 * width, 1.02 * height), (count, 2))
    # From a moving camera, falling particles fan out from the direction of travel.
    fan = 14 * (start[:, 0] / width - 0.5)
    angle = np.radians(slant + fan + rng.normal(0, 2.0, count))
    direction = np.column_stack([np.sin(angle), np.cos(angle)])
    long = length * rng.uniform(0.6, 1.4, (count, 1))
    return np.stack([start, start + direction * long], axis=1)
