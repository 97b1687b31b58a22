import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from pycocotools.mask import decode, frPyObjects

from swerve.cli.main import main
from swerve.core.values import Boxes2D, Masks, find
from swerve.report.world_dataset import GAP, contact_sheet
from swerve.world.source import World

SIZE = ("--size", "96x54", "--count", "2")


def written(folder: Path, form: str) -> Path:
    assert main(["world", "--out", str(folder), "--as", form, *SIZE]) == 0
    return folder


def test_udacity_angles_are_radians(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(tmp_path / "drive", "udacity")
    rows = list(csv.DictReader((folder / "train" / "steering.csv").read_text().splitlines()))
    world = World(drives=2, split="train", width=96, height=54)
    truth = [world[key].truth[0].degrees for key in world.keys()]
    assert [math.degrees(float(row["steering_angle"])) for row in rows] == pytest.approx(truth)
    assert all((folder / "train" / "center" / f"{row['frame_id']}.png").exists() for row in rows)
    assert "contact.png" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_coco_boxes_are_the_labels(tmp_path: Path) -> None:
    folder = written(tmp_path / "coco", "coco")
    told = json.loads((folder / "annotations" / "instances_train.json").read_text())
    world = World(drives=2, split="train", width=96, height=54, labels=("boxes2d", "masks"))
    names = {row["id"]: row["name"] for row in told["categories"]}
    expected = []
    for number, key in enumerate(world.keys(), 1):
        boxes, masks = find(world[key].truth, "boxes2d"), find(world[key].truth, "masks")
        assert isinstance(boxes, Boxes2D)
        assert isinstance(masks, Masks)
        rows = zip(np.clip(boxes.xyxy, 0, (96, 54, 96, 54)), boxes.kinds, boxes.care, masks.kinds, strict=True)
        for box, kind, care, instance in rows:
            if (box[2:] > box[:2]).all():
                expected.append((number, kind, not care, *box[:2], *(box[2:] - box[:2]), masks.instances == instance))
    assert expected
    assert len(told["annotations"]) == len(expected)
    for row, (image, kind, crowd, *box, mask) in zip(told["annotations"], expected, strict=True):
        assert (row["image_id"], names[row["category_id"]], row["iscrowd"]) == (image, kind, crowd)
        assert row["bbox"] == pytest.approx(box)
        assert np.array_equal(decode(frPyObjects(row["segmentation"], 54, 96)), mask)
        assert row["area"] == mask.sum()


def test_kitti_tells_how_much_is_hidden_or_outside(tmp_path: Path) -> None:
    folder = tmp_path / "kitti"
    assert main(["world", "--out", str(folder), "--as", "kitti", "--size", "320x180", "--count", "1", "--frames", "60"]) == 0
    files = sorted((folder / "train" / "label_2").glob("*.txt"))
    lines = [line.split() for file in files for line in file.read_text().splitlines() if not line.startswith("DontCare")]
    assert {line[2] for line in lines} <= {"0", "1", "2"}
    boxes = [[float(number) for number in line[4:8]] for line in lines]
    at_edge = [left <= 0 or top <= 0 or right >= 320 or bottom >= 180 for left, top, right, bottom in boxes]
    outside = [float(line[1]) for line in lines]
    assert any(at_edge)
    assert all(share > 0 for share, edge in zip(outside, at_edge, strict=True) if edge)
    inside = [left > 30 and top > 10 and right < 290 and bottom < 165 for left, top, right, bottom in boxes]
    assert all(share < 0.02 for share, well in zip(outside, inside, strict=True) if well)  # its 3D box is a little larger
    assert sum(inside) > 20


def test_splits_number_kinds_alike(tmp_path: Path) -> None:
    names = []
    for split in ("train", "val"):
        assert main(["world", "--out", str(tmp_path / split), "--as", "yolo", "--split", split, *SIZE]) == 0
        names.append((tmp_path / split / "data.yaml").read_text().split("names:")[1])
    assert names[0] == names[1]
    assert '0: "car"' in names[0]


def test_sheet_shows_every_frame(tmp_path: Path) -> None:
    import cv2

    sheet = cv2.imread(str(written(tmp_path / "drive", "udacity") / "contact.png"))
    assert sheet.shape == (180, 2 * 320 + GAP, 3)


def test_occupied_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    assert main(["world", "--out", str(tmp_path), *SIZE]) == 2
    assert "is not empty; choose a new folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--as", "cocoa"], "did you mean 'coco'"),
        (["--conditions", "sonw"], "did you mean 'snow'"),
        (["--split", "exam"], "unknown split 'exam'"),
        (["--size", "8x8"], "from 16 to 4096 pixels"),
        (["--frames", "301"], "1 to 300"),
    ],
)
def test_wrong_words_get_their_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["world", "--out", str(tmp_path / "new"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_contact_sheet_keeps_the_order() -> None:
    tiles = [[np.full((4, 6, 3), 10 * row + column, np.uint8) for column in range(3)] for row in range(2)]
    sheet = contact_sheet(tiles)
    assert sheet.shape == (4 + GAP + 4, 3 * 6 + 2 * GAP, 3)
    assert sheet[0, 6 + GAP, 0] == 1
    assert sheet[-1, -1, 0] == 12
