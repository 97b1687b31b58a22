"""Real sweeps before the zoo's LiDAR systems: other sensors, other streets; every stage runs, and the gap is measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.region import outside
from swerve.core.values import Array, Boxes3D, Calibration, PointCloud, find
from swerve.sources.folders import Clouds
from swerve.sources.kitti import Kitti, to_camera
from swerve.sources.regions import Regions
from swerve.zoo.clusters import KINDS
from swerve.zoo.lidar import LIDAR, Lidar
from swerve.zoo.lidar_score import GOAL, DetectionTally, compared

pytestmark = pytest.mark.usefixtures("one_thread")

AHEAD, BEHIND, ASIDE = 50.0, 20.0, 8.0
SWEEPS = 11
CELL = 0.25  # of the region's bitmap, by which a point may lie beyond the border
NEAR = 30.0
WIDTH = 1242  # pixels of KITTI's pictures, about
ZOO = Path(__file__).parents[2] / "docs" / "zoo.md"


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


FIRST: dict[tuple[str, bool, str], Boxes3D] = {}


@cache
def system_of(name: str, roi_first: bool) -> Lidar:
    return LIDAR[name](roi_first=roi_first)


def first_answer(name: str, case: Case, roi_first: bool = False) -> Boxes3D:
    """What a system says when it is first asked of a case: several tests look at that."""
    asked = (name, roi_first, case.input_sha)
    if asked not in FIRST:
        FIRST[asked] = answer(system_of(name, roi_first), case)
    return FIRST[asked]


def corners(box: Array) -> Array:
    x, y, _, length, width, _, yaw = box
    half = np.array([[a * length, b * width] for a in (-0.5, 0.5) for b in (-0.5, 0.5)])
    turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
    return np.asarray(half @ turn + [x, y])


@pytest.mark.parametrize("roi_first", [False, True])
@pytest.mark.parametrize("name", LIDAR)
def test_boxes_are_sound_and_in_the_region(cases: list[Case], name: str, roi_first: bool) -> None:
    system, everybody = system_of(name, roi_first), 0
    for case in cases:
        found = first_answer(name, case, roi_first)
        assert found.fault() is None
        assert answer(system, case) == found  # asked twice
        x, y = found.xyzlwhy[:, :2].T
        assert ((x > -BEHIND - CELL) & (x < AHEAD + CELL) & (np.abs(y) < ASIDE + CELL)).all()
        assert (found.xyzlwhy[:, 3:6] > 0).all()
        everybody += len(found.kinds)
    assert everybody >= SWEEPS  # streets with traffic: one obstacle a sweep at the very least


def test_every_obstacle_has_points(cases: list[Case]) -> None:
    for case in cases:
        cloud = case.inputs["lidar"]
        assert isinstance(cloud, PointCloud)
        for box in first_answer("lidar", case).xyzlwhy:
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
    safe, open_to_all, changed = system_of(name, True), system_of(name, False), 0
    for number, case in enumerate(cases[::3]):
        followed = with_points(case, 1_000, number)
        assert answer(safe, followed) == first_answer(name, case, True)
        changed += answer(open_to_all, followed) != first_answer(name, case)
    assert changed > 0  # the same points do reach the network that sees the whole sweep


def labelled(cases: list[Case]) -> Iterator[tuple[Case, Boxes3D]]:
    """KITTI's sweeps; cars, pedestrians and cyclists in the corridor and in the camera's view are demanded, nobody else."""
    for case in cases:
        truth, known = find(case.truth, Boxes3D.slot), find(case.truth, Calibration.slot)
        if isinstance(truth, Boxes3D) and isinstance(known, Calibration):
            middles = truth.xyzlwhy[:, :3]
            seen = in_view(middles, known) & (np.abs(middles[:, 1]) < ASIDE) & np.isin(truth.kinds, list(GOAL))
            yield case, Boxes3D(truth.xyzlwhy, truth.kinds, care=seen)


def in_view(places: Array, known: Calibration) -> Array:
    """Whether each place is within the sides of the camera's picture, which is the only part of a sweep with labels."""
    ahead = np.column_stack([places, np.ones(len(places))]) @ to_camera(known.matrices).T
    column, _, depth = (ahead @ np.vstack([known.matrices["P2"], [0, 0, 0, 1]]).T)[:, :3].T
    return np.asarray((depth > 0) & (column > 0) & (column < WIDTH * depth))


def gap(name: str, cases: list[Case]) -> DetectionTally:
    """What is found of the demanded; boxes beside the camera's view, where nobody labelled, count neither way."""
    total = DetectionTally(within=NEAR)
    for case, truth in labelled(cases):
        known = find(case.truth, Calibration.slot)
        assert isinstance(known, Calibration)
        said = first_answer(name, case)
        shown = in_view(said.xyzlwhy[:, :3], known)
        kinds = tuple(kind for kind, seen in zip(said.kinds, shown, strict=True) if seen)
        total += compared(truth, Boxes3D(said.xyzlwhy[shown], kinds), within=NEAR)
    return total


def told(name: str, cases: list[Case]) -> str:
    """The row of a network in docs/zoo.md."""
    total, apollo = gap(name, cases), first_answer(name, cases[-1])
    shares = [f"{total.found[KINDS.index(kind)]} of {total.demanded[KINDS.index(kind)]}" for kind in GOAL]
    boxes = sum(total.found) + total.made_up
    return f"| `{name}` | {' | '.join(shares)} | {sum(total.found)} of {boxes} | {len(apollo.kinds)} |"


@pytest.mark.parametrize("name", LIDAR)
def test_gap_is_as_the_documents_tell(cases: list[Case], name: str) -> None:
    """The networks never saw a real sweep; more than half of the near cars is the floor."""
    total = gap(name, cases)
    assert total.demanded[0] >= 10
    assert total.recall("car") > 0.5
    assert told(name, cases) in ZOO.read_text()
