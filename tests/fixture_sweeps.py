"""Small sweeps, roads and cases for tests of what LiDAR sees."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from swerve.core.case import Case
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes3D, PointCloud, Region
from swerve.execution.shrink import Smallest, smallest

# A road 12 m wide with a lay-by, an island (a hole) and a place apart, as a map's pieces are.
ROAD = np.array([[-40.0, -6], [40, -6], [40, 6], [20, 6], [16, 10.3], [8, 10.3], [4, 6], [-40, 6]])
ISLAND = np.array([[10.0, -2], [10, 2], [15.1, 2], [15.1, -2]])
APART = np.array([[-30.0, 20], [-20, 21.7], [-25.5, 30]])


def road() -> Region:
    return Region((ROAD, ISLAND, APART))


def cloud(seed: int = 0, count: int = 2_000, reach: float = 50.0) -> PointCloud:
    """Points anywhere within `reach`, heights from -2 to 4 m, intensities from 0.1 to 0.9."""
    rng = np.random.default_rng(seed)
    low, high = (-reach, -reach, -2, 0.1), (reach, reach, 4, 0.9)
    return PointCloud(rng.uniform(low, high, (count, 4)).astype(np.float32))


def sweep_case(seed: int = 0, count: int = 2_000) -> Case:
    boxes = Boxes3D(np.array([[8, 1, 0, 4, 2, 1.5, 0.1], [-5, 3, 0, 1, 1, 2, 3.0]]), ("car", "pedestrian"))
    return Case("sweep", {"lidar": cloud(seed, count), "region": road()}, (boxes,))


def points_of(case: Case) -> Array:
    value = case.inputs["lidar"]
    assert isinstance(value, PointCloud)
    return value.xyzi


def shrunk(change: Transformation, fails: Callable[[Transformation], bool]) -> Smallest:
    """What a change shrinks to against a system that fails where `fails` says."""
    asking = smallest(change)
    try:
        question = next(asking)
        while True:
            question = asking.send(fails(question))
    except StopIteration as ended:
        found: Smallest = ended.value
        return found
