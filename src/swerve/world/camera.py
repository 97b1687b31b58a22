"""The camera: the ray of each pixel, and the projection of points of the world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.errors import InputError
from swerve.core.values import Array, Calibration
from swerve.world.driver import Pose

LARGEST = 4096  # pixels of a side


@dataclass(frozen=True)
class Camera:
    """A pinhole behind the windscreen that looks straight ahead; the horizon lies at `horizon` of the height."""

    width: int = 640
    height: int = 360
    focal: float = 0.68  # of the width: 73 degrees wide
    horizon: float = 0.47
    above: float = 1.45  # metres above the ground
    forward: float = 1.6  # metres ahead of the rear axle
    cut: int = 0  # rows at the top that are not rendered

    def __post_init__(self) -> None:
        if not (16 <= self.width <= LARGEST and 16 <= self.height <= LARGEST):
            raise InputError(f"width and height must be from 16 to {LARGEST} pixels, got {self.width}x{self.height}")
        if not 0 <= self.cut <= self.height - 16:
            raise InputError(f"cut must leave at least 16 of {self.height} rows, got {self.cut}")

    @property
    def pixels(self) -> float:
        """The focal length in pixels."""
        return self.focal * self.width

    @property
    def rows(self) -> int:
        """The rows that are rendered."""
        return self.height - self.cut

    @property
    def matrix(self) -> Array:
        """The 3x3 camera matrix: x right, y down, z ahead."""
        return np.array(
            [[self.pixels, 0, self.width / 2], [0, self.pixels, self.horizon * self.height], [0, 0, 1]], np.float64
        )

    def eye(self, pose: Pose) -> Array:
        """The position of the camera."""
        ahead = np.array([np.cos(pose.yaw), np.sin(pose.yaw), 0.0])
        return np.array([pose.x, pose.y, self.above]) + ahead * self.forward

    def pose_matrix(self, pose: Pose) -> Array:
        """The 4x4 matrix from the world to camera coordinates (x right, y down, z ahead)."""
        cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
        turn = np.array([[sin, -cos, 0.0], [0.0, 0.0, -1.0], [cos, sin, 0.0]])
        whole = np.eye(4)
        whole[:3, :3], whole[:3, 3] = turn, -turn @ self.eye(pose)
        return whole

    def rays(self, pose: Pose, pixel: Array | None = None, shift: tuple[float, float] = (0.0, 0.0)) -> Array:
        """Unit directions in the world as rows x, y and z, one column per pixel (all, or those numbered `pixel`).

        `shift` moves the rays that many pixels off each pixel's centre.
        """
        every = (self.cut * self.width, self.height * self.width)
        number = np.arange(*every, dtype=np.int32) if pixel is None else pixel.astype(np.int32)
        row, column = np.divmod(number, np.int32(self.width))
        across = (self.width / 2 - 0.5 - shift[0] - column.astype(np.float32)) / self.pixels
        up = (self.horizon * self.height - 0.5 - shift[1] - row.astype(np.float32)) / self.pixels
        cos, sin = float(np.cos(pose.yaw)), float(np.sin(pose.yaw))
        long = np.sqrt(1 + across * across + up * up)
        return np.stack([(cos - across * sin) / long, (sin + across * cos) / long, up / long])

    def project(self, pose: Pose, points: Array) -> tuple[Array, Array]:
        """Pixels (column, row) and metres ahead of points in the world."""
        turned = self.pose_matrix(pose)
        seen = points @ turned[:3, :3].T + turned[:3, 3]
        ahead = np.maximum(seen[:, 2], 1e-6)
        at = seen[:, :2] / ahead[:, None] * self.pixels + [self.width / 2, self.horizon * self.height]
        return at, seen[:, 2]

    def calibration(self, pose: Pose) -> Calibration:
        """The camera's matrix, its pose, and the matrix from 3-D boxes (x ahead, y left, z up from its foot) to it."""
        foot = np.array([[0.0, -1, 0, 0], [0, 0, -1, self.above], [1, 0, 0, 0], [0, 0, 0, 1]])
        matrices = {"camera": self.matrix, "world_to_camera": self.pose_matrix(pose), "boxes_to_camera": foot}
        return Calibration(matrices, (self.width, self.height))
