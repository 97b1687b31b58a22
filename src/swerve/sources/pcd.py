"""PCD, the point cloud library's format: text, binary, and binary squeezed by LZF (R50).

Fields are found by their names; VIEWPOINT must read, and is not applied: points stay in the sensor's frame.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import BinaryIO

import numpy as np

from swerve.config import limits
from swerve.core.errors import UnreadableCase
from swerve.sources.point_table import (
    Column,
    Stored,
    check_count,
    check_size,
    check_text_size,
    chosen,
    from_planes,
    from_rows,
    from_text,
    header_words,
    lines_of,
    row_size,
    size_of,
    whole,
)

KEYS = ("VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
NEEDED = ("FIELDS", "SIZE", "TYPE", "WIDTH", "HEIGHT", "DATA")
VERSIONS = ("0.7", ".7", "0.6", ".6", "0.5", ".5")
TYPES = {f"{kind}{size}": np.dtype(f"<{kind.lower()}{size}") for kind in "IU" for size in (1, 2, 4, 8)}
TYPES |= {f"F{size}": np.dtype(f"<f{size}") for size in (4, 8)}
MOST_ZEROS = 1 << 16  # bytes after the points: a page at most
MOST_GROWTH = 88  # LZF makes at most 264 bytes of 3

Header = Mapping[str, Sequence[str]]


def read(file: BinaryIO) -> Stored:
    """The points of a PCD file."""
    header = _header(file)
    columns, count = _columns(header), _count(header)
    chosen(columns)
    check_count(count)
    form = " ".join(header["DATA"])
    if form == "ascii":
        return _text(file, columns, count)
    size = count * row_size(columns)
    if form == "binary":
        return from_rows(_body(file, size), columns, count)
    if form == "binary_compressed":
        return from_planes(_squeezed(file, size), columns, count)
    raise UnreadableCase(f"DATA is '{form}'; ascii, binary and binary_compressed are read")


def unsqueezed(data: bytes, size: int) -> bytes:
    """What LZF made `data` of; raises `UnreadableCase` unless that is exactly `size` bytes."""
    made = bytearray()
    place, end = 0, len(data)
    while place < end:
        control = data[place]
        place += 1
        if control < 32:  # a run of bytes as they are
            made += data[place : place + control + 1]
            place += control + 1
        else:  # bytes that came before
            length = (control >> 5) + 2
            if place + (length == 9) >= end:
                break
            if length == 9:
                length += data[place]
                place += 1
            back = ((control & 31) << 8 | data[place]) + 1
            place += 1
            start = len(made) - back
            if start < 0:
                raise UnreadableCase("damaged: it refers to bytes before its first")
            piece = made[start : start + length]
            made += piece if length <= back else (piece * (length // back + 1))[:length]
        if len(made) > size:
            raise UnreadableCase(f"damaged: more than the {size:,} bytes its header says")
    if place != end or len(made) != size:
        raise UnreadableCase(f"damaged: {len(made):,} of the {size:,} bytes its header says")
    return bytes(made)


def _header(file: BinaryIO) -> Header:
    found: dict[str, list[str]] = {}
    for key, *words in header_words(file, "DATA"):
        if key.startswith("#"):
            continue
        if key not in KEYS or key in found:
            raise UnreadableCase(f"its header says '{key[:40]}' {'twice' if key in found else 'and is not that of a PCD'}")
        found[key] = words
    if missing := [key for key in NEEDED if key not in found]:
        raise UnreadableCase(f"its header has no {' and no '.join(missing)}")
    _check_version(found)
    _check_viewpoint(found.get("VIEWPOINT"))
    return found


def _check_version(header: Header) -> None:
    version = " ".join(header.get("VERSION", VERSIONS[:1]))
    if version not in VERSIONS:
        raise UnreadableCase(f"a PCD of version '{version[:20]}', those from 0.5 to 0.7 are read")


def _check_viewpoint(words: Sequence[str] | None) -> None:
    if words is None:
        return
    try:
        sound = len(words) == 7 and all(math.isfinite(float(word)) for word in words)
    except ValueError:
        sound = False
    if not sound:
        raise UnreadableCase(f"VIEWPOINT must be 7 numbers, got '{' '.join(words)[:60]}'")


def _columns(header: Header) -> list[Column]:
    names = header["FIELDS"]
    counts = header.get("COUNT", ["1"] * len(names))
    rows = list(zip_longest(names, header["TYPE"], header["SIZE"], counts))
    if any(None in row for row in rows):
        told = ", ".join(f"{len(header.get(key, counts))} in {key}" for key in ("FIELDS", "SIZE", "TYPE", "COUNT"))
        raise UnreadableCase(f"the fields of its header do not match: {told}")
    return [_column(*row) for row in rows]


def _column(name: str, kind: str, size: str, count: str) -> Column:
    if kind + size not in TYPES:
        raise UnreadableCase(f"field '{name[:40]}' has TYPE {kind[:10]} and SIZE {size[:10]}; known: {', '.join(TYPES)}")
    many = whole(count, f"COUNT of field '{name[:40]}'")
    if not 1 <= many <= limits.POINTS:
        raise UnreadableCase(f"field '{name[:40]}' has COUNT {count}")
    return Column(name, TYPES[kind + size], many)


def _count(header: Header) -> int:
    """WIDTH x HEIGHT: organised clouds have a picture's rows, all others one."""
    wide, high = (whole(" ".join(header[key]), key) for key in ("WIDTH", "HEIGHT"))
    said = " ".join(header.get("POINTS", []))
    if "POINTS" in header and whole(said, "POINTS") != wide * high:
        raise UnreadableCase(f"POINTS is {said}, but WIDTH x HEIGHT is {wide}x{high}, {wide * high:,} points")
    return wide * high


def _text(file: BinaryIO, columns: Sequence[Column], count: int) -> Stored:
    check_text_size(columns, count, size_of(file))
    lines = lines_of(file)
    stored = from_text(lines, columns, count)
    if next(lines, None) is not None:
        raise UnreadableCase(f"more than the {count:,} points its header says")
    return stored


def _squeezed(file: BinaryIO, size: int) -> bytes:
    sizes = file.read(8)
    if len(sizes) < 8:
        raise UnreadableCase("cut short: there is no data after its header")
    squeezed, promised = struct.unpack("<II", sizes)
    check_size(promised, size)
    if size > min(limits.FILE, MOST_GROWTH * squeezed):
        raise UnreadableCase(f"damaged: {squeezed:,} bytes cannot be unpacked to {size:,}")
    return unsqueezed(_body(file, squeezed), size)


def _body(file: BinaryIO, size: int) -> bytes:
    """The next `size` bytes; after them only the zeros that PCL 1.7 leaves at the end of its files."""
    rest = size_of(file) - size
    if not 0 <= rest <= MOST_ZEROS:
        check_size(size + rest, size)
    body, zeros = file.read(size), file.read(rest)
    if any(zeros):
        check_size(size + rest, size)
    return body
