"""A LiDAR sweep of a scene: which beams return, from where and how strongly, and the boxes of the objects hit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.region import inside
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes3D, PointCloud, Region
from swerve.world.driver import Pose
from swerve.world.ground import markings
from swerve.world.laser_scanner import Echoes, LaserScanner, cast_beams, directions, rotate_left
from swerve.world.mesh import Material
from swerve.world.scene import Scene, Thing

# LM-1: the type of each kind of thing, among Apollo's four.
KINDS = {
    "car": "car",
    "van": "car",
    "bus": "car",
    "truck": "car",
    "pedestrian": "pedestrian",
    "cyclist": "cyclist",
    "obstacle": "unknown",
}
FEWEST = 5  # returns: objects with fewer need not be detected


@dataclass(frozen=True, eq=False)
class LidarSweep:
    """One turn: n x 4 float32 (x, y, z, intensity from 0 to 1), and the number of the thing under each point (0: none)."""

    xyzi: Array
    things: Array

    @property
    def cloud(self) -> PointCloud:
        """The points alone."""
        return PointCloud(self.xyzi)


def sweep(scene: Scene, pose: Pose, lidar: LaserScanner) -> LidarSweep:
    """The sweep at `pose`; the same arguments give the same bytes."""
    rng = rng_for(0, scene.key, "lidar", round(pose.time * 1000))
    start = float(rng.uniform(0, 2 * np.pi / lidar.columns))  # every turn begins in another direction
    found = cast_beams(scene, pose, lidar, start)
    hit = np.flatnonzero((found.thing >= 0) & (found.distance > lidar.nearest))
    distance, material, facing = found.distance[hit], found.material[hit], found.facing[hit]
    reflectivity = _reflectivity(found, hit)
    toward = np.take(rotate_left(directions(lidar), start), hit, axis=1)
    ground = np.flatnonzero(material == Material.GROUND)
    reflectivity[ground] = _ground_reflectivity(
        scene, *_in_world(pose, lidar, np.take(toward, ground, axis=1) * distance[ground])
    )
    kept = np.flatnonzero(_detected(reflectivity, facing, distance, lidar, rng))
    measured = np.minimum(distance[kept] + _range_noise(material[kept], lidar, rng), np.float32(lidar.range))
    xyzi = np.empty((len(kept), 4), np.float32)
    xyzi[:, :3] = (np.take(toward, kept, axis=1) * measured).T
    xyzi[:, 3] = _intensity(reflectivity[kept], facing[kept], rng)
    return LidarSweep(xyzi, found.thing[hit[kept]])


def _in_world(pose: Pose, lidar: LaserScanner, points: Array) -> tuple[Array, Array]:
    """x and y in the world of points in the sensor's frame."""
    x, y, _ = rotate_left(points, pose.yaw) + lidar.eye(pose).astype(np.float32)[:, None]
    return x, y


def _by_material(default: float, shares: dict[Material, float]) -> Array:
    table = np.full(len(Material), default, np.float32)
    table[list(shares)] = list(shares.values())
    return table


# Reflectivity at 905 nm and normal incidence: plants are bright there, glass and tyres are dark.
_REFLECTIVITY = _by_material(
    0.3,
    {
        Material.FACADE: 0.35,
        Material.ROOF: 0.25,
        Material.LEAVES: 0.5,
        Material.METAL: 0.45,
        Material.GLASS: 0.04,
        Material.SHOPFRONT: 0.04,
        Material.TYRE: 0.06,
        Material.SKIN: 0.5,
        Material.SIGN: 2.5,  # retro-reflective, as rear lights and number plates are
        Material.TAILLIGHT: 1.6,
        Material.HEADLIGHT: 0.8,
    },
)
_COLOURED = [Material.PAINT, Material.CLOTH, Material.BOARD, Material.PLASTIC]  # their colour decides the reflectivity
_BY_COLOUR = np.isin(np.arange(len(Material)), _COLOURED)
_ASPHALT, _MARKING, _PAVEMENT, _VERGE = 0.16, 0.6, 0.3, 0.4
_FOOTPRINT = 0.05  # metres of road that a beam covers
_NOMINAL = 0.8  # the reflectivity for which a LiDAR's range is specified
_IN_LEAVES = 0.25  # metres


def _reflectivity(found: Echoes, rays: Array) -> Array:
    """The reflectivity of each surface above the ground."""
    material = found.material[rays]
    return np.where(_BY_COLOUR[material], 0.06 + 0.7 * found.bright[rays], _REFLECTIVITY[material]).astype(np.float32)


def _ground_reflectivity(scene: Scene, x: Array, y: Array) -> Array:
    """The reflectivity of asphalt and its markings, pavement and grass."""
    s, d, edge = np.ascontiguousarray(scene.road.locate(x, y).T)
    walk = scene.road.profile.walk if scene.floor.paved else 0.0
    reflectivity = np.where(edge < walk, np.float32(_PAVEMENT), np.float32(_VERGE))
    on = np.flatnonzero(edge < 0)
    small = np.full(len(on), _FOOTPRINT, np.float32)
    drawn = markings(scene.road, scene.floor, (s[on], d[on], edge[on]), (small, small))
    marked = np.max([share for share, _ in drawn], axis=0)
    reflectivity[on] = _ASPHALT + (_MARKING - _ASPHALT) * marked * (1 - 0.7 * scene.floor.wear)
    return reflectivity


def _detected(reflectivity: Array, facing: Array, distance: Array, lidar: LaserScanner, rng: np.random.Generator) -> Array:
    """Whether a return is detected: the range grows with the root of the reflectivity, and fades out at its end."""
    reach = lidar.range * np.sqrt(np.minimum(reflectivity * (0.5 + 0.5 * facing) / _NOMINAL, 1))
    likely = (1 - lidar.lost) * np.clip((1.15 - distance / reach) / 0.3, 0, 1)
    return rng.random(len(distance), np.float32) < likely


def _range_noise(material: Array, lidar: LaserScanner, rng: np.random.Generator) -> Array:
    """The range error in metres; in leaves a beam may return from any depth."""
    deep = np.where(material == Material.LEAVES, np.float32(_IN_LEAVES), np.float32(lidar.noise))
    return rng.standard_normal(len(material), np.float32) * deep


def _intensity(reflectivity: Array, facing: Array, rng: np.random.Generator) -> Array:
    """From 0 to 1 in steps of 1/255, like the sensor's."""
    light = reflectivity * np.sqrt(facing) * (1 + 0.12 * rng.standard_normal(len(reflectivity), np.float32))
    return np.rint(np.clip(light, 0, 1) * 255) / np.float32(255)


def boxes(scene: Scene, pose: Pose, lidar: LaserScanner, found: LidarSweep, region: Region) -> Boxes3D:
    """A box around every object with at least one point, in the sensor's frame, nearest first.

    `care` is False below `FEWEST` points and if the centre is outside the region: only objects on the road are required.
    """
    returns = np.bincount(found.things, minlength=len(scene.things) + 1)
    seen = [number for number in np.flatnonzero(returns) if number and scene.things[number - 1].kind in KINDS]
    places = np.array([_box(scene.things[n - 1], scene, pose, lidar) for n in seen]).reshape(-1, 7)
    order = np.argsort(np.hypot(places[:, 0], places[:, 1]), kind="stable")
    care = (returns[seen] >= FEWEST) & inside(region, places[:, :2])
    kinds = [KINDS[scene.things[number - 1].kind] for number in seen]
    return Boxes3D(places[order], tuple(kinds[row] for row in order), care=care[order])


def _box(thing: Thing, scene: Scene, pose: Pose, lidar: LaserScanner) -> tuple[float, ...]:
    """Centre, size and yaw of a thing's box in the sensor's frame."""
    low, high = (part.astype(float) for part in thing.mesh.bounds())
    east, north, yaw = thing.pose(scene.road, pose.time)
    ahead, left, up = (low + high) / 2
    east += ahead * np.cos(yaw) - left * np.sin(yaw) - lidar.eye(pose)[0]
    north += ahead * np.sin(yaw) + left * np.cos(yaw) - lidar.eye(pose)[1]
    cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
    heading = (yaw - pose.yaw + np.pi) % (2 * np.pi) - np.pi
    return (east * cos + north * sin, north * cos - east * sin, up - lidar.above, *(high - low), heading)
