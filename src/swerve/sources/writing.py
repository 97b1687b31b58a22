"""What every format writes: a case with its file name, its picture, and its boxes as far as a trainer can use them."""

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
    """A format, writing to the folder it was made with."""

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None: ...

    def add(self, entry: WrittenCase) -> Path:
        """Write one case; returns the path of its picture, or of its sweep where there is none."""

    def close(self) -> None:
        """Write what can only be told at the end."""

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        """The file or folder of a side that a training program is given."""


class Box(NamedTuple):
    """A box in pixels, clipped to the picture; without `care` it is neither demanded nor forbidden."""

    left: float
    top: float
    right: float
    bottom: float
    kind: str
    care: bool
    number: int  # in the label


@dataclass(frozen=True)
class WrittenCase:
    """A case about to be written: its side and its number, counted over all sides from 0."""

    case: Case
    split: str
    number: int

    @property
    def name(self) -> str:
        """A file name without suffix that no key can lead astray: the number, then what is harmless of the key."""
        return f"{self.number:06d}-{slug(self.case.key)}"

    @property
    def image(self) -> Image:
        """The picture: of several cameras the one named 'camera' or else the first, of a window its last frame."""
        found = self._last("camera", Image)
        if found is None:
            raise InputError(f"'{self.case.key}' has no picture to write, only {', '.join(self.case.inputs) or 'nothing'}")
        return found

    @property
    def pictured(self) -> bool:
        """Whether there is a picture."""
        return self._last("camera", Image) is not None

    @property
    def cloud(self) -> PointCloud | None:
        """The point cloud, if any: the one named 'lidar' or else the first, of a window its last."""
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
        """The labelled boxes that show at least a sliver within the picture."""
        label = find(self.case.truth, Boxes2D.slot)
        if not isinstance(label, Boxes2D):
            raise InputError(f"'{self.case.key}' has no boxes to write; its labels are {_slots(self.case)}")
        self.refuse_size("boxes", label.size)
        if why := label.fault() or _inverted(label):
            raise InputError(f"'{self.case.key}' cannot be written: {why}")
        width, height = self.image.size
        clipped = np.clip(label.xyxy, 0, (width, height, width, height)).tolist()
        rows = zip(clipped, label.kinds, np.asarray(label.care).tolist(), range(len(clipped)), strict=True)
        return [Box(*corners, *rest) for corners, *rest in rows if _has_area(corners)]

    def refuse_size(self, what: str, size: tuple[int, int] | None) -> None:
        """Refuse labels of a picture that has another size than the one to be written."""
        if size is not None and size != self.image.size:
            theirs, ours = ("x".join(map(str, one)) for one in (size, self.image.size))
            raise InputError(
                f"'{self.case.key}' cannot be written: its {what} are of a picture of {theirs}, its picture is {ours}"
            )


def slug(text: str) -> str:
    """What is harmless of a text in a file name."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[-LONGEST_SLUG:] or "case"


def put(path: Path, data: bytes) -> Path:
    """Write a file, its folders too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _inverted(label: Boxes2D) -> str | None:
    for number, (left, top, right, bottom) in enumerate(label.xyxy.tolist()):
        if right < left or bottom < top:
            corners = f"({left:g}, {top:g}) to ({right:g}, {bottom:g})"
            return f"box {number + 1} ('{printable(label.kinds[number])}') ends before it begins: {corners}"
    return None


def _has_area(corners: list[float]) -> bool:
    left, top, right, bottom = corners
    return right > left and bottom > top


def _slots(case: Case) -> str:
    return ", ".join(value.slot for value in case.truth) or "none"


class Spool:
    """Rows kept on disk until all are there, so that a set of any size is written in the same memory."""

    def __init__(self) -> None:
        self._file: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.count = 0

    def add(self, row: Any) -> None:
        """Keep one row."""
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
        """Give the disk back."""
        self._file.close()


class Spools(dict[str, Spool]):
    """Spools by name, made when first asked for; the disk is given back at the end of the `with` block."""

    def __missing__(self, name: str) -> Spool:
        self[name] = Spool()
        return self[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for spool in self.values():
            spool.close()


class KindNumbers:
    """Numbers for kinds: first those known beforehand, then others in the order in which they turn up."""

    def __init__(self, known: Sequence[str], first: int = 0) -> None:
        self._first = first
        self.numbers: dict[str, int] = {}
        for kind in known:
            self.number(kind)

    def number(self, kind: str) -> int:
        """The number of a kind."""
        return self.numbers.setdefault(kind, self._first + len(self.numbers))
