"""Files that are written completely or not at all, read without following links; sensor values as files."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import re
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

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
    """A temporary file beside `path`, synced and renamed at the end, so that readers see the old file or the new one.

    The error for a full disk contains `size`, if it is known in advance.
    """
    # The name is fixed, so that the file left by a killed process is overwritten.
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
    """A newly created file; an existing link or pipe of that name is replaced, never written to."""
    path.unlink(missing_ok=True)
    return open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def open_plain(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """Open a regular file; a link, a pipe, a device, or to write a hard link, raises `StoreError` at once."""  # R69
    if path.is_symlink():
        raise StoreError(_not_plain(path))
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise StoreError(_not_plain(path))
        if flags & os.O_ACCMODE != os.O_RDONLY and os.fstat(handle).st_nlink > 1:
            raise StoreError(f"{path}: is a hard link to another file; replace it by a copy")
    except BaseException:
        os.close(handle)
        raise
    return cast(BinaryIO, os.fdopen(handle, {os.O_RDONLY: "rb", os.O_WRONLY: "wb"}.get(flags & os.O_ACCMODE, "r+b")))


def _not_plain(path: Path) -> str:
    return f"{path}: is a link, a pipe or a device; a run folder may hold only files and folders"


def refuse_links(folder: Path) -> None:
    """Refuse a run folder that holds anything but files and folders, as a link could redirect writes and deletions."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif not entry.is_file(follow_symlinks=False):
                        raise StoreError(_not_plain(Path(entry.path)))
        except FileNotFoundError:  # just replaced by the process that writes here
            continue
        except OSError as error:
            raise EnvironmentFault(f"{folder}: cannot be read: {error.strerror}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file in a run folder."""
    return _object(path, read_json_value(path))


def _object(path: Path, data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise StoreError(f"{path}: is not a JSON object")
    return data


def read_json_value(path: Path) -> Any:
    """The JSON of a file in a run folder."""
    return _parsed(path, read_plain(path))


def read_hashed_json(path: Path) -> tuple[dict[str, Any], str]:
    """The JSON object of a file in a run folder, and the sha256 of the bytes that it was read from."""
    content = read_plain(path)
    return _object(path, _parsed(path, content)), hashlib.sha256(content).hexdigest()


def read_plain(path: Path) -> bytes:
    """The content of a file of JSON in a run folder."""
    try:
        with open_plain(path) as file:
            if os.fstat(file.fileno()).st_size > RUN_JSON:
                raise StoreError(f"{path}: larger than {RUN_JSON} bytes (swerve list limits)")
            return file.read()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error


def _parsed(path: Path, content: bytes) -> Any:
    try:
        data = json.loads(content, parse_constant=refuse_constant, parse_float=_finite)
    except ValueError as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise StoreError(f"{path}: nested deeper than {DEPTH} levels (swerve list limits)") from error
    if is_deep(data):
        raise StoreError(f"{path}: nested deeper than {DEPTH} levels (swerve list limits)")
    return data


def refuse_constant(text: str) -> NoReturn:
    """Refuse NaN and Infinity, which are no JSON and which Swerve never writes."""
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is too large a number")
    return number


def is_deep(data: Any) -> bool:
    """Whether JSON is nested deeper than the limit."""
    level = [data]
    for _ in range(DEPTH):
        nested = [item for item in level if isinstance(item, dict | list)]
        if not nested:
            return False
        level = [part for item in nested for part in (item.values() if isinstance(item, dict) else item)]
    return True


def clear_folder(folder: Path, ours: re.Pattern[str]) -> None:
    """Delete the files in `folder` whose names match `ours`, and the folder itself if it is then empty."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in list(folder.iterdir()):
        if ours.fullmatch(path.name) and not path.is_symlink() and path.is_file():
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


def replace_folder(partial: Path, folder: Path, ours: re.Pattern[str]) -> None:
    """Replace the files of `folder` whose names match `ours` by those of `partial`; other files stay."""
    clear_folder(folder, ours)
    if not folder.exists():
        partial.rename(folder)
        return
    for path in list(partial.iterdir()):
        path.replace(folder / path.name)
    partial.rmdir()


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically."""
    with whole_file(path, len(data)) as file:
        file.write(data)


def write_synced(path: Path, data: bytes) -> None:
    """Write and sync a file without a rename of its own, for a folder that is renamed when it is complete."""
    try:
        with path.open("wb") as file:
            file.write(data)
            sync(file)
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot write {len(data)} bytes: {error.strerror}") from error


def sync(file: BinaryIO) -> None:
    """Flush a file to disk, so that it survives a power cut."""
    file.flush()
    os.fsync(file.fileno())


def make_folder(folder: Path, *, parents: bool = False) -> None:
    """Create `folder` (and, with `parents`, those above it) if it does not exist, so that it survives a power cut."""
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=parents, exist_ok=True)
        for path in missing:
            sync_folder(path.parent)
    except FileExistsError:
        raise EnvironmentFault(f"{folder}: is a file, not a folder") from None
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot be created: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of `folder` to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def json_bytes(data: Any) -> bytes:
    """`data` as indented JSON, deterministic."""
    return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(errors="backslashreplace")


@contextlib.contextmanager
def csv_table(path: Path, header: Sequence[str]) -> Iterator[Callable[[Sequence[Any]], object]]:
    """A function that writes one row of a CSV table; a spreadsheet reads no cell as a formula."""
    with whole_file(path) as file:
        writer = csv.writer(_Lines(file), lineterminator=LINE_END)
        writer.writerow(header)
        yield lambda row: writer.writerow([_cell(item) for item in row])


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV table row by row."""
    with csv_table(path, header) as write:
        for row in rows:
            write(row)


@dataclass(frozen=True)
class _Lines:
    """Writes lines that end with a newline; the csv writer quotes carriage returns only if its own lines end with one."""

    file: BinaryIO

    def write(self, line: str) -> int:
        return self.file.write((line.removesuffix(LINE_END) + "\n").encode(errors="backslashreplace"))


def _cell(item: Any) -> Any:
    if isinstance(item, str) and item.startswith(FORMULA):
        return f"'{item}"
    return "" if item is None else item


def sensor_file(value: Value) -> tuple[str, bytes] | None:
    """The suffix and lossless content of a sensor value, or of a window's last frame; None for other values."""
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
    """An RGB image as PNG, deterministic.

    ISA-L compresses three times as fast, but reads uninitialised memory, so that the same image sometimes becomes another
    file. Only runs are compressed, which saves time and costs few bytes in filtered images.
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


def safe_name(name: str) -> str:
    """A sensor's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)[:40] or "sensor"
