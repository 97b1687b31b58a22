"""LISA traffic lights as its archive lays them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.sources.lisa import COLUMNS, Lisa
from swerve.testing.contracts import SourceContract
from tests.unit.test_source_boxes import draw, put, refusal, survives, told, why

HEADER = ";".join((*COLUMNS, "Origin file", "Origin frame number", "Origin track", "Origin track frame number"))


def row(frame: int, tag: str = "go", *ends: Any, clip: str = "dayClip1") -> str:
    numbers = ends or (1, 2, 5, 8)
    return f"dayTraining/{clip}--{frame:05d}.jpg;{tag};{';'.join(map(str, numbers))};dayTraining/{clip}.avi;{frame};x.avi;0"


def clip(
    folder: Path, *rows: str, name: str = "dayClip1", frames: int = 2, top: str = "dayTrain", kind: str = "BOX"
) -> Path:
    for frame in range(frames):
        draw(folder / top / name / "frames" / f"{name}--{frame:05d}.jpg")
    put(folder / "Annotations" / top / name / f"frameAnnotations{kind}.csv", "\n".join([HEADER, *rows, ""]))
    return folder


FIRST, SECOND = "dayClip1/dayClip1--00000.jpg", "dayClip1/dayClip1--00001.jpg"


class TestContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = clip(clip(tmp_path, row(1)), name="nightClip2", top="nightTrain")

    def source(self) -> Source:
        return Lisa(self.folder)


def test_lights_are_read(tmp_path: Path) -> None:
    source = Lisa(clip(tmp_path, row(0), row(1, "stopLeft", 10, 11, 12, 13), row(0, "warning", 0, 0, 40, 30)))
    assert source.keys() == [FIRST, SECOND]
    assert told(source, FIRST) == [("green", True, [1, 2, 5, 8]), ("yellow", True, [0, 0, 40, 30])]
    assert told(source, SECOND) == [("red", True, [10, 11, 12, 13])]
    assert source[FIRST].group == "dayClip1"


def test_other_pictures_are_no_frames(tmp_path: Path) -> None:
    draw(clip(tmp_path, row(0)) / "dayTrain" / "dayClip1" / "preview" / "dayClip1--00009.jpg")
    assert Lisa(tmp_path).keys() == [FIRST, SECOND]


def test_frame_without_line_shows_none(tmp_path: Path) -> None:
    assert told(Lisa(clip(tmp_path, row(1))), FIRST) == []


@pytest.mark.parametrize(
    ("tag", "colour"),
    [
        ("go", "green"),
        ("goLeft", "green"),
        ("goForward", "green"),
        ("stop", "red"),
        ("stopLeft", "red"),
        ("warning", "yellow"),
        ("warningLeft", "yellow"),
    ],
)
def test_states_of_lights(tmp_path: Path, tag: str, colour: str) -> None:
    folder = clip(tmp_path, row(0, tag))
    assert [kind for kind, *_ in told(Lisa(folder), FIRST)] == [colour]
    assert [kind for kind, *_ in told(Lisa(folder, states="full"), FIRST)] == [tag]


def test_bulbs_by_option(tmp_path: Path) -> None:
    clip(clip(tmp_path, row(0)), row(0, "go", 2, 3, 4, 5), kind="BULB")
    assert told(Lisa(tmp_path), FIRST) == [("green", True, [1, 2, 5, 8])]
    assert told(Lisa(tmp_path, "bulb"), FIRST) == [("green", True, [2, 3, 4, 5])]
    with pytest.raises(ValueError, match="'marks' must be 'box' or 'bulb', got 'lamp'"):
        Lisa(tmp_path, "lamp")


def test_separator_is_told(tmp_path: Path) -> None:
    file = clip(tmp_path, row(0)) / "Annotations/dayTrain/dayClip1/frameAnnotationsBOX.csv"
    file.write_text(file.read_text().replace(";", ","))
    assert 'set separator = ","' in refusal(Lisa(tmp_path))
    assert told(Lisa(tmp_path, separator=","), FIRST) == [("green", True, [1, 2, 5, 8])]
    with pytest.raises(InputError, match="'separator' must be one of"):
        Lisa(tmp_path, separator="")


def test_doubled_folders_are_found(tmp_path: Path) -> None:
    draw(tmp_path / "dayTrain" / "dayTrain" / "dayClip1" / "frames" / "dayClip1--00000.jpg")
    draw(tmp_path / "daySequence1" / "daySequence1" / "frames" / "daySequence1--00000.jpg")
    for place, name in (("dayTrain/dayClip1", "dayClip1"), ("daySequence1", "daySequence1")):
        put(tmp_path / f"Annotations/Annotations/{place}/frameAnnotationsBOX.csv", f"{HEADER}\n{row(0, clip=name)}\n")
    source = Lisa(tmp_path)
    assert source.keys() == ["daySequence1/daySequence1--00000.jpg", FIRST]
    assert all(told(source, key) == [("green", True, [1, 2, 5, 8])] for key in source.keys())


def test_clips_are_chosen(tmp_path: Path) -> None:
    folder = clip(clip(tmp_path, row(0)), name="dayClip2")
    assert Lisa(folder, clips=("dayClip2",)).keys() == ["dayClip2/dayClip2--00000.jpg", "dayClip2/dayClip2--00001.jpg"]
    assert "no clip 'dayClip3'; clips are dayClip1, dayClip2" in refusal(Lisa(folder, clips=("dayClip3",)))


def test_kinds_are_states(tmp_path: Path) -> None:
    folder = clip(tmp_path, row(0), row(0, "stop", 3, 3, 4, 4))
    assert told(Lisa(folder, kinds=("red",)), FIRST) == [("red", True, [3, 3, 4, 4])]
    assert told(Lisa(folder, kinds=("stop",), states="full"), FIRST) == [("stop", True, [3, 3, 4, 4])]
    assert "unknown kind 'stop'" in refusal(Lisa(folder, kinds=("stop",)))
    assert "unknown kind 'red'" in refusal(Lisa(folder, kinds=("red",), states="full"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (row(0, "go", 5, 5, 5, 9), "must have a positive width and height, got (5, 5) to (5, 9)"),
        (row(0, "go", 50, 5, 55, 9), "is outside the picture of 40x30"),
        (row(0, "gone"), "has the unknown kind 'gone'; did you mean 'go'?"),
        (row(0, ""), "has the unknown kind ''"),
        (row(0, "go", "nan", 5, 55, 9), "Upper left corner X"),
        (row(0, "go", 1, "", 55, 9), "Upper left corner Y"),
    ],
)
def test_bad_line_leaves_its_frame_out(tmp_path: Path, line: str, reason: str) -> None:
    source = Lisa(clip(tmp_path, row(1), line))
    place = "Annotations/dayTrain/dayClip1/frameAnnotationsBOX.csv: row 2 (dayClip1--00000.jpg)"
    assert why(source, FIRST).startswith(place)
    assert reason in why(source, FIRST)
    assert told(source, SECOND) == [("green", True, [1, 2, 5, 8])]


def test_lines_without_picture_are_counted(tmp_path: Path) -> None:
    source = Lisa(clip(tmp_path, row(7), row(7)))
    assert source.keys()[2:] == ["dayClip1/dayClip1--00007.jpg"]
    assert "dayClip1--00007.jpg: no such picture in a folder dayClip1/frames" in why(source, source.keys()[2])


def test_two_pictures_of_one_frame(tmp_path: Path) -> None:
    folder = clip(tmp_path, row(0))
    draw(folder / "copy" / "dayClip1" / "frames" / "dayClip1--00000.jpg")
    assert why(Lisa(folder), FIRST) == (
        f"{FIRST}: two pictures, copy/dayClip1/frames/dayClip1--00000.jpg and dayTrain/dayClip1/frames/dayClip1--00000.jpg"
    )


def test_two_files_of_one_clip(tmp_path: Path) -> None:
    folder = clip(tmp_path, row(0))
    put(folder / "old" / "dayClip1" / "frameAnnotationsBOX.csv", f"{HEADER}\n{row(0, 'stop')}\n")
    assert why(Lisa(folder), FIRST) == f"{FIRST}: listed twice"


@pytest.mark.parametrize("content", ["Filename,Annotation tag\na.jpg,go\n", "", HEADER.replace("tag", "label")])
def test_useless_file_is_refused(tmp_path: Path, content: str) -> None:
    folder = clip(tmp_path)
    put(folder / "Annotations/dayTrain/dayClip1/frameAnnotationsBOX.csv", content)
    assert "Annotations/dayTrain/dayClip1/frameAnnotationsBOX.csv" in refusal(Lisa(folder))


def test_other_folder_is_refused(tmp_path: Path) -> None:
    draw(tmp_path / "frames" / "a.png")
    assert refusal(Lisa(tmp_path)) == f"{tmp_path}: 0 cases; Lisa found no files of its format there"


def test_labels_are_in_the_fingerprint(tmp_path: Path) -> None:
    before = Lisa(clip(tmp_path, row(0))).fingerprint()
    assert Lisa(clip(tmp_path, row(0, "stop"))).fingerprint() != before


def test_mutated_labels_have_their_lines(tmp_path: Path) -> None:
    clip(tmp_path, row(0), row(1, "stop"))
    survives(lambda: Lisa(tmp_path), tmp_path / "Annotations/dayTrain/dayClip1/frameAnnotationsBOX.csv")
