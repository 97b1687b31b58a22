"""Tables of points, in bytes or text: which columns are x, y, z and intensity, and how they are read."""
# R50

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from swerve.config import limits
from swerve.core.errors import UnreadableCase
from swerve.core.values import Array

AXES = ("x", "y", "z")
INTENSITY = ("intensity", "i", "reflectivity", "reflectance", "scalar_intensity")
LONGEST_LINE = 1 << 16  # bytes
MOST_LINES = 1000  # in a header
BLOCK = 1 << 16  # rows of text parsed at once
BYTE = 255.0


@dataclass(frozen=True)
class Column:
    """A column of `count` numbers of one type per row."""

    name: str
    type: np.dtype[Any]
    count: int = 1

    @property
    def size(self) -> int:
        """Bytes in a row."""
        return self.type.itemsize * self.count


class StoredPoints(NamedTuple):
    """Points as a file stores them: Nx4 float32, and the stored intensity that means 1 if the type defines it."""

    xyzi: Array
    full_intensity: float | None = None


def row_size(columns: Sequence[Column]) -> int:
    """The number of bytes of a row."""
    return sum(column.size for column in columns)


def point_columns(columns: Sequence[Column]) -> list[int]:
    """The columns of x, y, z and, if present, intensity; raises `UnreadableCase` unless each axis occurs once."""
    names = [column.name.lower() for column in columns]
    for axis in AXES:
        if names.count(axis) != 1 or columns[names.index(axis)].count != 1:
            raise UnreadableCase(f"a point needs exactly one '{axis}', but the fields are {', '.join(names)[:100]}")
    found = [names.index(name) for name in INTENSITY if name in names]
    return [*(names.index(axis) for axis in AXES), *found[:1]]


def from_rows(body: bytes, columns: Sequence[Column], count: int) -> StoredPoints:
    """Points stored row by row."""
    starts, row = _starts([column.size for column in columns]), row_size(columns)
    return _stored(columns, count, lambda n: np.ndarray(count, columns[n].type, body, starts[n], (row,)))


def from_planes(body: bytes, columns: Sequence[Column], count: int) -> StoredPoints:
    """Points stored column by column."""
    starts, sizes = _starts([column.size for column in columns]), [column.size for column in columns]
    return _stored(columns, count, lambda n: np.ndarray(count, columns[n].type, body, starts[n] * count, (sizes[n],)))


def from_text(lines: Iterator[bytes], columns: Sequence[Column], count: int) -> StoredPoints:
    """Points in text, one per line."""
    starts, width = _starts([column.count for column in columns]), sum(column.count for column in columns)
    picked = [starts[place] for place in point_columns(columns)]
    xyzi = np.zeros((count, 4), np.float32)
    for done in range(0, count, BLOCK):
        block = _block(islice(lines, min(BLOCK, count - done)), width, done)
        if len(block) < min(BLOCK, count - done):
            raise UnreadableCase(f"the file has {done + len(block):,} points, but the header declares {count:,}")
        with np.errstate(all="ignore"):
            xyzi[done : done + len(block), : len(picked)] = block[:, picked]
    return StoredPoints(xyzi, _full(columns))


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The remaining lines that are not blank; an overlong line is refused."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise UnreadableCase(f"the file has a line longer than {LONGEST_LINE:,} bytes")
        if line.strip():
            yield line


def header_words(file: BinaryIO, last: str) -> Iterator[list[str]]:
    """The words of each line of a header, up to the line that starts with `last`."""
    for line in islice(lines_of(file), MOST_LINES):
        words = line.decode("latin-1").split()
        yield words
        if words[0] == last:
            return
    raise UnreadableCase(f"the header has no end: no line '{last}'")


def size_of(file: BinaryIO) -> int:
    """The number of bytes from the current position to the end."""
    here = file.tell()
    end = file.seek(0, 2)
    return end - file.seek(here)


def check_count(count: int) -> None:
    """Refuse too many points, or none, before memory is allocated for them."""
    if count > limits.POINTS:
        raise UnreadableCase(f"the file has {count:,} points, at most {limits.POINTS:,} are read (swerve list limits)")
    if count < 1:
        raise UnreadableCase("the file has 0 points")


def check_text_size(columns: Sequence[Column], count: int, size: int) -> None:
    """Refuse a text that is too short for one digit and one separator per number."""
    if size + 1 < 2 * count * sum(column.count for column in columns):
        raise UnreadableCase(
            f"the file is truncated: {size:,} bytes cannot contain the {count:,} points that the header declares"
        )


def check_size(given: int, wanted: int) -> None:
    """Refuse more or fewer bytes than the header declares."""
    if given != wanted:
        problem = "truncated" if given < wanted else "too long"
        raise UnreadableCase(f"{problem}: the header declares {wanted:,} bytes of points, the file has {given:,}")


def parse_count(text: str, what: str) -> int:
    """`text` as a whole number of at least 0."""
    if not re.fullmatch("[0-9]{1,15}", text):
        raise UnreadableCase(f"{what} must be a whole number, got '{text}'")
    return int(text)


def _stored(columns: Sequence[Column], count: int, column: Callable[[int], Array]) -> StoredPoints:
    xyzi = np.zeros((count, 4), np.float32)
    with np.errstate(all="ignore"):  # a double beyond float32 becomes infinite, and its point is dropped later
        for axis, place in enumerate(point_columns(columns)):
            xyzi[:, axis] = column(place)
    return StoredPoints(xyzi, _full(columns))


def _full(columns: Sequence[Column]) -> float | None:
    intensity = point_columns(columns)[3:]
    return BYTE if intensity and columns[intensity[0]].type == np.uint8 else None


def _block(lines: Iterator[bytes], width: int, done: int) -> Array:
    rows = list(lines)
    if not rows:
        return np.empty((0, width))
    try:
        block = np.loadtxt(rows, np.float64, comments=None, ndmin=2, encoding="latin-1")
    except ValueError as error:
        raise UnreadableCase(f"after {done:,} points: {str(error).split(';')[0]}") from error
    if block.shape[1] != width:
        raise UnreadableCase(
            f"after {done:,} points: the rows have {block.shape[1]} numbers, but the header declares {width}"
        )
    return block


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *accumulate(sizes)]
