"""Tables of points: which numbers of a row are x, y, z and intensity, and how they come out of bytes or text (R50)."""

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
MOST_LINES = 1000  # of a header
BLOCK = 1 << 16  # rows of text read at once
BYTE = 255.0


@dataclass(frozen=True)
class Column:
    """`count` numbers of one type that every row has."""

    name: str
    type: np.dtype[Any]
    count: int = 1

    @property
    def size(self) -> int:
        """Bytes in a row."""
        return self.type.itemsize * self.count


class Stored(NamedTuple):
    """Points as a file has them: Nx4 float32, and the intensity that counts as 1 where its type tells."""

    xyzi: Array
    full: float | None = None


def row_size(columns: Sequence[Column]) -> int:
    """Bytes of a row."""
    return sum(column.size for column in columns)


def chosen(columns: Sequence[Column]) -> list[int]:
    """Where x, y and z stand, and intensity where there is one; raises `UnreadableCase` unless each axis is there once."""
    names = [column.name.lower() for column in columns]
    for axis in AXES:
        if names.count(axis) != 1 or columns[names.index(axis)].count != 1:
            raise UnreadableCase(f"a point needs one '{axis}', its fields are {', '.join(names)[:100]}")
    found = [names.index(name) for name in INTENSITY if name in names]
    return [*(names.index(axis) for axis in AXES), *found[:1]]


def from_rows(body: bytes, columns: Sequence[Column], count: int) -> Stored:
    """Points that lie one after the other."""
    starts, row = _starts([column.size for column in columns]), row_size(columns)
    return _stored(columns, count, lambda n: np.ndarray(count, columns[n].type, body, starts[n], (row,)))


def from_planes(body: bytes, columns: Sequence[Column], count: int) -> Stored:
    """Points whose columns lie one after the other."""
    starts, sizes = _starts([column.size for column in columns]), [column.size for column in columns]
    return _stored(columns, count, lambda n: np.ndarray(count, columns[n].type, body, starts[n] * count, (sizes[n],)))


def from_text(lines: Iterator[bytes], columns: Sequence[Column], count: int) -> Stored:
    """Points that are written one to a line."""
    starts, width = _starts([column.count for column in columns]), sum(column.count for column in columns)
    picked = [starts[place] for place in chosen(columns)]
    xyzi = np.zeros((count, 4), np.float32)
    for done in range(0, count, BLOCK):
        block = _block(islice(lines, min(BLOCK, count - done)), width, done)
        if len(block) < min(BLOCK, count - done):
            raise UnreadableCase(f"{done + len(block):,} points, its header says {count:,}")
        with np.errstate(all="ignore"):
            xyzi[done : done + len(block), : len(picked)] = block[:, picked]
    return Stored(xyzi, _full(columns))


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines from here on that hold something; a line without end is refused."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise UnreadableCase(f"a line longer than {LONGEST_LINE:,} bytes")
        if line.strip():
            yield line


def header_words(file: BinaryIO, last: str) -> Iterator[list[str]]:
    """The words of each line of a header, down to the line that starts with `last`."""
    for line in islice(lines_of(file), MOST_LINES):
        words = line.decode("latin-1").split()
        yield words
        if words[0] == last:
            return
    raise UnreadableCase(f"its header does not end: there is no line '{last}'")


def size_of(file: BinaryIO) -> int:
    """Bytes from here to the end."""
    here = file.tell()
    end = file.seek(0, 2)
    return end - file.seek(here)


def check_count(count: int) -> None:
    """Refuse what is too much to read, or nothing at all, before anything is set aside for it."""
    if count > limits.POINTS:
        raise UnreadableCase(f"{count:,} points, at most {limits.POINTS:,} are read (swerve list limits)")
    if count < 1:
        raise UnreadableCase("0 points")


def check_text_size(columns: Sequence[Column], count: int, size: int) -> None:
    """Refuse a text that is too short to hold a digit and a gap for each number."""
    if size + 1 < 2 * count * sum(column.count for column in columns):
        raise UnreadableCase(f"cut short: {size:,} bytes cannot hold the {count:,} points of its header")


def check_size(given: int, wanted: int) -> None:
    """Refuse more or fewer bytes than a header promises."""
    if given != wanted:
        way = "cut short" if given < wanted else "longer than its header says"
        raise UnreadableCase(f"{way}: {wanted:,} bytes of points by its header, there are {given:,}")


def whole(text: str, what: str) -> int:
    """`text` as a whole number from 0."""
    if not re.fullmatch("[0-9]{1,15}", text):
        raise UnreadableCase(f"{what} must be a whole number, got '{text}'")
    return int(text)


def _stored(columns: Sequence[Column], count: int, column: Callable[[int], Array]) -> Stored:
    xyzi = np.zeros((count, 4), np.float32)
    with np.errstate(all="ignore"):  # a double that no float holds becomes infinite, and is dropped with its kind
        for axis, place in enumerate(chosen(columns)):
            xyzi[:, axis] = column(place)
    return Stored(xyzi, _full(columns))


def _full(columns: Sequence[Column]) -> float | None:
    intensity = chosen(columns)[3:]
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
        raise UnreadableCase(f"after {done:,} points: {block.shape[1]} numbers in a row, its header says {width}")
    return block


def _starts(sizes: Sequence[int]) -> list[int]:
    return [0, *accumulate(sizes)]
