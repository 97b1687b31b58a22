"""A cautious driver on busier roads: objects decide more often where it steers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from swerve.core.seeding import rng_for
from swerve.world.driver import SLOW, WIDTH, Driver, driver
from swerve.world.free_ground import Spot, is_free
from swerve.world.mesh import Mesh
from swerve.world.models import model
from swerve.world.plan import LAST
from swerve.world.scene import Scene, Thing, Track

PREFIX = "cautious-"  # of the keys of scenes with this driver
CLEARANCE = {"car": 1.0, "van": 1.0, "bus": 1.2, "truck": 1.2, "cyclist": 1.5, "pedestrian": 1.5}  # metres when passing
EASE, BESIDE = 20.0, 4.0  # metres over which to pull out, and to stay out before and after
MOST_OVER = 1.5  # metres that we move over at most
SHY = 0.25  # metres that we keep to our side when somebody comes
ONCOMING_GAP = 0.3  # metres left to an oncoming vehicle
ONCOMING_NEAR, ONCOMING_EASE = 20.0, 20.0  # metres ahead from which an oncoming vehicle counts fully, and eased in before
BLEND = 8.0  # power of the mean that blends several obstacles: close to the largest, without its kinks
_ACROSS = np.pi / 2


@dataclass(frozen=True)
class Hindrance:
    """A labelled object as the driver sees it: where it is, how fast it moves along the road, and metres to move over."""

    s: float
    speed: float
    length: float
    over: float

    def nearness(self, s: float, time: float, ahead: float, ease: float) -> float:
        """1 within `ahead` metres of its ends, 0 farther than `ease` metres beyond, smooth in between."""
        away = abs(s - self.s - self.speed * time) - self.length / 2 - ahead
        return float(0.5 * (1 + np.cos(np.pi * np.clip(away / ease, 0, 1))))


@dataclass(frozen=True, eq=False)
class CautiousDriver(Driver):
    """A driver that moves over early and far for parked vehicles, cyclists and people, and keeps off oncoming vehicles."""

    def offset(self, s: float, time: float) -> float:
        """`d` of our path: the lane's middle, moved over for what stands or cycles there, less far when somebody comes."""
        wanted = self._wanted(s, time)
        shift = min((self._given_way(wanted, one, s, time) for one in self._oncoming), default=wanted)
        return self.scene.road.lane_middle() - self.scene.road.side * shift

    def _wanted(self, s: float, time: float) -> float:
        """Metres to move over for what is on our side."""
        shifts = np.array([one.over * one.nearness(s, time, BESIDE, EASE) for one in self._on_our_side])
        most = shifts.max(initial=0.0)
        return min(float(most * ((shifts / most) ** BLEND).sum() ** (1 / BLEND)), MOST_OVER) if most > 0 else 0.0

    def _given_way(self, wanted: float, one: Hindrance, s: float, time: float) -> float:
        """Metres to move over with an oncoming vehicle: no farther than it leaves room, and a little aside without need."""
        close = one.nearness(s, time, ONCOMING_NEAR, ONCOMING_EASE)
        shy = SHY * max(0.0, 1 - wanted / 0.5)
        return wanted + close * (min(wanted, one.over) - shy - wanted)

    @cached_property
    def _on_our_side(self) -> tuple[Hindrance, ...]:
        found = (_on_our_side(self.scene, thing) for thing in self.scene.things if thing.kind in CLEARANCE)
        return tuple(one for one in found if one is not None)

    @cached_property
    def _oncoming(self) -> tuple[Hindrance, ...]:
        found = (_oncoming(self.scene, thing) for thing in self.scene.things if thing.kind in CLEARANCE)
        return tuple(one for one in found if one is not None)


def _on_our_side(scene: Scene, thing: Thing) -> Hindrance | None:
    """What stands, walks or cycles on our side near our path, or None."""
    road = scene.road
    s, d, speed = _on_road(scene, thing)
    if road.side * d < 0 or not abs(speed) < SLOW:
        return None
    length, width = _extent(scene, thing)
    gap = road.side * d - width / 2 - (road.side * road.lane_middle() + WIDTH / 2)
    over = CLEARANCE[thing.kind] - gap
    return Hindrance(s, speed, length, min(over, MOST_OVER)) if over > 0 else None


def _oncoming(scene: Scene, thing: Thing) -> Hindrance | None:
    """A vehicle that comes towards us on the next lane, and how far we may move over beside it; or None."""
    road = scene.road
    s, d, speed = _on_road(scene, thing)
    if thing.track is None or speed > -SLOW:
        return None
    length, width = _extent(scene, thing)
    room = road.side * road.lane_middle() - WIDTH / 2 - (road.side * d + width / 2) - ONCOMING_GAP
    return Hindrance(s, speed, length, room) if room < MOST_OVER else None


def _on_road(scene: Scene, thing: Thing) -> tuple[float, float, float]:
    """s, d and speed along the road at the start of the drive."""
    if thing.track is not None:
        return thing.track.s, thing.track.d, thing.track.speed
    s, d, _ = scene.road.locate(np.array([thing.x]), np.array([thing.y]))[0].tolist()
    return s, d, 0.0


def _extent(scene: Scene, thing: Thing) -> tuple[float, float]:
    """Metres along and across the road."""
    low, high = thing.mesh.bounds()
    length, width = float(high[0] - low[0]), float(high[1] - low[1])
    x, y, yaw = thing.pose(scene.road, 0.0)
    s = scene.road.locate(np.array([x]), np.array([y]))[0, 0]
    turn = yaw - float(scene.road.at(float(s))[2])
    cos, sin = abs(float(np.cos(turn))), abs(float(np.sin(turn)))
    return length * cos + width * sin, length * sin + width * cos


def busier(scene: Scene) -> Scene:
    """The scene with more in our way: parked vehicles and people that step onto the road, or cyclists.

    Nobody drives ahead of us or beside us in our direction, and no wide vehicle comes towards us on a narrow road: there is
    room to move over. Added things come last, in the order in which we meet them.
    """
    rng = rng_for(0, scene.key, "busier", 0)
    kept = replace(scene, things=tuple(thing for thing in scene.things if not _needs_our_room(scene, thing)))
    cyclists = [thing for thing in kept.things if thing.kind == "cyclist" and thing.track is not None]
    parked = any(one.speed == 0 for one in driver(kept)._obstacles)
    if cyclists or (not parked and not scene.road.profile.bay and rng.random() < 0.4):
        return _joined(kept, _cyclists(kept, rng, cyclists))
    for s in _stops(kept, rng):
        kept = _joined(kept, _hazard(kept, rng, s))
    return kept


def _needs_our_room(scene: Scene, thing: Thing) -> bool:
    if thing.track is None or thing.kind not in CLEARANCE:
        return False
    narrow = scene.road.profile.lanes == 1
    return thing.track.speed >= SLOW or (narrow and thing.track.speed <= -SLOW and thing.kind in ("bus", "truck"))


def _joined(scene: Scene, more: Iterator[Thing]) -> Scene:
    return replace(scene, things=(*scene.things, *more))


def _stops(scene: Scene, rng: np.random.Generator) -> Iterator[float]:
    s = scene.start + float(rng.uniform(14, 34))
    while s < LAST:
        yield s
        s += float(rng.uniform(22, 48))


def _hazard(scene: Scene, rng: np.random.Generator, s: float) -> Iterator[Thing]:
    """Somebody who steps onto the road, or one more parked vehicle."""
    road, profile = scene.road, scene.road.profile
    lane_edge = profile.lanes * profile.lane + 0.45
    if profile.bay or rng.random() < 0.5:
        body, d, turn = model("pedestrian", rng), lane_edge - float(rng.uniform(0.0, 0.8)), -road.side * _ACROSS
        kind = "pedestrian"
    else:
        kind = str(rng.choice(["car", "van", "truck"], p=[0.7, 0.22, 0.08]))
        body, d, turn = model(kind, rng).unlit(), lane_edge + float(rng.uniform(-0.7, -0.1)), float(rng.normal(0, 0.015))
        if road.near_junction(s, 10.0) or any(-6.0 < s - crossing < 9.0 for crossing in road.crossings):
            return
    x, y, heading = road.at(s, road.side * d)
    spot = float(x), float(y), float(heading) + turn
    if _is_clear(scene, spot, body):
        yield Thing(kind, body, *spot)


def _is_clear(scene: Scene, spot: Spot, body: Mesh) -> bool:
    """Whether a standing body has room among all that stands."""
    low, high = body.bounds()
    still = replace(scene, things=tuple(thing for thing in scene.things if thing.track is None))
    return is_free(still, spot, (float(high[0] - low[0]), float(high[1] - low[1])), 0.0)


def _cyclists(scene: Scene, rng: np.random.Generator, others: list[Thing]) -> Iterator[Thing]:
    """More cyclists, as fast as those who are there."""
    edge = scene.road.side * (scene.road.profile.lanes * scene.road.profile.lane - 0.35)
    speeds = [thing.track.speed for thing in others if thing.track is not None]
    speed = speeds[0] if speeds else float(rng.uniform(3.0, 5.0))
    s = max([thing.track.s for thing in others if thing.track is not None], default=scene.start)
    for _ in range(int(rng.integers(2, 5))):
        s += float(rng.uniform(14, 40))
        yield Thing("cyclist", model("cyclist", rng), 0.0, 0.0, 0.0, Track(s, edge, speed))
