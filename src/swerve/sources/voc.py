"""Pascal VOC: one XML file of boxes for each picture, and lists of pictures."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from xml.etree.ElementTree import Element

from swerve.errors import UnreadableCase
from swerve.sources.boxes import Boxed, Drawn, Size, files, lines, needed, refuse_size, text
from swerve.sources.images import SUFFIXES
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.texts import number, xml_file

LABELS = "labels"


@dataclass(frozen=True)
class Voc(Boxed):
    """The pictures of `ImageSets/Main/SPLIT.txt`, or all there are; a difficult box is neither demanded nor forbidden.

    The folder is that of one year, or one with a folder for each split. VOC counts pixels from 1, ends included: a box runs
    from xmin - 1 to xmax. What the frame cuts off (truncated) is demanded as any other.
    """

    split: str = ""

    def manifests(self) -> Sequence[str]:
        return (self._list,) if self.split else ()

    def listed(self) -> Iterable[Entry]:
        for name in self._names():
            found = self._pictures.get(name, [posixpath.join(self._home, "JPEGImages", f"{name}.jpg")])
            labels = posixpath.join(self._home, "Annotations", f"{name}.xml")
            fault = f"{name}: two pictures, {found[0]} and {found[1]}" if len(found) > 1 else ""
            yield Entry(name, {CAMERA: found[0], LABELS: labels}, fault=fault)

    def drawn(self, entry: Entry, size: Size) -> Iterator[Drawn]:
        name = entry.files[LABELS]
        page = xml_file(self.root, name)
        if page.tag != "annotation":
            raise UnreadableCase(f"{name}: expected <annotation>, got <{page.tag}>")
        if (told := page.find("size")) is not None:
            refuse_size(name, (told.findtext("width"), told.findtext("height")), size)
        for at, found in enumerate(page.findall("object"), start=1):
            yield _box(found, f"{name}: box {at}")

    def _names(self) -> Iterable[str]:
        if self.split:
            with needed(self.root):
                return [line.split()[0] for line in lines(self.root, self._list) if line]
        labelled = files(self.root, ".xml", under="Annotations")
        return sorted({*self._pictures, *(PurePosixPath(name).stem for name in labelled)})

    @cached_property
    def _pictures(self) -> Mapping[str, list[str]]:
        """The pictures by name without suffix."""
        found: dict[str, list[str]] = {}
        for name in files(self.root, *SUFFIXES, under=posixpath.join(self._home, "JPEGImages")):
            found.setdefault(PurePosixPath(name).stem, []).append(name)
        return found

    @cached_property
    def _home(self) -> str:
        """The folder of the split, where each has its own."""
        return self.split if self.split and self.root.has(self._listing(self.split)) else ""

    @property
    def _list(self) -> str:
        return self._listing(self._home)

    def _listing(self, home: str) -> str:
        return posixpath.join(home, "ImageSets", "Main", f"{self.split}.txt")


def _box(found: Element, place: str) -> Drawn:
    left, top, right, bottom = (
        number(found.findtext(f"bndbox/{name}"), f"{place}, {name}") for name in ("xmin", "ymin", "xmax", "ymax")
    )
    kind = text((found.findtext("name") or "").strip(), f"{place}, name")
    difficult = (found.findtext("difficult") or "0").strip() == "1"
    return Drawn(place, (left - 1, top - 1, right, bottom), kind, care=not difficult)
