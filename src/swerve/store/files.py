"""Files written whole or not at all, and pictures of what a sensor saw."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from swerve.core.errors import EnvironmentFault
from swerve.core.values import Array, Group, Image, PointCloud, Value

PARTIAL = ".partial"
# A cell that starts with one of these is a formula to a spreadsheet (R44).
FORMULA = ("=", "+", "-", "@", "\t", "\r")
LINE_END = "\r\n"


@contextlib.contextmanager
def whole_file(path: Path, size: int | None = None) -> Iterator[BinaryIO]:
    """A neighbour of `path` to write to, synced and renamed at the end: a reader sees the old file or the new one.

    Its `size`, where that is known before, is told when the disk has no room for it.
    """
    # One fixed name: what a killed process left behind is written over, not left lying about.
    partial = path.with_name(f".{path.name}{PARTIAL}")
    what = "cannot be written"
    try:
        try:
            with partial.open("wb") as file:
                try:
                    yield file
                    sync(file)
                finally:
                    what = f"cannot write {file.tell() if size is None else size} bytes"
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise EnvironmentFault(f"{path}: {what}: {error.strerror}") from error


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all."""
    with whole_file(path, len(data)) as file:
        file.write(data)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file that is of use only once its folder is renamed: on disk, but without a rename of its own."""
    try:
        with path.open("wb") as file:
            file.write(data)
            sync(file)
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot write {len(data)} bytes: {error.strerror}") from error


def sync(file: BinaryIO) -> None:
    """Make what was written survive a power cut."""
    file.flush()
    os.fsync(file.fileno())


def make_folder(folder: Path, *, parents: bool = False) -> None:
    """Make `folder` if it is not there, so that it survives a power cut; those above it too, if `parents`."""
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=parents, exist_ok=True)
        for path in missing:
            sync_folder(path.parent)
    except FileExistsError:
        raise EnvironmentFault(f"{folder}: is a file, not a folder") from None
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot be made: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def json_bytes(data: Any) -> bytes:
    """`data` as readable JSON, the same bytes every time."""
    return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(errors="backslashreplace")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV table, row by row, that a spreadsheet cannot mistake for formulas."""
    with whole_file(path) as file:
        writer = csv.writer(_Lines(file), lineterminator=LINE_END)
        writer.writerow(header)
        writer.writerows([_cell(item) for item in row] for row in rows)


@dataclass(frozen=True)
class _Lines:
    """Takes the lines of a csv writer, which quotes a carriage return only where it ends lines, and ends them without."""

    file: BinaryIO

    def write(self, line: str) -> int:
        return self.file.write((line.removesuffix(LINE_END) + "\n").encode(errors="backslashreplace"))


def _cell(item: Any) -> Any:
    if isinstance(item, str) and item.startswith(FORMULA):
        return f"'{item}"
    return "" if item is None else item


def sensor_file(value: Value) -> tuple[str, bytes] | None:
    """The suffix and lossless content of a sensor value; of a window, its last frame; None for anything else."""
    if isinstance(value, Group) and value.values:
        return sensor_file(value.values[-1])
    if isinstance(value, Image):
        return ".png", png_bytes(value.pixels)
    if isinstance(value, PointCloud):
        return ".npy", npy_bytes(value.xyzi)
    return None


def npy_bytes(numbers: Array) -> bytes:
    """An array as the content of an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, numbers, allow_pickle=False)
    return buffer.getvalue()


def png_bytes(pixels: Array) -> bytes:
    """An RGB picture as PNG, the same bytes every time.

    ISA-L deflates three times as fast, but chooses its matches by memory that nobody has set: now and then the same picture
    becomes another file. Runs alone are looked for here; in filtered pictures that saves time and hardly costs a byte.
    """
    height, width, _ = pixels.shape
    rows = pixels.reshape(height, 3 * width)
    # Filter 1 of the PNG standard: each byte minus the one of the pixel to its left.
    lines = np.empty((height, 1 + 3 * width), np.uint8)
    lines[:, 0] = 1
    lines[:, 1:4] = rows[:, :3]
    np.subtract(rows[:, 3:], rows[:, :-3], out=lines[:, 4:])
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB, no interlace
    deflate = zlib.compressobj(1, strategy=zlib.Z_RLE)
    parts = ((b"IHDR", head), (b"IDAT", deflate.compress(lines.data) + deflate.flush()), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
