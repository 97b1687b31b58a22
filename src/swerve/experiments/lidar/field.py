"""The effective receptive field of the zoo's networks, measured on sweeps with one added point.

The layers determine how far a point can have an effect at most; this measures how far one did. The point has one height and
one intensity, and only objectness is measured: obstacles are also lost through offsets and clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch

from swerve.core.case import Case
from swerve.core.region import outside, region_of
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes3D, PointCloud
from swerve.experiments.lidar.subject_runs import LidarRuns, boxes_of
from swerve.experiments.setting import Setting
from swerve.report.cells import Row
from swerve.report.experiment_page import TablePanel
from swerve.zoo.grid import FILLED
from swerve.zoo.lidar import Lidar, Swept
from swerve.zoo.lidar_network import HEADS

FRAMES, PLACES = 3, 4
BESIDE = 4.0  # metres from the centre of an obstacle: elsewhere few cells are uncertain
HEIGHT, INTENSITY = 0.0, 0.5  # of the point: at the height of the sensor, where walls and cars reflect
LIMITS = (0.0, 0.01, 0.1)  # of objectness, a share
REACHES = ("any output", "objectness", *(f"by {limit:g}" for limit in LIMITS[1:]))
COLUMNS = ("system", "case", "x", "y", *REACHES)
SUMMARY = ("system", "points", *REACHES)
FARTHEST = 0.5  # of the grid's reach: there is grid on all sides of such a point


@dataclass(frozen=True)
class Reach:
    """One added point, and the farthest distances at which it changes something; None if it changes nothing."""

    case: str
    x: float
    y: float
    metres: tuple[float | None, ...]  # by REACHES


def sheets(setting: Setting, all_tested: Sequence[LidarRuns]) -> tuple[TablePanel, ...]:
    """How far single points have an effect in each of the zoo's networks; empty if there is none."""
    found = [(tested.name, list(reaches(tested, setting.seed))) for tested in all_tested]
    measured = [(name, some) for name, some in found if some]
    if not measured:
        return ()
    rows = tuple((name, one.case, one.x, one.y, *one.metres) for name, some in measured for one in some)
    summary = tuple((name, len(some), *farthest(some)) for name, some in measured)
    csv = setting.table("field", COLUMNS, rows)
    title = "Farthest effect of one added point, in metres"
    return (TablePanel(title, SUMMARY, summary, _note(summary), csv=csv, formats=dict.fromkeys(REACHES, ".1f")),)


def reaches(tested: LidarRuns, seed: int) -> Iterator[Reach]:
    """Single points at some places outside the region of some frames; none for systems outside the zoo."""
    system = tested.subject.system
    if not isinstance(system, Lidar):
        return
    for seen in islice(tested.baseline, FRAMES):
        case = tested.subject.source[seen.case]
        before = system.swept(case)
        outputs = _outputs(system, before)
        for x, y in places(system, case, boxes_of(seen.said), seed):
            after = system.swept(with_point(case, x, y))
            metres = _metres(system, before, (outputs, _outputs(system, after)), (x, y))
            yield Reach(seen.case, x, y, metres)


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


def _metres(
    system: Lidar, swept: Swept, outputs: tuple[Array, Array], place: tuple[float, float]
) -> tuple[float | None, ...]:
    """The farthest change of any output, and of the objectness of cells with points, beyond each limit."""
    change = np.abs(outputs[1] - outputs[0])
    apart = np.hypot(*(system.grid.centres - np.reshape(place, (2, 1, 1))))
    objectness = change[HEADS["category"]][0] * (swept.maps[FILLED].numpy() > 0)
    masks = (change.max(axis=0) > 0, *(objectness > limit for limit in LIMITS))
    return tuple(float(apart[mask].max()) if mask.any() else None for mask in masks)


def farthest(some: Sequence[Reach]) -> Row:
    """The farthest of several points, by `REACHES`."""
    columns = zip(*(one.metres for one in some), strict=True)
    return tuple(max((metres for metres in column if metres is not None), default=None) for column in columns)


def _note(summary: Sequence[Row]) -> str:
    """What was measured, such as `lidar: 0.8 m, any output: 38.5 m`, and what was not."""
    reach = "; ".join(f"{row[0]}: {_far(row[5])}, any output: {_far(row[2])}" for row in summary)
    return (
        f"up to {PLACES} points outside the region in each of {FRAMES} frames, near obstacles, one at a time, at the height "
        f"of the sensor and with intensity {INTENSITY:g}; objectness of non-empty cells, from 0 to 1. Farthest change of "
        f"objectness by {LIMITS[2]:g}: {reach}. Losses may occur farther away: with points of other heights or intensities, "
        "with many points, and through the offsets of cells or the clustering. Distances in the other tables are to an "
        "obstacle's centre, not to its nearest cell"
    )


def _far(metres: object) -> str:
    return f"{metres:.1f} m" if isinstance(metres, float) else "nowhere"
