"""Traffic lights written in every format, read back by the readers of these formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from swerve.cli.main import main
from swerve.core.case import Case, Source
from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.values import Boxes2D, Image, find
from swerve.sources.bosch import Bosch
from swerve.sources.coco import Coco
from swerve.sources.export import export
from swerve.sources.lisa import Lisa
from swerve.sources.voc import Voc
from swerve.sources.yolo import Yolo
from swerve.world.light_source import LightWorld

Label = list[tuple[str, bool, list[float]]]
READERS: dict[str, Callable[[Path], Source]] = {
    "coco": lambda folder: Coco(folder, labels="annotations/instances_test.json", images="test"),
    "yolo": lambda folder: Yolo(folder, split="test"),
    "voc": lambda folder: Voc(folder / "test", split="test"),
    "bosch": lambda folder: Bosch(folder, labels="test.yaml", occluded=False),
    "lisa": lambda folder: Lisa(folder / "test"),
}
IGNORES = ("coco", "voc", "bosch")  # formats with ignored boxes
CORNERS = [[5.0, 4, 15, 28], [20, 1, 26, 15], [30, 2, 33, 9], [1, 1, 4, 9]]
KINDS, CARE = ("red", "green", "yellow", "off"), [True, True, False, True]


def picture(key: str) -> Image:
    return Image(rng_for("lights", key).integers(0, 256, (30, 40, 3), dtype=np.uint8))


def case(key: str, kinds: tuple[str, ...] = KINDS) -> Case:
    boxes = Boxes2D(np.array(CORNERS), kinds, size=(40, 30), care=np.array(CARE))
    return Case(key, {"camera": picture(key)}, (boxes,), group=f"drive-{key[0]}")


def label(boxes: Boxes2D) -> Label:
    rows = zip(boxes.kinds, np.asarray(boxes.care).tolist(), boxes.xyxy.tolist(), strict=True)
    return sorted((kind, care, [round(number, 5) for number in corners]) for kind, care, corners in rows)


def written(label: Label, form: str) -> Label:
    """What a format can express of a label."""
    kept = label if form in IGNORES else [row for row in label if row[1]]
    return [row for row in kept if form != "lisa" or row[0] != "off"]


def boxes_of(found: Case) -> Boxes2D:
    boxes = find(found.truth, "boxes2d")
    assert isinstance(boxes, Boxes2D)
    return boxes


@pytest.mark.parametrize("form", READERS)
def test_lights_read_back(tmp_path: Path, form: str) -> None:
    cases = [case("a1"), case("a2"), case("b1")]
    export({"train": [case("c1")], "test": cases}, tmp_path / "set", form)
    source = READERS[form](tmp_path / "set")
    found = {np.asarray(source[key].inputs["camera"].pixels).tobytes(): source[key] for key in source.keys()}  # type: ignore[attr-defined]
    assert len(found) == 3
    for one in cases:
        image = one.inputs["camera"]
        assert isinstance(image, Image)
        assert label(boxes_of(found[image.pixels.tobytes()])) == written(label(boxes_of(one)), form)


@pytest.mark.parametrize("form", ["bosch", "lisa"])
def test_drives_stay_together(tmp_path: Path, form: str) -> None:
    export({"test": [case("a1"), case("b1"), case("a2")]}, tmp_path / "set", form)
    source = READERS[form](tmp_path / "set")
    assert len({source[key].group for key in source.keys()}) == 2


@pytest.mark.parametrize(("form", "kind", "name"), [("bosch", "GreenLeft", "GreenLeft"), ("lisa", "stopLeft", "stopLeft")])
def test_own_names_of_states_are_kept(tmp_path: Path, form: str, kind: str, name: str) -> None:
    export({"test": [case("a", kinds=(kind, "green", "red", "off"))]}, tmp_path / "set", form)
    text = (tmp_path / "set").rglob("test.yaml" if form == "bosch" else "frameAnnotationsBOX.csv")
    assert name in next(text).read_text()


@pytest.mark.parametrize("form", ["bosch", "lisa"])
def test_other_kinds_are_refused(tmp_path: Path, form: str) -> None:
    with pytest.raises(InputError, match="'a' cannot be written: unknown state 'gren'; did you mean 'green'"):
        export({"test": [case("a", kinds=("red", "gren", "red", "off"))]}, tmp_path / "set", form)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["bosch", "lisa"])
@pytest.mark.parametrize("key", ["../../etc/passwd", "/etc/passwd", ".hidden", "ü" * 300])
def test_names_of_drives_stay_inside(tmp_path: Path, form: str, key: str) -> None:
    boxes = Boxes2D(np.array(CORNERS), KINDS, size=(40, 30))
    export({"../up": [Case(key, {"camera": picture(key)}, (boxes,), group=key)]}, tmp_path / "in" / "set", form)
    assert {path.name for path in tmp_path.rglob("*") if path.parent in (tmp_path, tmp_path / "in")} == {"in", "set"}


@pytest.mark.parametrize("form", READERS)
def test_world_writes_its_lights(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--lights", "A", "--as", form, "--split", "test", "--count", "1", "--frames", "2", "--size", "720x405"]
    assert main(["world", "--out", str(tmp_path / "set"), *words]) == 0
    assert "2 frames" in capsys.readouterr().out
    source = READERS[form](tmp_path / "set")
    world = LightWorld(junctions=1, frames=2, split="test", conditions="clear", width=720, height=405)
    truth = [written(label(boxes_of(world[key])), form) for key in world.keys()]
    assert any(truth)
    assert sorted(label(boxes_of(source[key])) for key in source.keys()) == sorted(truth)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lights", "A", "--as", "udacity"], "traffic lights cannot be written as udacity: give --as coco"),
        (["--as", "bosch"], "drives have no traffic lights to write as bosch: give --lights A"),
        (["--lights", "C"], "unknown streets 'C'"),
    ],
)
def test_wrong_words_of_lights_get_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["world", "--out", str(tmp_path / "new"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
