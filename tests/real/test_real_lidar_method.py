"""MR1 on real sweeps: KITTI's and Apollo's with a corridor, a program behind a pipe, pictures, and the zoo's pipeline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from swerve.core.campaign import Campaign, Record
from swerve.core.case import Source
from swerve.core.region import inside
from swerve.core.relation import Status
from swerve.core.values import Boxes3D, PointCloud, Region, find
from swerve.execution.engine import run
from swerve.methods.lidar import lidar, rule_name
from swerve.report.birdseye import GAP, SIDE, before_after
from swerve.sources.folders import Clouds
from swerve.sources.kitti import Kitti
from swerve.sources.regions import Regions
from swerve.sources.subset import Subset
from swerve.systems.process import Process
from swerve.testing import MemoryLedger
from swerve.transformations.scatter import AddPoints
from swerve.zoo.lidar import Lidar
from swerve.zoo.steering import PACKAGED

EXAMPLES = Path(__file__).parents[2] / "examples"
CORRIDOR = {"ahead": 60.0, "behind": 20.0, "left": 8.0, "right": 8.0}


WIDE = {**CORRIDOR, "left": 20.0, "right": 20.0}  # in which every frame has somebody for the clusterer to lose


def kitti(data: Path, *sensors: str, corridor: dict[str, float] = CORRIDOR) -> Source:
    return Regions(Kitti(data / "lidar/kitti", sensors or ("lidar",)), **corridor)


def apollo(data: Path) -> Source:
    return Regions(Clouds(data / "lidar/apollo"), **CORRIDOR)


def records(campaign: Campaign) -> list[Record]:
    ledger = MemoryLedger()
    run(campaign, ledger)
    return [item for batch in ledger.batches for item in batch if isinstance(item, Record)]


def pipeline(**how: bool) -> Lidar:
    if not (PACKAGED / "lidar.safetensors").exists():
        pytest.skip("the zoo has no weights of 'lidar' yet")
    return Lidar(**how)


@pytest.mark.parametrize("near", [None, 5.0])
def test_points_of_every_series_lie_outside(data: Path, near: float | None) -> None:
    for source in (kitti(data), apollo(data)):
        for key in source.keys()[:3]:
            case = source[key]
            cloud, region = case.inputs["lidar"], case.inputs["region"]
            assert isinstance(cloud, PointCloud)
            assert isinstance(region, Region)
            made = AddPoints(1000, 3, near=near)(case)
            changed = made.inputs["lidar"]
            assert isinstance(changed, PointCloud)
            assert changed.xyzi[: len(cloud.xyzi)].tobytes() == cloud.xyzi.tobytes()
            added = changed.xyzi[len(cloud.xyzi) :]
            assert len(added) == 1000
            assert not inside(region, added[:, :2]).any()
            low, high = cloud.xyzi.min(axis=0), cloud.xyzi.max(axis=0)
            assert ((added >= low) & (added <= high)).all()
            assert (made.facts["added"], made.facts["inside"]) == (1000, 0)


def test_program_behind_a_pipe_is_tested(data: Path) -> None:
    """A clusterer that looks at all points: what is added may join two of its clusters, and then obstacles are lost."""
    program = Process(("python", "clusters.py"), folder=EXAMPLES)
    try:
        found = records(lidar(Subset(kitti(data, corridor=WIDE), 3), program, n=(10, 1000), check="both", near=5.0))
    finally:
        program.close()
    assert len(found) == 6
    assert {record.verdict.status for record in found} <= {Status.HELD, Status.VIOLATED}
    for record in found:
        assert record.facts["inside"] == 0
        assert record.facts["before"] == record.facts["demanded"] > 0  # type: ignore[operator]
    assert {record.trial.rule for record in found} == {rule_name(10, 5.0), rule_name(1000, 5.0)}


def test_pictures_of_a_real_sweep(data: Path) -> None:
    """Beside the camera's frame where there is one; the labels are drawn as if they had been said."""
    source = kitti(data, "lidar", "camera")
    case = source["000001"]
    boxes = find(case.truth, Boxes3D.slot)
    assert isinstance(boxes, Boxes3D)
    after = Boxes3D(boxes.xyzlwhy[1:], boxes.kinds[1:])
    picture = before_after(case, AddPoints(100, 1, near=5.0)(case), boxes, after)
    assert picture.shape[0] == SIDE
    assert picture.shape[1] > 2 * SIDE + 2 * GAP
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100


def test_zoo_s_pipeline_runs_on_real_sweeps(data: Path) -> None:
    system, safe = pipeline(), pipeline(roi_first=True)
    for source in (Subset(kitti(data), 2), apollo(data)):
        found = records(lidar(source, system, n=1000, near=5.0, check="both"))
        assert {record.verdict.status for record in found} <= {Status.HELD, Status.VIOLATED}
        assert all(record.facts["demanded"] > 0 for record in found)  # type: ignore[operator]
        for record in records(lidar(source, safe, n=(10, 1000), near=5.0)):
            assert record.verdict.status is Status.HELD
            assert record.before == record.after


def test_same_real_frame_twice_is_the_same_answer(data: Path) -> None:
    """A/A on real sweeps."""
    system, source = pipeline(), kitti(data)
    for key in source.keys()[:2]:
        case = source[key]
        (first,), (second,) = system([case]), system([case])
        assert first == second
