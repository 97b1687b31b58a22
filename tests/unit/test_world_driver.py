import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.world.driver import LARGEST, RATE, RATIO, WHEELBASE, WIDTH, Driver, Pose, driver, next_pose
from swerve.world.ground import Floor
from swerve.world.mesh import Material, mesh
from swerve.world.plan import scene
from swerve.world.road import AHEAD, BEHIND, CrossSection, Road
from swerve.world.scene import Scene, Thing, Track

COUNT = int(BEHIND + AHEAD) + 1


def place(bend: float = 0.0, things: tuple[Thing, ...] = ()) -> Scene:
    road = Road(np.full(COUNT, bend), CrossSection(lanes=1, lane=3.4))
    return Scene("s", road, Floor(), things, np.zeros((0, 3), np.float32), 0.0, 0.5, 0.0, 9.0)


def block(length: float = 4.0, width: float = 1.8):
    corners = [[[x * length / 2, y * width / 2, z] for x, y, z in tri] for tri in (
        ((-1, -1, 0), (1, -1, 0), (1, 1, 1.5)), ((-1, -1, 0), (1, 1, 1.5), (-1, 1, 0)))]  # fmt: skip
    return mesh(corners, (0.5, 0.5, 0.5), Material.PAINT)


def at(scene: Scene, s: float, d: float, askew: float = 0.0) -> Pose:
    x, y, yaw = scene.road.at(s, d)
    return Pose(float(x), float(y), float(yaw) + askew, 0.0, 9.0)


def test_straight_on_a_straight_lane() -> None:
    here = place()
    assert driver(here).wheel(at(here, 0.0, here.road.lane_middle())) == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("bend", [0.02, -0.02])
def test_steers_by_the_curve(bend: float) -> None:
    here = place(bend)
    radius = 1 / bend - here.road.lane_middle()  # of our lane, not of the centre line
    expected = np.degrees(np.arctan(WHEELBASE / radius)) * RATIO
    assert driver(here).wheel(at(here, 5.0, here.road.lane_middle())) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("aside", [0.6, -0.6])
def test_steers_back_to_the_lane(aside: float) -> None:
    here = place()
    wheel = driver(here).wheel(at(here, 0.0, here.road.lane_middle() + aside))
    assert np.sign(wheel) == -np.sign(aside)
    assert abs(wheel) > 3


def test_goes_around_a_parked_car() -> None:
    road = place().road
    car = Thing("car", block(), 40.0, -road.profile.half + 0.5, 0.0)
    here = place(things=(car,))
    offset = driver(here).offset(40.0, 0.0)
    inner = car.y + 0.9
    assert offset - WIDTH / 2 - inner == pytest.approx(0.75, abs=0.05)
    assert driver(here).offset(5.0, 0.0) == here.road.lane_middle()


def test_parked_car_off_the_lane_is_no_obstacle() -> None:
    away = Thing("car", block(), 40.0, -8.0, 0.0)
    assert driver(place(things=(away,))).offset(40.0, 0.0) == place().road.lane_middle()


def test_oncoming_cars_are_no_obstacle() -> None:
    coming = Thing("car", block(), 0.0, 0.0, 0.0, Track(40.0, 1.7, -9.0))
    assert driver(place(things=(coming,))).offset(40.0, 0.0) == place().road.lane_middle()


def test_cyclist_is_passed_where_he_is() -> None:
    cyclist = Thing("cyclist", block(1.7, 0.6), 0.0, 0.0, 0.0, Track(30.0, -2.9, 4.0))
    here = driver(place(things=(cyclist,)))
    still = here.scene.road.lane_middle()
    assert here.offset(30.0, 0.0) > still
    assert here.offset(30.0, 10.0) == still
    assert here.offset(70.0, 10.0) > still


@pytest.mark.parametrize("key", [f"k{number}" for number in range(12)])
def test_mirrored_scene_mirrors_the_wheel(key: str) -> None:
    one = scene(key)
    other = one.mirrored()
    hands = driver(one), driver(other)
    there, here = (hand.drive(60) for hand in hands)
    for left, right in zip(there[::7], here[::7], strict=True):
        assert (right.x, right.y, right.yaw) == pytest.approx((left.x, -left.y, -left.yaw), abs=0.05)
        assert hands[1].wheel(right) == pytest.approx(-hands[0].wheel(left), abs=0.6)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_drives_stay_on_the_road(seed: int) -> None:
    one = scene(f"drive {seed}")
    hand = driver(one)
    poses = hand.drive(200)
    edge = one.road.locate(np.array([pose.x for pose in poses]), np.array([pose.y for pose in poses]))[:, 2]
    assert edge.max() < -0.5
    assert max(abs(hand.wheel(pose)) for pose in poses) < LARGEST


def test_steady_hand_holds_the_lane() -> None:
    here = Driver(place(0.01), 9.0)
    poses = here.drive(150, shove=0.0)
    d = here.scene.road.locate(np.array([p.x for p in poses]), np.array([p.y for p in poses]))[:, 1]
    assert np.abs(d - here.scene.road.lane_middle()).max() < 0.25


def footprint(x: float, y: float, yaw: float, size: tuple[float, float]) -> tuple:
    return (x, y), size, float(np.degrees(yaw))


@pytest.mark.parametrize("number", range(30))
def test_nobody_is_driven_into(number: int) -> None:
    one = scene(f"drive safely {number}")
    sizes = {id(thing): thing.mesh.bounds() for thing in one.things}
    for pose in driver(one).drive(220)[::4]:
        ahead = WHEELBASE / 2
        ours = footprint(pose.x + np.cos(pose.yaw) * ahead, pose.y + np.sin(pose.yaw) * ahead, pose.yaw, (4.2, WIDTH))
        for thing in one.things:
            if thing.kind in ("car", "van", "bus", "truck", "cyclist") and thing.on_road(pose.time):
                x, y, yaw = thing.pose(one.road, pose.time)
                low, high = sizes[id(thing)]
                if np.hypot(x - pose.x, y - pose.y) < 16:
                    theirs = footprint(x, y, yaw, (float(high[0] - low[0]), float(high[1] - low[1])))
                    assert cv2.rotatedRectangleIntersection(ours, theirs)[0] == cv2.INTERSECT_NONE, (thing.kind, pose.time)


def test_nobody_stands_where_we_start() -> None:
    for number in range(40):
        one = scene(f"start {number}")
        x, y, _ = one.road.at(one.start, one.road.lane_middle())
        for thing in one.things:
            if thing.kind in ("car", "van", "bus", "truck", "cyclist"):
                there = thing.pose(one.road, 0.0)
                low, high = thing.mesh.bounds()
                ahead = np.hypot(there[0] - x, there[1] - y)
                side = abs(one.road.locate(np.array([there[0]]), np.array([there[1]]))[0, 1] - one.road.lane_middle())
                assert ahead > (high[0] - low[0]) / 2 + 3 or side > 1.5, (one.key, thing.kind)


@pytest.mark.parametrize("wheel", [-90.0, -3.0, 20.0, 150.0])
@pytest.mark.parametrize("rate", [RATE, 50.0])
def test_constant_wheel_drives_a_circle(wheel: float, rate: float) -> None:
    radius = WHEELBASE / np.tan(np.radians(wheel / RATIO))
    poses = [Pose(2.0, -1.0, 0.3, 0.0, 8.0)]
    for _ in range(200):
        poses.append(next_pose(poses[-1], wheel, rate=rate))
    last = poses[-1]
    assert last.time == pytest.approx(200 / rate)
    assert last.yaw == pytest.approx(0.3 + 8.0 * last.time / radius)
    centre = 2.0 - np.sin(0.3) * radius, -1.0 + np.cos(0.3) * radius
    away = [np.hypot(pose.x - centre[0], pose.y - centre[1]) for pose in poses]
    assert away == pytest.approx([abs(radius)] * len(away), rel=1e-3, abs=2e-3)


def test_straight_wheel_drives_straight() -> None:
    pose = next_pose(Pose(1.0, 2.0, np.pi / 2, 3.0, 10.0), 0.0)
    assert (pose.x, pose.y, pose.yaw, pose.time) == pytest.approx((1.0, 2.5, np.pi / 2, 3.05))
    assert pose.speed == 10.0


def test_two_half_steps_make_one() -> None:
    start = Pose(0.0, 0.0, 0.0, 0.0, 9.0)
    whole, half = next_pose(start, 60.0), next_pose(next_pose(start, 60.0, rate=2 * RATE), 60.0, rate=2 * RATE)
    assert (half.x, half.y, half.yaw, half.time) == pytest.approx((whole.x, whole.y, whole.yaw, whole.time), abs=2e-3)


@settings(max_examples=40, deadline=None)
@given(st.floats(-0.02, 0.02), st.floats(0, 200), st.floats(-2, 2), st.floats(-0.4, 0.4))
def test_deviation_is_the_distance_to_our_path(bend: float, s: float, left: float, askew: float) -> None:
    here = place(bend)
    pose = at(here, s, here.road.lane_middle() + left, askew)
    assert driver(here).deviation(pose) == pytest.approx(left, abs=0.02)


def test_deviation_knows_what_we_pass() -> None:
    car = Thing("car", block(), 40.0, -place().road.profile.half + 0.5, 0.0)
    here = place(things=(car,))
    hand = driver(here)
    on_path = at(here, 40.0, hand.offset(40.0, 0.0))
    assert hand.deviation(on_path) == pytest.approx(0, abs=0.02)
    assert hand.deviation(at(here, 40.0, here.road.lane_middle())) < -0.3


def test_deviation_is_the_shortest_way_to_the_path() -> None:
    here = place(0.015)
    hand = driver(here)
    line = np.stack(hand.path(np.arange(0.0, 120.0, 0.05), 0.0)[:2], 1)
    for pose in hand.drive(100)[::9]:
        nearest = np.hypot(*(line - (pose.x, pose.y)).T).min()
        assert abs(hand.deviation(pose)) == pytest.approx(nearest, abs=0.03)
