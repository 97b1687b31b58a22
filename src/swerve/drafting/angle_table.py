"""Guesses the columns of a table of pictures and steering angles, and what its angles mean."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from swerve.core.errors import InputError, UnreadableCase
from swerve.drafting.guess import Guess
from swerve.sources.images import SUFFIXES
from swerve.sources.root import Root
from swerve.sources.steering_table import CENTRE, LOG
from swerve.sources.texts import NUMBER, csv_file
from swerve.sources.udacity import TABLES, Udacity

ENDINGS = (".csv", ".txt", ".tsv", ".dat", ".log")
APART = (",", ";", "\t", "|", " ", " ,")
MOST = 0.9  # of the cells of a column are pictures, or numbers
LOOKED_AT = 50  # pictures of a table that are looked up
ANGLE = re.compile(r"steer|angle|wheel|curv|degree|radian", re.IGNORECASE)
UNITS = {"radians": re.compile(r"rad", re.IGNORECASE), "degrees": re.compile(r"deg", re.IGNORECASE)}
# Udacity's simulator, whose angles are shares of 25° of the road wheels; the ratio is that of many cars.
SIMULATOR = {
    "unit": Guess(25.0, "the simulator's 1 is 25°"),
    "positive": Guess("right", "as the simulator writes them"),
    "kind": Guess("road", "as the simulator writes them"),
    "ratio": Guess(15.0, "degrees of the steering wheel for one of the road wheels", assumed=True),
}


@dataclass(frozen=True)
class _Table:
    """The cells of a table, and its columns of pictures and of angles."""

    name: str
    separator: str
    rows: Sequence[Sequence[str]]  # without the header
    header: Sequence[str]  # empty if it has none
    file: int
    angle: int

    def column(self, place: int) -> str | int:
        return self.header[place] if self.header else place + 1

    def cells(self, place: int) -> list[str]:
        return [row[place].strip() for row in self.rows]

    @property
    def angles(self) -> np.ndarray:
        return np.array([float(cell) for cell in self.cells(self.angle) if NUMBER.fullmatch(cell)])


def guess_angles(root: Root, given: Mapping[str, object]) -> dict[str, Guess] | None:
    """The arguments of `udacity` for the tables of a folder; None if there is no table of pictures and numbers."""
    named = str(given.get("table", ""))
    if not named and (known := _known(root)) is not None:
        return known
    names = [named] if named else _candidates(root)
    table = next(filter(None, (_table(root, name, given.get("angle")) for name in names)), None)
    return None if table is None else {**_columns(table), **_images(root, table), **_meaning(table)}


def _known(root: Root) -> dict[str, Guess] | None:
    """No argument, if the tables are Udacity's own, and the convention of those of its simulator."""
    try:
        source = Udacity(root.folder)
        if not source.keys():
            return None
        return {} if source.convention else None
    except InputError:
        pass
    try:
        known = Udacity(root.folder, **{key: guess.value for key, guess in SIMULATOR.items()})
        return SIMULATOR if known.keys() and _is_log(root) else None
    except InputError:
        return None


def _is_log(root: Root) -> bool:
    table = next((name for name in TABLES if root.has(name)), "")
    rows = (_cells(root, table, ",") if table else None) or [[]]
    return len(rows[0]) == len(LOG)


def _candidates(root: Root) -> list[str]:
    """The tables in the folder itself: those with usual names first."""
    there = [name for name in root.names(*ENDINGS) if "/" not in name]
    return sorted(there, key=lambda name: (TABLES.index(name) if name in TABLES else len(TABLES), name))


def _cells(root: Root, name: str, separator: str) -> list[list[str]] | None:
    """All lines of a table as cells; None if they are not of one length, or have a single cell."""
    try:
        rows = csv_file(root, name, separator=separator, unnamed=lambda first: [str(at) for at in range(len(first))])
    except UnreadableCase:
        return None
    return [list(row.values()) for row in rows] if rows and len(rows[0]) > 1 else None


def _table(root: Root, name: str, angle: object) -> _Table | None:
    pictures = {PurePosixPath(path).stem for path in root.names(*SUFFIXES)}
    for separator in APART:
        if rows := _cells(root, name, separator):
            columns = list(zip(*(rows[1:] or rows), strict=True))
            named = [at for at, cells in enumerate(columns) if _share(map(_is_picture, cells)) >= MOST]
            ids = [at for at, cells in enumerate(columns) if _share(cell.strip() in pictures for cell in cells) >= MOST]
            file = next(iter([*named, *ids]), None)
            numbers = [at for at, cells in enumerate(columns) if at != file and _share(map(_is_number, cells)) >= MOST]
            if file is not None and numbers:
                return _described(name, separator, rows, (file, numbers), angle)
    return None


def _described(
    name: str, separator: str, rows: Sequence[Sequence[str]], places: tuple[int, Sequence[int]], angle: object
) -> _Table:
    file, numbers = places
    first = [cell.strip() for cell in rows[0]]
    bare = _is_picture(first[file]) or any(_is_number(first[at]) for at in numbers)
    header = [] if bare else first
    given = [at for at in numbers if angle in ((header[at], at + 1) if header else (at + 1,))]
    signed = [at for at in numbers if any(row[at].strip().startswith("-") for row in rows)]
    called = [at for at in numbers if header and ANGLE.search(header[at])]
    return _Table(name, separator, rows if bare else rows[1:], header, file, [*given, *called, *signed, *numbers][0])


def _columns(table: _Table) -> dict[str, Guess]:
    apart = {"separator": Guess(table.separator)} if table.separator != "," else {}
    low, high = table.angles.min(), table.angles.max()
    sure = bool(table.header) and bool(ANGLE.search(table.header[table.angle]))
    return {
        "table": Guess(table.name, f"{len(table.rows):,} rows, {'with' if table.header else 'without'} a header"),
        **apart,
        "file": Guess(table.column(table.file), "the column with the names of pictures"),
        "angle": Guess(table.column(table.angle), f"numbers from {low:g} to {high:g}", assumed=not sure),
    }


def _meaning(table: _Table) -> dict[str, Guess]:
    """Unit, sign and wheel: what a name or a range tells, and otherwise what most data sets use."""
    called = str(table.column(table.angle))
    named = next((unit for unit, pattern in UNITS.items() if pattern.search(called)), "")
    low, high = table.angles.min(), table.angles.max()
    large = max(abs(low), abs(high)) > math.tau
    why = f"'{called}' says so" if named else f"angles from {low:g} to {high:g} are {'too large' if large else 'likely'} "
    why += "" if named else "for radians" if large else "radians"
    side = "the side of positive angles; if it is 'right', turn 'positive' in 'say' too"
    return {
        "unit": Guess(named or ("degrees" if large else "radians"), why, assumed=not (named or large)),
        "positive": Guess("left", side, assumed=True),
        "kind": Guess("wheel", "the steering wheel; 'road' for the road wheels, with a ratio", assumed=True),
    }


def _images(root: Root, table: _Table) -> dict[str, Guess]:
    """The folder of the pictures, if they do not lie where the reader looks for them."""
    cells = list(itertools.islice(table.cells(table.file), LOOKED_AT))
    if any(root.has(name) for cell in cells for name in _looked_up(cell)):
        return {}
    there = root.names(*SUFFIXES)
    found = next((name for cell in cells for name in there if _fits(name, cell)), None)
    if found is None:
        return {}
    cell = next(cell for cell in cells if _fits(found, cell))
    folder = found[: -len(cell)] if _is_picture(cell) else str(PurePosixPath(found).parent)
    return {"images": Guess(folder.rstrip("/") or ".", "where the first picture is")}


def _looked_up(cell: str) -> Iterator[str]:
    if _is_picture(cell):
        yield cell
    else:
        yield from (f"{CENTRE}/{cell}{end}" for end in SUFFIXES)


def _fits(name: str, cell: str) -> bool:
    return f"/{name}".endswith(f"/{cell}") if _is_picture(cell) else PurePosixPath(name).stem == cell


def _is_picture(cell: str) -> bool:
    return cell.strip().lower().endswith(SUFFIXES)


def _is_number(cell: str) -> bool:
    return bool(NUMBER.fullmatch(cell.strip()))


def _share(truths: Iterator[bool]) -> float:
    found = list(truths)
    return sum(found) / len(found) if found else 0.0
