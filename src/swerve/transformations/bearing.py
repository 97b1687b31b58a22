"""The directions in which a sensor sees boxes, seen from above."""

from __future__ import annotations

import numpy as np

from swerve.core.values import Array

TURN = 2 * np.pi


def wrapped(angles: Array) -> Array:
    """Radians from -π up to, but not including, π."""
    return np.asarray((angles + np.pi) % TURN - np.pi)


def bearings(xyzlwhy: Array) -> tuple[Array, Array]:
    """The least and the greatest direction of each box, left positive from ahead, the least first and never beyond 3π.

    A box around the sensor is seen all around.
    """
    x, y, _, length, width, _, yaw = xyzlwhy.T
    cos, sin = np.cos(yaw), np.sin(yaw)
    along, across = (np.outer(sides, half) for sides, half in (((1, -1, -1, 1), length / 2), ((1, 1, -1, -1), width / 2)))
    middle = np.arctan2(y, x)
    off = wrapped(np.arctan2(y + along * sin + across * cos, x + along * cos - across * sin) - middle)
    around = (np.abs(x * cos + y * sin) <= np.abs(length) / 2) & (np.abs(y * cos - x * sin) <= np.abs(width) / 2)
    return np.where(around, -np.pi, middle + off.min(axis=0)), np.where(around, np.pi, middle + off.max(axis=0))


def meet(least: Array, most: Array, low: float, high: float) -> Array:
    """Whether each span of directions shares one with the span from `low` to `high`, whatever turns lie between."""
    turns = np.ceil((low - most) / TURN)  # as few as bring its end to `low` or beyond
    return np.asarray(least + turns * TURN <= high)
