"""The G-buffer of a frame: what each of its rays met, before light and weather."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np

from swerve.core.values import Array
from swerve.world.camera import Camera
from swerve.world.driver import Pose
from swerve.world.ground import Footprint, paint
from swerve.world.mesh import Material, row
from swerve.world.scene import FAR, Hits, Scene, Site, Snapshot
from swerve.world.surface import Panes, Surface, dot, lift_off, rows_of, surface

REACH = 4.0  # metres within which surroundings occlude the sky's light
_TILE = 4  # pixels: each tests another direction for occlusion, and neighbours share the results
_DIRECTIONS = 8  # directions that a tile tests: one for each black square of a chessboard
_LIT = ("car", "van", "bus", "truck")
_BEAMS, _FARTHEST_BEAM = 4, 70.0  # vehicles whose headlights light the road, and metres to the farthest
SAMPLES = ((-0.25, 0.33), (0.33, -0.25))  # additional rays for pixels on an outline


@dataclass(frozen=True, eq=False)
class Ground:
    """Where rays met the ground: their rows among the surfaces, the place on the road, and shares of road and marking."""

    rows: Array
    lane: Array  # -0.5..0.5: across a lane
    edge: Array  # metres beyond the edge of the road
    road: Array
    mark: Array
    grain: Array  # fine noise, which snow and puddles follow


@dataclass(frozen=True, eq=False)
class CastRays:
    """Some rays of a frame: those into the sky, the surfaces that the others met, and how open the sky is above these."""

    count: int
    empty: Array  # indices of rays that met nothing
    sky: Array  # their directions
    found: Surface
    ground: Ground
    openness: Array


_NONE, _NO_VECTORS, _NO_ROWS = np.empty(0, np.float32), np.empty((3, 0), np.float32), np.empty(0, np.int32)
_NO_SURFACE = Surface(
    ray=_NO_ROWS,
    start=_NO_VECTORS,
    toward=_NO_VECTORS,
    distance=_NONE,
    normal=_NO_VECTORS,
    colour=_NO_VECTORS,
    material=_NO_ROWS,
    owner=_NO_ROWS,
    panes=Panes(_NO_ROWS, _NONE, _NONE),
)
NO_RAYS = CastRays(0, _NO_ROWS, _NO_VECTORS, _NO_SURFACE, Ground(_NO_ROWS, *[_NONE] * 5), _NONE)


@dataclass(frozen=True, eq=False)
class GBuffer:
    """All that shading a frame needs but the conditions: its `pixels`, and more rays for its `outline`."""

    site: Site
    pose: Pose
    camera: Camera
    pixels: CastRays
    outline: Array  # pixels with additional rays
    edges: CastRays  # the additional rays
    things: Array
    depth: Array
    beams: Array  # n x 3: x, y and heading of the nearest lit vehicles' noses


def cast(snapshot: Snapshot, pose: Pose, camera: Camera, *, refined: bool = True) -> GBuffer:
    """The G-buffer of the camera's frame at `pose`; outlines get additional rays only if it is `refined`."""
    shape = (camera.rows, camera.width)
    eye = camera.eye(pose).astype(np.float32)[:, None]
    rays = camera.rays(pose)
    hits = snapshot.cast(eye, rays)
    found = surface(snapshot, hits, rays, eye, pixels=camera.pixels)
    openness = _sky_openness(found, snapshot, shape)
    outline = _outlines(hits, found, shape) if refined else np.empty(0, np.int32)
    things = np.zeros(rays.shape[1], np.int32)
    things[found.ray] = found.owner
    return GBuffer(
        site=snapshot.scene.site,
        pose=pose,
        camera=camera,
        pixels=_cast_rays(snapshot.scene, rays, found, openness[found.ray], camera),
        outline=outline,
        edges=_cast_edges(snapshot, pose, camera, outline, openness) if refined else NO_RAYS,
        things=things.reshape(shape),
        depth=depth_along(pose, rays, hits.distance).reshape(shape),
        beams=_beams(snapshot, pose),
    )


def _cast_edges(snapshot: Snapshot, pose: Pose, camera: Camera, outline: Array, openness: Array) -> CastRays:
    """The additional rays of an outline."""
    eye = camera.eye(pose).astype(np.float32)[:, None]
    more = np.concatenate([camera.rays(pose, outline, shift) for shift in SAMPLES], axis=1)
    met = surface(snapshot, snapshot.cast(eye, more), more, eye, pixels=camera.pixels)
    return _cast_rays(snapshot.scene, more, met, np.tile(openness[outline], len(SAMPLES))[met.ray], camera)


def depth_along(pose: Pose, rays: Array, distance: Array) -> Array:
    """Metres along the viewing axis; infinite in the sky and beyond `FAR`."""
    forward = row(np.cos(pose.yaw), np.sin(pose.yaw), 0.0) @ rays
    return np.where(distance < FAR, distance * forward, np.inf).astype(np.float32)


def _beams(snapshot: Snapshot, pose: Pose) -> Array:
    """Where the nearest vehicles ahead of us with lit headlights have their noses, and their headings."""
    found, road, time = [], snapshot.scene.road, snapshot.time
    for thing in snapshot.scene.things:
        if thing.kind in _LIT and thing.mesh.has_headlights and thing.on_road(time):
            x, y, yaw = thing.pose(road, time)
            nose = float(thing.mesh.bounds()[1][0])
            found.append((x + np.cos(yaw) * nose, y + np.sin(yaw) * nose, yaw))
    noses = np.array(found, np.float32).reshape(-1, 3)
    east, north = noses[:, 0] - pose.x, noses[:, 1] - pose.y
    away = np.hypot(east, north)
    seen = np.flatnonzero((east * np.cos(pose.yaw) + north * np.sin(pose.yaw) > -5) & (away < _FARTHEST_BEAM))
    return noses[seen[np.argsort(away[seen], kind="stable")][:_BEAMS]]


def _cast_rays(scene: Scene, rays: Array, found: Surface, openness: Array, camera: Camera) -> CastRays:
    missed = np.ones(rays.shape[1], bool)
    missed[found.ray] = False
    empty = rows_of(missed)
    ground = _paint_ground(scene, found, camera.pixels)
    return CastRays(rays.shape[1], empty, np.take(rays, empty, axis=1), found, ground, openness)


def _paint_ground(scene: Scene, found: Surface, pixels: float) -> Ground:
    """Paint the ground of new surfaces; returns what weather needs to know of it."""
    rows = rows_of(found.material == Material.GROUND)
    x, y, _ = np.take(found.point, rows, axis=1)
    east, north, up = np.take(found.toward, rows, axis=1)
    across = found.distance[rows] / pixels
    flat = np.maximum(np.sqrt(east * east + north * north), 1e-6)
    seen = Footprint(across, across / np.maximum(-up, 0.004), (east / flat, north / flat))
    painted = paint(scene.road, scene.floor, x, y, seen)
    found.colour[:, rows] = painted.colour
    _, d, edge = painted.place
    lane = np.mod(d / np.float32(scene.road.profile.lane), 1.0) - 0.5
    return Ground(rows, lane, edge.copy(), painted.road, painted.mark, painted.grain)


def _sky_openness(found: Surface, snapshot: Snapshot, shape: tuple[int, int]) -> Array:
    """The share of open sky above each pixel: every other pixel casts one of eight rays, shared among neighbours."""
    line, place = np.divmod(found.ray, np.int32(shape[1]))
    near = np.flatnonzero((found.distance < 45) & ((line + place) % 2 == 0))
    number = (line[near] % _TILE) * (_TILE // 2) + place[near] % _TILE // 2
    normal = np.take(found.normal, near, axis=1)
    upward = normal + np.take(_hemisphere(), number, axis=1)
    upward /= np.maximum(np.sqrt(dot(upward, upward)), 1e-6)
    start = np.take(found.point, near, axis=1) + normal * lift_off(found.material[near])
    free = np.where(snapshot.blocked(start, upward, REACH), np.float32(0.15), np.float32(1.0))
    result = np.ones(shape[0] * shape[1], np.float32)
    level = found.normal[2] > 0.9
    for group, asked in ((level, level[near]), (~level, ~level[near])):
        shared = np.zeros((2, *shape), np.float32)
        value, weight = shared
        value.flat[found.ray[near[asked]]], weight.flat[found.ray[near[asked]]] = free[asked], 1.0
        rays = found.ray[group]
        value, weight = (cv2.blur(part, (_TILE, _TILE)).ravel()[rays] for part in shared)
        result[rays] = np.where(weight > 1e-3, value / np.maximum(weight, 1e-3), 1.0)
    return result


@cache
def _hemisphere() -> Array:
    """Evenly spread directions of a hemisphere."""
    number = np.arange(_DIRECTIONS)
    turn, lift = number * 2.399963, (number + 0.5) / _DIRECTIONS
    out = np.sqrt(lift)
    return np.stack([np.cos(turn) * out, np.sin(turn) * out, np.sqrt(1 - lift)]).astype(np.float32)


def _outlines(hits: Hits, found: Surface, shape: tuple[int, int]) -> Array:
    """Pixels whose neighbour shows another thing, material, orientation or distance."""
    label = np.full(shape, -1, np.int32)
    label.flat[found.ray] = found.owner * 32 + found.material
    near = 1 / np.clip(hits.distance, 0.1, 1e4).reshape(shape)
    fold = np.zeros((3, *shape), np.float32)
    fold.reshape(3, -1)[:, found.ray] = np.where(found.material == Material.LEAVES, np.float32(0), found.normal)
    edge = np.zeros(shape, bool)
    for axis in (0, 1):
        here, there = (slice(None, -1), slice(None)), (slice(1, None), slice(None))
        if axis:
            here, there = here[::-1], there[::-1]
        step = (label[here] != label[there]) | (
            np.abs(near[here] - near[there]) > 0.12 * np.maximum(near[here], near[there])
        )
        step |= sum(np.abs(part[here] - part[there]) for part in fold) > 0.5
        edge[here] |= step
        edge[there] |= step
    return rows_of(edge)
