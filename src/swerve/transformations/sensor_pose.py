"""The LiDAR turned or moved, or the scene mirrored: points, boxes, region and calibration are transformed together."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.transformation import Transformation, param
from swerve.core.values import (
    Array,
    Boxes2D,
    Boxes3D,
    Calibration,
    Classes,
    Depth,
    Image,
    Masks,
    PointCloud,
    Region,
    Steering,
)
from swerve.transformations.points import calibration_of, clouds_of, has_camera, wrap_angle

TO_CAMERA = ("Tr_velo_to_cam", "boxes_to_camera")  # matrices from the LiDAR's frame
TO_LIDAR = ("Tr_imu_to_velo",)  # to the LiDAR's frame
PIXELS = ("camera", "P0", "P1", "P2", "P3")  # to pixels
WITHIN_CAMERA = ("R0_rect",)  # from one camera's frame to another's
FROM_WORLD = ("world_to_camera",)
MOUNT, UPRIGHT = (-0.3, 0.3), (-0.1, 0.1)  # metres: plausible mounting errors


@dataclass(frozen=True)
class _SensorMoved(Transformation):
    """The LiDAR alone in another pose: the same points in its new frame. Occluded surfaces stay without points."""

    preserves: ClassVar[tuple[str, ...]] = ("signal", "image", "boxes2d", "masks", "classes", "depth", "scene")

    def applies(self, case: Case) -> str | None:
        """Why it does not apply (the case has a camera but no calibration that records the LiDAR's new pose), or None."""
        if not has_camera(case):
            return None
        known = calibration_of(case)
        calibrated = known is not None and any(name in known.matrices for name in TO_CAMERA)
        return None if calibrated else "the case has a camera but no calibration from the LiDAR to it"

    def points(self, value: PointCloud) -> PointCloud:
        """Every point in the new frame; intensities stay."""
        if self._is_neutral():
            return value
        moved = value.xyzi.copy()
        moved[:, :3] = _transform_points(value.xyzi[:, :3].astype(np.float64), self._matrix)
        return PointCloud(moved)

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """Centres and headings in the new frame."""
        if self._is_neutral():
            return value
        boxes = value.xyzlwhy.copy()
        boxes[:, :3] = _transform_points(boxes[:, :3], self._matrix)
        boxes[:, 6] = wrap_angle(boxes[:, 6] + np.arctan2(self._matrix[1, 0], self._matrix[0, 0]))
        return dataclasses.replace(value, xyzlwhy=boxes)

    def region(self, value: Region) -> Region:
        """The region in the new frame."""
        if self._is_neutral():
            return value
        turn, step = self._matrix[:2, :2], self._matrix[:2, 3]
        return Region(tuple(ring @ turn.T + step for ring in value.polygons))

    def calibration(self, value: Calibration) -> Calibration:
        """The matrices from and to the LiDAR, through its old frame."""
        if self._is_neutral():
            return value
        back = np.linalg.inv(self._matrix)
        away = {name: value.matrices[name] @ back for name in TO_CAMERA if name in value.matrices}
        here = {name: _compose(value.matrices[name], self._matrix) for name in TO_LIDAR if name in value.matrices}
        return dataclasses.replace(value, matrices={**value.matrices, **away, **here})

    @property
    def _matrix(self) -> Array:
        """The 4x4 matrix from the old to the new frame."""
        raise NotImplementedError(f"{type(self).__name__} must define _matrix")

    def _is_neutral(self) -> bool:
        return bool((self._matrix == np.eye(4)).all())


@dataclass(frozen=True)
class Yaw(_SensorMoved):
    """The LiDAR turned about its vertical axis, left positive: points and expected boxes turn the other way."""

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
class Shift(_SensorMoved):
    """The LiDAR moved by metres ahead, to the left and up: all points move the other way.

    What is visible only from the new position is missing, so this is sound for small mounting errors, not for driving:
    parameters that a rule does not name are drawn from ±0.3 m, vertically from ±0.1 m.
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
    """Left and right exchanged, for the camera too: traffic changes sides, and text is mirrored."""

    preserves: ClassVar[tuple[str, ...]] = ("signal", "scene")

    def applies(self, case: Case) -> str | None:
        """Why it does not apply (there is no sweep, an unknown matrix, or no image size to mirror pixels in), or None."""
        if next(clouds_of(case), None) is None:
            return "the case has no point cloud to mirror"
        known = calibration_of(case)
        if known is None:
            return None
        if unknown := [name for name in known.matrices if name not in _MIRRORED_AXES]:
            return f"the calibration matrix '{unknown[0]}' is unknown, so it cannot be mirrored"
        no_size = known.size is None and any(name in known.matrices for name in PIXELS)
        return "the calibration has no image size to mirror pixels in: read the camera too" if no_size else None

    def points(self, value: PointCloud) -> PointCloud:
        """Every point mirrored."""
        return PointCloud(value.xyzi * np.array([1, -1, 1, 1], np.float32))

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """Positions and headings mirrored."""
        boxes = value.xyzlwhy * [1, -1, 1, 1, 1, 1, -1]
        return dataclasses.replace(value, xyzlwhy=boxes)

    def region(self, value: Region) -> Region:
        """The region mirrored; rings are reversed, so that holes stay holes."""
        return Region(tuple((ring * [1, -1])[::-1] for ring in value.polygons))

    def steering(self, value: Steering) -> Steering:
        """The angle negated."""
        return Steering(-value.degrees)

    def image(self, value: Image) -> Image:
        """The image mirrored."""
        return Image(np.ascontiguousarray(value.pixels[:, ::-1]))

    def depth(self, value: Depth) -> Depth:
        """The depth map mirrored."""
        return Depth(np.ascontiguousarray(value.metres[:, ::-1]))

    def masks(self, value: Masks) -> Masks:
        """The instances mirrored."""
        return Masks(np.ascontiguousarray(value.instances[:, ::-1]), value.kinds)

    def classes(self, value: Classes) -> Classes:
        """The classes mirrored."""
        return Classes(np.ascontiguousarray(value.numbers[:, ::-1]), value.names)

    def boxes2d(self, value: Boxes2D) -> Boxes2D:
        """Boxes in the mirrored image."""
        if value.size is None:
            raise InputError("boxes2d cannot be mirrored without their image size: give Boxes2D(size=(width, height))")
        left, top, right, bottom = value.xyxy.T
        mirrored = np.column_stack([value.size[0] - right, top, value.size[0] - left, bottom])
        return dataclasses.replace(value, xyxy=mirrored)

    def calibration(self, value: Calibration) -> Calibration:
        """The matrices of a mirrored car: rotations stay rotations."""
        width = 0 if value.size is None else value.size[0]
        matrices = {name: _mirror_matrix(name, matrix, width) for name, matrix in value.matrices.items()}
        return Calibration(matrices, value.size)

    def words(self) -> str:
        return "left and right exchanged"


# Per matrix, the mirrored axis of its target and of its source frame: in LiDAR and world frames y points left, in camera
# frames x points right, and pixels count from the left.
_MIRRORED_AXES = {
    **dict.fromkeys(PIXELS, ("pixel", "x")),
    **dict.fromkeys(WITHIN_CAMERA, ("x", "x")),
    **dict.fromkeys((*TO_CAMERA, *FROM_WORLD), ("x", "y")),
    **dict.fromkeys(TO_LIDAR, ("y", "y")),
}


def _mirror_matrix(name: str, matrix: Array, width: int) -> Array:
    target, origin = _MIRRORED_AXES[name]
    return _axis_flip(target, matrix.shape[0], width) @ matrix @ _axis_flip(origin, matrix.shape[1], width)


def _axis_flip(axis: str, size: int, width: int) -> Array:
    mirror = np.eye(size)
    place = 1 if axis == "y" else 0
    mirror[place, place] = -1
    if axis == "pixel":
        mirror[0, 2] = width
    return mirror


def _compose(matrix: Array, further: Array) -> Array:
    """A matrix of three or four rows followed by `further`."""
    whole = np.vstack([matrix, [0, 0, 0, 1]]) if len(matrix) == 3 else matrix
    return np.asarray((further @ whole)[: len(matrix)])


def _transform_points(points: Array, matrix: Array) -> Array:
    return np.asarray(points @ matrix[:3, :3].T + matrix[:3, 3])
