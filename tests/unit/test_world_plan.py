"""Scenes in which nothing stands inside anything else, and training drives that leave their path."""

from functools import cache

import cv2
import numpy as np
import pytest

from swerve.core.values import Array
from swerve.world.driver import WIDTH, driver
from swerve.world.drives import ASTRAY, drive
from swerve.world.footprint import HEADROOM, TakenGround
from swerve.world.mesh import Material, mesh
from swerve.world.pavement import Pavement
from swerve.world.plan import SIDEWAYS, scene
from swerve.world.road import AHEAD, BEHIND, Road
from swerve.world.scene import LABELLED, Scene, Thing, Track
from swerve.world.shapes import box

KEYS = [f"plan {number}" for number in range(5)]
STRAIGHT = Road(np.zeros(int(BEHIND + AHEAD) + 1))


@cache
def made(key: str) -> Scene:
    return scene(key)


def rectangle(thing: Thing, road: Road, time: float) -> tuple:
    points = thing.mesh.corners.reshape(-1, 3)
    low = points[points[:, 2] < HEADROOM][:, :2]
    middle, size = (low.min(0) + low.max(0)) / 2, np.ptp(low, axis=0)
    x, y, yaw = thing.pose(road, time)
    at = x + np.cos(yaw) * middle[0] - np.sin(yaw) * middle[1], y + np.sin(yaw) * middle[0] + np.cos(yaw) * middle[1]
    return (float(at[0]), float(at[1])), (float(size[0]), float(size[1])), float(np.degrees(yaw))


def shared(one: tuple, other: tuple) -> float:
    """Square metres that two rectangles share."""
    if np.hypot(one[0][0] - other[0][0], one[0][1] - other[0][1]) > 25:
        return 0.0
    corners = cv2.rotatedRectangleIntersection(one, other)[1]
    return 0.0 if corners is None else float(cv2.contourArea(corners))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("time", [0.0, 6.0, 14.0])
def test_labelled_things_overlap_nothing(key: str, time: float) -> None:
    place = made(key)
    here = [(thing.kind, rectangle(thing, place.road, time)) for thing in place.things if thing.on_road(time)]
    for number, (kind, ground) in enumerate(here):
        if kind in LABELLED:
            met = [other for row, (other, there) in enumerate(here) if row != number and shared(ground, there) > 0.01]
            assert not met, (kind, met)


def block(size: float) -> Array:
    return mesh(box((-size, -size, 0), (size, size, 1)), (0.5, 0.5, 0.5), Material.WALL)


def test_room_ends_at_what_stands() -> None:
    ground = TakenGround()
    ground.take(3.0, 0.0, 1.0)
    assert ground.has_room(Thing("crate", block(1.0), 0.9, 0.0, 0.0), 0.05)
    assert not ground.has_room(Thing("crate", block(1.0), 1.1, 0.0, 0.0), 0.05)


def test_crowns_leave_the_ground_free() -> None:
    ground, crown = TakenGround(), mesh(box((-3, -3, HEADROOM + 0.1), (3, 3, 5)), (0, 0, 0), Material.LEAVES)
    trunk = block(0.2)
    tree = type(trunk)(
        *(np.concatenate([getattr(trunk, name), getattr(crown, name)]) for name in trunk.__dataclass_fields__)
    )
    ground.stand(Thing("tree", tree, 0.0, 0.0, 0.0))
    assert ground.is_free(1.0, 0.0, 0.5)
    assert not ground.is_free(0.4, 0.0, 0.5)


def test_paths_that_meet_are_refused() -> None:
    pavement = Pavement(STRAIGHT, np.array([[50.0, 6.0, 0.3]]))
    assert pavement.take(Track(0.0, 6.0, 1.0))
    assert not pavement.take(Track(12.0, 6.2, -1.0)), "they walk into each other"
    assert pavement.take(Track(12.0, 7.2, -1.0))
    assert not pavement.take(Track(40.0, 6.0, 1.0)), "something stands there"
    assert pavement.take(Track(60.0, 6.0, 1.0))


def test_speed_suits_the_tightest_bend() -> None:
    for key in KEYS:
        place = made(key)
        assert place.speed**2 * np.abs(place.road.curvature).max() <= SIDEWAYS + 1e-9


def test_training_drives_leave_their_path() -> None:
    key = f"{ASTRAY}0/5"
    hand = drive(key).driver
    plain, astray = (off_path(key, hand.drive(200, astray=far)) for far in (False, True))
    assert drive(key).poses == hand.drive(300, astray=True)
    assert np.abs(astray).mean() > 1.5 * np.abs(plain).mean()
    assert np.abs(astray).max() < 1.6


def off_path(key: str, poses: list) -> Array:
    hand = driver(drive(key).scene)
    place = hand.scene.road.locate(np.array([pose.x for pose in poses]), np.array([pose.y for pose in poses]))
    return np.array([d - hand.offset(s, pose.time) for (s, d, _), pose in zip(place.tolist(), poses, strict=True)])


def test_test_drives_keep_their_path() -> None:
    for split in ("test", "lidar-train"):
        way = drive(f"{split}/0/1")
        assert way.poses[:20] == way.driver.drive(300)[:20]


def test_labels_lead_back_to_the_path() -> None:
    """Far off the path, the label steers towards it, whatever the bend asks for."""
    checked = 0
    for number in range(2):
        way = drive(f"{ASTRAY}1/{number}")
        away = off_path(f"{ASTRAY}1/{number}", way.poses)
        for pose, off in zip(way.poses, away, strict=True):
            s = float(way.scene.road.locate(np.array([pose.x]), np.array([pose.y]))[0, 0])
            x, y, yaw = way.scene.road.at(s, way.driver.offset(s, pose.time))
            if abs(off) > 0.6 and off * (pose.yaw - float(yaw)) > 0:
                ideal = way.driver.wheel(type(pose)(float(x), float(y), float(yaw), pose.time, pose.speed))
                assert np.sign(way.driver.wheel(pose) - ideal) == -np.sign(off)
                checked += 1
    assert checked > 5


def test_training_drives_stay_on_the_road() -> None:
    for number in range(2):
        way = drive(f"{ASTRAY}1/{number}")
        edge = way.scene.road.locate(np.array([p.x for p in way.poses[:200]]), np.array([p.y for p in way.poses[:200]]))[
            :, 2
        ]
        assert edge.max() < -WIDTH / 4
