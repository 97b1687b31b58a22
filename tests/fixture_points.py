"""Point cloud files of every kind, written the plain way that a reader of them does not use."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import numpy as np

from swerve.core.seeding import rng_for
from swerve.core.values import Array

XYZI = (("x", "F4"), ("y", "F4"), ("z", "F4"), ("intensity", "F4"))
Field = tuple[str, str] | tuple[str, str, int]
PLY_NAMES = {
    "i1": "char",
    "u1": "uchar",
    "i2": "short",
    "u2": "ushort",
    "i4": "int",
    "u4": "uint",
    "f4": "float",
    "f8": "double",
}


def sweep(count: int, *key: object) -> Array:
    """Points as a LiDAR sees them: some ten metres around, intensities from 0 to 1."""
    rng = rng_for("sweep", count, *key)
    return np.column_stack([rng.normal(0, 20, (count, 3)), rng.uniform(0, 1, count)]).astype(np.float32)


def rows_of(table: Array, fields: Sequence[Field]) -> list[list[bytes]]:
    """The bytes of each number, row by row; a field of several numbers repeats its column."""
    packs = [(np.dtype("<" + kind.lower()), *more) for _, kind, *more in fields]
    return [
        [
            kind.type(number).astype(kind).tobytes() * (many[0] if many else 1)
            for number, (kind, *many) in zip(row, packs, strict=True)
        ]
        for row in table.tolist()
    ]


def pcd_header(count: int, form: str, fields: Sequence[Field] = XYZI, **changed: str) -> bytes:
    """A PCD header; `changed` replaces lines, an empty text leaves one out."""
    words = {
        "VERSION": "0.7",
        "FIELDS": " ".join(field[0] for field in fields),
        "SIZE": " ".join(field[1][1] for field in fields),
        "TYPE": " ".join(field[1][0] for field in fields),
        "COUNT": " ".join(str(field[2] if len(field) > 2 else 1) for field in fields),
        "WIDTH": str(count),
        "HEIGHT": "1",
        "VIEWPOINT": "0 0 0 1 0 0 0",
        "POINTS": str(count),
        "DATA": form,
        **changed,
    }
    lines = [f"{key} {told}" for key, told in words.items() if told]
    return "\n".join(["# .PCD v0.7 - Point Cloud Data file format", *lines, ""]).encode()


def pcd(table: Array, form: str = "binary", fields: Sequence[Field] = XYZI, **changed: str) -> bytes:
    """A PCD file with one column of `table` for each field."""
    header = pcd_header(len(table), form, fields, **changed)
    if form == "ascii":
        spread = [
            [number for number, field in zip(row, fields, strict=True) for _ in range(field[2] if len(field) > 2 else 1)]
            for row in table.tolist()
        ]
        return header + "".join(" ".join(f"{number:.9g}" for number in row) + "\n" for row in spread).encode()
    rows = rows_of(table, fields)
    if form == "binary":
        return header + b"".join(b"".join(row) for row in rows)
    planes = b"".join(b"".join(column) for column in zip(*rows, strict=True))
    squeezed = squeeze(planes)
    return header + struct.pack("<II", len(squeezed), len(planes)) + squeezed


def ply(table: Array, form: str = "binary_little_endian", names: Sequence[tuple[str, str]] | None = None) -> bytes:
    """A PLY file whose vertices are the rows of `table`."""
    names = names or [("x", "f4"), ("y", "f4"), ("z", "f4"), ("intensity", "f4")]
    properties = "".join(f"property {PLY_NAMES[kind]} {name}\n" for name, kind in names)
    header = (
        f"ply\nformat {form} 1.0\ncomment made for a test\nelement vertex {len(table)}\n{properties}end_header\n".encode()
    )
    if form == "ascii":
        return header + "".join(" ".join(f"{number:.9g}" for number in row) + "\n" for row in table.tolist()).encode()
    order = "<" if "little" in form else ">"
    return header + b"".join(
        np.array(number).astype(order + kind).tobytes()
        for row in table.tolist()
        for number, (_, kind) in zip(row, names, strict=True)
    )


def npy(table: Array) -> bytes:
    """An .npy file as NumPy writes it."""
    file = io.BytesIO()
    np.save(file, table)
    return file.getvalue()


def squeeze(data: bytes) -> bytes:
    """LZF, greedily: three or more bytes that came up to 8192 before are referred to."""
    made, literal, place = bytearray(), bytearray(), 0
    seen: dict[bytes, int] = {}
    while place < len(data):
        start, length = seen.get(data[place : place + 3], -1), 0
        if start >= 0 and place - start <= 8192:
            while length < 264 and place + length < len(data) and data[start + length] == data[place + length]:
                length += 1
        seen[data[place : place + 3]] = place
        if length < 3:
            literal.append(data[place])
            place += 1
            continue
        made += literals(bytes(literal)) + reference(place - start, length)
        literal.clear()
        place += length
    return bytes(made + literals(bytes(literal)))


def literals(data: bytes) -> bytes:
    """LZF of bytes as they are."""
    return b"".join(bytes([len(data[i : i + 32]) - 1]) + data[i : i + 32] for i in range(0, len(data), 32))


def reference(back: int, length: int) -> bytes:
    """LZF of `length` bytes that came `back` bytes before."""
    high, low = divmod(back - 1, 256)
    if length <= 8:
        return bytes([(length - 2) << 5 | high, low])
    return bytes([7 << 5 | high, length - 9, low])


def unsqueeze(data: bytes) -> bytes:
    """LZF back, a byte at a time."""
    made: list[int] = []
    given = iter(data)
    for control in given:
        if control < 32:
            made += [next(given) for _ in range(control + 1)]
            continue
        length = control >> 5
        length += next(given) if length == 7 else 0
        back = (control & 31) * 256 + next(given) + 1
        for _ in range(length + 2):
            made.append(made[-back])
    return bytes(made)
