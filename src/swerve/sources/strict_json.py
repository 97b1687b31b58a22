"""JSON as its standard has it: what Python's parser would let pass is refused, and the place is told.

Python's parser is fast and does not tell where a doubled key stands; only when something is wrong is the text gone
through once more, token by token.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from swerve.config import limits
from swerve.sources.plain import PARTS, Misread, too_deep

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<open>[\[{])|(?P<close>[\]}])|(?P<colon>:)|(?P<comma>,)|(?P<word>[^\s"\[\]{}:,]+)',
    re.DOTALL,
)


class _Suspect(Exception):
    """Something that the standard forbids; where it stands is yet to be found."""


def parsed(text: str) -> Any:
    """The data of a JSON text; raises `Misread`."""
    if text.count("{") + text.count("[") > PARTS:
        raise Misread(f"more than {PARTS:,} lists and objects", 1, 1)
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_refused, parse_float=_finite)
        if SURROGATE.search(text) or _nested(data):
            _find_fault(text)
        return data
    except json.JSONDecodeError as error:
        raise Misread(error.msg, error.lineno, error.colno) from error
    except (_Suspect, RecursionError, ValueError) as error:  # ValueError: a whole number of thousands of digits
        _find_fault(text)
        raise Misread(str(error), 1, 1) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Suspect("a key stands twice")
    return found


def _refused(word: str) -> NoReturn:
    raise _Suspect(f"{word} is no JSON")


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise _Suspect(f"{word[:60]} is too large")
    return value


def _nested(data: Any) -> bool:
    """Whether data is nested deeper than allowed."""
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
    """Raise `Misread` at the first thing that the standard forbids and Python's parser may let pass."""
    keys: list[set[str]] = []  # of every list or object around; a list has none
    key, place = "", 0
    for token in TOKEN.finditer(text):
        kind, word = str(token.lastgroup), token.group()
        if reason := _fault_of(kind, word):
            raise Misread.at(text, token.start(), reason)
        if kind == "open":
            keys.append(set())
        if len(keys) > limits.DEPTH:
            raise Misread.at(text, token.start(), too_deep())
        if kind == "close" and keys:
            keys.pop()
        if kind == "string":
            key, place = json.loads(word, strict=False), token.start()
        if kind == "colon" and keys:
            if key in keys[-1]:
                raise Misread.at(text, place, f"the key {key[:60]!r} stands twice")
            keys[-1].add(key)


def _fault_of(kind: str, word: str) -> str:
    """What is wrong with a string or a word; empty if nothing is."""
    if kind == "string" and SURROGATE.search(word) and _lone(json.loads(word, strict=False)):
        return "half of a character (a lone surrogate)"
    if kind == "word" and word in ("NaN", "Infinity", "-Infinity"):
        return f"{word} is no JSON"
    if kind == "word" and word[:1] in "-0123456789" and len(word) > 4000:
        return "a number of thousands of digits"
    if kind == "word" and NUMBER.fullmatch(word) and math.isinf(float(word)):
        return f"{word[:60]} is too large"
    return ""


def _lone(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)
