"""How detectors answer to lights that were changed: found, taken for another state, or missed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from swerve.core.values import Boxes2D
from swerve.relations.matching import above_score, overlaps


@dataclass(frozen=True)
class ChangedLights:
    """Counts of changed lights: all, those found with their new state, and those whose surest box has another state."""

    lights: int = 0
    found: int = 0
    wrong: int = 0

    def __add__(self, other: ChangedLights) -> ChangedLights:
        return ChangedLights(self.lights + other.lights, self.found + other.found, self.wrong + other.wrong)

    @property
    def recall(self) -> float | None:
        """The share of the lights that were found."""
        return self.found / self.lights if self.lights else None

    @property
    def wrong_rate(self) -> float | None:
        """The share of the lights whose surest box has another state."""
        return self.wrong / self.lights if self.lights else None


def changed_lights(
    placed: Boxes2D, answer: Boxes2D, *, overlap: float = 0.5, least_score: float = 0.3, least: float = 0.0
) -> ChangedLights:
    """Of the `placed` lights with a shorter side of `least` pixels: those found, and those of a wrong state."""
    sure = above_score(answer, least_score)
    sides = placed.xyxy[:, 2:] - placed.xyxy[:, :2]
    rows = [row for row in range(len(placed.kinds)) if placed.care is None or np.asarray(placed.care)[row]]
    shared = overlaps(placed.xyxy, sure.xyxy)
    found = [_state(shared[row], sure, overlap) for row in rows if sides[row].min() >= least]
    wanted = [placed.kinds[row] for row in rows if sides[row].min() >= least]
    hits = sum(state == kind for state, kind in zip(found, wanted, strict=True))
    return ChangedLights(len(wanted), hits, sum(state is not None for state in found) - hits)


def _state(shared: Iterable[float], sure: Boxes2D, overlap: float) -> str | None:
    """The state of the surest box on a light."""
    near = [place for place, share in enumerate(shared) if share >= overlap]
    scores = np.asarray(sure.scores)
    return sure.kinds[max(near, key=lambda place: float(scores[place]))] if near else None
