"""A turning laser on the roof: which way its beams go, and which of the camera's triangles each meets first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from swerve.core.errors import InputError
from swerve.core.values import Array, Calibration
from swerve.world.camera import Camera
from swerve.world.crowd import moving
from swerve.world.driver import Pose
from swerve.world.mesh import Material, Mesh, row
from swerve.world.scene import Scene, Solid

_MEAN = row(1 / 3, 1 / 3, 1 / 3)


@dataclass(frozen=True)
class LaserScanner:
    """A laser scanner like Velodyne's HDL-64E; points are metres from the sensor: x ahead, y left, z up, as KITTI has them.

    The upper half of the beams lies closer together than the lower one, as the maker builds it.
    """

    beams: int = 64
    columns: int = 1900  # directions of one turn
    top: float = 2.0  # degrees
    split: float = -8.5  # degrees, between the upper and the lower half of the beams
    bottom: float = -24.8
    range: float = 120.0  # metres, for what shines back 80% of the light
    nearest: float = 0.9
    noise: float = 0.02  # metres
    lost: float = 0.04  # share of returns that are lost for no reason
    above: float = 1.73  # metres above the ground
    forward: float = 1.2  # metres ahead of the rear axle

    def __post_init__(self) -> None:
        if not (2 <= self.beams <= 256 and 8 <= self.columns <= 8192):
            raise InputError(f"a LiDAR has 2 to 256 beams and 8 to 8192 columns, got {self.beams} and {self.columns}")

    @cached_property
    def elevations(self) -> Array:
        """Degrees of each beam above the horizon, from the top down."""
        upper = self.beams // 2
        step = (self.top - self.split) / upper
        return np.concatenate(
            [self.top - step * np.arange(upper), np.linspace(self.split - step, self.bottom, self.beams - upper)]
        )

    def eye(self, pose: Pose) -> Array:
        """Where the sensor is."""
        return np.array([pose.x + np.cos(pose.yaw) * self.forward, pose.y + np.sin(pose.yaw) * self.forward, self.above])

    def calibration(self, camera: Camera) -> Calibration:
        """The camera's matrix, and how points come to it (x right, y down, z ahead), by KITTI's name."""
        back, down = self.forward - camera.forward, camera.above - self.above
        to_camera = np.array([[0.0, -1, 0, 0], [0, 0, -1, down], [1, 0, 0, back]])
        return Calibration({"camera": camera.matrix, "Tr_velo_to_cam": to_camera}, (camera.width, camera.height))


@lru_cache(maxsize=8)
def directions(lidar: LaserScanner) -> Array:
    """Unit directions in the sensor's frame as rows x, y and z, beam after beam, turning left from ahead."""
    up = np.radians(lidar.elevations)[:, None]
    turn = np.arange(lidar.columns) * (2 * np.pi / lidar.columns)
    level = np.broadcast_to(np.sin(up), (lidar.beams, lidar.columns))
    return np.stack([part.ravel() for part in (np.cos(up) * np.cos(turn), np.cos(up) * np.sin(turn), level)]).astype(
        np.float32
    )


def turned(rays: Array, angle: float) -> Array:
    """Directions turned left."""
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    return np.stack([rays[0] * cos - rays[1] * sin, rays[0] * sin + rays[1] * cos, rays[2]])


@dataclass(frozen=True, eq=False)
class Echoes:
    """What each ray met first within reach: metres, the cosine between ray and surface, and what the surface is."""

    distance: Array
    facing: Array
    bright: Array  # its colour's mean, of what is not the ground
    material: Array
    thing: Array  # its number, 0 for what is none, -1 where nothing was met

    @classmethod
    def none(cls, count: int, reach: float) -> Echoes:
        """Before anything was met; what lies beyond `reach` never is."""
        facing, bright = np.zeros((2, count), np.float32)
        met = np.zeros(count, np.uint8), np.full(count, -1, np.int32)
        return cls(np.full(count, reach, np.float32), facing, bright, *met)

    def put(self, rays: Array, solid: Solid, hits: dict[str, Array], ways: Array, number: int | None = None) -> None:
        """Note what `rays` met in a solid, where nothing nearer is known."""
        met = np.flatnonzero((hits["primID"] >= 0) & (hits["tfar"] < self.distance[rays]))
        ray, triangle = rays[met], hits["primID"][met]
        material = solid.mesh.material[triangle]
        self.distance[ray] = hits["tfar"][met]
        self.material[ray] = material
        self.thing[ray] = solid.owner[triangle] if number is None else number
        self.facing[ray] = np.abs(ways[met, 2])  # the ground, which most of them met, is flat
        above = np.flatnonzero(material != Material.GROUND)
        ray, triangle = ray[above], triangle[above]
        self.facing[ray] = _facing(solid.mesh.normals[triangle, 0], ways[met[above]])
        self.bright[ray] = solid.mesh.colour[triangle] @ _MEAN


def echoes(scene: Scene, pose: Pose, lidar: LaserScanner, start: float = 0.0) -> Echoes:
    """What every ray of a turn meets that begins `start` radians left of ahead.

    All that stands still is met at once, then each thing that moves, in its own frame and within its own outline: its tree
    is built once and kept. A tree of all that moves, built for every frame, would take longer than casting.
    """
    count = lidar.beams * lidar.columns
    found = Echoes.none(count, lidar.range)
    eye = lidar.eye(pose)
    ways = np.ascontiguousarray(turned(directions(lidar), start + pose.yaw).T)
    found.put(np.arange(count), scene.still, _cast(scene.still, eye, ways), ways)
    for number, thing, place in moving(scene, pose.time):
        away = _seen_from(place, eye)
        rays = _window(thing.mesh, away, lidar, _heading(place, eye) - pose.yaw - start)
        if len(rays):
            solid = _solid(thing.mesh)
            own = np.ascontiguousarray(turned(ways[rays].T, -place[2]).T)
            found.put(rays, solid, _cast(solid, away, own), own, number)
    return found


def _cast(solid: Solid, eye: Array, ways: Array) -> dict[str, Array]:
    starts = np.broadcast_to(eye.astype(np.float32), ways.shape)
    hits: dict[str, Array] = solid.tree.run(np.ascontiguousarray(starts), ways, query="INTERSECT", output=True)
    return hits


def _seen_from(place: tuple[float, float, float], eye: Array) -> Array:
    """The sensor in the frame of a thing that stands at `place`."""
    x, y, yaw = place
    east, north = eye[0] - x, eye[1] - y
    return np.array([east * np.cos(yaw) + north * np.sin(yaw), north * np.cos(yaw) - east * np.sin(yaw), eye[2]])


def _heading(place: tuple[float, float, float], eye: Array) -> float:
    return float(np.arctan2(place[1] - eye[1], place[0] - eye[0]))


def _window(mesh: Mesh, seen: Array, lidar: LaserScanner, heading: float) -> Array:
    """The rays that may meet a mesh: those within the circle around its foot, up to its top."""
    radius, top = _extent(mesh)
    away = float(np.hypot(seen[0], seen[1]))
    if away - radius > lidar.range:
        return np.zeros(0, np.intp)
    half = np.arcsin(radius / away) if away > radius else np.pi
    step = 2 * np.pi / lidar.columns
    columns = np.arange(np.floor((heading - half) / step), np.ceil((heading + half) / step) + 1)[: lidar.columns]
    up = np.tan(np.radians(lidar.elevations))
    near, far = max(away - radius, 0.01), away + radius
    highest = (top - seen[2]) / (far if top < seen[2] else near)
    beams = np.flatnonzero((up <= highest) & (up * far >= -seen[2] * far / near))
    rays: Array = (beams[:, None] * lidar.columns + columns.astype(np.intp) % lidar.columns).ravel()
    return rays


@lru_cache(maxsize=4096)
def _extent(mesh: Mesh) -> tuple[float, float]:
    """Metres that a mesh reaches from the middle of its foot, and up."""
    corners = mesh.corners.reshape(-1, 3)
    return float(np.hypot(corners[:, 0], corners[:, 1]).max()), float(corners[:, 2].max())


@lru_cache(maxsize=512)
def _solid(mesh: Mesh) -> Solid:
    return Solid.of([(mesh, 0)])


def _facing(normal: Array, way: Array) -> Array:
    """The cosine between rays and surfaces, from 0 (grazing) to 1."""
    long = np.maximum(np.sqrt(np.einsum("ij,ij->i", normal, normal)), np.float32(1e-6))
    return np.abs(np.einsum("ij,ij->i", normal, way)) / long
