"""Points offered to a sweep by who does not know its region, as a search does: those that may be there are added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.region import outside
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Region
from swerve.transformations.placing import within
from swerve.transformations.points import Span, clouds_of, span
from swerve.transformations.scatter import MorePoints, PlacePoints, Point, metres


@dataclass(frozen=True)
class OfferPoints(MorePoints):
    """Points (x, y, z, share) `at` these places, without those that would lie inside the region (LM-4).

    With `near`, also without those that lie more than so many metres from its border. Heights beyond the sweep's are brought
    to its least or greatest; the share says where between its least and its greatest intensity a point lies. It does not
    apply where none of them is left.
    """

    at: tuple[Point, ...]
    near: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "at", PlacePoints(self.at).at)
        object.__setattr__(self, "near", metres(self.near))
        if any(not 0 <= share <= 1 for *_, share in self.at):
            raise ValueError("at holds a share of the intensities that is not from 0 to 1")

    def parts(self) -> Sequence[Point]:
        """The points."""
        return self.at

    def with_parts(self, parts: Sequence[Point]) -> OfferPoints:
        """These points alone."""
        return replace(self, at=tuple(parts))

    def simpler(self) -> Iterator[Transformation]:
        """Either half of the points."""
        middle = -(-len(self.at) // 2)
        yield from (self.with_parts(half) for half in (self.at[:middle], self.at[middle:]) if 0 < len(half) < len(self.at))

    def words(self) -> str:
        """Such as "3 points offered outside the region, at most 5 m from it"."""
        where = "" if self.near is None else f", at most {self.near:g} m from it"
        return f"{len(self.at):,} point{'' if len(self.at) == 1 else 's'} offered outside the region{where}"

    def placed(self, case: Case) -> PlacePoints:
        """The change that adds the very same points to `case` and says where each lies."""
        region, cloud = self._region(case), next(clouds_of(case), None)
        reach = span(cloud) if cloud is not None else None
        if region is None or reach is None:
            raise NotApplicable(self.applies(case) or "the sweep has no finite point")
        return PlacePoints(tuple(map(tuple, self._placed(reach, region).tolist())), outside=self.outside)

    def _idle(self) -> bool:
        return not self.at

    def _placed(self, reach: Span, region: Region) -> Array:
        xyzs = np.array(self.at, np.float32).reshape(-1, 4)
        kept: Array = xyzs[outside(region, xyzs[:, :2])]
        if self.near is not None:
            kept = kept[within(self.near, region, kept[:, :2].astype(np.float64))]
        if not len(kept):
            where = "" if self.near is None else f", at most {self.near:g} m from it"
            raise NotApplicable(f"none of the {len(self.at):,} points offered lies outside the region{where}")
        low, high = reach.low[2:].astype(np.float32), reach.high[2:].astype(np.float32)
        kept[:, 2] = np.clip(kept[:, 2], low[0], high[0])
        kept[:, 3] = np.clip(low[1] + kept[:, 3] * (high[1] - low[1]), low[1], high[1])
        return kept
