"""KITTI: the folders of the object benchmark, and raw drives.

3D boxes are converted to the frame of the LiDAR (x ahead, y left, z up), with their centre, not the bottom, as position, and
the yaw about z. Kinds are KITTI's in lower case. A `DontCare` is an ignored 2D box. In `Boxes2D` the objects with a 3D box
come first, in the order of `Boxes3D`, then the others.
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
from swerve.core.errors import InputError, UnreadableCase, unknown
from swerve.core.values import LARGEST_NUMBER, Array, Boxes2D, Boxes3D, Calibration, Image, Value
from swerve.sources.cloud_files import check_declared, read_cloud
from swerve.sources.folders import in_order
from swerve.sources.images import read_image
from swerve.sources.labelled_boxes import Corners, LabelledBox, LabelledSource, Size, clip_box, list_files, read_lines
from swerve.sources.listed import CAMERA, LIDAR, Entry, ListedSource
from swerve.sources.texts import number

LABELS, CALIBRATION = "labels", "calibration"
SENSORS = (CAMERA, LIDAR)
DONT_CARE = "dontcare"
KINDS = ("car", "van", "truck", "pedestrian", "person_sitting", "cyclist", "tram", "misc", DONT_CARE)
SPLITS = ("training", "testing")
COLUMNS = 15
NO_BOX, NO_SIZE, NO_LOCATION = (-1.0,) * 4, (-1.0,) * 3, (-1000.0,) * 3  # KITTI's values for unknown
HIDDEN_SHARE = {-1: 0.0, 0: 0.0, 1: 0.3, 2: 0.75}  # by level of occlusion; 3 is unknown
SHAPES = {**{f"P{camera}": (3, 4) for camera in range(4)}, "R0_rect": (3, 3), "Tr_velo_to_cam": (3, 4)}
NEEDED = ("P2", "R0_rect", "Tr_velo_to_cam")
ANY_SIZE = (1 << 31, 1 << 31)  # for a picture that is not read


Labels = TypeVar("Labels", Boxes2D, Boxes3D)


class KittiLabel(NamedTuple):
    """A line of a label file, in the camera's frame."""

    place: str  # file and line
    kind: str
    occlusion: int  # level
    corners: Corners
    size: tuple[float, ...]  # height, width, length
    location: tuple[float, ...]  # the centre of the bottom
    rotation: float  # radians

    @property
    def has_2d(self) -> bool:
        """Whether it has a 2D box."""
        return self.corners != NO_BOX

    @property
    def has_3d(self) -> bool:
        """Whether it has a 3D box."""
        return self.kind != DONT_CARE and self.size != NO_SIZE and self.location != NO_LOCATION


@dataclass(frozen=True)
class KittiFrames(ListedSource):
    """Frames with all of `sensors`; a frame that lacks one is skipped and counted."""

    sensors: tuple[str, ...] = SENSORS
    intensity_scale: float | None = field(default=None, kw_only=True)
    places: ClassVar[Mapping[str, tuple[str, str]]] = {}  # folder and suffix by role

    def __post_init__(self) -> None:
        super().__post_init__()
        given: object = self.sensors
        if isinstance(given, str) or not self.sensors or len(set(self.sensors)) != len(self.sensors):
            raise InputError(f"'sensors' must be a list such as ['camera', 'lidar'], got {given!r}")
        for sensor in self.sensors:
            if sensor not in SENSORS:
                raise InputError(f"sensors: {unknown('sensor', sensor, SENSORS)}")
        check_declared("xyzi", self.intensity_scale)
        object.__setattr__(self, "sensors", tuple(self.sensors))

    def listed(self) -> Iterable[Entry]:
        kept = {what: self._names(what) for what in self.places if what in self.sensors or what not in SENSORS}
        for sensor in self.sensors:
            if not kept[sensor]:
                raise InputError(
                    f"{self.folder}: sensor '{sensor}' has no file "
                    f"{'/*'.join(self.places[sensor])}; add the files, or leave it out of 'sensors'"
                )
        present = [what for what, names in kept.items() if names]  # a test set has no labels at all
        for key in sorted({key for what in present if what != CALIBRATION for key in kept[what]}, key=in_order):
            files = {what: kept[what][key] for what in present if key in kept[what]}
            missing = [f"no {what} ({'/*'.join(self.places[what])})" for what in present if what not in files]
            yield Entry(key, files, group=drive_of(key), fault=f"{key}: {', '.join(missing)}" if missing else "")

    def read_inputs(self, entry: Entry) -> tuple[Mapping[str, Value], Mapping[str, Fact]]:
        inputs: dict[str, Value] = {}
        facts: Mapping[str, Fact] = {}
        if CAMERA in self.sensors:
            inputs[CAMERA] = read_image(self.root, entry.files[CAMERA])
        if LIDAR in self.sensors:
            sweep = read_cloud(self.root, entry.files[LIDAR], intensity_scale=self.intensity_scale)
            inputs[LIDAR], facts = sweep.points, sweep.facts
        return inputs, facts

    def paths(self, suffix: str) -> Sequence[str]:
        """The files with the given suffix."""
        return self.root.names(suffix)

    def _names(self, what: str) -> dict[str, str]:
        """The files of one folder by the keys of their cases."""
        folder, suffix = self.places[what]
        found = ((name, key_of(name, folder)) for name in self.paths(suffix))
        return {key: name for name, key in found if key is not None}


@dataclass(frozen=True)
class Kitti(KittiFrames, LabelledSource):
    """The object benchmark: `image_2`, `velodyne`, `calib` and `label_2`, in a folder such as `training`.

    Without `label_2` there are no labels; without `calib` there are no 3D boxes. `split` selects a sub-folder; by default it
    is `training` if there are both `training` and `testing`, which has no labels. A `DontCare` is kept whatever `kinds` are
    selected.
    """

    split: str = field(default="", kw_only=True)
    places: ClassVar[Mapping[str, tuple[str, str]]] = {
        CAMERA: ("image_2", ".png"),
        LIDAR: ("velodyne", ".bin"),
        LABELS: ("label_2", ".txt"),
        CALIBRATION: ("calib", ".txt"),
    }

    def listed(self) -> Iterable[Entry]:
        if not {*self.kinds, *self.rename} <= {*KINDS}:  # for KITTI's own, the labels need not be read
            self.check_kinds(self._kinds())
        return super().listed()

    def paths(self, suffix: str) -> Sequence[str]:
        both = all(os.path.isdir(self.folder / name) for name in SPLITS)
        split = self.split or (SPLITS[0] if both else "")
        found = list_files(self.root, suffix, under=split)
        if self.split and not os.path.isdir(self.folder / split):
            raise InputError(f"{self.folder}: there is no folder '{split}', which 'split' names")
        return found

    def truth(self, entry: Entry, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
        size = size_of(inputs)
        known = self._calibration(entry.files[CALIBRATION], size) if CALIBRATION in entry.files else None
        objects = self._labels(entry.files[LABELS]) if LABELS in entry.files else []
        boxes: list[Value | None] = []
        if LABELS in entry.files:
            flat = boxes2d(objects, size) if CAMERA in self.sensors else None  # 2D boxes need the picture as an input
            boxes = [flat and self._renamed(flat), self._renamed(boxes3d(objects, known)) if known else None]
        return tuple(value for value in (*boxes, known) if value is not None)

    def _renamed(self, boxes: Labels) -> Labels:
        return replace(boxes, kinds=tuple(map(self.named, boxes.kinds)))

    def _labels(self, name: str) -> list[KittiLabel]:
        numbered = enumerate(read_lines(self.root, name), start=1)
        objects = [parse_label(line.split(), f"{name} line {row}") for row, line in numbered if line]
        return [one for one in objects if one.kind == DONT_CARE or self.wanted(one.kind)]

    def _kinds(self) -> Collection[str]:
        """KITTI's kinds, and every other in the labels."""
        found = set(KINDS)
        for name in self._names(LABELS).values():
            with suppress(UnreadableCase):  # its case is skipped for that reason
                found.update(line.split()[0].lower() for line in read_lines(self.root, name) if line)
        return sorted(found)

    def _calibration(self, name: str, size: Size | None) -> Calibration:
        matrices: dict[str, Array] = {}
        for row, line in enumerate(read_lines(self.root, name), start=1):
            what, _, numbers = line.partition(":")
            if what in matrices:
                raise UnreadableCase(f"{name} line {row}: duplicate {what}")
            if what in SHAPES:
                matrices[what] = matrix(numbers.split(), SHAPES[what], f"{name} line {row}, {what}")
        return checked_calibration(matrices, size, name)


@dataclass(frozen=True)
class KittiRaw(KittiFrames):
    """Raw drives: `DRIVE/image_02/data` and `DRIVE/velodyne_points/data`, rectified, in the order of recording."""

    places: ClassVar[Mapping[str, tuple[str, str]]] = {
        CAMERA: ("image_02/data", ".png"),
        LIDAR: ("velodyne_points/data", ".bin"),
    }


def key_of(name: str, folder: str) -> str | None:
    """The key of the case that a file belongs to: its drive and its number; None if it is not in `folder`."""
    path = PurePosixPath(name)
    above, inner = path.parent.parts, PurePosixPath(folder).parts
    if above[-len(inner) :] != inner:
        return None
    return PurePosixPath(*above[: -len(inner)], path.stem).as_posix()


def drive_of(key: str) -> str:
    """The drive of a key; empty for the object benchmark, which does not identify its drives."""
    return key.rpartition("/")[0]


def size_of(inputs: Mapping[str, Value]) -> Size | None:
    """The size of the picture, if it is read."""
    picture = inputs.get(CAMERA)
    return picture.size if isinstance(picture, Image) else None


def parse_label(words: Sequence[str], place: str) -> KittiLabel:
    """A line of a label file; raises `UnreadableCase` that starts with `place`."""
    if len(words) != COLUMNS:
        raise UnreadableCase(f"{place}: the line has {len(words)} columns; a label has {COLUMNS}")
    values = [bounded_number(word, f"{place}, column {column}") for column, word in enumerate(words[1:], start=2)]
    _, occlusion, _, left, top, right, bottom, high, wide, long, *location, rotation = values
    corners, size = (left, top, right, bottom), (high, wide, long)
    label = KittiLabel(place, words[0].lower(), int(occlusion), corners, size, tuple(location), rotation)
    if label.has_3d and min(label.size) <= 0:
        raise UnreadableCase(f"{place}: sizes must be positive, got {' x '.join(words[8:11])} m")
    if label.has_3d and abs(label.rotation) > 2 * math.pi:
        raise UnreadableCase(f"{place}: the rotation is {words[14]}, but KITTI's angles are in radians")
    return label


def bounded_number(word: str, place: str) -> float:
    """A number within ±`LARGEST_NUMBER`."""
    found = number(word, place)
    if abs(found) > LARGEST_NUMBER:
        raise UnreadableCase(f"{place}: {word} is outside ±{LARGEST_NUMBER:g}")
    return found


def boxes2d(objects: Sequence[KittiLabel], size: Size | None) -> Boxes2D | None:
    """The 2D boxes, those of objects with a 3D box first; None if no object has one."""
    flat = sorted((one for one in objects if one.has_2d), key=lambda one: not one.has_3d)
    if objects and not flat:
        return None
    cut = [clip_box(LabelledBox(one.place, one.corners, one.kind), size or ANY_SIZE) for one in flat]
    care = [one.kind != DONT_CARE and enough for one, (_, enough) in zip(flat, cut, strict=True)]
    known = all(one.occlusion in HIDDEN_SHARE for one in flat)
    hidden = np.array([HIDDEN_SHARE[one.occlusion] for one in flat]) if known else None
    corners = np.array([corners for corners, _ in cut])
    return Boxes2D(corners, tuple(one.kind for one in flat), size=size, care=np.array(care, dtype=bool), hidden=hidden)


def boxes3d(objects: Sequence[KittiLabel], known: Calibration) -> Boxes3D:
    """The 3D boxes in the LiDAR's frame, those of objects with a 2D box first."""
    solid = sorted((one for one in objects if one.has_3d), key=lambda one: not one.has_2d)
    turn = to_camera(known.matrices)
    rows = [to_lidar(one, turn) for one in solid]
    return Boxes3D(np.array(rows).reshape(-1, 7), tuple(one.kind for one in solid))


def to_lidar(one: KittiLabel, turn: Array) -> tuple[float, ...]:
    """Centre, length, width, height and yaw in the LiDAR's frame; `turn` is the matrix from there to the camera's."""
    height, width, length = one.size
    x, y, z, _ = np.linalg.solve(turn, (*one.location, 1.0)).tolist()
    # The heading lies in the LiDAR's ground plane, of which the rotation in the camera's frame gives only x and z.
    ahead = np.linalg.solve(turn[[0, 2], :2], (math.cos(one.rotation), -math.sin(one.rotation)))
    return x, y, z + height / 2, length, width, height, math.atan2(ahead[1], ahead[0])


def to_camera(matrices: Mapping[str, Array]) -> Array:
    """The 4x4 matrix from the LiDAR's frame to the rectified camera's."""
    whole = np.eye(4)
    whole[:3] = matrices["R0_rect"] @ matrices["Tr_velo_to_cam"]
    return whole


def matrix(words: Sequence[str], shape: tuple[int, int], place: str) -> Array:
    """A matrix from its numbers."""
    if len(words) != math.prod(shape):
        raise UnreadableCase(f"{place}: the line has {len(words)} numbers, expected {math.prod(shape)}")
    return np.array([bounded_number(word, place) for word in words]).reshape(shape)


def checked_calibration(matrices: Mapping[str, Array], size: Size | None, name: str) -> Calibration:
    """The calibration, if it is complete and its rotations are rotations."""
    if missing := [what for what in NEEDED if what not in matrices]:
        raise UnreadableCase(f"{name}: the file has no line {' and no line '.join(missing)}")
    for what in NEEDED[1:]:
        turn = matrices[what][:, :3]
        if not np.allclose(turn @ turn.T, np.eye(3), atol=0.01):
            raise UnreadableCase(f"{name}: {what} is not a rotation matrix")
    if abs(np.linalg.det(to_camera(matrices)[[0, 2], :2])) < 0.1:
        raise UnreadableCase(f"{name}: with this Tr_velo_to_cam the camera looks up or down, so the yaw is undefined")
    return Calibration(matrices, size)
