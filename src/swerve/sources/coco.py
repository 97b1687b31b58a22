"""COCO: one JSON file of pictures, boxes, outlines and categories."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from swerve.core.errors import UnreadableCase
from swerve.sources.labelled_boxes import LabelledBox, Outlined, Size, needed, refuse_size, rows, table, text
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.texts import json_file, number

Row = Mapping[str, Any]
Id = int | str


class _Picture(NamedTuple):
    number: Id
    row: Row


class _Page(NamedTuple):
    pictures: Sequence[_Picture]
    boxes: Mapping[Id, Sequence[Row]]  # of each picture
    kinds: Mapping[Id, str]


@dataclass(frozen=True)
class Coco(Outlined):
    """Pictures below `images` with the boxes of `labels`; a crowd is neither demanded nor forbidden.

    A listed picture without a box is a case that shows nothing; files that are not listed are not looked at. The drive of
    a picture is its folder below `images`.
    """

    labels: str = "labels.json"
    images: str = "images"

    def manifests(self) -> Sequence[str]:
        return (self.labels,)

    def listed(self) -> Iterable[Entry]:
        self.refuse_unknown(self._page.kinds.values())
        times = Counter(picture.number for picture in self._page.pictures)
        for picture in self._page.pictures:
            key = picture.row["file_name"]
            twice = times[picture.number] > 1
            fault = f"{self.labels}: {key}: another picture has its id {picture.number} too" if twice else ""
            yield Entry(key, {CAMERA: posixpath.join(self.images, key)}, group=posixpath.dirname(key), fault=fault)
        yield from self._strays(times)

    def _strays(self, known: Mapping[Id, int]) -> Iterator[Entry]:
        for image in self._page.boxes:
            if image not in known:
                yield Entry(f"image {image}", fault=f"{self.labels}: boxes of image {image}, which is not listed")

    def drawn(self, entry: Entry, size: Size) -> Iterator[LabelledBox]:
        picture = self._pictures[entry.key]
        place = f"{self.labels}: {entry.key}"
        told = (picture.row.get("width", size[0]), picture.row.get("height", size[1]))
        refuse_size(place, told, size)
        for at, row in enumerate(self._page.boxes.get(picture.number, ()), start=1):
            yield self._box(row, f"{place}: box {at}")

    def _box(self, row: Row, place: str) -> LabelledBox:
        left, top, wide, high = (number(item, f"{place}, bbox") for item in _four(row.get("bbox"), place))
        category = row.get("category_id")
        if not isinstance(category, int | str) or category not in self._page.kinds:
            raise UnreadableCase(f"{place} is of category {category!r}, which is not listed")
        outline = row.get("segmentation") if self.masks else None
        where = left, top, left + wide, top + high
        return LabelledBox(place, where, self._page.kinds[category], care=not row.get("iscrowd"), outline=outline)

    @cached_property
    def _pictures(self) -> Mapping[str, _Picture]:
        return {picture.row["file_name"]: picture for picture in self._page.pictures}

    @cached_property
    def _page(self) -> _Page:
        with needed(self.root):
            page = table(json_file(self.root, self.labels), self.labels)
            pictures = [_Picture(_id(row, "id", place), row) for place, row in self._rows(page, "images")]
            for picture in pictures:
                text(picture.row.get("file_name"), f"{self.labels}: file_name of image {picture.number}")
            boxes: dict[Id, list[Row]] = {}
            for place, row in self._rows(page, "annotations"):
                boxes.setdefault(_id(row, "image_id", place), []).append(row)
            kinds = {
                _id(row, "id", place): text(row.get("name"), f"{place}, name")
                for place, row in self._rows(page, "categories")
            }
            return _Page(pictures, boxes, kinds)

    def _rows(self, page: Row, name: str) -> Iterator[tuple[str, Row]]:
        for at, row in enumerate(rows(page.get(name), f"{self.labels}: {name}"), start=1):
            place = f"{self.labels}: item {at} of {name}"
            yield place, table(row, place)


def _id(row: Row, name: str, place: str) -> Id:
    found = row.get(name)
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise UnreadableCase(f"{place}: {name} is {found!r}, not a whole number or a text")
    return found


def _four(told: Any, place: str) -> Sequence[Any]:
    if not isinstance(told, list) or len(told) != 4:
        raise UnreadableCase(f"{place}: bbox is not a list of left, top, width and height")
    return told
