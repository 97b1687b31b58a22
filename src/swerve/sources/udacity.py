"""Steering labels in a table: Udacity's Challenge 2 as it was published, its simulator, and tables like them."""

from __future__ import annotations

import codecs
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath, PureWindowsPath

from swerve import limits
from swerve.convention import Convention
from swerve.errors import InputError, UnreadableCase, did_you_mean
from swerve.sources.images import SUFFIXES
from swerve.sources.listed import CAMERA, Entry, Listed
from swerve.sources.root import LONGEST, Root
from swerve.sources.texts import csv_file, number
from swerve.values import Signal, Steering, Value

TABLES = (
    *("interpolated.csv", "final_example.csv", "CH2_final_evaluation.csv"),
    *("labels.csv", "steering.csv", "driving_log.csv"),
)
FILES = ("filename", "file", "center", "frame_id")
# Challenge 2 counts radians of the steering wheel, left positive, and declares no ratio; its simulator counts otherwise.
OWN = ("steering_angle", "angle")
ANGLES = (*OWN, "steering")
MEANING: Mapping[str, str] = {"unit": "radians", "positive": "left", "kind": "wheel"}
CENTRE, SIMULATOR = "center", "IMG"
OTHER_CAMERAS = ("left_camera", "right_camera")
DRIVE = "drive"
LOG = ("center", "left", "right", "steering", "throttle", "brake", "speed")  # the simulator may leave its header out

Row = Mapping[str, str]


@dataclass(frozen=True)
class Udacity(Listed):
    """Camera frames with a steering angle each; the key of a frame is the path of its picture.

    The usual tables and columns are found by themselves. Their pictures are told from the folder that the table lies in:
    a path, or the id of a frame in `center/`, or any path of the simulator's, whose pictures lie in `IMG/`. Of several
    cameras the centre one is read. A label without a picture, a picture beside the labelled ones without a label, two
    labels for one picture, and an angle that is no number or more than a full turn of radians are skips with their reason.

    Args:
        table: the CSV file; the first of the usual names where it is empty.
        file: the column of pictures.
        angle: the column of angles; with it `unit`, `positive` and `kind` must be told, as nobody can guess them.
        drive: the column that names the drive; without it all is one.
        unit: `radians`, `degrees`, or degrees of one unit.
        positive: `left` or `right`.
        kind: `wheel`, the steering wheel, or `road`, the road wheels, which need a `ratio`.
        ratio: degrees of the steering wheel for one of the road wheels.
        block: frames after which a new group begins, so that one drive can be split; 0 for none.
        signals: further columns of numbers that are true of a frame, such as `speed`.
        unlabelled: whether pictures without a label are counted as skips; switch it off for a table of a few of many.
    """

    table: str = ""
    file: str = ""
    angle: str = ""
    drive: str = ""
    unit: str | float | None = None
    positive: str | None = None
    kind: str | None = None
    ratio: float | None = None
    block: int = 0
    signals: tuple[str, ...] = ()
    unlabelled: bool = True

    def __post_init__(self) -> None:
        if self.block < 0:
            raise InputError(f"block must be at least 0 frames, got {self.block}")
        if self.angle:
            self._meaning(self.angle)

    def manifests(self) -> Sequence[str]:
        return (self._table,)

    def listed(self) -> Iterable[Entry]:
        """The rows in their order, then the pictures that have none."""
        named: set[str] = set()
        folders: set[PurePosixPath] = set()
        length: Counter[str] = Counter()
        for count, row in enumerate(self._rows, start=1):
            cell = row[self._file].strip()
            if not cell:
                yield Entry(f"{self._table}, row {count}", fault=f"{self._table}: row {count} names no picture")
                continue
            name = self._picture(cell)
            named.add(name)
            if row.get("frame_id") in OTHER_CAMERAS:
                continue
            folders.add(PurePosixPath(name).parent)
            drive = row[self._column(self.drive)] if self.drive else DRIVE
            yield self._entry(name, row, self._group(drive, length[drive]))
            length[drive] += 1
        if self.unlabelled:
            yield from self._without_label(folders, named)

    @cached_property
    def convention(self) -> Convention:
        """What the angles of the table mean."""
        return self._meaning(self._angle)

    def _entry(self, name: str, row: Row, group: str) -> Entry:
        try:
            return Entry(name, {CAMERA: name}, tuple(self._labels(name, row)), group)
        except UnreadableCase as error:
            return Entry(name, {CAMERA: name}, group=group, fault=str(error))

    def _labels(self, name: str, row: Row) -> Iterator[Value]:
        yield self._steering(name, number(row[self._angle], f"{name}: {self._angle}"))
        for column in self.signals:
            yield Signal(column, number(row[self._column(column)], f"{name}: {column}"))

    def _steering(self, name: str, angle: float) -> Steering:
        if self.convention.unit == "radians" and abs(angle) > math.tau:
            raise UnreadableCase(f"{name}: {self._angle} is {angle:g} radians, more than a full turn; are these degrees?")
        return self.convention.steering(angle)

    def _group(self, drive: str, place: int) -> str:
        return f"{drive}-{place // self.block}" if self.block else drive

    def _without_label(self, folders: set[PurePosixPath], named: set[str]) -> Iterator[Entry]:
        for name in self.root.names(*SUFFIXES):
            if name not in named and PurePosixPath(name).parent in folders:
                yield Entry(name, fault=f"{name}: no label in {self._table}")

    def _picture(self, cell: str) -> str:
        """The path of a picture that a cell of the table tells."""
        if self._file == CENTRE:  # the simulator writes paths of the machine that it ran on, of any system
            cell = f"{SIMULATOR}/{PureWindowsPath(cell).name}"
        if not cell.lower().endswith(SUFFIXES):
            return self._by_id.get(cell, (self._beside / CENTRE / f"{cell}.jpg").as_posix())
        return cell if "://" in cell else (self._beside / cell).as_posix()

    @cached_property
    def _by_id(self) -> Mapping[str, str]:
        """The pictures of the centre camera by the ids of their frames."""
        names = self.root.names(*SUFFIXES, under=(self._beside / CENTRE).as_posix())
        return {PurePosixPath(name).stem: name for name in names}

    @cached_property
    def _beside(self) -> PurePosixPath:
        return PurePosixPath(self._table).parent

    @cached_property
    def _table(self) -> str:
        found = self.table or next((name for name in TABLES if self.root.has(name)), "")
        if not found:
            raise InputError(f"{self.folder}: no {', '.join(TABLES[:-1])} or {TABLES[-1]}; name its table with table = ...")
        return found

    @cached_property
    def _rows(self) -> Sequence[Row]:
        root = Headed(self.folder) if self._is_bare_log() else self.root
        rows = csv_file(root, self._table, columns=())
        if not rows:
            raise InputError(f"{self.folder / self._table}: no rows")
        return rows

    def _is_bare_log(self) -> bool:
        """Whether the table is a log of the simulator's whose first line is no header but a frame."""
        if not self.root.has(self._table):
            return False
        with self.root.open(self._table) as file:
            cells = file.readline(LONGEST).split(b",")
        return len(cells) == len(LOG) and cells[0].strip().lower().endswith(tuple(end.encode() for end in SUFFIXES))

    @cached_property
    def _file(self) -> str:
        return self._column(self.file, FILES, "file")

    @cached_property
    def _angle(self) -> str:
        return self._column(self.angle, ANGLES, "angle")

    def _column(self, given: str, usual: Sequence[str] = (), key: str = "") -> str:
        """A column that is there: the one asked for, or the first of the usual ones."""
        header = self._rows[0]
        if given and given not in header:
            raise InputError(f"{self._table}: no column '{given}'; {did_you_mean(given, header)}")
        found = given or next((name for name in usual if name in header), "")
        if not found:
            raise InputError(f"{self._table}: name one of its columns with {key} = ...; it has {', '.join(header)}")
        return found

    def _meaning(self, column: str) -> Convention:
        own = {} if self.angle or column not in OWN else MEANING
        given = {name: told for name in MEANING if (told := getattr(self, name)) is not None}
        if missing := [name for name in MEANING if name not in {**own, **given}]:
            hint = ", ".join(f'{name} = "{MEANING[name]}"' for name in missing)
            raise InputError(f"what the angles in column '{column}' mean must be told, such as {hint}")
        return Convention(**{**own, **given}, ratio=self.ratio)


class Headed(Root):
    """A folder whose tables get the header that the simulator left out."""

    def bytes(self, name: str, *, most: int = limits.MANIFEST) -> bytes:
        return ",".join(LOG).encode() + b"\n" + super().bytes(name, most=most).removeprefix(codecs.BOM_UTF8)
