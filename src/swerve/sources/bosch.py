"""Bosch Small Traffic Lights: one YAML file of pictures and lights."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, ClassVar

from swerve.sources.labelled_boxes import LabelledBox, Lights, Size, corners, needed, rows, table, text
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.texts import yaml_file

ENDS = ("x_min", "y_min", "x_max", "y_max")
WAYS = ("", "Left", "Right", "Straight", "StraightLeft", "StraightRight")


@dataclass(frozen=True)
class Bosch(Lights):
    """The 8-bit pictures of `labels` with their lights; with `occluded` false, hidden ones are not demanded.

    Paths are relative to the file of labels. Those of `test.yaml` lead to a disk of its makers: such a picture is looked for
    by its own name in `rgb/test`, the name being that of the file. The drive of a picture is its folder.
    """

    labels: str = "train.yaml"
    occluded: bool = True
    colours: ClassVar[Mapping[str, str]] = MappingProxyType(
        {**{f"{colour}{way}": colour.lower() for colour in ("Red", "Yellow", "Green") for way in WAYS}, "off": "off"}
    )

    def manifests(self) -> Sequence[str]:
        return (self.labels,)

    def listed(self) -> Iterable[Entry]:
        self.refuse_unknown_states()
        for name, _ in self._rows:
            yield Entry(name, {CAMERA: name}, group=posixpath.dirname(name))

    def drawn(self, entry: Entry, size: Size) -> Iterator[LabelledBox]:
        del size
        place = f"{self.labels}: {entry.key}"
        for at, told in enumerate(rows(self._by_name[entry.key].get("boxes"), f"{place}: boxes"), start=1):
            yield self._box(table(told, f"{place}: box {at}"), f"{place}: box {at}")

    def _box(self, row: Mapping[str, Any], place: str) -> LabelledBox:
        left, top, right, bottom = corners(row, ENDS, place)
        care = self.occluded or not row.get("occluded")
        return LabelledBox(place, (left, top, right, bottom), self.state(row.get("label"), place), care=care)

    @cached_property
    def _by_name(self) -> Mapping[str, Mapping[str, Any]]:
        return dict(self._rows)

    @cached_property
    def _rows(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Every picture below the folder, and what the file says of it."""
        with needed(self.root):
            told = rows(yaml_file(self.root, self.labels), self.labels)
            pictures = [table(item, f"{self.labels}: picture {at}") for at, item in enumerate(told, start=1)]
            return [(self._picture(item, at), item) for at, item in enumerate(pictures, start=1)]

    def _picture(self, item: Mapping[str, Any], at: int) -> str:
        path = text(item.get("path"), f"{self.labels}: path of picture {at}")
        own = PurePosixPath(self.labels)
        if posixpath.isabs(path):
            path = posixpath.join("rgb", own.stem, posixpath.basename(path))
        return posixpath.normpath(own.parent / path)
