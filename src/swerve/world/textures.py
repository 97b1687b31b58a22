"""Noise textures that tile seamlessly, sampled at many points at once."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from swerve.core.seeding import rng_for
from swerve.core.values import Array

SIZE = 1024
_ROW = 512  # points are sampled as an image of this width, since OpenCV refuses sides of 32767 and more


@cache
def tile(name: str, slope: float = 1.0) -> Array:
    """A periodic field of mean 0 and standard deviation 1; a steeper `slope` has larger structures."""
    white = rng_for(0, "texture", name, 0).standard_normal((SIZE, SIZE)).astype(np.float32)
    frequency = np.hypot(np.fft.fftfreq(SIZE)[:, None], np.fft.rfftfreq(SIZE)[None]) * SIZE
    frequency[0, 0] = np.inf  # no mean
    field = np.fft.irfft2(np.fft.rfft2(white) / frequency**slope, s=(SIZE, SIZE))
    return np.ascontiguousarray(field / field.std(), dtype=np.float32)


def look_up(field: Array, u: Array, v: Array, metres: float) -> Array:
    """`field` at (u, v), one period every `metres`."""
    return sample(field, _wrapped(u, metres), _wrapped(v, metres), cv2.BORDER_WRAP)


def _wrapped(place: Array, metres: float) -> Array:
    """The position in a field that repeats every `metres`."""
    turns = place / np.float32(metres)
    return (turns - np.floor(turns)) * np.float32(SIZE)  # several times faster than a remainder


def sample(field: Array, column: Array, row: Array, border: int = cv2.BORDER_REPLICATE) -> Array:
    """`field` interpolated at any number of positions, with all its channels."""
    count = len(column)
    if not count:
        return np.empty((0, *field.shape[2:]), field.dtype)
    places = np.zeros((2, count + -count % _ROW), np.float32)
    places[:, :count] = column, row
    columns, rows = places.reshape(2, -1, _ROW)
    found = cv2.remap(field, columns, rows, cv2.INTER_LINEAR, borderMode=border)
    return found.reshape(-1, *field.shape[2:])[:count]


def coverage(place: Array, low: float | Array, high: float | Array, width: Array) -> Array:
    """The share of a window of `width` around `place` that lies between `low` and `high`: an anti-aliased line."""
    return np.clip((np.minimum(high, place + width / 2) - np.maximum(low, place - width / 2)) / width, 0, 1)


def hashed(*parts: Array) -> Array:
    """A deterministic pseudo-random number from 0 to 1 for each row of whole numbers."""
    mixed = np.zeros(parts[0].shape, np.uint32)
    for part in parts:
        mixed = (mixed ^ part.astype(np.int64).astype(np.uint32)) * np.uint32(0x9E3779B1)
        mixed ^= mixed >> np.uint32(15)
        mixed *= np.uint32(0x85EBCA77)
        mixed ^= mixed >> np.uint32(13)
    return (mixed >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24)
