from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.errors import InputError, UnreadableCase
from swerve.core.values import Array, Boxes2D, Masks, find
from swerve.sources.cityscapes import NAMES, THINGS, Cityscapes
from swerve.sources.windows import Windows
from swerve.testing.contracts import SourceContract

SIZE = (40, 20)
FRAME = "aachen_000000_000019"


def scene() -> Array:
    """Road, sky, two cars one behind the other, a person, a trailer, and two crowds of bicycles."""
    ids = np.full(SIZE[::-1], 7, np.uint16)
    ids[:6] = 23
    ids[5:12, 2:12] = 26000
    ids[8:14, 8:20] = 26001
    ids[3:15, 25:28] = 24000
    ids[16:18, 0:9] = 30000
    ids[10:13, 30:33] = 33
    ids[10:12, 36:40] = 33
    return ids


BOXES = [
    *(("person", (25, 3, 28, 15), True), ("car", (2, 5, 12, 12), True), ("car", (8, 8, 20, 14), True)),
    *(("trailer", (0, 16, 9, 18), False), ("bicycle", (30, 10, 33, 13), False), ("bicycle", (36, 10, 40, 12), False)),
]


def write(
    folder: Path, frame: str = FRAME, *, ids: Array | None = None, split: str = "val", size: tuple[int, int] = SIZE
) -> None:
    """A frame in the official layout."""
    ids = scene() if ids is None else ids
    city = frame.partition("_")[0]
    draw(folder / f"leftImg8bit/{split}/{city}/{frame}_leftImg8bit.png", np.full((*size[::-1], 3), 90, np.uint8))
    draw(folder / f"gtFine/{split}/{city}/{frame}_gtFine_instanceIds.png", ids)
    draw(folder / f"gtFine/{split}/{city}/{frame}_gtFine_labelIds.png", classes(ids))


def draw(file: Path, pixels: Array) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(file), pixels)


def classes(ids: Array) -> Array:
    return np.where(ids >= 1000, ids // 1000, ids).astype(np.uint8)


def file(folder: Path, suffix: str) -> Path:
    (found,) = folder.rglob(f"*_{suffix}.png")
    return found


def truth(source: Cityscapes, key: str = FRAME) -> tuple[Masks, Boxes2D]:
    masks, boxes = source[key].truth
    assert isinstance(masks, Masks)
    assert isinstance(boxes, Boxes2D)
    return masks, boxes


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _written(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        for frame in ("aachen_000000_000019", "aachen_000001_000019", "bonn_000000_000019"):
            write(tmp_path, frame)

    def source(self) -> Cityscapes:
        return Cityscapes(self.folder)


def test_masks_are_the_things(tmp_path: Path) -> None:
    write(tmp_path)
    masks, _ = truth(Cityscapes(tmp_path))
    assert masks.kinds == {24000: "person", 26000: "car", 26001: "car", 30000: "trailer"}
    assert np.array_equal(masks.instances, np.where(scene() >= 1000, scene(), 0))


def test_boxes_hold_visible_pixels(tmp_path: Path) -> None:
    write(tmp_path)
    _, boxes = truth(Cityscapes(tmp_path))
    found = zip(boxes.kinds, map(tuple, boxes.xyxy), map(bool, np.asarray(boxes.care)), strict=True)
    assert list(found) == BOXES
    assert boxes.size == SIZE


def test_crowds_and_trailers_are_not_judged() -> None:
    assert {kind for kind, _, care in BOXES if not care} == {"trailer", "bicycle"}
    assert [NAMES[number] for number in THINGS] == [
        *("person", "rider", "car", "truck", "bus", "caravan", "trailer", "train", "motorcycle", "bicycle")
    ]
    assert (len(NAMES), NAMES[7], NAMES[23], NAMES[26], NAMES[33]) == (34, "road", "sky", "car", "bicycle")


def test_empty_street_has_no_boxes(tmp_path: Path) -> None:
    write(tmp_path, ids=np.full(SIZE[::-1], 7, np.uint16))
    masks, boxes = truth(Cityscapes(tmp_path))
    assert (masks.kinds, boxes.kinds, boxes.xyxy.shape) == ({}, (), (0, 4))


def test_group_is_city_and_sequence(tmp_path: Path) -> None:
    for frame in ("bonn_000000_000019", "aachen_000000_000019", "aachen_000000_000020", "aachen_000001_000019"):
        write(tmp_path, frame)
    source = Cityscapes(tmp_path)
    groups = {key: source.group(key) for key in source.keys()}
    assert list(groups) == [*("aachen_000000_000019", "aachen_000000_000020", "aachen_000001_000019", "bonn_000000_000019")]
    assert list(groups.values()) == ["aachen_000000", "aachen_000000", "aachen_000001", "bonn_000000"]
    assert Windows(source, 2).keys() == ["aachen_000000_000020"]


def test_flat_folders_are_found(tmp_path: Path) -> None:
    draw(tmp_path / f"img/{FRAME}_leftImg8bit.png", np.zeros((*SIZE[::-1], 3), np.uint8))
    draw(tmp_path / f"inst/{FRAME}_gtFine_instanceIds.png", scene())
    assert truth(Cityscapes(tmp_path))[0].kinds[26001] == "car"


def test_split_is_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "aachen_000000_000019", split="train")
    write(tmp_path, "bonn_000000_000019", split="val")
    assert Cityscapes(tmp_path, split="val").keys() == ["bonn_000000_000019"]
    with pytest.raises(InputError, match="0 cases"):
        Cityscapes(tmp_path, split="test").keys()


def test_other_names_can_be_given(tmp_path: Path) -> None:
    write(tmp_path)
    masks, boxes = truth(Cityscapes(tmp_path, rename={"person": "pedestrian"}))
    assert masks.kinds[24000] == boxes.kinds[0] == "pedestrian"
    assert masks.kinds[26000] == "car"


@pytest.mark.parametrize("kinds", [("car",), ("bicycle",), ("car", "bicycle")])
def test_kinds_are_chosen(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    write(tmp_path)
    masks, boxes = truth(Cityscapes(tmp_path, kinds=kinds, rename={"car": "auto"}))
    assert masks.kinds == ({26000: "auto", 26001: "auto"} if "car" in kinds else {})
    assert np.array_equal(masks.instances, np.where(np.isin(scene(), list(masks.kinds)), scene(), 0))
    kept = [({"car": "auto"}.get(kind, kind), where) for kind, where, _ in BOXES if kind in kinds]
    assert list(zip(boxes.kinds, map(tuple, boxes.xyxy), strict=True)) == kept


@pytest.mark.parametrize("told", [{"kinds": ("persn",)}, {"rename": {"persn": "x"}}, {"kinds": ("road",)}])
def test_kinds_without_things_are_refused(tmp_path: Path, told: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"unknown kind '(persn'; did you mean 'person'|road')"):
        Cityscapes(tmp_path, **told)


def test_coarse_labels_and_fog(tmp_path: Path) -> None:
    fog = "leftImg8bit_foggy_beta_0.02"
    write(tmp_path)
    draw(tmp_path / f"{FRAME}_{fog}.png", np.zeros((*SIZE[::-1], 3), np.uint8))
    draw(tmp_path / f"{FRAME}_gtCoarse_instanceIds.png", np.zeros(SIZE[::-1], np.uint16))
    masks, _ = truth(Cityscapes(tmp_path, pictures=fog, labels="gtCoarse"))
    assert masks.kinds == {}


def test_picture_without_instances_is_a_skip(tmp_path: Path) -> None:
    write(tmp_path)
    file(tmp_path, "instanceIds").unlink()
    source = Cityscapes(tmp_path)
    assert source.keys() == [FRAME]
    with pytest.raises(UnreadableCase, match=r"leftImg8bit\.png: no file of its instanceIds"):
        source[FRAME]


def test_two_files_of_labels_are_a_skip(tmp_path: Path) -> None:
    write(tmp_path)
    draw(tmp_path / f"other/{FRAME}_gtFine_instanceIds.png", scene())
    with pytest.raises(UnreadableCase, match=r"two label files, gtFine/val.* and other/"):
        Cityscapes(tmp_path)[FRAME]


@pytest.mark.parametrize("wrong", ["leftImg8bit", "labelIds"])
def test_other_size_names_both(tmp_path: Path, wrong: str) -> None:
    write(tmp_path)
    draw(file(tmp_path, wrong), np.zeros((10, 30), np.uint8))
    with pytest.raises(UnreadableCase, match=rf"_instanceIds\.png is 40x20, .*_{wrong}\.png is 30x10"):
        Cityscapes(tmp_path)[FRAME]


def test_classes_must_agree(tmp_path: Path) -> None:
    write(tmp_path)
    said = classes(scene())
    said[0, :3] = 11
    draw(file(tmp_path, "labelIds"), said)
    with pytest.raises(UnreadableCase, match=r"instanceIds\.png and .*labelIds\.png have different classes in 3 pixels"):
        Cityscapes(tmp_path)[FRAME]


@pytest.mark.parametrize("number", [34, 255, 999, 7000, 23999, 34000, 65535])
def test_unknown_numbers_are_named(tmp_path: Path, number: int) -> None:
    ids = scene()
    ids[0, 0] = number
    write(tmp_path, ids=ids)
    with pytest.raises(UnreadableCase, match=rf"instanceIds\.png: {number} is not a valid class or instance number"):
        Cityscapes(tmp_path)[FRAME]


@pytest.mark.parametrize("content", ["cut", "text", "colours"])
def test_damaged_labels_are_a_skip(tmp_path: Path, content: str) -> None:
    write(tmp_path)
    ids = file(tmp_path, "instanceIds")
    if content == "colours":
        draw(ids, np.zeros((*SIZE[::-1], 3), np.uint8))
    else:
        ids.write_bytes(b"text" if content == "text" else ids.read_bytes()[:-20])
    with pytest.raises(UnreadableCase, match=r"instanceIds\.png: "):
        Cityscapes(tmp_path)[FRAME]


def test_labels_are_in_the_fingerprint(tmp_path: Path) -> None:
    write(tmp_path)
    before = Cityscapes(tmp_path).fingerprint()
    ids = scene()
    ids[0, 0] = 11
    draw(file(tmp_path, "instanceIds"), ids)
    assert Cityscapes(tmp_path).fingerprint() != before
    write(tmp_path)
    assert Cityscapes(tmp_path).fingerprint() == before
    assert Cityscapes(tmp_path, rename={"person": "pedestrian"}).fingerprint() != before


@settings(max_examples=20, deadline=None)
@given(
    places=st.lists(
        st.tuples(st.sampled_from([7, 23, 24, 33, 24000, 26000, 26001, 33999]), st.integers(0, 7), st.integers(0, 11)),
        max_size=12,
    )
)
def test_each_box_is_its_mask_s(tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, int, int]]) -> None:
    folder = tmp_path_factory.mktemp("city")
    ids = np.zeros((8, 12), np.uint16)
    for number, row, column in places:
        ids[row : row + 3, column : column + 2] = number
    write(folder, ids=ids, size=(12, 8))
    masks, boxes = truth(Cityscapes(folder))
    judged = [tuple(box) for box, kind, care in zip(boxes.xyxy, boxes.kinds, np.asarray(boxes.care), strict=True) if care]
    assert judged == [around(ids == number) for number in masks.kinds]
    crowds = np.isin(ids, (24, 33))
    covered = np.zeros_like(crowds)
    for left, top, right, bottom in boxes.xyxy[~np.asarray(boxes.care)].astype(int):
        assert crowds[top:bottom, left:right].any()
        covered[top:bottom, left:right] = True
    assert not (crowds & ~covered).any()
    assert find((masks,), "masks") is masks


def around(mask: Array) -> tuple[float, ...]:
    rows, columns = np.nonzero(mask)
    return tuple(map(float, (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)))
