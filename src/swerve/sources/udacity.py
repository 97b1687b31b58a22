"""Steering labels in a table: Udacity's Challenge 2 as published, its simulator, and similar tables; reader and writer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated

from swerve.core.arguments import OneOfNames, check_whole
from swerve.core.convention import SIDES, WHEELS, Convention
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.values import Signal, Steering, Value, find
from swerve.sources.images import SUFFIXES
from swerve.sources.listed import CAMERA, Entry, ListedSource, plain_facts
from swerve.sources.steering_table import OWN, Column, Row, SteeringTable
from swerve.sources.texts import check_separator, number
from swerve.sources.writing import Spools, WrittenCase
from swerve.store.files import write_csv

TABLES = (
    *("interpolated.csv", "final_example.csv", "CH2_final_evaluation.csv"),
    *("labels.csv", "steering.csv", "driving_log.csv"),
)
MEANING: Mapping[str, str] = {"unit": "radians", "positive": "left", "kind": "wheel"}
OTHER_CAMERAS = ("left_camera", "right_camera")
DRIVE = "drive"


@dataclass(frozen=True)
class Udacity(ListedSource):
    """Camera frames, each with a steering angle; the key of a frame is the path of its picture.

    The usual tables and columns are found automatically, in the folder or in its sub-folders, each of which is then a drive.
    Pictures are relative to the table's folder: a path, the id of a frame in `center/`, or any path the simulator wrote,
    whose pictures are in `IMG/`. A dumped `steering.csv`, with times instead of pictures, is joined with the `camera.csv`
    beside it. Only the centre camera is read. A frame is skipped with a reason if its picture or label is missing, if it has
    two labels, or if its angle is not a number or exceeds a full turn in radians.

    Columns are given by their names or by their numbers, from 1. A table whose columns are given by number needs no header:
    its first line is a row if it has a number or a picture in one of them.

    Args:
        table: the table, such as `angles.csv` or `data.txt`; by default the first of the usual names.
        separator: the character between two cells, such as `;`; a space stands for any blanks. Of several characters, each
            separates.
        file: the column of pictures.
        angle: the column of angles; requires `unit`, `positive` and `kind`, which cannot be guessed.
        images: the folder of the pictures, from that of the table.
        drive: the column with the name of the drive; without it, a table is one drive.
        unit: `radians`, `degrees`, or the degrees of one unit.
        positive: `left` or `right`.
        kind: `wheel`, the steering wheel, or `road`, the road wheels, which need a `ratio`.
        ratio: degrees of the steering wheel for one degree of the road wheels.
        block: frames after which a new group begins, so that one drive can be split; 0 for none.
        signals: further columns of numbers to use as labels, such as `speed`.
        unlabelled: whether pictures without a label count as skipped; set it to false if the table covers few pictures.
    """

    table: str = ""
    file: Column = ""
    angle: Column = ""
    drive: Column = ""
    unit: str | float | None = None
    positive: Annotated[str | None, OneOfNames(*SIDES)] = None
    kind: Annotated[str | None, OneOfNames(*WHEELS)] = None
    ratio: float | None = None
    block: int = 0
    signals: tuple[str, ...] = ()
    unlabelled: bool = True
    separator: str = ","
    images: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_separator(self.separator)
        check_whole("block", self.block, error=InputError)
        for name in ("file", "angle", "drive"):
            if not isinstance(column := getattr(self, name), str):
                check_whole(name, column, 1, error=InputError)
        if self.angle:
            self._meaning(self.angle)

    def manifests(self) -> Sequence[str]:
        return [name for sheet in self._sheets.values() for name in sheet.names]

    def listed(self) -> Iterable[Entry]:
        """The rows of each table in order, then the pictures without a row."""
        length: Counter[str] = Counter()
        for drive, sheet in self._sheets.items():
            yield from self._from_table(sheet, drive, length)

    @cached_property
    def convention(self) -> Convention:
        """The unit, sign and wheel of the angles."""
        first, *_ = [self._meaning(sheet.angle_column) for sheet in self._sheets.values()]  # equal, or one is refused
        return first

    def _from_table(self, sheet: SteeringTable, drive: str, length: Counter[str]) -> Iterator[Entry]:
        named: set[str] = set()
        folders: set[PurePosixPath] = set()
        for count, row in enumerate(sheet.rows, start=1):
            cell = row[sheet.file_column].strip()
            if not cell:
                yield Entry(f"{sheet.name}, row {count}", fault=f"{sheet.name}: row {count} has no picture")
                continue
            name = sheet.picture(cell)
            named.update((name, *sheet.sides(row)))
            if row.get("frame_id") in OTHER_CAMERAS:
                continue
            folders.add(PurePosixPath(name).parent)
            here = self._drive(sheet, row, drive)
            yield self._entry(sheet, name, row, self._group(here, length[here]))
            length[here] += 1
        if self.unlabelled:
            yield from self._without_label(sheet, folders, named)

    def _drive(self, sheet: SteeringTable, row: Row, drive: str) -> str:
        name = row[sheet.column(self.drive)] if self.drive else drive
        return f"{drive}/{name}" if self.drive and drive != DRIVE else name

    def _entry(self, sheet: SteeringTable, name: str, row: Row, group: str) -> Entry:
        facts = {column: cell for column, cell in row.items() if cell and not sheet.is_own(column)}
        try:
            return Entry(name, {CAMERA: name}, tuple(self._labels(sheet, name, row)), group, columns=plain_facts(facts))
        except UnreadableCase as error:
            return Entry(name, {CAMERA: name}, group=group, fault=str(error))

    def _labels(self, sheet: SteeringTable, name: str, row: Row) -> Iterator[Value]:
        column = sheet.angle_column
        yield self._steering(f"{name}: {column}", number(row[column], f"{name}: {column}"))
        for signal in self.signals:
            yield Signal(signal, number(row[sheet.column(signal)], f"{name}: {signal}"))

    def _steering(self, place: str, angle: float) -> Steering:
        if self.convention.unit == "radians" and abs(angle) > math.tau:
            raise UnreadableCase(f"{place} is {angle:g} radians, more than a full turn; is the unit degrees?")
        return self.convention.steering(angle)

    def _group(self, drive: str, place: int) -> str:
        return f"{drive}-{place // self.block}" if self.block else drive

    def _without_label(self, sheet: SteeringTable, folders: set[PurePosixPath], named: set[str]) -> Iterator[Entry]:
        for name in self._pictures:
            if name not in named and PurePosixPath(name).parent in folders:
                yield Entry(
                    name, fault=f"{name}: no label in {sheet.name}; set unlabelled = false to leave such pictures out"
                )

    @cached_property
    def _pictures(self) -> Sequence[str]:
        return self.root.names(*SUFFIXES)

    @cached_property
    def _sheets(self) -> Mapping[str, SteeringTable]:
        """The tables by the names of their drives."""
        return {
            drive: SteeringTable(self.root, name, self.separator, self.file, self.angle, self.images)
            for drive, name in self._tables().items()
        }

    def _tables(self) -> Mapping[str, str]:
        if here := self.table or next((name for name in TABLES if self.root.has(name)), ""):
            return {DRIVE: here}
        below: dict[str, str] = {}
        for name in sorted(self.root.names(*TABLES), key=lambda name: (PurePosixPath(name).parent, _rank(name))):
            if _rank(name) < len(TABLES):
                below.setdefault(PurePosixPath(name).parent.as_posix(), name)
        if not below:
            raise InputError(f"{self.folder}: no {', '.join(TABLES[:-1])} or {TABLES[-1]}; set table = 'FILE'")
        return below

    def _meaning(self, column: Column) -> Convention:
        own = {} if self.angle or column not in OWN else MEANING
        given = {name: value for name in MEANING if (value := getattr(self, name)) is not None}
        if missing := [name for name in MEANING if name not in {**own, **given}]:
            hint = ", ".join(f'{name} = "{MEANING[name]}"' for name in missing)
            raise InputError(f"the meaning of the angles in column '{column}' must be declared, such as {hint}")
        return Convention(**{**own, **given}, ratio=self.ratio)


def _rank(name: str) -> int:
    """The position of a table among the usual ones; others come last."""
    own = PurePosixPath(name).name
    return TABLES.index(own) if own in TABLES else len(TABLES)


class UdacityWriter:
    """Writes `SPLIT/center/FRAME_ID.png` and `SPLIT/steering.csv` with radians of the steering wheel, left positive."""

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None:
        del kinds
        self._folder, self._rows = folder, spools

    def add(self, entry: WrittenCase) -> Path:
        label = find(entry.case.truth, Steering.slot)
        if not isinstance(label, Steering) or label.fault():
            raise InputError(f"case '{entry.case.key}' has no steering angle to write")
        self._rows[entry.split].add((entry.name, math.radians(label.degrees)))
        return entry.write_picture(self._folder / entry.split / "center")

    def close(self) -> None:
        for split, rows in self._rows.items():
            write_csv(self._folder / split / "steering.csv", ("frame_id", "steering_angle"), rows.rows())

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / split
