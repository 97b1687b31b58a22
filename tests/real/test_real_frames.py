"""Steering and street frames as they were published, read against readings of their files made here."""

import csv
from pathlib import Path

import cv2
import numpy as np
import pytest

from swerve.core.convention import Convention
from swerve.core.values import Array, Boxes2D, Group, Image, Masks, Steering
from swerve.sources.cityscapes import Cityscapes
from swerve.sources.folders import Folder
from swerve.sources.udacity import Udacity
from swerve.sources.windows import Windows

# What each frame holds, counted from the numbers in its file: 24 person, 25 rider, 26 car, 32 motorcycle, 33 bicycle.
THINGS = {
    "aachen_000000_000019": {"person": 2, "rider": 1, "car": 8, "bicycle": 2},
    "aachen_000001_000019": {"car": 14},
    "aachen_000002_000019": {"person": 1, "car": 7, "bicycle": 1},
    "aachen_000003_000019": {"person": 1, "car": 10},
    "aachen_000004_000019": {"person": 7, "car": 15, "motorcycle": 2, "bicycle": 1},
}


def steering(folder: Path, **more: object) -> Udacity:
    told = {"file": "file", "angle": "steering_angle_rad", "unit": "radians", "positive": "left", "kind": "wheel"}
    return Udacity(folder, **told, **more)  # type: ignore[arg-type]


def column(folder: Path) -> dict[str, float]:
    """Radians by picture, read without Swerve."""
    with (folder / "labels.csv").open(newline="") as file:
        return {row["file"]: float(row["steering_angle_rad"]) for row in csv.DictReader(file)}


def radians(source: Udacity | Windows, key: str) -> float:
    (label,) = source[key].truth
    assert isinstance(label, Steering)
    return float(np.radians(label.degrees))


def unchanged(file: Path) -> Array:
    pixels = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
    assert pixels is not None
    return pixels


def test_three_hundred_frames_and_labels(data: Path) -> None:
    folder = data / "steering/udacity-300"
    source, wanted = steering(folder), column(folder)
    assert list(source.keys()) == list(wanted)
    assert len(wanted) == 300
    assert source.convention == Convention("radians", "left", "wheel", None)
    found = [radians(source, key) for key in source.keys()]
    assert found == pytest.approx(list(wanted.values()), abs=1e-12)
    always_zero = sum(angle * angle for angle in wanted.values()) / len(wanted)
    assert np.mean(np.square(found)) == pytest.approx(always_zero, rel=1e-12)
    assert always_zero == pytest.approx(0.123749, abs=5e-7)
    assert not any(entry.fault for entry in source.entries.values())


def test_pictures_are_those_of_the_files(data: Path) -> None:
    folder = data / "steering/udacity-300"
    source = steering(folder)
    for key in source.keys()[::50]:
        picture = source[key].inputs["camera"]
        assert isinstance(picture, Image)
        assert picture.size == (640, 480)
        # Two decoders of one JPEG may differ in the last bit of a colour.
        off = np.abs(picture.pixels[:, :, ::-1].astype(int) - unchanged(folder / key))
        assert (off.max() <= 4, off.mean() < 0.5) == (True, True), (key, off.max(), off.mean())


def test_sequence_in_windows_and_blocks(data: Path) -> None:
    folder = data / "steering/udacity-seq150"
    source, wanted = steering(folder), list(column(folder).values())
    assert len(source.keys()) == 150
    windows = Windows(source, 100)
    assert len(windows.keys()) == 51
    key = windows.keys()[0]
    frames = windows[key].inputs["camera"]
    assert isinstance(frames, Group)
    assert (len(frames.values), radians(windows, key)) == (100, pytest.approx(wanted[99]))
    blocks = steering(folder, block=30)
    assert [blocks.group(key) for key in blocks.keys()][::30] == [f"drive-{index}" for index in range(5)]
    assert len(Windows(blocks, 3).keys()) == 5 * 28


def test_frames_in_both_sets_are_alike(data: Path) -> None:
    """21 frames lie in both sets; their bytes are the same, as two folders of one source would show."""
    one, other = (steering(data / "steering" / name) for name in ("udacity-300", "udacity-seq150"))
    shared = set(one.keys()) & set(other.keys())
    assert len(shared) == 21
    assert all(one.hashes[key] == other.hashes[key] for key in shared)
    assert all(len(set(source.hashes.values())) == len(source.hashes) for source in (one, other))


@pytest.mark.parametrize("key", THINGS)
def test_city_frames_match_their_files(data: Path, key: str) -> None:
    folder = data / "city/cityscapes"
    masks, boxes = Cityscapes(folder)[key].truth
    assert isinstance(masks, Masks)
    assert isinstance(boxes, Boxes2D)
    ids = unchanged(folder / f"inst/{key}_gtFine_instanceIds.png").astype(int)
    classes = unchanged(folder / f"label/{key}_gtFine_labelIds.png")
    assert ids.shape == masks.instances.shape == (1024, 2048)
    assert np.array_equal(masks.instances, ids * (ids >= 1000))
    names = {24: "person", 25: "rider", 26: "car", 32: "motorcycle", 33: "bicycle"}
    for number, kind in masks.kinds.items():
        assert set(np.unique(classes[masks.instances == number])) == {number // 1000}
        assert names[number // 1000] == kind
    assert {kind: list(masks.kinds.values()).count(kind) for kind in THINGS[key]} == THINGS[key]
    assert len(masks.kinds) == sum(THINGS[key].values())


@pytest.mark.parametrize("key", THINGS)
def test_city_boxes_hold_their_masks(data: Path, key: str) -> None:
    masks, boxes = Cityscapes(data / "city/cityscapes")[key].truth
    assert isinstance(masks, Masks)
    assert isinstance(boxes, Boxes2D)
    care = np.asarray(boxes.care)
    assert [kind for kind, one in zip(boxes.kinds, care, strict=True) if one] == list(masks.kinds.values())
    for number, (left, top, right, bottom) in zip(masks.kinds, boxes.xyxy[care], strict=True):
        rows, columns = np.nonzero(masks.instances == number)
        assert (left, top, right, bottom) == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


def test_crowds_are_not_demanded(data: Path) -> None:
    source = Cityscapes(data / "city/cityscapes")
    crowds = {}
    for key in source.keys():
        boxes = source[key].truth[1]
        assert isinstance(boxes, Boxes2D)
        crowds[key] = {kind for kind, one in zip(boxes.kinds, np.asarray(boxes.care), strict=True) if not one}
    assert [kinds for kinds in crowds.values() if kinds] == [{"car"}, {"car", "bicycle"}]


def test_city_pictures_are_lossless(data: Path) -> None:
    folder = data / "city/cityscapes"
    source = Cityscapes(folder)
    assert list(source.keys()) == list(THINGS)
    key = source.keys()[0]
    picture = source[key].inputs["camera"]
    assert isinstance(picture, Image)
    assert np.array_equal(picture.pixels[:, :, ::-1], unchanged(folder / f"img/{key}_leftImg8bit.png"))
    assert source.group(key) == "aachen_000000"


def test_folder_of_day_and_dusk(data: Path) -> None:
    source = Folder(data / "city/camvid")
    groups = [source.group(key) for key in source.keys()]
    assert groups == ["day"] * 40 + ["dusk"] * 40
    for key in (*source.keys()[:2], *source.keys()[-2:]):
        picture = source[key].inputs["camera"]
        assert isinstance(picture, Image)
        assert picture.size == (480, 360)
        assert np.array_equal(picture.pixels[:, :, ::-1], unchanged(data / "city/camvid" / key)[:, :, :3])
