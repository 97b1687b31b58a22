"""Paths of people along the pavement that meet neither each other nor anything that stands there."""

from __future__ import annotations

import numpy as np

from swerve.core.values import Array
from swerve.world.road import Road
from swerve.world.scene import Track

LASTING = 15.5  # seconds: longer than any drive
BODY = 0.4  # metres around a person's middle
APART = 0.95  # metres between the middles of two people


class Pavement:
    """The paths that are taken, and what stands on the pavement: circles of x, y and radius."""

    def __init__(self, road: Road, standing: Array) -> None:
        place = road.locate(standing[:, 0], standing[:, 1])
        self._standing = np.column_stack([place[:, :2], standing[:, 2]])
        self._paths: list[Track] = []

    def take(self, path: Track) -> bool:
        """Whether the path is free; it is then taken."""
        free = self._meets_nothing(path) and not any(_meet(path, other) for other in self._paths)
        if free:
            self._paths.append(path)
        return free

    def _meets_nothing(self, path: Track) -> bool:
        s, d, radius = self._standing.T
        first, last = sorted((path.s, path.s + path.speed * LASTING))
        room = radius + BODY
        return not ((np.abs(d - path.d) < room) & (s > first - room) & (s < last + room)).any()


def _meet(one: Track, other: Track) -> bool:
    """Whether two people come too close during the drive."""
    if abs(one.d - other.d) > APART:
        return False
    gap = one.s - other.s
    later = gap + (one.speed - other.speed) * LASTING
    return gap * later <= 0 or min(abs(gap), abs(later)) < APART
