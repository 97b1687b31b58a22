"""Real sweeps before the zoo's LiDAR systems: other sensors, other streets; every stage runs, and the gap is measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from swerve.case import Case
from swerve.region import outside
from swerve.sources.clouds import Clouds
from swerve.sources.kitti import Kitti
from swerve.sources.regions import Regions
from swerve.values import Array, Boxes3D, PointCloud, find
from swerve.zoo.lidar import LIDAR, Lidar
from swerve.zoo.lidar_score import Tally, compared

pytestmark = pytest.mark.usefixtures("one_thread")

AHEAD, BEHIND, ASIDE = 50.0, 20.0, 8.0
SWEEPS = 11
CELL = 0.25  # of the region's bitmap, by which a point may lie beyond the border
NEAR = 30.0


@pytest.fixture(scope="module")
def cases(data: Path) -> list[Case]:
    found = []
    for source in (Kitti(data / "lidar/kitti", ("lidar",)), Clouds(data / "lidar/apollo")):
        corridor = Regions(source, ahead=AHEAD, behind=BEHIND, left=ASIDE, right=ASIDE)
        found += [corridor[key] for key in corridor.keys()]
    assert len(found) == SWEEPS
    return found


def answer(system: Lidar, case: Case) -> Boxes3D:
    found = system([case])[0][0]
    assert isinstance(found, Boxes3D)
    return found


def corners(box: Array) -> Array:
    x, y, _, length, width, _, yaw = box
    half = np.array([[a * length, b * width] for a in (-0.5, 0.5) for b in (-0.5, 0.5)])
    turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
    return np.asarray(half @ turn + [x, y])


@pytest.mark.parametrize("roi_first", [False, True])
@pytest.mark.parametrize("name", LIDAR)
def test_boxes_are_sound_and_in_the_region(cases: list[Case], name: str, roi_first: bool) -> None:
    system, everybody = LIDAR[name](roi_first=roi_first), 0
    for case in cases:
        found = answer(system, case)
        assert found.fault() is None
        assert answer(system, case) == found  # asked twice
        x, y = found.xyzlwhy[:, :2].T
        assert ((x > -BEHIND - CELL) & (x < AHEAD + CELL) & (np.abs(y) < ASIDE + CELL)).all()
        assert (found.xyzlwhy[:, 3:6] > 0).all()
        everybody += len(found.kinds)
    assert everybody >= SWEEPS  # streets with traffic: one obstacle a sweep at the very least


def test_every_obstacle_has_points(cases: list[Case]) -> None:
    system = Lidar()
    for case in cases:
        cloud = case.inputs["lidar"]
        assert isinstance(cloud, PointCloud)
        for box in answer(system, case).xyzlwhy:
            low, high = corners(box).min(axis=0) - 0.01, corners(box).max(axis=0) + 0.01
            assert ((cloud.xyzi[:, :2] >= low) & (cloud.xyzi[:, :2] <= high)).all(axis=1).sum() >= 3


def with_points(case: Case, count: int, seed: int) -> Case:
    """The case with points anywhere outside its region."""
    cloud, region = case.inputs["lidar"], case.inputs["region"]
    assert isinstance(cloud, PointCloud)
    rng = np.random.default_rng(seed)
    low, high = cloud.xyzi.min(axis=0), cloud.xyzi.max(axis=0)
    added = rng.uniform(low, high, (3 * count, 4)).astype(np.float32)
    added = added[outside(region, added[:, :2])][:count]  # type: ignore[arg-type]
    return Case(case.key, {**case.inputs, "lidar": PointCloud(np.concatenate([cloud.xyzi, added]))})


@pytest.mark.parametrize("name", LIDAR)
def test_points_outside_cannot_matter_when_region_comes_first(cases: list[Case], name: str) -> None:
    safe, open_to_all, changed = LIDAR[name](roi_first=True), LIDAR[name](), 0
    for number, case in enumerate(cases[::3]):
        followed = with_points(case, 1_000, number)
        assert answer(safe, followed) == answer(safe, case)
        changed += answer(open_to_all, followed) != answer(open_to_all, case)
    assert changed > 0  # the same points do reach the network that sees the whole sweep


def labelled(cases: list[Case]) -> Iterator[tuple[Case, Boxes3D]]:
    """KITTI's sweeps with cars demanded where the camera sees them; other kinds count neither way."""
    for case in cases:
        truth = find(case.truth, Boxes3D.slot)
        if isinstance(truth, Boxes3D):
            x, y = truth.xyzlwhy[:, :2].T
            seen = (x > 0) & (np.abs(y) < ASIDE) & np.array([kind == "car" for kind in truth.kinds], bool)
            yield case, Boxes3D(truth.xyzlwhy, truth.kinds, care=seen)


def test_most_near_cars_are_found_all_the_same(cases: list[Case]) -> None:
    """The networks never saw a real sweep. The gap is told in docs/zoo.md; more than half of the near cars is the floor."""
    for system in (Lidar(), LIDAR["lidar-global"]()):
        total = Tally()
        for case, truth in labelled(cases):
            total += compared(truth, answer(system, case), within=NEAR)
        assert total.demanded[0] >= 10
        assert total.recall("car") > 0.5
