"""Where points were added to a sweep, how near to its obstacles, and which of those are missing afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from swerve.config.toml import Builder
from swerve.core.case import Case
from swerve.core.encode import decode_values
from swerve.core.errors import NotApplicable
from swerve.core.region import region_of
from swerve.core.transformation import Transformation
from swerve.core.values import Array
from swerve.relations.obstacles import boxes_of, in_region
from swerve.relations.sets import missing_rows
from swerve.transformations.points import clouds_of

EDGES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # metres between an obstacle and the nearest added point


@dataclass(frozen=True, eq=False)
class Landed:
    """A rebuilt follow-up: the added points, the region's obstacles before, and which of them are missing after."""

    added: Array
    obstacles: Array  # x and y of the centres
    missing: Array

    @classmethod
    def of(cls, case: Case, row: Mapping[str, Any], builder: Builder) -> Landed:
        """The follow-up of a judged trial."""
        added = added_by(case, builder.change(row["change"]))
        before, after = (boxes_of(decode_values(row[end])) for end in ("before", "after"))
        gone = [place for rows in missing_rows(before, after, region_of(case), row["facts"]).values() for place in rows]
        required = np.flatnonzero(np.asarray(in_region(before, region_of(case)).care))
        return cls(added, before.xyzlwhy[required, :2], np.isin(required, gone))

    @cached_property
    def gaps(self) -> Array:
        """Metres on the ground between each obstacle and each added point."""
        away = self.obstacles[:, None] - self.added[None, :, :2].astype(np.float64)
        return np.asarray(np.hypot(away[..., 0], away[..., 1]))


def added_by(case: Case, change: Transformation) -> Array:
    """The points that a change adds to a case."""
    try:
        followup = change(case)
    except NotApplicable:
        return np.zeros((0, 4), np.float32)
    return next(clouds_of(followup)).xyzi[len(next(clouds_of(case)).xyzi) :]


def nearest(frames: Sequence[Landed]) -> tuple[Array, Array]:
    """For every obstacle, metres to the nearest added point, and whether it is missing."""
    gaps = np.concatenate([np.zeros(0), *(frame.gaps.min(axis=1, initial=np.inf) for frame in frames)])
    return gaps, np.concatenate([np.zeros(0, bool), *(frame.missing for frame in frames)])


def by_distance(frames: Sequence[Landed]) -> dict[str, tuple[int, int]]:
    """Obstacles, and how many of them are missing, by metres to the nearest added point."""
    gaps, gone = nearest(frames)
    place = np.digitize(gaps, EDGES)
    names = [*(f"{low:g}–{high:g}" for low, high in pairwise((0.0, *EDGES))), f"{EDGES[-1]:g} and more"]
    return {name: (int((place == bin).sum()), int((gone & (place == bin)).sum())) for bin, name in enumerate(names)}
