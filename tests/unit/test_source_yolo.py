"""YOLO folders, read back from our own export and from strangers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.case import Case, Source
from swerve.core.values import Boxes2D, Image
from swerve.sources.export import export
from swerve.sources.yolo import Yolo, labels_of
from swerve.testing.contracts import SourceContract
from tests.unit.test_source_boxes import HEIGHT, SIZE, WIDTH, boxes_of, draw, masks_of, put, refusal, survives, told, why

DATA = "train: images/train\nval: images/val\nnames: [red, green]\n"


def labelled(folder: Path, name: str = "val/a", content: str | None = "", data: str = DATA) -> Path:
    draw(folder / "images" / f"{name}.png")
    if content is not None:
        put(folder / "labels" / f"{name}.txt", content)
    put(folder / "data.yaml", data)
    return folder


def one(folder: Path, content: str, **more: Any) -> list[tuple[str, bool, list[float]]]:
    return told(Yolo(labelled(folder, content=content), **more), "images/val/a.png")


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = labelled(labelled(tmp_path, content="0 0.5 0.5 0.5 0.5\n"), "val/deep/b", "1 .5 .5 1 1")

    def source(self) -> Source:
        return Yolo(self.folder)


def test_boxes_are_shares_of_the_picture(tmp_path: Path) -> None:
    assert one(tmp_path, "0 0.5 0.5 0.5 0.5\n\n1 0.125 0.9 0.25 0.2\n") == [
        ("red", True, [10, 7.5, 30, 22.5]),
        ("green", True, [0, pytest.approx(24), 10, 30]),
    ]


def test_polygon_becomes_its_box(tmp_path: Path) -> None:
    assert one(tmp_path, "1 0.25 0.1 0.5 0.5 0.25 0.9 0.1 0.2") == [("green", True, [4, 3, 20, 27])]


def test_polygon_has_a_mask(tmp_path: Path) -> None:
    folder = labelled(tmp_path, content="1 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5")
    wanted = np.zeros((HEIGHT, WIDTH), dtype=np.int32)
    wanted[3:15, 4:20] = 1
    assert np.array_equal(masks_of(Yolo(folder, masks=True)["images/val/a.png"]).instances, wanted)


def test_box_alone_is_no_mask(tmp_path: Path) -> None:
    folder = labelled(tmp_path, content="1 0.5 0.5 0.1 0.1")
    assert why(Yolo(folder, masks=True), "images/val/a.png") == "labels/val/a.txt: line 1 has no outline; set masks = false"


def test_split_chooses_the_pictures(tmp_path: Path) -> None:
    labelled(labelled(tmp_path), "train/b")
    assert Yolo(tmp_path).keys() == ["images/val/a.png"]
    assert Yolo(tmp_path, "train").keys() == ["images/train/b.png"]
    assert refusal(Yolo(tmp_path, "test")) == f"{tmp_path}/data.yaml: no split 'test'; splits are train, val"


@pytest.mark.parametrize(
    "data",
    [
        "val: images/val\nnames: {0: red, 1: green}",
        "val: ./images/val/\nnames: {'0': red, '1': green}",
        "path: .\nval: [images/val]\nnames:\n- red\n- green",
        "path: images\nval: val\nnames: [red, green]",
        "path: images/train\nval: ../val\nnames: [red, green]",
        "path: HERE\nval: images/val\nnames: [red, green]",
        "val: HERE/images/val\nnames: [red, green]",
    ],
)
def test_ways_to_say_the_same(tmp_path: Path, data: str) -> None:
    source = Yolo(labelled(tmp_path, content="1 .5 .5 1 1", data=data.replace("HERE", str(tmp_path))))
    assert told(source, "images/val/a.png") == [("green", True, [0, 0, WIDTH, HEIGHT])]
    assert source.group("images/val/a.png") == "images/val"


def test_list_file_names_the_pictures(tmp_path: Path) -> None:
    folder = labelled(labelled(tmp_path, data="val: val.txt\nnames: [red]"), "other/b", data="val: val.txt\nnames: [red]")
    put(folder / "val.txt", f"./images/other/b.png\n{folder}/images/val/a.png\n../up.png\n\nimages/gone.png\n")
    source = Yolo(folder)
    assert source.keys() == ["images/other/b.png", "images/val/a.png", "../up.png", "images/gone.png"]
    assert "no label file labels/gone.txt" in why(source, "images/gone.png")
    assert why(source, "../up.png") == f"val.txt: ../up.png: outside the data set's folder {folder.name}"
    before = source.fingerprint()
    put(folder / "val.txt", "./images/other/b.png\n")
    assert Yolo(folder).fingerprint() != before


def test_without_data_names_are_given(tmp_path: Path) -> None:
    draw(tmp_path / "images" / "a.jpg")
    put(tmp_path / "labels" / "a.txt", "1 .5 .5 1 1")
    put(tmp_path / "labels" / "classes.txt", "red\ngreen")
    source = Yolo(tmp_path, names=("red", "green"))
    assert source.keys() == ["images/a.jpg"]
    assert told(source, "images/a.jpg") == [("green", True, [0, 0, WIDTH, HEIGHT])]
    assert refusal(Yolo(tmp_path)) == f"{tmp_path}/data.yaml: the names of the kinds are missing; set names = [...]"


@pytest.mark.parametrize(
    "data",
    [
        "path: ../datasets/coco8\nval: images/val",
        "path: /content/datasets/set\nval: images/val",
        "path: set\nval: images/val",
        "path: ..\nval: images/val",
        "path: /content/images\nval: images/val",  # a tail of it is there, and is not meant
        "path: /content/images\nval: val",
        "path: ../../images\nval: val",
        "val: ../images/val",
        "val: ../../images/val",
        "val: /home/me/set/images/val",
        "val: [/home/me/set/images/val]",
        "val: ../val.txt",
        "path: /content/set\nval: /content/set/val.txt",
    ],
)
def test_paths_of_another_machine_are_found_below(tmp_path: Path, data: str) -> None:
    folder = labelled(tmp_path / "set", content="1 .5 .5 1 1", data=f"{data}\nnames: [red, green]")
    put(folder / "val.txt", "/home/me/set/images/val/a.png\n")
    assert Yolo(folder).keys() == ["images/val/a.png"]
    assert told(Yolo(folder), "images/val/a.png") == [("green", True, [0, 0, WIDTH, HEIGHT])]


def test_split_folders_hold_their_images(tmp_path: Path) -> None:
    draw(tmp_path / "valid" / "images" / "a.png")
    put(tmp_path / "valid" / "labels" / "a.txt", "0 .5 .5 1 1")
    put(tmp_path / "data.yaml", "train: ../train/images\nval: ../valid/images\nnames: [red]")
    for source in (Yolo(tmp_path), Yolo(tmp_path, images="valid/images")):
        assert told(source, "valid/images/a.png") == [("red", True, [0, 0, WIDTH, HEIGHT])]
    assert refusal(Yolo(tmp_path, "train")).endswith("set images = 'valid/images'")
    assert "leads outside" in refusal(Yolo(tmp_path, images="../x"))


def test_longest_tail_is_taken(tmp_path: Path) -> None:
    labelled(labelled(tmp_path), "val/images/val/b", data="val: /home/images/val/images/val\nnames: [red]")
    assert Yolo(tmp_path).keys() == ["images/val/images/val/b.png"]


@pytest.mark.parametrize(
    "data", ["val: ../val/images", "val: [images/val, /etc]", "val: /", "path: /etc\nval: passwd", "val: ../secret/images"]
)
def test_nothing_outside_is_read(tmp_path: Path, data: str) -> None:
    draw(tmp_path / "secret" / "images" / "s.png")
    draw(tmp_path / "val" / "images" / "s.png")
    line = refusal(Yolo(labelled(tmp_path / "set", data=f"{data}\nnames: [red]")))
    assert "set/data.yaml: val = " in line
    assert line.endswith("no such folder or list in the data set's folder; set images = 'images/val'")


def test_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    draw(tmp_path / "secret" / "s.png")
    folder = labelled(tmp_path / "set", data="val: /home/me/link\nnames: [red]")
    (folder / "link").symlink_to(tmp_path / "secret")
    assert "a link that leads outside" in refusal(Yolo(folder))


def test_names_of_coco(tmp_path: Path) -> None:
    folder = labelled(tmp_path, content="9 .5 .5 1 1\n79 .5 .5 1 1", data="val: images/val")
    source = Yolo(folder, names="coco", kinds=("traffic light", "toothbrush"))
    assert [kind for kind, _, _ in told(source, "images/val/a.png")] == ["traffic light", "toothbrush"]
    assert refusal(Yolo(folder, names="voc")) == "'names' must be 'coco' or a list of kinds, got 'voc'"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("val: images/no\nnames: [red]", "data.yaml: val = images/no: no such folder or list"),
        ("val: images/val\nnc: 2", "data.yaml: the names of the kinds are missing"),
        ("val: images/val\nnames: {0.5: red}", "data.yaml: names: 0.5 is not a whole number"),
        ("val: images/val\nnames: {a: red}", "data.yaml: names"),
        ("val: images/val\nnames: [red, 7]", "data.yaml: names, 1: expected a string that is not empty, got 7"),
        ("- val", "data.yaml: expected a mapping of names to values, got list"),
        ("val: [", "data.yaml"),
        ("val: no.txt\nnames: [red]", "data.yaml: val = no.txt: no such folder or list"),
    ],
)
def test_useless_data_is_refused(tmp_path: Path, data: str, reason: str) -> None:
    assert reason in refusal(Yolo(labelled(tmp_path, data=data)))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 0.5 0.5 0 0.5", "line 2 must have a positive width and height, got (20, 7.5) to (20, 22.5)"),
        ("0 0.5 0.5 -0.1 0.5", "line 2 must have a positive width and height, got"),
        ("0 320 240 64 48", "line 2 is outside the picture of 40x30"),
        ("2 0.5 0.5 0.5 0.5", "line 2 has the class number 2, which has no name in 'names'"),
        ("0.5 0.5 0.5 0.5 0.5", "line 2 has the class number 0.5, which has no name in 'names'"),
        ("-1 0.5 0.5 0.5 0.5", "line 2 has the class number -1, which has no name in 'names'"),
        ("0 nan 0.5 0.5 0.5", "line 2"),
        ("red 0.5 0.5 0.5 0.5", "line 2"),
        ("0 0.5 0.5 0.5", "line 2 has 4 numbers; a box has 5, a polygon 7, 9, 11 and so on"),
        ("0 0.5 0.5 0.5 0.5 0.9", "line 2 has 6 numbers"),
        ("0", "line 2 has 1 numbers"),
        ("0 .1 .1 .1 .5 .1 .9", "line 2 must have a positive width and height, got"),
    ],
)
def test_bad_line_leaves_its_case_out(tmp_path: Path, line: str, reason: str) -> None:
    source = Yolo(labelled(labelled(tmp_path, "val/b"), content=f"0 .5 .5 .1 .1\n{line}\n"))
    assert f"labels/val/a.txt: {reason}" in why(source, "images/val/a.png")
    assert told(source, "images/val/b.png") == []


def test_half_a_pair_is_counted(tmp_path: Path) -> None:
    labelled(tmp_path, content=None)
    put(tmp_path / "labels" / "val" / "b.txt", "")
    source = Yolo(tmp_path)
    assert source.keys() == ["images/val/a.png", "labels/val/b.txt"]
    assert "no label file labels/val/a.txt; if such pictures show no objects" in why(source, "images/val/a.png")
    assert why(source, "labels/val/b.txt") == "labels/val/b.txt: labels without a picture"


def test_unlabelled_may_show_nothing(tmp_path: Path) -> None:
    assert told(Yolo(labelled(tmp_path, content=None), unlabelled=True), "images/val/a.png") == []


def test_misspelt_kind_is_refused(tmp_path: Path) -> None:
    assert "did you mean 'green'?" in refusal(Yolo(labelled(tmp_path), kinds=("gren",)))


@pytest.mark.parametrize(
    ("picture", "labels"),
    [
        ("images/val/a.png", "labels/val/a.txt"),
        ("images/images/a.b.jpg", "images/labels/a.b.txt"),
        ("train/images/a.png", "train/labels/a.txt"),
        ("pictures/images.png", "pictures/images.txt"),
    ],
)
def test_labels_lie_beside_images(picture: str, labels: str) -> None:
    assert labels_of(picture) == labels


# Round trips


def exported(folder: Path, label: Boxes2D) -> Yolo:
    pixels = np.random.default_rng(3).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    case = Case("a", {"camera": Image(pixels)}, (label,))
    export({"train": [case], "val": [case]}, folder, "yolo", kinds=("light", "car"))
    assert all(
        Yolo(folder, side)[key].inputs == case.inputs for side in ("train", "val") for key in Yolo(folder, side).keys()
    )
    return Yolo(folder)


CORNERS = np.array([[5.25, 4.5, 15.5, 12.75], [0, 0, 40, 30], [20.5, 10.0, 39.5, 29.0]])


def test_export_reads_back(tmp_path: Path) -> None:
    label = Boxes2D(CORNERS, ("car", "light", "car"), size=SIZE, care=np.array([True, True, False]))
    source = exported(tmp_path / "set", label)
    (key,) = source.keys()
    found = boxes_of(source[key])
    assert found.kinds == ("car", "light")  # YOLO has no word for boxes without care
    assert np.allclose(found.xyxy, CORNERS[:2], atol=1e-6)
    assert np.all(found.care)


def test_export_of_nothing_reads_back(tmp_path: Path) -> None:
    source = exported(tmp_path / "set", Boxes2D([], (), size=SIZE))  # type: ignore[arg-type]
    assert told(source, source.keys()[0]) == []


@settings(max_examples=30)
@given(st.tuples(st.floats(0, 39), st.floats(0, 29), st.floats(0.5, 40), st.floats(0.5, 30)))
def test_any_box_reads_back(tmp_path_factory: pytest.TempPathFactory, told_box: tuple[float, ...]) -> None:
    x, y, w, h = told_box
    corners = np.array([[x, y, min(x + w, WIDTH), min(y + h, HEIGHT)]])
    source = exported(tmp_path_factory.mktemp("yolo") / "set", Boxes2D(corners, ("car",), size=SIZE))
    found = boxes_of(source[source.keys()[0]])
    assert np.allclose(found.xyxy, corners, atol=1e-6)
    assert np.all(found.care)


def test_mutated_labels_have_their_lines(tmp_path: Path) -> None:
    labelled(tmp_path, content="0 0.5 0.5 0.5 0.5\n1 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5\n")
    survives(lambda: Yolo(tmp_path), tmp_path / "labels" / "val" / "a.txt")
    survives(lambda: Yolo(tmp_path), tmp_path / "data.yaml")
