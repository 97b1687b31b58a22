"""BDD100K: dash-cam pictures with boxes, and the state of every traffic light."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from swerve.core.errors import InputError
from swerve.sources.images import SUFFIXES
from swerve.sources.labelled_boxes import (
    COLOURS,
    Boxed,
    LabelledBox,
    Size,
    corners,
    files,
    known_kind,
    needed,
    rows,
    table,
    text,
)
from swerve.sources.listed import CAMERA, Entry
from swerve.sources.texts import json_file

LABELS = "labels"
LIGHT = "traffic light"
# The names of 2018 and those of 2020.
CATEGORIES = (
    *("bus", "car", "rider", "traffic light", "traffic sign", "train", "truck", "bike", "motor", "person"),
    *("bicycle", "motorcycle", "pedestrian", "other person", "other vehicle", "trailer"),
)
NOT_TOLD = "none"
STATES: Mapping[str, str] = MappingProxyType(
    {"red": "red", "yellow": "yellow", "green": "green", "none": "off", "r": "red", "y": "yellow", "g": "green", "na": "off"}
)
PLACES = ("labels/det_20/det_{}.json", "labels/bdd100k_labels_images_{}.json", "labels/100k/{}")
ENDS = ("x1", "y1", "x2", "y2")


@dataclass(frozen=True)
class Bdd100k(Boxed):
    """The pictures of `images/SPLIT` with the boxes of `labels`: a file for all of them, or a folder with one for each.

    With `lights` the kinds are the colours of the traffic lights, and nothing else is labelled; one whose colour the data
    set does not tell is off, neither demanded nor forbidden. With `occluded` false the same goes for what is partly hidden.
    The drive of a picture is its video.
    """

    split: str = "val"
    labels: str = ""  # the first of PLACES that is there
    images: str = "images/100k"
    lights: bool = False
    occluded: bool = True

    def manifests(self) -> Sequence[str]:
        return () if self._is_folder else (self._labels,)

    def listed(self) -> Iterable[Entry]:
        self.refuse_unknown(COLOURS if self.lights else CATEGORIES)
        folder = posixpath.join(self.images, self.split)
        labelled: set[str] = set()
        for entry in self._one_each(folder) if self._is_folder else self._frames_listed(folder):
            labelled.add(entry.files[CAMERA])
            yield entry
        for name in files(self.root, *SUFFIXES, under=folder):
            if name not in labelled:
                yield Entry(
                    posixpath.relpath(name, folder), {CAMERA: name}, fault=f"{name}: {self._labels} has no labels of it"
                )

    def _frames_listed(self, folder: str) -> Iterator[Entry]:
        for name, frame in self._frames:
            video = frame.get("videoName") or PurePosixPath(name).stem
            yield Entry(name, {CAMERA: posixpath.join(folder, name)}, group=str(video))

    def _one_each(self, folder: str) -> Iterator[Entry]:
        for name in files(self.root, ".json", under=self._labels):
            stem = PurePosixPath(name).stem
            yield Entry(f"{stem}.jpg", {CAMERA: posixpath.join(folder, f"{stem}.jpg"), LABELS: name}, group=stem)

    def drawn(self, entry: Entry, size: Size) -> Iterator[LabelledBox]:
        del size
        if LABELS in entry.files:
            place = entry.files[LABELS]
            told = self._only_frame(place).get("objects")
        else:
            place = f"{self._labels}: {entry.key}"
            told = self._by_name[entry.key].get("labels")
        for at, row in enumerate(rows(told or [], place), start=1):
            yield from self._box(table(row, f"{place}: box {at}"), f"{place}: box {at}")

    def _box(self, row: Mapping[str, Any], place: str) -> Iterator[LabelledBox]:
        """The box of a label, if it has one: lanes and drivable areas have none."""
        if row.get("box2d") is None or (self.lights and row.get("category") != LIGHT):
            return
        kind, care = known_kind(row.get("category"), CATEGORIES, place), True
        facts = table(row.get("attributes") or {}, f"{place}, attributes")
        if self.lights:
            told = facts.get("trafficLightColor", facts.get("trafficLightColour", NOT_TOLD))
            kind = STATES[known_kind(str(told).lower(), STATES, place)]
            care = kind != "off"
        left, top, right, bottom = corners(row["box2d"], ENDS, place)
        yield LabelledBox(
            place, (left, top, right, bottom), kind, care=care and (self.occluded or not facts.get("occluded"))
        )

    def _only_frame(self, name: str) -> Mapping[str, Any]:
        page = table(json_file(self.root, name), name)
        frames = rows(page.get("frames"), f"{name}: frames")
        return table(frames[0], f"{name}: frames") if frames else {}

    @cached_property
    def _labels(self) -> str:
        there = [self.labels] if self.labels else [place.format(self.split) for place in PLACES]
        found = next((place for place in there if os.path.exists(self.folder / place)), None)
        if found is None:
            raise InputError(f"{self.folder}: there are no labels, neither {' nor '.join(there)}; give labels = 'FILE'")
        return found

    @cached_property
    def _is_folder(self) -> bool:
        return os.path.isdir(self.folder / self._labels)

    @cached_property
    def _by_name(self) -> Mapping[str, Mapping[str, Any]]:
        return dict(self._frames)

    @cached_property
    def _frames(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Every picture of the one file and what it says of it."""
        with needed(self.root):
            told = rows(json_file(self.root, self._labels), self._labels)
            frames = [table(frame, f"{self._labels}: picture {at}") for at, frame in enumerate(told, start=1)]
            places = (f"{self._labels}: name of picture {at}" for at in range(1, len(frames) + 1))
            return [(text(frame.get("name"), place), frame) for frame, place in zip(frames, places, strict=True)]
