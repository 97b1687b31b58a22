"""Charts of numbers against numbers: lines with bands, and scatter plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from swerve.report.axis import AxisScale, drawable, fitted, spell_number
from swerve.report.canvas import (
    FOOT,
    PLANE_RIGHT,
    TOP,
    below,
    bottom_axis,
    draw,
    figure,
    key,
    left_axis,
    left_out,
    mark,
    nothing,
    tick_edge,
    tone,
)

HEIGHT = 300
TICK_GAP = 38  # pixels between the ticks of a vertical axis, at least
MOST_POINTS = 3000


class Spot(NamedTuple):
    """A point of a line, with the edges of the band around it, if any."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None

    @property
    def banded(self) -> bool:
        """Whether both edges of the band are known."""
        return self.low is not None and self.high is not None


def lines(
    series: Mapping[str, Sequence[Spot]], *, x: str = "", y: str = "", log_x: bool = False, percent: bool = False,
    dashed: Collection[str] = (), names: Sequence[str] = (),
) -> Markup:  # fmt: skip
    """A line per name through its spots, ordered by x; `dashed` names the series to dash, such as the paper's.

    `names` label the horizontal axis: the first at x = 0, the second at x = 1, and so on.
    """
    drawn = {name: _spots(spots, log_x) for name, spots in series.items()}
    there = [spot for line in drawn.values() for spot in line if spot]
    if not there:
        return nothing(f"{len(series):,} lines" if series else "lines")
    plane = _Plane.around([spot.x for spot in there], _heights(there), log_x=log_x, percent=percent, names=len(names))
    parts = [
        part for place, (name, line) in enumerate(drawn.items()) for part in _line(name, line, plane, place, name in dashed)
    ]
    keys = [key(name, *_line_key(place, name in dashed)) for place, name in enumerate(drawn)] if len(drawn) > 1 else []
    given = [number for line in series.values() for spot in line for number in spot if number is not None]
    lost = sum(drawable(number) is None for number in given) + log_x * sum(
        drawable(spot.x) is not None and drawable(spot.x, log=True) is None for line in series.values() for spot in line
    )
    about = f"lines of {y or 'numbers'} by {x or 'numbers'}: {', '.join(series)}"
    axes = [*left_axis(plane.up, plane.across.start, y), *bottom_axis(plane.across, HEIGHT, x, names)]
    lost_ones = left_out(lost, len(given), "numbers", or_else="below the logarithmic axis" if log_x else "")
    return figure([*axes, *parts], HEIGHT + FOOT + below(names), about, keys, [*plane.up.remarks(), *lost_ones])


def points(xs: Sequence[float], ys: Sequence[float], *, x: str = "", y: str = "", kinds: Sequence[str] = ()) -> Markup:
    """A dot per pair of numbers, coloured by its kind; of more than `MOST_POINTS`, an even selection."""
    if len(xs) != len(ys) or (kinds and len(kinds) != len(xs)):
        raise ValueError(f"points need equally many x, y and kinds, got {len(xs)}, {len(ys)} and {len(kinds)}")
    pairs = (
        (drawable(one), drawable(other), kind) for one, other, kind in zip(xs, ys, kinds or [""] * len(xs), strict=True)
    )
    there = [(one, other, kind) for one, other, kind in pairs if one is not None and other is not None]
    if not there:
        return nothing(f"{len(xs):,} points" if len(xs) else "points")
    plane = _Plane.around([one for one, _, _ in there], [other for _, other, _ in there], zero=False)
    shown = _evenly(there)
    counts = Counter(kind for _, _, kind in there)
    dots = [
        draw("path", class_=f"dots {tone(place)}", d="".join(f"M{plane(a, b)}h0" for a, b, its in shown if its == kind))
        for place, kind in enumerate(counts)
    ]
    keys = [
        key(f"{kind} ({count:,})", mark(0, 11, 6, kind=tone(place))) for place, (kind, count) in enumerate(counts.items())
    ]
    axes = [*left_axis(plane.up, plane.across.start, y), *bottom_axis(plane.across, HEIGHT, x)]
    few = [f"Showing {len(shown):,} of {len(there):,} points, evenly chosen."] if len(shown) < len(there) else []
    asides = [*few, *left_out(len(xs) - len(there), len(xs), "points")]
    about = f"{len(there):,} points: {y or 'numbers'} by {x or 'numbers'}"
    return figure([*axes, *dots], HEIGHT + FOOT, about, keys if kinds else [], asides)


@dataclass(frozen=True)
class _Plane:
    """Two axes."""

    across: AxisScale
    up: AxisScale

    @classmethod
    def around(
        cls,
        xs: Sequence[float],
        ys: Sequence[float],
        *,
        log_x: bool = False,
        percent: bool = False,
        names: int = 0,
        zero: bool | None = None,
    ) -> _Plane:
        """Axes that hold all numbers; with `names`, one place for each."""
        up = fitted(ys, HEIGHT, TOP + 14, percent=percent, zero=zero, gap=TICK_GAP)
        left = tick_edge(up)
        if names and not 0 <= min(xs) <= max(xs) <= names - 1:
            given = f"{min(xs):g} to {max(xs):g}"
            raise ValueError(f"a chart with {names} categories needs x values from 0 to {names - 1}, got {given}")
        return cls(
            AxisScale(-0.4, names - 0.6, left, PLANE_RIGHT)
            if names
            else fitted(xs, left, PLANE_RIGHT, log=log_x, zero=zero),
            up,
        )

    def __call__(self, x: float, y: float) -> str:
        """Where the point lies, as a path says it."""
        return f"{self.across(x)} {self.up(y)}"


def _spots(spots: Iterable[Spot], log: bool) -> list[Spot | None]:
    """In the order of x, None where one cannot be drawn: the line is broken there."""
    placed = [(drawable(spot.x, log=log), spot) for spot in spots]
    there = sorted(((x, spot) for x, spot in placed if x is not None), key=lambda one: one[0])
    return [_spot(x, drawable(spot.y), spot) for x, spot in there]


def _spot(x: float, y: float | None, given: Spot) -> Spot | None:
    return None if y is None else Spot(x, y, drawable(given.low), drawable(given.high))


def _heights(spots: Iterable[Spot]) -> list[float]:
    return [number for spot in spots for number in spot[1:] if number is not None]


def _runs(line: Iterable[Spot | None]) -> Iterator[list[Spot]]:
    """The stretches of consecutive spots without a gap."""
    run: list[Spot] = []
    for spot in [*line, None]:
        if spot:
            run.append(spot)
        elif run:
            yield run
            run = []


def _line(name: str, line: Sequence[Spot | None], plane: _Plane, place: int, dashed: bool) -> Iterator[Markup]:
    kind = f"{tone(place)} dashed" if dashed else tone(place)
    for run in _runs(line):
        banded = [spot for spot in run if spot.banded]
        if len(banded) > 1:
            edges = [plane(spot.x, spot.high or 0.0) for spot in banded]
            edges += [plane(spot.x, spot.low or 0.0) for spot in reversed(banded)]
            yield draw("path", class_=f"band {kind}", d=f"M{'L'.join(edges)}Z")
        yield draw("path", class_=f"line {kind}", d="M" + "L".join(plane(spot.x, spot.y) for spot in run))
        for spot in run:
            yield mark(place, plane.across(spot.x), plane.up(spot.y), _tooltip(name, spot, percent=plane.up.percent))


def _tooltip(name: str, spot: Spot, *, percent: bool) -> str:
    edges = [spell_number(edge, percent=percent) for edge in spot[2:] if edge is not None]
    band = f" ({' to '.join(edges)})" if spot.banded else ""
    return f"{name}: {spell_number(spot.y, percent=percent)}{band} at {spell_number(spot.x)}"


def _line_key(place: int, dashed: bool) -> Iterator[Markup]:
    yield draw("path", class_=f"line {tone(place)}{' dashed' if dashed else ''}", d="M0 6H22")
    yield mark(place, 11, 6)


def _evenly(there: Sequence[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    places = np.linspace(0, len(there) - 1, min(len(there), MOST_POINTS)).astype(int)
    return [there[place] for place in places]
