"""Sweeps, looked at closely: rays against the camera's own scene, points against boxes, borders against kerbs."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.core.region import area_of, distance, inside
from swerve.core.values import Array, Boxes3D, Calibration, Image, PointCloud, Region, SceneRef, find
from swerve.testing import SourceContract
from swerve.world.camera import Camera
from swerve.world.crowd import Crowded, add_crowd, islands, moving_things, outline
from swerve.world.drivable import REACH, contours, drivable
from swerve.world.drives import drive
from swerve.world.frames import render_frame
from swerve.world.laser_scanner import LaserScanner, cast_beams, directions, rotate_left
from swerve.world.lidar_source import LidarWorld
from swerve.world.lidar_sweep import FEWEST, KINDS, boxes, sweep
from swerve.world.mesh import Material
from swerve.world.road import MARGIN
from swerve.world.scene import LABELLED
from swerve.world.source import World

SMALL = LaserScanner(columns=360)
PLAIN = LaserScanner(columns=360, noise=0.0, lost=0.0)
AVENUE, *_ = KEYS = [f"lidar-test/0/{number}" for number in range(3)]
NUMBER = 40


@cache
def seen(key: str = KEYS[0], lidar: LaserScanner = SMALL):
    """Scene, pose, sweep, region and boxes of one frame."""
    way = drive(key)
    pose, place = way.poses[NUMBER], way.scene_of(NUMBER)
    found = sweep(place, pose, lidar)
    rings = tuple(outline(thing) for thing in islands(way.scene))
    region = drivable(place.road, pose, lidar.forward, rings)
    return place, pose, found, region, boxes(place, pose, lidar, found, region)


def in_world(pose, xy: Array) -> tuple[Array, Array]:
    """Points beside the LiDAR as points of the world."""
    x, y = rotate_left(np.vstack([xy.T, np.zeros(len(xy))]), pose.yaw)[:2] + SMALL.eye(pose)[:2, None]
    return x, y


def placed(xyz: Array, box: Array) -> Array:
    """Points in the frame of a box, in halves of its size: within it none is beyond 1."""
    cos, sin = np.cos(box[6]), np.sin(box[6])
    return (xyz - box[:3]) @ np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]]) / (box[3:6] / 2)


class TestLidar:
    def test_as_the_maker_builds_it(self) -> None:
        up = LaserScanner().elevations
        assert len(up) == 64
        assert (up[0], up[-1]) == (2.0, -24.8)
        assert up[0] - up[-1] == pytest.approx(26.8)
        steps = -np.diff(up)
        assert (steps > 0).all()
        assert steps[:31] == pytest.approx(np.full(31, 1 / 3), abs=0.01)
        assert steps[-31:] == pytest.approx(np.full(31, 0.5), abs=0.03)

    def test_directions_go_all_around(self) -> None:
        rays = directions(SMALL)
        assert rays.shape == (3, 64 * 360)
        assert np.linalg.norm(rays, axis=0) == pytest.approx(np.ones(rays.shape[1]), abs=1e-5)
        assert rays[:, 0] == pytest.approx([np.cos(np.radians(2)), 0, np.sin(np.radians(2))])
        assert rays[1, 90] == pytest.approx(np.cos(np.radians(2)))  # the second quarter lies to the left

    @pytest.mark.parametrize("wrong", [{"beams": 1}, {"columns": 4}, {"beams": 900}])
    def test_numbers_are_checked(self, wrong) -> None:
        with pytest.raises(InputError, match="a LiDAR needs 2 to 256 beams and 8 to 8192 columns"):
            LaserScanner(**wrong)


class TestRays:
    @pytest.mark.parametrize("key", KEYS)
    def test_meet_what_the_camera_s_rays_meet(self, key: str) -> None:
        """Moving things are met in their own frames: the same as casting into the whole scene at once."""
        place, pose, *_ = seen(key)
        found = cast_beams(place, pose, SMALL, 0.01)
        snapshot = place.at(pose.time)
        rays = rotate_left(directions(SMALL), 0.01 + pose.yaw)
        hits = snapshot.cast(SMALL.eye(pose).astype(np.float32)[:, None], rays)
        near = (hits.triangle >= 0) & (hits.distance < SMALL.range)
        thing = np.where(near, snapshot.of("owner", hits.triangle), -1)
        assert (found.thing == thing).mean() > 0.9999  # outlines fall this way or that
        same = (found.thing == thing) & near
        assert np.abs(found.distance - hits.distance)[same].max() < 0.01
        assert (found.material == snapshot.of("material", hits.triangle))[same].mean() > 0.9999
        assert {number for number, thing_, _ in moving_things(place, pose.time) if thing_.kind in LABELLED} & set(thing)

    def test_a_thing_beyond_the_outline_would_be_missed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Planted: an outline of half the size loses points of everyone."""
        place, pose, *_ = seen()
        whole = cast_beams(place, pose, SMALL)
        monkeypatch.setattr("swerve.world.laser_scanner._extent", lambda mesh: (0.1, 0.5))
        numbers = [number for number, *_ in moving_things(place, pose.time)]
        assert np.isin(cast_beams(place, pose, SMALL).thing, numbers).sum() < 0.5 * np.isin(whole.thing, numbers).sum()

    @pytest.mark.parametrize("key", KEYS)
    def test_nothing_of_our_own_car_is_met(self, key: str) -> None:
        _, _, found, *_ = seen(key)
        x, y = found.xyzi[:, 0], found.xyzi[:, 1]
        assert not ((x > -2.0) & (x < 2.4) & (np.abs(y) < 0.9)).any()  # 4.4 m long, 1.8 m wide, the LiDAR on its roof

    def test_flat_ground_faces_up(self) -> None:
        place, pose, *_ = seen()
        found = cast_beams(place, pose, SMALL)
        ground = (found.material == Material.GROUND) & (found.thing == 0)
        assert found.facing[ground] == pytest.approx(-directions(SMALL)[2, ground], abs=1e-4)


class TestSweep:
    @pytest.mark.parametrize("key", KEYS)
    def test_looks_like_a_real_one(self, key: str) -> None:
        """About 100,000 points in 120 m, the road 1.73 m below, intensities in 255 steps (LM-10)."""
        _, _, found, *_ = seen(key, LaserScanner())
        assert 90_000 < len(found.xyzi) < 121_600
        assert found.xyzi.dtype == np.float32
        away = np.linalg.norm(found.xyzi[:, :3], axis=1)
        assert away.max() <= 120.001
        assert away.min() > 0.9
        assert np.percentile(found.xyzi[:, 2], 20) == pytest.approx(-1.73, abs=0.05)
        steps = found.xyzi[:, 3] * 255
        assert np.abs(steps - np.rint(steps)).max() < 1e-3
        assert 0 <= found.xyzi[:, 3].min() < 0.05 < 0.9 < found.xyzi[:, 3].max() <= 1

    def test_same_frame_gives_the_same_bytes(self) -> None:
        place, pose, found, *_ = seen()
        again = sweep(add_crowd(place.base, pose), pose, SMALL)
        assert again.xyzi.tobytes() == found.xyzi.tobytes()
        assert again.things.tobytes() == found.things.tobytes()

    def test_other_frames_give_others(self) -> None:
        way = drive(KEYS[0])
        one, two = (sweep(way.scene, way.poses[number], SMALL).xyzi for number in (0, 1))
        assert one.shape != two.shape or not np.array_equal(one, two)

    def test_without_noise_the_road_is_flat(self) -> None:
        _, _, found, *_ = seen(KEYS[0], PLAIN)
        low = found.xyzi[found.xyzi[:, 2] < -1.725]
        assert len(low) > 5_000
        assert np.abs(low[:, 2] + 1.73).max() < 0.005

    def test_noise_is_of_the_range(self) -> None:
        """Measured against the ground: beam by beam the range is off by 2 cm, the direction not at all."""
        place, pose, *_ = seen()
        noisy = sweep(place, pose, replace(PLAIN, noise=0.02))
        xyz = noisy.xyzi[noisy.things == 0, :3].astype(float)
        away = np.linalg.norm(xyz, axis=1)
        flat = xyz[:, 2] / away  # the beam's own slope
        wanted = -1.73 / np.minimum(flat, -1e-6)
        ground = np.abs(away - wanted) < 0.1
        off = (away - wanted)[ground]
        assert ground.sum() > 5_000
        assert off.std() == pytest.approx(0.02, rel=0.15)
        assert abs(off.mean()) < 0.003

    def test_returns_are_lost_as_told(self) -> None:
        place, pose, *_ = seen()
        all_of_them, half = (len(sweep(place, pose, replace(PLAIN, lost=lost)).xyzi) for lost in (0.0, 0.5))
        assert half / all_of_them == pytest.approx(0.5, abs=0.02)

    def test_dark_road_fades_before_bright_walls(self) -> None:
        """The maker's own figures: 50 m for asphalt, 120 m for what shines back four fifths."""
        place, pose, found, *_ = seen(KEYS[1], PLAIN)
        away = np.linalg.norm(found.xyzi[:, :3], axis=1)
        road = (found.things == 0) & (np.abs(found.xyzi[:, 2] + 1.73) < 0.02)
        on_road = np.zeros(len(away), bool)
        x, y, _ = rotate_left(found.xyzi[:, :3].T, pose.yaw) + PLAIN.eye(pose)[:, None]
        on_road[road] = place.road.locate(x[road], y[road])[:, 2] < -0.2
        assert 30 < np.quantile(away[on_road], 0.998) < 60  # some returns are of markings
        assert away[found.things > 0].max() > 60

    def test_markings_shine_and_asphalt_does_not(self) -> None:
        place, pose, found, *_ = seen(KEYS[0], LaserScanner(columns=1900, noise=0.0))
        x, y, _ = rotate_left(found.xyzi[:, :3].T, pose.yaw) + PLAIN.eye(pose)[:, None]
        _, d, edge = place.road.locate(x, y).T
        ground = (found.things == 0) & (found.xyzi[:, 2] < -1.72) & (np.linalg.norm(found.xyzi[:, :2], axis=1) < 15)
        asphalt = found.xyzi[ground & (edge < -1) & (np.abs(d) % place.road.profile.lane > 0.5), 3]
        beside = found.xyzi[ground & (edge > 0.6), 3]
        assert asphalt.mean() < 0.12 < 0.15 < beside.mean()
        assert np.percentile(asphalt, 99.9) > 2 * asphalt.mean()  # a bar, an arrow, a dash

    def test_things_throw_shadows(self) -> None:
        """Within the outline of a near car, seen from the sensor, no point lies beyond it and below its roof."""
        _, _, found, _, labels = seen()
        cars = [row for row, kind in enumerate(labels.kinds) if kind == "car" and np.hypot(*labels.xyzlwhy[row, :2]) < 25]
        assert cars
        turn = np.arctan2(found.xyzi[:, 1], found.xyzi[:, 0])
        away = np.hypot(found.xyzi[:, 0], found.xyzi[:, 1])
        for row in cars:
            x, y, _, length, width, *_ = labels.xyzlwhy[row]
            middle = np.arctan2(y, x)
            behind = np.abs((turn - middle + np.pi) % (2 * np.pi) - np.pi) < 0.3 * width / np.hypot(x, y)
            beyond = behind & (away > np.hypot(x, y) + length) & (away < 1.6 * np.hypot(x, y))
            assert (found.xyzi[beyond, 2] > -1.6).all()  # no road


class TestBoxes:
    @pytest.mark.parametrize("key", KEYS)
    def test_points_lie_in_their_boxes(self, key: str) -> None:
        """A box for everyone who returned something, and every such point in one of them, but for the noise."""
        place, _, found, _, labels = seen(key, LaserScanner())
        known = [number for number, thing in enumerate(place.things, 1) if thing.kind in KINDS]
        met = [number for number in known if (found.things == number).any()]
        assert sorted(labels.kinds) == sorted(KINDS[place.things[number - 1].kind] for number in met)
        held = [(np.abs(placed(found.xyzi[:, :3], box)) <= 1 + 0.2 / box[3:6]).all(axis=1) for box in labels.xyzlwhy]
        assert np.any(held, axis=0)[np.isin(found.things, known)].all()

    def test_a_quarter_turn_would_be_seen(self) -> None:
        _, _, found, _, labels = seen(KEYS[0], LaserScanner())
        right = wrong = 0
        for box, kind in zip(labels.xyzlwhy, labels.kinds, strict=True):
            if kind == "car":
                other = box + np.array([0, 0, 0, 0, 0, 0, np.pi / 2])
                right += (np.abs(placed(found.xyzi[:, :3], box)) <= 1.05).all(axis=1).sum()
                wrong += (np.abs(placed(found.xyzi[:, :3], other)) <= 1.05).all(axis=1).sum()
        assert wrong < 0.7 * right

    @pytest.mark.parametrize("key", KEYS)
    def test_only_who_is_on_the_road_and_seen_is_demanded(self, key: str) -> None:
        _, _, found, region, labels = seen(key)
        on_road = inside(region, labels.xyzlwhy[:, :2])
        care = np.asarray(labels.care)
        assert not (care & ~on_road).any()
        held = [(np.abs(placed(found.xyzi[:, :3], box)) <= 1 + 0.3 / box[3:6]).all(axis=1).sum() for box in labels.xyzlwhy]
        assert (np.array(held)[care] >= FEWEST).all()
        assert care.any()
        assert not care.all()
        away = np.hypot(*labels.xyzlwhy[:, :2].T)
        assert (np.diff(away) >= 0).all()

    def test_every_labelled_kind_has_a_type(self) -> None:
        assert set(LABELLED) <= set(KINDS)
        assert set(KINDS.values()) == {"car", "pedestrian", "cyclist", "unknown"}

    def test_they_stand_on_the_road(self) -> None:
        _, _, _, _, labels = seen()
        bottom = labels.xyzlwhy[:, 2] - labels.xyzlwhy[:, 5] / 2
        assert np.abs(bottom + 1.73).max() < 0.25


class TestContours:
    def field(self, size: int = 60) -> tuple[Array, Array]:
        return np.meshgrid(np.arange(size) - size / 2 + 0.3, np.arange(size) - size / 2 - 0.2)

    def test_circle(self) -> None:
        x, y = self.field()
        (ring,) = contours(np.hypot(x, y) - 20)
        assert area_of(ring) == pytest.approx(np.pi * 400, rel=0.002)
        assert np.hypot(ring[:, 0] - 29.7, ring[:, 1] - 30.2) == pytest.approx(np.full(len(ring), 20), abs=0.02)

    def test_ring_has_a_hole_the_other_way_round(self) -> None:
        x, y = self.field()
        areas = sorted(area_of(ring) for ring in contours(np.abs(np.hypot(x, y) - 16) - 6))
        assert areas == pytest.approx([-np.pi * 100, np.pi * 484], rel=0.01)

    def test_cells_with_both_diagonals_come_apart(self) -> None:
        field = np.ones((4, 4))
        field[1, 1] = field[2, 2] = -1
        assert sorted(area_of(ring) for ring in contours(field)) == pytest.approx([0.5, 0.5])

    @pytest.mark.parametrize("seed", range(8))
    def test_any_field_closes(self, seed: int) -> None:
        field = np.pad(np.random.default_rng(seed).normal(size=(20, 20)), 1, constant_values=1.0)
        region = Region(tuple(contours(field)))
        spots = np.column_stack([part.ravel() for part in np.meshgrid(np.arange(22.0), np.arange(22.0))])
        assert (inside(region, spots) == (field.ravel() <= 0)).all()

    def test_nothing_below_gives_nothing(self) -> None:
        assert contours(np.ones((5, 5))) == []


class TestRegion:
    @pytest.mark.parametrize("key", KEYS)
    def test_border_is_the_kerb(self, key: str) -> None:
        place, pose, _, region, _ = seen(key)
        corners = np.concatenate([ring for ring in region.polygons if area_of(ring) > 0])
        x, y = in_world(pose, corners[(np.abs(corners) < REACH - 0.5).all(axis=1)])
        around = [place.road.locate(x + a, y + b)[:, 2] for a, b in ((-2, 0), (2, 0), (0, -2), (0, 2))]
        edge = place.road.locate(x, y)[np.max(around, axis=0) < MARGIN, 2]  # elsewhere the map ends
        assert len(edge) > 20
        assert np.abs(edge).max() < 0.08

    @pytest.mark.parametrize("key", KEYS)
    def test_holds_the_road_and_nothing_else(self, key: str) -> None:
        place, pose, _, region, _ = seen(key)
        spots = np.random.default_rng(0).uniform(-REACH, REACH, (3_000, 2))
        edge = place.road.locate(*in_world(pose, spots))[:, 2]
        clear = np.abs(edge) > 0.1
        outer = Region(tuple(ring for ring in region.polygons if area_of(ring) > 0))
        assert (inside(outer, spots) == (edge < 0))[clear].all()
        assert inside(region, np.zeros((1, 2))).all()  # we drive on it
        assert max(np.abs(ring).max() for ring in region.polygons) <= REACH + 1e-6

    def test_islands_are_holes(self) -> None:
        place, _, _, region, _ = seen(AVENUE)
        holes = [ring for ring in region.polygons if area_of(ring) < 0]
        assert 1 <= len(holes) <= sum(thing.kind == "island" for thing in place.things)
        for hole in holes:
            assert area_of(hole) == pytest.approx(-4.4)
            assert not inside(region, hole.mean(axis=0, keepdims=True)).any()
            assert inside(region, hole * 1.2 - hole.mean(axis=0) * 0.2).all()  # there is road around it

    def test_points_on_islands_lie_in_their_holes(self) -> None:
        place, _, found, region, _ = seen(AVENUE, PLAIN)
        numbers = [n for n, thing in enumerate(place.things, 1) if thing.kind == "island"]
        met = found.xyzi[np.isin(found.things, numbers), :2]
        holes = Region(tuple(ring for ring in region.polygons if area_of(ring) < 0))
        assert len(met) > 20
        assert (inside(holes, met) | (distance(holes, met) < 0.01)).all()

    def test_islands_beyond_the_cut_are_left_out(self) -> None:
        place, pose, *_ = seen(AVENUE)
        for ahead, kept in ((110.0, True), (118.0, False), (130.0, False)):
            ring = np.column_stack(in_world(pose, np.array([[ahead, 0.0], [ahead + 3, -1.0], [ahead + 3, 1.0]])))
            found = drivable(place.road, pose, SMALL.forward, (ring[::-1],)).polygons
            assert any(area_of(ring) < 0 for ring in found) is kept


def rectangle(thing, place: tuple[float, float, float]) -> Region:
    low, high = thing.mesh.bounds()
    corners = np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]], float)
    x, y, yaw = place
    return Region((corners @ np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]]) + np.array([x, y]),))


class TestCrowd:
    @pytest.mark.parametrize("number", [0, 60, 120])
    @pytest.mark.parametrize("key", KEYS)
    def test_nobody_stands_in_anybody(self, key: str, number: int) -> None:
        way = drive(key)
        pose = way.poses[number]
        place = way.scene_of(number)
        assert isinstance(place, Crowded)
        everyone = [
            rectangle(thing, thing.pose(place.road, pose.time))
            for thing in place.things
            if thing.kind in KINDS and thing.on_road(pose.time)
        ]
        new = everyone[-sum(thing.kind in KINDS for thing in place.things[len(place.base.things) :]) :]
        for one, other in combinations(everyone, 2):
            if one in new or other in new:
                assert not inside(one, _filled(other)).any()
        ours = np.array([[pose.x, pose.y], [pose.x + 2.7 * np.cos(pose.yaw), pose.y + 2.7 * np.sin(pose.yaw)]])
        assert not any(inside(one, ours).any() for one in new)

    @pytest.mark.parametrize("key", KEYS)
    def test_all_stand_on_the_road(self, key: str) -> None:
        place, *_ = seen(key)
        added = [thing for thing in place.things[len(place.base.things) :] if thing.kind != "island"]
        edge = place.road.locate(*np.array([[thing.x, thing.y] for thing in added]).T)[:, 2]
        assert (edge < 0).all()

    def test_enough_of_everybody_to_learn_from(self) -> None:
        """Within 30 m and on the road, at least one of each kind a sweep on average."""
        counts = dict.fromkeys(KINDS.values(), 0)
        source = LidarWorld(drives=3, frames=6, split="train")
        for _, _, labels in source.samples():
            for kind, box, care in zip(labels.kinds, labels.xyzlwhy, np.asarray(labels.care), strict=True):
                counts[kind] += bool(care) and np.hypot(*box[:2]) < 30
        assert min(counts["car"], counts["pedestrian"], counts["cyclist"]) >= 18, counts
        assert counts["unknown"] >= 9, counts

    def test_the_camera_s_own_scenes_have_none(self) -> None:
        way = drive("test/0/0")
        assert way.scene_of(3) is way.scene

    def test_the_still_part_is_not_built_again(self) -> None:
        way = drive(KEYS[0])
        assert way.scene_of(3).static is way.scene.static

    def test_every_frame_has_another(self) -> None:
        way = drive(KEYS[0])
        one, two = (way.scene_of(number).things[len(way.scene.things) :] for number in (0, 10))
        assert [(thing.x, thing.y) for thing in one] != [(thing.x, thing.y) for thing in two]


def _filled(region: Region) -> Array:
    """Points all over a rectangle."""
    a, b, _, d = region.polygons[0]
    share = np.linspace(0, 1, 9)
    return np.concatenate([a + u * (b - a) + share[:, None] * (d - a) for u in share])


class TestSource:
    def test_cases_have_cloud_region_and_boxes(self) -> None:
        case = LidarWorld(drives=1)["lidar-test/0/0#0"]
        assert isinstance(case.inputs["lidar"], PointCloud)
        assert isinstance(case.inputs["region"], Region)
        assert isinstance(find(case.truth, "boxes3d"), Boxes3D)
        ref = find(case.truth, "scene")
        assert isinstance(ref, SceneRef)
        assert ref.scene == case.key
        assert set(case.inputs) == {"lidar", "region"}
        assert case.inputs["lidar"].fault() is None

    def test_splits_and_seeds_share_no_scene(self) -> None:
        parts = [
            LidarWorld(drives=3, frames=2, split=split, seed=seed) for split in ("train", "val", "test") for seed in (0, 1)
        ]
        groups = [{part.group(key) for key in part.keys()} for part in parts]
        assert all(len(each) == 3 for each in groups)
        assert not any(one & other for one, other in combinations(groups, 2))
        assert not groups[0] & {World(drives=3, split="train").group(key) for key in World(drives=3, split="train").keys()}

    def test_longer_source_begins_the_same(self) -> None:
        short, long = LidarWorld(drives=2, frames=1), LidarWorld(drives=3, frames=3)
        assert set(short.keys()) < set(long.keys())
        assert short["lidar-test/0/1#0"].input_sha == long["lidar-test/0/1#0"].input_sha

    def test_threads_read_the_same(self) -> None:
        source = LidarWorld(drives=2, frames=3)
        alone = {key: LidarWorld(drives=2, frames=3)[key].input_sha for key in source.keys()}
        with ThreadPoolExecutor(4) as pool:
            together = dict(zip(source.keys(), pool.map(lambda key: source[key].input_sha, source.keys()), strict=True))
        assert together == alone

    def test_pickled_source_reads_the_same(self) -> None:
        source = LidarWorld(drives=1)
        again = pickle.loads(pickle.dumps(source))
        assert again == source
        assert again["lidar-test/0/0#0"].input_sha == source["lidar-test/0/0#0"].input_sha

    def test_samples_are_the_cases(self) -> None:
        source = LidarWorld(drives=2)
        for key, (cloud, region, labels) in zip(source.keys(), source.samples(), strict=True):
            case = source[key]
            assert (case.inputs["lidar"], case.inputs["region"], case.truth[0]) == (cloud, region, labels)

    def test_camera_sees_the_same_moment(self) -> None:
        """Points carried through the calibration land where the camera's own projection puts them."""
        source = LidarWorld(drives=1, camera=True)
        case = source["lidar-test/0/0#0"]
        picture, known = case.inputs["camera"], find(case.truth, "calibration")
        assert isinstance(picture, Image)
        assert isinstance(known, Calibration)
        assert known.size == picture.size == (640, 360)
        ref = find(case.truth, "scene")
        assert isinstance(ref, SceneRef)
        pose = drive("lidar-test/0/0").poses[0]
        xyz = case.inputs["lidar"].xyzi[:, :3].astype(float)  # type: ignore[attr-defined]
        ahead = xyz[xyz[:, 0] > 3]
        through = known.matrices["Tr_velo_to_cam"] @ np.vstack([ahead.T, np.ones(len(ahead))])
        pixels = (known.matrices["camera"] @ through)[:2] / through[2]
        world = rotate_left(ahead.T, pose.yaw).T + source.lidar.eye(pose)
        wanted, depth = Camera().project(pose, world)
        assert np.abs(pixels.T - wanted).max() < 0.01
        assert np.abs(through[2] - depth).max() < 1e-4

    def test_camera_s_depth_is_the_laser_s(self) -> None:
        """The frame that a scene reference names shows the crowd: its depth is what the points say."""
        case = LidarWorld(drives=1)["lidar-test/0/0#0"]
        camera = Camera()
        ref = find(case.truth, "scene")
        assert isinstance(ref, SceneRef)
        shown = render_frame(ref, camera, World().weather("test/0/0"))
        pose = drive("lidar-test/0/0").poses[0]
        xyz = case.inputs["lidar"].xyzi[:, :3].astype(float)  # type: ignore[attr-defined]
        pixels, ahead = camera.project(pose, rotate_left(xyz.T, pose.yaw).T + LaserScanner().eye(pose))
        column, row = np.rint(pixels - 0.5).astype(int).T
        on = (ahead > 3) & (column >= 0) & (column < 640) & (row >= 0) & (row < 360)
        depth = shown.depth[row[on], column[on]]
        assert np.median(np.abs(depth - ahead[on])) < 0.1
        assert (np.abs(depth - ahead[on]) < 0.05 * ahead[on] + 0.3).mean() > 0.85  # the two eyes look past different edges

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({"drives": 0}, "frames from 1 to 30"),
            ({"frames": 31}, "frames from 1 to 30"),
            ({"frames": 1.5}, "frames must be a whole number, got 1.5"),
            ({"seed": True}, "seed must be a whole number"),
            ({"split": "tset"}, "unknown split 'tset'; did you mean 'test'"),
            ({"camera": 1}, "camera must be true or false"),
        ],
    )
    def test_what_is_refused(self, wrong, why: str) -> None:
        with pytest.raises(InputError, match=f"^lidar-world: .*{why}"):
            LidarWorld(**wrong)

    def test_unknown_keys_are_no_cases(self) -> None:
        with pytest.raises(KeyError):
            LidarWorld(drives=1)["lidar-test/0/1#0"]
        with pytest.raises(KeyError):
            LidarWorld(drives=1, frames=2)["lidar-test/0/0#5"]

    def test_fingerprint_knows_the_camera(self) -> None:
        assert LidarWorld().fingerprint() == LidarWorld(drives=2).fingerprint()
        assert LidarWorld().fingerprint() != LidarWorld(camera=True).fingerprint()


class TestContract(SourceContract):
    def source(self) -> Source:
        return LidarWorld(drives=2, frames=2, split="val")
