"""Bosch Small Traffic Lights as its archives lay them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swerve.core.case import Source
from swerve.sources.bosch import Bosch
from swerve.sources.labelled_boxes import COLOURS
from swerve.testing.contracts import SourceContract
from tests.unit.test_source_boxes import draw, put, refusal, survives, told, why

BAG = "rgb/train/2015-10-05-10-52-01_bag"
KEY = f"{BAG}/24594.png"
OTHER = f"{BAG}/24664.png"


def light(label: str = "Green", *ends: Any, occluded: str = "false") -> str:
    left, top, right, bottom = ends or (1.5, 2, 5, 8)
    where = f"x_max: {right}, x_min: {left}, y_max: {bottom}, y_min: {top}"
    return f"  - {{label: {label}, occluded: {occluded}, {where}}}"


def picture(*lights: str, path: str = f"./{KEY}") -> str:
    return "\n".join(["- boxes:" if lights else "- boxes: []", *lights, f"  path: {path}", ""])


def bosch(folder: Path, content: str, **more: Any) -> Bosch:
    draw(folder / KEY)
    draw(folder / OTHER)
    put(folder / "train.yaml", content)
    return Bosch(folder, **more)


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        bosch(tmp_path, picture(light()) + picture(path=f"./{OTHER}"))

    def source(self) -> Source:
        return Bosch(self.folder)


def test_lights_are_read(tmp_path: Path) -> None:
    source = bosch(tmp_path, picture(light(), light("off", 10, 11, 12, 13)) + picture(path=f"./{OTHER}"))
    assert source.keys() == [KEY, OTHER]
    assert told(source, KEY) == [("green", True, [1.5, 2, 5, 8]), ("off", True, [10, 11, 12, 13])]
    assert told(source, OTHER) == []
    assert source[KEY].group == BAG


@pytest.mark.parametrize(
    ("label", "colour"),
    [
        *(("Red", "red"), ("RedLeft", "red"), ("RedRight", "red"), ("RedStraight", "red"), ("RedStraightLeft", "red")),
        *(("Yellow", "yellow"), ("Green", "green"), ("GreenStraightRight", "green"), ("off", "off"), ("'off'", "off")),
    ],
)
def test_states_of_lights(tmp_path: Path, label: str, colour: str) -> None:
    bosch(tmp_path, picture(light(label)))
    assert told(Bosch(tmp_path), KEY) == [(colour, True, [1.5, 2, 5, 8])]
    assert told(Bosch(tmp_path, states="full"), KEY) == [(label.strip("'"), True, [1.5, 2, 5, 8])]


def test_every_state_has_a_colour() -> None:
    assert set(Bosch.colours.values()) == set(COLOURS)
    assert len(Bosch.colours) == 19


def test_occluded_lights_by_option(tmp_path: Path) -> None:
    bosch(tmp_path, picture(light(occluded="true"), light()))
    assert [care for _, care, _ in told(Bosch(tmp_path), KEY)] == [True, True]
    assert [care for _, care, _ in told(Bosch(tmp_path, occluded=False), KEY)] == [False, True]


def test_paths_of_the_makers_disk(tmp_path: Path) -> None:
    draw(tmp_path / "rgb" / "test" / "24070.png")
    path = "/net/pal.example.com/deep_learning_data/traffic_lights/university_run1/24070.png"
    put(tmp_path / "test.yaml", picture(light("Red"), path=path))
    source = Bosch(tmp_path, "test.yaml")
    assert source.keys() == ["rgb/test/24070.png"]
    assert told(source, "rgb/test/24070.png") == [("red", True, [1.5, 2, 5, 8])]


def test_paths_are_relative_to_the_labels(tmp_path: Path) -> None:
    draw(tmp_path / "dataset_train_rgb" / KEY)
    put(tmp_path / "dataset_train_rgb" / "train.yaml", picture(light()))
    source = Bosch(tmp_path, "dataset_train_rgb/train.yaml")
    assert source.keys() == [f"dataset_train_rgb/{KEY}"]
    assert len(told(source, source.keys()[0])) == 1


def test_kinds_are_chosen_and_renamed(tmp_path: Path) -> None:
    content = picture(light(), light("RedLeft"))
    assert told(bosch(tmp_path, content, kinds=("red",), rename={"red": "stop"}), KEY) == [("stop", True, [1.5, 2, 5, 8])]
    assert "did you mean 'green'?" in refusal(bosch(tmp_path, content, kinds=("Green",)))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (light("Red", 5, 5, 5, 9), "box 2 must have a positive width and height, got (5, 5) to (5, 9)"),
        (light("Red", 9, 5, 5, 9), "box 2 must have a positive width and height, got"),
        (light("Red", -9, 5, 0, 9), "box 2 is outside the picture of 40x30"),
        (light("Blue"), "box 2 has the unknown kind 'Blue'"),
        (light("true"), "box 2 has the unknown kind 'True'"),
        (light("Red", "'nan'", 5, 7, 9), "box 2, x_min: expected a number, got 'nan'"),
        (light("Red", "x", 5, 7, 9), "box 2, x_min"),
        ("  - {label: Red, x_min: 1}", "box 2, y_min"),
        ("  - Red", "box 2: expected a mapping of names to values, got str"),
    ],
)
def test_bad_box_leaves_its_case_out(tmp_path: Path, line: str, reason: str) -> None:
    source = bosch(tmp_path, picture(light(), line) + picture(light(), path=f"./{OTHER}"))
    assert f"train.yaml: {KEY}: {reason}" in why(source, KEY)
    assert len(told(source, OTHER)) == 1


def test_odd_pictures_are_counted(tmp_path: Path) -> None:
    paths = (f"./{KEY}", KEY, "./rgb/no.png", "../x.png")
    source = bosch(tmp_path, "".join(picture(path=path) for path in paths) + f"- path: {OTHER}\n")
    assert why(source, KEY) == f"{KEY}: listed twice"
    assert why(source, "rgb/no.png") == "rgb/no.png: no such file"
    assert "outside the data set's folder" in why(source, "../x.png")
    assert why(source, OTHER) == f"train.yaml: {OTHER}: boxes: expected a list, got nothing"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("boxes: []", "train.yaml: expected a list, got dict"),
        ("- text", "train.yaml: picture 1: expected a mapping of names to values, got str"),
        ("- boxes: []", "train.yaml: path of picture 1: expected a string that is not empty, got None"),
        ("- boxes: [", "train.yaml"),
        (picture(light("Red", ".nan", 5, 7, 9)), "train.yaml, line 2, column 52: .nan is not a finite number"),
        ("- !!python/object/apply:os.system ['true']", "train.yaml"),
        ("[]", "0 cases; Bosch found no files of its format there"),
    ],
)
def test_useless_file_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    assert reason in refusal(bosch(tmp_path, content))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    assert refusal(Bosch(tmp_path)) == f"{tmp_path}/train.yaml: no such file"


def test_labels_are_in_the_fingerprint(tmp_path: Path) -> None:
    before = bosch(tmp_path, picture(light())).fingerprint()
    assert bosch(tmp_path, picture(light("Red"))).fingerprint() != before


def test_mutated_labels_have_their_lines(tmp_path: Path) -> None:
    bosch(tmp_path, picture(light(), light("off")) + picture(path=f"./{OTHER}"))
    survives(lambda: Bosch(tmp_path), tmp_path / "train.yaml")
