"""Frames: the messages between Swerve and an external program over two pipes (docs/process.md).

A frame is `SWRV`, the length of the header (4 bytes) and of the body (8 bytes), both little-endian, a header of JSON in
UTF-8, and the body. An array in the JSON may be `{"dtype", "shape", "offset"}`, the position of its bytes in the body.
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

from swerve.config.limits import FILE, HEADER
from swerve.core.encode import JSON, decode_value
from swerve.core.errors import ModelError, printable
from swerve.core.values import Array, Value

PROTOCOL = 1
MAGIC = b"SWRV"
PREFIX = struct.Struct("<4sIQ")
BODY = FILE  # most bytes of a body
CHUNK = 1 << 20  # bytes read at a time: announced bytes that never arrive take no memory
ALIGNED = 8  # alignment of arrays in bytes, so that C programs can read them in place
PLACE = {"dtype", "shape", "offset"}
DTYPES = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64")


def pack_frame(header: Mapping[str, JSON]) -> bytes:
    """A frame; `header` may contain values and arrays anywhere, and their numbers go into the body."""
    body = _Body()
    text = json.dumps(header, default=body.encode, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)  # so that the body is aligned too
    for what, length, most in (("header", len(text), HEADER), ("body", body.length, BODY)):
        if length > most:
            raise ModelError(
                f"the message to or from the model has a {what} of {length:,} bytes, more than the "
                f"limit of {most:,}; set a smaller 'inference_batch'"
            )
    return b"".join((PREFIX.pack(MAGIC, len(text), body.length), text, *body.parts))


class _Body:
    """The arrays of a frame, one after the other."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.length = 0

    def encode(self, thing: Any) -> JSON:
        """JSON for an object that `json` cannot encode."""
        if isinstance(thing, Value):
            return {"slot": thing.slot, **{item.name: _finite(getattr(thing, item.name)) for item in fields(thing)}}  # type: ignore[arg-type]
        if isinstance(thing, np.ndarray):
            return self._place(thing)
        if isinstance(thing, Mapping):
            return dict(thing)
        if isinstance(thing, np.generic):
            return _finite(thing.item())
        raise TypeError(
            f"a message to or from a model cannot contain a {type(thing).__name__}; use numbers, "
            f"strings, lists, arrays and values"
        )

    def _place(self, array: Array) -> JSON:
        if array.dtype.name not in DTYPES:
            raise TypeError(
                f"a message to or from a model cannot contain numbers of type {array.dtype}; use {', '.join(DTYPES)}"
            )
        place = {"dtype": array.dtype.name, "shape": array.shape, "offset": self.length}
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        self.parts.append(data + bytes(-len(data) % ALIGNED))
        self.length += len(self.parts[-1])
        return place


def _finite(item: Any) -> JSON:
    """NaN and infinities as strings, which JSON lacks and float() reads."""
    return str(item) if isinstance(item, float) and not math.isfinite(item) else item


def missing_bytes(received: bytearray) -> int:
    """The number of bytes known to be missing; 0 if the frame is complete. Raises `ModelError` for anything but a frame."""
    if not MAGIC.startswith(received[: len(MAGIC)]):
        start = printable(received.decode(errors="replace"), 40)
        raise ModelError(f"the process wrote '{start}' to stdout instead of a reply; write other output to stderr")
    if len(received) < PREFIX.size:
        return PREFIX.size - len(received)
    _, header, body = PREFIX.unpack_from(received)
    for what, length, most in (("header", header, HEADER), ("body", body, BODY)):
        if length > most:
            raise ModelError(
                f"the process announced a {what} of {length:,} bytes, more than the limit of "
                f"{most:,}; check how it writes replies (docs/process.md)"
            )
    return int(PREFIX.size + header + body - len(received))


def unpack_frame(received: bytearray) -> dict[str, Any]:
    """The header of a complete frame, with its arrays."""
    _, length, _ = PREFIX.unpack_from(received)
    view = memoryview(received).toreadonly()
    body = view[PREFIX.size + length :]
    try:
        header = json.loads(
            str(view[PREFIX.size : PREFIX.size + length], "utf-8"),
            object_hook=lambda table: _array(table, body) if table.keys() == PLACE else table,
        )
    except RecursionError:
        raise ModelError("the header of the reply is nested too deeply") from None
    except (ValueError, TypeError) as error:
        raise ModelError(f"the header of the reply is invalid: {error}") from error
    if not isinstance(header, dict):
        raise ModelError(f"the header of the reply must be a JSON object, got {type(header).__name__}")
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
        raise ValueError(f"an array of {count} {dtype} at offset {offset} exceeds the body of {len(body)} bytes")
    return np.frombuffer(body[offset : offset + count * kind.itemsize], kind).reshape(shape)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= BODY


def values_of(rows: object) -> tuple[Value, ...]:
    """The values in a decoded list of JSON objects."""
    if not isinstance(rows, list):
        raise ModelError(f"an answer must be a list of values, got {type(rows).__name__}")
    return tuple(map(_value_of, rows))


def _value_of(row: Any) -> Value:
    try:
        value = decode_value(row)
    except Exception as error:  # the program's JSON may make a constructor raise anything
        raise ModelError(f"{_slot(row)} is invalid: {error}") from error
    if value is None:
        raise ModelError(f"{_slot(row)} has only a hash; send the value with its numbers")
    return value


def _slot(row: object) -> str:
    return f"a value of slot {row.get('slot')!r}" if isinstance(row, dict) else f"a value that is a {type(row).__name__}"


def read_frame(handle: int) -> dict[str, Any] | None:
    """The next frame of a blocking file descriptor, or None at its end."""
    received = bytearray()
    while wanted := missing_bytes(received):
        chunk = os.read(handle, min(wanted, CHUNK))
        if not chunk:
            return None
        received += chunk
    return unpack_frame(received)


def write_all(handle: int, data: bytes) -> None:
    """Write all of `data` to a blocking file descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
