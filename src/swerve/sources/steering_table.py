"""A table of frames and their steering angles: the meaning of its columns, and the paths of the pictures in its rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath, PureWindowsPath

from swerve.core.errors import InputError, did_you_mean
from swerve.sources.images import SUFFIXES
from swerve.sources.labelled_boxes import fatal
from swerve.sources.root import Root
from swerve.sources.texts import NUMBER, csv_file, number

FILES = ("filename", "file", "center", "frame_id")
# Challenge 2 has radians of the steering wheel, left positive, and no ratio; its simulator uses another convention.
OWN = ("steering_angle", "angle")
ANGLES = (*OWN, "steering")
CENTRE, SIMULATOR = "center", "IMG"
SIDES = ("left", "right")  # the simulator's other cameras, in the same row
LOG = ("center", "left", "right", "steering", "throttle", "brake", "speed")  # the simulator may omit its header
CAMERAS = "camera.csv"  # of a dumped drive, whose steering has times and no pictures
TIME = "timestamp"
NEAR = 100_000_000  # most nanoseconds between a picture and its angle, a tenth of a second

Row = Mapping[str, str]
Column = str | int  # its name, or its number from 1


@dataclass(frozen=True)
class SteeringTable:
    """One table; `file` and `angle` name its columns, by default the usual ones, and `images` is the folder of pictures."""

    root: Root
    name: str
    separator: str = ","
    file: Column = ""
    angle: Column = ""
    images: str = ""

    @cached_property
    def rows(self) -> Sequence[Row]:
        """Its rows; for a dump, the rows of the table of pictures, joined with this one."""
        return self._joined() if self._is_dump else self._own

    @property
    def names(self) -> Sequence[str]:
        """The files it is read from."""
        return (self.name, self._cameras) if self._is_dump else (self.name,)

    @cached_property
    def file_column(self) -> str:
        """The column of pictures."""
        return self.column(self.file, FILES, "file")

    @cached_property
    def angle_column(self) -> str:
        """The column of angles."""
        return self.column(self.angle, ANGLES, "angle")

    def column(self, given: Column, usual: Sequence[str] = (), key: str = "") -> str:
        """The name of the given column, or of the first of the usual ones that exists."""
        header, place = list(self.rows[0]), self.root.folder / self.name
        if isinstance(given, int):
            if given > len(header):
                raise InputError(f"{place}: no column {given}; the table has {len(header)}")
            return header[given - 1]
        if given and given not in header:
            raise InputError(f"{place}: no column '{given}'; {did_you_mean(given, header)}")
        found = given or next((name for name in usual if name in header), "")
        if not found:
            other = f", or put the drive's {CAMERAS} beside it" if key == "file" and TIME in header else ""
            other += (
                "; a table without a header needs numbers, such as file = 1, angle = 2" if any(map(_is_cell, header)) else ""
            )
            raise InputError(
                f"{place}: no column is known as '{key}'; set '{key}' to one of the "
                f"columns{other}; they are {', '.join(header)}"
            )
        return found

    def is_own(self, column: str) -> bool:
        """Whether a column names the picture, its time or its label, and so says nothing else of the case."""
        return column in (*FILES, *SIDES, TIME, self.file_column, self.angle_column)

    def picture(self, cell: str) -> str:
        """The path of the picture that a cell refers to."""
        if self.file_column == CENTRE:  # the simulator writes absolute paths of its own machine, of any system
            cell = f"{SIMULATOR}/{PureWindowsPath(cell).name}"
        if not _is_picture(cell):
            return self._by_id.get(cell, (self._pictures / f"{cell}.jpg").as_posix())
        return cell if "://" in cell else (self._beside / self.images / cell).as_posix()

    def sides(self, row: Row) -> Iterator[str]:
        """The pictures of the other cameras in a row of the simulator's log."""
        if self.file_column == CENTRE:
            yield from (self.picture(cell) for side in SIDES if (cell := row.get(side, "").strip()))

    @cached_property
    def _by_id(self) -> Mapping[str, str]:
        """The pictures of the centre camera by frame id."""
        names = self.root.names(*SUFFIXES, under=self._pictures.as_posix())
        return {PurePosixPath(name).stem: name for name in names}

    @property
    def _pictures(self) -> PurePosixPath:
        """The folder of pictures that rows name by their ids."""
        return self._beside / (self.images or CENTRE)

    @property
    def _beside(self) -> PurePosixPath:
        return PurePosixPath(self.name).parent

    @property
    def _cameras(self) -> str:
        return (self._beside / CAMERAS).as_posix()

    def _read(self, name: str) -> Sequence[Row]:
        with fatal(self.root):
            rows = csv_file(self.root, name, separator=self.separator, unnamed=self._unnamed)
        if not rows:
            raise InputError(f"{self.root.folder / name}: the table has no rows")
        return rows

    def _unnamed(self, first: Sequence[str]) -> Sequence[str]:
        """The names of the columns if the first line is a row: their numbers, or those of a simulator's log."""
        given = [column for column in (self.file, self.angle) if isinstance(column, int)]
        if given:
            is_row = any(_is_cell(first[column - 1]) for column in given if column <= len(first))
            return [str(number) for number in range(1, len(first) + 1)] if is_row else ()
        return LOG if len(first) == len(LOG) and _is_picture(first[0]) else ()

    @cached_property
    def _own(self) -> Sequence[Row]:
        return self._read(self.name)

    @cached_property
    def _is_dump(self) -> bool:
        """Whether the rows have times instead of pictures, and there is a table of pictures beside it."""
        header = self._own[0]
        has_pictures = self.file or any(name in header for name in FILES)
        return not has_pictures and TIME in header and self.root.has(self._cameras)

    def _joined(self) -> Sequence[Row]:
        """Every picture with the cells of the row nearest in time, or empty cells if that is too far away."""
        pictures = self._read(self._cameras)
        with fatal(self.root):
            timed = sorted(zip(_times(self._own, self.name), self._own, strict=True), key=lambda pair: pair[0])
            return [
                {**_nearest(timed, time), **picture}
                for time, picture in zip(_times(pictures, self._cameras), pictures, strict=True)
            ]


def _is_picture(cell: str) -> bool:
    return cell.lower().endswith(SUFFIXES)


def _is_cell(text: str) -> bool:
    """Whether a text is a cell and not the name of a column: a number, or the name of a picture."""
    return bool(NUMBER.fullmatch(text)) or _is_picture(text)


def _times(rows: Sequence[Row], name: str) -> list[float]:
    return [number(row.get(TIME), f"{name}: row {at}, {TIME}") for at, row in enumerate(rows, start=1)]


def _nearest(timed: Sequence[tuple[float, Row]], time: float) -> Row:
    at = bisect_left(timed, time, key=lambda pair: pair[0])
    apart, row = min(((abs(other - time), row) for other, row in timed[max(at - 1, 0) : at + 1]), key=lambda pair: pair[0])
    return row if apart <= NEAR else dict.fromkeys(row, "")
