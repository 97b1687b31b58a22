"""PLY, the Stanford polygon format: its vertices as points; text, or binary in either byte order.

Elements with lists, such as faces, are skipped after the vertices; before them they would hide where the vertices begin.
"""
# R50

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

import numpy as np

from swerve.core.errors import UnreadableCase
from swerve.sources.point_table import (
    Column,
    StoredPoints,
    check_count,
    check_size,
    check_text_size,
    from_rows,
    from_text,
    header_words,
    lines_of,
    parse_count,
    point_columns,
    row_size,
    size_of,
)

ORDERS = {"ascii": "<", "binary_little_endian": "<", "binary_big_endian": ">"}
OLD_NAMES = ("char", "uchar", "short", "ushort", "int", "uint", "float", "double")
NEW_NAMES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")
TYPES = {name: np.dtype(name) for name in NEW_NAMES}
TYPES |= {old: TYPES[new] for old, new in zip(OLD_NAMES, NEW_NAMES, strict=True)}
VERTEX = "vertex"


@dataclass(frozen=True)
class PlyElement:
    """A table of a PLY file; a list property counts as its length field, the least it takes."""

    name: str
    count: int
    columns: list[Column]
    lists: list[str]

    @property
    def least(self) -> int:
        """The least number of bytes it takes; exact if it has no lists."""
        return self.count * row_size(self.columns)


def read(file: BinaryIO) -> StoredPoints:
    """The vertices of a PLY file as points."""
    form, elements = _header(file)
    names = [element.name for element in elements]
    if names.count(VERTEX) != 1:
        raise UnreadableCase(f"the PLY header declares {names.count(VERTEX)} elements '{VERTEX}', expected exactly one")
    place = names.index(VERTEX)
    before, vertex, after = elements[:place], elements[place], elements[place + 1 :]
    for element in (*before, vertex):
        if element.lists:
            name = f"'{element.lists[0][:40]}' of '{element.name[:40]}'"
            raise UnreadableCase(f"property {name} is a list; lists are only supported after the vertices")
    point_columns(vertex.columns)
    check_count(vertex.count)
    reading = _text if form == "ascii" else _binary
    return reading(file, before, vertex, after)


def _binary(file: BinaryIO, before: Sequence[PlyElement], vertex: PlyElement, after: Sequence[PlyElement]) -> StoredPoints:
    given, wanted = size_of(file), sum(element.least for element in (*before, vertex, *after))
    if given < wanted or not any(element.lists for element in after):
        check_size(given, wanted)
    file.seek(sum(element.least for element in before), 1)
    return from_rows(file.read(vertex.least), vertex.columns, vertex.count)


def _text(file: BinaryIO, before: Sequence[PlyElement], vertex: PlyElement, after: Sequence[PlyElement]) -> StoredPoints:
    check_text_size(vertex.columns, vertex.count, size_of(file))
    lines = lines_of(file)
    skipped = sum(element.count for element in before)
    if sum(1 for _ in islice(lines, skipped)) < skipped:
        raise UnreadableCase(f"the file is truncated: it ends before the first line of '{VERTEX}'")
    stored = from_text(lines, vertex.columns, vertex.count)
    rest, declared = sum(1 for _ in lines), sum(element.count for element in after)
    if rest != declared:
        raise UnreadableCase(f"the file has {rest:,} lines after the points, but the header declares {declared:,}")
    return stored


def _header(file: BinaryIO) -> tuple[str, list[PlyElement]]:
    lines = header_words(file, "end_header")
    if next(lines) != ["ply"]:
        raise UnreadableCase("the file does not start with 'ply'")
    form = ""
    elements: list[PlyElement] = []
    for key, *words in lines:
        if key == "format" and not form:
            form = _form(words)
        elif key == "element" and len(words) == 2:
            elements.append(PlyElement(words[0], parse_count(words[1], f"the count of '{words[0][:40]}'"), [], []))
        elif key == "property" and elements and form:
            _add(elements[-1], words, ORDERS[form])
        elif key not in ("comment", "obj_info", "end_header"):
            raise UnreadableCase(f"the header has the invalid line '{' '.join((key, *words))[:60]}'")
    if not form:
        raise UnreadableCase("the header has no line 'format'")
    return form, elements


def _form(words: Sequence[str]) -> str:
    if len(words) != 2 or words[0] not in ORDERS or words[1] != "1.0":
        raise UnreadableCase(f"unknown format '{' '.join(words)[:40]}'; known: {', '.join(ORDERS)}, each 1.0")
    return words[0]


def _add(element: PlyElement, words: Sequence[str], order: str) -> None:
    """Add a property: its type and name, or `list` with the types of its length and of its numbers."""
    is_list = words[:1] == ["list"]
    kinds, name = list(words[is_list:-1]), words[-1] if words else ""
    if len(kinds) != 1 + is_list or any(kind not in TYPES for kind in kinds):
        raise UnreadableCase(f"invalid property '{' '.join(words)[:60]}'; known types: {', '.join(NEW_NAMES)}")
    if any(column.name == name for column in element.columns):
        raise UnreadableCase(f"element '{element.name[:40]}' has two properties '{name[:40]}'")
    element.columns.append(Column(name, np.dtype(order + TYPES[kinds[0]].str[1:])))
    if is_list:
        element.lists.append(name)
