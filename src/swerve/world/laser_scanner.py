"""A rotating laser scanner on the roof: the directions of its beams, and the first triangle that each beam hits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from swerve.core.errors import InputError
from swerve.core.values import Array, Calibration
from swerve.world.camera import Camera
from swerve.world.crowd import moving_things
from swerve.world.driver import Pose
from swerve.world.mesh import Material, Mesh, row
from swerve.world.scene import Scene, Solid

_MEAN = row(1 / 3, 1 / 3, 1 / 3)


@dataclass(frozen=True)
class LaserScanner:
    """A laser scanner like Velodyne's HDL-64E; points are in metres from the sensor: x ahead, y left, z up, as in KITTI.

    As in the real sensor, the upper half of the beams is denser than the lower half.
    """

    beams: int = 64
    columns: int = 1900  # directions per turn
    top: float = 2.0  # degrees
    split: float = -8.5  # degrees, between the upper and the lower half of the beams
    bottom: float = -24.8
    range: float = 120.0  # metres, for surfaces that reflect 80% of the light
    nearest: float = 0.9
    noise: float = 0.02  # metres
    lost: float = 0.04  # share of returns lost at random
    above: float = 1.73  # metres above the ground
    forward: float = 1.2  # metres ahead of the rear axle

    def __post_init__(self) -> None:
        if not (2 <= self.beams <= 256 and 8 <= self.columns <= 8192):
            raise InputError(f"a LiDAR needs 2 to 256 beams and 8 to 8192 columns, got {self.beams} and {self.columns}")

    @cached_property
    def elevations(self) -> Array:
        """Degrees of each beam above the horizon, from the top down."""
        upper = self.beams // 2
        step = (self.top - self.split) / upper
        return np.concatenate(
            [self.top - step * np.arange(upper), np.linspace(self.split - step, self.bottom, self.beams - upper)]
        )

    def eye(self, pose: Pose) -> Array:
        """The position of the sensor."""
        return np.array([pose.x + np.cos(pose.yaw) * self.forward, pose.y + np.sin(pose.yaw) * self.forward, self.above])

    def calibration(self, camera: Camera) -> Calibration:
        """The camera's matrix, and the matrix from points to the camera (x right, y down, z ahead) by KITTI's name."""
        back, down = self.forward - camera.forward, camera.above - self.above
        to_camera = np.array([[0.0, -1, 0, 0], [0, 0, -1, down], [1, 0, 0, back]])
        return Calibration({"camera": camera.matrix, "Tr_velo_to_cam": to_camera}, (camera.width, camera.height))


@lru_cache(maxsize=8)
def directions(lidar: LaserScanner) -> Array:
    """Unit directions in the sensor's frame as rows x, y and z, beam by beam, turning left from ahead."""
    up = np.radians(lidar.elevations)[:, None]
    turn = np.arange(lidar.columns) * (2 * np.pi / lidar.columns)
    level = np.broadcast_to(np.sin(up), (lidar.beams, lidar.columns))
    return np.stack([part.ravel() for part in (np.cos(up) * np.cos(turn), np.cos(up) * np.sin(turn), level)]).astype(
        np.float32
    )


def rotate_left(rays: Array, angle: float) -> Array:
    """Directions rotated to the left by `angle` radians."""
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    return np.stack([rays[0] * cos - rays[1] * sin, rays[0] * sin + rays[1] * cos, rays[2]])


@dataclass(frozen=True, eq=False)
class Echoes:
    """The first hit of each ray within reach: metres, the cosine between ray and surface normal, and the surface."""

    distance: Array
    facing: Array
    bright: Array  # mean of the surface's colour, except for the ground
    material: Array
    thing: Array  # its number; 0 for surfaces of no thing, -1 without a hit

    @classmethod
    def none(cls, count: int, reach: float) -> Echoes:
        """No hits yet; hits beyond `reach` will be ignored."""
        facing, bright = np.zeros((2, count), np.float32)
        hit = np.zeros(count, np.uint8), np.full(count, -1, np.int32)
        return cls(np.full(count, reach, np.float32), facing, bright, *hit)

    def record(self, rays: Array, solid: Solid, hits: dict[str, Array], ways: Array, number: int | None = None) -> None:
        """Record the hits of `rays` in a solid that are nearer than earlier ones."""
        hit = np.flatnonzero((hits["primID"] >= 0) & (hits["tfar"] < self.distance[rays]))
        ray, triangle = rays[hit], hits["primID"][hit]
        material = solid.mesh.material[triangle]
        self.distance[ray] = hits["tfar"][hit]
        self.material[ray] = material
        self.thing[ray] = solid.owner[triangle] if number is None else number
        self.facing[ray] = np.abs(ways[hit, 2])  # right for the ground, which most rays hit
        above = np.flatnonzero(material != Material.GROUND)
        ray, triangle = ray[above], triangle[above]
        self.facing[ray] = _incidence_cosine(solid.mesh.normals[triangle, 0], ways[hit[above]])
        self.bright[ray] = solid.mesh.colour[triangle] @ _MEAN


def cast_beams(scene: Scene, pose: Pose, lidar: LaserScanner, start: float = 0.0) -> Echoes:
    """The hits of every ray of a turn that begins `start` radians left of ahead.

    Rays are first cast into everything static, then into each moving thing, in its own frame and only within its outline:
    so its tree is built once and kept. Building a tree of all moving things for every frame would take longer than casting.
    """
    count = lidar.beams * lidar.columns
    found = Echoes.none(count, lidar.range)
    eye = lidar.eye(pose)
    ways = np.ascontiguousarray(rotate_left(directions(lidar), start + pose.yaw).T)
    found.record(np.arange(count), scene.static, _cast(scene.static, eye, ways), ways)
    for number, thing, place in moving_things(scene, pose.time):
        away = _in_thing_frame(place, eye)
        rays = _candidate_rays(thing.mesh, away, lidar, _azimuth_of(place, eye) - pose.yaw - start)
        if len(rays):
            solid = _solid(thing.mesh)
            own = np.ascontiguousarray(rotate_left(ways[rays].T, -place[2]).T)
            found.record(rays, solid, _cast(solid, away, own), own, number)
    return found


def _cast(solid: Solid, eye: Array, ways: Array) -> dict[str, Array]:
    starts = np.broadcast_to(eye.astype(np.float32), ways.shape)
    hits: dict[str, Array] = solid.tree.run(np.ascontiguousarray(starts), ways, query="INTERSECT", output=True)
    return hits


def _in_thing_frame(place: tuple[float, float, float], eye: Array) -> Array:
    """The sensor's position in the frame of a thing at `place`."""
    x, y, yaw = place
    east, north = eye[0] - x, eye[1] - y
    return np.array([east * np.cos(yaw) + north * np.sin(yaw), north * np.cos(yaw) - east * np.sin(yaw), eye[2]])


def _azimuth_of(place: tuple[float, float, float], eye: Array) -> float:
    return float(np.arctan2(place[1] - eye[1], place[0] - eye[0]))


def _candidate_rays(mesh: Mesh, seen: Array, lidar: LaserScanner, heading: float) -> Array:
    """The rays that may hit a mesh: those towards the circle around its foot, up to its top."""
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
    """The radius of a mesh around its origin, and its height."""
    corners = mesh.corners.reshape(-1, 3)
    return float(np.hypot(corners[:, 0], corners[:, 1]).max()), float(corners[:, 2].max())


@lru_cache(maxsize=512)
def _solid(mesh: Mesh) -> Solid:
    return Solid.of([(mesh, 0)])


def _incidence_cosine(normal: Array, way: Array) -> Array:
    """The cosine between rays and surfaces, from 0 (grazing) to 1."""
    long = np.maximum(np.sqrt(np.einsum("ij,ij->i", normal, normal)), np.float32(1e-6))
    return np.abs(np.einsum("ij,ij->i", normal, way)) / long
