"""COCO: one JSON file of pictures, boxes, outlines and categories; its reader and its writer."""

from __future__ import annotations

import json
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from swerve.core.errors import UnreadableCase
from swerve.core.values import Array, Boxes2D, Masks, find
from swerve.sources.labelled_boxes import LabelledBox, Outlined, Size, as_rows, as_table, as_text, check_size, fatal
from swerve.sources.listed import CAMERA, Entry, plain_facts
from swerve.sources.texts import json_file, number
from swerve.sources.writing import Box, KindNumbers, Spools, WrittenCase
from swerve.store.files import whole_file

Row = Mapping[str, Any]
Id = int | str
OWN = ("id", "file_name", "width", "height", "license", "flickr_url", "coco_url")  # of a picture, of no use as columns


class _Picture(NamedTuple):
    number: Id
    row: Row


class _Page(NamedTuple):
    pictures: Sequence[_Picture]
    boxes: Mapping[Id, Sequence[Row]]  # of each picture
    kinds: Mapping[Id, str]


@dataclass(frozen=True)
class Coco(Outlined):
    """Pictures below `images` with the boxes of `labels`; crowds are ignored.

    A listed picture without boxes is a case without objects; files that are not listed are not read. The drive of a picture
    is its folder below `images`; its columns are what else is listed of it, such as weather or date_captured.
    """

    labels: str = "labels.json"
    images: str = "images"

    def manifests(self) -> Sequence[str]:
        return (self.labels,)

    def listed(self) -> Iterable[Entry]:
        self.check_kinds(self._page.kinds.values())
        times = Counter(picture.number for picture in self._page.pictures)
        for picture in self._page.pictures:
            key = picture.row["file_name"]
            twice = times[picture.number] > 1
            fault = f"{self.labels}: {key}: another picture has the same id {picture.number}" if twice else ""
            files, facts = {CAMERA: posixpath.join(self.images, key)}, plain_facts(picture.row, without=OWN)
            yield Entry(key, files, group=posixpath.dirname(key), fault=fault, columns=facts)
        yield from self._unlisted(times)

    def _unlisted(self, known: Mapping[Id, int]) -> Iterator[Entry]:
        for image in self._page.boxes:
            if image not in known:
                yield Entry(f"image {image}", fault=f"{self.labels}: boxes for image {image}, which is not listed")

    def label_boxes(self, entry: Entry, size: Size) -> Iterator[LabelledBox]:
        picture = self._pictures[entry.key]
        place = f"{self.labels}: {entry.key}"
        check_size(place, (picture.row.get("width", size[0]), picture.row.get("height", size[1])), size)
        for at, row in enumerate(self._page.boxes.get(picture.number, ()), start=1):
            yield self._box(row, f"{place}: box {at}")

    def _box(self, row: Row, place: str) -> LabelledBox:
        left, top, wide, high = (number(item, f"{place}, bbox") for item in _four(row.get("bbox"), place))
        category = row.get("category_id")
        if not isinstance(category, int | str) or category not in self._page.kinds:
            raise UnreadableCase(f"{place} has category {category!r}, which is not in 'categories'")
        outline = row.get("segmentation") if self.masks else None
        where = left, top, left + wide, top + high
        return LabelledBox(place, where, self._page.kinds[category], care=not row.get("iscrowd"), outline=outline)

    @cached_property
    def _pictures(self) -> Mapping[str, _Picture]:
        return {picture.row["file_name"]: picture for picture in self._page.pictures}

    @cached_property
    def _page(self) -> _Page:
        with fatal(self.root):
            page = as_table(json_file(self.root, self.labels), self.labels)
            pictures = [_Picture(_id(row, "id", place), row) for place, row in self._rows(page, "images")]
            for picture in pictures:
                as_text(picture.row.get("file_name"), f"{self.labels}: file_name of image {picture.number}")
            boxes: dict[Id, list[Row]] = {}
            for place, row in self._rows(page, "annotations"):
                boxes.setdefault(_id(row, "image_id", place), []).append(row)
            kinds = {
                _id(row, "id", place): as_text(row.get("name"), f"{place}, name")
                for place, row in self._rows(page, "categories")
            }
            return _Page(pictures, boxes, kinds)

    def _rows(self, page: Row, name: str) -> Iterator[tuple[str, Row]]:
        for at, row in enumerate(as_rows(page.get(name), f"{self.labels}: {name}"), start=1):
            place = f"{self.labels}: item {at} of {name}"
            yield place, as_table(row, place)


def _id(row: Row, name: str, place: str) -> Id:
    found = row.get(name)
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise UnreadableCase(f"{place}: '{name}' must be a whole number or a string, got {found!r}")
    return found


def _four(bbox: Any, place: str) -> Sequence[Any]:
    if not isinstance(bbox, list) or len(bbox) != 4:
        raise UnreadableCase(f"{place}: 'bbox' must be a list of left, top, width and height")
    return bbox


class CocoWriter:
    """Writes `SPLIT/NAME.png` and `annotations/instances_SPLIT.json`; an ignored box is a crowd.

    Masks of the same objects are written as uncompressed run lengths, which are lossless.
    """

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None:
        self._folder, self._rows = folder, spools
        self._kinds = KindNumbers(kinds, first=1)
        self._splits: dict[str, None] = {}
        self._numbers = 0

    def add(self, entry: WrittenCase) -> Path:
        width, height = entry.image.size
        row = {"id": entry.number + 1, "file_name": f"{entry.name}.png", "width": width, "height": height}
        self._splits[entry.split] = None
        self._rows[f"images {entry.split}"].add(row)
        for box in entry.boxes():
            self._rows[f"boxes {entry.split}"].add(self._annotation(box, entry.number + 1) | _shape(entry, box))
        return entry.write_picture(self._folder / entry.split)

    def _annotation(self, box: Box, image: int) -> dict[str, Any]:
        self._numbers += 1
        wide, high = box.right - box.left, box.bottom - box.top
        where = {"bbox": [box.left, box.top, wide, high], "area": wide * high, "segmentation": []}
        kind = self._kinds.number(box.kind)
        return {"id": self._numbers, "image_id": image, "category_id": kind, "iscrowd": int(not box.care), **where}

    def close(self) -> None:
        kinds = [{"id": number, "name": kind} for kind, number in self._kinds.numbers.items()]
        for split in self._splits:
            path = self.place(self._folder, split)
            path.parent.mkdir(exist_ok=True)
            images, boxes = (self._rows[f"{what} {split}"].texts() for what in ("images", "boxes"))
            lists = {"images": images, "annotations": boxes, "categories": map(json.dumps, kinds)}
            with whole_file(path) as file:
                file.writelines(text.encode() for text in _page(lists))

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / "annotations" / f"instances_{split}.json"


def _shape(entry: WrittenCase, box: Box) -> dict[str, Any]:
    """The mask and area of a box's object, if it is labelled."""
    flat, masks = find(entry.case.truth, Boxes2D.slot), find(entry.case.truth, Masks.slot)
    if not isinstance(masks, Masks) or not isinstance(flat, Boxes2D) or tuple(masks.kinds.values()) != flat.kinds:
        return {}
    entry.check_size("masks", masks.instances.shape[::-1])
    mine = masks.instances == list(masks.kinds)[box.number]
    return {"segmentation": {"size": list(mine.shape), "counts": _run_lengths(mine)}, "area": int(mine.sum())}


def _run_lengths(mask: Array) -> list[int]:
    """Lengths of runs of equal pixels, column by column, starting with pixels outside the mask."""
    flat = np.concatenate([[False], mask.ravel(order="F")])
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    return [int(count) for count in np.diff(np.concatenate([[0], changes, [mask.size]]))]


def _page(lists: dict[str, Iterator[str]]) -> Iterator[str]:
    """The text of the file: items that are JSON already, one per line, after fields that some readers require."""
    yield '{\n"info": {},\n"licenses": []'
    for name, items in lists.items():
        yield f',\n"{name}": ['
        for place, item in enumerate(items):
            yield f"{',' if place else ''}\n{item}"
        yield "\n]"
    yield "\n}\n"
