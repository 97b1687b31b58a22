"""Cars, pedestrians and cyclists made of simple shapes that LiDAR beams can intersect.

An object has its own frame: x ahead, y left, z up from the ground below its middle, in metres.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np

from swerve.core.values import Array

Triple = tuple[float, float, float]


class Shape(Protocol):
    """A closed surface that beams can intersect."""

    def bounds(self) -> tuple[Array, Array]:
        """The least and the greatest x, y and z."""

    def intersect(self, eye: Array, directions: Array) -> Array:
        """Metres from `eye`, outside the shape, along each unit vector of `directions` (n x 3) to it, or infinity."""


@dataclass(frozen=True)
class Ellipsoid:
    """An ellipsoid along the axes."""

    centre: Triple
    radii: Triple

    def bounds(self) -> tuple[Array, Array]:
        return np.subtract(self.centre, self.radii), np.add(self.centre, self.radii)

    def intersect(self, eye: Array, directions: Array) -> Array:
        start, direction = (eye - self.centre) / self.radii, directions / self.radii
        a, b, c = (direction * direction).sum(axis=1), direction @ start, start @ start - 1
        inner = b * b - a * c
        near = -b - np.sqrt(np.maximum(inner, 0))
        return np.where((inner >= 0) & (near > 0), near / a, np.inf)


@dataclass(frozen=True)
class Block:
    """A block between two horizontal rectangles, both symmetric about the x axis."""

    floor: Triple  # least x, greatest x, half the width
    top: Triple
    heights: tuple[float, float]

    def bounds(self) -> tuple[Array, Array]:
        wide = max(self.floor[2], self.top[2])
        low, high = self.heights
        return (
            np.array([min(self.floor[0], self.top[0]), -wide, low]),
            np.array([max(self.floor[1], self.top[1]), wide, high]),
        )

    def intersect(self, eye: Array, directions: Array) -> Array:
        """A beam is inside between the last plane that it enters and the first that it leaves."""
        normals, offsets = self._planes()
        towards, gap = directions @ normals.T, offsets - normals @ eye
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at = gap / towards
        enters = np.where(towards < 0, at, -np.inf).max(axis=1)
        leaves = np.where(towards > 0, at, np.inf).min(axis=1)
        beside = ((towards == 0) & (gap < 0)).any(axis=1)
        return np.where((enters <= leaves) & (enters > 0) & ~beside, enters, np.inf)

    def _planes(self) -> tuple[Array, Array]:
        """Outward normals n and offsets d of the six sides: inside is n·p ≤ d."""
        (back, front, wide), (top_back, top_front, top_wide), (low, high) = self.floor, self.top, self.heights
        tall = high - low
        normals = np.array(
            [
                *((0, 0, -1), (0, 0, 1)),
                *((tall, 0, front - top_front), (-tall, 0, top_back - back)),
                *((0, tall, wide - top_wide), (0, -tall, wide - top_wide)),
            ]
        )
        on_each = np.array([(0, 0, low), (0, 0, high), (front, 0, low), (back, 0, low), (0, wide, low), (0, -wide, low)])
        return normals, (normals * on_each).sum(axis=1)


@dataclass(frozen=True)
class SolidPart:
    """A shape and the intensity of its returns."""

    shape: Shape
    reflectivity: float


@dataclass(frozen=True)
class Object:
    """An object made of several parts."""

    kind: str
    parts: tuple[SolidPart, ...]

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The least and the greatest x, y and z of all parts."""
        low, high = zip(*(part.shape.bounds() for part in self.parts), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    def intersect(self, eye: Array, directions: Array) -> tuple[Array, Array]:
        """Metres along each direction to the nearest part, or infinity, and that part's reflectivity."""
        metres = np.stack([part.shape.intersect(eye, directions) for part in self.parts])
        nearest = metres.argmin(axis=0)
        return metres[nearest, np.arange(len(directions))], np.array([part.reflectivity for part in self.parts])[nearest]


def car(rng: np.random.Generator) -> Object:
    """A car: a body, a glass cabin and four wheels."""
    long, wide, tall, paint = rng.uniform((3.9, 1.7, 1.4, 0.15), (4.8, 1.9, 1.6, 0.6))
    end, side, waist = long / 2, wide / 2, 0.6 * tall
    body = Block((-end, end, side), (-0.96 * end, 0.94 * end, 0.96 * side), (0.22, waist))
    cabin = Block((-0.84 * end, 0.36 * end, 0.92 * side), (-0.6 * end, 0.06 * end, 0.72 * side), (waist, tall))
    wheels = (
        Ellipsoid((x, y, 0.32), (0.32, 0.11, 0.32)) for x in (-0.6 * end, 0.6 * end) for y in (0.11 - side, side - 0.11)
    )
    return Object("car", (SolidPart(body, paint), SolidPart(cabin, 0.1), *(SolidPart(wheel, 0.05) for wheel in wheels)))


def pedestrian(rng: np.random.Generator) -> Object:
    """A pedestrian in mid-stride."""
    tall, stride, cloth = rng.uniform((1.55, 0.05, 0.15), (1.9, 0.22, 0.5))
    legs = [Ellipsoid((side * stride, side * 0.1, 0.25 * tall), (0.11, 0.09, 0.25 * tall)) for side in (-1, 1)]
    arms = [Ellipsoid((-side * stride, side * 0.25, 0.62 * tall), (0.07, 0.06, 0.19 * tall)) for side in (-1, 1)]
    trunk = Ellipsoid((0.0, 0.0, 0.65 * tall), (0.14, 0.2, 0.2 * tall))
    head = Ellipsoid((0.0, 0.0, 0.93 * tall), (0.1, 0.09, 0.07 * tall))
    return Object("pedestrian", (*(SolidPart(limb, cloth) for limb in (*legs, *arms, trunk)), SolidPart(head, 0.3)))


def cyclist(rng: np.random.Generator) -> Object:
    """A rider on a bicycle."""
    tall, cloth = rng.uniform((1.65, 0.15), (1.85, 0.5))
    wheels = [Ellipsoid((x, 0.0, 0.34), (0.34, 0.03, 0.34)) for x in (-0.53, 0.53)]
    frame = Block((-0.5, 0.5, 0.03), (-0.3, 0.45, 0.03), (0.34, 0.9))
    legs = [Ellipsoid((-0.05 + 0.1 * side, side * 0.12, 0.68), (0.15, 0.09, 0.4)) for side in (-1, 1)]
    arms = [Ellipsoid((0.25, side * 0.2, 0.68 * tall), (0.24, 0.06, 0.14)) for side in (-1, 1)]
    trunk = Ellipsoid((-0.05, 0.0, 0.7 * tall), (0.24, 0.2, 0.2 * tall))
    head = Ellipsoid((0.12, 0.0, 0.93 * tall), (0.12, 0.09, 0.07 * tall))
    bicycle = (*(SolidPart(wheel, 0.1) for wheel in wheels), SolidPart(frame, 0.3))
    return Object("cyclist", (*bicycle, *(SolidPart(limb, cloth) for limb in (*legs, *arms, trunk)), SolidPart(head, 0.3)))


LIBRARY: Mapping[str, Callable[[np.random.Generator], Object]] = MappingProxyType(
    {"car": car, "pedestrian": pedestrian, "cyclist": cyclist}
)
