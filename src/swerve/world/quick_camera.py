"""Pictures for driving in a closed loop: cheaper than frames of a source, without labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from swerve.core.values import Array
from swerve.world.camera import Camera
from swerve.world.conditions import Conditions
from swerve.world.driver import Pose
from swerve.world.gbuffer import cast
from swerve.world.mesh import Mesh, column, joined
from swerve.world.render import shade
from swerve.world.scene import Hits, Scene, Snapshot, Solid, Thing
from swerve.world.secondary_rays import SecondaryRays

FARTHEST = 100.0  # metres: vehicles and people farther away are not shown
ASIDE = 6.0  # metres beside the view from which a shadow may reach into it


def quick_picture(scene: Scene, pose: Pose, conditions: Conditions, camera: Camera) -> Array:
    """The picture of the camera's rendered rows at `pose`: RGB bytes, rows x width x 3.

    One ray per pixel, so outlines are jagged; two neighbours share a ray to the sun; moving objects are shown if they are
    near and ahead. With `Camera.cut`, the rows at the top, which networks cut off, are not rendered.
    """
    snapshot = quick_snapshot(scene, pose, camera)
    buffer = cast(snapshot, pose, camera, refined=False)
    return shade(buffer, conditions, SecondaryRays(lambda: snapshot)).pixels


def quick_snapshot(scene: Scene, pose: Pose, camera: Camera) -> Snapshot:
    """The scene at a pose's time with the moving objects that may be in the picture; no tree is built for them."""
    loose = [(number, thing) for number, thing in enumerate(scene.things, 1) if scene.is_loose(number)]
    placed = [(number, thing, thing.pose(scene.road, pose.time)) for number, thing in loose if thing.on_road(pose.time)]
    seen = [one for one in placed if _in_view(one[2], pose, camera)]
    if not seen:
        return _QuickSnapshot(scene, pose.time, (scene.static,), ())
    meshes = [thing.mesh.placed(x, y, yaw=yaw) for _, thing, (x, y, yaw) in seen]
    owner = np.repeat([number for number, _, _ in seen], [len(mesh) for mesh in meshes]).astype(np.int32)
    starts = np.cumsum([0, *map(len, meshes)])
    movers = tuple(_Mover.of(thing, spot, int(first)) for (_, thing, spot), first in zip(seen, starts, strict=False))
    return _QuickSnapshot(scene, pose.time, (scene.static, Solid(joined(meshes), owner, None)), movers)


def _in_view(spot: tuple[float, float, float], pose: Pose, camera: Camera) -> bool:
    """Whether an object at a spot may be in the picture."""
    east, north = spot[0] - pose.x, spot[1] - pose.y
    cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
    ahead, left = east * cos + north * sin, north * cos - east * sin
    return -ASIDE < ahead < FARTHEST and abs(left) < 0.5 / camera.focal * max(ahead, 0.0) + ASIDE


@dataclass(frozen=True, eq=False)
class _Mover:
    """A moving object with the tree of its model: rays are cast in its own frame."""

    solid: Solid
    spot: tuple[float, float, float]
    centre: Array
    reach: float  # metres from the centre to its farthest corner
    first: int  # of its triangles among those of all movers

    @classmethod
    def of(cls, thing: Thing, spot: tuple[float, float, float], first: int) -> _Mover:
        """A thing at a spot."""
        (middle, reach), (x, y, yaw) = _sphere(thing.mesh), spot
        cos, sin = math.cos(yaw), math.sin(yaw)
        centre = column(x + cos * middle[0] - sin * middle[1], y + sin * middle[0] + cos * middle[1], middle[2])
        return cls(thing.solid, spot, centre, reach, first)

    def candidates(self, origins: Array, directions: Array) -> Array:
        """The rays that pass its bounding sphere."""
        x, y, z = self.centre - origins
        along = x * directions[0] + y * directions[1] + z * directions[2]
        gap = x * x + y * y + z * z - along * along
        return np.flatnonzero((gap < self.reach**2) & (along > -self.reach))

    def rays(self, origins: Array, directions: Array, rows: Array) -> tuple[Array, Array]:
        """Some rays in its own frame."""
        x, y, yaw = self.spot
        cos, sin = np.float32(math.cos(yaw)), np.float32(math.sin(yaw))
        starts = (origins if origins.shape[1] == 1 else np.take(origins, rows, axis=1)) - column(x, y, 0.0)
        turned = [
            np.stack([part[0] * cos + part[1] * sin, part[1] * cos - part[0] * sin, part[2]])
            for part in (starts, np.take(directions, rows, axis=1))
        ]
        return turned[0], turned[1]


@lru_cache(maxsize=4096)
def _sphere(mesh: Mesh) -> tuple[Array, float]:
    """The middle of a mesh, and metres from there to its farthest corner at most."""
    low, high = mesh.bounds()
    return (low + high) / 2, float(np.linalg.norm(high - low)) / 2


@dataclass(frozen=True, eq=False)
class _QuickSnapshot(Snapshot):
    """A snapshot whose moving objects keep the trees of their models."""

    movers: tuple[_Mover, ...]

    def cast(self, origins: Array, directions: Array) -> Hits:
        """The first hit of each ray."""
        best = Snapshot(self.scene, self.time, self.solids[:1]).cast(origins, directions)
        count = len(self.solids[0].owner)
        for mover, rows in self._candidates(origins, directions):
            found = mover.solid.hits(*mover.rays(origins, directions, rows))
            nearer = np.flatnonzero((found.triangle >= 0) & (found.distance < best.distance[rows]))
            here = rows[nearer]
            best.distance[here], best.u[here], best.v[here] = found.distance[nearer], found.u[nearer], found.v[nearer]
            best.triangle[here] = found.triangle[nearer] + mover.first + count
        return best

    def blocked(self, origins: Array, directions: Array, within: float | None = None) -> Array:
        """Whether each ray hits anything; every second one is cast, and its neighbour shares the result."""
        asked = self._blocked(origins[:, ::2], directions[:, ::2], within)
        return np.repeat(asked, 2)[: directions.shape[1]]

    def _blocked(self, origins: Array, directions: Array, within: float | None) -> Array:
        blocked = self.solids[0].is_hit(origins, directions, within)
        for mover, rows in self._candidates(origins, directions):
            free = rows[~blocked[rows]]
            if len(free):
                blocked[free] = mover.solid.is_hit(*mover.rays(origins, directions, free), within)
        return blocked

    def _candidates(self, origins: Array, directions: Array) -> Iterator[tuple[_Mover, Array]]:
        for mover in self.movers:
            rows = mover.candidates(origins, directions)
            if len(rows):
                yield mover, rows
