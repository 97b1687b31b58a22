"""Cityscapes: street scenes in which every pixel has a class, and every car, person and bicycle an instance number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import numpy as np
from scipy.ndimage import find_objects, label

from swerve.core.errors import UnreadableCase
from swerve.core.values import Array, Boxes2D, Classes, Image, Masks, Value
from swerve.sources import images
from swerve.sources.labelled_boxes import LabelledSource
from swerve.sources.listed import CAMERA, Entry

# The official names of the classes 0 to 33 (cityscapesScripts, labels.py).
NAMES = (
    *("unlabeled", "ego vehicle", "rectification border", "out of roi", "static", "dynamic", "ground"),
    *("road", "sidewalk", "parking", "rail track", "building", "wall", "fence", "guard rail", "bridge", "tunnel"),
    *("pole", "polegroup", "traffic light", "traffic sign", "vegetation", "terrain", "sky"),
    *("person", "rider", "car", "truck", "bus", "caravan", "trailer", "train", "motorcycle", "bicycle"),
)
THINGS = range(NAMES.index("person"), len(NAMES))  # classes with instances
UNJUDGED = ("caravan", "trailer")  # which the official evaluation ignores
OWN = 1000  # an instance number is its class times this plus a count: 26003 is the fourth car
INSTANCES, CLASSES = "instanceIds", "labelIds"

Found = tuple[int, tuple[slice, slice], bool]  # a class, its rows and columns, and whether it is a single object


@dataclass(frozen=True)
class Cityscapes(LabelledSource):
    """Pictures `*_leftImg8bit.png` with their `*_gtFine_instanceIds.png`, anywhere below `folder`.

    Each object has a mask under its instance number and a box around its visible pixels. Boxes of caravans, trailers and
    crowds without separate instances are ignored. If there is a `_gtFine_labelIds.png`, its classes must agree. Each
    sequence of a city is a drive.

    Args:
        split: use only pictures below a folder of this name, such as `val`.
        pictures: the ending of picture names, such as `leftImg8bit_foggy_beta_0.02`.
        labels: `gtFine` or `gtCoarse`.
        kinds: keep only these, by their official names.
        rename: other names for official ones, such as `person = "pedestrian"`.
        classes: also read the class of every pixel, which translations from label maps are made from.
    """

    split: str = ""
    pictures: str = "leftImg8bit"
    labels: str = "gtFine"
    classes: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_kinds([NAMES[number] for number in THINGS])

    def listed(self) -> Iterable[Entry]:
        """One entry per picture; one without instances, or with two files of them, cannot be used."""
        labels = {what: self._by_frame(f"_{self.labels}_{what}.png") for what in (INSTANCES, CLASSES)}
        for name in self.root.names(f"_{self.pictures}.png"):
            if not self.split or self.split in PurePosixPath(name).parts[:-1]:
                key = _frame(name, f"_{self.pictures}.png")
                found = {what: files[key] for what, files in labels.items() if key in files}
                files = {CAMERA: name, **{what: names[0] for what, names in found.items()}}
                yield Entry(key, files, group=key.rpartition("_")[0], fault=_fault(name, found))

    def truth(self, entry: Entry, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
        picture = inputs[CAMERA]
        assert isinstance(picture, Image)
        name = entry.files[INSTANCES]
        ids = images.read_labels(self.root, name)
        if ids.shape != picture.pixels.shape[:2]:
            raise UnreadableCase(
                f"{name} is {_size(ids)}, but {entry.files[CAMERA]} is {_size(picture.pixels)}; both must have the same size"
            )
        _check_classes(ids, name)
        if CLASSES in entry.files:
            _check_alike(ids, images.read_labels(self.root, entry.files[CLASSES]), name, entry.files[CLASSES])
        wanted = [number for number in THINGS if self.wanted(NAMES[number])]
        instances = np.where(np.isin(ids // OWN, wanted), ids, 0)
        found = self._masks(instances), self._boxes([*_alone(instances), *_crowds(ids, wanted)], picture.size)
        return (*found, self._classes(ids)) if self.classes else found

    def _by_frame(self, suffix: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self.root.names(suffix):
            found.setdefault(_frame(name, suffix), []).append(name)
        return found

    def _masks(self, instances: Array) -> Masks:
        return Masks(instances, {number: self._kind(number // OWN) for number in _numbers(instances) if number})

    def _classes(self, ids: Array) -> Classes:
        return Classes(np.where(ids >= OWN, ids // OWN, ids), {number: self._kind(number) for number in range(len(NAMES))})

    def _boxes(self, found: Sequence[Found], size: tuple[int, int]) -> Boxes2D:
        return Boxes2D(
            np.array([(x.start, y.start, x.stop, y.stop) for _, (y, x), _ in found], np.float64).reshape(-1, 4),
            tuple(self._kind(number) for number, _, _ in found),
            size=size,
            care=np.array([alone and NAMES[number] not in UNJUDGED for number, _, alone in found], bool),
        )

    def _kind(self, number: int) -> str:
        return self.named(NAMES[number])


def _fault(picture: str, found: Mapping[str, Sequence[str]]) -> str:
    if INSTANCES not in found:
        return f"{picture}: no file of its {INSTANCES}"
    twice = next((names for names in found.values() if len(names) > 1), None)
    return f"{picture}: two label files, {twice[0]} and {twice[1]}" if twice else ""


def _alone(instances: Array) -> Iterator[Found]:
    """The class and extent of every object with an instance number."""
    for number, span in enumerate(find_objects(instances), start=1):
        if span is not None:
            yield number // OWN, span, True


def _crowds(ids: Array, classes: Iterable[int]) -> Iterator[Found]:
    """The class and extent of every connected crowd without instance numbers."""
    for number in classes:
        if (crowd := ids == number).any():
            yield from ((number, span, False) for span in find_objects(label(crowd)[0]))


def _numbers(ids: Array) -> list[int]:
    """Every number that occurs, in ascending order."""
    return [int(number) for number in np.flatnonzero(np.bincount(ids.ravel()))]


def _check_classes(ids: Array, name: str) -> None:
    for number in _numbers(ids):
        kind = number // OWN if number >= OWN else number
        if kind >= len(NAMES) or (number >= OWN and kind not in THINGS):
            raise UnreadableCase(f"{name}: {number} is not a valid class or instance number")


def _check_alike(ids: Array, classes: Array, name: str, other: str) -> None:
    """Refuse a frame whose two label files contradict each other."""
    if ids.shape != classes.shape:
        raise UnreadableCase(f"{name} is {_size(ids)}, but {other} is {_size(classes)}; both must have the same size")
    if wrong := np.count_nonzero(np.where(ids >= OWN, ids // OWN, ids) != classes):
        raise UnreadableCase(f"{name} and {other} have different classes in {wrong:,} pixels")


def _size(pixels: Array) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"


def _frame(name: str, suffix: str) -> str:
    """The frame that a file belongs to: city, sequence and number."""
    return PurePosixPath(name).name[: -len(suffix)]
