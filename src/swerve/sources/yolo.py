"""YOLO: one text file of boxes for each picture, and `data.yaml` with the names of the kinds."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from swerve.errors import InputError, UnreadableCase
from swerve.sources.boxes import Drawn, Outlined, Size, files, lines, needed, table, text
from swerve.sources.images import SUFFIXES
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.texts import number, yaml_file

LABELS = "labels"
NO_LABELS = "classes.txt"  # what labelling programs leave beside the labels


@dataclass(frozen=True)
class Yolo(Outlined):
    """The pictures that `data` gives for `split`, or those in the folder `images`; the labels lie in `labels` beside it.

    Without the file `data`, `names` are the kinds in the order of their numbers. A picture without a file of labels is left
    out, unless `unlabelled` says that it shows nothing. A line that draws a polygon stands for the box round it.
    """

    split: str = "val"
    data: str = "data.yaml"
    images: str = ""
    names: tuple[str, ...] = ()
    unlabelled: bool = False

    def manifests(self) -> Sequence[str]:
        lists = [place for place in self._places if place.endswith(".txt")]
        return (self.data, *lists) if self._has_data else lists

    def listed(self) -> Iterable[Entry]:
        self.refuse_unknown(self._kinds.values())
        for place in self._places:
            if place.endswith(".txt"):
                yield from self._from_list(place)
            else:
                yield from self._from_folder(place)

    def _from_folder(self, folder: str) -> Iterator[Entry]:
        if not os.path.isdir(self.folder / folder):  # unlike Path, it takes names of any length
            raise InputError(f"{self.folder / folder}: there is no such folder of pictures")
        pictures = files(self.root, *SUFFIXES, under=folder)
        yield from map(self._entry, pictures)
        labels = labels_of(posixpath.join(folder, "x.txt"))
        taken = {labels_of(picture) for picture in pictures}
        for name in files(self.root, ".txt", under=posixpath.dirname(labels)):
            if name not in taken and PurePosixPath(name).name != NO_LABELS:
                yield Entry(name, {LABELS: name}, fault=f"{name}: labels without a picture")

    def _from_list(self, name: str) -> Iterator[Entry]:
        with needed(self.root):
            told = [line for line in lines(self.root, name) if line]
        for line in told:
            picture = self._below(posixpath.dirname(name), line)
            outside = f"{name}: {line}: outside the data set's folder {self.folder.name}"
            yield Entry(line, fault=outside) if picture is None else self._entry(picture)

    def _entry(self, picture: str) -> Entry:
        labels = labels_of(picture)
        both = {CAMERA: picture, LABELS: labels}
        if self.root.has(labels):
            return Entry(picture, both, group=posixpath.dirname(picture))
        why = f"{picture}: there are no labels {labels}; if that means that it shows nothing, say unlabelled = true"
        return Entry(picture, {CAMERA: picture}, group=posixpath.dirname(picture), fault="" if self.unlabelled else why)

    def drawn(self, entry: Entry, size: Size) -> Iterator[Drawn]:
        if name := entry.files.get(LABELS):
            for at, line in enumerate(lines(self.root, name), start=1):
                if line:
                    yield self._box(line.split(), size, f"{name}: line {at}")

    def _box(self, words: Sequence[str], size: Size, place: str) -> Drawn:
        told, *shares = (number(word, place) for word in words)
        if told not in self._kinds:
            raise UnreadableCase(f"{place} is of kind {told:g}, which has no name")
        kind = self._kinds[int(told)]
        if len(shares) == 4:
            across, down, wide, high = (share * size[at % 2] for at, share in enumerate(shares))
            return Drawn(place, (across - wide / 2, down - high / 2, across + wide / 2, down + high / 2), kind)
        if len(shares) < 6 or len(shares) % 2:
            raise UnreadableCase(f"{place} has {len(words)} numbers: a box has 5, a polygon 7, 9, 11 and so on")
        ring = [share * size[at % 2] for at, share in enumerate(shares)]
        return Drawn(place, (min(ring[::2]), min(ring[1::2]), max(ring[::2]), max(ring[1::2])), kind, outline=[ring])

    @cached_property
    def _kinds(self) -> Mapping[int, str]:
        """The names of the kinds by their numbers."""
        told: Any = self.names or self._data.get("names")
        with needed(self.root):
            if not isinstance(told, Mapping | list | tuple):
                raise UnreadableCase(f"{self.data}: the names of the kinds are missing; give names = [...]")
            pairs = told.items() if isinstance(told, Mapping) else enumerate(told)
            place = f"{self.data}: names"
            return {_whole(key, place): text(name, f"{place}, {key}") for key, name in pairs}

    @cached_property
    def _places(self) -> Sequence[str]:
        """The folders of pictures, and the lists of them that end in `.txt`."""
        if self.images or not self._has_data:
            return [self._inside("images", "", self.images or "images")]
        told = self._data.get(self.split)
        if told is None:
            splits = ", ".join(name for name in ("train", "val", "test") if name in self._data)
            raise InputError(f"{self.folder / self.data}: there is no split '{self.split}', only {splits or 'none'}")
        base = self._inside("path", posixpath.dirname(self.data), self._data.get("path") or ".")
        return [self._inside(self.split, base, item) for item in (told if isinstance(told, list) else [told])]

    def _inside(self, name: str, base: str, told: Any) -> str:
        found = self._below(base, str(told))
        if found is None:
            near = str(told).lstrip("./")
            hint = near if os.path.isdir(self.folder / near) else "FOLDER"
            why = f"{name} = {told} leads outside the data set's folder"
            raise InputError(f"{self.folder / self.data}: {why}; give the pictures' folder below it: images = '{hint}'")
        return found

    def _below(self, base: str, told: str) -> str | None:
        """A path relative to the data set's folder, or None where it leads out."""
        path = posixpath.normpath(posixpath.join(base, told))
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
        with needed(self.root):
            return table(yaml_file(self.root, self.data), self.data)


def labels_of(picture: str) -> str:
    """Where the labels of a picture lie: the last folder `images` on its path becomes `labels`."""
    path = PurePosixPath(picture).with_suffix(".txt")
    parts = list(path.parts)
    folders = [place for place, part in enumerate(parts[:-1]) if part == "images"]
    if folders:
        parts[folders[-1]] = LABELS
    return posixpath.join(*parts)


def _whole(told: Any, place: str) -> int:
    found = number(told, place)
    if not found.is_integer():
        raise UnreadableCase(f"{place}: {found:g} is not a whole number")
    return int(found)
