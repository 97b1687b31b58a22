"""A critical condition as it is reported: in words, with its errors at several limits and what lies around it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import Any

import numpy as np

from swerve.core.encode import encode_change
from swerve.core.values import Array
from swerve.search.coordinates import Coordinates, marks_of
from swerve.search.fitness import Candidate, Fitness
from swerve.search.neighbourhood import Neighbour, Neighbourhood

DEGREES = (10, 20, 30, 40)  # TA-9
STEPS = (0.1, 0.2, 0.5)  # of a signal


@dataclass
class Critical:
    """A condition that the search found, with the answers to all scenes before and under it (None where there is none)."""

    candidate: Candidate
    fitness: Fitness
    before: Sequence[float | None]
    after: Sequence[float | None]
    covered: float | None  # the share of regions that the scenes and all conditions so far cover
    steering: bool = True  # whether the answers are steering angles in radians
    around: Neighbourhood | None = None
    same_as: int | None = None  # the place of an earlier condition that is the same


def errors(distances: Sequence[float], *, steering: bool = True) -> dict[str, int]:
    """How many distances reach each limit: degrees for steering, which are given in radians, else the signal's unit."""
    # TA-9: |θo - θt| < ε holds, so the limit itself counts
    limits = [(f"{limit:g}", math.radians(limit) if steering else limit) for limit in (DEGREES if steering else STEPS)]
    return {name: sum(distance >= limit for distance in distances) for name, limit in limits}


def as_json(found: Critical, where: Coordinates) -> dict[str, Any]:
    """A condition as it stands in `summary.json`."""
    candidate, fitness = found.candidate, found.fitness
    distances = [abs(b - a) for a, b in _answered(found)]
    return {
        "change": encode_change(candidate.change),
        "in_words": candidate.change.words(),
        "numbers": _numbers(where, candidate.vector),
        "vector": [round(float(number), 6) for number in candidate.vector],
        "scenes": len(candidate.moved),
        "refused": candidate.refused,
        "divergence": fitness.divergence,
        "new_coverage": fitness.coverage,
        "coverage": found.covered,
        "fitness": fitness.total,
        "coverage_share": fitness.coverage_share,
        "errors": errors(distances, steering=found.steering),
        "on_bounds": list(where.on_bounds(candidate.vector)),
        "marks": marks_of(where, candidate.vector),
        "same_as": found.same_as,
        **(_around_json(found.around, where, found.steering) if found.around and found.around.lines else {}),
    }


def best_so_far(course: Sequence[Mapping[str, Any]]) -> list[float]:
    """The best fitness after every candidate of a condition, from the course of a search as `summary.json` has it."""
    most = max((int(row["scenes"]) for row in course), default=0)
    # A candidate that left the race is known on some scenes only.
    known = [float(row["fitness"]) if int(row["scenes"]) == most else 0.0 for row in course]
    return list(accumulate(known, max))


def between(conditions: Sequence[Critical], *, steering: bool) -> dict[str, Any]:
    """The relation between conditions: how far answers to the same scene differ from one condition to another."""
    # TA-9b
    scenes = zip(*(one.after for one in conditions), strict=True) if len(conditions) > 1 else ()
    answered = [[value for value in scene if value is not None] for scene in scenes]
    gaps = [abs(b - a) for scene in answered for a, b in combinations(scene, 2)]
    spreads = [max(scene) - min(scene) for scene in answered if len(scene) > 1]
    mean = float(np.mean(spreads)) if spreads else 0.0
    return {"scenes": len(spreads), "mean_spread": mean, "pairs": len(gaps), "errors": errors(gaps, steering=steering)}


def _numbers(where: Coordinates, vector: Array) -> list[str]:
    """Every parameter in words, without those that do nothing."""
    every = [where.in_words(place, vector) for place in range(len(vector))]
    return (
        every
        if where.neutral is None
        else [words for place, words in enumerate(every) if words != where.in_words(place, where.neutral)]
    )


def _answered(found: Critical) -> list[tuple[float, float]]:
    pairs = zip(found.before, found.after, strict=True)
    return [(before, after) for before, after in pairs if before is not None and after is not None]


def _around_json(around: Neighbourhood, where: Coordinates, steering: bool) -> dict[str, Any]:
    lines = {
        where.names[place]: [_point(where, (place,), point, steering) for point in line]
        for place, line in around.lines.items()
        if line
    }
    points = [_point(where, around.axes, point, steering) for point in around.map]
    axes = [where.names[place] for place in around.axes]
    centre = float(np.mean(around.centre)) if around.centre else None
    holds = _nearest_that_holds(around, where, steering)
    return {"centre": centre, "lines": lines, "holds": holds, "map": {"axes": axes, "points": points}}


def _point(where: Coordinates, axes: Sequence[int], point: Neighbour, steering: bool) -> dict[str, Any]:
    return {
        "at": [where.in_words(place, point.vector) for place in axes],
        "scenes": len(point.moved),
        "divergence": float(np.mean(point.moved)) if point.moved else None,
        "errors": errors(point.moved, steering=steering),
    }


def _nearest_that_holds(around: Neighbourhood, where: Coordinates, steering: bool) -> str:
    """The smallest move along one parameter after which no scene reaches the first limit; empty if there is none.

    A move after which fewer scenes are admitted is none: what is refused does not hold.
    """
    holding = [
        (number, place, point)
        for place, line in around.lines.items()
        for number, point in enumerate(line)
        if len(point.moved) >= len(around.centre) and not next(iter(errors(point.moved, steering=steering).values()))
    ]
    if not holding:
        return ""
    _, place, point = min(holding, key=lambda item: item[:2])
    return f"{where.in_words(place, point.vector)}: it holds on {len(point.moved)} scenes"
