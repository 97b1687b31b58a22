"""Drops and flakes in the air, in layers from far, small and many to near, large and out of focus.

A layer is opacity alone: what falls has the light of the air. Sizes are in units of 1/960 of the geometric mean of
width and height, so that a picture keeps its look at every size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np

from swerve.core.values import Array

UNITS = 960.0
SHIFT = 4  # bits of the fractions of a pixel that OpenCV draws with
SHADES = 6  # opacities per layer


@dataclass(frozen=True)
class ParticleLayer:
    """Particles of one distance; pairs are the least and the most."""

    count: float
    length: tuple[float, float]
    width: tuple[float, float]
    opacity: tuple[float, float]
    blur: float = 0.0  # units
    fading: bool = False  # towards both ends
    coarse: int = 1  # drawn at this fraction of the size: what is blurred needs no more


def falling(width: int, height: int, layers: Iterable[ParticleLayer], *, slant: float, rng: np.random.Generator) -> Array:
    """The opacity (uint8) of all `layers`, falling at `slant` degrees from the vertical and away from the middle."""
    opacity: Array = np.zeros((height, width), dtype=np.uint8)
    for layer in layers:
        drawn = _layer(max(width // layer.coarse, 1), max(height // layer.coarse, 1), layer, slant=slant, rng=rng)
        if layer.coarse > 1:
            drawn = cv2.resize(drawn, (width, height), interpolation=cv2.INTER_LINEAR)
        opacity = np.asarray(cv2.add(opacity, drawn)).reshape(height, width)
    return opacity


def _layer(width: int, height: int, layer: ParticleLayer, *, slant: float, rng: np.random.Generator) -> Array:
    unit = math.sqrt(width * height) / UNITS
    canvas = np.zeros((height, width), dtype=np.uint8)
    each = max(1, round(layer.count / SHADES))
    for shade in range(SHADES):
        mix = (shade + 0.5) / SHADES
        thick = _between(layer.width, mix) * unit
        # Below a pixel a line cannot get thinner: it gets fainter instead.
        level = 255 * _between(layer.opacity, 1 - mix) * math.sqrt(min(thick, 1.0))
        lines = _lines(width, height, each, _between(layer.length, mix) * unit, slant=slant, rng=rng)
        if layer.fading:
            _draw(canvas, lines, level * 0.5, thick)
            middle = lines.mean(axis=1, keepdims=True)
            lines = middle + 0.55 * (lines - middle)
        _draw(canvas, lines, level, thick)
    sigma = layer.blur * unit
    return np.asarray(cv2.GaussianBlur(canvas, (0, 0), sigma)) if sigma > 0.3 else canvas


def _draw(canvas: Array, lines: Array, level: float, thick: float) -> None:
    fixed = np.rint(lines * (1 << SHIFT)).astype(np.int32)
    cv2.polylines(canvas, fixed, False, round(level), max(1, round(thick)), cv2.LINE_AA, SHIFT)


def _between(span: tuple[float, float], mix: float) -> float:
    return span[0] + (span[1] - span[0]) * mix


def _lines(width: int, height: int, count: int, length: float, *, slant: float, rng: np.random.Generator) -> Array:
    """`count` lines of about `length` pixels, N×2×2: two points each."""
    start = rng.uniform((-0.05 * width, -0.1 * height), (1.05 * width, 1.02 * height), (count, 2))
    # A moving camera sees what falls fan out from where it is heading.
    fan = 14 * (start[:, 0] / width - 0.5)
    angle = np.radians(slant + fan + rng.normal(0, 2.0, count))
    way = np.column_stack([np.sin(angle), np.cos(angle)])
    long = length * rng.uniform(0.6, 1.4, (count, 1))
    return np.stack([start, start + way * long], axis=1)
