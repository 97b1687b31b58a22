"""LISA traffic lights: clips of frames, and a CSV file of lights for each clip; its reader and its writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, ClassVar

from swerve.core.arguments import OneOfNames
from swerve.core.case import Fact
from swerve.core.errors import InputError
from swerve.sources.images import SUFFIXES
from swerve.sources.labelled_boxes import LabelledBox, Lights, Size, corner_values, fatal, state_name
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.texts import check_separator, csv_file
from swerve.sources.writing import Box, Spools, WrittenCase, slug
from swerve.store.files import whole_file

ENDS = ("Upper left corner X", "Upper left corner Y", "Lower right corner X", "Lower right corner Y")
COLUMNS = ("Filename", "Annotation tag", *ENDS)
ORIGIN = ("Origin file", "Origin frame number", "Origin track", "Origin track frame number")
MARKS = ("box", "bulb")

Row = Mapping[str, str]


@dataclass(frozen=True)
class Lisa(Lights):
    """Every frame of every clip that has a CSV file of lights; a frame without a row in it shows no lights.

    `marks` selects what the boxes enclose, the whole light ("box") or its lit lamp ("bulb"); `clips` selects clips. The CSV
    files refer to `dayTraining/dayClip1--00000.jpg`, which is stored in `dayTrain/dayClip1/frames`: a frame is looked up by
    its file name in the clip's folder `frames`, wherever that is.
    """

    marks: Annotated[str, OneOfNames(*MARKS)] = "box"
    clips: tuple[str, ...] = ()
    separator: str = ";"
    colours: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            **dict.fromkeys(("go", "goForward", "goLeft"), "green"),
            **dict.fromkeys(("warning", "warningLeft"), "yellow"),
            **dict.fromkeys(("stop", "stopLeft"), "red"),
        }
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_separator(self.separator)
        if self.marks not in MARKS:
            raise ValueError(f"'marks' must be '{MARKS[0]}' or '{MARKS[1]}', got {self.marks!r}")

    def manifests(self) -> Sequence[str]:
        return list(self._files)

    def listed(self) -> Iterable[Entry]:
        self.check_states()
        for file, clip in self._files.items():
            frames = self._frames.get(clip, {})
            for name, found in frames.items():
                twice = f"{clip}/{name}: two pictures, {found[0]} and {found[-1]}" if len(found) > 1 else ""
                yield Entry(f"{clip}/{name}", {CAMERA: found[0]}, group=clip, fault=twice, columns=_time_of_day(clip))
            for name in self._rows[file]:
                if name not in frames:
                    missing = f"{file}: {name}: no such picture in a folder {clip}/frames"
                    yield Entry(f"{clip}/{name}", group=clip, fault=missing)

    def label_boxes(self, entry: Entry, size: Size) -> Iterator[LabelledBox]:
        del size
        file, name = self._file_of[entry.group], PurePosixPath(entry.key).name
        for at, row in self._rows[file].get(name, ()):
            place = f"{file}: row {at} ({name})"
            left, top, right, bottom = corner_values(row, ENDS, place)
            yield LabelledBox(place, (left, top, right, bottom), self.state(row["Annotation tag"].strip(), place))

    @cached_property
    def _files(self) -> Mapping[str, str]:
        """The CSV files, and the clip of each."""
        found = {
            name: PurePosixPath(name).parent.name for name in self.root.names(f"frameAnnotations{self.marks.upper()}.csv")
        }
        if lacking := sorted(set(self.clips) - set(found.values())):
            raise InputError(f"{self.folder}: no clip '{lacking[0]}'; clips are {', '.join(sorted(found.values()))}")
        return {name: clip for name, clip in found.items() if not self.clips or clip in self.clips}

    @cached_property
    def _file_of(self) -> Mapping[str, str]:
        return {clip: file for file, clip in self._files.items()}

    @cached_property
    def _frames(self) -> Mapping[str, Mapping[str, list[str]]]:
        """The pictures of each clip by file name."""
        clips: dict[str, dict[str, list[str]]] = {}
        for path in map(PurePosixPath, self.root.names(*SUFFIXES)):
            if path.parent.name == "frames":
                clips.setdefault(path.parent.parent.name, {}).setdefault(path.name, []).append(path.as_posix())
        return clips

    @cached_property
    def _rows(self) -> Mapping[str, Mapping[str, list[tuple[int, Row]]]]:
        """The rows of each file by the name of the frame, numbered from 1."""
        files: dict[str, dict[str, list[tuple[int, Row]]]] = {}
        for file in self._files:
            with fatal(self.root):
                rows = csv_file(self.root, file, columns=COLUMNS, separator=self.separator)
            frames = files.setdefault(file, {})
            for at, row in enumerate(rows, start=1):
                frames.setdefault(PurePosixPath(row["Filename"]).name, []).append((at, row))
        return files


class LisaWriter:
    """Writes `SPLIT/CLIP/frames/NAME.png` and `SPLIT/CLIP/frameAnnotationsBOX.csv`, a clip for each drive.

    LISA has neither lights that are off nor ignored ones: such boxes are omitted.
    """

    names: ClassVar[Mapping[str, str]] = MappingProxyType({"red": "stop", "yellow": "warning", "green": "go"})

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None:
        del kinds
        self._folder, self._rows = folder, spools
        self._splits: dict[str, str] = {}  # of each clip

    def add(self, entry: WrittenCase) -> Path:
        clip = f"{entry.split}-{slug(entry.case.group)}"
        self._splits[clip] = entry.split
        rows = self._rows[clip]
        for box in entry.boxes():
            if box.care and box.kind != "off":
                rows.add(self._row(box, entry, clip))
        return entry.write_picture(self._folder / entry.split / clip / "frames")

    def _row(self, box: Box, entry: WrittenCase, clip: str) -> list[str]:
        tag = state_name(box.kind, self.names, Lisa.colours, entry.case.key)
        ends = (f"{number:.10g}" for number in (box.left, box.top, box.right, box.bottom))
        name = f"{entry.name}.png"
        return [f"{clip}/{name}", tag, *ends, clip, str(entry.number), clip, str(entry.number)]

    def close(self) -> None:
        for clip, split in self._splits.items():
            with whole_file(self._folder / split / clip / "frameAnnotationsBOX.csv") as file:
                lines = ([*COLUMNS, *ORIGIN], *self._rows[clip].rows())
                file.writelines(f"{';'.join(line)}\n".encode() for line in lines)

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / split


def _time_of_day(clip: str) -> dict[str, Fact]:
    """Day or night, from the name of a clip such as `nightClip3`."""
    return next(({"timeofday": time} for time in ("day", "night") if clip.lower().startswith(time)), {})
