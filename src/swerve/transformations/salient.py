"""Objects chosen by what a system looks at: those on which most of an explanation's heat falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.values import Array
from swerve.explain.grad_cam import GradCam
from swerve.explain.heat import Explanation, HeatMap
from swerve.explain.known_heat import heat_maps
from swerve.transformations.frame_objects import FrameObjects
from swerve.transformations.object_choice import Ranking

if TYPE_CHECKING:
    from swerve.core.system import System

SUM, AVERAGE = MEASURES = ("sum", "average")
FLAT = "the heat map is flat: nothing in the picture speaks for the angle"
NO_HEAT = "no heat falls on any of the objects"


def importance(heat: Array, mask: Array, by: str = SUM) -> float:
    """The heat on an object: the sum over its pixels, or the mean."""
    # IA-6: K_sum (Eq. 2) and K_avg (Eq. 3), divided by |obj| (D-13)
    there = heat[mask]
    if not there.size:
        return 0.0
    total = float(there.sum(dtype=np.float64))
    return total if by == SUM else total / there.size


@dataclass(frozen=True)
class SalientObjects:
    """Objects with the most heat first; a picture has none if its heat map is flat, or if no heat falls on any object.

    Args:
        explanation: how the heat is found.
        by: `sum`, the heat on all pixels of an object, or `average`, the heat on one pixel.
    """

    explanation: Explanation = field(default_factory=GradCam)
    by: Annotated[str, OneOfNames(*MEASURES)] = SUM

    def __post_init__(self) -> None:
        check_known("value of 'by':", self.by, MEASURES)

    def rank(
        self, cases: Sequence[Case], objects: Sequence[FrameObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Ranking]:
        """For each case the numbers of its objects, the most important first; one pass for all cases."""
        del rngs
        heats = heat_maps(self.explanation, cases, system)
        return [self._ranked(heat, seen) for heat, seen in zip(heats, objects, strict=True)]

    def _ranked(self, heat: HeatMap, seen: FrameObjects) -> Ranking:
        if heat.is_flat:
            return NotApplicable(FLAT)
        on_picture = heat.on_picture
        scores = {number: importance(on_picture, seen.mask(number), self.by) for number in sorted(seen.numbered)}
        if not any(scores.values()):
            return NotApplicable(NO_HEAT)
        return sorted(scores, key=lambda number: -scores[number])  # stable: the smaller number first where they are equal
