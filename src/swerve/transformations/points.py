"""What every change to a point cloud shares: the clouds of a case, and the span of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from swerve.core.case import Case
from swerve.core.transformation import ANYTHING, Transformation, params_of
from swerve.core.values import Array, Calibration, Group, Image, PointCloud, Value

V = TypeVar("V", bound=Value)
WIDE = 256  # points side by side: the least of four columns is found thirty times faster over long rows


def clouds_of(case: Case) -> Iterator[PointCloud]:
    """Every sweep among the inputs of `case`, those of windows included."""
    return _of_kind(PointCloud, case.inputs.values())


def has_camera(case: Case) -> bool:
    """Whether a camera looks on."""
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
    """The least and the greatest x, y, z and intensity, in float64 but exactly as the sweep has them."""

    low: Array
    high: Array


def span(cloud: PointCloud) -> Span | None:
    """The span of the finite points; None where there is none."""
    xyzi = cloud.xyzi if np.isfinite(cloud.xyzi).all() else cloud.xyzi[np.isfinite(cloud.xyzi).all(axis=1)]
    if not len(xyzi):
        return None
    rest = len(xyzi) % WIDE
    rows, long = xyzi[:rest], xyzi[rest:].reshape(-1, 4 * WIDE)
    low, high = rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf)
    if len(long):
        low = np.minimum(low, long.min(axis=0).reshape(-1, 4).min(axis=0))
        high = np.maximum(high, long.max(axis=0).reshape(-1, 4).max(axis=0))
    return Span(low.astype(np.float64), high.astype(np.float64))


@dataclass(frozen=True)
class CloudChange(Transformation):
    """A change to what the LiDAR sees: it needs a sweep, and leaves it untouched at its neutral numbers (R58)."""

    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def applies(self, case: Case) -> str | None:
        """A reason when `case` has no point cloud."""
        return "the case has no point cloud to change" if next(clouds_of(case), None) is None else None

    def points(self, value: PointCloud) -> PointCloud:
        """The changed sweep."""
        return value if self._idle() or not len(value.xyzi) else PointCloud(self._swept(value.xyzi))

    def _swept(self, xyzi: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} does not say how it changes points")

    def _idle(self) -> bool:
        return all(getattr(self, name) == facts.neutral for name, facts in params_of(type(self)).items())
