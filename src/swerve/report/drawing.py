"""Where things go in the page's drawings: severity curves, bars and steering arrows, as plain numbers for SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swerve.analysis.severity import Curve, Point
from swerve.core.system import Answer
from swerve.core.values import Steering, find
from swerve.report.numbers import RuleCounts

# The plot inside the template's 300 × 184 drawing.
LEFT, RIGHT, TOP, BOTTOM = 36, 290, 8, 140
MOST_TICKS = 6
CEILINGS = (0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class SeverityChart:
    """A severity curve in the coordinates of its drawing."""

    curve: Curve
    axis: str
    band: str
    line: str
    dots: tuple[tuple[float, float, str], ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    untouched: float | None


def charts(curves: Sequence[Curve]) -> list[SeverityChart]:
    """All curves against one vertical scale, so that they compare at a glance."""
    highest = max((point.high for curve in curves for point in curve.points), default=1.0)
    top = next(ceiling for ceiling in CEILINGS if highest <= ceiling)
    return [_chart(curve, top) for curve in curves]


def _chart(curve: Curve, top: float) -> SeverityChart:
    points = _in_order(curve.points)
    start, end = points[0].value, points[-1].value

    def x(point: Point) -> float:
        return round(LEFT + (RIGHT - LEFT) * (point.value - start) / (end - start), 1)

    def y(rate: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * min(rate / top, 1.0), 1)

    upper = [(x(point), y(point.high)) for point in points]
    lower = [(x(point), y(point.low)) for point in reversed(points)]
    unit = curve.unit.strip()
    every = math.ceil(len(points) / MOST_TICKS)
    rate = curve.untouched[0] / curve.untouched[1] if curve.untouched and curve.untouched[1] else None
    return SeverityChart(
        curve,
        f"{curve.parameter} ({unit})" if unit else curve.parameter,
        f"{_path([*upper, *lower])}Z",
        _path((x(point), y(point.rate)) for point in points),
        tuple((x(point), y(point.rate), _told(point, curve.unit)) for point in points),
        tuple((x(point), f"{point.value:.4g}") for point in points[::every]),
        tuple((y(top * step / 2), f"{top * step / 2:.0%}") for step in range(3)),
        None if rate is None else y(rate),
    )


def _in_order(points: Sequence[Point]) -> list[Point]:
    """Mildest change at the left; a parameter moved both ways runs from low to high instead."""
    values = [point.value for point in points]
    rising = sorted(values)
    return list(points) if values in (rising, rising[::-1]) else sorted(points)


def _told(point: Point, unit: str) -> str:
    interval = f"{point.low:.1%} to {point.high:.1%}"
    return f"{point.value:.4g}{unit}: {point.violated:,} of {point.trials:,} violated, {point.rate:.1%} ({interval})"


def _path(corners: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in corners)


def stack(line: RuleCounts) -> list[tuple[str, float, float]]:
    """The four ways a trial ends as name, start and length on a bar of 1,000."""
    parts: list[tuple[str, float, float]] = []
    start = 0.0
    for name in ("held", "violated", "skipped", "errors"):
        length = 1000 * getattr(line, name) / line.trials if line.trials else 0.0
        parts.append((name, round(start, 2), round(length, 2)))
        start += length
    return parts


def turn(answer: Answer) -> str:
    """The SVG rotation of a steering arrow: straight up at 0°, left for positive wheel degrees; empty without an angle."""
    said = find(answer, Steering.slot)
    if not isinstance(said, Steering) or not math.isfinite(said.degrees):
        return ""
    return f"{-min(max(said.degrees, -90.0), 90.0):.1f}"
