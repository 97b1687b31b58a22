"""3-D boxes in the camera's frame, where a calibration relates the two: their edges, and a frame with them dashed on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import cv2
import numpy as np

from swerve.core.case import Case
from swerve.core.values import Array, Boxes3D, Calibration, find
from swerve.sources.kitti_writer import boxes_to_camera, camera_of
from swerve.transformations.photometric import images_of

Colour = tuple[int, int, int]
Lines = list[tuple[Array, Array]]  # start and end, each a column and a row
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
    if frame is None or not isinstance(known, Calibration) or not marked or camera_of(known) is None:
        return frame
    size = next(images_of(case)).size
    scale = high / size[1]
    seen = False
    for boxes, colour in marked:
        for start, end in (line for _, lines in box_edges(boxes, known, size) for line in lines):
            dash(frame, start * scale, end * scale, colour)
            seen = True
    return frame if seen else None


def box_edges(boxes: Boxes3D, calibration: Calibration, size: tuple[int, int]) -> Iterator[tuple[int, Lines]]:
    """Per box whose centre is in view, its row and its edges in pixels of a camera picture of `size`."""
    camera, turn = camera_of(calibration), boxes_to_camera(calibration)
    for row, numbers in enumerate(boxes.xyzlwhy if camera is not None else ()):
        assert camera is not None
        middle, *corners = np.vstack([numbers[:3], _corners(numbers)]) @ turn[:3, :3].T + turn[:3, 3]
        column, line = _pixel(middle, camera) if middle[2] > NEAREST else (-1.0, -1.0)
        if 0 <= column < size[0] and 0 <= line < size[1]:
            edges = (_ahead(corners[one], corners[other]) for one, other in EDGES)
            yield row, [(_pixel(start, camera), _pixel(end, camera)) for start, end in filter(None, edges)]


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
