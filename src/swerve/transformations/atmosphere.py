"""The air between the camera and what it sees: its light, how far one sees through it, and where nothing measured that.

All weather is one formula, Koschmieder's: I' = I·t + A·(1 − t), with t the share of light that comes through and A the
light of the air itself. Fog makes t fall with distance; a raindrop or a flake is a place where it falls by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Depth, Group, Value

# The contrast of a black object against the sky has fallen to 2% at the visibility: 3.912 = −ln 0.02 (Koschmieder).
KOSCHMIEDER = 3.912

# Where the case has no depth: a road seen by a camera of a common view (60° across), between rows of houses or trees.
FOCAL = 0.87  # of the width
CAMERA = 1.4  # m above the road
ASIDE, ABOVE = 12.0, 25.0  # m to what lines the road, and of its height
HORIZON, LOWEST_HORIZON, SMEAR = 0.55, 0.92, 0.07  # of the height
FARTHEST, SKY = 180.0, 500.0  # m
COARSE = 8  # pixels of the image to one of what varies slowly: distance, patches, veils
GLANCE = (64, 36)  # pixels: enough to see the light and the sky

TILE = 256  # pixels of the noise every patch of fog and every gust is read from
LIGHTEST = 240.0  # fog in full sun is no sheet of paper
HAZE_TINT = 0.35  # the share of the sky's colour that fog keeps: it scatters all colours alike
SKY_DULL, SKY_BRIGHT = 0.62, 0.82  # of the brightest: from where, and up to where, a pixel may be sky


@dataclass(frozen=True)
class Air:
    """What the air of a scene looks like: its light (RGB), the horizon (of the height), the grey level of its brightest."""

    light: tuple[float, float, float]
    horizon: float
    brightest: float


def air_of(pixels: Array, *, horizon: float | None = None) -> Air:
    """The air of an image: lit as its brightest tenth, the horizon below all sky unless it is given."""
    glance = cv2.resize(pixels, GLANCE, interpolation=cv2.INTER_AREA).astype(np.float32)
    grey = glance @ np.array((0.299, 0.587, 0.114), dtype=np.float32)
    brightest = float(np.percentile(grey, 95))
    haze = glance[grey >= np.percentile(grey, 90)].mean(axis=0)
    light = HAZE_TINT * haze + (1 - HAZE_TINT) * haze.mean()
    light *= min(1.0, LIGHTEST / max(float(light.max()), 1.0))
    seen = _seen_horizon(grey / max(brightest, 1.0)) if horizon is None else horizon
    return Air((float(light[0]), float(light[1]), float(light[2])), seen, brightest)


def _seen_horizon(levels: Array) -> float:
    """The horizon cannot lie above the sky: where sky is seen lower than usual, amid the image, it lies there."""
    middle = levels[:, GLANCE[0] // 5 : -GLANCE[0] // 5]
    depth_of_sky = (_open_above(_ramp(middle, SKY_DULL, SKY_BRIGHT)) > 0.5).mean(axis=0)
    return float(np.clip(np.percentile(depth_of_sky, 90), HORIZON, LOWEST_HORIZON))


def depths_of(case: Case) -> Iterator[Depth]:
    """Every depth map of `case`, of its inputs first."""
    return _depths((*case.inputs.values(), *case.truth))


def _depths(values: tuple[Value, ...]) -> Iterator[Depth]:
    for value in values:
        if isinstance(value, Depth):
            yield value
        elif isinstance(value, Group):
            yield from _depths(value.values)


def transmission(pixels: Array, air: Air, *, extinction: float, depth: Depth | None, patches: Array | float) -> Array:
    """The share of light (float32, 0 to 1) that comes through to the camera, in air of `extinction` per metre."""
    height, width = pixels.shape[:2]
    coarse = np.exp(-extinction * assumed_depth(width, height, air.horizon) * patches)
    if depth is None:
        assumed = np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR))
        return _behind_is_sky(assumed, pixels, air, clear=float(np.exp(-extinction * SKY)))
    thickness = patches if isinstance(patches, float) else cv2.resize(patches, (width, height))
    measured = np.exp(-extinction * np.maximum(depth.metres, 0) * thickness).astype(np.float32)
    unknown = np.isnan(measured)
    if unknown.any():
        measured[unknown] = cv2.resize(coarse, (width, height))[unknown]
    return measured


@lru_cache(maxsize=32)
def assumed_depth(width: int, height: int, horizon: float) -> Array:
    """Metres to each coarse pixel of a road between rows of houses or trees."""
    columns, rows = -(-width // COARSE), -(-height // COARSE)
    across = ((np.arange(columns) + 0.5) / columns - 0.5) / FOCAL  # tangents of the viewing angle
    down = ((np.arange(rows) + 0.5) / rows - horizon) * height / width / FOCAL
    upright: Array = np.where(down > 0, down / CAMERA, -down / ABOVE)[:, None].astype(np.float32)
    # Roads rise and fall, and what stands on them hides the horizon: it is smeared rather than drawn with a ruler.
    sigma = max(SMEAR * rows, 0.1)
    upright = np.asarray(cv2.GaussianBlur(upright, (1, 0), 0.1, sigmaY=sigma, borderType=cv2.BORDER_REPLICATE))
    # The nearest of road, rows and tops; squares make the corners between them round.
    near = np.sqrt((across[None] / ASIDE) ** 2 + upright.reshape(rows, 1) ** 2 + FARTHEST**-2)
    metres: Array = (1 / near).astype(np.float32)
    metres.flags.writeable = False
    return metres


def _behind_is_sky(through: Array, pixels: Array, air: Air, *, clear: float) -> Array:
    """`through`, with what is as bright as the sky, and hangs together with it, as far away as the sky."""
    height, width = pixels.shape[:2]
    if air.brightest <= 0:
        return through
    grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    likely: Array = cv2.LUT(grey, _ramp(np.arange(256, dtype=np.float32) / air.brightest, SKY_DULL, SKY_BRIGHT))
    glance = cv2.resize(likely, GLANCE, interpolation=cv2.INTER_AREA)
    likely *= cv2.resize(_open_above(glance), (width, height), interpolation=cv2.INTER_LINEAR)
    # through + (clear − through) · likely, in place: megabytes of fresh memory cost more than the sums.
    np.subtract(1, likely, out=likely)
    through -= clear
    through *= likely
    through += clear
    return through


def _open_above(likely: Array) -> Array:
    """How far each pixel lies under open sky: a white van in front of a wall does not."""
    # Twigs and wires in front of the sky dim it, and do not end it.
    share = np.minimum.accumulate(_ramp(likely, 0.15, 0.5), axis=0)
    return np.asarray(cv2.blur(share, (5, 1)))


def _ramp(given: Array, low: float, high: float) -> Array:
    """0 up to `low`, 1 from `high` on, straight between."""
    return np.clip((given - low) / (high - low), 0, 1).astype(np.float32)


def veiled(pixels: Array, through: Array, light: tuple[float, float, float]) -> Array:
    """Koschmieder: each pixel as far as its light comes `through`, and the air's own light for the rest."""
    height, width = pixels.shape[:2]
    air = cv2.merge([np.full((height, width), round(level), dtype=np.uint8) for level in light])
    return np.asarray(cv2.blendLinear(np.ascontiguousarray(pixels), air, through, 1 - through))


def patches(width: int, height: int, seed: int, *, strength: float) -> Array:
    """Seeded smooth noise about 1, at most `strength` off, for coarse pixels: drifting banks, wider than high."""
    columns, rows = -(-width // COARSE), -(-height // COARSE)
    rng = rng_for("patches", seed)
    across, down = 0.35 * TILE / columns, 0.5 * TILE / rows
    shift = rng.uniform(0, TILE, 2)
    matrix = np.array([[across, 0, shift[0]], [0, down, shift[1]]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    noise = cv2.warpAffine(_tile(), matrix, (columns, rows), flags=flags, borderMode=cv2.BORDER_WRAP)
    return np.asarray(1 + strength * noise, dtype=np.float32)


@lru_cache(maxsize=1)
def _tile() -> Array:
    """Smooth noise from −1 to 1 that repeats seamlessly."""
    frequencies = np.hypot(np.fft.fftfreq(TILE)[:, None], np.fft.fftfreq(TILE)[None]) * TILE
    # Amplitudes fall with the square of the frequency, as in clouds, and none is slower than a third of the tile.
    weights = np.where(frequencies >= 3, np.maximum(frequencies, 1) ** -2.0, 0)
    white = np.fft.fft2(rng_for("atmosphere").standard_normal((TILE, TILE)))
    noise = np.fft.ifft2(white * weights).real
    tile: Array = np.clip(noise / (2.2 * noise.std()), -1, 1).astype(np.float32)
    tile.flags.writeable = False
    return tile
