"""Bosch Small Traffic Lights: one YAML file of pictures and lights; its reader and its writer."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, ClassVar

from swerve.sources.labelled_boxes import (
    LabelledBox,
    Lights,
    Size,
    as_rows,
    as_table,
    as_text,
    corner_values,
    fatal,
    state_name,
)
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.texts import yaml_file
from swerve.sources.writing import Box, Spools, WrittenCase, slug
from swerve.store.files import whole_file

ENDS = ("x_min", "y_min", "x_max", "y_max")
WAYS = ("", "Left", "Right", "Straight", "StraightLeft", "StraightRight")


@dataclass(frozen=True)
class Bosch(Lights):
    """The 8-bit pictures of `labels` with their lights; with `occluded` false, hidden lights are ignored.

    Paths are relative to the label file. `test.yaml` contains absolute paths of its authors' machine: such a picture is
    looked up by its file name in `rgb/test`, named after the label file. The drive of a picture is its folder.
    """

    labels: str = "train.yaml"
    occluded: bool = True
    colours: ClassVar[Mapping[str, str]] = MappingProxyType(
        {**{f"{colour}{way}": colour.lower() for colour in ("Red", "Yellow", "Green") for way in WAYS}, "off": "off"}
    )

    def manifests(self) -> Sequence[str]:
        return (self.labels,)

    def listed(self) -> Iterable[Entry]:
        self.check_states()
        for name, _ in self._rows:
            yield Entry(name, {CAMERA: name}, group=posixpath.dirname(name))

    def label_boxes(self, entry: Entry, size: Size) -> Iterator[LabelledBox]:
        del size
        place = f"{self.labels}: {entry.key}"
        for at, box in enumerate(as_rows(self._by_name[entry.key].get("boxes"), f"{place}: boxes"), start=1):
            yield self._box(as_table(box, f"{place}: box {at}"), f"{place}: box {at}")

    def _box(self, row: Mapping[str, Any], place: str) -> LabelledBox:
        left, top, right, bottom = corner_values(row, ENDS, place)
        care = self.occluded or not row.get("occluded")
        return LabelledBox(place, (left, top, right, bottom), self.state(row.get("label"), place), care=care)

    @cached_property
    def _by_name(self) -> Mapping[str, Mapping[str, Any]]:
        return dict(self._rows)

    @cached_property
    def _rows(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Every picture's path below the folder, with its labels."""
        with fatal(self.root):
            items = as_rows(yaml_file(self.root, self.labels), self.labels)
            pictures = [as_table(item, f"{self.labels}: picture {at}") for at, item in enumerate(items, start=1)]
            return [(self._picture(item, at), item) for at, item in enumerate(pictures, start=1)]

    def _picture(self, item: Mapping[str, Any], at: int) -> str:
        path = as_text(item.get("path"), f"{self.labels}: path of picture {at}")
        own = PurePosixPath(self.labels)
        if posixpath.isabs(path):
            path = posixpath.join("rgb", own.stem, posixpath.basename(path))
        return posixpath.normpath(own.parent / path)


class BoschWriter:
    """Writes `rgb/SPLIT/DRIVE/NAME.png` and `SPLIT.yaml`; an ignored light is occluded: read it with `occluded = false`."""

    names: ClassVar[Mapping[str, str]] = MappingProxyType({"red": "Red", "yellow": "Yellow", "green": "Green"})

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None:
        del kinds
        self._folder, self._rows = folder, spools

    def add(self, entry: WrittenCase) -> Path:
        drive = posixpath.join("rgb", entry.split, slug(entry.case.group))
        boxes = [self._box(box, entry) for box in entry.boxes()]
        self._rows[entry.split].add({"boxes": boxes, "path": f"./{drive}/{entry.name}.png"})
        return entry.write_picture(self._folder / drive)

    def _box(self, box: Box, entry: WrittenCase) -> dict[str, Any]:
        label = state_name(box.kind, self.names, Bosch.colours, entry.case.key)
        ends = dict(zip(ENDS, (box.left, box.top, box.right, box.bottom), strict=True))
        return {"label": label, "occluded": not box.care, **ends}

    def close(self) -> None:
        for split, rows in self._rows.items():
            with whole_file(self.place(self._folder, split)) as file:
                file.writelines(f"- {json.dumps(row)}\n".encode() for row in rows.rows())  # JSON is also YAML

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / f"{split}.yaml"
