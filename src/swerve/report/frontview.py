"""The camera's frame with the edges of 3-D boxes dashed on it, where a calibration relates the two."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.values import Array, Boxes3D, Calibration, find
from swerve.sources.kitti_writer import boxes_to_camera, camera_of
from swerve.transformations.photometric import images_of

Colour = tuple[int, int, int]
DASH = 6  # pixels
NEAREST = 0.1  # metres in front of the camera
LONGEST = 4000.0  # pixels beyond the frame to which an edge is drawn
CORNERS = np.array(list(product((-0.5, 0.5), repeat=3)))
EDGES = [(one, other) for one, other in combinations(range(8), 2) if (CORNERS[one] != CORNERS[other]).sum() == 1]


def dash(canvas: Array, start: Array, end: Array, colour: tuple[int, int, int]) -> None:
    """Draw a dashed line between two pixels, each given as column and row."""
    steps = max(2, int(np.hypot(*(end - start)) / DASH))
    marks = np.linspace(start, end, 2 * (steps // 2) + 1)
    for first, last in zip(marks[:-1:2], marks[1::2], strict=True):
        ends = [tuple(int(part) for part in np.rint(np.clip(mark, -9999, 9999))) for mark in (first, last)]
        cv2.line(canvas, ends[0], ends[1], colour, 2, cv2.LINE_AA)


def frame_of(case: Case, high: int) -> Array | None:
    """The camera's frame scaled to `high` pixels of height; None without a camera."""
    for image in images_of(case):
        wide = round(image.pixels.shape[1] * high / image.pixels.shape[0])
        return cv2.resize(image.pixels, (wide, high), interpolation=cv2.INTER_AREA)
    return None


def outlined(case: Case, marked: Sequence[tuple[Boxes3D, Colour]], high: int) -> Array | None:
    """The frame with the edges of the boxes in view, each in its colour; None without a camera or a box in view.

    Without boxes, or a calibration that says where they are, it is the frame alone.
    """
    frame, known = frame_of(case, high), find(case.truth, Calibration.slot)
    if frame is None or not isinstance(known, Calibration) or not marked:
        return frame
    if (matrix := camera_of(known)) is None:
        return frame
    scale = high / next(images_of(case)).pixels.shape[0]
    seen = False
    for boxes, colour in marked:
        for row in boxes.xyzlwhy:
            for start, end in _lines(row, boxes_to_camera(known), matrix, scale, frame.shape[:2]):
                dash(frame, start, end, colour)
                seen = True
    return frame if seen else None


def _lines(row: Array, turn: Array, camera: Array, scale: float, shape: tuple[int, ...]) -> list[tuple[Array, Array]]:
    """The edges of a box in pixels of the frame; none if its centre is not in view."""
    middle, *corners = np.vstack([row[:3], _corners(row)]) @ turn[:3, :3].T + turn[:3, 3]
    column, line = _pixel(middle, camera) * scale if middle[2] > NEAREST else (-1.0, -1.0)
    if not (0 <= column < shape[1] and 0 <= line < shape[0]):
        return []
    edges = (_ahead(corners[one], corners[other]) for one, other in EDGES)
    return [(_pixel(start, camera) * scale, _pixel(end, camera) * scale) for start, end in filter(None, edges)]


def _ahead(start: Array, end: Array) -> tuple[Array, Array] | None:
    """The part of an edge in front of the camera."""
    near, far = sorted((start, end), key=lambda place: float(place[2]))
    if far[2] <= NEAREST:
        return None
    if near[2] < NEAREST:
        near = near + (far - near) * (NEAREST - near[2]) / (far[2] - near[2])
    return near, far


def _pixel(place: Array, camera: Array) -> Array:
    """Column and row of a point given in the camera's coordinates."""
    seen = camera[:, :3] @ place + (camera[:, 3] if camera.shape[1] > 3 else 0.0)
    found: Array = np.clip(seen[:2] / seen[2], -LONGEST, LONGEST)
    return found


def _corners(row: Array) -> Array:
    x, y, z, length, width, height, yaw = row
    turn = np.array([[np.cos(yaw), np.sin(yaw), 0], [-np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    corners: Array = (CORNERS * [length, width, height]) @ turn + [x, y, z]
    return corners
