"""A detector of obstacles without learning, as an outside program: what stands on the ground is clustered and boxed.

`kitti-lidar.toml` runs it. It has Swerve at hand, so `serve` does the talking; `program.py` shows how to do without.
"""

import cv2
import numpy as np
from scipy import ndimage

from swerve.core.values import Boxes3D
from swerve.systems.serve import serve

REACH, CELL = 40.0, 0.3  # metres
GROUND, TOP = -1.3, 0.7  # heights below and above the sensor, which sits 1.73 m above the road
VIEW = 0.8  # metres to either side for each ahead: KITTI labels what its camera sees
FEWEST = 15  # points of an obstacle


def answer(case):
    """The boxes of everything that stands around the car."""
    points = case.inputs["lidar"].xyzi[:, :3].astype(np.float64)
    near = (points[:, 0] < REACH) & (np.abs(points[:, 1]) < VIEW * points[:, 0])
    points = points[near & (points[:, 2] > GROUND) & (points[:, 2] < TOP)]
    cells = ((points[:, :2] + REACH) / CELL).astype(int)
    taken = np.zeros((round(2 * REACH / CELL),) * 2, bool)
    taken[tuple(cells.T)] = True
    clusters, count = ndimage.label(taken, structure=np.ones((3, 3)))
    numbers = clusters[tuple(cells.T)]
    order = np.argsort(numbers, kind="stable")
    parts = np.split(points[order], np.searchsorted(numbers[order], np.arange(2, count + 1)))
    boxes = [boxed(part) for part in parts if len(part) >= FEWEST]
    found = [(box, kind) for box in boxes if (kind := kind_of(box))]
    rows = np.array([box for box, _ in found]).reshape(-1, 7)
    return Boxes3D(rows, tuple(kind for _, kind in found), np.full(len(found), 0.5))


def boxed(part):
    """The smallest upright box around some points."""
    (x, y), (length, width), degrees = cv2.minAreaRect(part[:, :2].astype(np.float32))
    if width > length:
        length, width, degrees = width, length, degrees + 90
    low, high = part[:, 2].min(), part[:, 2].max()
    return x, y, (low + high) / 2, max(length, 0.1), max(width, 0.1), max(high - low, 0.1), np.radians(degrees)


def kind_of(box):
    """What a thing of that size may be; empty for walls and bushes."""
    length, width, height = box[3:6]
    if 2.0 < length < 6.0 and 0.8 < width < 2.6 and height > 0.5:
        return "car"
    if length < 1.2 and width < 1.0 and height > 0.8:
        return "pedestrian"
    return "cyclist" if length < 2.2 and width < 1.0 and height > 0.8 else ""


if __name__ == "__main__":
    serve(answer, "clusters")
