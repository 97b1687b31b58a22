"""The quality of answers before and after changes as a small drawing: two marks with their intervals on one scale."""

from __future__ import annotations

from markupsafe import Markup

from swerve.analysis.robustness import Kept
from swerve.analysis.statistics import Estimate
from swerve.report.axis import AxisScale
from swerve.report.canvas import draw

WIDTH, HEIGHT = 200, 24
EDGE = 5


def quality_marks(kept: Kept, highest: float) -> Markup:
    """Both marks on a scale from 0 to `highest`: before above, after below."""
    scale = AxisScale(0.0, highest or 1.0, EDGE, WIDTH - EDGE)
    parts = [
        draw("path", class_="grid", d=f"M{EDGE} {HEIGHT / 2:g}H{WIDTH - EDGE}"),
        *_mark(kept.before, scale, 7, "before"),
        *_mark(kept.after, scale, 17, "after"),
    ]
    return draw("svg", parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", aria_hidden="true")


def _mark(one: Estimate, scale: AxisScale, y: float, kind: str) -> list[Markup]:
    if one.value is None:
        return []
    interval = [] if one.low is None or one.high is None else [(scale(one.low), scale(one.high))]
    lines = [draw("path", class_=f"reach {kind}", d=f"M{low} {y}H{high}") for low, high in interval]
    return [*lines, draw("circle", class_=kind, cx=scale(one.value), cy=y, r=3.5)]
