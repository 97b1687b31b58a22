"""Changes to point clouds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swerve.case import Case
from swerve.transformation import Transformation, param
from swerve.values import Array, Boxes3D, Calibration, Group, Image, PointCloud, Region, Value


@dataclass(frozen=True)
class Yaw(Transformation):
    """The LiDAR turned about its upright axis, left positive: all it sees turns the other way, and so must what is said."""

    degrees: float = param(-180, 180, neutral=0, resolution=0.1, unit="°", default=5.0)
    preserves: ClassVar[tuple[str, ...]] = ("signal",)

    def applies(self, case: Case) -> str | None:
        """A camera that does not turn along would see another world."""
        return "the case has a camera, which would have to turn too" if any(map(_seen, case.inputs.values())) else None

    def points(self, value: PointCloud) -> PointCloud:
        """Every point turned, heights and intensities as they were."""
        if not self.degrees:
            return value
        turned = value.xyzi.copy()
        turned[:, :2] = (value.xyzi[:, :2].astype(np.float64) @ self._turn.T).astype(np.float32)
        return PointCloud(turned)

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """Centres and headings turned."""
        if not self.degrees:
            return value
        boxes = value.xyzlwhy.copy()
        boxes[:, :2] = boxes[:, :2] @ self._turn.T
        boxes[:, 6] = _wrapped(boxes[:, 6] - np.radians(self.degrees))
        return Boxes3D(boxes, value.kinds, value.scores, value.care)

    def region(self, value: Region) -> Region:
        """The drivable area turned."""
        return Region(tuple(ring @ self._turn.T for ring in value.polygons))

    def calibration(self, value: Calibration) -> Calibration:
        """The way from the LiDAR to the camera, turned back first."""
        back = np.eye(4)
        back[:2, :2] = self._turn.T
        matrices = {
            name: m @ back[: m.shape[1], : m.shape[1]] if name == "Tr_velo_to_cam" else m
            for name, m in value.matrices.items()
        }
        return Calibration(matrices, value.size)

    def words(self) -> str:
        return f"LiDAR turned by {self.degrees:g}°"

    @property
    def _turn(self) -> Array:
        angle = -np.radians(self.degrees)
        return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _seen(value: Value) -> bool:
    return isinstance(value, Image) or (isinstance(value, Group) and any(map(_seen, value.values)))


def _wrapped(angles: Array) -> Array:
    return (angles + np.pi) % (2 * np.pi) - np.pi
