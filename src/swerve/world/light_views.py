"""Views of junctions with traffic lights: where the camera is, what the lights show, and who waits there.

A key such as `lights-A/test/0/12#3` is view 3 of junction 12. All views of a junction share its road, its buildings and
what stands there; heads, vehicles and people are drawn anew for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from swerve.core.errors import InputError
from swerve.core.lru import SizedLRU
from swerve.core.seeding import rng_for
from swerve.world.camera import Camera
from swerve.world.crowd import Crowded
from swerve.world.distractors import braking
from swerve.world.driver import Pose
from swerve.world.drives import parse_frame_key
from swerve.world.junction import SignalJunction, signal_junction
from swerve.world.models import model
from swerve.world.scene import Snapshot, Solid, Thing
from swerve.world.signal_heads import LIGHT, STREETS, SignalHead
from swerve.world.signal_posts import Mount

Random = np.random.Generator
PREFIX = "lights-"  # of the keys of these scenes
OTHER = "other-light"  # the kind of heads for other traffic
NEAREST, FARTHEST = 12.0, 45.0  # metres from the camera to the junction
SMALLEST = 8.0  # pixels of the short side: smaller heads need not be detected
TRIES = 12
KEPT = 6  # junctions that a process keeps
SPEED = 8.0
SHARES = {"red": 0.4, "yellow": 0.19, "green": 0.37, "off": 0.04}
CAMERAS: Mapping[str, Camera] = {
    "A": Camera(960, 540, focal=1.1, horizon=0.62),
    "B": Camera(1280, 720, focal=0.92, horizon=0.57, above=1.75, forward=1.9),
}


@dataclass(frozen=True, eq=False)
class Staged(Crowded):
    """A junction with the heads, vehicles and people of one view, whose tree is built once."""

    @cached_property
    def actors(self) -> Solid:
        """All that is not in the junction's static part."""
        first = len(self.base.things) + 1
        more = self.things[first - 1 :]
        return Solid.of([(t.mesh.placed(t.x, t.y, yaw=t.yaw), number) for number, t in enumerate(more, first)])

    def at(self, time: float) -> Snapshot:
        """The same at any time."""
        return Snapshot(self, time, (self.static, self.actors))

    @property
    def heads(self) -> dict[int, SignalHead]:
        """The heads of our traffic by the number of their thing."""
        return {
            number: thing
            for number, thing in enumerate(self.things, 1)
            if isinstance(thing, SignalHead) and thing.kind == LIGHT
        }

    def with_heads(self, changed: Mapping[int, SignalHead], more: tuple[Thing, ...] = ()) -> Staged:
        """The scene with other heads in place of some, and with more things."""
        things = [changed.get(number, thing) for number, thing in enumerate(self.things, 1)]
        return replace(self, things=(*things, *more))

    def relit(self, states: Mapping[int, str]) -> Staged:
        """The scene with other states of some heads: colours and materials differ, the tree is the same."""
        heads = self.heads
        changed = {number: heads[number].changed(state=state) for number, state in states.items()}
        after, solid = self.with_heads(changed), self.actors
        colour, material = solid.mesh.colour.copy(), solid.mesh.material.copy()
        for number, head in changed.items():
            rows = np.flatnonzero(solid.owner == number)
            colour[rows], material[rows] = head.mesh.colour, head.mesh.material
        after.__dict__["actors"] = replace(solid, mesh=replace(solid.mesh, colour=colour, material=material))
        return after


@dataclass(frozen=True, eq=False)
class View:
    """A frame at a junction: the scene and where its camera is."""

    scene: Staged
    pose: Pose
    camera: Camera


def is_light_key(name: str) -> bool:
    """Whether a key belongs to a junction with traffic lights."""
    return name.startswith(PREFIX)


_JUNCTIONS, _VIEWS = SizedLRU(KEPT), SizedLRU(KEPT)


def view(name: str) -> View:
    """The view of a frame's key; the last few are kept."""
    found: View = _VIEWS.get(name, lambda: _view(name))
    return found


def _view(name: str) -> View:
    key, number = parse_frame_key(name)
    where: SignalJunction = _JUNCTIONS.get(key, lambda: _junction(key))
    rng = rng_for(0, key, "view", number)
    heads = tuple(_heads(where, rng))
    camera = CAMERAS[where.streets]
    pose = _pose(where, rng, camera, number, heads)
    traffic = _traffic(where, pose, rng_for(0, key, "traffic", number))
    people = _people(where, rng_for(0, key, "people", number))
    staged = Staged.of(where.scene, (*heads, *traffic, *people))
    assert isinstance(staged, Staged)
    _ = staged.actors, where.scene.static  # built now, before threads share them
    return View(staged, pose, camera)


def _junction(key: str) -> SignalJunction:
    streets, split, *rest = key.removeprefix(PREFIX).split("/")
    if streets not in STREETS or len(rest) != 2:
        raise InputError(f"{key!r} is not a junction with traffic lights: expected a key such as 'lights-A/test/0/12'")
    return signal_junction(key, streets, split)


def _heads(where: SignalJunction, rng: Random) -> Iterator[SignalHead]:
    """Every head in its state: those of one phase agree, and cross traffic has red unless we have."""
    drawn = {phase: str(rng.choice(list(SHARES), p=list(SHARES.values()))) for phase in ("through", "left", "right")}
    if drawn["through"] == "off":
        drawn = dict.fromkeys(drawn, "off")
    for mount in where.ours:
        broken = rng.random() < 0.02
        yield _head(mount, "off" if broken else drawn[mount.phase])
    for mount in where.others:
        along = abs(float(np.cos(mount.yaw - where.ours[0].yaw))) > 0.7
        state = drawn["through"] if along or drawn["through"] == "off" else "red" if drawn["through"] != "red" else "green"
        yield replace(_head(mount, state), kind=OTHER)


def _head(mount: Mount, state: str) -> SignalHead:
    return SignalHead.of(mount.design, mount.place, mount.yaw, aspect=mount.aspect, state=state)


def _pose(where: SignalJunction, rng: Random, camera: Camera, number: int, heads: tuple[SignalHead, ...]) -> Pose:
    """A place on one of our lanes from which at least one head is large enough, if a few tries find one."""
    road, junction = where.scene.road, where.junction
    for _ in range(TRIES):
        away = float(rng.uniform(NEAREST, FARTHEST))
        lane = int(rng.integers(road.profile.lanes))
        s = junction.s - junction.half - away - camera.forward
        x, y, yaw = road.at(s, road.lane_middle(lane) + float(rng.normal(0, 0.25)))
        pose = Pose(float(x), float(y), float(yaw) + float(rng.normal(0, 0.025)), float(number), SPEED)
        if any(_is_large(head, camera, pose) for head in heads if head.kind == LIGHT):
            break
    return pose


def _is_large(head: SignalHead, camera: Camera, pose: Pose) -> bool:
    points = head.mesh.placed(head.x, head.y, yaw=head.yaw).corners.reshape(-1, 3).astype(float)
    at, ahead = camera.project(pose, points)
    low, high = at.min(axis=0), at.max(axis=0)
    inside = (low >= 0).all() and high[0] <= camera.width and high[1] <= camera.height
    return bool(ahead.min() > 1 and inside and (high - low).min() >= SMALLEST)


def _traffic(where: SignalJunction, pose: Pose, rng: Random) -> Iterator[Thing]:
    """Vehicles that wait at the stop lines or come towards us, clear of the camera's car."""
    road, junction = where.scene.road, where.junction
    ours = float(road.locate(np.array([pose.x]), np.array([pose.y]))[0, 0])
    for lane in range(road.profile.lanes):
        middle = road.lane_middle(lane)
        yield from _queue(where, middle, rng, ours=ours, pose=pose)
        s = where.scene.road.stops[1][0] + float(rng.uniform(0.5, 40))
        while s < 300 and rng.random() < 0.75:
            yield _vehicle(where, s, -middle, rng, back=True)
            s += float(rng.uniform(7, 40))
        s = junction.s + junction.half + float(rng.uniform(12, 60))
        while s < 280 and rng.random() < 0.6:
            yield _vehicle(where, s, middle, rng)
            s += float(rng.uniform(9, 60))


def _queue(where: SignalJunction, middle: float, rng: Random, *, ours: float, pose: Pose) -> Iterator[Thing]:
    """Vehicles that wait in a lane with their brake lights on, none of which is nearer than a few metres to our car."""
    s = where.stop - float(rng.uniform(0.5, 2.5))
    for _ in range(3):
        if rng.random() > 0.4:
            return
        kind = str(rng.choice(["car", "van", "bus", "truck"], p=[0.8, 0.13, 0.02, 0.05]))
        body = model(kind, rng)
        low, high = body.bounds()
        x, y, yaw = where.scene.road.at(s - float(high[0]), middle + float(rng.normal(0, 0.12)))
        back = s - float(high[0] - low[0])
        beside = abs(float(-np.sin(pose.yaw) * (x - pose.x) + np.cos(pose.yaw) * (y - pose.y))) > 2.4
        if back < ours + (1.0 if beside else 7.5):
            return
        yield Thing(kind, braking(body), float(x), float(y), float(yaw))
        s = back - float(rng.uniform(1.2, 3.0))


def _vehicle(where: SignalJunction, s: float, d: float, rng: Random, *, back: bool = False) -> Thing:
    kind = str(rng.choice(["car", "van", "bus", "truck"], p=[0.76, 0.13, 0.04, 0.07]))
    x, y, yaw = where.scene.road.at(s, d + float(rng.normal(0, 0.12)))
    return Thing(kind, model(kind, rng), float(x), float(y), float(yaw) + (np.pi if back else 0.0))


def _people(where: SignalJunction, rng: Random) -> Iterator[Thing]:
    """People at the corners and on the crossings."""
    road, junction = where.scene.road, where.junction
    for _ in range(int(rng.integers(0, 7))):
        side = int(rng.choice([-1, 1]))
        out = float(rng.uniform(0.8, 2.5))
        s = junction.s + float(rng.choice([-1, 1])) * (junction.half + float(rng.uniform(2.5, 14)))
        d = side * (road.profile.half + out)
        if road.crossings and rng.random() < 0.3:
            s, d = road.crossings[-1] + float(rng.uniform(0.5, 3.0)), float(rng.uniform(-1, 1)) * road.profile.half
        x, y, _ = road.at(s, d)
        yield Thing("pedestrian", model("pedestrian", rng), float(x), float(y), float(rng.uniform(-np.pi, np.pi)))


def camera_of(name: str, size: tuple[int, int]) -> Camera:
    """The camera of a frame of the embedded world, for pictures of a given size."""
    if not is_light_key(name):
        return Camera(*size)
    streets = name.removeprefix(PREFIX)[:1]
    return replace(CAMERAS.get(streets, Camera()), width=size[0], height=size[1])
