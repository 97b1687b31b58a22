"""SVG charts in the colours of the page: box plots, bars, shares, lines and points.

A chart depends on its numbers alone. Numbers that cannot be drawn are left out and counted below the chart; a chart without
any finite number is replaced by a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from types import MappingProxyType
from typing import Self

from markupsafe import Markup

from swerve.analysis.statistics import BoxPlot, box_plot, wilson
from swerve.report.axis import AxisScale, drawable, fitted, spell_number
from swerve.report.canvas import (
    BESIDE,
    FOOT,
    LETTER,
    PRINTED,
    RIGHT,
    TOP,
    draw,
    figure,
    grid_axis,
    key,
    left_out,
    mark,
    name_edge,
    nothing,
    row_name,
    text,
    tone,
)
from swerve.report.plane import Spot, lines, points

__all__ = ["Bar", "Spot", "bars", "box_plots", "lines", "points", "stacked"]

NONE: Mapping[str, float] = MappingProxyType({})
BOX_ROW, BAR, GROUP_GAP, SHARE_ROW = 24, 16, 12, 26
# Parts with these names have the same colours as in the report of a run.
KNOWN = {
    **{"held": "held", "violated": "violated", "skipped": "skipped", "errors": "errors"},
    **{"equal": "held", "lost": "violated", "gained": "errors"},
}


@dataclass(frozen=True)
class Bar:
    """A number to draw, with its interval, the number that the paper prints and a tooltip, where there are any."""

    value: float | None
    low: float | None = None
    high: float | None = None
    printed: float | None = None
    tooltip: str = ""

    @classmethod
    def rate(cls, successes: int, trials: int, *, printed: float | None = None) -> Self:
        """A share with its 95% Wilson interval; no bar where there were no trials."""
        if not trials:
            return cls(None, printed=printed, tooltip="nothing judged")
        return cls(successes / trials, *wilson(successes, trials), printed, f"{successes:,} of {trials:,}")

    @property
    def drawn(self) -> tuple[float | None, ...]:
        """Value, interval and printed number as they can be drawn; an interval needs both ends."""
        value, low, high, printed = (drawable(one) for one in (self.value, self.low, self.high, self.printed))
        return (value, low, high, printed) if None not in (value, low, high) else (value, None, None, printed)


def box_plots(
    series: Mapping[str, Sequence[float]], *, axis: str = "", percent: bool = False, printed: Mapping[str, float] = NONE
) -> Markup:
    """A row per name with the quartiles, median and whiskers of its numbers; `printed` marks the paper's medians."""
    if unknown := sorted({*printed} - {*series}):
        raise ValueError(f"printed names {unknown[0]!r}, which is not a box plot; there are: {', '.join(series) or 'none'}")
    plots = {name: box_plot(numbers) for name, numbers in series.items()}
    boxes = {name: box if box and _whole(box) else None for name, box in plots.items()}
    papers = {name: number for name, given in printed.items() if (number := drawable(given)) is not None}
    known = [box for box in boxes.values() if box]
    if not known:
        return nothing(f"{len(series):,} box plots" if series else "box plots")
    left = name_edge(series)
    ends = [end for box in known for end in (box.low, box.high)]
    scale = fitted([*ends, *papers.values()], left, RIGHT - BESIDE, percent=percent)
    bottom = TOP + BOX_ROW * len(boxes)
    rows = [
        _box_row(name, box, TOP + BOX_ROW * (place + 0.5), scale, papers.get(name))
        for place, (name, box) in enumerate(boxes.items())
    ]
    keys = [key("printed in the paper", mark(PRINTED, 11, 6))] if papers else []
    about = f"box plots of {axis or 'numbers'}: {', '.join(boxes)}"
    asides = [
        *scale.remarks(),
        *_box_remarks(known, len(series) - len(known)),
        *left_out(len(printed) - len(papers), len(printed), "printed numbers"),
    ]
    return figure([*grid_axis(scale, bottom, axis), *rows], bottom + FOOT, about, keys, asides)


def _whole(box: BoxPlot) -> bool:
    return None not in map(drawable, astuple(box))


def _box_row(name: str, box: BoxPlot | None, y: float, scale: AxisScale, printed: float | None) -> Markup:
    drawn = _box(box, y, scale) if box else [text(scale.start + 6, y + 4, "no numbers", "dim")]
    paper = [mark(PRINTED, scale(printed), y)] if printed is not None else []
    tooltip = _box_tooltip(name, box, scale.percent, printed) if box else f"{name}: no numbers"
    return draw("g", [row_name(name, y, scale.start), *drawn, *paper], tooltip=tooltip)


def _box(box: BoxPlot, y: float, scale: AxisScale) -> list[Markup]:
    low, first, median, third, high = map(scale, (box.low, box.first, box.median, box.third, box.high))
    whiskers = f"M{low} {y}H{first}M{third} {y}H{high}M{low} {y - 4}v8M{high} {y - 4}v8"
    return [
        draw("path", class_="whisker", d=whiskers),
        draw("rect", class_="box tone0", x=first, y=y - 7, width=round(max(third - first, 0.5), 1), height=14),
        draw("path", class_="median tone0", d=f"M{median} {y - 7}v14"),
        text(RIGHT, y + 4, scale.label(box.median), "y"),
    ]


def _box_tooltip(name: str, box: BoxPlot, percent: bool, printed: float | None) -> str:
    median, first, third, low, high = (
        spell_number(number, percent=percent) for number in (box.median, box.first, box.third, box.low, box.high)
    )
    paper = "" if printed is None else f"; median in the paper {spell_number(printed, percent=percent)}"
    return f"{name}: median {median}, quartiles {first} to {third}, whiskers {low} to {high}, n {box.n:,}{paper}"


def _box_remarks(boxes: Sequence[BoxPlot], lost: int) -> Iterator[str]:
    fewest, largest = min(box.n for box in boxes), max(box.n for box in boxes)
    count = f"{fewest:,}" if fewest == largest else f"{fewest:,} to {largest:,}"
    beyond = sum(box.outliers for box in boxes)
    far = f"; {beyond:,} outlier{'' if beyond == 1 else 's'} not drawn" if beyond else ""
    yield f"n = {count} per row; medians at the right; whiskers within 1.5 interquartile ranges{far}."
    yield from left_out(sum(box.left_out for box in boxes), sum(box.n + box.left_out for box in boxes), "numbers")
    yield from left_out(lost, lost + len(boxes), "box plots")


def bars(groups: Mapping[str, Mapping[str, Bar]], *, axis: str = "", percent: bool = False) -> Markup:
    """A group per name with a bar per series, each with its interval and the paper's number where given."""
    given = [bar for group in groups.values() for bar in group.values()]
    numbers = [number for bar in given for number in bar.drawn if number is not None]
    if not numbers:
        return nothing(f"{len(given):,} bars" if given else "bars")
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    scale = fitted(numbers, name_edge(groups), RIGHT - BESIDE, percent=percent, zero=True)
    rows: list[Markup] = []
    y: float = TOP
    for group, members in groups.items():
        rows.append(row_name(group, y + BAR * max(len(members), 1) / 2, scale.start))
        for name in members:
            rows.append(_bar_row(f"{group}, {name}" if name else group, members[name], y, scale, names.index(name)))
            y += BAR
        y += GROUP_GAP if members else BAR + GROUP_GAP
    bottom = round(y - GROUP_GAP / 2, 1)
    keys = [_swatch(name, f"thin {tone(place)}") for place, name in enumerate(names)] if len(names) > 1 else []
    papers = [key("printed in the paper", mark(PRINTED, 11, 6))] if any(bar.drawn[3] is not None for bar in given) else []
    about = f"bars of {axis or 'numbers'}: {', '.join(groups)}"
    return figure([*grid_axis(scale, bottom, axis), *rows], bottom + FOOT, about, [*keys, *papers], _bar_remarks(given))


def _bar_row(name: str, bar: Bar, y: float, scale: AxisScale, place: int) -> Markup:
    value, low, high, printed = bar.drawn
    zero, middle = scale(0), y + BAR / 2
    parts: list[Markup] = []
    if value is not None:
        start, end = sorted((zero, scale(value)))
        parts.append(
            draw("rect", class_=f"bar thin {tone(place)}", x=start, y=y + 2, width=round(end - start, 1), height=BAR - 4)
        )
    if low is not None and high is not None:
        parts.append(
            draw("path", class_="whisker", d=f"M{scale(low)} {middle}H{scale(high)}m0-3v6M{scale(low)} {middle - 3}v6")
        )
    if printed is not None:
        parts.append(mark(PRINTED, scale(printed), middle))
    beside = max([zero, *(scale(one) for one in (value, high, printed) if one is not None)])
    parts.append(text(beside + 8, middle + 4, "–" if value is None else scale.label(value), "n"))
    return draw("g", parts, tooltip=_bar_tooltip(name, bar, scale.percent))


def _bar_tooltip(name: str, bar: Bar, percent: bool) -> str:
    value, low, high, printed = (None if one is None else spell_number(one, percent=percent) for one in bar.drawn)
    between = f" ({low} to {high})" if low is not None else ""
    words = [
        f"{value}{between}" if value is not None else "no number",
        bar.tooltip,
        f"in the paper {printed}" if printed else "",
    ]
    return f"{name}: {', '.join(word for word in words if word)}"


def _bar_remarks(given: Sequence[Bar]) -> Iterator[str]:
    numbers = [one for bar in given for one in (bar.value, bar.low, bar.high, bar.printed) if one is not None]
    yield from left_out(sum(drawable(one) is None for one in numbers), len(numbers), "numbers")


def stacked(rows: Mapping[str, Mapping[str, float]], *, axis: str = "") -> Markup:
    """A row per name, divided into the shares of its parts, such as lost, equal and gained."""
    given = [number for parts in rows.values() for number in parts.values()]
    counts = {row: {name: _count(number) for name, number in parts.items()} for row, parts in rows.items()}
    if not any(number for parts in counts.values() for number in parts.values()):
        return nothing(f"{len(rows):,} rows" if rows else "rows")
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    tones = {name: KNOWN.get(name, tone(place)) for place, name in enumerate(names)}
    scale = AxisScale(0, 1, name_edge(rows), RIGHT - BESIDE, percent=True)
    bottom = TOP + SHARE_ROW * len(rows)
    drawn = [
        _share_row(row, parts, TOP + SHARE_ROW * place, scale, tones) for place, (row, parts) in enumerate(counts.items())
    ]
    keys = [_swatch(name, tones[name]) for name in names]
    lost = sum(drawable(number) is None or number < 0 for number in given)
    asides = left_out(lost, len(given), "numbers", or_else="below zero")
    about = f"shares of {axis or ', '.join(names)}: {', '.join(rows)}"
    return figure([*grid_axis(scale, bottom, axis), *drawn], bottom + FOOT, about, keys, asides)


def _count(number: float) -> float:
    return max(drawable(number) or 0.0, 0.0)


def _share_row(row: str, counts: Mapping[str, float], y: float, scale: AxisScale, tones: Mapping[str, str]) -> Markup:
    total = math.fsum(counts.values())
    parts = [row_name(row, y + SHARE_ROW / 2, scale.start)]
    if not total:
        return draw("g", [*parts, text(scale.start + 6, y + SHARE_ROW / 2 + 4, "nothing counted", "dim")])
    done = 0.0
    for name, count in counts.items():
        start, end = scale(done / total), scale(min((done + count) / total, 1.0))
        tooltip = f"{row}: {name} {spell_number(count)} of {spell_number(total)}, {count / total:.1%}"
        part = [
            draw("rect", class_=f"bar {tones[name]}", x=start, y=y + 3, width=round(end - start, 1), height=SHARE_ROW - 6)
        ]
        share = f"{count / total:.1%}"
        if end - start > LETTER * len(share) + 6:
            part.append(text((start + end) / 2, y + SHARE_ROW / 2 + 4, share, "x on"))
        parts.append(draw("g", part, tooltip=tooltip))
        done += count
    return draw("g", [*parts, text(RIGHT, y + SHARE_ROW / 2 + 4, f"n {spell_number(total)}", "y")])


def _swatch(name: str, kind: str) -> Markup:
    return key(name, draw("rect", class_=f"bar {kind}", x=5, y=1, width=11, height=10))
