"""What changes to point clouds share: the sweeps of a case, their value range, and the directions of boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from swerve.core.case import Case
from swerve.core.transformation import ANYTHING, Transformation, params_of
from swerve.core.values import Array, Calibration, Group, Image, PointCloud, Value

V = TypeVar("V", bound=Value)
ROW = 256  # points per row: minima of four columns are found thirty times faster over long rows
TURN = 2 * np.pi


def clouds_of(case: Case) -> Iterator[PointCloud]:
    """Every sweep among the inputs of `case`, those of windows included."""
    return _of_kind(PointCloud, case.inputs.values())


def has_camera(case: Case) -> bool:
    """Whether `case` has a camera image."""
    return next(_of_kind(Image, case.inputs.values()), None) is not None


def calibration_of(case: Case) -> Calibration | None:
    """The first calibration among the inputs and labels of `case`."""
    return next(_of_kind(Calibration, (*case.inputs.values(), *case.truth)), None)


def _of_kind(kind: type[V], values: Iterable[Value]) -> Iterator[V]:
    for value in values:
        if isinstance(value, kind):
            yield value
        elif isinstance(value, Group):
            yield from _of_kind(kind, value.values)


class Span(NamedTuple):
    """The least and the greatest x, y, z and intensity of a sweep, as float64."""

    low: Array
    high: Array


def span(cloud: PointCloud) -> Span | None:
    """The span of the finite points; None where there is none."""
    xyzi = cloud.xyzi if np.isfinite(cloud.xyzi).all() else cloud.xyzi[np.isfinite(cloud.xyzi).all(axis=1)]
    if not len(xyzi):
        return None
    rest = len(xyzi) % ROW
    rows, long = xyzi[:rest], xyzi[rest:].reshape(-1, 4 * ROW)
    low, high = rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf)
    if len(long):
        low = np.minimum(low, long.min(axis=0).reshape(-1, 4).min(axis=0))
        high = np.maximum(high, long.max(axis=0).reshape(-1, 4).max(axis=0))
    return Span(low.astype(np.float64), high.astype(np.float64))


@dataclass(frozen=True)
class CloudChange(Transformation):
    """A change to a LiDAR sweep: it needs one, and returns it unchanged at its neutral parameter values."""

    # R58
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def applies(self, case: Case) -> str | None:
        """Why it does not apply (`case` has no point cloud), or None."""
        return "the case has no point cloud to change" if next(clouds_of(case), None) is None else None

    def points(self, value: PointCloud) -> PointCloud:
        """The changed sweep."""
        return value if self._is_neutral() or not len(value.xyzi) else PointCloud(self._change_points(value.xyzi))

    def _change_points(self, xyzi: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _change_points")

    def _is_neutral(self) -> bool:
        return all(getattr(self, name) == facts.neutral for name, facts in params_of(type(self)).items())


def wrap_angle(angles: Array) -> Array:
    """Radians wrapped into [-π, π)."""
    return np.asarray((angles + np.pi) % TURN - np.pi)


def bearings(xyzlwhy: Array) -> tuple[Array, Array]:
    """The least and the greatest azimuth of each box in radians, left positive from ahead; the greatest is below 3π.

    A box around the sensor spans the full circle.
    """
    x, y, _, length, width, _, yaw = xyzlwhy.T
    cos, sin = np.cos(yaw), np.sin(yaw)
    along, across = (np.outer(sides, half) for sides, half in (((1, -1, -1, 1), length / 2), ((1, 1, -1, -1), width / 2)))
    middle = np.arctan2(y, x)
    off = wrap_angle(np.arctan2(y + along * sin + across * cos, x + along * cos - across * sin) - middle)
    around = (np.abs(x * cos + y * sin) <= np.abs(length) / 2) & (np.abs(y * cos - x * sin) <= np.abs(width) / 2)
    return np.where(around, -np.pi, middle + off.min(axis=0)), np.where(around, np.pi, middle + off.max(axis=0))


def spans_overlap(least: Array, most: Array, low: float, high: float) -> Array:
    """Whether each span of azimuths overlaps the span from `low` to `high`, modulo full turns."""
    turns = np.ceil((low - most) / TURN)  # the fewest that bring the end to `low` or beyond
    return np.asarray(least + turns * TURN <= high)
