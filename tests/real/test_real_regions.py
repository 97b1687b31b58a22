"""Real sweeps with regions: KITTI's ten and Apollo's one, every point counted inside or outside."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from swerve.core.case import Source
from swerve.core.region import Bitmap, distance, inside, outside
from swerve.core.values import Boxes3D, PointCloud, Region, find
from swerve.sources.folders import Clouds
from swerve.sources.kitti import Kitti
from swerve.sources.regions import Regions
from swerve.testing import SourceContract

CORRIDOR = {"ahead": 60.0, "behind": 20.0, "left": 6.0, "right": 6.0}
SWEEPS = 10


def sources(data: Path) -> list[Source]:
    return [Kitti(data / "lidar/kitti", ("lidar",)), Clouds(data / "lidar/apollo")]


def with_corridor(data: Path) -> list[tuple[PointCloud, Region]]:
    found = []
    for source in sources(data):
        for key in source.keys():
            case = Regions(source, **CORRIDOR)[key]
            cloud, region = case.inputs["lidar"], case.inputs["region"]
            assert isinstance(cloud, PointCloud)
            assert isinstance(region, Region)
            assert cloud == source[key].inputs["lidar"]
            found.append((cloud, region))
    return found


def test_every_point_is_inside_or_outside(data: Path) -> None:
    """Inside by comparing numbers, outside by the bitmap and the polygon, and a strip of half a metre between."""
    found = with_corridor(data)
    assert len(found) == SWEEPS + 1
    for cloud, region in found:
        x, y = cloud.xyzi[:, 0].astype(float), cloud.xyzi[:, 1].astype(float)
        wanted = (x >= -20) & (x <= 60) & (np.abs(y) <= 6)
        within, clear = inside(region, cloud.xyzi[:, :2]), outside(region, cloud.xyzi[:, :2])
        assert (within == wanted).all()
        assert not (within & clear).any()
        between = ~within & ~clear
        assert within.sum() + clear.sum() + between.sum() == len(x)
        assert distance(region, cloud.xyzi[between, :2]).max(initial=0) < 0.5
        assert min(within.sum(), clear.sum()) > 1_000


def test_bitmap_follows_the_polygon(data: Path) -> None:
    """Apollo's cells may differ from the polygon within half a cell's diagonal of the border, and nowhere else."""
    for cloud, region in with_corridor(data):
        near = cloud.xyzi[(np.abs(cloud.xyzi[:, :2]) < 60).all(axis=1), :2]
        held = Bitmap.of(region, (-60, -60), (60, 60)).holds(near)
        differs = held != inside(region, near)
        assert distance(region, near[differs]).max(initial=0) <= 0.25 * 2**0.5 / 2


def test_a_car_s_own_ground_holds_its_points(data: Path) -> None:
    """A region drawn around a labelled car holds that car's points."""
    kitti = Kitti(data / "lidar/kitti", ("lidar",))
    boxes = find(kitti["000002"].truth, Boxes3D.slot)
    assert isinstance(boxes, Boxes3D)
    x, y, _, length, width, _, yaw = boxes.xyzlwhy[boxes.kinds.index("car")]
    turn = np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])
    corners = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * [length / 2, width / 2] @ turn + [x, y]
    assert inside(Region((corners,)), kitti["000002"].inputs["lidar"].xyzi[:, :2]).sum() > 20  # type: ignore[attr-defined]


def test_case_by_case_from_a_file(data: Path, tmp_path: Path) -> None:
    features = [
        {
            "type": "Feature",
            "properties": {"case": f"{number:06}"},
            "geometry": {"type": "Polygon", "coordinates": [[[0, -half], [40, -half], [40, half], [0, half]]]},
        }
        for number, half in ((1, 3), (2, 5))
    ]
    path = tmp_path / "road.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    source = Regions(Kitti(data / "lidar/kitti", ("lidar",)), path)
    widths = [np.ptp(source[key].inputs["region"].polygons[0][:, 1]) for key in ("000001", "000002")]  # type: ignore[attr-defined]
    assert widths == [6, 10]


class TestRealRegions(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, data: Path) -> None:
        self.folder = data / "lidar/kitti"

    def source(self) -> Source:
        return Regions(Kitti(self.folder, ("lidar",)), **CORRIDOR)
