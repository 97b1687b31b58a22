"""The road: a curved centre line with lanes, side roads and crossings, and a map from any point to its road coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from swerve.core.values import Array
from swerve.world.textures import sample

BEHIND, AHEAD = 60.0, 330.0  # metres of road before and after the start of the drive
CELL = 1.5  # metres of the map; coordinates interpolated in it are exact to a centimetre
MARGIN = 70.0
FILLET = 7.0  # metres over which kerbs bend into side roads
LARGEST_TURN = 1.15  # radians away from the first heading, so that a road never crosses itself
SHORTEST_ARC = 12  # metres


@dataclass(frozen=True)
class Junction:
    """A side road at `s`, to the left, to the right or both; `angle` is between its left arm and the road."""

    s: float
    angle: float
    half: float
    left: bool
    right: bool
    zebra: bool = False  # crossings over its arms


@dataclass(frozen=True)
class CrossSection:
    """The cross-section: `lanes` each way of `lane` metres, a parking strip of `bay` metres, pavements of `walk` metres."""

    lanes: int = 1
    lane: float = 3.3
    bay: float = 0.0
    walk: float = 2.5
    yellow: bool = False  # the centre line
    solid: bool = False

    @property
    def half(self) -> float:
        """From the centre line to the kerb."""
        return self.lanes * self.lane + 0.45 + self.bay


@dataclass(frozen=True, eq=False)
class Road:
    """A road through the origin, where `s` is 0; `d` is metres left of its centre line."""

    curvature: Array  # per metre, from -BEHIND to AHEAD
    profile: CrossSection = CrossSection()
    junctions: tuple[Junction, ...] = ()
    crossings: tuple[float, ...] = ()
    stops: tuple[tuple[float, int], ...] = ()  # stop lines: `s`, and 1 on the lanes of our direction or -1 on the others
    side: int = -1  # traffic keeps to the right; +1 is a mirrored world

    @cached_property
    def _line(self) -> tuple[Array, Array]:
        """Points and headings of the centre line, one per metre."""
        bend = self.curvature
        turned = np.concatenate([[0.0], np.cumsum((bend[1:] + bend[:-1]) / 2)])
        heading = turned - turned[int(BEHIND)]
        middle = (heading[1:] + heading[:-1]) / 2
        points = np.concatenate([[[0.0, 0.0]], np.cumsum(np.stack([np.cos(middle), np.sin(middle)], 1), axis=0)])
        return points - points[int(BEHIND)], heading

    @cached_property
    def _marks(self) -> Array:
        """The metres of the centre line, counted from its beginning."""
        return np.arange(len(self._line[1]), dtype=float)

    @cached_property
    def _along(self) -> tuple[Array, Array, Array]:
        """x, y and heading, one per metre."""
        points, heading = self._line
        return points[:, 0].copy(), points[:, 1].copy(), heading

    def at(self, s: Array | float, d: Array | float = 0.0) -> tuple[Array, Array, Array]:
        """x, y and heading at `s` along and `d` left of the centre line."""
        place = np.asarray(s, float) + BEHIND
        x, y, yaw = (np.interp(place, self._marks, along) for along in self._along)
        return x - np.sin(yaw) * d, y + np.cos(yaw) * d, yaw

    def lane_middle(self, lane: int | None = None) -> float:
        """`d` of the middle of a `lane` of our direction, counted from the centre line; ours is the last, at the kerb."""
        return self.side * ((self.profile.lanes - 1 if lane is None else lane) + 0.5) * self.profile.lane

    def heading(self, s: Array) -> Array:
        """The heading of the centre line to the nearest metre, which is enough for the ground's texture."""
        table = self._line[1].astype(np.float32)
        return table[np.clip(s + np.float32(BEHIND), 0, len(table) - 1).astype(np.intp)]

    def locate(self, x: Array, y: Array) -> Array:
        """s, d and the distance beyond the edge of the carriageway (negative on it), n x 3."""
        low, grid = self._map
        column, row = (np.asarray(x, np.float32) - low[0]) / CELL, (np.asarray(y, np.float32) - low[1]) / CELL
        inside = (column > 0) & (row > 0) & (column < grid.shape[1] - 1) & (row < grid.shape[0] - 1)
        found = sample(grid, np.clip(column, 0, grid.shape[1] - 1), np.clip(row, 0, grid.shape[0] - 1))
        found[~inside, 2] = MARGIN
        return found

    @cached_property
    def _map(self) -> tuple[Array, Array]:
        from scipy.spatial import cKDTree  # takes 0.2 s to import

        points, heading = self._line
        low, high = points.min(axis=0) - MARGIN, points.max(axis=0) + MARGIN
        x, y = np.meshgrid(*(np.arange(a, b, CELL) for a, b in zip(low, high, strict=True)))
        cells = np.stack([x, y], -1).reshape(-1, 2)
        _, nearest = cKDTree(points).query(cells)
        ahead, yaw = cells - points[nearest], heading[nearest]
        along = ahead[:, 0] * np.cos(yaw) + ahead[:, 1] * np.sin(yaw)
        left = ahead[:, 1] * np.cos(yaw) - ahead[:, 0] * np.sin(yaw)
        edge = np.abs(left) - self.profile.half
        for junction in self.junctions:
            edge = _smooth_union(edge, self._side_edge(junction, cells[:, 0], cells[:, 1]))
        grid = np.stack([nearest - BEHIND + along, left, edge], -1).astype(np.float32)
        return low, grid.reshape(*x.shape, 3)

    def side_place(self, junction: Junction, x: Array, y: Array) -> tuple[Array, Array]:
        """Metres along the left arm of a side road, and to the left of it."""
        x0, y0, yaw = self.at(junction.s)
        turn = float(yaw) + junction.angle
        return (x - x0) * np.cos(turn) + (y - y0) * np.sin(turn), (y - y0) * np.cos(turn) - (x - x0) * np.sin(turn)

    def _side_edge(self, junction: Junction, x: Array, y: Array) -> Array:
        along, across = self.side_place(junction, x, y)
        beyond = np.full(len(along), np.inf)
        for arm, sign in ((junction.left, 1), (junction.right, -1)):
            if arm:
                beyond = np.minimum(beyond, np.maximum(np.abs(across) - junction.half, -sign * along))
        return beyond

    def near_junction(self, s: float, margin: float) -> bool:
        """Whether a side road opens within `margin` metres of its own edge."""
        return any(abs(s - junction.s) < junction.half + margin for junction in self.junctions)

    def mirrored(self) -> Road:
        """Left and right exchanged: traffic now keeps to the left."""
        flipped = tuple(replace(each, angle=np.pi - each.angle, left=each.right, right=each.left) for each in self.junctions)
        return replace(self, curvature=-self.curvature, junctions=flipped, side=-self.side)


def _smooth_union(one: Array, other: Array) -> Array:
    """The smaller distance, smoothed where both are similar: the fillet of a kerb."""
    alike = np.maximum(FILLET - np.abs(one - other), 0) / FILLET
    return np.minimum(one, other) - alike**2 * FILLET / 4


def winding(rng: np.random.Generator, tightest: float) -> Array:
    """Curvature per metre: straights and arcs of at least `tightest` metres radius, with smooth transitions.

    An arc ends where the road would turn too far away from its first heading.
    """
    count = int(BEHIND + AHEAD) + 1
    from scipy.ndimage import gaussian_filter1d  # takes 0.2 s to import

    bend = np.zeros(count)
    place, heading = 0, 0.0
    while place < count:
        length = int(rng.uniform(25, 80))
        sharp = 0.1 + 0.9 * rng.random() ** 2  # most bends are gentle
        kappa = float(rng.choice([-1.0, 1.0]) * sharp / tightest) if rng.random() < 0.78 else 0.0
        if abs(heading + kappa * SHORTEST_ARC) > LARGEST_TURN:
            kappa = -kappa
        if kappa:
            length = max(SHORTEST_ARC, min(length, int((LARGEST_TURN - np.sign(kappa) * heading) / abs(kappa))))
        bend[place : place + length] = kappa
        heading += kappa * length
        place += length
    return gaussian_filter1d(bend, 5.0, mode="nearest")
