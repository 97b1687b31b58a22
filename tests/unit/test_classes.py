"""The class of every pixel: as a label of the world and of Cityscapes, and under changes of the picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import UnmappedError
from swerve.core.values import Array, Boxes3D, Classes, Depth, Image, Masks, PointCloud, Value, find
from swerve.sources.cityscapes import Cityscapes
from swerve.transformations.affine import Enlarge, Rotate, Translate
from swerve.transformations.insert import InsertObject
from swerve.transformations.photometric import Brighten
from swerve.transformations.replace_objects import PasteBack
from swerve.transformations.sensor_pose import MirrorScene
from swerve.translation.label_window import renumbered
from swerve.world.class_map import NAMES
from swerve.world.source import World


def some(numbers: object) -> Classes:
    return Classes(np.array(numbers), {1: "road", 2: "car"})


def classes_in(case: Case) -> Classes:
    found = find(case.truth, "classes")
    assert isinstance(found, Classes)
    return found


@pytest.fixture(scope="module")
def frame() -> Case:
    source = World(1, 1, labels=("masks", "classes", "depth"), width=320, height=180, seed=3)
    return source[source.keys()[0]]


def test_every_pixel_of_an_object_has_the_class_of_its_kind(frame: Case) -> None:
    masks, classes = find(frame.truth, "masks"), classes_in(frame)
    assert isinstance(masks, Masks)
    assert len(masks.kinds) > 1
    for number, kind in masks.kinds.items():
        assert {classes.names[one] for one in np.unique(classes.numbers[masks.instances == number]).tolist()} == {kind}


def test_the_sky_is_where_nothing_was_hit(frame: Case) -> None:
    depth, classes = find(frame.truth, "depth"), classes_in(frame)
    assert isinstance(depth, Depth)
    sky = classes.numbers == NAMES.index("sky")
    assert sky.any()
    assert np.isinf(depth.metres[sky]).all()
    assert (np.isinf(depth.metres) & ~sky).mean() < 0.05  # far hills have a class, and no depth


def test_the_road_is_ahead_of_the_camera_and_no_pixel_is_unlabelled(frame: Case) -> None:
    numbers = classes_in(frame).numbers
    assert numbers[-10, 160] == NAMES.index("road")
    assert numbers.min() > 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Brighten(10), [[1, 2, 0], [1, 1, 0]]),
        (Translate(1, 0), [[0, 1, 2], [0, 1, 1]]),
        (Rotate(0), [[1, 2, 0], [1, 1, 0]]),
        (MirrorScene(), [[0, 2, 1], [0, 1, 1]]),
    ],
)
def test_classes_move_with_their_pixels(change: object, expected: object) -> None:
    moved = change.map(some([[1, 2, 0], [1, 1, 0]]))  # type: ignore[attr-defined]
    assert moved.numbers.tolist() == expected
    assert moved.names == {1: "road", 2: "car"}


def test_classes_are_enlarged_as_masks_are() -> None:
    numbers = np.arange(12).reshape(3, 4)
    change = Enlarge(2, 1.5)
    assert (change.map(Classes(numbers, {})).numbers == change.map(Masks(numbers, {})).instances).all()


def test_a_change_that_does_not_know_classes_says_so() -> None:
    cloud = PointCloud(np.zeros((1, 4), np.float32))
    boxes = Boxes3D(np.zeros((0, 7)), ())
    change = InsertObject("car", x=10, y=0)
    assert isinstance(change.map(boxes), Value)
    assert isinstance(change.map(cloud), Value)
    with pytest.raises(UnmappedError, match="classes"):
        change.map(some([[1]]))


def test_classes_follow_an_object_that_is_pasted() -> None:
    ids = np.zeros((180, 320), np.int32)
    ids[60:100, 100:160] = 5
    classes = Classes(np.where(ids > 0, 2, 1), {1: "road", 2: "car"})
    truth = (Masks(ids, {5: "car"}), classes)
    case = Case("a", {"camera": Image(np.full((180, 320, 3), 90, np.uint8))}, truth)
    box = (100.0, 60.0, 160.0, 100.0)
    after = PasteBack((5,), (box,), (box,))(case)
    assert classes_in(after) == classes


def test_names_that_are_not_known_are_unlabelled() -> None:
    labelled = Classes(np.array([[0, 1, 2, 7]]), {1: "road", 2: "tree", 7: "car"})
    assert renumbered(labelled, ("unlabelled", "car", "road")).tolist() == [[0, 2, 0, 1]]


@pytest.fixture
def city(tmp_path: Path) -> Path:
    ids = np.full((20, 40), 7, np.uint16)  # road
    ids[5:10, 5:15] = 26001
    ids[:2] = 23  # sky
    for name, picture in {
        "leftImg8bit": np.full((20, 40, 3), 80, np.uint8),
        "gtFine_instanceIds": ids,
        "gtFine_labelIds": np.where(ids >= 1000, ids // 1000, ids).astype(np.uint8),
    }.items():
        assert cv2.imwrite(str(tmp_path / f"a_000000_000001_{name}.png"), picture)
    return tmp_path


def test_cityscapes_has_the_class_of_every_pixel_if_it_is_asked(city: Path) -> None:
    source = Cityscapes(city, classes=True)
    classes = classes_in(source[source.keys()[0]])
    assert classes.names[int(classes.numbers[7, 7])] == "car"
    assert classes.names[int(classes.numbers[0, 0])] == "sky"
    assert classes.names[int(classes.numbers[15, 30])] == "road"
    plain = replace(source, classes=False)
    assert find(plain[plain.keys()[0]].truth, "classes") is None


def test_classes_are_whole_numbers_of_two_dimensions() -> None:
    with pytest.raises(ValueError, match="classes"):
        Classes(np.zeros(3, np.int32), {})
    bad: Array = np.array([[0.5]])
    with pytest.raises((TypeError, ValueError), match="classes"):
        Classes(bad, {})
