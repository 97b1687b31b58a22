"""Untrusted label files and manifests as plain data: JSON, YAML, CSV and XML, with line and column in every error.

Every error is an `UnreadableCase`: in the labels of one case it skips that case; in a manifest the source raises its own.
"""
# R41

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from swerve.config import limits
from swerve.core.errors import InputError, UnreadableCase, did_you_mean
from swerve.sources.root import Root
from swerve.sources.strict import PARTS, ParseError, parse_json, parse_yaml, too_deep

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+", re.ASCII)
SEPARATORS = (",", ";", "\t", "|", " ")
Row = dict[str, str]


def json_file(root: Root, name: str) -> Any:
    """A JSON file; NaN, duplicate keys and deep nesting are refused."""
    try:
        return parse_json(_text(root, name))
    except ParseError as error:
        raise error.in_file(name) from error


def yaml_file(root: Root, name: str) -> Any:
    """A YAML file of YAML 1.2's plain types; tags, duplicate keys and excessive aliases are refused."""
    try:
        return parse_yaml(_text(root, name))
    except ParseError as error:
        raise error.in_file(name) from error


def csv_file(
    root: Root,
    name: str,
    *,
    columns: Sequence[str] = (),
    separator: str = ",",
    unnamed: Callable[[Sequence[str]], Sequence[str]] = lambda _: (),
) -> list[Row]:
    """The rows of a CSV file with a header, which must name all of `columns` and may name others.

    `unnamed` gets the first line; it returns the names of the columns if that is a row and not the header.
    """
    try:
        return _rows(_text(root, name), columns, separator, unnamed)
    except ParseError as error:
        raise error.in_file(name) from error


def check_separator(given: str) -> None:
    """Raise `InputError` unless a source's `separator` is a known one, or several different ones."""
    if not given or len(set(given)) < len(given) or not set(given) <= set(SEPARATORS):
        known = " ".join(map(json.dumps, SEPARATORS))
        raise InputError(f"'separator' must be one of {known}, or several of them, got {json.dumps(given)}")


def xml_file(root: Root, name: str) -> Element:
    """The root element of an XML file without DTD or entities."""
    try:
        return _Tree().parse(root.bytes(name, most=limits.MANIFEST))
    except ParseError as error:
        raise error.in_file(name) from error


def number(text: Any, what: str) -> float:
    """`text` as a finite number; raises `UnreadableCase` that starts with `what`, the position in the file."""
    if isinstance(text, str) and DECIMAL_COMMA.fullmatch(text.strip()):
        raise UnreadableCase(f"{what}: {text.strip()!r} has a decimal comma; write {text.strip().replace(',', '.')}")
    is_number = isinstance(text, (int, float)) and not isinstance(text, bool)
    if not is_number and not (isinstance(text, str) and NUMBER.fullmatch(text.strip())):
        given = "nothing" if text is None or text == "" else repr(text)[:60]
        raise UnreadableCase(f"{what}: expected a number, got {given}")
    try:
        value = float(text)
    except OverflowError as error:
        raise UnreadableCase(f"{what}: a number with more than 308 digits") from error
    if not math.isfinite(value):
        raise UnreadableCase(f"{what}: {str(text).strip()[:60]} is not a finite number")
    return value


def _text(root: Root, name: str) -> str:
    data = root.bytes(name, most=limits.MANIFEST)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        raise ParseError("the text is not UTF-8; save it as UTF-8", line, column).in_file(name) from error
    if "\0" in text:
        raise ParseError.at(text, text.index("\0"), "the text contains a NUL character").in_file(name)
    return text


def _rows(text: str, columns: Sequence[str], separator: str, unnamed: Callable[[Sequence[str]], Sequence[str]]) -> list[Row]:
    lines = _quoted(text, separator) if len(separator) == 1 and separator != " " else _split(text, separator)
    _, first = next(lines, (1, []))
    header = [cell.strip() for cell in first]
    names = unnamed(header)
    _check_header(names or header, columns)
    rows: list[Row] = []
    for line, cells in itertools.chain([(1, first)] if names else [], lines):
        if cells:
            _check_row(len(cells), len(header), "first line" if names else "header", line)
            if len(rows) >= limits.ROWS:
                raise ParseError(f"the table has more than {limits.ROWS:,} rows (swerve list limits)", line, 1)
            rows.append(dict(zip(names or header, cells, strict=True)))
    return rows


def _quoted(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, which may be quoted, with the number of its last line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise ParseError(str(error), reader.line_num, 1) from error


def _split(text: str, separators: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line between any of several separators or, for a space, between blanks; quotes mean nothing."""
    signs = re.escape(separators.replace(" ", ""))
    apart = [rf"[ \t]*[{signs}][ \t]*"] * bool(signs) + [r"[ \t]+"] * (" " in separators)
    pattern = re.compile("|".join(apart))
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        bare = line.strip() if " " in separators else line.rstrip("\n")
        yield number, pattern.split(bare) if bare else []


def _check_header(header: Sequence[str], columns: Sequence[str]) -> None:
    if not any(header):
        raise ParseError("the first line must name the columns, but it is empty", 1, 1)
    other = next((sign for sign in SEPARATORS if len(header) == 1 and sign in header[0]), None)
    if other:
        sign = json.dumps(other)  # TOML has the same syntax
        raise ParseError(f"the columns are separated by {sign}; set separator = {sign}", 1, header[0].index(other) + 1)
    for place, name in enumerate(header):
        if name in header[:place]:
            raise ParseError(f"two columns have the name {name!r}", 1, 1)
    for name in columns:
        if name not in header:
            raise ParseError(f"no column {name!r}; {did_you_mean(name, header)}", 1, 1)


def _check_row(cells: int, columns: int, first: str, line: int) -> None:
    if cells != columns:
        raise ParseError(f"the row that ends here has {cells} cells, but the {first} {columns} columns", line, 1)


class _Tree:
    """Builds an XML tree from expat's callbacks; a DOCTYPE, which could define or fetch entities, is refused."""

    def __init__(self) -> None:
        self._builder = TreeBuilder()
        self._depth = self._elements = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._builder.data
        self._parser.StartDoctypeDeclHandler = self._doctype

    def parse(self, data: bytes) -> Element:
        """The root element."""
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            raise ParseError(expat.ErrorString(error.code), error.lineno, error.offset + 1) from error
        except (ValueError, LookupError) as error:  # of an unknown encoding
            self._refuse(str(error))
        return self._builder.close()

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._depth > limits.DEPTH:
            self._refuse(too_deep())
        if self._elements > PARTS:
            self._refuse(f"more than {PARTS:,} elements")
        self._builder.start(tag, attributes)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._builder.end(tag)

    def _doctype(self, *_: object) -> None:
        self._refuse("the file has a DOCTYPE; files with their own definitions are not read")

    def _refuse(self, reason: str) -> NoReturn:
        raise ParseError(reason, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)
