"""PCD, the format of the Point Cloud Library: text, binary, and binary compressed by LZF.

Fields are found by their names; VIEWPOINT must be valid but is not applied: points stay in the sensor's frame.
"""
# R50

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
    StoredPoints,
    check_count,
    check_size,
    check_text_size,
    from_planes,
    from_rows,
    from_text,
    header_words,
    lines_of,
    parse_count,
    point_columns,
    row_size,
    size_of,
)

KEYS = ("VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
NEEDED = ("FIELDS", "SIZE", "TYPE", "WIDTH", "HEIGHT", "DATA")
VERSIONS = ("0.7", ".7", "0.6", ".6", "0.5", ".5")
TYPES = {f"{kind}{size}": np.dtype(f"<{kind.lower()}{size}") for kind in "IU" for size in (1, 2, 4, 8)}
TYPES |= {f"F{size}": np.dtype(f"<f{size}") for size in (4, 8)}
MOST_ZEROS = 1 << 16  # bytes of padding after the points: at most a page
MOST_GROWTH = 88  # LZF expands 3 bytes to at most 264

Header = Mapping[str, Sequence[str]]


def read(file: BinaryIO) -> StoredPoints:
    """The points of a PCD file."""
    header = _header(file)
    columns, count = _columns(header), _count(header)
    point_columns(columns)
    check_count(count)
    form = " ".join(header["DATA"])
    if form == "ascii":
        return _text(file, columns, count)
    size = count * row_size(columns)
    if form == "binary":
        return from_rows(_body(file, size), columns, count)
    if form == "binary_compressed":
        return from_planes(_compressed_body(file, size), columns, count)
    raise UnreadableCase(f"DATA must be ascii, binary or binary_compressed, got '{form}'")


def decompress_lzf(data: bytes, size: int) -> bytes:
    """`data` decompressed by LZF; raises `UnreadableCase` unless the result has exactly `size` bytes."""
    result = bytearray()
    place, end = 0, len(data)
    while place < end:
        control = data[place]
        place += 1
        if control < 32:  # literal bytes
            result += data[place : place + control + 1]
            place += control + 1
        else:  # a reference to earlier bytes
            length = (control >> 5) + 2
            if place + (length == 9) >= end:
                break
            if length == 9:
                length += data[place]
                place += 1
            back = ((control & 31) << 8 | data[place]) + 1
            place += 1
            start = len(result) - back
            if start < 0:
                raise UnreadableCase("the compressed data is damaged: it refers to bytes before the first one")
            piece = result[start : start + length]
            result += piece if length <= back else (piece * (length // back + 1))[:length]
        if len(result) > size:
            raise UnreadableCase(
                f"the compressed data is damaged: it has more than the {size:,} bytes that the header declares"
            )
    if place != end or len(result) != size:
        raise UnreadableCase(
            f"the compressed data is damaged: it has {len(result):,} of the {size:,} bytes that the header declares"
        )
    return bytes(result)


def _header(file: BinaryIO) -> Header:
    found: dict[str, list[str]] = {}
    for key, *words in header_words(file, "DATA"):
        if key.startswith("#"):
            continue
        if key not in KEYS or key in found:
            problem = "duplicate" if key in found else "unknown"
            raise UnreadableCase(f"the header has the {problem} entry '{key[:40]}'")
        found[key] = words
    if missing := [key for key in NEEDED if key not in found]:
        raise UnreadableCase(f"the header has no {' and no '.join(missing)}")
    _check_version(found)
    _check_viewpoint(found.get("VIEWPOINT"))
    return found


def _check_version(header: Header) -> None:
    version = " ".join(header.get("VERSION", VERSIONS[:1]))
    if version not in VERSIONS:
        raise UnreadableCase(f"VERSION must be from 0.5 to 0.7, got '{version[:20]}'")


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
        lengths = ", ".join(f"{len(header.get(key, counts))} in {key}" for key in ("FIELDS", "SIZE", "TYPE", "COUNT"))
        raise UnreadableCase(f"the header lines FIELDS, SIZE, TYPE and COUNT must have equally many entries: {lengths}")
    return [_column(*row) for row in rows]


def _column(name: str, kind: str, size: str, count: str) -> Column:
    if kind + size not in TYPES:
        raise UnreadableCase(f"field '{name[:40]}' has TYPE {kind[:10]} and SIZE {size[:10]}; known: {', '.join(TYPES)}")
    many = parse_count(count, f"COUNT of field '{name[:40]}'")
    if not 1 <= many <= limits.POINTS:
        raise UnreadableCase(f"field '{name[:40]}' has COUNT {count}, expected 1 to {limits.POINTS:,}")
    return Column(name, TYPES[kind + size], many)


def _count(header: Header) -> int:
    """WIDTH x HEIGHT: organised clouds have several rows, others one."""
    wide, high = (parse_count(" ".join(header[key]), key) for key in ("WIDTH", "HEIGHT"))
    points = " ".join(header.get("POINTS", []))
    if "POINTS" in header and parse_count(points, "POINTS") != wide * high:
        raise UnreadableCase(f"POINTS is {points}, but WIDTH x HEIGHT is {wide}x{high}, {wide * high:,} points")
    return wide * high


def _text(file: BinaryIO, columns: Sequence[Column], count: int) -> StoredPoints:
    check_text_size(columns, count, size_of(file))
    lines = lines_of(file)
    stored = from_text(lines, columns, count)
    if next(lines, None) is not None:
        raise UnreadableCase(f"the file has more than the {count:,} points that the header declares")
    return stored


def _compressed_body(file: BinaryIO, size: int) -> bytes:
    sizes = file.read(8)
    if len(sizes) < 8:
        raise UnreadableCase("the file is truncated: no data follows the header")
    compressed, declared = struct.unpack("<II", sizes)
    check_size(declared, size)
    if size > min(limits.FILE, MOST_GROWTH * compressed):
        raise UnreadableCase(
            f"the header of the compressed data is damaged: {compressed:,} bytes cannot be decompressed to {size:,}"
        )
    return decompress_lzf(_body(file, compressed), size)


def _body(file: BinaryIO, size: int) -> bytes:
    """The next `size` bytes; only zeros may follow, which PCL 1.7 appends to its files."""
    rest = size_of(file) - size
    if not 0 <= rest <= MOST_ZEROS:
        check_size(size + rest, size)
    body, zeros = file.read(size), file.read(rest)
    if any(zeros):
        check_size(size + rest, size)
    return body
