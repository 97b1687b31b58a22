"""Changes to point clouds: points, boxes, regions and matrices move together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.case import Case
from swerve.errors import NotApplicable
from swerve.testing import sample_case
from swerve.testing.contracts import TransformationContract
from swerve.transformations.lidar import Yaw
from swerve.values import Boxes3D, Calibration, Group, Image, PointCloud, Region


def sweep() -> Case:
    rng = np.random.default_rng(3)
    cloud = PointCloud(rng.uniform(-20, 20, (60, 4)).astype(np.float32))
    boxes = Boxes3D(np.array([[8, 1, 0, 4, 2, 1.5, 0.1], [-5, 3, 0, 1, 1, 2, 3.0]]), ("car", "pedestrian"))
    tie = np.array([[0.0, -1, 0, 0.1], [0, 0, -1, 0.2], [1, 0, 0, -0.3]])
    square = Region((np.array([[0.0, 0], [4, 0], [4, 2], [0, 2]]),))
    return Case("sweep", {"lidar": cloud}, (boxes, square, Calibration({"Tr_velo_to_cam": tie, "P2": np.eye(3, 4)})))


class TestYaw(TransformationContract):
    def changes(self) -> list[Yaw]:  # type: ignore[override]
        return [Yaw(), Yaw(90.0), Yaw(-12.3)]

    def case(self) -> Case:
        return sweep()


def test_quarter_turn_left_puts_ahead_to_the_right() -> None:
    cloud = Yaw(90.0).map(PointCloud(np.array([[10, 0, 1, 0.5]], np.float32)))
    np.testing.assert_allclose(cloud.xyzi, [[0, -10, 1, 0.5]], atol=1e-6)
    boxes = Yaw(90.0).map(Boxes3D(np.array([[10, 0, 1, 4, 2, 1.5, 0.0]]), ("car",)))
    np.testing.assert_allclose(boxes.xyzlwhy, [[0, -10, 1, 4, 2, 1.5, -np.pi / 2]], atol=1e-12)


@given(st.floats(-180, 180))
def test_points_stay_in_their_box(degrees: float) -> None:
    """A point that lies in a box before lies in it after, at the same place of the box."""
    box = np.array([[8, 1, 0, 4, 2, 1.5, 0.4]])
    inside = np.array([[1.5, 0.7, 0.2]])
    ahead = np.array([np.cos(0.4), np.sin(0.4)])
    left = np.array([-ahead[1], ahead[0]])
    point = np.array([[*(box[0, :2] + inside[0, 0] * ahead + inside[0, 1] * left), 0.2, 0.3]])
    change = Yaw(degrees)
    moved = change.map(PointCloud(point.astype(np.float32))).xyzi[0]
    x, y, *_, yaw = change.map(Boxes3D(box, ("car",))).xyzlwhy[0]
    across = moved[:2] - (x, y)
    assert across @ (np.cos(yaw), np.sin(yaw)) == pytest.approx(1.5, abs=1e-4)
    assert across @ (-np.sin(yaw), np.cos(yaw)) == pytest.approx(0.7, abs=1e-4)


@given(st.floats(-180, 180))
def test_camera_sees_points_where_it_did(degrees: float) -> None:
    case = sweep()
    change = Yaw(degrees)
    before, after = (c.matrices["Tr_velo_to_cam"] for c in (case.truth[2], change.map(case.truth[2])))  # type: ignore[attr-defined]
    points = np.column_stack([case.inputs["lidar"].xyzi[:, :3].astype(np.float64), np.ones(60)])  # type: ignore[attr-defined]
    turned = np.column_stack([change.map(case.inputs["lidar"]).xyzi[:, :3], np.ones(60)])  # type: ignore[attr-defined]
    np.testing.assert_allclose(turned @ after.T, points @ before.T, atol=1e-4)


def test_there_and_back_is_where_it_was() -> None:
    case = sweep()
    back = Yaw(-30.0)(Yaw(30.0)(case))
    np.testing.assert_allclose(back.truth[0].xyzlwhy, case.truth[0].xyzlwhy, atol=1e-9)  # type: ignore[attr-defined]
    np.testing.assert_allclose(back.truth[1].polygons[0], case.truth[1].polygons[0], atol=1e-9)  # type: ignore[attr-defined]


def test_camera_that_stays_is_refused() -> None:
    with pytest.raises(NotApplicable, match="camera"):
        Yaw(5.0)(sample_case())
    window = Case("w", {"camera": Group((Image(np.zeros((2, 2, 3), np.uint8)),))})
    with pytest.raises(NotApplicable, match="camera"):
        Yaw(5.0)(window)
