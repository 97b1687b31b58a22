"""KITTI read: frames, sensors, calibration and labels, and the exporter's files read back as they were."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swerve.core.case import Case, Source
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes2D, Boxes3D, Calibration, Image, PointCloud, Value, find
from swerve.sources.export import export
from swerve.sources.kitti import Kitti, KittiRaw
from swerve.store.files import png_bytes
from swerve.testing import SourceContract
from tests.fixture_points import sweep

WIDTH, HEIGHT = 120, 60
TURN = """\
P0: 100 0 60 0 0 100 30 0 0 0 1 0
P1: 100 0 60 -39 0 100 30 0 0 0 1 0
P2: 100 0 60 4.5 0 100 30 0.2 0 0 1 0.003
P3: 100 0 60 -34 0 100 30 2.2 0 0 1 0.003
R0_rect: 0.9999239 0.00983776 -0.007445048 -0.009869795 0.9999421 -0.004278459 0.007402527 0.004351614 0.9999631
Tr_velo_to_cam: 0.007533745 -0.9999714 -0.000616602 -0.004069766 0.01480249 0.0007280733 -0.9998902 -0.07631618 0.9998621 0.00752379 0.01480755 -0.2717806
Tr_imu_to_velo: 1 0 0 -0.8 0 1 0 0.3 0 0 1 -0.8

"""  # noqa: E501 - one matrix is one line
LABEL = """\
DontCare -1 -1 -10 50 10 60 20 -1 -1 -1 -1000 -1000 -1000 -10
Car 0.00 0 1.5 10.5 20 40 50.25 1.5 1.6 4.0 -2.0 1.7 10.0 1.57
Person_sitting 0.10 1 0.2 80 25 90 45 1.2 0.6 0.8 3.0 1.6 12.0 0.5
"""


def picture(*key: object) -> Array:
    return rng_for("kitti", *key).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def put(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def made(path: Path, label: str = LABEL, turn: str = TURN, count: int = 2) -> Path:
    for number in range(count):
        name = f"{number:06d}"
        put(path / f"image_2/{name}.png", png_bytes(picture(name)))
        put(path / f"velodyne/{name}.bin", sweep(50, name).tobytes())
        put(path / f"calib/{name}.txt", turn)
        put(path / f"label_2/{name}.txt", label)
    return path


def flat(case: Case) -> Boxes2D:
    found = find(case.truth, Boxes2D.slot)
    assert isinstance(found, Boxes2D)
    return found


def solid(case: Case) -> Boxes3D:
    found = find(case.truth, Boxes3D.slot)
    assert isinstance(found, Boxes3D)
    return found


def why(path: Path) -> str:
    with pytest.raises(UnreadableCase) as caught:
        Kitti(path)["000000"]
    return str(caught.value)


def test_sensors_are_the_files(tmp_path: Path) -> None:
    case = Kitti(made(tmp_path))["000001"]
    assert case.inputs == {"camera": Image(picture("000001")), "lidar": PointCloud(sweep(50, "000001"))}


def test_labels_are_paired_first(tmp_path: Path) -> None:
    case = Kitti(made(tmp_path))["000000"]
    assert flat(case).kinds == ("car", "person_sitting", "dontcare")
    assert np.array_equal(flat(case).xyxy, [[10.5, 20, 40, 50.25], [80, 25, 90, 45], [50, 10, 60, 20]])
    assert np.asarray(flat(case).care).tolist() == [True, True, False]
    assert flat(case).size == (WIDTH, HEIGHT)
    assert solid(case).kinds == ("car", "person_sitting")
    assert np.asarray(solid(case).care).all()


def test_boxes_stand_before_the_lidar(tmp_path: Path) -> None:
    """With axes swapped and nothing else the numbers can be told by hand."""
    plain = TURN.splitlines()[:4]
    plain += ["R0_rect: 1 0 0 0 1 0 0 0 1", "Tr_velo_to_cam: 0 -1 0 0.1 0 0 -1 -0.2 1 0 0 -0.3"]
    case = Kitti(made(tmp_path, turn="\n".join(plain)))["000000"]
    # 10 m ahead of the camera, 2 m to its left, foot 1.7 m below it; the camera is 0.3 m ahead of the LiDAR
    assert np.allclose(solid(case).xyzlwhy[0, :6], [10.3, 2.1, -1.9 + 0.75, 4.0, 1.6, 1.5])
    assert solid(case).xyzlwhy[0, 6] == pytest.approx(-1.57 - math.pi / 2, abs=1e-9)


@pytest.mark.parametrize(
    ("turned", "yaw"), [(-math.pi / 2, 0.0), (0.0, -math.pi / 2), (math.pi / 2, math.pi), (math.pi, math.pi / 2)]
)
def test_quarter_turns_of_yaw(tmp_path: Path, turned: float, yaw: float) -> None:
    """KITTI's 0 looks to the right, a quarter turn back looks ahead."""
    found = solid(Kitti(made(tmp_path, LABEL.replace(" 1.57", f" {turned}")))["000000"]).xyzlwhy[0, 6]
    assert math.cos(found - yaw) > math.cos(0.03)


def test_calibration_is_whole(tmp_path: Path) -> None:
    found = find(Kitti(made(tmp_path))["000000"].truth, Calibration.slot)
    assert isinstance(found, Calibration)
    assert {name: part.shape for name, part in found.matrices.items()} == {
        **{f"P{camera}": (3, 4) for camera in range(4)},
        "R0_rect": (3, 3),
        "Tr_velo_to_cam": (3, 4),
    }
    assert found.matrices["P2"][0, 3] == 4.5
    assert found.size == (WIDTH, HEIGHT)


def random_boxes(seed: int, count: int = 12) -> tuple[Boxes2D, Boxes3D]:
    rng = rng_for("boxes", seed)
    low = rng.uniform(0, [WIDTH - 12, HEIGHT - 12], (count, 2))
    kinds = tuple(str(kind) for kind in rng.choice(["car", "van", "truck", "pedestrian", "cyclist", "tram"], count))
    where = rng.uniform([5, -20, -2], [60, 20, 1], (count, 3))
    sizes, yaw = rng.uniform(0.5, 6, (count, 3)), rng.uniform(-math.pi, math.pi, (count, 1))
    hidden = rng.choice([0.0, 0.3, 0.75], count)
    corners = np.hstack([low, low + rng.uniform(2, 12, (count, 2))])
    return Boxes2D(corners, kinds, size=(WIDTH, HEIGHT), hidden=hidden), Boxes3D(np.hstack([where, sizes, yaw]), kinds)


def exported(path: Path, *truth: Value) -> Path:
    case = Case("k", {"camera": Image(picture("k")), "lidar": PointCloud(sweep(50))}, truth)
    export({"train": [case]}, path, "kitti")
    put(path / "train/calib/000000.txt", TURN)
    return path / "train"


@pytest.mark.parametrize("seed", range(10))
def test_export_reads_back(tmp_path: Path, seed: int) -> None:
    known = Kitti(made(tmp_path / "first"))["000000"].truth[-1]
    two, three = random_boxes(seed)
    again = Kitti(exported(tmp_path / "second", two, three, known))["000000"]
    assert again.inputs == {"camera": Image(picture("k")), "lidar": PointCloud(sweep(50))}
    assert np.allclose(flat(again).xyxy, two.xyxy, atol=1e-4)
    assert flat(again).kinds == solid(again).kinds == two.kinds
    assert np.array_equal(flat(again).hidden, two.hidden)
    assert np.allclose(solid(again).xyzlwhy[:, :6], three.xyzlwhy[:, :6], atol=3e-4)
    turned = solid(again).xyzlwhy[:, 6] - three.xyzlwhy[:, 6]
    assert np.allclose(np.cos(turned), 1, atol=1e-7)
    assert np.array_equal(again.truth[-1].matrices["P2"], known.matrices["P2"])  # type: ignore[attr-defined]


def test_boxes_in_space_alone_read_back(tmp_path: Path) -> None:
    known = Kitti(made(tmp_path / "first"))["000000"].truth[-1]
    _, three = random_boxes(1)
    again = Kitti(exported(tmp_path / "second", three, known))["000000"]
    assert find(again.truth, Boxes2D.slot) is None
    assert np.allclose(solid(again).xyzlwhy[:, :6], three.xyzlwhy[:, :6], atol=3e-4)


def test_boxes_in_the_picture_alone_read_back(tmp_path: Path) -> None:
    two, _ = random_boxes(2)
    two = replace(two, care=np.arange(12) % 3 > 0)
    again = Kitti(exported(tmp_path, two))["000000"]
    assert len(solid(again).kinds) == 0
    assert np.allclose(flat(again).xyxy, two.xyxy, atol=1e-4)
    assert np.array_equal(flat(again).care, two.care)


def test_unknown_occlusion_is_not_told(tmp_path: Path) -> None:
    assert flat(Kitti(made(tmp_path / "a"))["000000"]).hidden is not None
    assert flat(Kitti(made(tmp_path / "b", LABEL.replace("0.10 1", "0.10 3")))["000000"]).hidden is None


def test_empty_label_has_no_boxes(tmp_path: Path) -> None:
    case = Kitti(made(tmp_path, ""))["000000"]
    assert (len(flat(case).kinds), len(solid(case).kinds)) == (0, 0)


def test_missing_sensors_are_skips(tmp_path: Path) -> None:
    made(tmp_path, count=4)
    (tmp_path / "image_2/000001.png").unlink()
    (tmp_path / "velodyne/000002.bin").unlink()
    both, camera, lidar = Kitti(tmp_path), Kitti(tmp_path, ("camera",)), Kitti(tmp_path, ("lidar",))
    assert both.keys() == camera.keys() == lidar.keys() == [f"{number:06d}" for number in range(4)]
    assert skips(both) == ["000001: no camera (image_2/*.png)", "000002: no lidar (velodyne/*.bin)"]
    assert skips(camera) == ["000001: no camera (image_2/*.png)"]
    assert skips(lidar) == ["000002: no lidar (velodyne/*.bin)"]
    assert set(lidar["000001"].inputs) == {"lidar"}
    assert find(lidar["000001"].truth, Boxes2D.slot) is None  # a label is about what is shown


def skips(source: Source) -> list[str]:
    found = []
    for key in source.keys():
        try:
            source[key]
        except UnreadableCase as error:
            found.append(str(error))
    return found


def test_missing_label_is_a_skip(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "label_2/000000.txt").unlink()
    (tmp_path / "calib/000001.txt").unlink()
    assert skips(Kitti(tmp_path)) == ["000000: no labels (label_2/*.txt)", "000001: no calibration (calib/*.txt)"]


def rooted(path: Path) -> Path:
    """The benchmark as it unpacks: a training set, and a larger one without labels."""
    made(path / "training")
    made(path / "testing", count=5)
    for label in (path / "testing/label_2").iterdir():
        label.unlink()
    return path


def test_training_is_read_of_both(tmp_path: Path) -> None:
    source = Kitti(rooted(tmp_path))
    assert source.keys() == ["training/000000", "training/000001"]
    assert flat(source["training/000001"]).kinds == ("car", "person_sitting", "dontcare")
    assert skips(source) == []


def test_split_is_a_folder(tmp_path: Path) -> None:
    source = Kitti(rooted(tmp_path), split="testing")
    assert source.keys() == [f"testing/{number:06d}" for number in range(5)]
    assert [value.slot for value in source["testing/000004"].truth] == ["calibration"]
    with pytest.raises(InputError, match="no folder 'trainin', which 'split' names"):
        Kitti(tmp_path, split="trainin").keys()
    with pytest.raises(InputError, match="outside the data set's folder"):
        Kitti(tmp_path / "training", split="../testing").keys()


def test_one_of_both_is_read_whole(tmp_path: Path) -> None:
    made(tmp_path / "training")
    assert Kitti(tmp_path).keys() == ["training/000000", "training/000001"]
    made(tmp_path / "more")
    assert len(Kitti(tmp_path).keys()) == 4


def test_kinds_are_chosen_and_renamed(tmp_path: Path) -> None:
    case = Kitti(made(tmp_path), kinds=("person_sitting",), rename={"person_sitting": "person"})["000000"]
    assert flat(case).kinds == ("person", "dontcare")
    assert np.array_equal(flat(case).xyxy, [[80, 25, 90, 45], [50, 10, 60, 20]])
    assert np.asarray(flat(case).care).tolist() == [True, False]
    assert solid(case).kinds == ("person",)
    renamed = Kitti(tmp_path, rename={"car": "vehicle"})["000000"]
    assert (flat(renamed).kinds[0], solid(renamed).kinds[0]) == ("vehicle", "vehicle")
    assert np.array_equal(solid(renamed).xyzlwhy, solid(Kitti(tmp_path)["000000"]).xyzlwhy)


@pytest.mark.parametrize("asked", [{"kinds": ("caar",)}, {"rename": {"caar": "x"}}])
def test_misspelt_kind_is_refused(tmp_path: Path, asked: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="unknown kind 'caar'; did you mean 'car'"):
        Kitti(made(tmp_path), **asked).keys()


def test_kinds_need_not_be_kitti_s(tmp_path: Path) -> None:
    made(tmp_path, LABEL.replace("\nCar", "\nScooter"))
    put(tmp_path / "label_2/000001.txt", b"\xff")
    assert flat(Kitti(tmp_path, kinds=("scooter",))["000000"]).kinds == ("scooter", "dontcare")
    assert flat(Kitti(tmp_path, kinds=("tram",))["000000"]).kinds == ("dontcare",)


def test_test_set_has_no_labels(tmp_path: Path) -> None:
    made(tmp_path)
    for number in range(2):
        (tmp_path / f"label_2/00000{number}.txt").unlink()
    assert [value.slot for value in Kitti(tmp_path)["000000"].truth] == ["calibration"]


def test_without_calibration_no_boxes_in_space(tmp_path: Path) -> None:
    made(tmp_path, count=1)
    (tmp_path / "calib/000000.txt").unlink()
    assert [value.slot for value in Kitti(tmp_path)["000000"].truth] == ["boxes2d"]


def test_sets_below_are_groups(tmp_path: Path) -> None:
    made(tmp_path / "train")
    made(tmp_path / "val")
    source = Kitti(tmp_path)
    assert source.keys() == ["train/000000", "train/000001", "val/000000", "val/000001"]
    assert [source.group(key) for key in source.keys()] == ["train", "train", "val", "val"]


@pytest.mark.parametrize("sensors", [(), ("radar",), ("camera", "camera"), "camera"])
def test_bad_sensors_are_refused(tmp_path: Path, sensors: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"sensors'?[ :]"):
        Kitti(tmp_path, sensors)


def test_folder_without_a_sensor_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "image_2/000000.png", png_bytes(picture(0)))
    with pytest.raises(InputError, match=r"sensor 'lidar' has no file velodyne/\*\.bin"):
        Kitti(tmp_path).keys()


CAR = "Car 0.00 0 1.5 10.5 20 40 50.25 1.5 1.6 4.0 -2.0 1.7 10.0 1.57"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (CAR + " 0.9", "16 columns; a label has 15"),
        (CAR.removesuffix(" 1.57"), "14 columns"),
        (CAR.replace("10.5", "nan"), "column 5"),
        (CAR.replace("10.5", "inf"), "column 5"),
        (CAR.replace("-2.0", "left"), "column 12"),
        (CAR.replace("-2.0", "1e300"), "column 12: 1e300 is outside"),
        (CAR.replace("10.5", "40"), "must have a positive width and height, got"),
        (CAR.replace("50.25", "19"), "must have a positive width and height, got"),
        (CAR.replace("10.5 20 40 50.25", "120 20 140 50"), "is outside the picture of 120x60"),
        (CAR.replace("1.5 1.6 4.0", "1.5 0 4.0"), "sizes must be positive, got 1.5 x 0 x 4.0 m"),
        (CAR.replace("1.5 1.6 4.0", "1.5 -1 4.0"), "sizes must be positive"),
        (CAR.replace("1.57", "90"), "the rotation is 90, but KITTI's angles are in radians"),
    ],
)
def test_bad_label_gets_its_line(tmp_path: Path, line: str, reason: str) -> None:
    found = why(made(tmp_path, f"{CAR}\n\n{line}\n"))
    assert found.startswith("label_2/000000.txt line 3")
    assert reason in found


def broken(what: str, change: Callable[[str], str]) -> str:
    return "\n".join(change(line) if line.startswith(what) else line for line in TURN.splitlines())


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (broken("P2", lambda line: line + " 1"), "calib/000000.txt line 3, P2: the line has 13 numbers, expected 12"),
        (broken("R0_rect", lambda line: line[:-12]), "calib/000000.txt line 5, R0_rect: the line has 8 numbers, expected 9"),
        (broken("P2", lambda line: line.replace("4.5", "nan")), "calib/000000.txt line 3, P2"),
        (broken("P2", lambda line: line.replace("4.5", "x")), "calib/000000.txt line 3, P2"),
        (broken("P2", lambda line: line.replace("4.5", "1e200")), "calib/000000.txt line 3, P2: 1e200 is outside"),
        (broken("P2", lambda _: ""), "calib/000000.txt: the file has no line P2"),
        (
            broken("Tr_velo", lambda line: line.replace("0.9998621", "0.09")),
            "calib/000000.txt: Tr_velo_to_cam is not a rotation",
        ),
        (broken("R0_rect", lambda _: "R0_rect:" + " 0" * 9), "calib/000000.txt: R0_rect is not a rotation"),
        (broken("P1", lambda line: line.replace("P1", "P0")), "calib/000000.txt line 2: duplicate P0"),
        (broken("Tr_velo", lambda _: "Tr_velo_to_cam: 1 0 0 0 0 1 0 0 0 0 1 0"), "looks up or down"),
        ("", "no line P2 and no line R0_rect and no line Tr_velo_to_cam"),
    ],
)
def test_bad_calibration_gets_its_line(tmp_path: Path, turn: str, reason: str) -> None:
    assert reason in why(made(tmp_path, turn=turn))


def test_broken_sensors_are_named(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "velodyne/000000.bin").write_bytes(bytes(15))
    assert why(tmp_path).startswith("velodyne/000000.bin: 15 bytes")
    (tmp_path / "image_2/000000.png").write_bytes(b"no picture")
    assert why(tmp_path).startswith("image_2/000000.png: ")


def test_fingerprint_sees_every_file(tmp_path: Path) -> None:
    made(tmp_path)
    prints = {Kitti(tmp_path).fingerprint(), Kitti(tmp_path, ("lidar",)).fingerprint()}
    for name in ("calib/000001.txt", "label_2/000001.txt", "velodyne/000000.bin", "image_2/000001.png"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b"\n")
        prints.add(Kitti(tmp_path).fingerprint())
    assert len(prints) == 6


def test_dropped_points_are_told(tmp_path: Path) -> None:
    made(tmp_path)
    table = sweep(50)
    table[:2] = np.nan
    put(tmp_path / "velodyne/000000.bin", table.tobytes())
    assert dict(Kitti(tmp_path)["000000"].facts) == {"points dropped": 2.0}


def drives(path: Path) -> Path:
    for drive in ("2011_09_26_drive_0009_sync", "2011_09_26_drive_0010_sync"):
        for number in range(3):
            put(path / f"2011_09_26/{drive}/image_02/data/{number:010d}.png", png_bytes(picture(drive, number)))
            if (drive[-6], number) != ("9", 1):  # KITTI's own drive 9 lacks sweeps
                put(path / f"2011_09_26/{drive}/velodyne_points/data/{number:010d}.bin", sweep(20, drive, number).tobytes())
    return path


def test_raw_drives_are_groups(tmp_path: Path) -> None:
    source = KittiRaw(drives(tmp_path))
    keys = source.keys()
    assert len(keys) == 6
    assert keys == sorted(keys)
    assert keys[0] == "2011_09_26/2011_09_26_drive_0009_sync/0000000000"
    assert source.group(keys[4]) == "2011_09_26/2011_09_26_drive_0010_sync"
    assert source[keys[5]].inputs["lidar"] == PointCloud(sweep(20, "2011_09_26_drive_0010_sync", 2))
    assert skips(source) == [f"{keys[1]}: no lidar (velodyne_points/data/*.bin)"]


class TestKitti(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = made(tmp_path)

    def source(self) -> Source:
        return Kitti(self.folder)


class TestKittiRaw(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = drives(tmp_path)

    def source(self) -> Source:
        return KittiRaw(self.folder, ("camera",))
