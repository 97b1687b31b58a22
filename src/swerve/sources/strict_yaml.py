"""YAML as plain data: the words of YAML 1.2 (so `off` and `no` are words), and nothing that could call or flood.

The parser gives events and the data is built from them here: the composer of libyaml goes down the C stack on nested
lists, and constructors follow tags.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from swerve.config import limits
from swerve.sources.plain import PARTS, Misread, too_deep

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its parser runs
NULL = re.compile(r"~|null|Null|NULL|")
BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
INT = re.compile(r"[-+]?[0-9]{1,4000}|0o[0-7]{1,1000}|0x[0-9a-fA-F]{1,1000}")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


@dataclass
class _Open:
    """A list or a table that is being filled."""

    data: list[Any] | dict[Any, Any]
    anchor: str | None
    key: Any = None
    has_key: bool = False
    weight: int = 1  # parts in it, those behind aliases counted each time


@dataclass
class _Builder:
    """Data grown from events."""

    stack: list[_Open] = field(default_factory=lambda: [_Open([], None)])
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    documents: int = 0

    def take(self, event: yaml.Event) -> None:
        """Add what an event brings."""
        handle = HANDLERS.get(type(event))
        if handle:
            handle(self, event)

    def document(self, event: yaml.Event) -> None:
        self.documents += 1
        if self.documents > 1:
            raise _at(event, "a second document; one file holds one")

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
            raise _at(event, f"*{event.anchor} stands for nothing that is whole by now")
        data, weight = self.anchors[event.anchor]
        self._add(data, weight, None, event)

    def _add(self, data: Any, weight: int, anchor: str | None, event: yaml.Event) -> None:
        if anchor is not None:
            self.anchors[anchor] = data, weight
        into = self.stack[-1]
        into.weight += weight
        if into.weight > PARTS:
            raise _at(event, f"more than {PARTS:,} parts, aliases counted each time")
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


def parsed(text: str) -> Any:
    """The data of a YAML text, None for an empty one; raises `Misread`."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark
        raise Misread(str(error.problem), mark.line + 1 if mark else 1, mark.column + 1 if mark else 1) from error
    except yaml.reader.ReaderError as error:
        raise Misread.at(text, int(error.position), error.reason) from error
    document = builder.stack[0].data
    return document[0] if document else None


def _plain(event: yaml.ScalarEvent) -> Any:
    """A word without quotes: nothing, yes or no, a number or itself."""
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
        raise _at(event, "a key has to be a word or a number")
    if data == "<<":
        raise _at(event, "merged keys (<<) are not read; write them out")
    if data in known:
        raise _at(event, f"the key {str(data)[:60]!r} stands twice")
    return data


def _refuse_tag(event: yaml.NodeEvent) -> None:
    if event.tag is not None:  # type: ignore[attr-defined]
        raise _at(event, f"the tag {str(event.tag)[:60]}; only plain data is read")  # type: ignore[attr-defined]


def _at(event: Any, reason: str) -> Misread:
    return Misread(reason, event.start_mark.line + 1, event.start_mark.column + 1)
