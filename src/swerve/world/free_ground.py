"""Whether the ground is free for one more object."""

from __future__ import annotations

import math

import cv2
import numpy as np

from swerve.world.scene import LABELLED, Scene, Thing

Spot = tuple[float, float, float]  # x, y and yaw
Rectangle = tuple[tuple[float, float], tuple[float, float], float]
ROOM = 0.4  # metres around an object
FAR = 20.0  # metres: things farther away are not in the way


def is_free(scene: Scene, spot: Spot, size: tuple[float, float], time: float) -> bool:
    """Whether a length x width around a spot touches no vehicle, person or building, and no pole or trunk stands there."""
    ours = _rectangle(spot, (size[0] + 2 * ROOM, size[1] + 2 * ROOM))
    return not any(_in_the_way(thing, thing.pose(scene.road, time), ours) for thing in scene.things if thing.on_road(time))


def _in_the_way(thing: Thing, there: Spot, ours: Rectangle) -> bool:
    (x, y), _, _ = ours
    if math.hypot(there[0] - x, there[1] - y) > FAR or not len(thing.mesh):
        return False
    if thing.kind not in (*LABELLED, "building", "fence"):  # what stands on a foot: a crown or a lamp may hang over it
        corners = cv2.boxPoints(ours).astype(np.float32)
        return cv2.pointPolygonTest(corners, there[:2], measureDist=False) >= 0
    low, high = thing.mesh.bounds()
    theirs = _rectangle(there, (float(high[0] - low[0]), float(high[1] - low[1])))
    return cv2.rotatedRectangleIntersection(ours, theirs)[0] != cv2.INTERSECT_NONE


def _rectangle(spot: Spot, size: tuple[float, float]) -> Rectangle:
    return spot[:2], size, math.degrees(spot[2])
