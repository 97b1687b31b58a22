"""Findings of sweeps without any picture as KITTI data, read back: the same points, boxes and regions."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from swerve.cli.main import main
from swerve.config.toml import build_change
from swerve.config.trust import OWN
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.region import outside
from swerve.core.values import Array, Boxes2D, Boxes3D, Calibration, Group, Image, PointCloud, Region, Value, find
from swerve.sources.export import export
from swerve.sources.kitti import Kitti
from swerve.sources.regions import Regions, read
from swerve.store.view import Run
from tests.fixture_sweeps import points_of
from tests.quality.test_lidar_identity import ROAD, Sweeps

CAMPAIGN = """
method = "lidar"
n = [100]
[source]
use = "tests.quality.test_lidar_identity:Sweeps"
count = 6
[system]
use = "tests.quality.test_lidar_identity:Coupled"
"""
ROUNDING = 1e-4  # a label has four digits
SQUARE = np.array([[0.0, 0], [10, 0], [10, 10], [0, 10]])
BOXES = Boxes3D(np.array([[8.0, 2.5, -0.4, 4.2, 1.8, 1.5, 0.7], [20, -3, 0, 0.8, 0.6, 1.8, -2.0]]), ("car", "pedestrian"))


def boxes_of(case: Case) -> Boxes3D:
    found = find(case.truth, Boxes3D.slot)
    assert isinstance(found, Boxes3D)
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("sweeps")
    (folder / "lidar.toml").write_text(CAMPAIGN)
    assert main(["run", str(folder / "lidar.toml"), "--into", str(folder / "run")]) == 1
    return Run(folder / "run")


def test_findings_of_a_lidar_run_read_back(run: Run, tmp_path: Path) -> None:
    assert main(["export", str(run.folder), "--as", "kitti", "--out", str(tmp_path / "set")]) == 0
    place = tmp_path / "set" / "findings"
    assert sorted(path.name for path in place.iterdir()) == ["calib", "label_2", "regions.geojson", "velodyne"]
    source = Regions(Kitti(place, ("lidar",)), region=place / "regions.geojson")
    findings = list(run.findings())
    assert len(source.keys()) == len(findings) >= 2
    with (tmp_path / "set" / "manifest.csv").open(newline="") as file:
        told = {Path(row["file"]).stem: row for row in csv.DictReader(file)}
    for key, finding in zip(source.keys(), findings, strict=True):
        made = build_change(finding.change, OWN)(Sweeps(6)[finding.case])
        again = source[key]
        assert told[key]["file"] == f"findings/velodyne/{key}.bin"
        assert told[key]["parent"] == finding.case
        assert points_of(again).tobytes() == points_of(made).tobytes()
        assert boxes_of(again).kinds == boxes_of(made).kinds
        assert boxes_of(again).xyzlwhy == pytest.approx(boxes_of(made).xyzlwhy, abs=ROUNDING)
        assert again.inputs["region"] == ROAD


def exported(folder: Path, inputs: dict[str, Value], *truth: Value) -> Path:
    export({"train": [Case("k", inputs, truth)]}, folder, "kitti")
    return folder / "train"


def cloud(count: int = 5) -> PointCloud:
    return PointCloud(np.random.default_rng(count).random((count, 4)).astype(np.float32))


def test_calibration_of_the_sweep_is_kept(tmp_path: Path) -> None:
    turned = np.array([[0.1, -0.99498744, 0, 0.3], [0, 0, -1, -0.1], [0.99498744, 0.1, 0, -0.2]])
    known = Calibration({"P2": 700 * np.eye(3, 4), "R0_rect": np.eye(3), "Tr_velo_to_cam": turned})
    place = exported(tmp_path, {"lidar": cloud()}, BOXES, known)
    again = Kitti(place, ("lidar",))["000000"]
    assert boxes_of(again).xyzlwhy == pytest.approx(BOXES.xyzlwhy, abs=2 * ROUNDING)
    written = find(again.truth, Calibration.slot)
    assert isinstance(written, Calibration)
    assert np.array_equal(written.matrices["Tr_velo_to_cam"], turned)
    assert {line.split()[1] for line in (place / "label_2" / "000000.txt").read_text().splitlines()} == {"-1"}


def test_boxes_of_a_picture_that_is_not_there_are_left_out(tmp_path: Path) -> None:
    flat = Boxes2D(np.array([[1.0, 1, 5, 5]]), ("car",), size=(9, 9))
    place = exported(tmp_path, {"lidar": cloud()}, flat, BOXES)
    assert boxes_of(Kitti(place, ("lidar",))["000000"]).kinds == BOXES.kinds


def test_window_shows_its_last_sweep(tmp_path: Path) -> None:
    place = exported(tmp_path, {"lidar": Group((cloud(3), cloud(4)))}, BOXES)
    assert points_of(Kitti(place, ("lidar",))["000000"]).tobytes() == cloud(4).xyzi.tobytes()


def test_pictures_go_on_without_a_calibration_made_up(tmp_path: Path) -> None:
    """Beside a picture a camera that nobody measured would be believed."""
    picture = Image(np.zeros((8, 8, 3), np.uint8))
    place = exported(tmp_path, {"camera": picture, "lidar": cloud(), "region": Region((SQUARE,))}, BOXES)
    assert sorted(path.name for path in place.iterdir()) == ["image_2", "label_2", "regions.geojson", "velodyne"]


def test_sweep_without_boxes_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'k' has no boxes to write; its labels are none"):
        exported(tmp_path / "set", {"lidar": cloud()})


def reversed_ring(ring: Array) -> Array:
    return np.ascontiguousarray(ring[::-1])


@pytest.mark.parametrize(
    "rings",
    [
        (SQUARE,),
        (SQUARE, reversed_ring(SQUARE / 4 + 2)),  # a hole
        (SQUARE, SQUARE + 5, reversed_ring(SQUARE / 8 + 1), reversed_ring(SQUARE / 8 + 3)),  # two that overlap, two holes
        (reversed_ring(SQUARE + 30),),  # the wrong way round, and land all the same
        (SQUARE, reversed_ring(SQUARE + 30)),
    ],
)
def test_regions_read_back(tmp_path: Path, rings: tuple[Array, ...]) -> None:
    place = exported(tmp_path, {"lidar": cloud(), "region": Region(rings)}, BOXES)
    (again,) = read(place / "regions.geojson").values()
    grid = np.stack(np.meshgrid(np.arange(-2, 42, 0.37), np.arange(-2, 42, 0.37)), axis=-1).reshape(-1, 2)
    assert (outside(again, grid) == outside(Region(rings), grid)).all()
    assert 0 < outside(again, grid).mean() < 1
    assert sorted(map(len, again.polygons)) == sorted(map(len, rings))
