"""LiDAR defects: missing beams, a missing sector, missing points, and noisy coordinates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from swerve.core.case import Case, Fact
from swerve.core.seeding import rng_for
from swerve.core.transformation import param
from swerve.core.values import Array, Boxes3D
from swerve.transformations.points import CloudChange, bearings, clouds_of, spans_overlap, wrap_angle

# Nominal elevations of an HDL-64E's beams in degrees, from the top down; the upper half is denser.
HDL_64E = (*np.linspace(2.0, -8.171875, 32).tolist(), *np.linspace(-8.828125, -24.8, 32).tolist())

BACKWARDS = 1.0  # degrees: the largest step back that does not count as almost a full turn
BINS = 20  # per degree, to find where rings begin
MIN_POINTS = 64  # of a sweep, for their order to be meaningful
MAX_JUMP = 0.75  # degrees of elevation between successive points: larger jumps, at the edges of objects, count as this
MAX_SPREAD = 3.0  # degrees between the quartiles of a ring's elevations, for the median ring
MAX_DISORDER = 0.1  # share of rings that may lie on the wrong side of the one before


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
    """All points of some beams dropped: of a random `share` of them, or of those listed, counted from 0 at the top.

    A sweep does not record the beam of a point. If its points are stored ring by ring, as KITTI stores them, the beam is
    found from their order. Otherwise it is the beam nearest in elevation, of `elevations` in degrees from the top down or
    by default of an HDL-64E. The fact `beams_by` records which. Shrinking finds the fewest dropped beams.
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
            raise ValueError(f"'elevations' must decrease, from the top beam down, got {self.elevations!r:.80}")
        object.__setattr__(self, "elevations", angles)
        beams, most = tuple(sorted(self.beams)), len(self._nominal())
        if not all(isinstance(beam, int) and 0 <= beam < most for beam in beams) or len(set(beams)) < len(beams):
            raise ValueError(f"'beams' must be distinct numbers from 0 to {most - 1}, got {self.beams!r:.80}")
        if beams and self.share:
            raise ValueError("give either 'beams', the beams to drop, or 'share', not both")
        object.__setattr__(self, "beams", beams)

    def parts(self) -> Sequence[int]:
        """The numbers of the dropped beams."""
        if self.beams:
            return self.beams
        most = len(self._nominal())
        order = rng_for("drop beams", self.seed).permutation(most)
        return tuple(sorted(order[: round(self.share * most)].tolist()))

    def with_parts(self, parts: Sequence[int]) -> DropBeams:
        """Only these beams dropped."""
        return dataclasses.replace(self, share=0.0, beams=tuple(parts))

    def words(self) -> str:
        """Such as "beams 3, 4 dropped"."""
        if not self.beams:
            return f"{self.share:.0%} of the beams dropped"
        listed = ", ".join(map(str, self.beams[:10]))
        more = f" and {len(self.beams) - 10} more" if len(self.beams) > 10 else ""
        return f"beam{'' if len(self.beams) == 1 else 's'} {listed}{more} dropped"

    def facts(self, source: Case) -> Mapping[str, Fact]:
        """`beams_by`: how the beams of the (first) sweep were found, "order" or "elevation"."""
        sweep = next(clouds_of(source), None)
        if sweep is None or self._is_neutral():
            return {}
        return {"beams_by": find_beams(sweep.xyzi, self._nominal())[1]}

    def _nominal(self) -> tuple[float, ...]:
        return self.elevations or HDL_64E

    def _is_neutral(self) -> bool:
        return not self.parts()

    def _change_points(self, xyzi: Array) -> Array:
        dropped = np.isin(find_beams(xyzi, self._nominal())[0], self.parts())
        return xyzi[~(dropped & np.isfinite(xyzi).all(axis=1))]


def find_beams(xyzi: Array, elevations: Sequence[float] = HDL_64E) -> tuple[Array, str]:
    """The beam of each point, counted from the top, and whether it was found by "order" or by "elevation".

    Beams sit some centimetres apart, so the elevation of a near point is not that of its beam: by elevation, a third of
    KITTI's points get a neighbouring beam. The order of points is used if they are stored ring by ring.
    """
    up = np.degrees(np.arctan2(xyzi[:, 2], np.hypot(xyzi[:, 0], xyzi[:, 1])))
    known = np.flatnonzero(np.isfinite(up))
    azimuth = np.degrees(np.arctan2(xyzi[known, 1], xyzi[known, 0]).astype(np.float64))
    for turning in (azimuth, -azimuth):
        rings = _rings(turning, up[known], len(elevations))
        numbers = None if rings is None else _number_rings(rings, up[known], np.array(elevations))
        if rings is not None and numbers is not None:
            beams = np.zeros(len(xyzi), np.intp)
            beams[known] = numbers[rings]
            return beams, "order"
    between = -(np.array(elevations[1:]) + np.array(elevations[:-1])) / 2
    return np.asarray(between.searchsorted(-up)), "elevation"


def _rings(azimuth: Array, up: Array, most: int) -> Array | None:
    """The ring of each point, from 0, if the azimuths in degrees make at most so many left turns, one after the other.

    All rings begin at the same azimuth. It lies between those of the last and the first point, where the elevation changes
    most from one turn to the next.
    """
    steps = (np.diff(azimuth) + BACKWARDS) % 360 - BACKWARDS
    if len(azimuth) < MIN_POINTS or steps.sum() > 360 * most:
        return None
    bins = np.floor(np.cumsum(np.concatenate([[azimuth[0] + 720], steps])) * BINS).astype(np.intp)
    jump, turn = np.clip(np.diff(up), -MAX_JUMP, MAX_JUMP), 360 * BINS
    change = [np.bincount(ends + 1, jump, minlength=bins.max() + 2) for ends in (bins[:-1], bins[1:])]
    crossing = np.cumsum(change[0] - change[1])  # the change of elevation where each bin begins
    whole = np.abs(np.concatenate([crossing, np.zeros(-len(crossing) % turn)]).reshape(-1, turn).sum(axis=0))
    arc = (bins[-1] + 1 + np.arange((bins[0] - bins[-1] - 1) % turn + 1)) % turn
    turns = (bins - arc[whole[arc].argmax()]) // turn
    turns -= turns.min()
    return np.asarray((np.cumsum(np.bincount(turns) > 0) - 1)[turns])


def _number_rings(rings: Array, up: Array, elevations: Array) -> Array | None:
    """The beam of each ring, if rings are flat and follow each other in elevation; some beams may have no ring."""
    order = np.argsort(rings.astype(np.int16), kind="stable")
    spread = [np.percentile(ring, (25, 50, 75)) for ring in np.split(up[order], np.flatnonzero(np.diff(rings[order])) + 1)]
    low, middle, high = np.array(spread).T
    falling = np.diff(middle) < 0
    upwards = 2 * falling.sum() < len(falling)
    disorder = (falling == upwards).sum()
    if len(middle) > len(elevations) or np.median(high - low) > MAX_SPREAD or disorder > MAX_DISORDER * len(falling):
        return None
    numbers = _assign(np.abs(middle[::-1, None] - elevations) if upwards else np.abs(middle[:, None] - elevations))
    return numbers[::-1] if upwards else numbers


def _assign(cost: Array) -> Array:
    """A column for each row, later rows in later columns, with the least total cost."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0] = 0.0
    for row in range(rows):  # the least cost of the first rows within the first columns
        total[row + 1, 1:] = np.minimum.accumulate(total[row, :-1] + cost[row])
    found, column = np.zeros(rows, np.intp), columns
    for row in range(rows, 0, -1):
        column = int(total[row, : column + 1].argmin())
        found[row - 1] = column - 1
        column -= 1
    return found
