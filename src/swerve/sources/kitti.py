"""KITTI: the object benchmark's folders, and its raw drives.

Boxes in space stand in the frame of the LiDAR: x ahead, y left, z up, their middle and not their foot, turned about z.
Kinds are KITTI's in small letters. A `DontCare` is a box in the picture without care. In `Boxes2D` the objects that have a
box in space come first and in the order of `Boxes3D`, then those without.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from swerve.core.case import Fact
from swerve.core.errors import InputError, UnreadableCase, did_you_mean
from swerve.core.values import LARGEST_NUMBER, Array, Boxes2D, Boxes3D, Calibration, Image, Value
from swerve.sources.cloud_files import check_declared, cloud
from swerve.sources.folders import in_order
from swerve.sources.images import image
from swerve.sources.labelled_boxes import Corners, LabelledBox, LabelledSource, Size, clipped, files, lines
from swerve.sources.listed import CAMERA, LIDAR, Entry, ListedSource
from swerve.sources.texts import number

LABELS, CALIBRATION = "labels", "calibration"
SENSORS = (CAMERA, LIDAR)
DONT_CARE = "dontcare"
KINDS = ("car", "van", "truck", "pedestrian", "person_sitting", "cyclist", "tram", "misc", DONT_CARE)
SPLITS = ("training", "testing")
COLUMNS = 15
UNSEEN, SIZELESS, NOWHERE = (-1.0,) * 4, (-1.0,) * 3, (-1000.0,) * 3  # what KITTI writes where it does not know
HIDDEN = {-1: 0.0, 0: 0.0, 1: 0.3, 2: 0.75}  # a share for each level of occlusion; 3 is unknown
SHAPES = {**{f"P{camera}": (3, 4) for camera in range(4)}, "R0_rect": (3, 3), "Tr_velo_to_cam": (3, 4)}
NEEDED = ("P2", "R0_rect", "Tr_velo_to_cam")
ANY_SIZE = (1 << 31, 1 << 31)  # of a picture that is not read


Labels = TypeVar("Labels", Boxes2D, Boxes3D)


class KittiObject(NamedTuple):
    """A line of a label file, in the camera's frame."""

    place: str  # file and line
    kind: str
    level: int  # of occlusion
    corners: Corners
    size: tuple[float, ...]  # height, width, length
    foot: tuple[float, ...]
    turned: float

    @property
    def flat(self) -> bool:
        """Whether it has a box in the picture."""
        return self.corners != UNSEEN

    @property
    def solid(self) -> bool:
        """Whether it has a box in space."""
        return self.kind != DONT_CARE and self.size != SIZELESS and self.foot != NOWHERE


@dataclass(frozen=True)
class KittiFrames(ListedSource):
    """Frames of KITTI's car: a case for each that has all of `sensors`, those that lack one are left out and counted."""

    sensors: tuple[str, ...] = SENSORS
    intensity_scale: float | None = field(default=None, kw_only=True)
    places: ClassVar[Mapping[str, tuple[str, str]]] = {}  # folder and suffix of what a case is made of

    def __post_init__(self) -> None:
        given: object = self.sensors
        if isinstance(given, str) or not self.sensors or len(set(self.sensors)) != len(self.sensors):
            raise InputError(f"sensors must be a list such as ['camera', 'lidar'], got {given!r}")
        for sensor in self.sensors:
            if sensor not in SENSORS:
                raise InputError(f"sensors cannot be {sensor!r}: {did_you_mean(str(sensor), SENSORS)}")
        check_declared("xyzi", self.intensity_scale)
        object.__setattr__(self, "sensors", tuple(self.sensors))

    def listed(self) -> Iterable[Entry]:
        kept = {what: self._names(what) for what in self.places if what in self.sensors or what not in SENSORS}
        for sensor in self.sensors:
            if not kept[sensor]:
                raise InputError(f"{self.folder}: no {sensor}, there is no {'/*'.join(self.places[sensor])}")
        told = [what for what, names in kept.items() if names]  # a test set has no labels at all
        for key in sorted({key for what in told if what != CALIBRATION for key in kept[what]}, key=in_order):
            files = {what: kept[what][key] for what in told if key in kept[what]}
            missing = [f"no {what} ({'/*'.join(self.places[what])})" for what in told if what not in files]
            yield Entry(key, files, group=drive_of(key), fault=f"{key}: {', '.join(missing)}" if missing else "")

    def seen(self, entry: Entry) -> tuple[Mapping[str, Value], Mapping[str, Fact]]:
        inputs: dict[str, Value] = {}
        facts: Mapping[str, Fact] = {}
        if CAMERA in self.sensors:
            inputs[CAMERA] = image(self.root, entry.files[CAMERA])
        if LIDAR in self.sensors:
            sweep = cloud(self.root, entry.files[LIDAR], intensity_scale=self.intensity_scale)
            inputs[LIDAR], facts = sweep.points, sweep.facts
        return inputs, facts

    def paths(self, suffix: str) -> Sequence[str]:
        """The files that are looked at."""
        return self.root.names(suffix)

    def _names(self, what: str) -> dict[str, str]:
        """The files of one folder by the keys of their cases."""
        folder, suffix = self.places[what]
        found = ((name, key_of(name, folder)) for name in self.paths(suffix))
        return {key: name for name, key in found if key is not None}


@dataclass(frozen=True)
class Kitti(KittiFrames, LabelledSource):
    """The object benchmark: `image_2`, `velodyne`, `calib` and `label_2`, as `training` has them.

    Without a folder `label_2` there are no labels; without `calib` there are no boxes in space either. `split` is the
    folder to read of several; where there are both `training` and `testing`, which has no labels, it is `training`.
    A `DontCare` stays whatever `kinds` are asked for.
    """

    split: str = field(default="", kw_only=True)
    places: ClassVar[Mapping[str, tuple[str, str]]] = {
        CAMERA: ("image_2", ".png"),
        LIDAR: ("velodyne", ".bin"),
        LABELS: ("label_2", ".txt"),
        CALIBRATION: ("calib", ".txt"),
    }

    def listed(self) -> Iterable[Entry]:
        if not {*self.kinds, *self.rename} <= {*KINDS}:  # KITTI's own need no look into the labels
            self.refuse_unknown(self._kinds())
        return super().listed()

    def paths(self, suffix: str) -> Sequence[str]:
        both = all(os.path.isdir(self.folder / name) for name in SPLITS)
        split = self.split or (SPLITS[0] if both else "")
        found = files(self.root, suffix, under=split)
        if self.split and not os.path.isdir(self.folder / split):
            raise InputError(f"{self.folder}: there is no folder '{split}' for split")
        return found

    def truth(self, entry: Entry, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
        size = size_of(inputs)
        known = self._calibration(entry.files[CALIBRATION], size) if CALIBRATION in entry.files else None
        things = self._things(entry.files[LABELS]) if LABELS in entry.files else []
        made: list[Value | None] = []
        if LABELS in entry.files:
            flat = boxes2d(things, size) if CAMERA in self.sensors else None  # a label is about what is shown
            made = [flat and self._renamed(flat), self._renamed(boxes3d(things, known)) if known else None]
        return tuple(value for value in (*made, known) if value is not None)

    def _renamed(self, boxes: Labels) -> Labels:
        return replace(boxes, kinds=tuple(map(self.named, boxes.kinds)))

    def _things(self, name: str) -> list[KittiObject]:
        numbered = enumerate(lines(self.root, name), start=1)
        things = [thing(line.split(), f"{name} line {row}") for row, line in numbered if line]
        return [one for one in things if one.kind == DONT_CARE or self.wanted(one.kind)]

    def _kinds(self) -> Collection[str]:
        """KITTI's kinds, and every other that the labels tell of."""
        found = set(KINDS)
        for name in self._names(LABELS).values():
            with suppress(UnreadableCase):  # its case is left out with that reason
                found.update(line.split()[0].lower() for line in lines(self.root, name) if line)
        return sorted(found)

    def _calibration(self, name: str, size: Size | None) -> Calibration:
        matrices: dict[str, Array] = {}
        for row, line in enumerate(lines(self.root, name), start=1):
            what, _, numbers = line.partition(":")
            if what in matrices:
                raise UnreadableCase(f"{name} line {row}: {what} for the second time")
            if what in SHAPES:
                matrices[what] = matrix(numbers.split(), SHAPES[what], f"{name} line {row}, {what}")
        return checked(matrices, size, name)


@dataclass(frozen=True)
class KittiRaw(KittiFrames):
    """Raw drives: `DRIVE/image_02/data` and `DRIVE/velodyne_points/data`, rectified, in the order they were driven."""

    places: ClassVar[Mapping[str, tuple[str, str]]] = {
        CAMERA: ("image_02/data", ".png"),
        LIDAR: ("velodyne_points/data", ".bin"),
    }


def key_of(name: str, folder: str) -> str | None:
    """The key of the case that a file belongs to: its drive and its number; None where it does not lie in `folder`."""
    path = PurePosixPath(name)
    above, inner = path.parent.parts, PurePosixPath(folder).parts
    if above[-len(inner) :] != inner:
        return None
    return PurePosixPath(*above[: -len(inner)], path.stem).as_posix()


def drive_of(key: str) -> str:
    """The drive of a key; the frames of the object benchmark come from drives that it does not tell."""
    return key.rpartition("/")[0]


def size_of(inputs: Mapping[str, Value]) -> Size | None:
    """The size of the picture, where it is read."""
    picture = inputs.get(CAMERA)
    return picture.size if isinstance(picture, Image) else None


def thing(words: Sequence[str], place: str) -> KittiObject:
    """A line of a label file; raises `UnreadableCase` that leads with `place`."""
    if len(words) != COLUMNS:
        raise UnreadableCase(f"{place}: {len(words)} columns, a label has {COLUMNS}")
    told = [bounded(word, f"{place}, column {column}") for column, word in enumerate(words[1:], start=2)]
    _, level, _, left, top, right, bottom, high, wide, long, *foot, turned = told
    corners, size = (left, top, right, bottom), (high, wide, long)
    made = KittiObject(place, words[0].lower(), int(level), corners, size, tuple(foot), turned)
    if made.solid and min(made.size) <= 0:
        raise UnreadableCase(f"{place}: a size of {' x '.join(words[8:11])} m")
    if made.solid and abs(made.turned) > 2 * math.pi:
        raise UnreadableCase(f"{place}: turned by {words[14]}, but KITTI's angles are in radians")
    return made


def bounded(word: str, place: str) -> float:
    """A number that can be reckoned with."""
    found = number(word, place)
    if abs(found) > LARGEST_NUMBER:
        raise UnreadableCase(f"{place}: {word} is beyond ±{LARGEST_NUMBER:g}")
    return found


def boxes2d(things: Sequence[KittiObject], size: Size | None) -> Boxes2D | None:
    """The boxes in the picture, those with a box in space first; None where no object has one."""
    seen = sorted((one for one in things if one.flat), key=lambda one: not one.solid)
    if things and not seen:
        return None
    cut = [clipped(LabelledBox(one.place, one.corners, one.kind), size or ANY_SIZE) for one in seen]
    care = [one.kind != DONT_CARE and enough for one, (_, enough) in zip(seen, cut, strict=True)]
    known = all(one.level in HIDDEN for one in seen)
    hidden = np.array([HIDDEN[one.level] for one in seen]) if known else None
    corners = np.array([corners for corners, _ in cut])
    return Boxes2D(corners, tuple(one.kind for one in seen), size=size, care=np.array(care, dtype=bool), hidden=hidden)


def boxes3d(things: Sequence[KittiObject], known: Calibration) -> Boxes3D:
    """The boxes in space in the LiDAR's frame, those with a box in the picture first."""
    solid = sorted((one for one in things if one.solid), key=lambda one: not one.flat)
    turn = to_camera(known.matrices)
    rows = [placed(one, turn) for one in solid]
    return Boxes3D(np.array(rows).reshape(-1, 7), tuple(one.kind for one in solid))


def placed(one: KittiObject, turn: Array) -> tuple[float, ...]:
    """Middle, length, width, height and yaw in the LiDAR's frame, from where `turn` leads to the camera's."""
    height, width, length = one.size
    x, y, z, _ = np.linalg.solve(turn, (*one.foot, 1.0)).tolist()
    # The heading lies on the LiDAR's ground; seen from above, the camera tells only its x and z.
    ahead = np.linalg.solve(turn[[0, 2], :2], (math.cos(one.turned), -math.sin(one.turned)))
    return x, y, z + height / 2, length, width, height, math.atan2(ahead[1], ahead[0])


def to_camera(matrices: Mapping[str, Array]) -> Array:
    """The 4x4 matrix from the LiDAR's frame to the rectified camera's."""
    whole = np.eye(4)
    whole[:3] = matrices["R0_rect"] @ matrices["Tr_velo_to_cam"]
    return whole


def matrix(words: Sequence[str], shape: tuple[int, int], place: str) -> Array:
    """A matrix from its numbers."""
    if len(words) != math.prod(shape):
        raise UnreadableCase(f"{place}: {len(words)} numbers, expected {math.prod(shape)}")
    return np.array([bounded(word, place) for word in words]).reshape(shape)


def checked(matrices: Mapping[str, Array], size: Size | None, name: str) -> Calibration:
    """The calibration, unless something is missing or turns what no rotation turns."""
    if missing := [what for what in NEEDED if what not in matrices]:
        raise UnreadableCase(f"{name}: there is no line {' and no line '.join(missing)}")
    for what in NEEDED[1:]:
        turn = matrices[what][:, :3]
        if not np.allclose(turn @ turn.T, np.eye(3), atol=0.01):
            raise UnreadableCase(f"{name}: {what} is no rotation")
    if abs(np.linalg.det(to_camera(matrices)[[0, 2], :2])) < 0.1:
        raise UnreadableCase(f"{name}: by Tr_velo_to_cam the camera looks up or down, so it cannot tell a yaw")
    return Calibration(matrices, size)
