"""Point clouds from files: read completely or not at all, with every number checked.

Intensity is from 0 to 1. A byte is divided by 255. A float is used as it is, as in KITTI; if some exceed 1, the source must
declare `intensity_scale`, the stored number that means 1. Without intensities in the file, they are 0.
"""
# R49, R50

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import BinaryIO

import numpy as np

from swerve.config import limits
from swerve.core.arguments import check_known, check_number
from swerve.core.case import Fact
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.values import Array, PointCloud
from swerve.sources import pcd, ply
from swerve.sources.point_table import StoredPoints, check_count, check_size, size_of
from swerve.sources.root import Root

LAYOUTS = MappingProxyType({"xyzi": 4, "xyzir": 5})  # float32 numbers per point; r is the ring index of nuScenes
FARTHEST, NEAREST = 1e5, 1e-20  # metres: plausible sizes of a coordinate other than 0
ENOUGH = 100  # points needed to distinguish the layouts
MANY = 0.1  # share of negative intensities above which the column cannot be intensity
DROPPED = "points dropped"
NPY = b"\x93NUMPY"
LONGEST_HEADER = 10_000  # bytes, NumPy's own limit


@dataclass(frozen=True)
class Cloud:
    """A sweep, and the number of its points that were dropped because they were not finite."""

    points: PointCloud
    dropped: int = 0

    @property
    def facts(self) -> Mapping[str, Fact]:
        """The facts for its case: the number of points dropped, if any were."""
        return {DROPPED: float(self.dropped)} if self.dropped else {}


def read_cloud(root: Root, name: str, *, layout: str = "xyzi", intensity_scale: float | None = None) -> Cloud:
    """The sweep in a file, whose suffix selects the format; raises `UnreadableCase` unless it is complete and valid.

    `layout` applies to .bin: `xyzi` has 4 floats per point, `xyzir` 5. The stored intensity `intensity_scale` means 1.
    """
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise UnreadableCase(f"{name}: not a supported point cloud; known: {', '.join(SUFFIXES)}")
    with root.open(name, most=limits.FILE) as file:
        try:
            stored = _bin(file, layout) if suffix == ".bin" else READERS[suffix](file)
            return _finite(_scaled(stored, intensity_scale))
        except OSError as error:
            raise UnreadableCase(f"{name}: {error.strerror}") from error
        except UnreadableCase as error:
            raise UnreadableCase(f"{name}: {error}") from error


def check_declared(layout: str, intensity_scale: float | None) -> None:
    """Raise `InputError` unless a source's `layout` and `intensity_scale` are valid."""
    check_known("layout", layout, LAYOUTS)
    if intensity_scale is not None:
        check_number("intensity_scale", intensity_scale, 0, above=True, error=InputError)


def _finite(xyzi: Array) -> Cloud:
    finite = np.isfinite(xyzi).all(axis=1)
    kept = int(finite.sum())
    if not kept:
        raise UnreadableCase(f"the file has no usable points: none of its {len(xyzi):,} points is finite")
    return Cloud(PointCloud(xyzi if kept == len(xyzi) else xyzi[finite]), len(xyzi) - kept)


def _scaled(stored: StoredPoints, declared: float | None) -> Array:
    """The points with intensities scaled to 0 to 1."""
    xyzi, full = stored.xyzi, declared or stored.full_intensity
    _check_metres(xyzi)
    if full is None:
        _check_unit(xyzi[:, 3])
    elif full != 1:
        xyzi = xyzi.copy()
        with np.errstate(all="ignore"):
            xyzi[:, 3] /= np.float32(full)
    return xyzi


def _check_unit(intensities: Array) -> None:
    largest = float(np.max(intensities, where=np.isfinite(intensities), initial=0.0))
    if largest > 1:
        likely = next((full for full in (255, 65535) if largest <= full), math.ceil(largest))
        raise UnreadableCase(
            f"intensities go up to {largest:g}, not 1; declare the largest possible one, such as intensity_scale = {likely}"
        )


def _check_metres(xyzi: Array) -> None:
    if _implausible(xyzi) > 0.5:
        sample = next(f"{number:g}" for number in xyzi[:, :3].ravel() if _implausible(np.array([[number]])))
        raise UnreadableCase(
            f"most coordinates are implausible as metres from the sensor, such as {sample}; "
            f"convert them, or check the layout"
        )


def _implausible(numbers: Array) -> float:
    """The share of points with a coordinate that no sensor measures."""
    with np.errstate(all="ignore"):
        size = np.abs(numbers[:, :3])
        return float(((size > FARTHEST) | ((size < NEAREST) & (size > 0))).any(axis=1).mean())


def _bin(file: BinaryIO, layout: str) -> StoredPoints:
    size, row = size_of(file), 4 * LAYOUTS[layout]
    if size % row:
        fitting = [name for name, numbers in LAYOUTS.items() if not size % (4 * numbers)]
        hint = f"layout '{fitting[0]}' would fit" if fitting else "no known layout fits: the file may be truncated"
        raise UnreadableCase(f"{size:,} bytes are not a multiple of {row}, the size of a point in '{layout}'; {hint}")
    check_count(size // row)
    numbers = np.frombuffer(file.read(size), "<f4")
    check_size(numbers.nbytes, size)
    xyzi = numbers.reshape(-1, LAYOUTS[layout])[:, :4]
    _check_order(xyzi)
    _check_layout(numbers, layout)
    return StoredPoints(np.ascontiguousarray(xyzi))


def _check_order(xyzi: Array) -> None:
    if _implausible(xyzi) > 0.5 and _implausible(xyzi.astype(">f4").view("<f4")) < 0.5:
        raise UnreadableCase("the numbers are big-endian, but .bin must be little-endian; swap the bytes of each number")


def _check_layout(numbers: Array, layout: str) -> None:
    """If the length fits both layouts, refuse the declared one when the numbers clearly fit the other."""
    fits_both = not numbers.size % 4 and not numbers.size % 5
    (other,) = LAYOUTS.keys() - {layout}
    if fits_both and numbers.size >= 5 * ENOUGH and (_below_zero(numbers, layout, other) or _ringed(numbers, layout)):
        raise UnreadableCase(f"the numbers fit the layout '{other}', not '{layout}'; declare layout = '{other}'")


def _below_zero(numbers: Array, layout: str, other: str) -> bool:
    """Whether many intensities would be negative in the declared layout, and none in the other."""
    here, there = (numbers[3 :: LAYOUTS[name]] < 0 for name in (layout, other))
    return bool(here.mean() >= MANY and not there.any())


def _ringed(numbers: Array, layout: str) -> bool:
    """Whether `xyzi` is declared but every fifth number, unlike the others, is whole, as ring indices are."""
    return layout == "xyzi" and _whole(numbers[4::5]) and not _whole(numbers)


def _whole(numbers: Array) -> bool:
    with np.errstate(all="ignore"):
        return bool(((numbers >= 0) & (numbers == np.floor(numbers))).all())


def _npy(file: BinaryIO) -> StoredPoints:
    """A table of N rows and at least 3 columns; arrays that NumPy would unpickle are refused."""
    kind, by_column, (rows, columns) = _npy_header(file)
    check_count(rows)
    if columns < 3:
        raise UnreadableCase(f"the array has {columns} columns; a point needs x, y and z, and optionally an intensity")
    check_size(size_of(file), rows * columns * kind.itemsize)
    table = np.frombuffer(file.read(), kind).reshape((rows, columns), order="F" if by_column else "C")
    xyzi = np.zeros((rows, 4), np.float32)
    with np.errstate(all="ignore"):
        xyzi[:, : min(columns, 4)] = table[:, :4]
    return StoredPoints(xyzi)


def _npy_header(file: BinaryIO) -> tuple[np.dtype[np.generic], bool, tuple[int, int]]:
    start = file.read(8)
    wide = {1: 2, 2: 4, 3: 4}.get(start[6], 0) if len(start) == 8 and start.startswith(NPY) else 0
    length = int.from_bytes(file.read(wide), "little")
    if not wide or not 0 < length <= LONGEST_HEADER:
        raise UnreadableCase("the file does not start like a .npy file")
    header = file.read(length).decode("latin-1")
    kind = re.search(r"'descr': *'([<>|=][iuf][1248])'", header)
    order = re.search(r"'fortran_order': *(True|False)", header)
    shape = re.search(r"'shape': *\(([0-9]{1,15}), *([0-9]{1,15}),? *\)", header)
    if not (kind and order and shape):
        raise UnreadableCase(
            "the file must contain an array of numbers with N rows and 3 or more columns; object arrays are never read"
        )
    if kind[1][1:] == "f1":
        raise UnreadableCase(f"the array has the unsupported number type {kind[1]}; save it as float32")
    return np.dtype(kind[1]), order[1] == "True", (int(shape[1]), int(shape[2]))


READERS: Mapping[str, Callable[[BinaryIO], StoredPoints]] = MappingProxyType(
    {".npy": _npy, ".pcd": pcd.read, ".ply": ply.read}
)
SUFFIXES = (".bin", *READERS)
