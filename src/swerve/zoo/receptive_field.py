"""The effective receptive field of a LiDAR network, measured on sweeps with one added point.

The layers determine how far a point can have an effect at most; this measures how far one did. The point has one height and
one intensity, and only objectness is measured: obstacles are also lost through offsets and clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from swerve.core.case import Case
from swerve.core.region import outside, region_of
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes3D, PointCloud
from swerve.zoo.grid import FILLED
from swerve.zoo.lidar import Lidar, Swept
from swerve.zoo.lidar_network import HEADS

PLACES = 4  # points tried in a sweep, one at a time
BESIDE = 4.0  # metres from the centre of an obstacle: elsewhere few cells are uncertain
HEIGHT, INTENSITY = 0.0, 0.5  # of the point: at the height of the sensor, where walls and cars reflect
LIMITS = (0.0, 0.01, 0.1)  # of objectness, a share
REACHES = ("any output", "objectness", *(f"by {limit:g}" for limit in LIMITS[1:]))
FARTHEST = 0.5  # of the grid's reach: there is grid on all sides of such a point


@dataclass(frozen=True)
class Reach:
    """One added point, and the farthest distances at which it changes something; None if it changes nothing."""

    x: float
    y: float
    metres: tuple[float | None, ...]  # by REACHES


def reaches(system: Lidar, case: Case, seen: Boxes3D, seed: int) -> Iterator[Reach]:
    """Single points at some places outside the region of a sweep in which `seen` was detected."""
    before = system.swept(case)
    outputs = _outputs(system, before)
    for x, y in places(system, case, seen, seed):
        after = _outputs(system, system.swept(with_point(case, x, y)))
        yield Reach(x, y, _metres(system, before, np.abs(after - outputs), (x, y)))


def places(system: Lidar, case: Case, seen: Boxes3D, seed: int) -> list[tuple[float, float]]:
    """Centres of empty cells outside the region and far from the grid's edge, near obstacles if there are any."""
    cloud, region, grid = case.inputs["lidar"], region_of(case), system.grid
    assert isinstance(cloud, PointCloud)
    centres = grid.centres.reshape(2, -1).T
    free = np.hypot(*centres.T) < FARTHEST * grid.reach
    free &= grid.features(cloud.xyzi)[FILLED].ravel() == 0
    if region is not None:
        free &= outside(region, centres)
    away = centres[:, None] - seen.xyzlwhy[None, :, :2]
    beside = free & (np.hypot(away[..., 0], away[..., 1]) < BESIDE).any(axis=1)
    able = np.flatnonzero(beside if beside.any() else free)
    chosen = rng_for(seed, "field", case.key).choice(able, min(PLACES, len(able)), replace=False)
    return [(float(x), float(y)) for x, y in centres[chosen]]


def with_point(case: Case, x: float, y: float) -> Case:
    """The case with one more point."""
    cloud = case.inputs["lidar"]
    assert isinstance(cloud, PointCloud)
    point = np.array([[x, y, HEIGHT, INTENSITY]], np.float32)
    return replace(case, inputs={**case.inputs, "lidar": PointCloud(np.concatenate([cloud.xyzi, point]))})


def _outputs(system: Lidar, swept: Swept) -> Array:
    """All outputs of the network, objectness as a probability."""
    with torch.inference_mode():
        row = system.net.eval()(swept.maps[None])[0]
        row[HEADS["category"]] = torch.sigmoid(row[HEADS["category"]])
    outputs: Array = row.numpy()
    return outputs


def _metres(system: Lidar, swept: Swept, change: Array, place: tuple[float, float]) -> tuple[float | None, ...]:
    """The farthest change of any output, and of the objectness of cells with points, beyond each limit."""
    apart = np.hypot(*(system.grid.centres - np.reshape(place, (2, 1, 1))))
    objectness = change[HEADS["category"]][0] * (swept.maps[FILLED].numpy() > 0)
    masks = (change.max(axis=0) > 0, *(objectness > limit for limit in LIMITS))
    return tuple(float(apart[mask].max()) if mask.any() else None for mask in masks)
