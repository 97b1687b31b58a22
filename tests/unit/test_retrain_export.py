"""Exports read back by small readers of their own."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import InputError, printable
from swerve.core.seeding import rng_for
from swerve.core.values import Boxes2D, Boxes3D, Calibration, Group, Image, Masks, PointCloud, Steering, Value
from swerve.sources import export as exporting
from swerve.sources.export import export, form_named
from swerve.sources.kitti_writer import boxes_to_camera
from swerve.sources.writing import Spools, slug
from swerve.world.source import World

FORMS = [form for form in exporting.FORMS if form not in ("bosch", "lisa")]  # these have traffic lights alone
WIDTH, HEIGHT = 40, 30
CORNERS = np.array([[5.25, 4.5, 15.5, 12.75], [0, 0, 40, 30], [20.5, 10.0, 39.5, 29.0]])
OUTSIDE = [[40, 10, 40, 20]]


def picture(key: str) -> Image:
    return Image(rng_for("export", key).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8))


def boxes() -> Boxes2D:
    kinds = ("car", "traffic light", "car", "car")
    care = np.array([True, True, False, False])
    return Boxes2D(np.vstack([CORNERS, OUTSIDE]), kinds, size=(WIDTH, HEIGHT), care=care)


def case(key: str, *truth: Value, **more: object) -> Case:
    return Case(key, {"camera": picture(key)}, truth or (Steering(-12.5), boxes()), group="drive", **more)  # type: ignore[arg-type]


def splits() -> dict[str, Iterator[Case]]:
    facts = {"rule": "fog", "change": "fog 30 m"}
    changed = case("one~abc", parent="one", facts=facts)
    return {"train": iter([case("one"), changed]), "val": iter([case("two")])}


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def manifest(folder: Path) -> list[dict[str, str]]:
    return table(folder / "manifest.csv")


def pixels_at(path: Path) -> np.ndarray:  # type: ignore[type-arg]
    found = cv2.imread(str(path))
    assert found is not None
    return found[..., ::-1]


@pytest.mark.parametrize("form", FORMS)
def test_pictures_are_lossless(tmp_path: Path, form: str) -> None:
    assert export(splits(), tmp_path / "set", form) == {"train": 2, "val": 1}
    for row in manifest(tmp_path / "set"):
        assert np.array_equal(pixels_at(tmp_path / "set" / row["file"]), picture(row["key"]).pixels)


@pytest.mark.parametrize("form", FORMS)
def test_manifest_tells_the_origin(tmp_path: Path, form: str) -> None:
    export(splits(), tmp_path / "set", form)
    told = [
        tuple(row[name] for name in ("split", "key", "parent", "group", "rule", "change"))
        for row in manifest(tmp_path / "set")
    ]
    assert told == [
        ("train", "one", "", "drive", "", ""),
        ("train", "one~abc", "one", "drive", "fog", "fog 30 m"),
        ("val", "two", "", "drive", "", ""),
    ]


@pytest.mark.parametrize("form", FORMS)
def test_sides_lie_apart(tmp_path: Path, form: str) -> None:
    export(splits(), tmp_path / "set", form)
    folders = {row["split"]: set() for row in manifest(tmp_path / "set")}  # type: ignore[var-annotated]
    for row in manifest(tmp_path / "set"):
        folders[row["split"]].add((tmp_path / "set" / row["file"]).parent)
    assert not folders["train"] & folders["val"]
    assert all(form_named(form).place(tmp_path / "set", side).exists() for side in folders)


def test_udacity_reads_back(tmp_path: Path) -> None:
    export(splits(), tmp_path, "udacity")
    rows = table(tmp_path / "train" / "steering.csv")
    assert [float(row["steering_angle"]) for row in rows] == [math.radians(-12.5)] * 2
    assert all((tmp_path / "train" / "center" / f"{row['frame_id']}.png").is_file() for row in rows)


def test_coco_reads_back(tmp_path: Path) -> None:
    export(splits(), tmp_path, "coco")
    page = json.loads((tmp_path / "annotations" / "instances_train.json").read_text())
    names = {kind["id"]: kind["name"] for kind in page["categories"]}
    first = [box for box in page["annotations"] if box["image_id"] == page["images"][0]["id"]]
    corners = [(x, y, x + w, y + h) for x, y, w, h in (box["bbox"] for box in first)]
    assert corners == [tuple(row) for row in CORNERS]
    assert [names[box["category_id"]] for box in first] == ["car", "traffic light", "car"]
    assert [box["iscrowd"] for box in first] == [0, 0, 1]
    assert (tmp_path / "train" / page["images"][0]["file_name"]).is_file()
    assert (page["info"], page["licenses"]) == ({}, [])


def test_coco_ids_are_shared(tmp_path: Path) -> None:
    export(splits(), tmp_path, "coco")
    pages = [json.loads((tmp_path / "annotations" / f"instances_{side}.json").read_text()) for side in ("train", "val")]
    assert pages[0]["categories"] == pages[1]["categories"]
    ids = [box["id"] for page in pages for box in page["annotations"]]
    assert len(ids) == len(set(ids)) == 9


def test_coco_tool_reads_it(tmp_path: Path) -> None:
    from faster_coco_eval import COCO

    export(splits(), tmp_path, "coco")
    known = COCO(str(tmp_path / "annotations" / "instances_train.json"), print_function=lambda *told: None)
    assert len(known.getImgIds()) == 2
    assert len(known.getAnnIds(iscrowd=False)) == 4


def test_yolo_reads_back(tmp_path: Path) -> None:
    export(splits(), tmp_path, "yolo")
    lines = (tmp_path / "labels" / "train" / "000000-one.txt").read_text().splitlines()
    found = []
    for line in lines:
        kind, x, y, w, h = map(float, line.split())
        found.append([kind, (x - w / 2) * WIDTH, (y - h / 2) * HEIGHT, (x + w / 2) * WIDTH, (y + h / 2) * HEIGHT])
    assert np.allclose(found, [[0, *CORNERS[0]], [1, *CORNERS[1]]], atol=1e-5)
    assert (tmp_path / "data.yaml").read_text() == (
        'train: images/train\nval: images/val\nnames:\n  0: "car"\n  1: "traffic light"\n'
    )


@pytest.mark.parametrize("kind", ["\N{VERTICAL TRAFFIC LIGHT} light", "a: b #c", 'q"x', "тест", "a\u2028b\x85c", "\ud800"])
def test_yaml_reads_kinds_back(tmp_path: Path, kind: str) -> None:
    yaml = pytest.importorskip("yaml")
    export({"train": [case("k", replace(FLAT, kinds=(kind, "van")))]}, tmp_path, "yolo")
    read = yaml.safe_load((tmp_path / "data.yaml").read_text())
    assert read["names"] == {0: printable(kind), 1: "van"}


def test_voc_reads_back(tmp_path: Path) -> None:
    export(splits(), tmp_path, "voc")
    name = (tmp_path / "train" / "ImageSets" / "Main" / "train.txt").read_text().split()[0]
    page = ElementTree.parse(tmp_path / "train" / "Annotations" / f"{name}.xml").getroot()
    objects = page.findall("object")
    assert [item.findtext("name") for item in objects] == ["car", "traffic light", "car"]
    assert [item.findtext("difficult") for item in objects] == ["0", "0", "1"]
    corners = [[int(item.findtext(f"bndbox/{side}") or "") for side in ("xmin", "ymin", "xmax", "ymax")] for item in objects]
    assert corners == [[6, 5, 16, 13], [1, 1, 40, 30], [21, 11, 40, 29]]


def kitti_rows(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "train" / "label_2" / "000000.txt").read_text().splitlines()]


def test_kitti_reads_back(tmp_path: Path) -> None:
    export(splits(), tmp_path, "kitti")
    rows = kitti_rows(tmp_path)
    assert [row[0] for row in rows] == ["Car", "traffic_light", "DontCare"]
    assert np.allclose([[float(n) for n in row[4:8]] for row in rows], CORNERS)
    assert {len(row) for row in rows} == {15}
    assert rows[0][8:] == ["-1.0000"] * 3 + ["-1000.0000"] * 3 + ["-10.0000"]


SOLID = Boxes3D(np.array([[10, 2, 0.75, 4, 2, 1.5, 0.3], [20, -3, 1, 5, 2, 2, -1.0]]), ("car", "van"))
FLAT = Boxes2D(CORNERS[:2], ("car", "van"), size=(WIDTH, HEIGHT))
HIGH = Calibration(
    {"camera": np.eye(3), "boxes_to_camera": np.array([[0, -1, 0, 0], [0, 0, -1, 1.5], [1, 0, 0, 0], [0, 0, 0, 1]])}
)


def test_kitti_names_every_kind(tmp_path: Path) -> None:
    export({"train": [case("k", replace(FLAT, kinds=("", " ")))]}, tmp_path, "kitti")
    assert [(row[0], len(row)) for row in kitti_rows(tmp_path)] == [("Misc", 15), ("Misc", 15)]


def test_kitti_has_solid_boxes(tmp_path: Path) -> None:
    export({"train": [case("k", FLAT, SOLID, HIGH)]}, tmp_path, "kitti")
    first = [float(n) for n in kitti_rows(tmp_path)[0][1:]]
    height, width, length, x, y, z, turned = first[7:]
    assert (height, width, length) == (1.5, 2, 4)
    assert (x, y, z) == (-2, 1.5, 10)  # right, down from the camera to the wheels, ahead
    assert -turned - math.pi / 2 == pytest.approx(0.3, abs=1e-4)
    assert first[2] == pytest.approx(turned - math.atan2(x, z), abs=1e-4)


def corners_of(row: list[float]) -> np.ndarray:  # type: ignore[type-arg]
    """The corners of a KITTI box as its development kit reckons them, in the camera's frame."""
    height, width, length, *foot, turned = row[7:]
    cos, sin = math.cos(turned), math.sin(turned)
    local = [[a * length / 2, b * height, c * width / 2] for a in (1, -1) for b in (0, -1) for c in (1, -1)]
    return np.array(local) @ np.array([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]]) + foot


def test_solid_boxes_cover_flat_ones(tmp_path: Path) -> None:
    world = World(drives=1, seed=1, labels=("boxes2d", "boxes3d", "calibration"), width=320, height=180)
    export({"train": (world[key] for key in world.keys())}, tmp_path, "kitti")
    rows = [[float(n) for n in row[1:]] for row in kitti_rows(tmp_path) if row[0] != "DontCare"]
    ahead = [row for row in rows if corners_of(row)[:, 2].min() > 1]
    assert len(ahead) > 3
    for row in ahead:
        seen = corners_of(row) @ world.camera.matrix.T
        hull = seen[:, :2] / seen[:, 2:]
        wide, high = row[5] - row[3], row[6] - row[4]
        assert (hull.min(axis=0) <= np.array(row[3:5]) + 0.5).all()
        assert (hull.max(axis=0) >= np.array(row[5:7]) - 0.5).all()
        if row[3] > 0 and row[5] < world.width and corners_of(row)[:, 2].min() > 10:
            assert (np.ptp(hull, axis=0) <= [1.5 * wide + 2, 1.5 * high + 2]).all()


def test_kitti_gives_boxes_in_space(tmp_path: Path) -> None:
    export({"train": [case("k", SOLID)]}, tmp_path, "kitti")
    rows = kitti_rows(tmp_path)
    assert [row[0] for row in rows] == ["Car", "Van"]
    assert rows[0][4:8] == ["-1.0000"] * 4


def test_kitti_keeps_pairs_together(tmp_path: Path) -> None:
    moved = Boxes2D(np.array([[40, 1, 40, 5], [3, 3, 9, 9]]), ("car", "van"), size=(WIDTH, HEIGHT))
    export({"train": [case("k", moved, SOLID)]}, tmp_path, "kitti")
    (row,) = kitti_rows(tmp_path)
    assert row[0] == "Van"
    assert float(row[13]) == 20


def test_kitti_refuses_odd_pairs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="are not the same objects in the same order"):
        export({"train": [case("k", boxes(), SOLID)]}, tmp_path / "set", "kitti")


def test_kitti_keeps_other_sensors(tmp_path: Path) -> None:
    cloud = PointCloud(np.arange(12, dtype=np.float32).reshape(3, 4))
    both = Case("k", {"camera": picture("k"), "lidar": cloud}, (FLAT, HIGH))
    export({"train": [both]}, tmp_path, "kitti")
    assert np.array_equal(np.fromfile(tmp_path / "train" / "velodyne" / "000000.bin", "<f4").reshape(-1, 4), cloud.xyzi)
    lines = dict(line.split(": ") for line in (tmp_path / "train" / "calib" / "000000.txt").read_text().splitlines())
    assert np.array_equal(np.array(lines["P2"].split(), float).reshape(3, 4), np.eye(3, 4))


def test_kitti_matrix_wins() -> None:
    known = Calibration({"Tr_velo_to_cam": np.arange(12.0).reshape(3, 4), "R0_rect": 2 * np.eye(3)})
    assert np.array_equal(boxes_to_camera(known)[:3], 2 * np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("key", ["../../etc/passwd", "/etc/passwd", "a\0b", ".hidden", "=cmd()", "", "ü" * 300, "a" * 300])
@pytest.mark.parametrize("form", FORMS)
def test_names_stay_inside(tmp_path: Path, key: str, form: str) -> None:
    folder = tmp_path / "in" / "set"
    export({"../up": [case(key)]}, folder, form)
    assert {path.name for path in (tmp_path / "in").iterdir()} == {"set"}
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    (row,) = manifest(folder)
    assert (folder / row["file"]).resolve().is_relative_to(folder.resolve())


def test_same_slugs_do_not_collide(tmp_path: Path) -> None:
    assert slug("a/b") == slug("a?b")
    export({"train": [case("a/b"), case("a?b")]}, tmp_path, "yolo")
    assert len({row["file"] for row in manifest(tmp_path)}) == 2


def test_occupied_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty; choose a new folder"):
        export(splits(), tmp_path, "coco")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_failed_export_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'b' has no boxes to write; its labels are steering"):
        export({"train": [case("a"), case("b", Steering(1.0))]}, tmp_path / "set", "yolo")
    assert not list(tmp_path.iterdir())


BOXED = [form for form in FORMS if form != "udacity"]


@pytest.mark.parametrize("form", BOXED)
def test_boxes_of_another_size_are_refused(tmp_path: Path, form: str) -> None:
    large = Boxes2D(np.array([[20, 10, 60, 50]]), ("car",), size=(80, 60))
    with pytest.raises(
        InputError, match="'k' cannot be written: its boxes are for a picture of 80x60, but its picture is 40x30"
    ):
        export({"train": [case("k", large)]}, tmp_path / "set", form)


@pytest.mark.parametrize("form", BOXED)
@pytest.mark.parametrize("corners", [[10, 2, 5, 20], [1, 20, 9, 2], [90, 2, 60, 20]])
def test_inverted_boxes_are_refused(tmp_path: Path, form: str, corners: list[int]) -> None:
    inverted = Boxes2D(np.array([[1, 2, 3, 4], corners]), ("van", "car"), size=(WIDTH, HEIGHT))
    with pytest.raises(InputError, match=r"'k' cannot be written: box 2 \('car'\) has a negative size"):
        export({"train": [case("k", inverted)]}, tmp_path / "set", form)


def test_masks_of_another_size_are_refused(tmp_path: Path) -> None:
    masks = Masks(np.ones((60, 80), int), {1: "car", 2: "van"})
    with pytest.raises(
        InputError, match="'k' cannot be written: its masks are for a picture of 80x60, but its picture is 40x30"
    ):
        export({"train": [case("k", FLAT, masks)]}, tmp_path / "set", "coco")


def test_nothing_to_export_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to export: no cases in train or val"):
        export({"train": [], "val": []}, tmp_path / "set", "coco")


def test_unknown_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown export format 'cocoa'; did you mean 'coco'"):
        export(splits(), tmp_path / "set", "cocoa")


def test_unlabelled_angle_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'k' has no steering angle to write"):
        export({"train": [case("k", boxes())]}, tmp_path / "set", "udacity")


def test_blind_case_is_named(tmp_path: Path) -> None:
    blind = Case("k", {"lidar": PointCloud(np.zeros((1, 4)))}, (Steering(0.0),))
    with pytest.raises(InputError, match="'k' has no picture to write; its inputs are lidar"):
        export({"train": [blind]}, tmp_path / "set", "udacity")


def test_window_shows_last_frame(tmp_path: Path) -> None:
    window = Case("k", {"camera": Group((picture("early"), picture("late")))}, (Steering(0.0),))
    export({"train": [window]}, tmp_path, "udacity")
    assert np.array_equal(pixels_at(tmp_path / manifest(tmp_path)[0]["file"]), picture("late").pixels)


def test_same_cases_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        export(splits(), tmp_path / name, "coco")
    files = [sorted(path.relative_to(tmp_path / name) for path in (tmp_path / name).rglob("*.*")) for name in ("one", "two")]
    assert files[0] == files[1]
    assert all((tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes() for path in files[0])


def test_spool_gives_back_rows() -> None:
    with Spools() as spools:
        for row in (["a\nb", 0.1], []):
            spools["one"].add(row)
        assert list(spools["one"].rows()) == [["a\nb", 0.1], []]
        assert not list(spools["other"].rows())
