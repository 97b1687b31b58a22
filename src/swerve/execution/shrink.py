"""Shrinks a finding to the smallest change that still fails: fewer steps, fewer parts, parameters close to neutral.

`smallest` is a generator: it yields a change, is sent whether that still fails, and returns the smallest it found. So one
finding can be shrunk alone, or many side by side in batches. It ends when a whole round finds nothing smaller, so shrinking
the result again does not change it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from swerve.config.toml import Builder
from swerve.core.campaign import Record, Trial
from swerve.core.encode import encode_change
from swerve.core.errors import InputError
from swerve.core.relation import Status
from swerve.core.transformation import Chain, Param, Transformation, params_of
from swerve.execution.engine import NoProgress, Progress
from swerve.execution.executors.in_process import Executor
from swerve.store.artifacts import SHRUNK, Shrunk, save_shrunk
from swerve.store.files import json_bytes, make_folder
from swerve.store.journal import Row
from swerve.store.record_json import Finding, finding_of, record_row
from swerve.store.view import Run

HOLDS, OTHERWISE, UNJUDGED = "holds", "fails in another way", "cannot be judged"
OUTCOMES = {Status.HELD: HOLDS, Status.VIOLATED: OTHERWISE}
ASKED_AGAIN = 5  # times, of a finding that did not fail again at first
SIDE_BY_SIDE = 32  # findings of one case that are shrunk at a time
T = TypeVar("T")
Questions = Generator[Transformation, bool, T]


@runtime_checkable
class Parted(Protocol):
    """A change made of parts, such as added points or objects, that also works with some of them.

    It may name as `counts` the parameter that only counts them: leaving out parts has shrunk that already.
    """

    def parts(self) -> Sequence[Any]:
        """What it is made of."""

    def with_parts(self, parts: Sequence[Any]) -> Transformation:
        """The same change made of these alone."""


@dataclass(frozen=True)
class Edge:
    """Where a parameter turns from failing to not failing; `beyond` is the change there, None if it cannot be made."""

    name: str
    fails: float
    holds: float
    unit: str = ""
    beyond: Transformation | None = None

    def words(self, outcome: str = HOLDS) -> str:
        """Both sides in words, given the outcome of the change beyond the edge."""
        return f"{self.name} fails at {self.fails:g}{self.unit}, {outcome} at {self.holds:g}{self.unit}"


@dataclass(frozen=True)
class Smallest:
    """The smallest failing change that was found, the edges of its parameters, and how often the system was asked."""

    change: Transformation
    edges: tuple[Edge, ...]
    tries: int


def smallest(change: Transformation) -> Questions[Smallest]:
    """Shrink `change`, which fails."""
    memory: dict[str, bool] = {}

    def remembering(asking: Questions[T]) -> Questions[T]:
        """The same questions, none of them twice."""
        try:
            pending = next(asking)
            while True:
                key = _key(pending)
                if key not in memory:
                    memory[key] = yield pending
                pending = asking.send(memory[key])
        except StopIteration as finished:
            result: T = finished.value
            return result

    while True:
        before = change
        change = yield from remembering(_fewest_steps(change))
        change = yield from remembering(_fewest_parts(change))
        change, edges = yield from remembering(_nearest(change))
        change = yield from remembering(_simpler(change))
        if change == before:
            return Smallest(change, edges, len(memory))


def _key(change: Transformation) -> str:
    return json.dumps(encode_change(change))


def _fewest_steps(change: Transformation) -> Questions[Transformation]:
    if not isinstance(change, Chain):
        return change
    steps = yield from fewest(change.steps, _chained)
    return _chained(steps)


def _chained(steps: Sequence[Transformation]) -> Transformation:
    return steps[0] if len(steps) == 1 else Chain(tuple(steps))


def _fewest_parts(change: Transformation) -> Questions[Transformation]:
    for place, step in enumerate(_steps(change)):
        if isinstance(step, Parted):
            change = yield from _step_of_fewest_parts(change, place, step)
    return change


def _step_of_fewest_parts(change: Transformation, place: int, step: Parted) -> Questions[Transformation]:
    def rebuild(parts: Sequence[Any]) -> Transformation:
        return _with_step(change, place, step.with_parts(parts))

    kept = yield from fewest(step.parts(), rebuild)
    return rebuild(kept) if len(kept) < len(step.parts()) else change


def fewest(items: Sequence[T], rebuild: Callable[[Sequence[T]], Transformation]) -> Questions[Sequence[T]]:
    """Zeller's ddmin: some of `items`, at least one, whose change still fails, and none of which can be left out alone."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        starts = range(0, len(items), size)
        chunks = [(items[start : start + size], 2) for start in starts]
        rests = [((*items[:start], *items[start + size :]), max(parts - 1, 2)) for start in starts] if parts > 2 else []
        for kept, then in (*chunks, *rests):
            if 0 < len(kept) < len(items) and (yield rebuild(kept)):
                items, parts = kept, then
                break
        else:
            if size == 1:
                return items
            parts = min(2 * parts, len(items))
    return items


def _nearest(change: Transformation) -> Questions[tuple[Transformation, tuple[Edge, ...]]]:
    """The change with each parameter of each step moved towards its neutral value, until it holds."""
    edges: list[Edge] = []
    for place, step in enumerate(_steps(change)):
        for name, facts in _numbers(step):
            change, holds = yield from _bisected(change, place, name, facts)
            value = getattr(_steps(change)[place], name)
            if holds is not None:
                edges.append(Edge(name, value, holds, facts.unit, _with_number(change, place, name, holds)))
    return change, tuple(edges)


def _numbers(step: Transformation) -> Sequence[tuple[str, Param]]:
    counts = getattr(step, "counts", None) if isinstance(step, Parted) else None
    return [(name, facts) for name, facts in params_of(type(step)).items() if name != counts]


def _bisected(change: Transformation, place: int, name: str, facts: Param) -> Questions[tuple[Transformation, float | None]]:
    """The change with one parameter as near to neutral as it still fails, and the nearest value at which it holds."""
    fails, holds = getattr(_steps(change)[place], name), facts.neutral
    if fails == holds:
        return change, None
    middle = holds
    while True:
        candidate = _with_number(change, place, name, middle)
        if candidate is not None and (yield candidate):
            change, fails = candidate, middle
        else:
            holds = middle
        middle = facts.tidy((fails + holds) / 2)
        if not min(fails, holds) < middle < max(fails, holds):
            return change, None if fails == facts.neutral else holds


def _simpler(change: Transformation) -> Questions[Transformation]:
    """The first of the change's own simpler versions that fails; a user's change may define other than its parameters."""
    for easier in change.simpler():
        if (yield easier):
            return easier
    return change


def _steps(change: Transformation) -> tuple[Transformation, ...]:
    return change.steps if isinstance(change, Chain) else (change,)


def _with_step(change: Transformation, place: int, step: Transformation) -> Transformation:
    steps = _steps(change)
    return _chained((*steps[:place], step, *steps[place + 1 :]))


def _with_number(change: Transformation, place: int, name: str, number: float) -> Transformation | None:
    try:
        return _with_step(change, place, dataclasses.replace(_steps(change)[place], **{name: number}))
    except (TypeError, ValueError):  # its other parameters may not allow this value
        return None


def shrink(
    run: Run,
    findings: Sequence[Finding],
    executor: Executor,
    *,
    same: Callable[[Finding, Finding], bool] = lambda _, __: True,
    trusted: Collection[str | Path] = (),
    progress: Progress | None = None,
) -> Iterator[Shrunk]:
    """Shrink findings, those of one case side by side, and keep each in the run folder.

    A smaller change counts only if what is wrong is the `same` as with the whole one, such as the direction of the error.
    """
    progress = progress or NoProgress()
    progress.begin(SHRUNK, len(findings))
    make_folder(run.folder / SHRUNK)
    builder = run.builder(trusted=trusted)
    for _, same_case in groupby(sorted(findings, key=lambda item: (item.case, item.id)), key=lambda item: item.case):
        together = list(same_case)
        _refuse_other_input(together[0], executor)
        for start in range(0, len(together), SIDE_BY_SIDE):
            for shrunk, row in side_by_side(together[start : start + SIDE_BY_SIDE], executor, same, builder):
                save_shrunk(run, shrunk, row or run.row(shrunk.of))
                progress.advance(1, 0)
                yield shrunk


def _refuse_other_input(finding: Finding, executor: Executor) -> None:
    """Refuse a case whose input has changed; its trials report one that cannot be read."""
    ((seen,),) = executor.observe([[finding.case]])
    if seen.input_sha not in ("", finding.source_sha):
        then, now = finding.source_sha[:8], seen.input_sha[:8]
        raise InputError(
            f"case {finding.case}: the input has changed since the run (sha {then} then, {now} now); restore the data"
        )


def side_by_side(
    findings: Sequence[Finding],
    executor: Executor,
    same: Callable[[Finding, Finding], bool],
    builder: Builder,
    budget: float = math.inf,
) -> Iterator[tuple[Shrunk, Row | None]]:
    """Shrink findings at the same time; the row is that of the smallest change, None of a flaky finding.

    Where `budget`, the most trials of all of them together, ends before it is known, a finding is left out.
    """
    under_way = [_Shrinking(finding, builder.change(finding.change), same) for finding in findings]
    while (waiting := [one for one in under_way if one.pending is not None]) and budget >= len(waiting):
        budget -= len(waiting)
        # One trial per batch: a verdict at the edge must be the same as in a replay, which runs it alone.
        batches = executor.evaluate([[one.trial] for one in waiting])
        for one, (result,) in zip(waiting, batches, strict=True):
            one.send(result.record)
    for one in (one for one in under_way if one.pending is None):
        yield (one.result(), record_row(one.failing)) if one.found else (one.flaky(), None)


class _Shrinking:
    """One finding being shrunk."""

    def __init__(self, finding: Finding, change: Transformation, same: Callable[[Finding, Finding], bool]) -> None:
        self._finding, self._same = finding, same
        self._search = self._shrink_or_flaky(change)
        self._again: list[bool] = []  # whether it failed, each time it was asked as it was
        self._last = ""
        self.found: Smallest | None = None
        self._records: dict[str, Record] = {}
        self._outcomes: dict[str, str] = {}
        self.pending: Transformation | None = next(self._search)

    @property
    def trial(self) -> Trial:
        return Trial(self._finding.case, self._finding.rule, 0, self.pending)

    def send(self, record: Record) -> None:
        """Take the record of the change that was asked for."""
        fails = record.verdict.status is Status.VIOLATED and self._same_fault(record)
        if self.pending is not None:
            self._last = self._outcomes[_key(self.pending)] = OUTCOMES.get(record.verdict.status, UNJUDGED)
        if fails and self.pending is not None:
            self._records[_key(self.pending)] = record
        try:
            self.pending = self._search.send(fails)
        except StopIteration as finished:
            self.pending, self.found = None, finished.value

    def _outcome(self, edge: Edge) -> str:
        return UNJUDGED if edge.beyond is None else self._outcomes[_key(edge.beyond)]

    def _same_fault(self, record: Record) -> bool:
        return self._same(self._finding, finding_of(_plain(record_row(record))))

    def _shrink_or_flaky(self, change: Transformation) -> Questions[Smallest | None]:
        """The smallest change; None if the finding itself does not fail every time."""
        self._again.append((yield change))
        if self._again[0]:
            return (yield from smallest(change))
        while len(self._again) < ASKED_AGAIN:
            self._again.append((yield change))
        return None

    def flaky(self) -> Shrunk:
        """A finding that did not fail again."""
        count = len(self._again)
        edge = f"flaky: failed {sum(self._again)} of {count} times when repeated, the last time it {self._last}"
        return Shrunk(self._finding, self._finding.id, (edge,), count, flaky=True)

    @property
    def failing(self) -> Record:
        """The record of the smallest change."""
        assert self.found
        return self._records[_key(self.found.change)]

    def result(self) -> Shrunk:
        """The shrunk finding."""
        assert self.found
        edges = tuple(edge.words(self._outcome(edge)) for edge in self.found.edges)
        return Shrunk(finding_of(_plain(record_row(self.failing))), self._finding.id, edges, self.found.tries)


def _plain(row: Row) -> Row:
    """A row as it reads back from JSON."""
    plain: Row = json.loads(json_bytes(row))
    return plain
