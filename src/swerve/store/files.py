"""Files written whole or not at all, read without following links, and pictures of what a sensor saw."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from swerve.config.limits import DEPTH, RUN_JSON
from swerve.core.errors import EnvironmentFault, StoreError
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
            with _new_file(partial) as file:
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


def _new_file(path: Path) -> BinaryIO:
    """A file that did not exist before: a link or pipe that somebody put there is replaced, not written to."""
    path.unlink(missing_ok=True)
    return open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def open_plain(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """Open a regular file; raises `StoreError` at once for a link, a pipe or a device."""  # R69
    if path.is_symlink():
        raise StoreError(_not_plain(path))
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise StoreError(_not_plain(path))
    except BaseException:
        os.close(handle)
        raise
    return cast(BinaryIO, os.fdopen(handle, {os.O_RDONLY: "rb", os.O_WRONLY: "wb"}.get(flags & os.O_ACCMODE, "r+b")))


def _not_plain(path: Path) -> str:
    return f"{path}: is a link, a pipe or a device; a run folder may hold only files and folders"


def refuse_links(folder: Path) -> None:
    """Refuse a run folder that holds anything but files and folders: a link could lead writes and deletions out of it."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif not entry.is_file(follow_symlinks=False):
                        raise StoreError(_not_plain(Path(entry.path)))
        except FileNotFoundError:  # replaced this moment by the process that writes here
            continue
        except OSError as error:
            raise EnvironmentFault(f"{folder}: cannot be read: {error.strerror}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file in a run folder."""
    try:
        with open_plain(path) as file:
            if os.fstat(file.fileno()).st_size > RUN_JSON:
                raise StoreError(f"{path}: larger than {RUN_JSON} bytes (swerve list limits)")
            data = json.loads(file.read())
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise StoreError(f"{path}: nested deeper than {DEPTH} levels (swerve list limits)") from error
    if not isinstance(data, dict):
        raise StoreError(f"{path}: is not a JSON object")
    if is_deep(data):
        raise StoreError(f"{path}: nested deeper than {DEPTH} levels (swerve list limits)")
    return data


def is_deep(data: Any) -> bool:
    """Whether JSON is nested deeper than is read."""
    level = [data]
    for _ in range(DEPTH):
        nested = [item for item in level if isinstance(item, dict | list)]
        if not nested:
            return False
        level = [part for item in nested for part in (item.values() if isinstance(item, dict) else item)]
    return True


def clear_folder(folder: Path, ours: re.Pattern[str]) -> None:
    """Delete the files in `folder` that have names of `ours`, and the folder if nothing else is in it."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in list(folder.iterdir()):
        if ours.fullmatch(path.name) and not path.is_symlink() and path.is_file():
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


def replace_folder(partial: Path, folder: Path, ours: re.Pattern[str]) -> None:
    """Put the files of `partial` in the place of those that have names of `ours` in `folder`; any others stay."""
    clear_folder(folder, ours)
    if not folder.exists():
        partial.rename(folder)
        return
    for path in list(partial.iterdir()):
        path.replace(folder / path.name)
    partial.rmdir()


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
