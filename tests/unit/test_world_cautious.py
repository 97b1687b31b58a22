"""The cautious driver: moves over for objects, returns to its path without them, and drives into nobody."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import cv2
import numpy as np
import pytest

from swerve.core.errors import InputError
from swerve.world.cautious import CLEARANCE, EASE, MOST_OVER, ONCOMING_EASE, PREFIX, SHY, CautiousDriver, busier
from swerve.world.driver import LARGEST, RATIO, SLOW, WHEELBASE, WIDTH, Driver, Pose, driver
from swerve.world.drives import drive, parse_frame_key, scene_key
from swerve.world.edits import Remove, edited
from swerve.world.plan import scene
from swerve.world.road import CrossSection
from swerve.world.scene import LABELLED, Scene, Thing, Track
from swerve.world.source import World
from tests.unit.test_world_driver import at, block, place


def cautious(*things: Thing, lane: float = 3.4) -> CautiousDriver:
    here = place(things=things)
    return CautiousDriver(replace(here, road=replace(here.road, profile=CrossSection(lane=lane))), 9.0)


def standing(kind: str, d: float, *, s: float = 40.0, size: tuple[float, float] = (4.0, 1.8), yaw: float = 0.0) -> Thing:
    return Thing(kind, block(*size), s, d, yaw)


EMPTY = cautious()
LANE = EMPTY.scene.road.lane_middle()
KERB = EMPTY.scene.road.profile.half


@pytest.mark.parametrize(
    ("kind", "size", "clearance"), [("car", (4.0, 1.8), 1.0), ("cyclist", (1.8, 0.6), 1.5), ("pedestrian", (0.5, 0.5), 1.5)]
)
def test_objects_get_their_clearance(kind: str, size: tuple[float, float], clearance: float) -> None:
    thing = standing(kind, -KERB + 0.4, size=size)
    path = cautious(thing).offset(40.0, 0.0)
    assert path - WIDTH / 2 - (thing.y + size[1] / 2) == pytest.approx(clearance, abs=0.02)


def test_people_are_no_obstacle_for_the_standard_driver() -> None:
    thing = standing("pedestrian", -KERB + 0.4, size=(0.5, 0.5))
    here = cautious(thing).scene
    assert Driver(here, 9.0).offset(40.0, 0.0) == LANE
    assert cautious(thing).offset(40.0, 0.0) > LANE + 0.3


def test_moves_over_no_farther_than_allowed() -> None:
    assert cautious(standing("truck", -1.0)).offset(40.0, 0.0) == pytest.approx(LANE + MOST_OVER)


def test_two_obstacles_move_no_farther_than_allowed() -> None:
    both = cautious(standing("truck", -2.0), standing("truck", -2.0, s=44.0))
    assert both.offset(42.0, 0.0) <= LANE + MOST_OVER


def test_what_is_off_the_road_is_ignored() -> None:
    for thing in (standing("car", -9.0), standing("pedestrian", -KERB - 1.5, size=(0.5, 0.5)), standing("car", 9.0)):
        assert cautious(thing).offset(40.0, 0.0) == LANE


def test_width_is_measured_across_the_road() -> None:
    """Somebody who faces the road is as wide as a step is long."""
    along, across = (standing("pedestrian", -KERB + 0.2, size=(0.9, 0.4), yaw=yaw) for yaw in (0.0, np.pi / 2))
    assert cautious(across).offset(40.0, 0.0) - cautious(along).offset(40.0, 0.0) == pytest.approx(0.25, abs=0.02)


def test_keeps_aside_for_oncoming_vehicles() -> None:
    coming = Thing("car", block(), 0.0, 0.0, 0.0, Track(50.0, -LANE, -9.0))
    hand = cautious(coming)
    assert hand.offset(40.0, 0.0) == pytest.approx(LANE - SHY)
    assert hand.offset(40.0, 10.0) == LANE
    far = Thing("car", block(), 0.0, 0.0, 0.0, Track(200.0, -LANE, -9.0))
    assert cautious(far).offset(40.0, 0.0) == LANE


def test_oncoming_vehicles_limit_the_way() -> None:
    parked = standing("car", -KERB + 0.9)
    coming = Thing("van", block(5.0, 2.0), 0.0, 0.0, 0.0, Track(50.0, -LANE, -9.0))
    alone, both = cautious(parked), cautious(parked, coming)
    shift = both.offset(40.0, 0.0) - LANE
    assert shift < alone.offset(40.0, 0.0) - LANE
    assert shift == pytest.approx(2 * -LANE - 1.0 - WIDTH / 2 - 0.3, abs=0.02)


def test_path_is_smooth() -> None:
    """Half a metre along the road, and a tenth of a second, move the path no more than the easing does."""
    things = (
        standing("car", -KERB + 0.4),
        standing("pedestrian", -KERB + 0.5, s=52.0, size=(0.5, 0.5)),
        Thing("cyclist", block(1.8, 0.6), 0.0, 0.0, 0.0, Track(70.0, -2.9, 4.0)),
        Thing("van", block(5.0, 2.0), 0.0, 0.0, 0.0, Track(90.0, -LANE, -9.0)),
    )
    hand = cautious(*things)
    path = np.array([[hand.offset(s, time) for s in np.arange(0.0, 120.0, 0.5)] for time in np.arange(0.0, 6.0, 0.1)])
    steepest = np.pi / 2 * (MOST_OVER / EASE + (MOST_OVER + SHY) / ONCOMING_EASE)  # of two half cosines, per metre
    assert np.abs(np.diff(path, axis=1)).max() <= 0.5 * steepest
    assert np.abs(np.diff(path, axis=0)).max() <= 0.1 * 9.0 * steepest
    assert np.ptp(path) > 1


@cache
def hand(number: int) -> CautiousDriver:
    here = busier(scene(f"{PREFIX}safely {number}"))
    return CautiousDriver(here, here.speed)


def drives(count: int = 8) -> list[CautiousDriver]:
    return [hand(number) for number in range(count)]


@pytest.mark.parametrize("number", range(8))
def test_cautious_driver_drives_into_nobody(number: int) -> None:
    here = hand(number).scene
    for pose in hand(number).drive(220)[::5]:
        ahead = WHEELBASE / 2
        ours = ((pose.x + np.cos(pose.yaw) * ahead, pose.y + np.sin(pose.yaw) * ahead), (4.2, WIDTH), np.degrees(pose.yaw))
        for thing in here.things:
            if thing.kind in LABELLED and thing.on_road(pose.time):
                x, y, yaw = thing.pose(here.road, pose.time)
                if np.hypot(x - pose.x, y - pose.y) < 16:
                    low, high = thing.mesh.bounds()
                    theirs = ((x, y), (float(high[0] - low[0]), float(high[1] - low[1])), float(np.degrees(yaw)))
                    assert cv2.rotatedRectangleIntersection(ours, theirs)[0] == cv2.INTERSECT_NONE, (thing.kind, pose.time)


@pytest.mark.parametrize("number", range(8))
def test_cautious_driver_stays_comfortable(number: int) -> None:
    """On the road, and below half of what tyres hold."""
    own = hand(number)
    poses = own.drive(200)
    edge = own.scene.road.locate(np.array([pose.x for pose in poses]), np.array([pose.y for pose in poses]))[:, 2]
    assert edge.max() < -0.5
    wheels = np.array([own.wheel(pose) for pose in own.drive(200, shove=0.0)])
    assert np.abs(wheels).max() < LARGEST
    sideways = own.speed**2 * np.tan(np.radians(np.abs(wheels) / RATIO)) / WHEELBASE
    assert sideways.max() < 5.0


def near(hand: Driver, frame: int) -> tuple[Pose, list[int]]:
    """The pose of a frame, and the numbers of the objects around it."""
    pose, here = hand.drive(frame + 1)[frame], hand.scene
    labelled = [number for number, thing in enumerate(here.things, 1) if thing.kind in LABELLED]
    spots = {number: here.things[number - 1].pose(here.road, pose.time) for number in labelled}
    return pose, [number for number, spot in spots.items() if np.hypot(spot[0] - pose.x, spot[1] - pose.y) < 50]


def label_without(hand: Driver, number: int, pose: Pose) -> float:
    """What it steers in a scene in which an object never stood."""
    here = hand.scene
    return replace(hand, scene=replace(here, things=here.things[: number - 1] + here.things[number:])).wheel(pose)


def test_removing_the_object_returns_the_label() -> None:
    """Without what it passes, the driver steers exactly as in the scene where that never stood."""
    moved = []
    for one in drives(3):
        pose, numbers = near(one, 40)
        for number in numbers:
            label = label_without(one, number, pose)
            assert replace(one, scene=edited(one.scene, (Remove(number),))).wheel(pose) == label
            moved.append(abs(label - one.wheel(pose)))
    assert max(moved) > 5
    assert min(moved) == 0


def test_without_objects_both_drivers_steer_alike() -> None:
    for one in drives(3):
        pose = one.drive(40)[30]
        bare = replace(one.scene, things=tuple(thing for thing in one.scene.things if thing.kind not in LABELLED))
        assert CautiousDriver(bare, one.speed).wheel(pose) == Driver(bare, one.speed).wheel(pose)


def influence(hand: Driver, frame: int) -> float:
    """How far the label moves at most when one object is removed."""
    pose, numbers = near(hand, frame)
    label = hand.wheel(pose)
    return max((abs(label_without(hand, number, pose) - label) for number in numbers), default=0.0)


def test_objects_matter_more_often() -> None:
    standard = [driver(scene(f"safely {number}")) for number in range(6)]
    often = [np.mean([influence(hand, 25) > 1 for hand in hands]) for hands in (standard, drives(6))]
    assert often[1] > often[0]


def test_busier_roads_keep_what_stood() -> None:
    for one in drives(3):
        before, after = scene(one.scene.key), one.scene
        stayed = [thing for thing in before.things if thing.track is None or thing.kind not in CLEARANCE]
        assert [thing.kind for thing in after.things if thing.kind not in CLEARANCE] == [
            thing.kind for thing in before.things if thing.kind not in CLEARANCE
        ]
        places = {(thing.x, thing.y) for thing in after.things}
        assert all((thing.x, thing.y) in places for thing in stayed)
        assert all(thing.track.speed < SLOW for thing in after.things if thing.track is not None)


def footprint(here: Scene, thing: Thing) -> tuple:
    x, y, yaw = thing.pose(here.road, 0.0)
    low, high = thing.mesh.bounds()
    return (x, y), (float(high[0] - low[0]), float(high[1] - low[1])), float(np.degrees(yaw))


def test_added_things_stand_in_nothing() -> None:
    for one in drives():
        here = one.scene
        still = [thing for thing in here.things if thing.track is None and thing.kind in (*LABELLED, "building")]
        first = len(scene(here.key).things) - 40
        for thing in here.things[first:]:
            if thing.track is None and thing.kind in LABELLED:
                for other in still:
                    if other is not thing and np.hypot(other.x - thing.x, other.y - thing.y) < 20:
                        crossed, _ = cv2.rotatedRectangleIntersection(footprint(here, thing), footprint(here, other))
                        if other.kind != "building" or thing.kind == "pedestrian":
                            assert crossed == cv2.INTERSECT_NONE, (thing.kind, other.kind)


def test_source_offers_the_cautious_driver() -> None:
    world = World(drives=2, frames=2, width=64, height=36, driver="cautious")
    key = world.keys()[0]
    assert key == f"{scene_key('test', 0, 0, driver='cautious')}#0" == f"{PREFIX}test/0/0#0"
    assert isinstance(drive(parse_frame_key(key)[0]).driver, CautiousDriver)
    case = world[key]
    assert case.truth[0].degrees == drive(case.group).driver.wheel(drive(case.group).poses[0])
    assert world.fingerprint() != World(drives=2, frames=2, width=64, height=36).fingerprint()
    with pytest.raises(InputError, match="cautious"):
        World(driver="bold")


def test_start_is_on_the_path() -> None:
    for one in drives(3):
        first = one.drive(1, shove=0.0)[0]
        assert one.deviation(first) == pytest.approx(0, abs=0.03)
        assert at(one.scene, one.scene.start, 0.0).x == pytest.approx(float(one.scene.road.at(one.scene.start)[0]))
