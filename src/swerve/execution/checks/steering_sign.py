"""Checks whether angles have another sign or unit than was declared, on either side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from swerve.analysis.baseline import angles, convention_of
from swerve.core.campaign import Observation
from swerve.core.case import Source
from swerve.core.values import Array
from swerve.execution.checks.concern import Concern, Level

FEWEST_FOR_SIGN, ENOUGH_FOR_SIGN = 10, 30  # labels to warn by, and to refuse by
EXPLAINED = 0.5  # at most this share of the error is left with the right sign or unit
TOGETHER = 0.5  # at least this correlation, with or against the labels
LARGEST = 180.0  # degrees of the wheel; a drive whose angles are larger than that on average (RMS) is in another unit
SMALLEST = math.pi / 2  # degrees; a drive without a larger angle may be in radians
ANSWERS, LABELS = "the answers ([system])", "the labels ([source])"
FACTORS = (-1.0, math.degrees(1), math.radians(1), -math.degrees(1), -math.radians(1))


def unit_and_sign(source: Source, usable: Sequence[Observation]) -> Iterator[Concern]:
    """Answers that would be right with the other sign, or in another unit, or labels that would (R42).

    A poor model is not enough: one of `FACTORS` must explain most of the labels, and halve the error as well.
    """
    labels, answers = (np.array(numbers) for numbers in angles(usable))
    if len(labels) < FEWEST_FOR_SIGN or not np.std(labels) or not np.std(answers):
        return
    together = float(np.corrcoef(labels, answers)[0, 1])  # a mere offset is neither
    wrong, still = float(np.mean((answers - labels) ** 2)), float(np.mean(labels**2))
    level = Level.REFUSAL if len(labels) >= ENOUGH_FOR_SIGN else Level.WARNING
    for factor in FACTORS:
        other = float(np.mean((factor * answers - labels) ** 2))
        if other < EXPLAINED * min(wrong, still) and together * math.copysign(1, factor) > TOGETHER:
            hint, left = _explained(labels, answers, factor)
            better = f"the error (RMSE of {len(labels)} labels) would be {left:.3g}°, not {math.sqrt(wrong):.3g}°"
            yield Concern("sign" if factor < 0 else "unit", level, f"if {hint}, {better}")
            return
    yield from _tiny(source, labels, answers)


def _explained(labels: Array, answers: Array, factor: float) -> tuple[str, float]:
    """What `factor` means in words, and the error in degrees once that is put right."""
    turned = f"{ANSWERS} or {LABELS} had the other sign ('positive' the other way)" if factor < 0 else ""
    if abs(factor) == 1:
        return turned, _rmse(factor * answers, labels)
    # One side is 57 times the other: the larger one is wrong if it is too large for a wheel, otherwise the smaller one.
    larger, smaller = (labels, answers) if abs(factor) > 1 else (answers, labels)
    names = {id(labels): LABELS, id(answers): ANSWERS}
    too_large = _rmse(larger, 0 * larger) > LARGEST
    culprit, unit, other = (larger, "degrees", "radians") if too_large else (smaller, "radians", "degrees")
    hint = f"{names[id(culprit)]} were {unit} ('unit') and not {other}"
    sign = math.copysign(1, factor)
    left = _rmse(factor * answers, labels) if culprit is answers else _rmse(sign * answers, labels / abs(factor))
    return (f"{hint}, and {turned}" if turned else hint), left


def _tiny(source: Source, labels: Array, answers: Array) -> Iterator[Concern]:
    """Labels and answers that are both radians, declared as degrees: they agree, and exceed no limit in degrees."""
    declared, largest = convention_of(source), float(np.abs(labels).max())
    if len(labels) >= ENOUGH_FOR_SIGN and declared and declared.unit == "degrees" and largest < SMALLEST:
        of = float(np.abs(answers).max())
        why = f"no label is beyond {largest:.3g}° and no answer beyond {of:.3g}°"
        yield Concern("unit", Level.WARNING, f"{why}: if these are radians, say so ('unit') in [source] and [system]")


def _rmse(answers: Array, labels: Array) -> float:
    return float(np.sqrt(np.mean((answers - labels) ** 2)))
