"""PLY, Stanford's polygon files: the vertices as points; text, or binary of either byte order (R50).

Lists such as faces are skipped after the vertices; before them nobody could tell where the vertices begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

import numpy as np

from swerve.core.errors import UnreadableCase
from swerve.sources.point_table import (
    Column,
    Stored,
    check_count,
    check_size,
    check_text_size,
    chosen,
    from_rows,
    from_text,
    header_words,
    lines_of,
    row_size,
    size_of,
    whole,
)

ORDERS = {"ascii": "<", "binary_little_endian": "<", "binary_big_endian": ">"}
OLD_NAMES = ("char", "uchar", "short", "ushort", "int", "uint", "float", "double")
NEW_NAMES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")
TYPES = {name: np.dtype(name) for name in NEW_NAMES}
TYPES |= {old: TYPES[new] for old, new in zip(OLD_NAMES, NEW_NAMES, strict=True)}
VERTEX = "vertex"


@dataclass(frozen=True)
class Element:
    """A table of a PLY file; of a list only the type of its length counts, the least it takes."""

    name: str
    count: int
    columns: list[Column]
    lists: list[str]

    @property
    def least(self) -> int:
        """Bytes it takes at least; exactly as many where it has no lists."""
        return self.count * row_size(self.columns)


def read(file: BinaryIO) -> Stored:
    """The vertices of a PLY file as points."""
    form, elements = _header(file)
    names = [element.name for element in elements]
    if names.count(VERTEX) != 1:
        raise UnreadableCase(f"{names.count(VERTEX)} elements '{VERTEX}', a point cloud has one")
    place = names.index(VERTEX)
    before, vertex, after = elements[:place], elements[place], elements[place + 1 :]
    for element in (*before, vertex):
        if element.lists:
            told = f"'{element.lists[0][:40]}' of '{element.name[:40]}'"
            raise UnreadableCase(f"{told} is a list; lists are skipped only after the vertices")
    chosen(vertex.columns)
    check_count(vertex.count)
    reading = _text if form == "ascii" else _binary
    return reading(file, before, vertex, after)


def _binary(file: BinaryIO, before: Sequence[Element], vertex: Element, after: Sequence[Element]) -> Stored:
    given, wanted = size_of(file), sum(element.least for element in (*before, vertex, *after))
    if given < wanted or not any(element.lists for element in after):
        check_size(given, wanted)
    file.seek(sum(element.least for element in before), 1)
    return from_rows(file.read(vertex.least), vertex.columns, vertex.count)


def _text(file: BinaryIO, before: Sequence[Element], vertex: Element, after: Sequence[Element]) -> Stored:
    check_text_size(vertex.columns, vertex.count, size_of(file))
    lines = lines_of(file)
    skipped = sum(element.count for element in before)
    if sum(1 for _ in islice(lines, skipped)) < skipped:
        raise UnreadableCase(f"cut short: it has no line of its '{VERTEX}'")
    stored = from_text(lines, vertex.columns, vertex.count)
    rest, said = sum(1 for _ in lines), sum(element.count for element in after)
    if rest != said:
        raise UnreadableCase(f"{rest:,} lines after its points, its header says {said:,}")
    return stored


def _header(file: BinaryIO) -> tuple[str, list[Element]]:
    lines = header_words(file, "end_header")
    if next(lines) != ["ply"]:
        raise UnreadableCase("does not begin with 'ply'")
    form = ""
    elements: list[Element] = []
    for key, *words in lines:
        if key == "format" and not form:
            form = _form(words)
        elif key == "element" and len(words) == 2:
            elements.append(Element(words[0], whole(words[1], f"the count of '{words[0][:40]}'"), [], []))
        elif key == "property" and elements and form:
            _add(elements[-1], words, ORDERS[form])
        elif key not in ("comment", "obj_info", "end_header"):
            raise UnreadableCase(f"its header has a line '{' '.join((key, *words))[:60]}' that does not fit")
    if not form:
        raise UnreadableCase("its header has no format")
    return form, elements


def _form(words: Sequence[str]) -> str:
    if len(words) != 2 or words[0] not in ORDERS or words[1] != "1.0":
        raise UnreadableCase(f"format '{' '.join(words)[:40]}'; known: {', '.join(ORDERS)}, each 1.0")
    return words[0]


def _add(element: Element, words: Sequence[str], order: str) -> None:
    """A property more: its type and name, or `list` with the types of its length and of its numbers."""
    is_list = words[:1] == ["list"]
    kinds, name = list(words[is_list:-1]), words[-1] if words else ""
    if len(kinds) != 1 + is_list or any(kind not in TYPES for kind in kinds):
        raise UnreadableCase(f"property '{' '.join(words)[:60]}' does not read; known types: {', '.join(NEW_NAMES)}")
    if any(column.name == name for column in element.columns):
        raise UnreadableCase(f"two properties '{name[:40]}' in '{element.name[:40]}'")
    element.columns.append(Column(name, np.dtype(order + TYPES[kinds[0]].str[1:])))
    if is_list:
        element.lists.append(name)
