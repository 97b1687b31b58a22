"""The steering angles of a run's trials as columns of numbers, from which all steering tables are made.

Angles are radians of the steering wheel, the unit of the papers' errors.
"""
# D-34

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from swerve.core.campaign import Observation
from swerve.core.relation import Status
from swerve.core.system import Answer
from swerve.core.values import Array, Steering, find

JUDGED = (Status.HELD.value, Status.VIOLATED.value)


@dataclass(frozen=True, eq=False)
class Angles:
    """One row per judged follow-up: its rule, change and case by number, its label, and the answers before and after.

    A missing label is NaN.
    """

    rules: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]  # rule and words of every change, in order of first appearance
    cases: tuple[str, ...]
    rule: Array
    change: Array
    case: Array
    label: Array
    before: Array
    after: Array

    @property
    def count(self) -> int:
        """The number of follow-ups."""
        return len(self.rule)

    def of(self, rule: str) -> Angles:
        """The follow-ups of one rule."""
        return (
            self.where(self.rule == self.rules.index(rule)) if rule in self.rules else self.where(np.zeros(self.count, bool))
        )

    def where(self, chosen: Array) -> Angles:
        """Some of the follow-ups."""
        columns = (getattr(self, name)[chosen] for name in ("rule", "change", "case", "label", "before", "after"))
        return Angles(self.rules, self.changes, self.cases, *columns)

    def squared_errors(self) -> Array:
        """(label - answer)² of every follow-up, rad²."""
        return np.asarray((self.label - self.after) ** 2)

    def squared_shifts(self) -> Array:
        """(answer before - answer after)² of every follow-up, rad²; it needs no label."""
        return np.asarray((self.before - self.after) ** 2)


def angles_of(rows: Iterable[Mapping[str, Any]]) -> Angles:
    """The judged trials with a steering angle among journal rows."""
    rules: dict[str, int] = {}
    changes: dict[tuple[str, str], int] = {}
    cases: dict[str, int] = {}
    numbers: list[tuple[int, int, int]] = []
    angles: list[tuple[float, float, float]] = []
    for row in rows:
        before, after = _angle(row["before"]), _angle(row["after"])
        if row["status"] not in JUDGED or math.isnan(before) or math.isnan(after):
            continue
        rule, case = row["rule"], row["case"]
        change = changes.setdefault((rule, row["words"]), len(changes))
        numbers.append((rules.setdefault(rule, len(rules)), change, cases.setdefault(case, len(cases))))
        angles.append((_angle(row["truth"]), before, after))
    places, columns = np.array(numbers, int).reshape(-1, 3), np.array(angles, float).reshape(-1, 3)
    return Angles(tuple(rules), tuple(changes), tuple(cases), *places.T, *columns.T)


def _angle(values: Sequence[Mapping[str, Any]]) -> float:
    """The steering angle among encoded values, radians of the wheel; NaN without one."""
    return next((math.radians(value["degrees"]) for value in values if value["slot"] == Steering.slot), math.nan)


def radians_of(answer: Answer) -> float:
    """The steering angle of an answer or a label, radians of the wheel; NaN without one."""
    value = find(answer, Steering.slot)
    return math.radians(value.degrees) if isinstance(value, Steering) else math.nan


def untouched(baseline: Iterable[Observation]) -> tuple[Array, Array]:
    """Labels and answers of the usable, labelled cases of a baseline."""
    pairs = [(radians_of(seen.truth), radians_of(seen.answer)) for seen in baseline if not seen.fault]
    columns = np.array(pairs, float).reshape(-1, 2)
    finite = np.isfinite(columns).all(axis=1)
    return columns[finite, 0], columns[finite, 1]
