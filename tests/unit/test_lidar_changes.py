"""Changes to point clouds: points, boxes, regions and matrices move together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable, UnmappedError
from swerve.core.space import Over, Range
from swerve.core.transformation import Transformation
from swerve.core.values import (
    Array,
    Boxes2D,
    Boxes3D,
    Calibration,
    Depth,
    Group,
    Image,
    Masks,
    PointCloud,
    Region,
    SceneRef,
    Signal,
    Steering,
)
from swerve.testing import FakeSystem, sample_case
from swerve.testing.contracts import TransformationContract
from swerve.transformations.sensor_pose import MirrorScene, Shift, Yaw


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


def test_camera_may_stay_where_calibration_tells() -> None:
    case = sweep()
    image = Image(np.zeros((4, 6, 3), np.uint8))
    watched = Case("k", {**case.inputs, "camera": image}, case.truth)
    for change in (Yaw(5.0), Shift(1.0)):
        assert change(watched).inputs["camera"] is image
    pixels_only = Case("k", {"camera": image, "lidar": case.inputs["lidar"]}, (Calibration({"P2": np.eye(3, 4)}),))
    with pytest.raises(NotApplicable, match="no calibration"):
        Shift(1.0)(pixels_only)


# --- shift ------------------------------------------------------------------------------------------------------------


class TestShift(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [Shift(), Shift(1.5, -0.25, 0.5), Shift(z=-1.0)]

    def case(self) -> Case:
        return sweep()


def test_step_ahead_brings_things_nearer() -> None:
    change = Shift(2.0, 1.0, 0.5)
    cloud = change.map(PointCloud(np.array([[10, 0, 1, 0.5]], np.float32)))
    np.testing.assert_array_equal(cloud.xyzi, np.array([[8, -1, 0.5, 0.5]], np.float32))
    boxes = change.map(Boxes3D(np.array([[10, 0, 1, 4, 2, 1.5, 0.3]]), ("car",)))
    np.testing.assert_allclose(boxes.xyzlwhy, [[8, -1, 0.5, 4, 2, 1.5, 0.3]])
    region = change.map(Region((np.array([[0.0, 0], [4, 0], [4, 2]]),)))
    np.testing.assert_allclose(region.polygons[0], [[-2, -1], [2, -1], [2, 1]])


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(-10, 10))
def test_moved_lidar_meets_the_camera_s_points(x: float, y: float, z: float) -> None:
    case, change = sweep(), Shift(x, y, z)
    before, after = (c.matrices["Tr_velo_to_cam"] for c in (case.truth[2], change.map(case.truth[2])))  # type: ignore[attr-defined]
    points = np.column_stack([points_of(case), np.ones(60)])
    moved = np.column_stack([points_of(change(case)), np.ones(60)])
    np.testing.assert_allclose(moved @ after.T, points @ before.T, atol=1e-4)
    np.testing.assert_array_equal(change.map(case.truth[2]).matrices["P2"], np.eye(3, 4))  # type: ignore[attr-defined]


def test_unnamed_steps_are_those_of_a_mount() -> None:
    """Who names one number does not move the LiDAR onto a roof by the others; who names it may."""
    rng, seen = np.random.default_rng(1), sweep()
    drawn = [Over(Shift, x=0.2).propose(seen, rng, FakeSystem()) for _ in range(200)]
    steps = np.array([(one.x, one.y, one.z) for one in drawn if isinstance(one, Shift)])
    assert len(steps) == 200
    assert (steps[:, 0] == 0.2).all()
    assert (np.abs(steps[:, 1:]) <= [0.3, 0.1]).all()
    assert (np.abs(steps[:, 1:]).max(axis=0) > [0.25, 0.08]).all()
    far = [Over(Shift, x=Range(5, 10)).propose(seen, rng, FakeSystem()) for _ in range(20)]
    assert all(isinstance(one, Shift) and one.x >= 5 for one in far)


def test_steering_by_a_moved_lidar_is_not_known() -> None:
    for change in (Yaw(5.0), Shift(1.0)):
        with pytest.raises(UnmappedError, match="steering"):
            change.map(Steering(3.0))


def points_of(case: Case) -> Array:
    cloud = case.inputs["lidar"]
    assert isinstance(cloud, PointCloud)
    return cloud.xyzi[:, :3].astype(np.float64)


@pytest.mark.parametrize("change", [Yaw(30.0), Shift(1.0, -2.0, 0.5)])
@pytest.mark.parametrize("rows", [3, 4])
def test_way_to_the_lidar_leads_to_where_it_is_now(change: Yaw | Shift, rows: int) -> None:
    lead = np.array([[0.0, -1, 0, 0.8], [1, 0, 0, -0.3], [0, 0, 1, 0.5], [0, 0, 0, 1]])
    moved = change.calibration(Calibration({"Tr_imu_to_velo": lead[:rows]})).matrices["Tr_imu_to_velo"]
    assert moved.shape == (rows, 4)
    place = np.array([3.0, 4.0, 1.0, 1.0])  # as the inertial unit sees it
    seen = PointCloud(np.array([[*(lead @ place)[:3], 0.5]], np.float32))
    np.testing.assert_allclose((moved @ place)[:3], change.points(seen).xyzi[0, :3], atol=1e-5)


# --- mirror -------------------------------------------------------------------------------------------------------------


def car_with_everything() -> Case:
    """A LiDAR and a camera 40 pixels wide that looks ahead, slightly turned and aside."""
    rng = np.random.default_rng(5)
    turn = 0.1
    look = np.array([[np.sin(turn), -np.cos(turn), 0, 0.06], [0, 0, -1, -0.08], [np.cos(turn), np.sin(turn), 0, -0.27]])
    rect = np.array([[1, 0.01, 0], [-0.01, 1, 0], [0, 0, 1]]) / np.array([[1.00005], [1.00005], [1]])
    pixels = np.array([[30.0, 0, 21, 4], [0, 30, 14, 0.2], [0, 0, 1, 0.003]])
    matrices = {"P2": pixels, "R0_rect": rect, "Tr_velo_to_cam": look, "Tr_imu_to_velo": np.eye(3, 4)}
    cloud = PointCloud(rng.uniform((5, -3, -1, 0), (30, 3, 1, 1), (80, 4)).astype(np.float32))
    truth = (
        *sweep().truth[:2],
        Calibration(matrices, (40, 30)),
        Boxes2D(np.array([[3.0, 5, 10, 12]]), ("car",), size=(40, 30)),
        Steering(4.0),
        Signal("brake", 0.5),
        SceneRef("s"),
        Masks(np.arange(1200).reshape(30, 40), {}),
        Depth(np.arange(1200.0).reshape(30, 40)),
    )
    return Case("all", {"lidar": cloud, "camera": Image(rng.integers(0, 255, (30, 40, 3), np.uint8))}, truth)


class TestMirror(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [MirrorScene()]

    def case(self) -> Case:
        return car_with_everything()


def test_mirrored_twice_is_as_it_was() -> None:
    case = car_with_everything()
    again = MirrorScene()(MirrorScene()(case))
    assert again.input_sha == case.input_sha
    for before, after in zip(case.truth, again.truth, strict=True):
        if not isinstance(before, Calibration):
            assert after == before
        else:
            assert isinstance(after, Calibration)
            for name, matrix in before.matrices.items():
                np.testing.assert_allclose(after.matrices[name], matrix, atol=1e-12)


def test_left_is_right() -> None:
    change = MirrorScene()
    assert change.map(PointCloud(np.array([[5, 2, 1, 0.5]], np.float32))).xyzi.tolist() == [[5, -2, 1, 0.5]]
    assert change.map(Boxes3D(np.array([[5, 2, 1, 4, 2, 1.5, 0.3]]), ("car",))).xyzlwhy.tolist() == [
        [5, -2, 1, 4, 2, 1.5, -0.3]
    ]
    assert change.map(Steering(4.0)) == Steering(-4.0)
    assert change.map(Boxes2D(np.array([[3.0, 5, 10, 12]]), ("car",), size=(40, 30))).xyxy.tolist() == [[30, 5, 37, 12]]
    assert change.map(Image(np.arange(6, dtype=np.uint8).reshape(1, 2, 3))).pixels.tolist() == [[[3, 4, 5], [0, 1, 2]]]


def test_hole_of_a_mirrored_region_is_a_hole() -> None:
    from swerve.core.region import inside

    ring = np.array([[0.0, 1], [8, 1], [8, 9], [0, 9]])
    hole = np.array([[2.0, 3], [2, 5], [4, 5], [4, 3]])
    xy = np.random.default_rng(0).uniform(-1, 10, (500, 2))
    before = inside(Region((ring, hole)), xy)
    assert not before.all()
    assert (inside(MirrorScene().map(Region((ring, hole))), xy * [1, -1]) == before).all()


def test_mirrored_camera_sees_mirrored_points() -> None:
    """Each point appears as far from the right edge as it did from the left, and rotations stay rotations."""
    case, mirrored = car_with_everything(), MirrorScene()(car_with_everything())
    (x, y), (mirrored_x, mirrored_y) = (pixels_of(one).T for one in (case, mirrored))
    np.testing.assert_allclose(mirrored_x, 40 - x, atol=1e-4)
    np.testing.assert_allclose(mirrored_y, y, atol=1e-4)
    turns = [calibration_of(one).matrices["Tr_velo_to_cam"][:, :3] for one in (case, mirrored)]
    assert np.linalg.det(turns[0]) == pytest.approx(np.linalg.det(turns[1])) == pytest.approx(1.0)


def calibration_of(case: Case) -> Calibration:
    return next(value for value in case.truth if isinstance(value, Calibration))


def pixels_of(case: Case) -> Array:
    known = calibration_of(case).matrices
    seen = np.column_stack([points_of(case), np.ones(80)]) @ known["Tr_velo_to_cam"].T @ known["R0_rect"].T
    pixels = np.column_stack([seen, np.ones(80)]) @ known["P2"].T
    return pixels[:, :2] / pixels[:, 2:]


def test_what_cannot_be_mirrored_is_told() -> None:
    with pytest.raises(NotApplicable, match="no point cloud to mirror"):
        MirrorScene()(Case("k", {"wheel": Steering(1)}))
    cloud = {"lidar": sweep().inputs["lidar"]}
    with pytest.raises(NotApplicable, match="no image size"):
        MirrorScene()(Case("k", cloud, (Calibration({"P2": np.eye(3, 4)}),)))
    with pytest.raises(NotApplicable, match="'radar' is unknown"):
        MirrorScene()(Case("k", cloud, (Calibration({"radar": np.eye(4)}),)))
    with pytest.raises(InputError, match="image size"):
        MirrorScene().map(Boxes2D(np.array([[3.0, 5, 10, 12]]), ("car",)))
