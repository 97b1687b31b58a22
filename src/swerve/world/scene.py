"""A scene: a road, its ground and all static and moving things, into which rays can be cast at any time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from embreex import rtcore_scene
from embreex.mesh_construction import TriangleMesh

from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.world.ground import Floor, kerbs
from swerve.world.mesh import Material, Mesh, joined, mesh, row
from swerve.world.road import AHEAD, BEHIND, Road

LABELLED = ("car", "van", "bus", "truck", "cyclist", "pedestrian")
NEAR = 1e-3  # metres between a ray's start and its surface
FAR = 700.0
TREE_BYTES = 135  # of a triangle in an Embree tree, approximately


@dataclass(frozen=True)
class Track:
    """Motion along the road from `s`, `d` left of its middle, at `speed` metres per second; negative is oncoming."""

    s: float
    d: float
    speed: float


@dataclass(frozen=True, eq=False)
class Thing:
    """One object: its mesh, its initial pose and its motion. Kinds in `LABELLED` have boxes."""

    kind: str
    mesh: Mesh
    x: float
    y: float
    yaw: float
    track: Track | None = None

    @cached_property
    def solid(self) -> Solid:
        """Its mesh alone, at the origin."""
        return Solid.of([(self.mesh, 1)])

    def pose(self, road: Road, time: float) -> tuple[float, float, float]:
        """x, y and yaw, `time` seconds into the drive."""
        if self.track is None:
            return self.x, self.y, self.yaw
        x, y, heading = road.at(self.track.s + self.track.speed * time, self.track.d)
        return float(x), float(y), float(heading) + (np.pi if self.track.speed < 0 else 0.0)

    def on_road(self, time: float) -> bool:
        """Whether it is between the ends of the road; outside, it is not shown."""
        return self.track is None or -BEHIND < self.track.s + self.track.speed * time < AHEAD

    def mirrored(self) -> Thing:
        """The same object in a mirrored world."""
        track = replace(self.track, d=-self.track.d) if self.track else None
        return replace(self, mesh=self.mesh.mirrored(), y=-self.y, yaw=-self.yaw, track=track)


@dataclass(frozen=True, eq=False)
class Hits:
    """The first hit of each ray: metres, the triangle (-1: the sky) and the position in it."""

    distance: Array
    triangle: Array
    u: Array
    v: Array


@dataclass(frozen=True, eq=False)
class Site:
    """What of a scene decides its light and weather, without its geometry."""

    key: str
    azimuth: float  # of the sun
    side: int  # of the road on which traffic keeps
    urban: float
    lamps: Array
    shift: tuple[float, float]  # of the clouds


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything about a scene that does not depend on weather and time of day."""

    key: str
    road: Road
    floor: Floor
    things: tuple[Thing, ...]
    lamps: Array  # n x 3: positions of street lamps
    azimuth: float  # of the sun
    urban: float  # 0 fields, 1 a dense town
    start: float  # metres along the road at which our drive begins
    speed: float  # our speed in metres per second

    @property
    def site(self) -> Site:
        """What decides its light and weather."""
        return Site(self.key, self.azimuth, self.road.side, self.urban, self.lamps, self.floor.shift)

    @cached_property
    def static(self) -> Solid:
        """Everything that does not move."""
        return self.standing(lambda thing: thing.track is None)

    def standing(self, chosen: Callable[[Thing], bool]) -> Solid:
        """The ground and the chosen things, which do not move."""
        parts = [
            (mesh(_PLANE, (0.1, 0.1, 0.1), Material.GROUND), 0),
            (kerbs(self.road, self.floor), 0),
            (hills(self.key, self.road.side), 0),
        ]
        for number, thing in enumerate(self.things, 1):
            if chosen(thing):
                parts.append((thing.mesh.placed(thing.x, thing.y, yaw=thing.yaw), number))
        return Solid.of(parts)

    def is_loose(self, number: int) -> bool:
        """Whether a thing is not part of `static`: it moves."""
        return self.things[number - 1].track is not None

    def at(self, time: float) -> Snapshot:
        """The scene `time` seconds into the drive."""
        loose = []
        for number, thing in enumerate(self.things, 1):
            if self.is_loose(number) and thing.on_road(time):
                x, y, yaw = thing.pose(self.road, time)
                loose.append((thing.mesh.placed(x, y, yaw=yaw), number))
        return Snapshot(self, time, (self.static, Solid.of(loose)) if loose else (self.static,))

    def mirrored(self) -> Scene:
        """Left and right exchanged."""
        flip = row(1, -1, 1)
        return replace(
            self,
            road=self.road.mirrored(),
            things=tuple(thing.mirrored() for thing in self.things),
            lamps=self.lamps * flip,
            azimuth=-self.azimuth,
        )


@dataclass(frozen=True, eq=False)
class Solid:
    """A mesh with the number of the thing each triangle belongs to (0: none), and its Embree tree."""

    mesh: Mesh
    owner: Array
    tree: Any

    @classmethod
    def of(cls, parts: list[tuple[Mesh, int]]) -> Solid:
        """All parts as one solid."""
        whole = joined([part for part, _ in parts])
        owner = np.repeat([number for _, number in parts], [len(part) for part, _ in parts]).astype(np.int32)
        tree = rtcore_scene.EmbreeScene()
        TriangleMesh(tree, np.ascontiguousarray(whole.corners))
        solid = cls(whole, owner, tree)
        solid.is_hit(
            np.zeros((3, 1), np.float32), np.ones((3, 1), np.float32)
        )  # builds the tree now, before threads share it
        return solid

    def hits(self, origins: Array, directions: Array) -> Hits:
        """The first hit of each ray."""
        found = self.tree.run(*_for_embree(origins, directions), query="INTERSECT", output=True)
        return Hits(found["tfar"], found["primID"], found["u"], found["v"])

    def is_hit(self, origins: Array, directions: Array, within: float | None = None) -> Array:
        """Whether each ray hits it."""
        return self.blocker.is_hit(origins, directions, within)

    @property
    def blocker(self) -> Blocker:
        """Its tree alone."""
        return Blocker(self.tree, TREE_BYTES * len(self.owner))


@dataclass(frozen=True, eq=False)
class Blocker:
    """The tree of a solid without its mesh, with its size in bytes: all that shadows need."""

    tree: Any
    size: int

    def is_hit(self, origins: Array, directions: Array, within: float | None = None) -> Array:
        """Whether each ray hits it."""
        starts, ways = _for_embree(origins, directions)
        limits = None if within is None else np.full(len(ways), within, np.float32)
        return np.asarray(self.tree.run(starts, ways, dists=limits, query="OCCLUDED")) >= 0


def is_blocked(blockers: Sequence[Blocker], origins: Array, directions: Array, within: float | None = None) -> Array:
    """Whether each ray hits any of the blockers."""
    first, *others = blockers
    blocked = first.is_hit(origins, directions, within)
    for other in others:
        free = np.flatnonzero(~blocked)
        blocked[free] = other.is_hit(np.take(origins, free, axis=1), np.take(directions, free, axis=1), within)
    return blocked


def _for_embree(origins: Array, directions: Array) -> tuple[Array, Array]:
    """One row per ray, as Embree expects; a single origin may serve all."""
    starts = np.broadcast_to(origins, directions.shape)
    return np.ascontiguousarray(starts.T, np.float32), np.ascontiguousarray(directions.T, np.float32)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A scene at one moment, into which rays of a camera or a laser can be cast.

    Rays are given as rows x, y and z of their origins (or one origin for all) and of their unit directions.
    """

    scene: Scene
    time: float
    solids: tuple[Solid, ...]

    def of(self, trait: str, triangle: Array) -> Array:
        """The `corners`, `colour`, ... or `owner` (its thing's number, 0 for the ground) of the given triangles."""
        static, *moving = [solid.owner if trait == "owner" else getattr(solid.mesh, trait) for solid in self.solids]
        found = np.take(static, triangle, axis=0, mode="clip")
        for part in moving:
            rows = np.flatnonzero(triangle >= len(static))
            found[rows] = part[triangle[rows] - len(static)]
        return found

    def cast(self, origins: Array, directions: Array) -> Hits:
        """The first hit of each ray."""
        starts, ways = _for_embree(origins, directions)
        static, *moving = (solid.tree.run(starts, ways, query="INTERSECT", output=True) for solid in self.solids)
        best = Hits(static["tfar"], static["primID"], static["u"], static["v"])
        best.distance[best.triangle < 0] = np.inf
        for found in moving:
            nearer = np.flatnonzero((found["primID"] >= 0) & (found["tfar"] < best.distance))
            best.distance[nearer], best.u[nearer], best.v[nearer] = (found[part][nearer] for part in ("tfar", "u", "v"))
            best.triangle[nearer] = found["primID"][nearer] + len(self.solids[0].owner)
        return best

    def blocked(self, origins: Array, directions: Array, within: float | None = None) -> Array:
        """Whether each ray hits anything."""
        return is_blocked(self.blockers, origins, directions, within)

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """The trees of its solids: first what stands, then what moves, if there is any."""
        return tuple(solid.blocker for solid in self.solids)


_SPAN = 900.0
_PLANE = [
    [[-_SPAN, -_SPAN, 0], [_SPAN, -_SPAN, 0], [_SPAN, _SPAN, 0]],
    [[-_SPAN, -_SPAN, 0], [_SPAN, _SPAN, 0], [-_SPAN, _SPAN, 0]],
]


def hills(key: str, side: int = -1) -> Mesh:
    """A ring of distant hills, which hides the edge of the ground plane."""
    rng = rng_for(0, key, "hills", 0)
    turn = np.linspace(0, 2 * np.pi, 181)
    angle = -side * turn  # a mirrored world has mirrored hills
    waves = [(rng.uniform(3, 16) / (k**0.7), k, rng.uniform(0, 6.28)) for k in (2, 3, 5, 8, 13, 21)]
    tall = rng.uniform(0.5, 2.4)
    height = 6 + tall * np.maximum(sum(a * np.cos(k * turn + p) for a, k, p in waves) + 8, 0)
    height[-1] = height[0]
    rings = [(520.0, 0.0), (640.0, 0.75), (800.0, 1.0)]
    rows = [np.stack([r * np.cos(angle), r * np.sin(angle), height * share - (share == 0)], -1) for r, share in rings]
    quads = []
    for near, far in pairwise(rows):
        quads += [np.stack([near[:-1], far[1:], near[1:]], 1), np.stack([near[:-1], far[:-1], far[1:]], 1)]
    corners = np.concatenate(quads)
    return mesh(corners if side < 0 else corners[:, ::-1], (0.07, 0.1, 0.045), Material.HILL, smooth=True)
