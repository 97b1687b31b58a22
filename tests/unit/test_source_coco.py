"""COCO files, read back from our own export and from strangers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.config import limits
from swerve.core.case import Case, Source
from swerve.core.values import Boxes2D, Image, Masks
from swerve.sources import strict
from swerve.sources.coco import Coco
from swerve.sources.export import export
from swerve.sources.strict import PARTS
from swerve.testing.contracts import SourceContract
from tests.unit.test_source_boxes import HEIGHT, SIZE, WIDTH, boxes_of, draw, masks_of, put, refusal, survives, told, why

Row = dict[str, Any]
KINDS = [{"id": 1, "name": "red"}, {"id": 7, "name": "green"}]


def picture(number: Any = 1, name: Any = "one.png", **more: Any) -> Row:
    return {"id": number, "file_name": name, "width": WIDTH, "height": HEIGHT} | more


def box(*bbox: Any, **more: Any) -> Row:
    return {"id": 1, "image_id": 1, "category_id": 1, "bbox": list(bbox), "iscrowd": 0} | more


def page(boxes: Sequence[Row], pictures: Sequence[Row] = (picture(),), kinds: Any = KINDS) -> Row:
    return {"images": list(pictures), "annotations": list(boxes), "categories": kinds}


def coco(folder: Path, content: object, **more: Any) -> Coco:
    draw(folder / "images" / "one.png")
    put(folder / "labels.json", content)
    return Coco(folder, **more)


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        draw(tmp_path / "images" / "town" / "two.png")
        pictures = [picture(), picture(2, "town/two.png")]
        coco(tmp_path, page([box(1, 2, 3, 4), box(5, 6, 7, 8, image_id=2)], pictures))

    def source(self) -> Source:
        return Coco(self.folder)


def test_boxes_are_read(tmp_path: Path) -> None:
    rows = [box(1.5, 2, 3, 4), box(0, 0, WIDTH, HEIGHT, category_id=7), box(30, 20, 20, 10, iscrowd=1)]
    source = coco(tmp_path, page(rows))
    assert source.keys() == ["one.png"]
    assert told(source, "one.png") == [
        ("red", True, [1.5, 2, 4.5, 6]),
        ("green", True, [0, 0, WIDTH, HEIGHT]),
        ("red", False, [30, 20, WIDTH, HEIGHT]),
    ]
    assert boxes_of(source["one.png"]).size == SIZE


def test_picture_without_boxes_shows_nothing(tmp_path: Path) -> None:
    assert told(coco(tmp_path, page([])), "one.png") == []


def test_kinds_are_chosen_and_renamed(tmp_path: Path) -> None:
    rows = [box(1, 2, 3, 4), box(5, 6, 7, 8, category_id=7)]
    source = coco(tmp_path, page(rows), kinds=("green",), rename={"green": "go"})
    assert told(source, "one.png") == [("go", True, [5, 6, 12, 14])]
    assert "did you mean 'green'?" in refusal(coco(tmp_path, page(rows), kinds=("gren",)))


def test_drive_is_the_folder(tmp_path: Path) -> None:
    draw(tmp_path / "images" / "town" / "day" / "two.png")
    source = coco(tmp_path, page([], [picture(), picture(2, "town/day/two.png")]))
    assert [source.group(key) for key in source.keys()] == ["", "town/day"]
    assert source["town/day/two.png"].group == "town/day"


def test_texts_may_be_ids(tmp_path: Path) -> None:
    source = coco(tmp_path, page([box(1, 2, 3, 4, image_id="a")], [picture("a")]))
    assert told(source, "one.png") == [("red", True, [1, 2, 4, 6])]


def test_size_need_not_be_told(tmp_path: Path) -> None:
    source = coco(tmp_path, page([], [{"id": 1, "file_name": "one.png"}]))
    assert told(source, "one.png") == []


def test_size_of_the_file_has_an_exact_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = coco(tmp_path, page([box(1, 2, 3, 4)]))
    size = (tmp_path / "labels.json").stat().st_size
    monkeypatch.setattr(limits, "MANIFEST", size)
    assert source.keys() == ["one.png"]
    monkeypatch.setattr(limits, "MANIFEST", size - 1)
    wanted = f"{tmp_path}/labels.json: {size:,} bytes, at most {size - 1:,} are read (swerve list limits)"
    assert refusal(Coco(tmp_path)) == wanted


def test_parts_of_the_file_have_an_exact_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = coco(tmp_path, page([box(1, 2, 3, 4, segmentation=[[1, 2, 4, 2, 4, 6]])]))
    text = (tmp_path / "labels.json").read_text()
    monkeypatch.setattr(strict, "PARTS", text.count("{") + text.count("["))
    assert source.keys() == ["one.png"]
    monkeypatch.setattr(strict, "PARTS", text.count("{") + text.count("[") - 1)
    assert "lists and objects" in refusal(Coco(tmp_path))


def test_training_pictures_of_coco_fit() -> None:
    """As instances_train2017.json has them: 469 million bytes, 860,001 boxes, 118,287 pictures, 80 kinds."""
    assert limits.MANIFEST > 469_000_000
    assert limits.ROWS > 860_001
    assert PARTS > 118_287 + 80 + 860_001 * (1 + 1 + 2 + 1)  # an object, a list of two polygons, a box


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (box(5, 5, 0, 4), "labels.json: one.png: box 2 must have a positive width and height, got (5, 5) to (5, 9)"),
        (box(5, 5, -1, 4), "labels.json: one.png: box 2 must have a positive width and height, got"),
        (box(50, 5, 3, 4), "labels.json: one.png: box 2 is outside the picture of 40x30"),
        (box(1, 2, 3, 4, category_id=3), "labels.json: one.png: box 2 has category 3, which is not in 'categories'"),
        (box(1, 2, 3, 4, category_id=[]), "labels.json: one.png: box 2 has category []"),
        (box(1, 2, 3), "labels.json: one.png: box 2: 'bbox' must be a list of left, top, width and height"),
        ({"image_id": 1}, "labels.json: one.png: box 2: 'bbox' must be a list"),
        (box("NaN", 2, 3, 4), "labels.json: one.png: box 2, bbox"),
        (box(None, 2, 3, 4), "labels.json: one.png: box 2, bbox"),
        (box(1e308, 2, 1e308, 4), "labels.json: one.png: box 2 has a number that is not finite"),
    ],
)
def test_bad_box_leaves_its_case_out(tmp_path: Path, row: Row, reason: str) -> None:
    draw(tmp_path / "images" / "two.png")
    source = coco(tmp_path, page([box(1, 2, 3, 4), row, box(1, 1, 1, 1, image_id=2)], [picture(), picture(2, "two.png")]))
    assert reason in why(source, "one.png")
    assert told(source, "two.png") == [("red", True, [1, 1, 2, 2])]


@pytest.mark.parametrize("more", [{"width": 41}, {"height": 31}, {"width": HEIGHT, "height": WIDTH}])
def test_other_size_is_named(tmp_path: Path, more: Row) -> None:
    row = picture(**more)
    wanted = f"labels.json: one.png is labelled as {row['width']}x{row['height']}, but the picture is 40x30"
    assert why(coco(tmp_path, page([], [row])), "one.png") == wanted


def test_odd_labels_are_counted(tmp_path: Path) -> None:
    pictures = [picture(), picture(1, "two.png"), picture(3, "three.png"), picture(4, "three.png"), picture(5, "../x.png")]
    source = coco(tmp_path, page([box(1, 2, 3, 4, image_id=99)], pictures))
    assert source.keys() == ["one.png", "two.png", "three.png", "../x.png", "image 99"]
    assert why(source, "one.png") == "labels.json: one.png: another picture has the same id 1"
    assert why(source, "two.png") == "labels.json: two.png: another picture has the same id 1"
    assert why(source, "three.png") == "three.png: listed twice"
    assert "outside the data set's folder" in why(source, "../x.png")
    assert why(source, "image 99") == "labels.json: boxes for image 99, which is not listed"


def test_missing_picture_is_named(tmp_path: Path) -> None:
    assert "images/no.png: no such file" in why(coco(tmp_path, page([], [picture(name="no.png")])), "no.png")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "labels.json: expected a mapping of names to values, got list"),
        ({"images": []}, "labels.json: annotations: expected a list, got nothing"),
        (page([], [picture(name=None)]), "labels.json: file_name of image 1: expected a string that is not empty, got None"),
        (
            page([], [{"file_name": "one.png"}]),
            "labels.json: item 1 of images: 'id' must be a whole number or a string, got None",
        ),
        (
            page([box(1, 2, 3, 4, image_id=1.5)]),
            "labels.json: item 1 of annotations: 'image_id' must be a whole number or a string, got 1.5",
        ),
        (page([], kinds=[{"id": 1}]), "labels.json: item 1 of categories, name: expected a string that is not empty"),
        (page([], kinds=["red"]), "labels.json: item 1 of categories: expected a mapping of names to values, got str"),
        ("{", "labels.json"),
        ('{"images": [NaN]}', "labels.json"),
    ],
)
def test_useless_file_is_refused(tmp_path: Path, content: object, reason: str) -> None:
    assert reason in refusal(coco(tmp_path, content))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    assert refusal(Coco(tmp_path)) == f"{tmp_path}/labels.json: no such file"


def test_labels_are_in_the_fingerprint(tmp_path: Path) -> None:
    before = coco(tmp_path, page([box(1, 2, 3, 4)])).fingerprint()
    assert coco(tmp_path, page([box(1, 2, 3, 5)])).fingerprint() != before
    assert coco(tmp_path, page([box(1, 2, 3, 4)])).fingerprint() == before


# Round trips


CORNERS = np.array([[5.25, 4.5, 15.5, 12.75], [0, 0, 40, 30], [20.5, 10.0, 39.5, 29.0]])
INSTANCES = np.zeros((HEIGHT, WIDTH), dtype=np.int32)
INSTANCES[:, :] = 2
INSTANCES[5:12, 6:15] = 1
INSTANCES[11:28, 21:39] = 3
INSTANCES[15, 25] = 0


def made() -> tuple[Case, Case]:
    """Two cases, the second without an object."""
    pixels = np.random.default_rng(3).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    kinds = ("car", "traffic light", "car")
    label = Boxes2D(CORNERS, kinds, size=SIZE, care=np.array([True, True, False]))
    masks = Masks(INSTANCES, dict(enumerate(kinds, start=1)))
    empty = Boxes2D([], (), size=SIZE)  # type: ignore[arg-type]
    nothing = Masks(np.zeros((HEIGHT, WIDTH), dtype=np.int32), {})
    return Case("a", {"camera": Image(pixels)}, (label, masks)), Case("b", {"camera": Image(255 - pixels)}, (empty, nothing))


def test_export_reads_back(tmp_path: Path) -> None:
    export({"train": made()[:1], "val": made()[1:]}, tmp_path / "set", "coco")
    for side, wanted in zip(("train", "val"), made(), strict=True):
        source = Coco(tmp_path / "set", f"annotations/instances_{side}.json", side, masks=True)
        (key,) = source.keys()
        assert source[key].inputs == wanted.inputs
        assert boxes_of(source[key]) == boxes_of(wanted)
        assert masks_of(source[key]) == masks_of(wanted)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 10), st.integers(1, 10)), max_size=5))
def test_bbox_is_left_top_width_height(tmp_path_factory: pytest.TempPathFactory, told_boxes: list[tuple[int, ...]]) -> None:
    source = coco(tmp_path_factory.mktemp("coco"), page([box(*one) for one in told_boxes]))
    wanted = [[x, y, x + w, y + h] for x, y, w, h in told_boxes]
    assert boxes_of(source["one.png"]).xyxy.tolist() == wanted


def test_masks_of_every_form(tmp_path: Path) -> None:
    polygon = box(2, 3, 10, 6, segmentation=[[2, 3, 12, 3, 12, 9, 2, 9]])
    lengths = box(20, 0, 1, 30, segmentation={"size": [HEIGHT, WIDTH], "counts": [20 * HEIGHT, HEIGHT, 19 * HEIGHT]})
    packed = box(39, 29, 1, 1, segmentation={"size": [HEIGHT, WIDTH], "counts": "_U11"})
    masks = masks_of(coco(tmp_path, page([polygon, lengths, packed]), masks=True)["one.png"])
    wanted = np.zeros((HEIGHT, WIDTH), dtype=np.int32)
    wanted[3:9, 2:12], wanted[:, 20], wanted[29, 39] = 1, 2, 3
    assert np.array_equal(masks.instances, wanted)


def test_wrong_size_mask_is_named(tmp_path: Path) -> None:
    rotated = box(0, 0, 4, 4, segmentation={"size": [WIDTH, HEIGHT], "counts": [WIDTH * HEIGHT]})
    reason = why(coco(tmp_path, page([rotated]), masks=True), "one.png")
    assert reason == "labels.json: one.png: box 1 has a mask of [height, width] [40, 30], but the picture is 40x30"


def test_mutated_labels_have_their_lines(tmp_path: Path) -> None:
    lengths = box(20, 0, 1, 30, segmentation={"size": [HEIGHT, WIDTH], "counts": [20 * HEIGHT, HEIGHT, 19 * HEIGHT]})
    coco(tmp_path, page([box(2, 3, 10, 6, segmentation=[[2, 3, 12, 3, 12, 9, 2, 9]]), lengths]))
    survives(lambda: Coco(tmp_path, masks=True), tmp_path / "labels.json")
