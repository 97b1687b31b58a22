"""A turning laser on the roof: the same triangles that the camera sees, as a sweep of points with what they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swerve.errors import InputError
from swerve.region import inside
from swerve.seeding import rng_for
from swerve.values import Array, Boxes3D, PointCloud, Region
from swerve.world.driver import Pose
from swerve.world.mesh import Material
from swerve.world.scene import Scene, Snapshot, Thing

# Apollo's four types (LM-1): what each kind of thing in the world is to a LiDAR detector.
KINDS = {
    "car": "car",
    "van": "car",
    "bus": "car",
    "truck": "car",
    "pedestrian": "pedestrian",
    "cyclist": "cyclist",
    "obstacle": "unknown",
}
FEWEST = 5  # returns below which nobody need be found


@dataclass(frozen=True)
class Lidar:
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

    @cached_property
    def directions(self) -> Array:
        """Unit directions in the sensor's frame as rows x, y and z, beam after beam, turning left from ahead."""
        up = np.radians(self.elevations)[:, None]
        turn = np.arange(self.columns) * (2 * np.pi / self.columns)
        rows = np.cos(up) * np.cos(turn), np.cos(up) * np.sin(turn), np.broadcast_to(np.sin(up), (self.beams, self.columns))
        return np.stack([part.ravel() for part in rows]).astype(np.float32)

    def eye(self, pose: Pose) -> Array:
        """Where the sensor is."""
        return np.array([pose.x + np.cos(pose.yaw) * self.forward, pose.y + np.sin(pose.yaw) * self.forward, self.above])


@dataclass(frozen=True, eq=False)
class Sweep:
    """One turn: n x 4 float32 (x, y, z, intensity from 0 to 1), and the number of the thing each point lies on (0: none)."""

    xyzi: Array
    things: Array

    @property
    def cloud(self) -> PointCloud:
        """The points alone."""
        return PointCloud(self.xyzi)


def sweep(scene: Scene, pose: Pose, lidar: Lidar) -> Sweep:
    """What the LiDAR measures at `pose`; the same arguments give the same bytes."""
    rng = rng_for(0, scene.key, "lidar", round(pose.time * 1000))
    snapshot = scene.at(pose.time)
    turned = float(rng.uniform(0, 2 * np.pi / lidar.columns))  # no two turns begin in the same direction
    rays = _turned(lidar.directions, turned)
    hits = snapshot.cast(lidar.eye(pose).astype(np.float32)[:, None], _turned(lidar.directions, turned + pose.yaw))
    met = np.flatnonzero((hits.distance < lidar.range) & (hits.distance > lidar.nearest))
    triangle, distance, toward = hits.triangle[met], hits.distance[met], np.take(rays, met, axis=1)
    material = snapshot.of("material", triangle)
    facing = _facing(snapshot, triangle, material, _turned(toward, pose.yaw))
    shine = _shine(snapshot, triangle, material, (pose, lidar, toward * distance))
    kept = np.flatnonzero(_returns(shine, facing, distance, lidar, rng))
    measured = distance[kept] + _wobble(material[kept], lidar, rng)
    xyzi = np.empty((len(kept), 4), np.float32)
    xyzi[:, :3] = (np.take(toward, kept, axis=1) * measured).T
    xyzi[:, 3] = _intensity(shine[kept], facing[kept], rng)
    return Sweep(xyzi, snapshot.of("owner", triangle[kept]))


def _turned(rays: Array, angle: float) -> Array:
    """Directions turned left."""
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))
    return np.stack([rays[0] * cos - rays[1] * sin, rays[0] * sin + rays[1] * cos, rays[2]])


def _facing(snapshot: Snapshot, triangle: Array, material: Array, toward: Array) -> Array:
    """The cosine between each ray and the surface it met, from 0 (grazing) to 1."""
    facing = -toward[2]  # the ground is flat
    above = np.flatnonzero(material != Material.GROUND)
    normal = snapshot.of("normals", triangle[above])[:, 0]
    long = np.maximum(np.sqrt((normal * normal).sum(axis=1)), np.float32(1e-6))
    facing[above] = (normal * toward[:, above].T).sum(axis=1) / long
    return np.abs(facing)


# What comes back at 905 nm of light that falls straight on a surface; plants shine there, dark paint and tyres do not.
_SHINE = np.full(32, 0.3, np.float32)
for _material, _share in {
    Material.KERB: 0.32,
    Material.PAVING: 0.3,
    Material.FACADE: 0.35,
    Material.ROOF: 0.25,
    Material.LEAVES: 0.5,
    Material.BARK: 0.3,
    Material.METAL: 0.45,
    Material.GLASS: 0.04,
    Material.TYRE: 0.06,
    Material.PLASTIC: 0.3,
    Material.CLOTH: 0.45,
    Material.SKIN: 0.5,
    Material.SIGN: 2.5,
    Material.TAILLIGHT: 1.6,
    Material.HEADLIGHT: 0.8,
    Material.WALL: 0.35,
}.items():
    _SHINE[_material] = _share
_PAINTED = (Material.PAINT, Material.CLOTH, Material.BOARD, Material.PLASTIC)  # where the colour says how much comes back
_ASPHALT, _PAVEMENT, _VERGE = 0.16, 0.3, 0.4
_STRONG = 0.8  # what the range of a LiDAR is told for


def _shine(snapshot: Snapshot, triangle: Array, material: Array, seen: tuple[Pose, Lidar, Array]) -> Array:
    """How much of the light each surface sends back: asphalt, pavement and grass on the ground, materials above it."""
    shine = _SHINE[material]
    ground = np.flatnonzero(material == Material.GROUND)
    painted = np.flatnonzero(np.isin(material, _PAINTED))
    colour = snapshot.of("colour", triangle[painted])
    shine[painted] = 0.06 + 0.7 * colour.mean(axis=1)
    pose, lidar, point = seen
    x, y, _ = _turned(np.take(point, ground, axis=1), pose.yaw) + lidar.eye(pose).astype(np.float32)[:, None]
    edge = snapshot.scene.road.locate(x, y)[:, 2]
    walk = snapshot.scene.road.profile.walk if snapshot.scene.floor.paved else 0.0
    off = np.where(edge < walk, np.float32(_PAVEMENT), np.float32(_VERGE))
    shine[ground] = np.where(edge < 0, np.float32(_ASPHALT), off)
    return shine


def _returns(shine: Array, facing: Array, distance: Array, lidar: Lidar, rng: np.random.Generator) -> Array:
    """Whether enough light came back: the range grows with the root of what a surface sends, and fades out at its end."""
    reach = lidar.range * np.sqrt(np.minimum(shine * (0.5 + 0.5 * facing) / _STRONG, 1))
    likely = (1 - lidar.lost) * np.clip((1.15 - distance / reach) / 0.3, 0, 1)
    return rng.random(len(distance), np.float32) < likely


def _wobble(material: Array, lidar: Lidar, rng: np.random.Generator) -> Array:
    """Metres by which ranges are off; in leaves a beam comes back from anywhere between them."""
    deep = np.where(material == Material.LEAVES, np.float32(0.25), np.float32(lidar.noise))
    return rng.standard_normal(len(material), np.float32) * deep


def _intensity(shine: Array, facing: Array, rng: np.random.Generator) -> Array:
    """From 0 to 1 in steps of 1/255, as the sensor tells it."""
    light = shine * np.sqrt(facing) * (1 + 0.12 * rng.standard_normal(len(shine), np.float32))
    return np.rint(np.clip(light, 0, 1) * 255) / np.float32(255)


def boxes(scene: Scene, pose: Pose, lidar: Lidar, found: Sweep, region: Region) -> Boxes3D:
    """A box around everyone that at least one point lies on, in the sensor's frame, nearest first.

    `care` is False below `FEWEST` points and where the middle is not in the region: only what is on the road is demanded.
    """
    returns = np.bincount(found.things, minlength=len(scene.things) + 1)
    seen = [number for number in np.flatnonzero(returns) if number and scene.things[number - 1].kind in KINDS]
    places = np.array([_place(scene.things[n - 1], scene, pose, lidar) for n in seen]).reshape(-1, 7)
    order = np.argsort(np.hypot(places[:, 0], places[:, 1]), kind="stable")
    care = (returns[seen] >= FEWEST) & inside(region, places[:, :2])
    kinds = [KINDS[scene.things[number - 1].kind] for number in seen]
    return Boxes3D(places[order], tuple(kinds[row] for row in order), care=care[order])


def _place(thing: Thing, scene: Scene, pose: Pose, lidar: Lidar) -> tuple[float, ...]:
    low, high = (part.astype(float) for part in thing.mesh.bounds())
    x, y, yaw = thing.pose(scene.road, pose.time)
    middle = (low + high) / 2
    eye = lidar.eye(pose)
    east = x + middle[0] * np.cos(yaw) - middle[1] * np.sin(yaw) - eye[0]
    north = y + middle[0] * np.sin(yaw) + middle[1] * np.cos(yaw) - eye[1]
    cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
    turned = (yaw - pose.yaw + np.pi) % (2 * np.pi) - np.pi
    return (east * cos + north * sin, north * cos - east * sin, middle[2] - lidar.above, *(high - low), turned)
