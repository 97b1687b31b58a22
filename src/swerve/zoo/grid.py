"""The bird's-eye grid of a sweep: features of each cell of a square around the sensor, as the network gets them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swerve.core.errors import InputError
from swerve.core.values import Array

CHANNELS = (
    *("max height", "mean height", "log count", "direction"),
    *("top intensity", "mean intensity", "distance", "non-empty"),
)
DIRECTION, DISTANCE, FILLED = (CHANNELS.index(name) for name in ("direction", "distance", "non-empty"))


@dataclass(frozen=True)
class Grid:
    """`cells` x `cells` squares over ±`reach` metres: rows along x, columns along y.

    Points farther out, or more than `tallest` metres above or below the sensor, are dropped.
    """

    # D-29

    cells: int = 320
    reach: float = 60.0
    tallest: float = 5.0

    def __post_init__(self) -> None:
        if self.cells < 1 or not 0 < self.reach < np.inf or not 0 < self.tallest < np.inf:
            raise InputError(
                f"a grid needs at least 1 cell and a reach and height above 0, "
                f"got {self.cells} cells over ±{self.reach} m, height {self.tallest} m"
            )

    @property
    def metres(self) -> float:
        """The side of a cell."""
        return 2 * self.reach / self.cells

    @cached_property
    def centres(self) -> Array:
        """x and y of the centre of every cell, 2 x rows x columns."""
        along = (np.arange(self.cells) + 0.5) * self.metres - self.reach
        return np.stack(np.meshgrid(along, along, indexing="ij"))

    def cell_of(self, xyz: Array) -> Array:
        """The number of each point's cell, row by row, or -1 for a point that is dropped or not finite."""
        x, y, z = np.asarray(xyz, np.float64)[:, :3].T
        kept = np.flatnonzero(
            (x >= -self.reach) & (x < self.reach) & (y >= -self.reach) & (y < self.reach) & (np.abs(z) <= self.tallest)
        )
        row, column = (((axis[kept] + self.reach) / self.metres).astype(np.int64) for axis in (x, y))
        numbers = np.full(len(x), -1, np.int64)
        numbers[kept] = np.minimum(row, self.cells - 1) * self.cells + np.minimum(column, self.cells - 1)
        return numbers

    def features(self, xyzi: Array) -> Array:
        """The eight `CHANNELS` of a sweep, channels x rows x columns; an empty cell has direction and distance only."""
        cell = self.cell_of(xyzi)
        kept = np.flatnonzero((cell >= 0) & np.isfinite(xyzi[:, 3]))
        return self._features(cell[kept], xyzi[kept, 2], xyzi[kept, 3])

    def _features(self, cell: Array, height: Array, intensity: Array) -> Array:
        size = self.cells**2
        count = np.bincount(cell, minlength=size)
        filled = count > 0
        top = np.full(size, -np.inf, np.float32)
        np.maximum.at(top, cell, height)
        highest = np.flatnonzero(height == top[cell])[::-1]  # of equally high points the first is written last and so wins
        found = np.zeros((len(CHANNELS), size), np.float32)
        found[0] = np.where(filled, top, 0)
        found[1] = np.bincount(cell, height, size) / np.maximum(count, 1)
        found[2] = np.log1p(count)
        found[4, cell[highest]] = intensity[highest]
        found[5] = np.bincount(cell, intensity, size) / np.maximum(count, 1)
        found[FILLED] = filled
        maps: Array = found.reshape(len(CHANNELS), self.cells, self.cells)
        maps[[DIRECTION, DISTANCE]] = self.place
        return maps

    @cached_property
    def place(self) -> Array:
        """Direction and distance of every cell, the two channels that do not depend on the sweep."""
        x, y = self.centres
        return np.stack([np.arctan2(y, x) / (2 * np.pi), np.hypot(x, y) / self.reach - 0.5]).astype(np.float32)
