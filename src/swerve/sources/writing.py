"""What all writers of data sets share: a case with its file name, picture and usable boxes, and rows spooled to disk.

A writer is created with its folder, takes one case at a time, and `close` writes the files that need all cases. Training and
test cases are kept apart in every format.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError, printable
from swerve.core.values import Boxes2D, Group, Image, PointCloud, Value, find
from swerve.store.files import png_bytes

LONGEST_SLUG = 60

Sensed = TypeVar("Sensed", Image, PointCloud)


class Writer(Protocol):
    """The writer of a format."""

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None: ...

    def add(self, entry: WrittenCase) -> Path:
        """Write one case; returns the path of its picture, or of its sweep if it has no picture."""

    def close(self) -> None:
        """Write the files that need all cases."""

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        """The file or folder of a split that is passed to a training program."""


class Box(NamedTuple):
    """A box in pixels, clipped to the picture; without `care` it is ignored."""

    left: float
    top: float
    right: float
    bottom: float
    kind: str
    care: bool
    number: int  # its index in the label


@dataclass(frozen=True)
class WrittenCase:
    """A case to be written, its split, and its number, counted from 0 over all splits."""

    case: Case
    split: str
    number: int

    @property
    def name(self) -> str:
        """A safe file name without suffix: the number, then the key's harmless characters."""
        return f"{self.number:06d}-{slug(self.case.key)}"

    @property
    def image(self) -> Image:
        """The picture: the input 'camera', otherwise the first one; the last frame of a window."""
        found = self._last("camera", Image)
        if found is None:
            raise InputError(
                f"case '{self.case.key}' has no picture to write; its inputs are {', '.join(self.case.inputs) or 'none'}"
            )
        return found

    @property
    def has_picture(self) -> bool:
        """Whether the case has a picture."""
        return self._last("camera", Image) is not None

    @property
    def cloud(self) -> PointCloud | None:
        """The point cloud, if any: the input 'lidar', otherwise the first one; the last of a window."""
        return self._last("lidar", PointCloud)

    def _last(self, name: str, kind: type[Sensed]) -> Sensed | None:
        inputs: Mapping[str, Value] = self.case.inputs
        ordered = [inputs[name], *inputs.values()] if name in inputs else inputs.values()
        last = (value.values[-1] if isinstance(value, Group) and value.values else value for value in ordered)
        return next((value for value in last if isinstance(value, kind)), None)

    def write_picture(self, folder: Path, name: str | None = None) -> Path:
        """Write the picture losslessly to `folder`."""
        return put(folder / f"{name or self.name}.png", png_bytes(self.image.pixels))

    def boxes(self) -> list[Box]:
        """The labelled boxes with some area inside the picture."""
        label = find(self.case.truth, Boxes2D.slot)
        if not isinstance(label, Boxes2D):
            raise InputError(f"case '{self.case.key}' has no boxes to write; its labels are {_slots(self.case)}")
        self.check_size("boxes", label.size)
        if why := label.fault() or _inverted(label):
            raise InputError(f"'{self.case.key}' cannot be written: {why}")
        width, height = self.image.size
        clipped = np.clip(label.xyxy, 0, (width, height, width, height)).tolist()
        rows = zip(clipped, label.kinds, np.asarray(label.care).tolist(), range(len(clipped)), strict=True)
        return [Box(*corners, *rest) for corners, *rest in rows if _has_area(corners)]

    def check_size(self, what: str, size: tuple[int, int] | None) -> None:
        """Raise `InputError` if labels are for a picture of another size."""
        if size is not None and size != self.image.size:
            theirs, ours = ("x".join(map(str, one)) for one in (size, self.image.size))
            raise InputError(
                f"'{self.case.key}' cannot be written: its {what} are for a picture of {theirs}, but its picture is {ours}"
            )


def slug(text: str) -> str:
    """The characters of a text that are safe in a file name."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[-LONGEST_SLUG:] or "case"


def put(path: Path, data: bytes) -> Path:
    """Write a file, creating its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _inverted(label: Boxes2D) -> str | None:
    for number, (left, top, right, bottom) in enumerate(label.xyxy.tolist()):
        if right < left or bottom < top:
            corners = f"({left:g}, {top:g}) to ({right:g}, {bottom:g})"
            return f"box {number + 1} ('{printable(label.kinds[number])}') has a negative size: {corners}"
    return None


def _has_area(corners: list[float]) -> bool:
    left, top, right, bottom = corners
    return right > left and bottom > top


def _slots(case: Case) -> str:
    return ", ".join(value.slot for value in case.truth) or "none"


class Spool:
    """Rows kept on disk until all are known, so that memory does not grow with the data set."""

    def __init__(self) -> None:
        self._file: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.count = 0

    def add(self, row: Any) -> None:
        """Append one row."""
        self._file.write(json.dumps(row) + "\n")
        self.count += 1

    def texts(self) -> Iterator[str]:
        """Every row as JSON, in order."""
        self._file.seek(0)
        return (line.rstrip("\n") for line in self._file)

    def rows(self) -> Iterator[Any]:
        """Every row, in order."""
        return map(json.loads, self.texts())

    def close(self) -> None:
        """Delete the rows."""
        self._file.close()


class Spools(dict[str, Spool]):
    """Spools by name, created on first use and deleted at the end of the `with` block."""

    def __missing__(self, name: str) -> Spool:
        self[name] = Spool()
        return self[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for spool in self.values():
            spool.close()


class KindNumbers:
    """Numbers for kinds: first those given, then others in the order of their first use."""

    def __init__(self, known: Sequence[str], first: int = 0) -> None:
        self._first = first
        self.numbers: dict[str, int] = {}
        for kind in known:
            self.number(kind)

    def number(self, kind: str) -> int:
        """The number of a kind."""
        return self.numbers.setdefault(kind, self._first + len(self.numbers))
