"""Frames: how Swerve and an outside program talk over two pipes (docs/process.md).

A frame is `SWRV`, the length of a header (4 bytes) and of a body (8 bytes), both little-endian, a header of JSON in UTF-8,
and the body. Wherever the JSON stands for an array, `{"dtype", "shape", "offset"}` may say where its bytes lie in the body.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from swerve.config.limits import FILE, QUESTION
from swerve.core.encode import JSON, decode_value
from swerve.core.errors import ModelError, printable
from swerve.core.values import Array, Value

PROTOCOL = 1
MAGIC = b"SWRV"
PREFIX = struct.Struct("<4sIQ")
HEADER = QUESTION  # bytes of one header
BODY = FILE  # bytes of one body
CHUNK = 1 << 20  # bytes read at a time: what is promised and never comes takes no memory
ALIGNED = 8  # where arrays start: C programs may read them in place
PLACE = {"dtype", "shape", "offset"}
DTYPES = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64")


def packed(header: Mapping[str, JSON]) -> bytes:
    """A frame; values and arrays may stand anywhere in `header`, their numbers go into the body."""
    body = _Body()
    text = json.dumps(header, default=body.told, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)  # so that the body starts aligned too
    for what, length, most in (("header", len(text), HEADER), ("body", body.length, BODY)):
        if length > most:
            raise ModelError(f"the frame's {what} has {length} bytes, the limit is {most}; ask fewer cases at a time")
    return b"".join((PREFIX.pack(MAGIC, len(text), body.length), text, *body.parts))


class _Body:
    """Arrays side by side."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.length = 0

    def told(self, thing: Any) -> JSON:
        """What JSON has no word for, in words that it has."""
        if isinstance(thing, Value):
            return {"slot": thing.slot, **{item.name: _finite(getattr(thing, item.name)) for item in fields(thing)}}  # type: ignore[arg-type]
        if isinstance(thing, np.ndarray):
            return self._place(thing)
        if isinstance(thing, Mapping):
            return dict(thing)
        if isinstance(thing, np.generic):
            return _finite(thing.item())
        raise TypeError(f"a frame cannot hold a {type(thing).__name__}")

    def _place(self, array: Array) -> JSON:
        if array.dtype.name not in DTYPES:
            raise TypeError(f"a frame cannot hold numbers of type {array.dtype}")
        place = {"dtype": array.dtype.name, "shape": array.shape, "offset": self.length}
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        self.parts.append(data + bytes(-len(data) % ALIGNED))
        self.length += len(self.parts[-1])
        return place


def _finite(item: Any) -> JSON:
    """JSON has no word for nan and inf: as texts they read back with float()."""
    return str(item) if isinstance(item, float) and not math.isfinite(item) else item


def missing(received: bytearray) -> int:
    """How many bytes are still to be read, as far as can be told; 0: the frame is whole. Refuses what is no frame."""
    if not MAGIC.startswith(received[: len(MAGIC)]):
        start = printable(received.decode(errors="replace"), 40)
        raise ModelError(f"it wrote '{start}' where a frame should start; only frames may go to stdout")
    if len(received) < PREFIX.size:
        return PREFIX.size - len(received)
    _, header, body = PREFIX.unpack_from(received)
    for what, length, most in (("header", header, HEADER), ("body", body, BODY)):
        if length > most:
            raise ModelError(f"it announced a {what} of {length} bytes, the limit is {most}")
    return int(PREFIX.size + header + body - len(received))


def unpacked(received: bytearray) -> dict[str, Any]:
    """The header of a whole frame, with its arrays in place."""
    _, length, _ = PREFIX.unpack_from(received)
    view = memoryview(received).toreadonly()
    body = view[PREFIX.size + length :]
    try:
        header = json.loads(
            str(view[PREFIX.size : PREFIX.size + length], "utf-8"),
            object_hook=lambda table: _array(table, body) if table.keys() == PLACE else table,
        )
    except RecursionError:
        raise ModelError("its header is nested too deeply") from None
    except (ValueError, TypeError) as error:
        raise ModelError(f"its header does not read: {error}") from error
    if not isinstance(header, dict):
        raise ModelError(f"its header must be a JSON object, it is a {type(header).__name__}")
    return header


def _array(place: Mapping[str, JSON], body: memoryview) -> Array:
    dtype, shape, offset = place["dtype"], place["shape"], place["offset"]
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not all(_is_count(length) for length in (*shape, offset)):
        raise ValueError("shape and offset of an array must be whole numbers of at least 0")
    kind = np.dtype(dtype).newbyteorder("<")
    count = math.prod(shape)
    if offset + count * kind.itemsize > len(body):
        raise ValueError(f"an array of {count} {dtype} at {offset} reaches beyond the body of {len(body)} bytes")
    return np.frombuffer(body[offset : offset + count * kind.itemsize], kind).reshape(shape)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= BODY


def values_of(rows: object) -> tuple[Value, ...]:
    """The values that a list of tables describes."""
    if not isinstance(rows, list):
        raise ModelError(f"an answer must be a list of values, it is a {type(rows).__name__}")
    return tuple(map(_value_of, rows))


def _value_of(row: Any) -> Value:
    try:
        value = decode_value(row)
    except Exception as error:  # somebody else's words: they may fit a value's constructor in no way at all
        raise ModelError(f"{_slot(row)} does not read: {error}") from error
    if value is None:
        raise ModelError(f"{_slot(row)} was told by its hash alone")
    return value


def _slot(row: object) -> str:
    return f"a value of slot {row.get('slot')!r}" if isinstance(row, dict) else f"a value that is a {type(row).__name__}"


def read_frame(handle: int) -> dict[str, Any] | None:
    """The next frame of a file that is read until it closes, or None where it ended."""
    received = bytearray()
    while wanted := missing(received):
        chunk = os.read(handle, min(wanted, CHUNK))
        if not chunk:
            return None
        received += chunk
    return unpacked(received)


def write_all(handle: int, data: bytes) -> None:
    """Write a whole frame to a file that blocks."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
