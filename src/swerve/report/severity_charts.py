"""The report's severity curves as SVG, one small chart per rule and parameter, all against one vertical scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from swerve.analysis.severity import Curve, Point
from swerve.report.axis import AxisScale
from swerve.report.canvas import draw, path, text

WIDTH, HEIGHT = 300, 184
LEFT, RIGHT, TOP, BOTTOM = 36, 290, 8, 140  # of the plot
MOST_TICKS = 6
CEILINGS = (0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class SeverityChart:
    """A chart with its rule and the sentence below it."""

    rule: str
    svg: Markup
    caption: str


def severity_charts(curves: Sequence[Curve]) -> list[SeverityChart]:
    """A chart for each curve, comparable at a glance."""
    highest = max((point.high for curve in curves for point in curve.points), default=1.0)
    top = next(ceiling for ceiling in CEILINGS if highest <= ceiling)
    return [SeverityChart(curve.rule, _chart(curve, top), curve.limit) for curve in curves]


def _chart(curve: Curve, top: float) -> Markup:
    unit = curve.unit.strip()
    axis = f"{curve.parameter} ({unit})" if unit else curve.parameter
    about = f"violation rate by {axis}"
    return draw("svg", _parts(curve, axis, top), viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=about)


def _parts(curve: Curve, axis: str, top: float) -> Iterator[Markup]:
    points = _in_order(curve.points)
    across = AxisScale(points[0].value, points[-1].value, LEFT, RIGHT)
    up = AxisScale(0, top, BOTTOM, TOP)
    for half in range(3):
        y = up(top * half / 2)
        yield draw("path", class_="grid", d=f"M{LEFT} {y:g}H{RIGHT}")
        yield text(LEFT - 5, y + 4, f"{top * half / 2:.0%}", "y")
    upper = [(across(point.value), up(point.high)) for point in points]
    lower = [(across(point.value), up(point.low)) for point in reversed(points)]
    yield draw("path", class_="band", d=f"{path([*upper, *lower])}Z")
    if curve.untouched and curve.untouched[1]:
        rate = min(curve.untouched[0] / curve.untouched[1], top)
        yield draw("path", class_="untouched", d=f"M{LEFT} {up(rate):g}H{RIGHT}")
    yield draw("path", class_="line", d=path((across(point.value), up(point.rate)) for point in points))
    for point in points[:: math.ceil(len(points) / MOST_TICKS)]:
        yield draw("path", class_="tick", d=f"M{across(point.value):g} {BOTTOM}v4")
        yield text(across(point.value), BOTTOM + 17, f"{point.value:.4g}", "x")
    yield text((LEFT + RIGHT) / 2, BOTTOM + 37, axis, "x axis")
    for point in points:
        yield draw("circle", cx=across(point.value), cy=up(point.rate), r=3, tooltip=_tooltip(point, curve.unit))


def _in_order(points: Sequence[Point]) -> list[Point]:
    """Mildest change at the left; a parameter moved both ways runs from low to high instead."""
    values = [point.value for point in points]
    rising = sorted(values)
    return list(points) if values in (rising, rising[::-1]) else sorted(points)


def _tooltip(point: Point, unit: str) -> str:
    interval = f"{point.low:.1%} to {point.high:.1%}"
    return f"{point.value:.4g}{unit}: {point.violated:,} of {point.trials:,} violated, {point.rate:.1%} ({interval})"
