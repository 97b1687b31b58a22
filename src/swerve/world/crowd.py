"""The objects on the road in LiDAR scenes: people, cyclists, vehicles and obstacles, drawn anew for every frame.

In camera scenes people stay on the pavement, but a LiDAR detector is judged by objects on the road. These objects do not
move: each exists in one frame only, clear of our car and of all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property, lru_cache

import numpy as np

from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.world import roadside
from swerve.world.driver import Pose
from swerve.world.footprint import circles, size_of
from swerve.world.ground import KERB_HEIGHT
from swerve.world.mesh import Material, Mesh, joined, mesh
from swerve.world.models import model
from swerve.world.plan import LAST
from swerve.world.road import BEHIND
from swerve.world.scene import LABELLED, Scene, Snapshot, Solid, Thing
from swerve.world.shapes import bevelled, box, lathe, tube

Random = np.random.Generator
NEAREST, FARTHEST = 3.5, 50.0  # metres from the middle of our car
SHARES = {"pedestrian": 3.0, "cyclist": 2.4, "car": 1.6, "van": 0.3, "truck": 0.15, "obstacle": 1.6}  # mean number of each
SPACE = 0.35  # metres between two objects
TRIES = 60
OBSTACLE_MODELS = 24  # different models
REFUGE = (2.2, 0.5)  # metres, half the length and half the width of a traffic island


@dataclass(frozen=True, eq=False)
class Crowded(Scene):
    """A scene with more things, which shares the static part of its `base`."""

    base: Scene

    @classmethod
    def of(cls, base: Scene, more: tuple[Thing, ...]) -> Crowded:
        """`base` with `more` things after its own."""
        kept = {part.name: getattr(base, part.name) for part in fields(Scene)}
        return cls(**{**kept, "things": base.things + more}, base=base)

    @cached_property
    def static(self) -> Solid:
        """The base scene's static part."""
        return self.base.static

    def at(self, time: float) -> Snapshot:
        """The scene `time` seconds into the drive."""
        parts = [(thing.mesh.placed(x, y, yaw=yaw), number) for number, thing, (x, y, yaw) in moving_things(self, time)]
        return Snapshot(self, time, (self.static, Solid.of(parts)) if parts else (self.static,))


def moving_things(scene: Scene, time: float) -> Iterator[tuple[int, Thing, tuple[float, float, float]]]:
    """Number, thing and pose (x, y, yaw) of everything that is not in a scene's `static` solid."""
    held = len(scene.base.things) if isinstance(scene, Crowded) else len(scene.things)
    for number, thing in enumerate(scene.things, 1):
        if number > held or (thing.track is not None and thing.on_road(time)):
            yield number, thing, thing.pose(scene.road, time)


def add_crowd(scene: Scene, pose: Pose) -> Crowded:
    """The scene with traffic islands and with this frame's own crowd around `pose`."""
    rng = rng_for(0, scene.key, "crowd", round(pose.time * 1000))
    return Crowded.of(scene, (*islands(scene), *_crowd(scene, pose, rng)))


def _crowd(scene: Scene, pose: Pose, rng: Random) -> Iterator[Thing]:
    occupied = _Occupied.at(scene, pose)
    for kind, share in SHARES.items():
        for _ in range(int(rng.poisson(share))):
            body = _road_obstacle(int(rng.integers(OBSTACLE_MODELS))) if kind == "obstacle" else model(kind, rng)
            placed = _place_on_road(kind, body, scene, pose, occupied, rng)
            if placed is not None:
                occupied.add(placed)
                yield placed


def _place_on_road(kind: str, body: Mesh, scene: Scene, pose: Pose, occupied: _Occupied, rng: Random) -> Thing | None:
    """A thing at a free place on the road, or None if no try finds one."""
    angle, away = rng.uniform(0, 2 * np.pi, TRIES), rng.uniform(NEAREST, FARTHEST, TRIES)
    x, y = pose.x + np.cos(angle) * away, pose.y + np.sin(angle) * away
    s, d, edge = scene.road.locate(x, y).T
    low, high = body.bounds()
    for row in np.flatnonzero(edge < -float(high[1] - low[1]) / 2 - 0.1):
        along = float(scene.road.heading(s[row : row + 1])[0])
        aside = 0.0 if abs(d[row]) < scene.road.profile.half else np.pi / 2  # on a side road
        thing = Thing(kind, body, float(x[row]), float(y[row]), _heading(kind, along + aside, rng))
        if occupied.free(thing) and (scene.road.locate(*_thing_circles(thing)[:, :2].T)[:, 2] < 0).all():
            return thing
    return None


def _heading(kind: str, along: float, rng: Random) -> float:
    """Vehicles follow the road, some turn; people face any direction."""
    any_direction = {"pedestrian": 1.0, "obstacle": 1.0, "cyclist": 0.35}.get(kind, 0.12)
    if rng.random() < any_direction:
        return float(rng.uniform(-np.pi, np.pi))
    return along + float(rng.choice([0.0, np.pi])) + float(rng.normal(0, 0.06))


@dataclass(eq=False)
class _Occupied:
    """Circles that cover all occupied places: x, y and radius."""

    circles: Array

    @classmethod
    def at(cls, scene: Scene, pose: Pose) -> _Occupied:
        ours = circles(pose.x + 1.4 * np.cos(pose.yaw), pose.y + 1.4 * np.sin(pose.yaw), pose.yaw, (4.6, 2.2))
        others = [circles(*place, size_of(thing.mesh)) for _, thing, place in moving_things(scene, pose.time)]
        return cls(np.concatenate([ours, _static_circles(scene), *others]))

    def add(self, thing: Thing) -> None:
        self.circles = np.concatenate([self.circles, _thing_circles(thing)])

    def free(self, thing: Thing) -> bool:
        mine = _thing_circles(thing)
        gap = np.hypot(*(mine[:, None, :2] - self.circles[None, :, :2]).transpose(2, 0, 1))
        return bool((gap > mine[:, None, 2] + self.circles[None, :, 2] + SPACE).all())


@lru_cache(maxsize=4)
def _static_circles(scene: Scene) -> Array:
    """Circles around static things on a road: parked vehicles and islands."""
    parked = (thing for thing in scene.things if thing.track is None and thing.kind in LABELLED)
    return np.concatenate([*map(_thing_circles, (*parked, *islands(scene))), np.zeros((0, 3))])


def _thing_circles(thing: Thing) -> Array:
    """Circles around a static thing."""
    return circles(thing.x, thing.y, thing.yaw, size_of(thing.mesh))


def islands(scene: Scene) -> tuple[Thing, ...]:
    """Traffic islands in the middle of roads with two lanes each way: in zebra crossings and between side roads."""
    road = scene.road
    if road.profile.lanes < 2:
        return ()
    rng = rng_for(0, scene.key, "islands", 0)
    spread = np.cumsum(rng.uniform(35, 80, 10)) - BEHIND
    places = [s + 1.8 for s in road.crossings] + [float(s) for s in spread if s < LAST and not road.near_junction(s, 12.0)]
    clear = [s for row, s in enumerate(places) if all(abs(s - other) > 12 for other in places[:row])]
    found = zip(*(part.tolist() for part in road.at(np.array(clear))), strict=True)
    return tuple(Thing("island", _refuge(), x, y, heading) for x, y, heading in found)


def outline(island: Thing) -> Array:
    """The outline of an island in the world, clockwise."""
    (long, wide), turn = (
        REFUGE,
        np.array([[np.cos(island.yaw), np.sin(island.yaw)], [-np.sin(island.yaw), np.cos(island.yaw)]]),
    )
    corners = np.array([[long, wide], [long, -wide], [-long, -wide], [-long, wide]])
    return np.asarray(corners @ turn + [island.x, island.y])


@cache
def _refuge() -> Mesh:
    long, wide = REFUGE
    stone = mesh(box((-long, -wide, 0.0), (long, wide, KERB_HEIGHT)), (0.33, 0.32, 0.3), Material.KERB)
    posts = [
        mesh(tube((x, 0, KERB_HEIGHT), (x, 0, 1.0), radii=(0.06, 0.06), capped=True), (0.7, 0.7, 0.65), Material.PLASTIC)
        for x in (-long + 0.4, long - 0.4)
    ]
    return joined([stone, *posts])


@cache
def _road_obstacle(number: int) -> Mesh:
    rng = rng_for(0, "model", "obstacle", number)
    return (_cone, _crate, _barrier, _barrow, roadside.bin, _tyres)[number % 6](rng)


def _cone(rng: Random) -> Mesh:
    tall = float(rng.uniform(0.5, 1.0))
    foot = mesh(box((-0.2, -0.2, 0), (0.2, 0.2, 0.04)), (0.05, 0.05, 0.05), Material.PLASTIC)
    return joined([foot, mesh(lathe([(0.15, 0.04), (0.03, tall)], 10), (0.75, 0.15, 0.03), Material.PLASTIC, smooth=True)])


def _crate(rng: Random) -> Mesh:
    long, wide, tall = (float(part) for part in rng.uniform((0.5, 0.4, 0.4), (1.3, 1.1, 1.2)))
    return mesh(box((-long / 2, -wide / 2, 0), (long / 2, wide / 2, tall)), rng.uniform(0.15, 0.5, 3), Material.WALL)


def _barrier(rng: Random) -> Mesh:
    half = float(rng.uniform(0.6, 1.1))
    board = mesh(box((-0.04, -half, 0.55), (0.04, half, 0.95)), (0.7, 0.2, 0.15), Material.BOARD)
    legs = [
        mesh(box((-0.3, y - 0.04, 0), (0.3, y + 0.04, 0.06)), (0.1, 0.1, 0.1), Material.PLASTIC)
        for y in (-half + 0.1, half - 0.1)
    ]
    posts = [
        mesh(box((-0.03, y - 0.03, 0.06), (0.03, y + 0.03, 0.95)), (0.5, 0.5, 0.5), Material.METAL)
        for y in (-half + 0.1, half - 0.1)
    ]
    return joined([board, *legs, *posts])


def _barrow(rng: Random) -> Mesh:
    colour = rng.uniform(0.05, 0.5, 3)
    tub = mesh(bevelled((-0.45, -0.33, 0.35), (0.5, 0.33, 0.75), bevel=0.06), colour, Material.PAINT)
    bars = [
        mesh(tube((0.4, y * 0.5, 0.3), (-0.95, y, 0.7), radii=(0.025, 0.025)), (0.3, 0.3, 0.3), Material.METAL)
        for y in (-0.28, 0.28)
    ]
    feet = [
        mesh(tube((-0.3, y, 0.0), (-0.3, y, 0.4), radii=(0.025, 0.025)), (0.3, 0.3, 0.3), Material.METAL)
        for y in (-0.25, 0.25)
    ]
    wheel = mesh(box((0.4, -0.05, 0.0), (0.75, 0.05, 0.36)), (0.03, 0.03, 0.03), Material.TYRE)
    return joined([tub, *bars, *feet, wheel])


def _tyres(rng: Random) -> Mesh:
    count = int(rng.integers(2, 6))
    rings = [
        lathe([(0.0, 0.0), (0.3, 0.0), (0.33, 0.1), (0.3, 0.2), (0.0, 0.2)], 12) + np.array([0, 0, 0.21 * k])
        for k in range(count)
    ]
    return joined([mesh(ring, (0.03, 0.03, 0.03), Material.TYRE) for ring in rings])
