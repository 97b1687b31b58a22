"""Files written whole or not at all, and pictures of what a sensor saw."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import cv2
import numpy as np

from swerve.errors import EnvironmentFault
from swerve.values import Group, Image, PointCloud, Value

# A cell that starts with one of these is a formula to a spreadsheet (R44).
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A neighbour of `path` to write to, synced and renamed at the end: a reader sees the old file or the new one."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot be written: {error.strerror}") from error


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all."""
    with whole_file(path) as file:
        file.write(data)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files beside its place and rename it there."""
    try:
        made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            for name, data in files.items():
                (made / name).write_bytes(data)
            os.chmod(made, 0o777 & ~_umask())
            os.rename(made, folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot be written: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def json_bytes(data: Any) -> bytes:
    """`data` as readable JSON, the same bytes every time."""
    return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV table, row by row, that a spreadsheet cannot mistake for formulas."""
    with whole_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_cell(item) for item in row] for row in rows)
        text.detach()


def _cell(item: Any) -> Any:
    if isinstance(item, str) and item.startswith(FORMULA):
        return f"'{item}"
    return "" if item is None else item


def sensor_file(value: Value) -> tuple[str, bytes] | None:
    """The suffix and lossless content of a sensor value; of a window, its last frame; None for anything else."""
    if isinstance(value, Group) and value.values:
        return sensor_file(value.values[-1])
    if isinstance(value, Image):
        good, data = cv2.imencode(".png", cv2.cvtColor(value.pixels, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 4])
        if not good:
            raise EnvironmentFault("a picture could not be encoded")
        return ".png", data.tobytes()
    if isinstance(value, PointCloud):
        buffer = io.BytesIO()
        np.save(buffer, value.xyzi, allow_pickle=False)
        return ".npy", buffer.getvalue()
    return None
