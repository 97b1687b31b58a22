"""The score of a LiDAR system on labelled sweeps: recall, precision and correct types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.system import System
from swerve.core.values import Boxes3D, find
from swerve.relations.matching import box_distances, match
from swerve.relations.obstacles import stand_on
from swerve.zoo.clusters import KINDS

WITHIN = 30.0  # metres from the sensor
GOAL = {"car": 0.95, "pedestrian": 0.9, "cyclist": 0.9}  # recall
PRECISION, TYPES = 0.9, 0.85


@dataclass(frozen=True)
class DetectionTally:
    """Counts over sweeps: per kind the required obstacles, those found, and those found with their type; and false boxes."""

    demanded: tuple[int, ...] = (0,) * len(KINDS)
    found: tuple[int, ...] = (0,) * len(KINDS)
    right: tuple[int, ...] = (0,) * len(KINDS)
    made_up: int = 0
    sweeps: int = 0
    within: float = WITHIN  # metres

    def __add__(self, other: DetectionTally) -> DetectionTally:
        return DetectionTally(
            demanded=_summed(self.demanded, other.demanded),
            found=_summed(self.found, other.found),
            right=_summed(self.right, other.right),
            made_up=self.made_up + other.made_up,
            sweeps=self.sweeps + other.sweeps,
            within=self.within,
        )

    @property
    def precision(self) -> float:
        """The share of boxes that lie on an obstacle."""
        return sum(self.found) / max(1, sum(self.found) + self.made_up)

    @property
    def typed(self) -> float:
        """The share of the found obstacles whose type is correct."""
        return sum(self.right) / max(1, sum(self.found))

    def recall(self, kind: str) -> float:
        """The share of the required obstacles of a kind that are found."""
        number = KINDS.index(kind)
        return self.found[number] / max(1, self.demanded[number])

    def as_dict(self) -> dict[str, Any]:
        """The numbers of a card."""
        kinds = {
            kind: {
                "demanded": self.demanded[number],
                "recall": round(self.recall(kind), 4),
                "types_right": round(self.right[number] / max(1, self.found[number]), 4),
            }
            for number, kind in enumerate(KINDS)
        }
        return {
            "sweeps": self.sweeps,
            "within_metres": self.within,
            "precision": round(self.precision, 4),
            "made_up": self.made_up,
            "types_right": round(self.typed, 4),
            "kinds": kinds,
        }


def _summed(mine: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sum, zip(mine, theirs, strict=True)))


def tallied(system: System, cases: Iterable[Case], within: float = WITHIN) -> DetectionTally:
    """The counts of a system over cases with 3-D boxes as truth."""
    total = DetectionTally(within=within)
    for case in cases:
        total += compared(_boxes(case.truth, case.key), _boxes(system([case])[0], case.key), within)
    return total


def compared(truth: Boxes3D, predicted: Boxes3D, within: float = WITHIN) -> DetectionTally:
    """The counts of one sweep: each required obstacle is matched with one box whose centre lies on it.

    Required are obstacles with `care` that stand `within` reach. Boxes on other obstacles count neither way.
    """
    near = np.hypot(*predicted.xyzlwhy[:, :2].T) < within
    demanded = np.asarray(truth.care) & (np.hypot(*truth.xyzlwhy[:, :2].T) < within)
    on = stand_on(truth, predicted)
    matching = match(1 / (1 + box_distances(truth, predicted)), on, demanded)
    pairs = [(row, column) for row, column in matching.pairs if demanded[row]]
    tolerated = on[~demanded].any(axis=0)
    made_up = [column for column in matching.extra if near[column] and not tolerated[column]]
    right = [row for row, column in pairs if truth.kinds[row] == predicted.kinds[column]]
    return DetectionTally(
        demanded=_by_kind(truth, np.flatnonzero(demanded)),
        found=_by_kind(truth, [row for row, _ in pairs]),
        right=_by_kind(truth, right),
        made_up=len(made_up),
        sweeps=1,
        within=within,
    )


def _by_kind(truth: Boxes3D, rows: Iterable[int]) -> tuple[int, ...]:
    kinds = [truth.kinds[row] for row in rows]
    return tuple(kinds.count(kind) for kind in KINDS)


def _boxes(values: tuple[Any, ...], key: str) -> Boxes3D:
    boxes = find(values, Boxes3D.slot)
    if not isinstance(boxes, Boxes3D):
        raise InputError(
            f"{key}: expected 3-D boxes, got {', '.join(type(value).__name__ for value in values) or 'nothing'}"
        )
    return boxes


def reached(score: Mapping[str, Any]) -> bool:
    """Whether a card's numbers reach the goal: recall and types of each kind, precision and types overall."""
    kinds = [(score["kinds"][kind], least) for kind, least in GOAL.items()]
    by_kind = all(kind["recall"] >= least and kind["types_right"] >= TYPES for kind, least in kinds)
    return by_kind and score["precision"] >= PRECISION and score["types_right"] >= TYPES
