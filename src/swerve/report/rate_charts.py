"""The report's charts of failure rates as SVG: a curve by the strength of a change, or a bar for every change.

Rules of one family, such as `rotation, label` and `rotation, own answer`, share a chart, and all charts one vertical scale.
Every point and bar is a link to its findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from swerve.analysis.condition_rates import ConditionRate
from swerve.analysis.robustness import family_of
from swerve.analysis.severity import Curve, Stretch
from swerve.report.axis import AxisScale, fitted
from swerve.report.canvas import SHAPES, clipped, draw, path, text
from swerve.report.gallery_links import gallery_link, span_link

WIDTH, HEIGHT = 300, 196
LEFT, RIGHT, TOP, BOTTOM = 40, 288, 20, 148  # of the plot
CEILINGS = (0.1, 0.2, 0.5, 1.0)
SERIES = 2  # colours in style.css
ROW = 22  # pixels of a bar
NAMES, LONGEST = 128, 19  # pixels left of the bars, and letters that fit there
RATE = "trials that fail"


@dataclass(frozen=True)
class RateChart:
    """A chart of the rules of one family, the names of its series, and the sentences below it."""

    family: str
    svg: Markup
    series: tuple[str, ...]
    captions: tuple[str, ...]


def rate_charts(curves: Sequence[Curve], conditions: Mapping[str, Sequence[ConditionRate]]) -> list[RateChart]:
    """A chart for the curves of each family and number, then the bars of rules without one."""
    drawn = [curve for curve in curves if curve.rule not in conditions]
    highest = max((stretch.high for curve in drawn for stretch in curve.stretches()), default=1.0)
    top = next(ceiling for ceiling in CEILINGS if highest <= ceiling)
    together: dict[tuple[str, str], list[Curve]] = {}
    for curve in drawn:
        together.setdefault((family_of(curve.rule), curve.axis), []).append(curve)
    bars: dict[str, dict[str, Sequence[ConditionRate]]] = {}
    for rule, rates in conditions.items():
        bars.setdefault(family_of(rule), {})[rule] = rates
    return [
        *(_curve_chart(family, same, top) for (family, _), same in together.items()),
        *(_bar_chart(family, rules) for family, rules in bars.items()),
    ]


def series_name(rule: str, family: str) -> str:
    """What distinguishes a rule from others of its family."""
    return rule.removeprefix(f"{family}, ") if rule != family else ""


def _curve_chart(family: str, curves: Sequence[Curve], top: float) -> RateChart:
    names = tuple(series_name(curve.rule, family) for curve in curves)
    limits = [curve.limit.partition(" Untouched cases:")[0] for curve in curves]  # drawn as a dashed line
    captions = tuple(
        f"{name}: {limit[:1].lower()}{limit[1:]}" if name and len(curves) > 1 else limit
        for name, limit in zip(names, limits, strict=True)
    )
    about = f"{RATE} by {curves[0].axis}"
    drawing = draw("svg", _curves(curves, top), viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=about)
    return RateChart(family, drawing, names, captions)


def _curves(curves: Sequence[Curve], top: float) -> Iterator[Markup]:
    every = [curve.stretches() for curve in curves]
    values = [edge for stretches in every for stretch in stretches for edge in (stretch.start, stretch.end)]
    across = fitted(values, LEFT, RIGHT, gap=44)
    if _falls(curves):
        across = AxisScale(across.high, across.low, LEFT, RIGHT, gap=44)
    up = AxisScale(0, top, BOTTOM, TOP)
    yield from _axes(across, up, top, curves[0].axis)
    for place, (curve, stretches) in enumerate(zip(curves, every, strict=True)):
        yield from _series(curve, stretches, (across, up), top, f"s{place % SERIES}", SHAPES[place % len(SHAPES)])


def _axes(across: AxisScale, up: AxisScale, top: float, axis: str) -> Iterator[Markup]:
    yield text(0, 10, RATE, "axis")
    for half in range(3):
        y = up(top * half / 2)
        yield draw("path", class_="grid", d=f"M{LEFT} {y:g}H{RIGHT}")
        yield text(LEFT - 5, y + 4, f"{top * half / 2:.0%}", "y")
    rising = across if across.high > across.low else AxisScale(across.high, across.low, RIGHT, LEFT, gap=44)
    for x, label in rising.ticks():
        yield draw("path", class_="tick", d=f"M{x:g} {BOTTOM}v4")
        yield text(x, BOTTOM + 17, label, "x")
    yield text((LEFT + RIGHT) / 2, BOTTOM + 38, axis, "x axis")


def _series(
    curve: Curve, stretches: Sequence[Stretch], scales: tuple[AxisScale, AxisScale], top: float, kind: str, shape: str
) -> Iterator[Markup]:
    across, up = scales
    drawn = [(across(one.middle), one) for one in stretches]
    if len(stretches) == 1:  # all values together
        drawn = [(across(edge), stretches[0]) for edge in (stretches[0].start, stretches[0].end)]
    upper, lower = ([(x, up(one.high)) for x, one in drawn], [(x, up(one.low)) for x, one in reversed(drawn)])
    yield draw("path", class_=f"band {kind}", d=f"{path([*upper, *lower])}Z")
    if curve.untouched and curve.untouched[1]:
        rate = min(curve.untouched[0] / curve.untouched[1], top)
        yield draw("path", class_=f"untouched {kind}", d=f"M{LEFT} {up(rate):g}H{RIGHT}")
    yield draw("path", class_=f"line {kind}", d=path((x, up(one.rate)) for x, one in drawn))
    for one in stretches:
        at = f"M{across(one.middle):g} {up(one.rate):g}{shape}"
        point = draw("path", class_=f"point {kind}", d=at, tooltip=_tooltip(one, curve))
        yield draw("a", [point], href=span_link(curve.rule, one.start, one.end)) if one.violated else point


def _falls(curves: Iterable[Curve]) -> bool:
    """Whether all changes are below neutral, so that the mildest, at the left, has the largest number."""
    return all(point.value < curve.neutral for curve in curves for point in curve.points)


def _tooltip(one: Stretch, curve: Curve) -> str:
    values = " to ".join(dict.fromkeys(f"{value:.4g}{curve.unit}" for value in (one.start, one.end)))
    interval = f"{one.low:.1%} to {one.high:.1%}"
    return f"{curve.rule}, {values}: {one.violated:,} of {one.trials:,} violated, {one.rate:.1%} ({interval})"


def _bar_chart(family: str, rules: Mapping[str, Sequence[ConditionRate]]) -> RateChart:
    names = tuple(series_name(rule, family) for rule in rules)
    words = list(dict.fromkeys(one.words for rates in rules.values() for one in rates))
    starts = _common_start(words)
    by_words = {rule: {one.words: one for one in rates} for rule, rates in rules.items()}
    thin = ROW / max(len(rules), 1)
    bottom = TOP + ROW * len(words)
    across = AxisScale(0, 1, NAMES, RIGHT - 34, percent=True, gap=44)
    parts: list[Markup] = []
    for place, name in enumerate(words):
        y = TOP + ROW * place
        parts.append(text(NAMES - 6, y + ROW / 2 + 4, clipped(name.removeprefix(starts), LONGEST), "y"))
        for series, (rule, known) in enumerate(by_words.items()):
            if name in known:
                box = y + 2 + series * thin, thin - (3 if len(rules) > 1 else 5)
                parts.append(_bar(rule, known[name], across, box, f"s{series % SERIES}"))
    axis = [text(0, 10, f"{RATE}, by change", "axis")]
    for x, label in across.ticks():
        axis += [draw("path", class_="grid", d=f"M{x} {TOP}V{bottom}"), text(x, bottom + 15, label, "x")]
    drawing = draw("svg", [*axis, *parts], viewBox=f"0 0 {WIDTH} {bottom + 24}", role="img", aria_label=f"{RATE} by change")
    about = (f"Each change is “{starts.strip(' :,')}”.",) if starts.strip(" :,") else ()
    return RateChart(family, drawing, names, about)


def _bar(rule: str, one: ConditionRate, across: AxisScale, box: tuple[float, float], kind: str) -> Markup:
    y, height = box
    start, end, middle = across(0), across(one.rate), y + height / 2
    low, high = across(one.low), across(one.high)
    tooltip = f"{rule}, {one.words}: {one.violated:,} of {one.trials:,} violated, {one.rate:.1%}"
    shapes = [
        draw("rect", class_="hit", x=start, y=y, width=round(RIGHT - start, 1), height=height),
        draw("rect", class_=f"bar {kind}", x=start, y=y, width=round(max(end - start, 0.5), 1), height=height),
        draw("path", class_="whisker", d=f"M{low} {middle}H{high}"),
        text(RIGHT, middle + 4, f"{one.rate:.0%}", "y") if height > ROW / 2 else Markup(""),
    ]
    group = draw("g", shapes, tooltip=f"{tooltip} ({one.low:.1%} to {one.high:.1%})")
    return draw("a", [group], href=gallery_link(rule=rule, change=one.words)) if one.violated else group


def _common_start(words: Sequence[str]) -> str:
    """The words that all changes start with, such as `rendered again: `, up to a space."""
    start = words[0]
    for word in words[1:]:
        while not word.startswith(start):
            start = start[:-1]
    return start[: start.rfind(" ") + 1]
