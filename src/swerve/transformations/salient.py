"""Objects chosen by what a system looks at: those on which most of an explanation's heat falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import numpy as np

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.case import Case
from swerve.core.lru import SizedLRU
from swerve.core.values import Array
from swerve.explain.grad_cam import GradCam
from swerve.explain.heat import Explanation, HeatMap
from swerve.world.objects import SeenObjects

if TYPE_CHECKING:
    from swerve.core.system import System

SUM, AVERAGE = MEASURES = ("sum", "average")


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
    """Objects with the most heat first; those without any heat are left out, and so are all where a heat map is flat.

    Args:
        explanation: how the heat is found.
        by: `sum`, the heat on all pixels of an object, or `average`, the heat on one pixel.
    """

    explanation: Explanation = field(default_factory=GradCam)
    by: Annotated[str, OneOfNames(*MEASURES)] = SUM
    _known: SizedLRU = field(default_factory=lambda: SizedLRU(256), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_known("value of 'by':", self.by, MEASURES)

    def rank(
        self, cases: Sequence[Case], objects: Sequence[SeenObjects], rngs: Sequence[np.random.Generator], system: System
    ) -> Sequence[Sequence[int]]:
        """For each case the numbers of its objects, the most important first."""
        del rngs
        return [self._ranked(heat, seen) for heat, seen in zip(self._heats(cases, system), objects, strict=True)]

    def _ranked(self, heat: HeatMap, seen: SeenObjects) -> list[int]:
        scores = {number: importance(heat.on_picture, seen.mask(number), self.by) for number in sorted(seen.numbered)}
        return [number for number in sorted(scores, key=lambda number: -scores[number]) if scores[number] > 0]

    def _heats(self, cases: Sequence[Case], system: System) -> Sequence[HeatMap]:
        """The heat maps of all cases; those not known yet are found in one pass."""
        keys = [(case.input_sha, system.fingerprint()) for case in cases]
        known = {key: heat for key in keys if isinstance(heat := self._known.find(key), HeatMap)}
        missing = {key: case for key, case in zip(keys, cases, strict=True) if key not in known}
        found = self.explanation.explain(list(missing.values()), system) if missing else ()
        for key, heat in zip(missing, found, strict=True):
            known[key] = self._known.get(key, partial(HeatMap, heat.values, heat.window, heat.size))
        return [known[key] for key in keys]
