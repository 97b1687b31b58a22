"""BDD100K in its three forms: one file of 2018, one of 2020, and a file for each picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swerve.core.case import Source
from swerve.sources.bdd import CATEGORIES, STATES, Bdd100k
from swerve.sources.labelled_boxes import COLOURS
from swerve.testing.contracts import SourceContract
from tests.unit.test_source_boxes import draw, put, refusal, survives, told, why

Row = dict[str, Any]
OLD, NEW, EACH = "labels/bdd100k_labels_images_val.json", "labels/det_20/det_val.json", "labels/100k/val/a.json"


def box(x1: Any = 1, y1: Any = 2, x2: Any = 5, y2: Any = 8, kind: Any = "car", **facts: Any) -> Row:
    return {"id": "0", "category": kind, "attributes": facts, "box2d": {"x1": x1, "y1": y1, "x2": x2, "y2": y2}}


def light(colour: str, **facts: Any) -> Row:
    return box(kind="traffic light", trafficLightColor=colour, **facts)


LANE = {"category": "lane", "attributes": {}, "poly2d": [{"vertices": [[0, 0], [1, 1]]}]}


def frame(*rows: Row, name: Any = "a.jpg", **more: Any) -> Row:
    return {"name": name, "attributes": {"weather": "rainy", "timeofday": "night"}, "labels": list(rows)} | more


def bdd(folder: Path, content: object, place: str = NEW, **more: Any) -> Bdd100k:
    draw(folder / "images" / "100k" / "val" / "a.jpg")
    put(folder / place, content)
    return Bdd100k(folder, **more)


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        draw(tmp_path / "images" / "100k" / "val" / "b.jpg")
        bdd(tmp_path, [frame(light("G")), frame(box(), name="b.jpg")])

    def source(self) -> Source:
        return Bdd100k(self.folder)


class TestContractOfOneEach(TestContract):
    def source(self) -> Source:
        for name in "ab":
            page = {"name": name, "frames": [{"timestamp": 10000, "objects": [light("red")]}]}
            put(self.folder / "labels" / "100k" / "val" / f"{name}.json", page)
        return Bdd100k(self.folder, labels="labels/100k/val")


@pytest.mark.parametrize(
    ("place", "content"),
    [
        (NEW, [frame(box(), LANE, light("G", occluded=True))]),
        (OLD, [frame(box(), LANE, light("green", occluded=True))]),
        (EACH, {"name": "a", "frames": [{"timestamp": 0, "objects": [box(), LANE, light("green", occluded=True)]}]}),
    ],
)
def test_every_form_says_the_same(tmp_path: Path, place: str, content: object) -> None:
    bdd(tmp_path, content, place)
    corners = [1, 2, 5, 8]
    assert told(Bdd100k(tmp_path), "a.jpg") == [("car", True, corners), ("traffic light", True, corners)]
    assert told(Bdd100k(tmp_path, lights=True), "a.jpg") == [("green", True, corners)]
    assert told(Bdd100k(tmp_path, lights=True, occluded=False), "a.jpg") == [("green", False, corners)]
    assert Bdd100k(tmp_path).group("a.jpg") == "a"


@pytest.mark.parametrize(
    ("told_state", "kind"),
    [("red", "red"), ("R", "red"), ("Yellow", "yellow"), ("Y", "yellow"), ("G", "green"), ("NA", "off"), ("none", "off")],
)
def test_states_of_lights(tmp_path: Path, told_state: str, kind: str) -> None:
    assert told(bdd(tmp_path, [frame(light(told_state))], lights=True), "a.jpg") == [(kind, kind != "off", [1, 2, 5, 8])]


def test_british_spelling_is_read(tmp_path: Path) -> None:
    row = box(kind="traffic light", trafficLightColour="red")
    assert told(bdd(tmp_path, [frame(row)], lights=True), "a.jpg") == [("red", True, [1, 2, 5, 8])]


def test_untold_colour_is_off(tmp_path: Path) -> None:
    source = bdd(tmp_path, [frame(box(kind="traffic light"))], lights=True)
    assert told(source, "a.jpg") == [("off", False, [1, 2, 5, 8])]
    assert set(STATES.values()) == set(COLOURS)


def test_video_is_the_drive(tmp_path: Path) -> None:
    assert bdd(tmp_path, [frame(videoName="b1c66a42-6f7d68ca")])["a.jpg"].group == "b1c66a42-6f7d68ca"


@pytest.mark.parametrize("content", [[{"name": "a.jpg"}], [{"name": "a.jpg", "labels": None}], [frame()]])
def test_nothing_may_be_shown(tmp_path: Path, content: object) -> None:
    assert told(bdd(tmp_path, content), "a.jpg") == []


def test_kinds_are_chosen(tmp_path: Path) -> None:
    rows = [frame(box(), box(kind="rider"))]
    assert told(bdd(tmp_path, rows, kinds=("rider",)), "a.jpg") == [("rider", True, [1, 2, 5, 8])]
    assert "did you mean 'rider'?" in refusal(bdd(tmp_path, rows, kinds=("ridr",)))
    assert "unknown kind 'car'" in refusal(bdd(tmp_path, rows, kinds=("car",), lights=True))
    assert len(CATEGORIES) == len(set(CATEGORIES)) == 16


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (box(x2=1), "box 2 must have a positive width and height, got (1, 2) to (1, 8)"),
        (box(x1=50, x2=60), "box 2 is outside the picture of 40x30"),
        (box(y1="nan"), "box 2, y1"),
        (box(y2=None), "box 2, y2"),
        (box(kind="cra"), "box 2 has the unknown kind 'cra'; did you mean 'car'?"),
        (box(kind=None), "box 2 has the unknown kind 'None'"),
        (
            light("G") | {"attributes": []} | {"box2d": [1, 2, 3, 4]},
            "box 2: expected a mapping of names to values, got list",
        ),
        (light("G") | {"attributes": "x"}, "box 2, attributes: expected a mapping of names to values, got str"),
    ],
)
def test_bad_box_leaves_its_case_out(tmp_path: Path, row: Row, reason: str) -> None:
    draw(tmp_path / "images" / "100k" / "val" / "b.jpg")
    source = bdd(tmp_path, [frame(box(), row), frame(name="b.jpg")])
    assert f"{NEW}: a.jpg: {reason}" in why(source, "a.jpg")
    assert told(source, "b.jpg") == []


def test_unknown_state_is_named(tmp_path: Path) -> None:
    source = bdd(tmp_path, [frame(light("blue"))], lights=True)
    assert f"{NEW}: a.jpg: box 1 has the unknown kind 'blue'; known: " in why(source, "a.jpg")


def test_half_a_pair_is_counted(tmp_path: Path) -> None:
    draw(tmp_path / "images" / "100k" / "val" / "b.jpg")
    source = bdd(tmp_path, [frame(), frame(), frame(name="no.jpg"), frame(name="../../../x.jpg")])
    assert why(source, "a.jpg") == "a.jpg: listed twice"
    assert why(source, "b.jpg") == f"images/100k/val/b.jpg: no labels in {NEW}"
    assert why(source, "no.jpg") == "images/100k/val/no.jpg: no such file"
    assert "outside the data set's folder" in why(source, "../../../x.jpg")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, f"{NEW}: expected a list, got dict"),
        ([[]], f"{NEW}: picture 1: expected a mapping of names to values, got list"),
        ([frame(), frame(name=3)], f"{NEW}: name of picture 2: expected a string that is not empty, got 3"),
        ("[", NEW),
    ],
)
def test_useless_file_is_refused(tmp_path: Path, content: object, reason: str) -> None:
    assert reason in refusal(bdd(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "expected a mapping of names to values, got list"),
        ({"frames": 3}, "frames: expected a list, got int"),
        ({"frames": [3]}, "frames: expected a mapping of names to values, got int"),
        ("{", "a.json"),
    ],
)
def test_useless_file_of_one_picture(tmp_path: Path, content: object, reason: str) -> None:
    line = why(bdd(tmp_path, content, EACH), "a.jpg")
    assert line.startswith(EACH)
    assert reason in line


def test_missing_labels_are_refused(tmp_path: Path) -> None:
    assert "no labels at labels/det_20/det_val.json or" in refusal(Bdd100k(tmp_path))
    assert "no labels at own.json; set labels = 'FILE'" in refusal(Bdd100k(tmp_path, labels="own.json"))


def test_folders_lead_nowhere_else(tmp_path: Path) -> None:
    bdd(tmp_path / "set", [frame()])
    assert "outside the data set's folder" in refusal(Bdd100k(tmp_path / "set", images="../set/images/100k"))
    assert "outside the data set's folder" in refusal(Bdd100k(tmp_path / "set", labels=".."))


def test_labels_are_in_the_fingerprint(tmp_path: Path) -> None:
    before = bdd(tmp_path, [frame()]).fingerprint()
    assert bdd(tmp_path, [frame(box())]).fingerprint() != before


def test_mutated_labels_have_their_lines(tmp_path: Path) -> None:
    bdd(tmp_path, [frame(box(), LANE, light("G"), videoName="x")])
    survives(lambda: Bdd100k(tmp_path, lights=True), tmp_path / NEW)
