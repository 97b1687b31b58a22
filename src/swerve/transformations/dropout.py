"""LiDAR defects: missing beams, a missing sector, missing points, and noisy coordinates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from swerve.core.seeding import rng_for
from swerve.core.transformation import param
from swerve.core.values import Array, Boxes3D
from swerve.transformations.points import CloudChange, bearings, spans_overlap, wrap_angle

# Nominal elevations of an HDL-64E's beams in degrees, from the top down; the upper half is denser.
HDL_64E = (*np.linspace(2.0, -8.171875, 32).tolist(), *np.linspace(-8.828125, -24.8, 32).tolist())


@dataclass(frozen=True)
class DropPoints(CloudChange):
    """A random `share` of all points dropped; a larger share drops the same points and more."""

    share: float = param(0, 1, neutral=0, grid=(0.1, 0.3, 0.5), resolution=0.01)
    seed: int = 0

    def words(self) -> str:
        return f"{self.share:.0%} of the points dropped"

    def _change_points(self, xyzi: Array) -> Array:
        return xyzi[rng_for("drop points", self.seed).random(len(xyzi)) >= self.share]


@dataclass(frozen=True)
class Jitter(CloudChange):
    """Normal noise with a standard deviation of `sigma` metres on each coordinate."""

    sigma: float = param(0, 1, neutral=0, grid=(0.02, 0.05, 0.1), resolution=0.01, unit=" m")
    seed: int = 0

    def words(self) -> str:
        return f"points jittered by {self.sigma:g} m"

    def _change_points(self, xyzi: Array) -> Array:
        moved = xyzi.copy()
        moved[:, :3] += np.float32(self.sigma) * rng_for("jitter", self.seed).standard_normal((len(xyzi), 3), np.float32)
        return moved


@dataclass(frozen=True)
class DropSector(CloudChange):
    """All points dropped in a sector `width` degrees wide around `centre`, left positive from ahead.

    Boxes that reach into the sector are no longer required.
    """

    centre: float = param(-180, 180, neutral=0, resolution=1, unit="°", default=0.0)
    width: float = param(0, 360, neutral=0, grid=(10, 30, 90), resolution=1, unit="°", default=30.0)

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """The same boxes; those that reach into the sector get `care` False."""
        if self._is_neutral():
            return value
        middle, half = np.radians(self.centre), np.radians(self.width) / 2
        unseen = spans_overlap(*bearings(value.xyzlwhy), middle - half, middle + half)
        return dataclasses.replace(value, care=np.asarray(value.care) & ~unseen)

    def words(self) -> str:
        return f"no returns in {self.width:g}° around {self.centre:g}°"

    def _change_points(self, xyzi: Array) -> Array:
        off = wrap_angle(np.arctan2(xyzi[:, 1], xyzi[:, 0]) - np.float32(np.radians(self.centre)))
        return np.asarray(xyzi[~(np.abs(off) <= np.radians(self.width) / 2)])

    def _is_neutral(self) -> bool:
        return self.width == 0


@dataclass(frozen=True)
class DropBeams(CloudChange):
    """Some beams dead: a `share` of them at random, or those named, counted from 0 at the top.

    A sweep does not tell which beam saw a point: it is taken to be the one nearest in elevation, of `elevations` in degrees
    from the top down, or of an HDL-64E. Shrinking finds the fewest dead beams.
    """

    share: float = param(0, 1, neutral=0, grid=(0.25, 0.5, 0.75), resolution=0.01, default=0.0)
    seed: int = 0
    beams: tuple[int, ...] = field(default=(), kw_only=True)
    elevations: tuple[float, ...] = field(default=(), kw_only=True)
    counts: ClassVar[str] = "share"

    def __post_init__(self) -> None:
        super().__post_init__()
        angles = tuple(float(angle) for angle in self.elevations)
        if not all(upper > lower for upper, lower in itertools.pairwise(angles)):
            raise ValueError(f"elevations must fall, from the top beam down, got {self.elevations!r:.80}")
        object.__setattr__(self, "elevations", angles)
        beams, most = tuple(sorted(self.beams)), len(self._angles())
        if not all(isinstance(beam, int) and 0 <= beam < most for beam in beams) or len(set(beams)) < len(beams):
            raise ValueError(f"beams must be numbers from 0 to {most - 1}, each once, got {self.beams!r:.80}")
        if beams and self.share:
            raise ValueError("name the dead beams, or give their share, not both")
        object.__setattr__(self, "beams", beams)

    def parts(self) -> Sequence[int]:
        """The dead beams."""
        if self.beams:
            return self.beams
        most = len(self._angles())
        order = rng_for("drop beams", self.seed).permutation(most)
        return tuple(sorted(order[: round(self.share * most)].tolist()))

    def with_parts(self, parts: Sequence[int]) -> DropBeams:
        """These beams dead alone."""
        return dataclasses.replace(self, share=0.0, beams=tuple(parts))

    def words(self) -> str:
        """Such as "beams 3, 4 dead"."""
        if not self.beams:
            return f"{self.share:.0%} of the beams dead"
        listed = ", ".join(map(str, self.beams[:10]))
        more = f" and {len(self.beams) - 10} more" if len(self.beams) > 10 else ""
        return f"beam{'' if len(self.beams) == 1 else 's'} {listed}{more} dead"

    def _angles(self) -> tuple[float, ...]:
        return self.elevations or HDL_64E

    def _is_neutral(self) -> bool:
        return not self.parts()

    def _change_points(self, xyzi: Array) -> Array:
        dead = np.isin(beams_of(xyzi, self._angles()), self.parts())
        return xyzi[~(dead & np.isfinite(xyzi).all(axis=1))]


def beams_of(xyzi: Array, elevations: Sequence[float] = HDL_64E) -> Array:
    """The number of the beam, from the top, that is nearest in elevation to each point."""
    up = np.degrees(np.arctan2(xyzi[:, 2], np.hypot(xyzi[:, 0], xyzi[:, 1])))
    between = -(np.array(elevations[1:]) + np.array(elevations[:-1])) / 2
    return np.asarray(between.searchsorted(-up))
