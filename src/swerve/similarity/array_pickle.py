"""Arrays from a pickle, read without running it.

A pickle is a program. This reader knows the few instructions with which numpy writes dictionaries of arrays, and does what
they mean itself: nothing is imported and nothing is called. Any other instruction, name or value is refused.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from swerve.core.errors import InputError, printable
from swerve.core.values import Array

RECONSTRUCT = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
NDARRAY, DTYPE = "numpy ndarray", "numpy dtype"
KINDS: Mapping[str, np.dtype[Any]] = MappingProxyType({"f4": np.dtype("<f4"), "f8": np.dtype("<f8")})
LARGEST = 500_000_000  # bytes
DEEPEST = 1000  # entries of the stack
MARK = object()
Tree = Mapping[str, Any]  # names to arrays or further names


def read_arrays(data: bytes, name: str) -> Tree:
    """The dictionary of arrays in `data`; raises `InputError`, naming `name` and the byte, for anything else."""
    if len(data) > LARGEST:
        raise InputError(f"{name}: larger than {LARGEST:,} bytes")
    return _Reader(data, name).run()


@dataclass(frozen=True)
class _Name:
    """What a pickle would import."""

    text: str


@dataclass
class _Kind:
    """A number type that a pickle builds in two steps."""

    dtype: np.dtype[Any]


@dataclass
class _Built:
    """An array that a pickle builds in two steps."""

    array: Array | None = None


@dataclass
class _Reader:
    """The stack machine of a pickle, without its imports and calls."""

    data: bytes
    name: str
    at: int = 0
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self) -> Tree:
        """Follow the instructions up to the end."""
        try:
            while (code := self._take(1)) != b".":
                step = STEPS.get(code)
                if step is None:
                    self.refuse(f"instruction {code!r}")
                step(self)
                if len(self.stack) > DEEPEST:
                    self.refuse("a stack that grows on")
        except (IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
            self.refuse(f"{type(error).__name__}: {error}")
        if len(self.stack) != 1 or not isinstance(self.stack[0], dict):
            self.refuse("a result that is no dictionary")
        return self._arrays(self.stack[0], 0)

    def refuse(self, what: str) -> NoReturn:
        """Raise `InputError`."""
        raise InputError(f"{self.name}: no plain arrays: {printable(what, 80)} before byte {self.at:,}")

    def _take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            self.refuse("the file ends")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        """A whole number of the file."""
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def line(self) -> str:
        """Text up to the end of the line."""
        end = self.data.index(b"\n", self.at, self.at + 100)
        text = self._take(end - self.at).decode("ascii")
        self.at += 1
        return text

    def sized(self, form: str) -> bytes:
        """Bytes after their number."""
        return self._take(self.number(form))

    def push(self, item: Any) -> None:
        """Put something on the stack."""
        self.stack.append(item)

    def since_mark(self) -> list[Any]:
        """Everything above the last mark."""
        place = len(self.stack) - 1 - [item is MARK for item in reversed(self.stack)].index(True)
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def tuple_of(self, count: int) -> None:
        """The last items as one."""
        items = tuple(self.stack[-count:])
        if len(items) != count:
            self.refuse("a tuple of nothing")
        self.stack[-count:] = [items]

    def set_items(self, items: list[Any]) -> None:
        """Enter pairs into the dictionary below them."""
        if not isinstance(self.stack[-1], dict) or len(items) % 2 or not all(isinstance(key, str) for key in items[::2]):
            self.refuse("entries of something that is no dictionary of names")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def import_name(self) -> None:
        """The name of something to import, which is not imported."""
        text = f"{self.line()} {self.line()}"
        if text not in (*RECONSTRUCT, NDARRAY, DTYPE):
            self.refuse(f"the name '{text}'")
        self.push(_Name(text))

    def call(self) -> None:
        """The two calls that begin an array or a number type, which are not made."""
        given, called = self.stack.pop(), self.stack.pop()
        if not isinstance(called, _Name):
            self.refuse("a call of something else")
        if called.text in RECONSTRUCT and given == (_Name(NDARRAY), (0,), b"b"):
            self.push(_Built())
        elif called.text == DTYPE and given[0] in KINDS and given[1:] == (False, True):
            self.push(_Kind(KINDS[given[0]]))
        else:
            self.refuse(f"a call of {called.text}")

    def build(self) -> None:
        """The second half of an array or a number type."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, _Kind):
            if state != (3, "<", None, None, None, -1, -1, 0):
                self.refuse("a number type that is not little-endian")
        elif isinstance(target, _Built) and target.array is None:
            target.array = self._filled(state)
        else:
            self.refuse("a state of something else")

    def _filled(self, state: Any) -> Array:
        version, shape, kind, by_column, content = state
        sizes = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
        if (version, by_column) != (1, False) or not (sizes and isinstance(kind, _Kind) and isinstance(content, bytes)):
            self.refuse("an array in another form")
        if math.prod(shape) * kind.dtype.itemsize != len(content):
            self.refuse("an array whose content does not fit its shape")
        return np.frombuffer(content, kind.dtype).reshape(shape)

    def _arrays(self, tree: Mapping[str, Any], depth: int) -> Tree:
        """The dictionary with finished arrays."""
        if depth > 10:
            self.refuse("dictionaries within dictionaries")
        found: dict[str, Any] = {}
        for key, item in tree.items():
            if isinstance(item, dict):
                found[key] = self._arrays(item, depth + 1)
            elif isinstance(item, _Built) and item.array is not None:
                found[key] = item.array
            else:
                self.refuse(f"'{key}' is no array")
        return found


def _put(reader: _Reader, form: str) -> None:
    reader.memo[reader.number(form)] = reader.stack[-1]


def _set_one(reader: _Reader) -> None:
    item, key = reader.stack.pop(), reader.stack.pop()
    reader.set_items([key, item])


def _version(reader: _Reader) -> None:
    if (version := reader.number("<B")) not in (2, 3):
        reader.refuse(f"version {version}")


# The instructions of protocol 3 that numpy needs; none of them imports or calls anything.
STEPS: Mapping[bytes, Callable[[_Reader], None]] = MappingProxyType(
    {
        b"\x80": _version,
        b"}": lambda reader: reader.push({}),
        b"(": lambda reader: reader.push(MARK),
        b"q": lambda reader: _put(reader, "<B"),
        b"r": lambda reader: _put(reader, "<I"),
        b"h": lambda reader: reader.push(reader.memo[reader.number("<B")]),
        b"j": lambda reader: reader.push(reader.memo[reader.number("<I")]),
        b"X": lambda reader: reader.push(reader.sized("<I").decode("utf-8")),
        b"C": lambda reader: reader.push(reader.sized("<B")),
        b"B": lambda reader: reader.push(reader.sized("<I")),
        b"K": lambda reader: reader.push(reader.number("<B")),
        b"M": lambda reader: reader.push(reader.number("<H")),
        b"J": lambda reader: reader.push(reader.number("<i")),
        b"N": lambda reader: reader.push(None),
        b"\x88": lambda reader: reader.push(True),
        b"\x89": lambda reader: reader.push(False),
        b"\x85": lambda reader: reader.tuple_of(1),
        b"\x86": lambda reader: reader.tuple_of(2),
        b"\x87": lambda reader: reader.tuple_of(3),
        b"t": lambda reader: reader.push(tuple(reader.since_mark())),
        b"s": _set_one,
        b"u": lambda reader: reader.set_items(reader.since_mark()),
        b"c": _Reader.import_name,
        b"R": _Reader.call,
        b"b": _Reader.build,
    }
)
