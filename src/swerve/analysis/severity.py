"""Failure rate by the strength of a change, and the limit up to which a rule held, in words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from swerve.analysis.statistics import wilson
from swerve.config.registry import resolve
from swerve.core.errors import SpecError
from swerve.core.names import all_names
from swerve.core.relation import Status
from swerve.core.transformation import Transformation, params_of
from swerve.core.values import LARGEST_NUMBER
from swerve.store.journal import Row

MOST_VALUES = 20  # distinct values; more are binned
BINS = 10
Parameters = Mapping[str, Mapping[str, Mapping[str, Any]]]
SEED = "seed"  # a number without strength
JUDGED = (Status.HELD.value, Status.VIOLATED.value)


class Point(NamedTuple):
    """The trials at one value (or bin centre) of a parameter, their failures, and the rate with its 95% Wilson interval."""

    value: float
    violated: int
    trials: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    """The failure rate of one rule along the parameter that varies, mildest change first."""

    rule: str
    parameter: str
    unit: str
    points: tuple[Point, ...]
    untouched: tuple[int, int] | None  # cases that are already wrong, and all cases
    limit: str


def curves(
    trials: Callable[[], Iterable[Row]],
    untouched: Mapping[str, tuple[int, int]] | None = None,
    parameters: Parameters | None = None,
) -> list[Curve]:
    """One curve per rule whose change has a varying number; `trials` is read twice, row by row.

    `parameters` are the neutral value and unit of each number, by class and name, as in `campaign.json`.
    """
    known = parameters or {}
    axes = {rule: axis for rule, spans in _spans(trials()).items() if (axis := _axis(spans, known)) is not None}
    counted = {rule: _Counts() for rule in axes}
    for row in _judged(trials()):
        if row["rule"] in axes:
            counted[row["rule"]].add(row, axes[row["rule"]])
    alone = untouched or {}
    return [_curve(rule, axis, counted[rule], alone.get(rule)) for rule, axis in axes.items()]


@dataclass
class _Span:
    """The values of one number of a rule's changes."""

    label: str
    name: str
    use: object
    low: float
    high: float
    values: set[float] = field(default_factory=set)

    def see(self, value: float) -> None:
        self.low, self.high = min(self.low, value), max(self.high, value)
        if len(self.values) <= MOST_VALUES:
            self.values.add(value)


@dataclass(frozen=True)
class _Axis:
    """The parameter of a curve; `width` is that of a bin, 0 without bins."""

    label: str
    facts: tuple[float, str] | None  # the neutral value and the unit
    low: float
    width: float

    @property
    def neutral(self) -> float:
        return self.facts[0] if self.facts else 0.0

    @property
    def unit(self) -> str:
        return self.facts[1] if self.facts else ""

    def place(self, value: float) -> float:
        """`value` itself, or the centre of its bin."""
        if not self.width:
            return value
        return self.low + (min(int((value - self.low) / self.width), BINS - 1) + 0.5) * self.width


@dataclass
class _Counts:
    """Failures and trials per value, and those of changes without the parameter."""

    at: dict[float, list[int]] = field(default_factory=dict)
    without: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, row: Row, axis: _Axis) -> None:
        value = next((item.value for item in _numbers(row["change"]) if item.label == axis.label), None)
        cell = self.without if value is None else self.at.setdefault(axis.place(value), [0, 0])
        cell[0] += row["status"] == Status.VIOLATED.value
        cell[1] += 1


class _Number(NamedTuple):
    label: str
    name: str
    use: object
    value: float


def _judged(rows: Iterable[Row]) -> Iterator[Row]:
    return (row for row in rows if row["status"] in JUDGED)


def _numbers(change: Mapping[str, Any] | None, prefix: str = "") -> Iterator[_Number]:
    """Every number of a change, those of a chain's steps included."""
    for name, item in (change or {}).items():
        if isinstance(item, int | float) and not isinstance(item, bool) and abs(item) <= LARGEST_NUMBER:
            yield _Number(f"{prefix}{name}", name, (change or {}).get("use"), float(item))
        elif name == "steps" and isinstance(item, list):
            for index, step in enumerate(item):
                yield from _numbers(step, f"{prefix}steps[{index}].")


def _spans(rows: Iterable[Row]) -> dict[str, list[_Span]]:
    """Per rule, every number of its changes, in order of appearance."""
    found: dict[str, dict[str, _Span]] = {}
    for row in _judged(rows):
        spans = found.setdefault(row["rule"], {})
        for label, name, use, value in _numbers(row["change"]):
            spans.setdefault(label, _Span(label, name, use, value, value)).see(value)
    return {rule: list(spans.values()) for rule, spans in found.items()}


def _axis(spans: Sequence[_Span], known: Parameters) -> _Axis | None:
    """The first number that varies, declared parameters before others, seeds never."""
    candidates = ((span, _facts(span, known)) for span in spans if len(span.values) > 1)
    varying = [(span, facts) for span, facts in candidates if facts or span.name != SEED]
    if not varying:
        return None
    span, facts = min(varying, key=lambda item: item[1] is None)
    binned = len(span.values) > MOST_VALUES
    return _Axis(span.label, facts, span.low, (span.high - span.low) / BINS if binned else 0.0)


def _facts(span: _Span, known: Parameters) -> tuple[float, str] | None:
    """The neutral value and unit of a number, from the run or a registered class; no other code is imported."""
    if recorded := known.get(str(span.use), {}).get(span.name):
        return float(recorded["neutral"]), str(recorded["unit"])
    if span.use not in all_names():
        return None
    try:
        kind = resolve(span.use)
    except SpecError:  # an installed package that cannot be imported any more
        return None
    facts = params_of(kind).get(span.name) if issubclass(kind, Transformation) else None
    return (facts.neutral, facts.unit) if facts else None


def _curve(rule: str, axis: _Axis, counts: _Counts, untouched: tuple[int, int] | None) -> Curve:
    ordered = sorted(counts.at.items(), key=lambda item: (abs(item[0] - axis.neutral), item[0]))
    points = tuple(Point(value, bad, n, bad / n, *wilson(bad, n)) for value, (bad, n) in ordered)
    sentences = _limits(axis, points)
    failed, without = counts.without
    if without:
        share = f"{without:,} of {without + _total(points):,} trials have no {axis.label}"
        sentences.append(f"{share} and are not in the curve; {failed:,} of them failed.")
    if untouched is not None:
        sentences.append(f"Untouched cases: {untouched[0]:,} of {untouched[1]:,} already wrong.")
    return Curve(rule, axis.label, axis.unit, points, untouched, " ".join(sentences))


def _limits(axis: _Axis, points: Sequence[Point]) -> list[str]:
    """One sentence, or one per side if the parameter varied on both sides of its neutral value."""
    above = [point for point in points if point.value >= axis.neutral]
    below = [point for point in points if point.value < axis.neutral]
    sentences = {way: _Side(axis, side, way).limit() for way, side in (("above", above), ("below", below)) if side}
    if len(sentences) == 1:
        return list(sentences.values())
    border = f"{axis.neutral:g}{axis.unit}"
    return [f"{way.capitalize()} {border}: {text[0].lower()}{text[1:]}" for way, text in sentences.items()]


class _Side:
    """Describes where one side of a curve holds, starts to fail and mostly fails; a bin is given by its edges."""

    def __init__(self, axis: _Axis, points: Sequence[Point], way: str) -> None:
        self.axis = axis
        self.points = points
        self.falling = way == "below"

    def limit(self) -> str:
        """The whole sentence."""
        points = self.points
        first = points[0]
        clean = next((index for index, point in enumerate(points) if point.violated), len(points))
        if clean == len(points):
            return f"{self._held(points)}, the largest change judged {self._at_most(points)}."
        if all(point.violated == point.trials for point in points):
            return f"Failed on all {_total(points):,} trials, from {self._span(first)}, the smallest change judged."
        start = [f"Fails already at {self._span(first)}, the smallest change judged ({_share(first)})"]
        if clean:
            held = f"{self._held(points[:clean])} {self._at_most(points[:clean])}"
            start = [held, f"first failures at {self._describe(points[clean])}"]
        return "; ".join([*start, *self._most(points[clean]), *self._dip()]) + "."

    def _held(self, points: Sequence[Point]) -> str:
        way = "down" if self.falling else "up"
        return f"Held on all {_total(points):,} trials {way} to {self._number(self._edges(points[-1])[1])}"

    def _at_most(self, clean: Sequence[Point]) -> str:
        # Of the strongest change only: milder ones on the same cases are no further evidence.
        last = clean[-1]
        which = f"at {self._span(last)}: {_share(last)}, " if len(clean) > 1 else ""
        return f"({which}at most {last.high:.1%} may fail, 95% Wilson)"

    def _most(self, first: Point) -> Iterator[str]:
        """Where more than half fail, or else where the rate is highest."""
        often = [point for point in self.points if point.rate > 0.5]
        steady = list(itertools.takewhile(lambda point: point.rate > 0.5, reversed(self.points)))
        if len(steady) == len(self.points):
            yield "more than half fail at every value judged"
        elif len(steady) == 1:
            yield f"more than half fail at {self._span(steady[0])}"
        elif steady:
            yield f"more than half fail from {self._number(self._edges(steady[-1])[0])} {'down' if self.falling else 'on'}"
        elif often:
            yield f"more than half fail at {self._span(often[0])}, but not at every larger change"
        elif (worst := max(self.points, key=lambda point: point.rate)) is not first:
            yield f"highest failure rate at {self._describe(worst)}"

    def _dip(self) -> Iterator[str]:
        """A stronger change that fails significantly less often than a milder one."""
        peak = max(range(len(self.points)), key=lambda index: self.points[index].low)
        high, low = self.points[peak], min(self.points[peak:], key=lambda point: point.high)
        if low.high < high.low:
            yield f"not monotonic: {_share(low)} at {self._span(low)} after {_share(high)} at {self._span(high)}"

    def _describe(self, point: Point) -> str:
        return f"{self._span(point)} ({_share(point)})"

    def _span(self, point: Point) -> str:
        """`9°`, or `7.5° to 10.5°` for a bin."""
        return " to ".join(dict.fromkeys(map(self._number, self._edges(point))))

    def _edges(self, point: Point) -> tuple[float, float]:
        """The milder and the stronger end of a point."""
        half = -self.axis.width / 2 if self.falling else self.axis.width / 2
        return round(point.value - half, 9), round(point.value + half, 9)

    def _number(self, value: float) -> str:
        shown = float(f"{value:.3g}") if self.axis.width else value  # bin edges are arbitrary numbers
        return f"{shown:g}{self.axis.unit}"


def _share(point: Point) -> str:
    return f"{point.violated:,} of {point.trials:,}"


def _total(points: Iterable[Point]) -> int:
    return sum(point.trials for point in points)
