"""Checks whether angles have another sign or unit than was declared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from swerve.analysis.baseline import angles
from swerve.core.campaign import Observation
from swerve.execution.checks.concern import Concern, Level

FEWEST_FOR_SIGN, ENOUGH_FOR_SIGN = 10, 30  # labels to warn by, and to refuse by
EXPLAINED = 0.5  # at most this share of the error is left with the right sign or unit
TOGETHER = 0.5  # at least this correlation, with or against the labels
OTHERWISE = (
    ("sign", -1.0, "with the other sign (`positive` the other way)"),
    ("unit", math.degrees(1), "radians (`unit`) where degrees are declared"),
    ("unit", math.radians(1), "degrees (`unit`) where radians are declared"),
    ("sign", -math.degrees(1), "radians, with the other sign"),
    ("sign", -math.radians(1), "degrees, with the other sign"),
)


def unit_and_sign(usable: Sequence[Observation]) -> Iterator[Concern]:
    """Answers that would be right with the other sign, or in another unit (R42).

    A poor model is not enough: one of `OTHERWISE` must explain most of the labels, and halve the error as well.
    """
    labels, answers = (np.array(numbers) for numbers in angles(usable))
    if len(labels) < FEWEST_FOR_SIGN or not np.std(labels) or not np.std(answers):
        return
    together = float(np.corrcoef(labels, answers)[0, 1])  # a mere offset is neither
    wrong, still = float(np.mean((answers - labels) ** 2)), float(np.mean(labels**2))
    level = Level.REFUSAL if len(labels) >= ENOUGH_FOR_SIGN else Level.WARNING
    for name, factor, hint in OTHERWISE:
        other = float(np.mean((factor * answers - labels) ** 2))
        if other < EXPLAINED * min(wrong, still) and together * math.copysign(1, factor) > TOGETHER:
            better = f"their squared error against {len(labels)} labels would be {other:.3g}, not {wrong:.3g}"
            yield Concern(name, level, f"if the answers were {hint}, {better}")
            return
