"""Strict parsers of JSON and YAML from untrusted files; every error names the line and column.

JSON is read as its standard defines it: NaN, duplicate keys and the like, which Python's parser accepts, are refused. That
parser is fast but does not report where a duplicate key is, so a faulty text is scanned once more, token by token.

YAML is read as plain data with the words of YAML 1.2 (`off` and `no` are strings). Data is built from the parser's events:
libyaml's composer recurses on the C stack for nested lists, and its constructors follow tags.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from swerve.config import limits
from swerve.core.errors import UnreadableCase

PARTS = 5 * limits.ROWS  # most lists, mappings or elements of one file: a COCO annotation has four
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<open>[\[{])|(?P<close>[\]}])|(?P<colon>:)|(?P<comma>,)|(?P<word>[^\s"\[\]{}:,]+)',
    re.DOTALL,
)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its parser runs
NULL = re.compile(r"~|null|Null|NULL|")
BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
INT = re.compile(r"[-+]?[0-9]{1,4000}|0o[0-7]{1,1000}|0x[0-9a-fA-F]{1,1000}")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class ParseError(Exception):
    """Why a text cannot be parsed, and where; lines and columns count from 1."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason)
        self.reason, self.line, self.column = reason, line, column

    @classmethod
    def at(cls, text: str, place: int, reason: str) -> ParseError:
        """An error at the given character of `text`."""
        return cls(reason, text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place))

    def in_file(self, name: str) -> UnreadableCase:
        """The error that users see, with the name of the file."""
        return UnreadableCase(f"{name}, line {self.line}, column {self.column}: {self.reason}")


def too_deep() -> str:
    """The reason for refusing deeply nested data."""
    return f"nested more than {limits.DEPTH} levels deep (swerve list limits)"


class _Suspect(Exception):
    """Something that the standard forbids, at a position not known yet."""


def parse_json(text: str) -> Any:
    """The data in a JSON text; raises `ParseError`."""
    if text.count("{") + text.count("[") > PARTS:
        raise ParseError(f"the file has more than {PARTS:,} lists and objects", 1, 1)
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite)
        if SURROGATE.search(text) or _too_deep(data):
            _find_fault(text)
        return data
    except json.JSONDecodeError as error:
        raise ParseError(error.msg, error.lineno, error.colno) from error
    except (_Suspect, RecursionError, ValueError) as error:  # ValueError: a whole number of thousands of digits
        _find_fault(text)
        raise ParseError(str(error), 1, 1) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Suspect("duplicate key")
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise _Suspect(f"{word} is not valid JSON")


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise _Suspect(f"{word[:60]} is too large")
    return value


def _too_deep(data: Any) -> bool:
    """Whether data is nested deeper than the limit."""
    level = [data]
    for _ in range(limits.DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
    return bool(level)


def _find_fault(text: str) -> None:
    """Raise `ParseError` at the first thing that the standard forbids and Python's parser accepts."""
    keys: list[set[str]] = []  # of every enclosing list or object; a list has none
    key, place = "", 0
    for token in TOKEN.finditer(text):
        kind, word = str(token.lastgroup), token.group()
        if reason := _fault_of(kind, word):
            raise ParseError.at(text, token.start(), reason)
        if kind == "open":
            keys.append(set())
        if len(keys) > limits.DEPTH:
            raise ParseError.at(text, token.start(), too_deep())
        if kind == "close" and keys:
            keys.pop()
        if kind == "string":
            key, place = json.loads(word, strict=False), token.start()
        if kind == "colon" and keys:
            if key in keys[-1]:
                raise ParseError.at(text, place, f"duplicate key {key[:60]!r}")
            keys[-1].add(key)


def _fault_of(kind: str, word: str) -> str:
    """What is wrong with a token; empty if nothing is."""
    if kind == "string" and SURROGATE.search(word) and _has_lone_surrogate(json.loads(word, strict=False)):
        return "an incomplete character (a lone surrogate)"
    if kind == "word" and word in ("NaN", "Infinity", "-Infinity"):
        return f"{word} is not valid JSON"
    if kind == "word" and word[:1] in "-0123456789" and len(word) > 4000:
        return "a number with thousands of digits"
    if kind == "word" and NUMBER.fullmatch(word) and math.isinf(float(word)):
        return f"{word[:60]} is too large"
    return ""


def _has_lone_surrogate(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


@dataclass
class _Open:
    """A list or mapping that is being filled."""

    data: list[Any] | dict[Any, Any]
    anchor: str | None
    key: Any = None
    has_key: bool = False
    weight: int = 1  # parts in it; those behind an alias count each time


@dataclass
class _Builder:
    """Builds data from events."""

    stack: list[_Open] = field(default_factory=lambda: [_Open([], None)])
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    documents: int = 0

    def take(self, event: yaml.Event) -> None:
        """Handle one event."""
        handle = HANDLERS.get(type(event))
        if handle:
            handle(self, event)

    def document(self, event: yaml.Event) -> None:
        self.documents += 1
        if self.documents > 1:
            raise _at(event, "a second document starts here; a file may contain only one")

    def start(self, event: yaml.CollectionStartEvent) -> None:
        _refuse_tag(event)
        if len(self.stack) > limits.DEPTH:
            raise _at(event, too_deep())
        self.stack.append(_Open([] if isinstance(event, yaml.SequenceStartEvent) else {}, event.anchor))

    def end(self, event: yaml.Event) -> None:
        done = self.stack.pop()
        self._add(done.data, done.weight, done.anchor, event)

    def scalar(self, event: yaml.ScalarEvent) -> None:
        _refuse_tag(event)
        self._add(_plain(event) if event.implicit[0] else event.value, 1, event.anchor, event)

    def alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise _at(event, f"the alias *{event.anchor} refers to nothing that is complete at this point")
        data, weight = self.anchors[event.anchor]
        self._add(data, weight, None, event)

    def _add(self, data: Any, weight: int, anchor: str | None, event: yaml.Event) -> None:
        if anchor is not None:
            self.anchors[anchor] = data, weight
        into = self.stack[-1]
        into.weight += weight
        if into.weight > PARTS:
            raise _at(event, f"the file has more than {PARTS:,} parts, counting every use of an alias")
        if isinstance(into.data, list):
            into.data.append(data)
        elif into.has_key:
            into.data[into.key], into.has_key = data, False
        else:
            into.key, into.has_key = _key(data, into.data, event), True


HANDLERS: dict[type, Callable[[_Builder, Any], None]] = {
    yaml.DocumentStartEvent: _Builder.document,
    yaml.SequenceStartEvent: _Builder.start,
    yaml.MappingStartEvent: _Builder.start,
    yaml.SequenceEndEvent: _Builder.end,
    yaml.MappingEndEvent: _Builder.end,
    yaml.ScalarEvent: _Builder.scalar,
    yaml.AliasEvent: _Builder.alias,
}


def parse_yaml(text: str) -> Any:
    """The data in a YAML text, None for an empty one; raises `ParseError`."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark
        raise ParseError(str(error.problem), mark.line + 1 if mark else 1, mark.column + 1 if mark else 1) from error
    except yaml.reader.ReaderError as error:
        raise ParseError.at(text, int(error.position), error.reason) from error
    document = builder.stack[0].data
    return document[0] if document else None


def _plain(event: yaml.ScalarEvent) -> Any:
    """The value of an unquoted scalar: None, a boolean, a number or a string."""
    word: str = event.value
    if NULL.fullmatch(word):
        return None
    if BOOL.fullmatch(word):
        return word.lower() == "true"
    if INT.fullmatch(word):
        return int(word, 0) if word[:2] in ("0o", "0x") else int(word)
    if ENDLESS.fullmatch(word) or (FLOAT.fullmatch(word) and not math.isfinite(float(word))):
        raise _at(event, f"{word[:60]} is not a finite number")
    return float(word) if FLOAT.fullmatch(word) else word


def _key(data: Any, known: dict[Any, Any], event: yaml.Event) -> Any:
    if isinstance(data, (list, dict)):
        raise _at(event, "a key must be a string or a number")
    if data == "<<":
        raise _at(event, "merge keys (<<) are not supported; write the keys out")
    if data in known:
        raise _at(event, f"duplicate key {str(data)[:60]!r}")
    return data


def _refuse_tag(event: yaml.NodeEvent) -> None:
    if event.tag is not None:  # type: ignore[attr-defined]
        raise _at(event, f"the tag {str(event.tag)[:60]} is not supported; only plain data is read")  # type: ignore[attr-defined]


def _at(event: Any, reason: str) -> ParseError:
    return ParseError(reason, event.start_mark.line + 1, event.start_mark.column + 1)
