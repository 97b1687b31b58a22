"""Pascal VOC: one XML file of boxes for each picture, and lists of pictures; its reader and its writer."""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from swerve.core.errors import UnreadableCase, printable
from swerve.sources.images import SUFFIXES
from swerve.sources.labelled_boxes import Boxed, LabelledBox, Size, as_text, check_size, fatal, list_files, read_lines
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.texts import number, xml_file
from swerve.sources.writing import Box, Spools, WrittenCase, put

LABELS = "labels"


@dataclass(frozen=True)
class Voc(Boxed):
    """The pictures of `ImageSets/Main/SPLIT.txt`, or all pictures; difficult boxes are ignored.

    The folder is that of one year, or has a sub-folder for each split. VOC counts pixels from 1 and includes both ends: a
    box is from xmin - 1 to xmax. Truncated objects are required like any other. Without a folder `Annotations`, the XML
    files are expected beside their pictures, where labelImg writes them.
    """

    split: str = ""

    def manifests(self) -> Sequence[str]:
        return (self._list,) if self.split else ()

    def listed(self) -> Iterable[Entry]:
        if self.kinds or self.rename:
            self.check_kinds(self._kinds())
        for name in self._names():
            found = self._pictures.get(name, [posixpath.join(self._home, self._place("JPEGImages"), f"{name}.jpg")])
            labels = posixpath.join(self._home, self._place("Annotations"), f"{name}.xml")
            fault = f"{name}: two pictures, {found[0]} and {found[1]}" if len(found) > 1 else ""
            yield Entry(name, {CAMERA: found[0], LABELS: labels}, fault=fault)

    def label_boxes(self, entry: Entry, size: Size) -> Iterator[LabelledBox]:
        name = entry.files[LABELS]
        page = xml_file(self.root, name)
        if page.tag != "annotation":
            raise UnreadableCase(f"{name}: expected <annotation>, got <{page.tag}>")
        if (stored := page.find("size")) is not None:
            both = stored.findtext("width"), stored.findtext("height")
            if both != ("0", "0"):  # some programs write this for unknown
                check_size(name, both, size)
        for at, found in enumerate(page.findall("object"), start=1):
            yield _box(found, f"{name}: box {at}")

    def _names(self) -> Iterable[str]:
        if self.split:
            with fatal(self.root):
                return [line.split()[0] for line in read_lines(self.root, self._list) if line]
        labelled = {self._stem(name) for name in self._labels()}
        return sorted({*self._pictures, *labelled}) if labelled or not self._flat else ()

    def _kinds(self) -> Collection[str]:
        """Every kind in the labels."""
        found: set[str] = set()
        for name in self._labels():
            with suppress(UnreadableCase):  # its case is skipped for that reason
                things = xml_file(self.root, name).findall("object")
                found.update((thing.findtext("name") or "").strip() for thing in things)
        return sorted(found - {""})

    def _labels(self) -> Sequence[str]:
        return list_files(self.root, ".xml", under=posixpath.join(self._home, self._place("Annotations")))

    @cached_property
    def _pictures(self) -> Mapping[str, list[str]]:
        """The pictures by name without suffix."""
        found: dict[str, list[str]] = {}
        for name in list_files(self.root, *SUFFIXES, under=posixpath.join(self._home, self._place("JPEGImages"))):
            found.setdefault(self._stem(name), []).append(name)
        return found

    def _stem(self, name: str) -> str:
        path = PurePosixPath(name).with_suffix("")
        return posixpath.relpath(path, self._home or ".") if self._flat else path.name

    def _place(self, folder: str) -> str:
        return "" if self._flat else folder

    @cached_property
    def _flat(self) -> bool:
        return not any(os.path.isdir(self.folder / self._home / name) for name in ("Annotations", "JPEGImages"))

    @cached_property
    def _home(self) -> str:
        """The folder of the split, if each has its own."""
        return self.split if self.split and self.root.has(self._listing(self.split)) else ""

    @property
    def _list(self) -> str:
        return self._listing(self._home)

    def _listing(self, home: str) -> str:
        return posixpath.join(home, "ImageSets", "Main", f"{self.split}.txt")


def _box(found: Element, place: str) -> LabelledBox:
    left, top, right, bottom = (
        number(found.findtext(f"bndbox/{name}"), f"{place}, {name}") for name in ("xmin", "ymin", "xmax", "ymax")
    )
    kind = as_text((found.findtext("name") or "").strip(), f"{place}, name")
    difficult = (found.findtext("difficult") or "0").strip() == "1"
    return LabelledBox(place, (left - 1, top - 1, right, bottom), kind, care=not difficult)


class VocWriter:
    """Writes `SPLIT/JPEGImages`, `SPLIT/Annotations` and `SPLIT/ImageSets/Main/SPLIT.txt`; an ignored box is difficult.

    VOC counts whole pixels from 1 and includes both ends: a box is written as the pixels it touches.
    """

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None:
        del kinds
        self._folder, self._names = folder, spools

    def add(self, entry: WrittenCase) -> Path:
        home = self._folder / entry.split
        self._names[entry.split].add(entry.name)
        put(home / "Annotations" / f"{entry.name}.xml", self._page(entry))
        return entry.write_picture(home / "JPEGImages")

    def _page(self, entry: WrittenCase) -> bytes:
        width, height = entry.image.size
        size = {"width": width, "height": height, "depth": 3}
        page = _element(
            "annotation", {"folder": "JPEGImages", "filename": f"{entry.name}.png", "size": size, "segmented": 0}
        )
        page.extend(_element("object", self._object(box)) for box in entry.boxes())
        ElementTree.indent(page)
        text: str = ElementTree.tostring(page, encoding="unicode")
        return f"{text}\n".encode()

    def _object(self, box: Box) -> dict[str, Any]:
        corners = {
            "xmin": math.floor(box.left) + 1,
            "ymin": math.floor(box.top) + 1,
            "xmax": math.ceil(box.right),
            "ymax": math.ceil(box.bottom),
        }
        facts = {"pose": "Unspecified", "truncated": 0, "difficult": int(not box.care)}
        return {"name": printable(box.kind), **facts, "bndbox": corners}

    def close(self) -> None:
        for split, names in self._names.items():
            put(self.place(self._folder, split), "".join(f"{name}\n" for name in names.rows()).encode())

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / split / "ImageSets" / "Main" / f"{split}.txt"


def _element(tag: str, content: Any) -> ElementTree.Element:
    element = ElementTree.Element(tag)
    if isinstance(content, dict):
        element.extend(_element(name, item) for name, item in content.items())
    else:
        element.text = str(content)
    return element
