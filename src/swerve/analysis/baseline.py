"""A system's error on the untouched cases against their labels, in the labels' own unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from swerve.analysis.detection import average_precision, centre_precision
from swerve.core.campaign import Observation
from swerve.core.case import Source
from swerve.core.convention import Convention
from swerve.core.values import Array, Boxes2D, Boxes3D, Steering, Value, find

WHEEL = "degrees of the steering wheel"
ANY, SAME = "any", "same"
V = TypeVar("V", bound=Value)


def baseline_error(source: Source, baseline: Sequence[Observation]) -> dict[str, Any]:
    """The number of usable cases and, for what is both labelled and predicted, `mse` or `map` with their units."""
    usable = [seen for seen in baseline if not seen.fault]
    counts: dict[str, Any] = {"cases": len(usable), "unusable": len(baseline) - len(usable)}
    flat, solid = _boxes(usable), _solids(usable)
    if flat and solid:  # a fused system has both
        solid = {f"{name}_3d": item for name, item in solid.items()}
    return counts | _steering(source, usable) | flat | solid


def convention_of(source: Source) -> Convention | None:
    """The steering convention that a source, or the source it wraps, declares."""
    declared = getattr(source, "convention", None)
    inner = getattr(source, "source", None)
    return declared if isinstance(declared, Convention) else convention_of(inner) if inner is not None else None


def angles(usable: Sequence[Observation]) -> tuple[list[float], list[float]]:
    """Labels and answers in degrees of the wheel, for the cases that have both."""
    pairs = list(_both(usable, Steering))
    return [label.degrees for label, _ in pairs], [answer.degrees for _, answer in pairs]


def _steering(source: Source, usable: Sequence[Observation]) -> dict[str, Any]:
    labels, answers = angles(usable)
    if not labels:
        return {}
    declared = convention_of(source)
    # In the labels' own unit, of the steering wheel or of the road wheels.
    size = abs(declared.steering(1.0).degrees) if declared else 1.0
    unit, _, of = (str(declared).split(",")[0] if declared else WHEEL).partition(" of ")
    wrong = (np.array(answers) - labels) / size
    still = np.array(labels) / size
    mse = {"mse": float(np.mean(wrong**2)), "unit": unit, "of": of, "labels": len(labels)}
    degrees = {"rmse_degrees": _root(wrong) * size, "rmse_of_zero_degrees": _root(still) * size}
    return {**mse, **degrees, "mse_of_zero": float(np.mean(still**2))}


def _root(errors: Array) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _boxes(usable: Sequence[Observation]) -> dict[str, Any]:
    pairs = list(_both(usable, Boxes2D))
    if not pairs:
        return {}
    truth, answers = [label for label, _ in pairs], [answer for _, answer in pairs]
    # A detector that knows traffic lights but not their states can still be measured by their positions.
    any_kind = not _kinds(truth) & _kinds(answers)
    found = average_precision(truth, answers, any_kind=any_kind)
    demanded = int(sum(np.count_nonzero(np.asarray(boxes.care)) for boxes in truth))
    limits = {"map_50": found.at(0.5), "labels": demanded}
    return {"map": found.mean, **limits, "kinds": ANY if any_kind else SAME}


def _solids(usable: Sequence[Observation]) -> dict[str, Any]:
    pairs = list(_both(usable, Boxes3D))
    if not pairs:
        return {}
    truth, answers = [label for label, _ in pairs], [answer for _, answer in pairs]
    any_kind = not _kinds(truth) & _kinds(answers)
    found = centre_precision(truth, answers, any_kind=any_kind)
    return {"map": found.mean, "by_metres": dict(found.by_limit), "kinds": ANY if any_kind else SAME}


def _kinds(sets: Sequence[Boxes2D | Boxes3D]) -> set[str]:
    return {kind for boxes in sets for kind in boxes.kinds}


def _both(usable: Sequence[Observation], kind: type[V]) -> Iterator[tuple[V, V]]:
    for seen in usable:
        label, answer = find(seen.truth, kind.slot), find(seen.answer, kind.slot)
        if isinstance(label, kind) and isinstance(answer, kind):
            yield label, answer
