"""Pascal VOC folders, read back from our own export and from strangers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.case import Case, Source
from swerve.core.values import Boxes2D, Image
from swerve.sources.export import export
from swerve.sources.voc import Voc
from swerve.testing.contracts import SourceContract
from tests.unit.test_source_boxes import HEIGHT, SIZE, WIDTH, boxes_of, draw, put, refusal, survives, told, why


def thing(*ends: Any, name: str = "car", **more: Any) -> str:
    inner = "".join(f"<{tag}>{end}</{tag}>" for tag, end in zip(("xmin", "ymin", "xmax", "ymax"), ends, strict=False))
    facts = "".join(f"<{tag}>{value}</{tag}>" for tag, value in more.items())
    return f"<object><name>{name}</name>{facts}<bndbox>{inner}</bndbox></object>"


def page(*things: str, width: Any = WIDTH, height: Any = HEIGHT) -> str:
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    return f"<annotation><filename>x</filename>{size}{''.join(things)}</annotation>"


def labelled(folder: Path, name: str, content: str = page(), suffix: str = ".jpg") -> Path:
    draw(folder / "JPEGImages" / f"{name}{suffix}")
    put(folder / "Annotations" / f"{name}.xml", content)
    return folder


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        labelled(tmp_path, "2008_000002", page(thing(1, 1, 5, 5)))
        labelled(tmp_path, "2008_000001")
        put(tmp_path / "ImageSets" / "Main" / "val.txt", "2008_000002\n2008_000001\n")

    def source(self) -> Source:
        return Voc(self.folder, "val")


def test_boxes_count_from_one(tmp_path: Path) -> None:
    things = thing(1, 1, WIDTH, HEIGHT), thing(3, 4, 3, 4, difficult=1), thing(2.5, 1, 7, 9, truncated=1, difficult=0)
    assert told(Voc(labelled(tmp_path, "a", page(*things))), "a") == [
        ("car", True, [0, 0, WIDTH, HEIGHT]),
        ("car", False, [2, 3, 3, 4]),
        ("car", True, [1.5, 0, 7, 9]),
    ]


def test_parts_are_not_objects(tmp_path: Path) -> None:
    part = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"
    person = thing(1, 1, 9, 9, name="person").replace("<bndbox>", f"{part}<bndbox>", 1)
    assert told(Voc(labelled(tmp_path, "a", page(person))), "a") == [("person", True, [0, 0, 9, 9])]


def test_kinds_are_chosen_and_renamed(tmp_path: Path) -> None:
    folder = labelled(tmp_path, "a", page(thing(1, 1, 2, 2), thing(3, 3, 4, 4, name="light")))
    assert told(Voc(folder, kinds=("light",), rename={"light": "lamp"}), "a") == [("lamp", True, [2, 2, 4, 4])]


@pytest.mark.parametrize("asked", [{"kinds": ("chiar",)}, {"rename": {"chiar": "x"}}, {"kinds": ("car", "chiar")}])
def test_misspelt_kind_is_refused(tmp_path: Path, asked: dict[str, Any]) -> None:
    labelled(tmp_path, "a", page(thing(1, 1, 2, 2), thing(3, 3, 4, 4, name=" chair ")))
    labelled(tmp_path, "b", "<torn>")
    assert refusal(Voc(tmp_path, **asked)) == f"{tmp_path}: unknown kind 'chiar'; did you mean 'chair'?"
    assert told(Voc(tmp_path, kinds=("chair",)), "a") == [("chair", True, [2, 2, 4, 4])]


def test_kind_of_another_split_is_known(tmp_path: Path) -> None:
    labelled(labelled(tmp_path, "a", page(thing(1, 1, 2, 2))), "b", page(thing(1, 1, 2, 2, name="bus")))
    put(tmp_path / "ImageSets" / "Main" / "val.txt", "a\n")
    assert told(Voc(tmp_path, "val", kinds=("bus",)), "a") == []


def test_labels_lie_beside_pictures(tmp_path: Path) -> None:
    for name in ("a", "more/a"):
        draw(tmp_path / f"{name}.jpg")
        put(tmp_path / f"{name}.xml", page(thing(1, 1, 5, 5, name=name)))
    draw(tmp_path / "b.png")
    source = Voc(tmp_path)
    assert source.keys() == ["a", "b", "more/a"]
    assert [told(source, key) for key in ("a", "more/a")] == [[(key, True, [0, 0, 5, 5])] for key in ("a", "more/a")]
    assert why(source, "b") == "b.xml: no such file"
    assert "did you mean 'a'?" in refusal(Voc(tmp_path, kinds=("aa",)))


def test_pictures_alone_are_no_labels(tmp_path: Path) -> None:
    draw(tmp_path / "a.jpg")
    assert "0 cases" in refusal(Voc(tmp_path))


@pytest.mark.parametrize(("width", "height", "good"), [(0, 0, True), (0, HEIGHT, False), (WIDTH, 0, False)])
def test_size_of_nothing_is_not_told(tmp_path: Path, width: int, height: int, good: bool) -> None:
    source = Voc(labelled(tmp_path, "a", page(thing(1, 1, 5, 5), width=width, height=height)))
    if good:
        assert told(source, "a") == [("car", True, [0, 0, 5, 5])]
    else:
        assert f"is labelled as {width}x{height}" in why(source, "a")


def test_list_names_the_pictures(tmp_path: Path) -> None:
    for name in "abc":
        labelled(tmp_path, name)
    put(tmp_path / "ImageSets" / "Main" / "car_val.txt", "c  1\na -1\n\n")
    assert Voc(tmp_path, "car_val").keys() == ["c", "a"]
    assert Voc(tmp_path).keys() == ["a", "b", "c"]


def test_list_is_in_the_fingerprint(tmp_path: Path) -> None:
    labelled(labelled(tmp_path, "a"), "b")
    put(tmp_path / "ImageSets" / "Main" / "val.txt", "a\nb\n")
    before = Voc(tmp_path, "val").fingerprint()
    put(tmp_path / "Annotations" / "b.xml", page(thing(1, 1, 2, 2)))
    assert Voc(tmp_path, "val").fingerprint() != before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            page(thing(1, 1, 2, 2), thing(6, 5, 5, 9)),
            "Annotations/a.xml: box 2 must have a positive width and height, got (5, 4) to (5, 9)",
        ),
        (page(thing(41, 1, 50, 9)), "Annotations/a.xml: box 1 is outside the picture of 40x30"),
        (page(thing("nan", 1, 5, 9)), "Annotations/a.xml: box 1, xmin"),
        (page(thing(1, 1, 5)), "Annotations/a.xml: box 1, ymax"),
        (page(thing(1, 1, 5, 5, name=" ")), "Annotations/a.xml: box 1, name: expected a string that is not empty"),
        (page("<object><name>car</name></object>"), "Annotations/a.xml: box 1, xmin"),
        (page(width=41), "Annotations/a.xml is labelled as 41x30, but the picture is 40x30"),
        (page(height=""), "Annotations/a.xml, size"),
        ("<html/>", "Annotations/a.xml: expected <annotation>, got <html>"),
        ("<annotation>", "Annotations/a.xml"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><annotation/>', "Annotations/a.xml"),
    ],
)
def test_bad_label_leaves_its_case_out(tmp_path: Path, content: str, reason: str) -> None:
    source = Voc(labelled(labelled(tmp_path, "a", content), "b"))
    assert reason in why(source, "a")
    assert told(source, "b") == []


def test_size_need_not_be_told(tmp_path: Path) -> None:
    assert told(Voc(labelled(tmp_path, "a", "<annotation/>")), "a") == []


def test_half_a_pair_is_counted(tmp_path: Path) -> None:
    labelled(labelled(tmp_path, "a"), "a", suffix=".png")
    draw(tmp_path / "JPEGImages" / "b.jpg")
    put(tmp_path / "Annotations" / "c.xml", page())
    source = Voc(tmp_path)
    assert source.keys() == ["a", "b", "c"]
    assert why(source, "a") == "a: two pictures, JPEGImages/a.jpg and JPEGImages/a.png"
    assert why(source, "b") == "Annotations/b.xml: no such file"
    assert why(source, "c") == "JPEGImages/c.jpg: no such file"


def test_list_leads_nowhere_else(tmp_path: Path) -> None:
    labelled(tmp_path / "set", "a")
    labelled(tmp_path, "b")
    put(tmp_path / "set" / "ImageSets" / "Main" / "val.txt", "../../b\na\na\n")
    source = Voc(tmp_path / "set", "val")
    assert "outside the data set's folder" in why(source, "../../b")
    assert why(source, "a") == "a: listed twice"


def test_missing_list_is_refused(tmp_path: Path) -> None:
    folder = labelled(tmp_path, "a")
    assert refusal(Voc(folder, "val")) == f"{folder}/ImageSets/Main/val.txt: no such file"
    assert "outside" in refusal(Voc(folder, "../.."))


CORNERS = np.array([[5.25, 4.5, 15.5, 12.75], [0, 0, 40, 30], [20.5, 10.0, 39.5, 29.0]])


def test_export_reads_back(tmp_path: Path) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    label = Boxes2D(CORNERS, ("car", "traffic light", "car"), size=SIZE, care=np.array([True, True, False]))
    wanted = Case("a", {"camera": Image(pixels)}, (label,))
    export({"train": [wanted], "val": [wanted]}, tmp_path / "set", "voc")
    for side in ("train", "val"):
        source = Voc(tmp_path / "set", side)
        (key,) = source.keys()
        assert source[key].inputs == wanted.inputs
        whole = np.hstack([np.floor(CORNERS[:, :2]), np.ceil(CORNERS[:, 2:])])
        assert boxes_of(source[key]) == Boxes2D(whole, label.kinds, size=SIZE, care=label.care)


@given(st.tuples(st.integers(0, 39), st.integers(0, 29), st.integers(1, 40), st.integers(1, 30)))
def test_whole_pixels_read_back(tmp_path_factory: pytest.TempPathFactory, told_box: tuple[int, int, int, int]) -> None:
    x, y, w, h = told_box
    label = Boxes2D([[x, y, min(x + w, WIDTH), min(y + h, HEIGHT)]], ("car",), size=SIZE)  # type: ignore[arg-type]
    folder = tmp_path_factory.mktemp("voc") / "set"
    case = Case("a", {"camera": Image(np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8))}, (label,))
    export({"val": [case]}, folder, "voc")
    (key,) = Voc(folder, "val").keys()
    assert boxes_of(Voc(folder, "val")[key]) == label


def test_mutated_labels_have_their_lines(tmp_path: Path) -> None:
    labelled(tmp_path, "a", page(thing(1, 1, 5, 5, difficult=1)))
    survives(lambda: Voc(tmp_path), tmp_path / "Annotations" / "a.xml")
