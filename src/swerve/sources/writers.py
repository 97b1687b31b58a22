"""Writers of labelled pictures: Udacity's CSV, COCO, YOLO and Pascal VOC. KITTI has a module of its own.

Each is made with the folder it writes to, takes one entry at a time, and `close` writes what can only be told at the
end. What trains lies apart from what is tested in every one of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree

import numpy as np

from swerve.core.errors import InputError, printable
from swerve.core.values import Array, Boxes2D, Masks, Steering, find
from swerve.sources.written_case import Box, Spools, WrittenCase, put
from swerve.store.files import whole_file, write_csv


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


class UdacityWriter:
    """Challenge 2: `SPLIT/center/FRAME_ID.png` and `SPLIT/steering.csv` with radians of the wheel, left positive."""

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None:
        del kinds
        self._folder, self._rows = folder, spools

    def add(self, entry: WrittenCase) -> Path:
        label = find(entry.case.truth, Steering.slot)
        if not isinstance(label, Steering) or label.fault():
            raise InputError(f"'{entry.case.key}' has no steering angle to write")
        self._rows[entry.split].add((entry.name, math.radians(label.degrees)))
        return entry.write_picture(self._folder / entry.split / "center")

    def close(self) -> None:
        for split, rows in self._rows.items():
            write_csv(self._folder / split / "steering.csv", ("frame_id", "steering_angle"), rows.rows())

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / split


class CocoWriter:
    """`SPLIT/NAME.png` and `annotations/instances_SPLIT.json`; a box without care is a crowd.

    Where the label has masks of the same objects, they are written as uncompressed run lengths, which lose nothing.
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
    """What COCO says of a box's object beyond the box: its pixels, if they are labelled."""
    flat, masks = find(entry.case.truth, Boxes2D.slot), find(entry.case.truth, Masks.slot)
    if not isinstance(masks, Masks) or not isinstance(flat, Boxes2D) or tuple(masks.kinds.values()) != flat.kinds:
        return {}
    entry.refuse_size("masks", masks.instances.shape[::-1])
    mine = masks.instances == list(masks.kinds)[box.number]
    return {"segmentation": {"size": list(mine.shape), "counts": _run_lengths(mine)}, "area": int(mine.sum())}


def _run_lengths(mask: Array) -> list[int]:
    """How many pixels follow each other, column by column, first those outside."""
    flat = np.concatenate([[False], mask.ravel(order="F")])
    changes = np.flatnonzero(flat[1:] != flat[:-1])
    return [int(count) for count in np.diff(np.concatenate([[0], changes, [mask.size]]))]


def _page(lists: dict[str, Iterator[str]]) -> Iterator[str]:
    """A page of COCO: lists whose items are texts of JSON already, one a line, after what some readers ask for."""
    yield '{\n"info": {},\n"licenses": []'
    for name, items in lists.items():
        yield f',\n"{name}": ['
        for place, item in enumerate(items):
            yield f"{',' if place else ''}\n{item}"
        yield "\n]"
    yield "\n}\n"


class YoloWriter:
    """`images/SPLIT`, `labels/SPLIT` and `data.yaml`; YOLO has no word for boxes without care, so they are left out."""

    def __init__(self, folder: Path, spools: Spools, kinds: Sequence[str] = ()) -> None:
        del spools
        self._folder = folder
        self._kinds = KindNumbers(kinds)
        self._splits: dict[str, None] = {}

    def add(self, entry: WrittenCase) -> Path:
        self._splits[entry.split] = None
        lines = [self._line(box, *entry.image.size) for box in entry.boxes() if box.care]
        put(self._folder / "labels" / entry.split / f"{entry.name}.txt", "".join(lines).encode())
        return entry.write_picture(self._folder / "images" / entry.split)

    def _line(self, box: Box, width: int, height: int) -> str:
        middle = (box.left + box.right) / 2 / width, (box.top + box.bottom) / 2 / height
        size = (box.right - box.left) / width, (box.bottom - box.top) / height
        return f"{self._kinds.number(box.kind)} " + " ".join(f"{number:.8f}" for number in (*middle, *size)) + "\n"

    def close(self) -> None:
        folders = [f"{split}: images/{split}" for split in self._splits]
        # A JSON text is a YAML text too, unless it spells a character as two surrogates.
        kinds = {number: json.dumps(printable(kind), ensure_ascii=False) for kind, number in self._kinds.numbers.items()}
        names = [f"  {number}: {kind}" for number, kind in kinds.items()]
        put(self._folder / "data.yaml", "\n".join([*folders, "names:" if names else "names: {}", *names, ""]).encode())

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / "images" / split


class VocWriter:
    """`SPLIT/JPEGImages`, `SPLIT/Annotations` and `SPLIT/ImageSets/Main/SPLIT.txt`; a box without care is difficult.

    VOC counts whole pixels from 1, ends included: a box is written as the pixels it touches.
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
    made = ElementTree.Element(tag)
    if isinstance(content, dict):
        made.extend(_element(name, item) for name, item in content.items())
    else:
        made.text = str(content)
    return made


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
