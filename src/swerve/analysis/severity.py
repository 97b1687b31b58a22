"""Failure rate by the strength of a change, and the limit up to which a rule held, in words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from swerve.analysis.statistics import wilson
from swerve.analysis.strength import declared, numbers_of_change
from swerve.core.relation import Status
from swerve.store.journal import Row

MOST_VALUES = 20  # distinct values; more are binned
MOST_COUNTED = 10_000  # distinct values of one number whose trials are counted separately until then
BINS = 10
LEAST = 8  # trials of a point in a chart
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


class Stretch(NamedTuple):
    """Neighbouring points together: smallest and largest value, failures and trials, and the rate with its interval."""

    start: float
    end: float
    violated: int
    trials: int
    rate: float
    low: float
    high: float

    @property
    def middle(self) -> float:
        """Where it is drawn."""
        return (self.start + self.end) / 2


@dataclass(frozen=True)
class Curve:
    """The failure rate of one rule along the parameter that varies, mildest change first."""

    rule: str
    parameter: str
    unit: str
    points: tuple[Point, ...]
    untouched: tuple[int, int] | None  # cases that are already wrong, and all cases
    limit: str
    start: str = ""  # the mildest value that failed, `3°`; empty if none did
    brief: str = ""  # up to where it holds and from where it fails, in a few words
    neutral: float = 0.0
    width: float = 0.0  # of a point that is a bin

    @property
    def axis(self) -> str:
        """The parameter with its unit."""
        unit = self.unit.strip()
        name = self.parameter.replace("_", " ")
        return f"{name} ({unit})" if unit else name

    def stretches(self, least: int = LEAST) -> list[Stretch]:
        """The points in order of their values, neighbours on one side of neutral together until they have `least` trials."""
        below = [point for point in self.points if point.value < self.neutral]
        above = [point for point in self.points if point.value >= self.neutral]
        found = [*self._merged(below, least), *self._merged(above, least)]
        return sorted(found, key=lambda stretch: stretch.start)

    def _merged(self, points: Sequence[Point], least: int) -> list[Stretch]:
        """One side, from the mildest change on; what is left over at its end belongs to the last."""
        parts: list[list[Point]] = []
        for point in points:
            if not parts or _total(parts[-1]) >= least:
                parts.append([])
            parts[-1].append(point)
        if len(parts) > 1 and _total(parts[-1]) < least:
            parts[-2].extend(parts.pop())
        return [self._stretch(part) for part in parts]

    def _stretch(self, points: Sequence[Point]) -> Stretch:
        bad, n, half = sum(point.violated for point in points), _total(points), self.width / 2
        values = [point.value for point in points]
        ends = round(min(values) - half, 9), round(max(values) + half, 9)
        return Stretch(*ends, bad, n, bad / n, *wilson(bad, n))

    @property
    def starts_at_once(self) -> bool:
        """Whether even the mildest value tried failed."""
        return bool(self.points) and self.points[0].violated > 0


class SeverityTally:
    """Counts failures by every number of every rule's changes, row by row.

    `parameters` are the neutral value and unit of each number, by class and name, as in `campaign.json`.
    """

    def __init__(self, parameters: Parameters | None = None) -> None:
        self._known = parameters or {}
        self._rules: dict[str, _RuleTally] = {}

    def add(self, row: Row) -> None:
        """Count a trial, if it was judged."""
        if row["status"] in JUDGED:
            self._rules.setdefault(row["rule"], _RuleTally()).add(row)

    def curves(
        self, trials: Callable[[], Iterable[Row]], untouched: Mapping[str, tuple[int, int]] | None = None
    ) -> list[Curve]:
        """One curve per rule whose change has a varying number.

        `trials` are read again only if a number has more than `MOST_COUNTED` values, to count those in bins.
        """
        found = {rule: _axis(tally.spans.values(), self._known) for rule, tally in self._rules.items()}
        axes = {rule: axis for rule, axis in found.items() if axis is not None}
        counted = {rule: self._rules[rule].counts(axis) for rule, axis in axes.items()}
        missing = {rule: _Counts() for rule, counts in counted.items() if counts is None}
        for row in _judged(trials()) if missing else ():
            if row["rule"] in missing:
                missing[row["rule"]].add(row, axes[row["rule"]])
        alone = untouched or {}
        return [_curve(rule, axis, counted[rule] or missing[rule], alone.get(rule)) for rule, axis in axes.items()]


def curves(
    trials: Callable[[], Iterable[Row]],
    untouched: Mapping[str, tuple[int, int]] | None = None,
    parameters: Parameters | None = None,
) -> list[Curve]:
    """One curve per rule whose change has a varying number."""
    tally = SeverityTally(parameters)
    for row in trials():
        tally.add(row)
    return tally.curves(trials, untouched)


@dataclass
class _RuleTally:
    """The numbers of a rule's changes, in order of appearance, and its trials: failures and all."""

    spans: dict[str, _Span] = field(default_factory=dict)
    trials: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, row: Row) -> None:
        failed = row["status"] == Status.VIOLATED.value
        _add_to(self.trials, failed)
        for label, name, use, value in numbers_of_change(row["change"]):
            self.spans.setdefault(label, _Span(label, name, use, value, value)).add(value, failed)

    def counts(self, axis: _Axis) -> _Counts | None:
        """The trials at every value of a parameter; None if there are too many values to know."""
        span, counts = self.spans[axis.label], _Counts()
        if span.is_full:
            return None
        for value, (failed, trials) in span.at.items():
            cell = counts.at.setdefault(axis.place(value), [0, 0])
            cell[0] += failed
            cell[1] += trials
        counts.without = [whole - sum(cell[end] for cell in counts.at.values()) for end, whole in enumerate(self.trials)]
        return counts


@dataclass
class _Span:
    """The values of one number of a rule's changes, with their failures and trials."""

    label: str
    name: str
    use: object
    low: float
    high: float
    at: dict[float, list[int]] = field(default_factory=dict)

    def add(self, value: float, failed: bool) -> None:
        self.low, self.high = min(self.low, value), max(self.high, value)
        if not self.is_full:
            _add_to(self.at.setdefault(value, [0, 0]), failed)

    @property
    def is_full(self) -> bool:
        return len(self.at) > MOST_COUNTED


def _add_to(cell: list[int], failed: bool) -> None:
    cell[0] += failed
    cell[1] += 1


@dataclass(frozen=True)
class _Axis:
    """The parameter of a curve; `width` is that of a bin, 0 without bins."""

    label: str
    facts: tuple[float, str] | None  # the neutral value and the unit
    low: float
    width: float
    graded: bool = True  # a larger number is a stronger change

    def named(self, words: str) -> str:
        """`words` after the parameter's name, which a unit tells as well."""
        return words if self.unit or self.label == "by" else f"{self.label.replace('_', ' ')} {words}"

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
        value = next((item.value for item in numbers_of_change(row["change"]) if item.label == axis.label), None)
        cell = self.without if value is None else self.at.setdefault(axis.place(value), [0, 0])
        _add_to(cell, row["status"] == Status.VIOLATED.value)


def _judged(rows: Iterable[Row]) -> Iterator[Row]:
    return (row for row in rows if row["status"] in JUDGED)


def _axis(spans: Iterable[_Span], known: Parameters) -> _Axis | None:
    """The first number that varies, declared parameters before others and directions last, seeds never."""
    candidates = ((span, _facts(span, known)) for span in spans if len(span.at) > 1)
    varying = [(span, facts) for span, facts in candidates if facts or span.name != SEED]
    if not varying:
        return None
    span, facts = min(varying, key=lambda item: (item[1] is None, not _is_graded(item[0])))
    binned = len(span.at) > MOST_VALUES
    return _Axis(span.label, facts, span.low, (span.high - span.low) / BINS if binned else 0.0, _is_graded(span))


def _is_graded(span: _Span) -> bool:
    facts = declared(span.use).get(span.name)
    return facts is None or facts.graded


def _facts(span: _Span, known: Parameters) -> tuple[float, str] | None:
    """The neutral value and unit of a number, from the run or a registered class; no other code is imported."""
    if recorded := known.get(str(span.use), {}).get(span.name):
        return float(recorded["neutral"]), str(recorded["unit"])
    facts = declared(span.use).get(span.name)
    return (facts.neutral, facts.unit) if facts else None


def _curve(rule: str, axis: _Axis, counts: _Counts, untouched: tuple[int, int] | None) -> Curve:
    ordered = sorted(counts.at.items(), key=lambda item: (abs(item[0] - axis.neutral), item[0]))
    points = tuple(Point(value, bad, n, bad / n, *wilson(bad, n)) for value, (bad, n) in ordered)
    sentences = _limits(axis, points) if axis.graded else [_worst(axis, points)]
    failed, without = counts.without
    if without:
        share = f"{without:,} of {without + _total(points):,} trials have no {axis.label}"
        sentences.append(f"{share} and are not in the curve; {failed:,} of them failed.")
    if untouched is not None:
        sentences.append(f"Untouched cases: {untouched[0]:,} of {untouched[1]:,} already wrong.")
    starts = (_start(axis, points), _brief(axis, points)) if axis.graded else ("", "")
    limits = " ".join(sentences), *starts
    return Curve(rule, axis.label, axis.unit, points, untouched, *limits, axis.neutral, axis.width)


def _start(axis: _Axis, points: Sequence[Point]) -> str:
    """The mildest value that failed; `points` are sorted, mildest first."""
    failed = next((point for point in points if point.violated), None)
    if failed is None:
        return ""
    side = _Side(axis, points, "below" if failed.value < axis.neutral else "above")
    return axis.named(side.words(failed))


def _brief(axis: _Axis, points: Sequence[Point]) -> str:
    """Up to where the side with the mildest failure holds, and from where it fails."""
    failed = next((point for point in points if point.violated), points[-1])
    way = "below" if failed.value < axis.neutral else "above"
    side = _Side(axis, [point for point in points if (point.value < axis.neutral) == (way == "below")], way)
    return axis.named(side.brief())


def _worst(axis: _Axis, points: Sequence[Point]) -> str:
    """Where most fail, of a number that says nothing about how strong the change is."""
    bad, sure = sum(point.violated for point in points), [point for point in points if point.trials >= LEAST]
    worst = max(sure, key=lambda point: point.rate, default=None)
    where = f"; most at {_Side(axis, points, 'above').words(worst)} ({_share(worst)})" if bad and worst else ""
    return f"{bad:,} of {_total(points):,} fail{where}."


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
            return f"Failed on all {_total(points):,} trials, from {self.words(first)}, the smallest change judged."
        start = [f"Fails already at {self.words(first)}, the smallest change judged ({_share(first)})"]
        if clean:
            held = f"{self._held(points[:clean])} {self._at_most(points[:clean])}"
            start = [held, f"first failures at {self._describe(points[clean])}"]
        return "; ".join([*start, *self._most(points[clean]), *self._dip()]) + "."

    def brief(self) -> str:
        """The same in a few words."""
        failed = next((place for place, point in enumerate(self.points) if point.violated), None)
        if failed is None:
            return f"held up to {self.words(self.points[-1])}, the strongest tried"
        if not failed:
            return f"fails from {self.words(self.points[0])}, the mildest tried"
        return f"holds up to {self.words(self.points[failed - 1])}, fails from {self.words(self.points[failed])}"

    def _held(self, points: Sequence[Point]) -> str:
        way = "down" if self.falling else "up"
        many = f"all {_total(points):,} trials" if _total(points) > 1 else "the only trial"
        return f"Held on {many} {way} to {self._number(self._edges(points[-1])[1])}"

    def _at_most(self, clean: Sequence[Point]) -> str:
        # Of the strongest change only: milder ones on the same cases are no further evidence.
        last = clean[-1]
        which = f"at {self.words(last)}: {_share(last)}, " if len(clean) > 1 else ""
        return f"({which}at most {last.high:.1%} may fail, 95% Wilson)"

    def _most(self, first: Point) -> Iterator[str]:
        """Where more than half fail, or else where the rate is highest."""
        often = [point for point in self.points if point.rate > 0.5]
        steady = list(itertools.takewhile(lambda point: point.rate > 0.5, reversed(self.points)))
        if len(steady) == len(self.points):
            yield "more than half fail at every value judged"
        elif len(steady) == 1:
            yield f"more than half fail at {self.words(steady[0])}"
        elif steady:
            yield f"more than half fail from {self._number(self._edges(steady[-1])[0])} {'down' if self.falling else 'on'}"
        elif often:
            yield f"more than half fail at {self.words(often[0])}, but not at every larger change"
        elif (worst := max(self.points, key=lambda point: point.rate)) is not first:
            yield f"highest failure rate at {self._describe(worst)}"

    def _dip(self) -> Iterator[str]:
        """A stronger change that fails significantly less often than a milder one."""
        peak = max(range(len(self.points)), key=lambda index: self.points[index].low)
        high, low = self.points[peak], min(self.points[peak:], key=lambda point: point.high)
        if low.high < high.low:
            yield f"not monotonic: {_share(low)} at {self.words(low)} after {_share(high)} at {self.words(high)}"

    def _describe(self, point: Point) -> str:
        return f"{self.words(point)} ({_share(point)})"

    def words(self, point: Point) -> str:
        """`9°`, or `7.5° to 10.5°` for a bin; `up to 4.5°` for one on both sides of neutral."""
        milder, stronger = (edge - self.axis.neutral for edge in self._edges(point))
        if milder * stronger < 0:
            return f"up to {self._number(self._edges(point)[1])}"
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
