"""YOLO: one text file of boxes for each picture, and `data.yaml` with the names of the kinds; its reader and its writer."""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from swerve.core.errors import InputError, UnreadableCase, printable
from swerve.sources.images import SUFFIXES
from swerve.sources.labelled_boxes import LabelledBox, Outlined, Size, as_table, as_text, fatal, list_files, read_lines
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.texts import number, yaml_file
from swerve.sources.writing import Box, KindNumbers, Spools, WrittenCase, put
from swerve.systems.detector import COCO

LABELS = "labels"
NO_LABELS = "classes.txt"  # a list of names that labelling programs write beside the labels


@dataclass(frozen=True)
class Yolo(Outlined):
    """The pictures that `data` lists for `split`, or those in the folder `images`; their labels are in `labels` beside it.

    Without the file `data`, `names` lists the kinds in the order of their numbers, or is `coco` for COCO's 80. A path in
    `data` that leads out of the folder, such as an absolute path of another machine, is looked up below the folder. A
    picture without a label file is skipped, unless `unlabelled` declares that it shows no objects. A polygon becomes its
    bounding box.
    """

    split: str = "val"
    data: str = "data.yaml"
    images: str = ""
    names: tuple[str, ...] | str = ()
    unlabelled: bool = False

    def manifests(self) -> Sequence[str]:
        lists = [place for place in self._places if place.endswith(".txt")]
        return (self.data, *lists) if self._has_data else lists

    def listed(self) -> Iterable[Entry]:
        self.check_kinds(self._kinds.values())
        for place in self._places:
            if place.endswith(".txt"):
                yield from self._from_list(place)
            else:
                yield from self._from_folder(place)

    def _from_folder(self, folder: str) -> Iterator[Entry]:
        if not os.path.isdir(self.folder / folder):  # unlike Path.is_dir, accepts names of any length
            raise InputError(f"{self.folder / folder}: no such folder of pictures; {self._hint}")
        pictures = list_files(self.root, *SUFFIXES, under=folder)
        yield from map(self._entry, pictures)
        labels = labels_of(posixpath.join(folder, "x.txt"))
        taken = {labels_of(picture) for picture in pictures}
        for name in list_files(self.root, ".txt", under=posixpath.dirname(labels)):
            if name not in taken and PurePosixPath(name).name != NO_LABELS:
                yield Entry(name, {LABELS: name}, fault=f"{name}: labels without a picture")

    def _from_list(self, name: str) -> Iterator[Entry]:
        with fatal(self.root):
            listed = [line for line in read_lines(self.root, name) if line]
        for line in listed:
            beside = posixpath.dirname(name)
            picture = self._found([beside], line) or self._below(beside, line)
            outside = f"{name}: {line}: outside the data set's folder {self.folder.name}"
            yield Entry(line, fault=outside) if picture is None else self._entry(picture)

    def _entry(self, picture: str) -> Entry:
        labels = labels_of(picture)
        both = {CAMERA: picture, LABELS: labels}
        if self.root.has(labels):
            return Entry(picture, both, group=posixpath.dirname(picture))
        why = f"{picture}: no label file {labels}; if such pictures show no objects, set unlabelled = true"
        return Entry(picture, {CAMERA: picture}, group=posixpath.dirname(picture), fault="" if self.unlabelled else why)

    def label_boxes(self, entry: Entry, size: Size) -> Iterator[LabelledBox]:
        if name := entry.files.get(LABELS):
            for at, line in enumerate(read_lines(self.root, name), start=1):
                if line:
                    yield self._box(line.split(), size, f"{name}: line {at}")

    def _box(self, words: Sequence[str], size: Size, place: str) -> LabelledBox:
        code, *shares = (number(word, place) for word in words)
        if code not in self._kinds:
            raise UnreadableCase(f"{place} has the class number {code:g}, which has no name in 'names'")
        kind = self._kinds[int(code)]
        if len(shares) == 4:
            across, down, wide, high = (share * size[at % 2] for at, share in enumerate(shares))
            return LabelledBox(place, (across - wide / 2, down - high / 2, across + wide / 2, down + high / 2), kind)
        if len(shares) < 6 or len(shares) % 2:
            raise UnreadableCase(f"{place} has {len(words)} numbers; a box has 5, a polygon 7, 9, 11 and so on")
        ring = [share * size[at % 2] for at, share in enumerate(shares)]
        return LabelledBox(place, (min(ring[::2]), min(ring[1::2]), max(ring[::2]), max(ring[1::2])), kind, outline=[ring])

    @cached_property
    def _kinds(self) -> Mapping[int, str]:
        """The names of the kinds by their numbers."""
        if isinstance(self.names, str) and self.names not in ("", "coco"):
            raise InputError(f"'names' must be 'coco' or a list of kinds, got {self.names!r}")
        names: Any = COCO if self.names == "coco" else self.names or self._data.get("names")
        with fatal(self.root):
            if not isinstance(names, Mapping | list | tuple):
                raise UnreadableCase(f"{self.data}: the names of the kinds are missing; set names = [...]")
            pairs = names.items() if isinstance(names, Mapping) else enumerate(names)
            place = f"{self.data}: names"
            return {_whole(key, place): as_text(name, f"{place}, {key}") for key, name in pairs}

    @cached_property
    def _places(self) -> Sequence[str]:
        """The folders of pictures, and the `.txt` files that list pictures."""
        if self.images or not self._has_data:
            return [self._picture_folder(self.images or "images")]
        paths = self._data.get(self.split)
        if paths is None:
            splits = ", ".join(name for name in ("train", "val", "test") if name in self._data)
            raise InputError(f"{self.folder / self.data}: no split '{self.split}'; splits are {splits or 'none'}")
        return [self._place(str(item)) for item in (paths if isinstance(paths, list) else [paths])]

    def _picture_folder(self, folder: str) -> str:
        found = self._below("", folder)
        if found is None:
            raise InputError(f"{self.folder}: images = {folder} leads outside the data set's folder; {self._hint}")
        return found

    def _place(self, path: str) -> str:
        """The folder or list of pictures that a path in `data` refers to."""
        here = posixpath.dirname(self.data)
        home = str(self._data.get("path") or ".")
        bases = self._found([here], home), self._below(here, home), here
        found = self._found([base for base in bases if base is not None], path)
        if found is None:
            why = f"{self.split} = {path}: no such folder or list in the data set's folder"
            raise InputError(f"{self.folder / self.data}: {why}; {self._hint}")
        return found

    @property
    def _hint(self) -> str:
        folders = sorted({posixpath.dirname(name) for name in self.root.names(*SUFFIXES)})
        named = [folder for folder in folders if "images" in folder.split("/")] or folders
        choices = " or ".join(f"'{folder or '.'}'" for folder in named[:4])
        return f"set images = {choices}" if named else "the folder has no pictures"

    def _found(self, bases: Iterable[str], path: str) -> str | None:
        """The first candidate for a path that exists."""
        candidates = [candidate for base in bases for candidate in self._candidates(base, path)]
        return next((found for found in candidates if os.path.exists(self.folder / found)), None)

    def _candidates(self, base: str, path: str) -> Iterator[str]:
        """Paths below the folder that a path may mean: itself, and without the part that leads out."""
        if (plain := self._below(base, path)) is not None:
            yield plain
        parts = PurePosixPath(posixpath.normpath(path)).parts
        if posixpath.isabs(path):
            yield from (posixpath.join(*parts[start:]) for start in range(1, len(parts)))
        elif (inner := [part for part in parts if part != ".."]) != list(parts):
            yield posixpath.join(base, *inner)

    def _below(self, base: str, path: str) -> str | None:
        """A path relative to the data set's folder, or None if it leads out."""
        path = posixpath.normpath(posixpath.join(base, path))
        if posixpath.isabs(path):
            path = os.path.relpath(path, os.path.abspath(self.folder))
        return None if PurePosixPath(path).parts[:1] == ("..",) else path

    @cached_property
    def _has_data(self) -> bool:
        return self.root.has(self.data)

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        if not self._has_data:
            return {}
        with fatal(self.root):
            return as_table(yaml_file(self.root, self.data), self.data)


def labels_of(picture: str) -> str:
    """The path of a picture's labels: the last folder `images` in its path becomes `labels`."""
    path = PurePosixPath(picture).with_suffix(".txt")
    parts = list(path.parts)
    folders = [place for place, part in enumerate(parts[:-1]) if part == "images"]
    if folders:
        parts[folders[-1]] = LABELS
    return posixpath.join(*parts)


def _whole(value: Any, place: str) -> int:
    found = number(value, place)
    if not found.is_integer():
        raise UnreadableCase(f"{place}: {found:g} is not a whole number")
    return int(found)


class YoloWriter:
    """Writes `images/SPLIT`, `labels/SPLIT` and `data.yaml`; ignored boxes, which YOLO cannot express, are omitted."""

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
        # JSON is also YAML, unless it escapes a character as two surrogates.
        kinds = {number: json.dumps(printable(kind), ensure_ascii=False) for kind, number in self._kinds.numbers.items()}
        names = [f"  {number}: {kind}" for number, kind in kinds.items()]
        put(self._folder / "data.yaml", "\n".join([*folders, "names:" if names else "names: {}", *names, ""]).encode())

    @staticmethod
    def place(folder: Path, split: str) -> Path:
        return folder / "images" / split
