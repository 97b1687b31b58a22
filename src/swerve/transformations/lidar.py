"""The LiDAR turned or moved, or the whole scene mirrored: points, boxes, the region and matrices go together."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.transformation import Transformation, param
from swerve.core.values import Array, Boxes2D, Boxes3D, Calibration, Depth, Image, Masks, PointCloud, Region, Steering
from swerve.transformations.bearing import wrapped
from swerve.transformations.points import calibration_of, clouds_of, has_camera

TO_CAMERA = ("Tr_velo_to_cam", "boxes_to_camera")  # the matrices that take what the LiDAR measures
TO_LIDAR = ("Tr_imu_to_velo",)  # those that lead to it
PIXELS = ("camera", "P0", "P1", "P2", "P3")  # those that lead to pixels
WITHIN_CAMERA = ("R0_rect",)  # those that lead from one camera's frame to another's
FROM_WORLD = ("world_to_camera",)
MOUNT, UPRIGHT = (-0.3, 0.3), (-0.1, 0.1)  # metres that a mount may be off


@dataclass(frozen=True)
class _Moved(Transformation):
    """The LiDAR alone in another place: what it sees is what it saw, told from there. What was hidden stays unseen."""

    preserves: ClassVar[tuple[str, ...]] = ("signal", "image", "boxes2d", "masks", "depth", "scene")

    def applies(self, case: Case) -> str | None:
        """A camera that stays where it is needs a calibration that tells of the move."""
        if not has_camera(case):
            return None
        known = calibration_of(case)
        told = known is not None and any(name in known.matrices for name in TO_CAMERA)
        return None if told else "the case has a camera, and no calibration that could tell it where the LiDAR is now"

    def points(self, value: PointCloud) -> PointCloud:
        """Every point as seen from there, intensities as they were."""
        if self._idle():
            return value
        moved = value.xyzi.copy()
        moved[:, :3] = _placed(value.xyzi[:, :3].astype(np.float64), self._matrix)
        return PointCloud(moved)

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """Centres and headings as seen from there."""
        if self._idle():
            return value
        boxes = value.xyzlwhy.copy()
        boxes[:, :3] = _placed(boxes[:, :3], self._matrix)
        boxes[:, 6] = wrapped(boxes[:, 6] + np.arctan2(self._matrix[1, 0], self._matrix[0, 0]))
        return dataclasses.replace(value, xyzlwhy=boxes)

    def region(self, value: Region) -> Region:
        """The drivable area as seen from there."""
        if self._idle():
            return value
        turn, step = self._matrix[:2, :2], self._matrix[:2, 3]
        return Region(tuple(ring @ turn.T + step for ring in value.polygons))

    def calibration(self, value: Calibration) -> Calibration:
        """The ways from the LiDAR and to it, by way of where it was."""
        if self._idle():
            return value
        back = np.linalg.inv(self._matrix)
        away = {name: value.matrices[name] @ back for name in TO_CAMERA if name in value.matrices}
        here = {name: _led_on(value.matrices[name], self._matrix) for name in TO_LIDAR if name in value.matrices}
        return dataclasses.replace(value, matrices={**value.matrices, **away, **here})

    @property
    def _matrix(self) -> Array:
        """The 4x4 matrix from where it was to where it is."""
        raise NotImplementedError(f"{type(self).__name__} does not say where the LiDAR goes")

    def _idle(self) -> bool:
        return bool((self._matrix == np.eye(4)).all())


@dataclass(frozen=True)
class Yaw(_Moved):
    """The LiDAR turned about its upright axis, left positive: all it sees turns the other way, and so must what is said."""

    degrees: float = param(-180, 180, neutral=0, resolution=0.1, unit="°", default=5.0)

    def words(self) -> str:
        return f"LiDAR turned by {self.degrees:g}°"

    @property
    def _matrix(self) -> Array:
        angle = -np.radians(self.degrees)
        matrix = np.eye(4)
        matrix[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        return matrix


@dataclass(frozen=True)
class Shift(_Moved):
    """The LiDAR moved by metres ahead, to the left and up: all it sees moves the other way.

    What only the new place could see is not there, so it is sound for the little that a mount is off, not for a drive:
    what a rule does not name is drawn from ±0.3 m, upright ±0.1 m.
    """

    x: float = param(-10, 10, neutral=0, resolution=0.01, unit=" m", usual=MOUNT, default=0.0)
    y: float = param(-10, 10, neutral=0, resolution=0.01, unit=" m", usual=MOUNT, default=0.0)
    z: float = param(-10, 10, neutral=0, resolution=0.01, unit=" m", usual=UPRIGHT, default=0.0)

    def words(self) -> str:
        return f"LiDAR moved {self.x:g} m ahead, {self.y:g} m to the left, {self.z:g} m up"

    @property
    def _matrix(self) -> Array:
        matrix = np.eye(4)
        matrix[:3, 3] = -self.x, -self.y, -self.z
        return matrix


@dataclass(frozen=True)
class MirrorScene(Transformation):
    """Left and right exchanged, for the camera too: traffic keeps to the other side, and writing runs backwards."""

    preserves: ClassVar[tuple[str, ...]] = ("signal", "scene")

    def applies(self, case: Case) -> str | None:
        """A case without a sweep has nothing to mirror here, and pixels need a width."""
        if next(clouds_of(case), None) is None:
            return "the case has no point cloud to mirror"
        known = calibration_of(case)
        if known is None:
            return None
        if unknown := [name for name in known.matrices if name not in _SIDES]:
            return f"the calibration's '{unknown[0]}' is not known, so it cannot be mirrored"
        narrow = known.size is None and any(name in known.matrices for name in PIXELS)
        return "the calibration has no image size to mirror pixels in: read the camera too" if narrow else None

    def points(self, value: PointCloud) -> PointCloud:
        """Every point on the other side."""
        return PointCloud(value.xyzi * np.array([1, -1, 1, 1], np.float32))

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """Boxes on the other side, headings mirrored."""
        boxes = value.xyzlwhy * [1, -1, 1, 1, 1, 1, -1]
        return dataclasses.replace(value, xyzlwhy=boxes)

    def region(self, value: Region) -> Region:
        """The area on the other side; rings run backwards, so that holes stay holes."""
        return Region(tuple((ring * [1, -1])[::-1] for ring in value.polygons))

    def steering(self, value: Steering) -> Steering:
        """As far to the other side."""
        return Steering(-value.degrees)

    def image(self, value: Image) -> Image:
        """The picture, mirrored."""
        return Image(np.ascontiguousarray(value.pixels[:, ::-1]))

    def depth(self, value: Depth) -> Depth:
        """The distances, mirrored."""
        return Depth(np.ascontiguousarray(value.metres[:, ::-1]))

    def masks(self, value: Masks) -> Masks:
        """The instances, mirrored."""
        return Masks(np.ascontiguousarray(value.instances[:, ::-1]), value.kinds)

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """Boxes in the mirrored picture."""
        if value.size is None:
            raise InputError("boxes2d cannot be mirrored without their image size: give Boxes2D(size=(width, height))")
        left, top, right, bottom = value.xyxy.T
        mirrored = np.column_stack([value.size[0] - right, top, value.size[0] - left, bottom])
        return dataclasses.replace(value, xyxy=mirrored)

    def calibration(self, value: Calibration) -> Calibration:
        """The matrices of a mirrored car: rotations stay rotations."""
        width = 0 if value.size is None else value.size[0]
        matrices = {name: _mirrored(name, matrix, width) for name, matrix in value.matrices.items()}
        return Calibration(matrices, value.size)

    def words(self) -> str:
        return "left and right exchanged"


# What is mirrored where a matrix leads to, and where it comes from: to a LiDAR and in the world y points left, to a camera x
# points right, and pixels count from the left.
_SIDES = {
    **dict.fromkeys(PIXELS, ("pixel", "x")),
    **dict.fromkeys(WITHIN_CAMERA, ("x", "x")),
    **dict.fromkeys((*TO_CAMERA, *FROM_WORLD), ("x", "y")),
    **dict.fromkeys(TO_LIDAR, ("y", "y")),
}


def _mirrored(name: str, matrix: Array, width: int) -> Array:
    to, coming = _SIDES[name]
    return _mirror(to, matrix.shape[0], width) @ matrix @ _mirror(coming, matrix.shape[1], width)


def _mirror(axis: str, size: int, width: int) -> Array:
    mirror = np.eye(size)
    place = 1 if axis == "y" else 0
    mirror[place, place] = -1
    if axis == "pixel":
        mirror[0, 2] = width
    return mirror


def _led_on(matrix: Array, further: Array) -> Array:
    """A matrix of three or four rows, and then `further`."""
    whole = np.vstack([matrix, [0, 0, 0, 1]]) if len(matrix) == 3 else matrix
    return np.asarray((further @ whole)[: len(matrix)])


def _placed(points: Array, matrix: Array) -> Array:
    return np.asarray(points @ matrix[:3, :3].T + matrix[:3, 3])
