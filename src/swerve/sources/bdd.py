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
    as_rows,
    as_table,
    as_text,
    corner_values,
    fatal,
    known_kind,
    list_files,
)
from swerve.sources.listed import CAMERA, Entry, plain_facts
from swerve.sources.texts import json_file

LABELS = "labels"
LIGHT = "traffic light"
# The names of the releases of 2018 and of 2020.
CATEGORIES = (
    *("bus", "car", "rider", "traffic light", "traffic sign", "train", "truck", "bike", "motor", "person"),
    *("bicycle", "motorcycle", "pedestrian", "other person", "other vehicle", "trailer"),
)
NO_COLOUR = "none"
STATES: Mapping[str, str] = MappingProxyType(
    {"red": "red", "yellow": "yellow", "green": "green", "none": "off", "r": "red", "y": "yellow", "g": "green", "na": "off"}
)
PLACES = ("labels/det_20/det_{}.json", "labels/bdd100k_labels_images_{}.json", "labels/100k/{}")
ENDS = ("x1", "y1", "x2", "y2")


@dataclass(frozen=True)
class Bdd100k(Boxed):
    """The pictures of `images/SPLIT` with the boxes of `labels`: one file for all, or a folder with one file for each.

    With `lights`, only traffic lights are labelled, by their colours; a light without a colour in the data set is `off` and
    ignored. With `occluded` false, partly hidden objects are ignored too. The drive of a picture is its video.
    Its columns are its attributes in a file for all: weather, scene and time of day.
    """

    split: str = "val"
    labels: str = ""  # by default the first of PLACES that exists
    images: str = "images/100k"
    lights: bool = False
    occluded: bool = True

    def manifests(self) -> Sequence[str]:
        return () if self._is_folder else (self._labels,)

    def listed(self) -> Iterable[Entry]:
        self.check_kinds(COLOURS if self.lights else CATEGORIES)
        folder = posixpath.join(self.images, self.split)
        labelled: set[str] = set()
        for entry in self._from_folder(folder) if self._is_folder else self._from_file(folder):
            labelled.add(entry.files[CAMERA])
            yield entry
        for name in list_files(self.root, *SUFFIXES, under=folder):
            if name not in labelled:
                yield Entry(posixpath.relpath(name, folder), {CAMERA: name}, fault=f"{name}: no labels in {self._labels}")

    def _from_file(self, folder: str) -> Iterator[Entry]:
        for name, frame in self._frames:
            video = frame.get("videoName") or PurePosixPath(name).stem
            facts = plain_facts(frame.get("attributes"))
            yield Entry(name, {CAMERA: posixpath.join(folder, name)}, group=str(video), columns=facts)

    def _from_folder(self, folder: str) -> Iterator[Entry]:
        for name in list_files(self.root, ".json", under=self._labels):
            stem = PurePosixPath(name).stem
            yield Entry(f"{stem}.jpg", {CAMERA: posixpath.join(folder, f"{stem}.jpg"), LABELS: name}, group=stem)

    def label_boxes(self, entry: Entry, size: Size) -> Iterator[LabelledBox]:
        del size
        if LABELS in entry.files:
            place = entry.files[LABELS]
            objects = self._only_frame(place).get("objects")
        else:
            place = f"{self._labels}: {entry.key}"
            objects = self._by_name[entry.key].get("labels")
        for at, row in enumerate(as_rows(objects or [], place), start=1):
            yield from self._box(as_table(row, f"{place}: box {at}"), f"{place}: box {at}")

    def _box(self, row: Mapping[str, Any], place: str) -> Iterator[LabelledBox]:
        """The box of a label, if it has one; lanes and drivable areas have none."""
        if row.get("box2d") is None or (self.lights and row.get("category") != LIGHT):
            return
        kind, care = known_kind(row.get("category"), CATEGORIES, place), True
        facts = as_table(row.get("attributes") or {}, f"{place}, attributes")
        if self.lights:
            colour = facts.get("trafficLightColor", facts.get("trafficLightColour", NO_COLOUR))
            kind = STATES[known_kind(str(colour).lower(), STATES, place)]
            care = kind != "off"
        left, top, right, bottom = corner_values(row["box2d"], ENDS, place)
        yield LabelledBox(
            place, (left, top, right, bottom), kind, care=care and (self.occluded or not facts.get("occluded"))
        )

    def _only_frame(self, name: str) -> Mapping[str, Any]:
        page = as_table(json_file(self.root, name), name)
        frames = as_rows(page.get("frames"), f"{name}: frames")
        return as_table(frames[0], f"{name}: frames") if frames else {}

    @cached_property
    def _labels(self) -> str:
        tried = [self.labels] if self.labels else [place.format(self.split) for place in PLACES]
        found = next((place for place in tried if os.path.exists(self.folder / place)), None)
        if found is None:
            raise InputError(f"{self.folder}: no labels at {' or '.join(tried)}; set labels = 'FILE'")
        return found

    @cached_property
    def _is_folder(self) -> bool:
        return os.path.isdir(self.folder / self._labels)

    @cached_property
    def _by_name(self) -> Mapping[str, Mapping[str, Any]]:
        return dict(self._frames)

    @cached_property
    def _frames(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Every picture in the file, with its labels."""
        with fatal(self.root):
            items = as_rows(json_file(self.root, self._labels), self._labels)
            frames = [as_table(frame, f"{self._labels}: picture {at}") for at, frame in enumerate(items, start=1)]
            places = (f"{self._labels}: name of picture {at}" for at in range(1, len(frames) + 1))
            return [(as_text(frame.get("name"), place), frame) for frame, place in zip(frames, places, strict=True)]
