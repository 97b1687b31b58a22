"""The ground that things stand on, as circles and rectangles."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from swerve.core.values import Array
from swerve.world.mesh import Mesh
from swerve.world.scene import Thing

HEADROOM = 2.2  # metres: what is higher stands in nobody's way


@lru_cache(maxsize=512)
def size_of(body: Mesh) -> tuple[float, float]:
    """Metres along x and y of a rectangle, centred on the origin, around a mesh."""
    low, high = body.bounds()
    return float(2 * max(-low[0], high[0])), float(2 * max(-low[1], high[1]))


def _foot(body: Mesh) -> tuple[Array, Array]:
    """The lowest and the highest x and y of what is below the headroom."""
    points = body.corners.reshape(-1, 3)
    low = points[points[:, 2] < HEADROOM]
    return low[:, :2].min(axis=0).astype(float), low[:, :2].max(axis=0).astype(float)


def circles(x: float, y: float, yaw: float, size: tuple[float, float]) -> Array:
    """Circles along the longer side of a rectangle that cover it: x, y and radius."""
    length, width = max(size), min(size)
    turn = yaw if size[0] >= size[1] else yaw + np.pi / 2
    count = int(np.ceil(length / width)) if width else 1
    middle = (np.arange(count) + 0.5) * (length / count) - length / 2
    radius = np.hypot(length / count, width) / 2
    return np.column_stack([x + np.cos(turn) * middle, y + np.sin(turn) * middle, np.full(count, radius)])


def _rectangle(thing: Thing) -> tuple[float, float, tuple[float, float]]:
    """Middle and size of the ground below a static thing."""
    low, high = _foot(thing.mesh)
    (x, y), cos, sin = (low + high) / 2, np.cos(thing.yaw), np.sin(thing.yaw)
    return thing.x + float(cos * x - sin * y), thing.y + float(sin * x + cos * y), tuple((high - low).tolist())


@dataclass(eq=False)
class TakenGround:
    """Circles of ground that are occupied: x, y and radius."""

    circles: Array = field(default_factory=lambda: np.zeros((0, 3)))

    def take(self, x: float, y: float, radius: float) -> None:
        """Mark a circle."""
        self.circles = np.vstack([self.circles, (x, y, radius)])

    def stand(self, thing: Thing) -> None:
        """Mark the ground below a static thing."""
        x, y, size = _rectangle(thing)
        self.circles = np.vstack([self.circles, circles(x, y, thing.yaw, size)])

    def has_room(self, thing: Thing, margin: float) -> bool:
        """Whether a static thing's rectangle is `margin` metres clear of everything."""
        x, y, size = _rectangle(thing)
        east, north = self.circles[:, 0] - x, self.circles[:, 1] - y
        cos, sin = np.cos(thing.yaw), np.sin(thing.yaw)
        along = np.maximum(np.abs(east * cos + north * sin) - size[0] / 2, 0)
        across = np.maximum(np.abs(north * cos - east * sin) - size[1] / 2, 0)
        return bool((np.hypot(along, across) > self.circles[:, 2] + margin).all())

    def is_free(self, x: float, y: float, radius: float) -> bool:
        """Whether a circle overlaps others by less than 15% of both radii."""
        away = np.hypot(self.circles[:, 0] - x, self.circles[:, 1] - y)
        return bool((away > 0.85 * (radius + self.circles[:, 2])).all())
