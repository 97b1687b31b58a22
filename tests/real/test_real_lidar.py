"""Real sweeps: KITTI's and Apollo's, counted point by point, and labels that stand where the points are."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from swerve.core.case import Source
from swerve.core.errors import UnreadableCase
from swerve.core.values import Array, Boxes2D, Boxes3D, Calibration, PointCloud, find
from swerve.sources.folders import Clouds
from swerve.sources.kitti import Kitti
from swerve.testing import SourceContract
from swerve.transformations.dropout import HDL_64E, DropBeams, find_beams

SWEEPS = ("000001", "000002", "000038", "000192", "001584", "002079", "002613", "003433", "004016", "006542")
PICTURED = SWEEPS[:2]
NEAR = 20.0  # metres within which a car returns many points
APOLLO = "uscar_12_1470770225_1470770492_1349.pcd"


@pytest.fixture(scope="module")
def kitti(data: Path) -> Kitti:
    return Kitti(data / "lidar/kitti", ("lidar",))


def points(source: Source, key: str) -> Array:
    found = source[key].inputs["lidar"]
    assert isinstance(found, PointCloud)
    return found.xyzi


def boxes(source: Source, key: str) -> Boxes3D:
    found = find(source[key].truth, Boxes3D.slot)
    assert isinstance(found, Boxes3D)
    return found


def inside(xyz: Array, box: Array) -> int:
    """How many points lie in a box (x, y, z, length, width, height, yaw)."""
    cos, sin = np.cos(box[6]), np.sin(box[6])
    local = (xyz - box[:3]) @ np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    return int((np.abs(local) <= box[3:6] / 2).all(axis=1).sum())


def test_all_sweeps_are_there(kitti: Kitti) -> None:
    assert tuple(kitti.keys()) == SWEEPS


@pytest.mark.parametrize("key", SWEEPS)
def test_every_point_is_read(kitti: Kitti, data: Path, key: str) -> None:
    stored = (data / f"lidar/kitti/velodyne/{key}.bin").read_bytes()
    assert len(points(kitti, key)) == len(stored) // 16
    assert points(kitti, key).tobytes() == stored
    assert not kitti[key].facts


@pytest.mark.parametrize("key", SWEEPS)
def test_sweep_looks_like_one(kitti: Kitti, key: str) -> None:
    xyzi = points(kitti, key)
    assert 100_000 < len(xyzi) < 130_000
    assert np.abs(xyzi[:, :2]).max() < 90
    assert -2.2 < np.percentile(xyzi[:, 2], 10) < -1.3  # the road, 1.7 m below the sensor
    assert 0 <= xyzi[:, 3].min() < xyzi[:, 3].max() <= 1


def near_cars(kitti: Kitti) -> list[tuple[str, Array]]:
    return [
        (key, box)
        for key in SWEEPS
        for box, kind in zip(boxes(kitti, key).xyzlwhy, boxes(kitti, key).kinds, strict=True)
        if kind == "car" and np.hypot(*box[:2]) < NEAR
    ]


def test_cars_stand_where_their_points_are(kitti: Kitti) -> None:
    found = near_cars(kitti)
    assert len(found) >= 12
    counts = {f"{key} at {box[0]:.1f} m": inside(points(kitti, key)[:, :3], box) for key, box in found}
    assert min(counts.values()) > 50, counts


@pytest.mark.parametrize("fault", ["yaw", "foot", "side"])
def test_another_frame_would_be_seen(kitti: Kitti, fault: str) -> None:
    """Turned by a quarter, left standing on the foot, or mirrored, the boxes lose a fifth of their points or more."""
    right = wrong = 0
    for key, box in near_cars(kitti):
        other = box.copy()
        if fault == "yaw":
            other[6] += np.pi / 2
        elif fault == "foot":
            other[2] -= box[5] / 2
        else:
            other[1] = -box[1]
        right += inside(points(kitti, key)[:, :3], box)
        wrong += inside(points(kitti, key)[:, :3], other)
    assert wrong < 0.8 * right


def test_labels_are_as_many_as_lines(kitti: Kitti, data: Path) -> None:
    for key in SWEEPS:
        lines = (data / f"lidar/kitti/label_2/{key}.txt").read_text().splitlines()
        told = [line.split()[0].lower() for line in lines]
        assert boxes(kitti, key).kinds == tuple(kind for kind in told if kind != "dontcare")
        if key in PICTURED:
            flat = find(Kitti(data / "lidar/kitti")[key].truth, Boxes2D.slot)
            assert isinstance(flat, Boxes2D)
            assert flat.kinds[: len(boxes(kitti, key).kinds)] == boxes(kitti, key).kinds
            assert np.asarray(flat.care).sum() == len(told) - told.count("dontcare")
            assert len(flat.kinds) == len(told)


def test_boxes_appear_where_they_are_drawn(data: Path) -> None:
    """The middle of each box in space, seen through P2, lies in its box in the picture."""
    source = Kitti(data / "lidar/kitti")
    for key in PICTURED:
        case = source[key]
        known, flat = find(case.truth, Calibration.slot), find(case.truth, Boxes2D.slot)
        assert isinstance(known, Calibration)
        assert isinstance(flat, Boxes2D)
        assert known.size == flat.size == case.inputs["camera"].size  # type: ignore[attr-defined]
        middles = np.column_stack([boxes(source, key).xyzlwhy[:, :3], np.ones(len(boxes(source, key).kinds))])
        matrices = known.matrices
        seen = matrices["P2"] @ np.vstack(
            [matrices["R0_rect"] @ matrices["Tr_velo_to_cam"] @ middles.T, np.ones(len(middles))]
        )
        corners = flat.xyxy[: len(middles)]
        assert (corners[:, :2] < (seen[:2] / seen[2]).T).all()
        assert (corners[:, 2:] > (seen[:2] / seen[2]).T).all()


def test_only_two_have_pictures(data: Path) -> None:
    source = Kitti(data / "lidar/kitti")
    assert tuple(source.keys()) == SWEEPS
    for key in SWEEPS[2:]:
        with pytest.raises(UnreadableCase, match=rf"^{key}: no camera \(image_2/\*\.png\)$"):
            source[key]
    assert {tuple(source[key].inputs) for key in PICTURED} == {("camera", "lidar")}


def test_apollo_is_whole(data: Path) -> None:
    source = Clouds(data / "lidar/apollo")
    started = time.process_time()
    xyzi = points(source, APOLLO)
    assert time.process_time() - started < 2
    assert len(xyzi) == 195_626
    assert not source[APOLLO].facts
    assert (np.abs(xyzi[:, :2]).max(axis=0) < 75).all()
    assert (np.ptp(xyzi[:, :2], axis=0) > 100).all()
    assert -4 < xyzi[:, 2].min() < xyzi[:, 2].max() < 6
    assert 0 <= xyzi[:, 3].min() < 0.1
    assert xyzi[:, 3].max() == 1
    bytes_again = xyzi[:, 3] * 255
    assert np.allclose(bytes_again, np.round(bytes_again), atol=1e-4)


class TestRealKitti(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, data: Path) -> None:
        self.folder = data / "lidar/kitti"

    def source(self) -> Source:
        return Kitti(self.folder, ("lidar",))


class TestRealApollo(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, data: Path) -> None:
        self.folder = data / "lidar/apollo"

    def source(self) -> Source:
        return Clouds(self.folder)


def rings(xyzi: Array) -> Array:
    """KITTI's rings: each turn of the scanner begins straight ahead, where the azimuth falls from 360 to 0 degrees."""
    azimuth = np.degrees(np.arctan2(xyzi[:, 1].astype(np.float64), xyzi[:, 0])) % 360
    return np.concatenate([[0], np.cumsum(np.diff(azimuth) < -180)])


@pytest.mark.parametrize("key", SWEEPS)
def test_beams_are_found_from_the_order_of_points(kitti: Kitti, key: str) -> None:
    xyzi = points(kitti, key)
    truth = rings(xyzi)
    assert truth.max() == 63
    beams, found_by = find_beams(xyzi)
    assert found_by == "order"
    assert (beams != truth).sum() <= 3  # points within a twentieth of a degree of straight ahead
    rest = DropBeams(beams=(7, 50)).map(PointCloud(xyzi)).xyzi
    np.testing.assert_array_equal(rest, xyzi[~np.isin(beams, (7, 50))])


def test_elevations_alone_mix_the_rings(kitti: Kitti) -> None:
    """Shuffled, a sweep has only its elevations: the best beam for a ring has less than all of the ring's points."""
    xyzi = points(kitti, SWEEPS[1])
    order = np.random.default_rng(0).permutation(len(xyzi))
    beams, found_by = find_beams(xyzi[order])
    assert found_by == "elevation"
    shares = [np.bincount(beams[ring]).max() / ring.sum() for ring in (rings(xyzi)[order] == n for n in range(len(HDL_64E)))]
    assert 0.4 < np.mean(shares) < 0.9
