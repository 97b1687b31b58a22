"""How much of its quality a system keeps under changes, as one score per rule, family of rules and run.

A score is the quality of the follow-ups relative to that of the untouched cases, as in the mean resistance ability (mRA) of
corruption benchmarks: mAP after ÷ mAP before, or, of an error such as RMSE, before ÷ after. 1 means that nothing is lost.
The run's score is the mean over its families, rules whose names are the same before a comma. Intervals are those of a
jackknife that leaves out one tenth of the drives at a time, as frames of one drive are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from swerve.analysis.quality import Measure, Sample, Sums, measure_of
from swerve.analysis.statistics import Estimate
from swerve.core.relation import Status
from swerve.core.values import Array
from swerve.store.journal import Row

FOLDS = 10
FEWEST = 4  # folds with an interval
STUDENT = (3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)  # 97.5% quantiles of t with 3 to 9 degrees of freedom
JUDGED = (Status.HELD.value, Status.VIOLATED.value)
Folds = list[Sums]  # the sums of each part of the data


def family_of(rule: str) -> str:
    """The name that a rule shares with others, before the first comma."""
    return rule.partition(", ")[0]


@dataclass(frozen=True)
class Kept:
    """The quality before and after the changes of some rules, and the share that is kept."""

    name: str
    trials: int
    cases: int
    before: Estimate
    after: Estimate
    score: Estimate


@dataclass(frozen=True)
class Robustness:
    """The scores of a run: in all, by family and by rule."""

    measure: str  # such as RMSE
    unit: str
    falls: bool  # whether a lower number is better
    overall: Estimate
    families: tuple[Kept, ...]
    rules: tuple[Kept, ...]


class RobustnessTally:
    """Adds up the quality of a run's answers row by row, unchanged cases first; memory grows with the cases."""

    def __init__(self) -> None:
        self._seen: dict[str, Row] = {}
        self._rules: dict[str, _RuleSums] = {}

    def add_case(self, row: Row) -> None:
        """Take in an unchanged case."""
        if not row["fault"] and row["truth"]:
            self._seen[row["case"]] = row

    def add_trial(self, row: Row) -> None:
        """Take in a trial, if it was judged and its case has a label."""
        if row["status"] not in JUDGED or row["case"] not in self._seen or self._measure is None:
            return
        samples = self._measure.samples(row["truth"], row["after"])
        if samples is None or row["case"] not in self._untouched:
            return
        rule = self._rules.setdefault(row["rule"], _RuleSums([{} for _ in range(self._folds)]))
        rule.cases.setdefault(row["case"])
        rule.trials += 1
        _add(rule.after[self._fold_of[row["case"]]], samples, self._measure.size)

    def robustness(self) -> Robustness | None:
        """The scores; None if the cases have no labels that can be compared with answers."""
        if self._measure is None or not self._rules:
            return None
        named: dict[str, list[_RuleSums]] = {}
        for name, sums in self._rules.items():
            named.setdefault(family_of(name), []).append(sums)
        rules = [self._part(name, [sums], self._measure) for name, sums in self._rules.items()]
        families = [self._part(name, members, self._measure) for name, members in named.items()]
        overall = _jackknife(self._folds, lambda left: _mean(one.score(left) for one in families))
        made = Robustness(
            self._measure.name,
            self._measure.unit,
            self._measure.falls,
            Estimate(len(self._untouched), *overall),
            tuple(one.kept() for one in families),
            tuple(one.kept() for one in rules),
        )
        return made if made.overall.value is not None else None

    def _part(self, name: str, rules: Sequence[_RuleSums], measure: Measure) -> _Part:
        """Rules with the quality of the untouched cases that they judged, each once."""
        folds: Folds = [{} for _ in range(self._folds)]
        for case in dict.fromkeys(case for one in rules for case in one.cases):
            _add(folds[self._fold_of[case]], self._untouched[case], measure.size)
        return _Part(name, rules, folds, measure)

    @cached_property
    def _measure(self) -> Measure | None:
        return measure_of((row["truth"], row["said"]) for row in self._seen.values())

    @cached_property
    def _untouched(self) -> Mapping[str, list[Sample]]:
        assert self._measure is not None
        found = ((case, self._measure.samples(row["truth"], row["said"])) for case, row in self._seen.items())
        return {case: samples for case, samples in found if samples is not None}

    @cached_property
    def _fold_of(self) -> Mapping[str, int]:
        """Drives in turn; cases in turn, if there are too few drives."""
        drives = {row["group"] or case for case, row in self._seen.items()}
        by_drive = len(drives) >= FEWEST
        turns: dict[str, int] = {}
        for case, row in self._seen.items():
            turns.setdefault((row["group"] or case) if by_drive else case, len(turns) % FOLDS)
        return {case: turns[(row["group"] or case) if by_drive else case] for case, row in self._seen.items()}

    @cached_property
    def _folds(self) -> int:
        return max(self._fold_of.values(), default=-1) + 1


@dataclass
class _RuleSums:
    """The follow-ups of one rule: sums by fold, the cases they come from, and their number."""

    after: Folds
    cases: dict[str, None] = field(default_factory=dict)
    trials: int = 0


@dataclass(frozen=True)
class _Part:
    """The sums of some rules, before and after."""

    name: str
    rules: Sequence[_RuleSums]
    untouched: Folds
    measure: Measure

    def before(self, without: int | None) -> float | None:
        return self.measure.value(_total(self.untouched, without))

    def after(self, without: int | None) -> float | None:
        folds = [_total([one.after[fold] for one in self.rules], None) for fold in range(len(self.untouched))]
        return self.measure.value(_total(folds, without))

    def score(self, without: int | None) -> float | None:
        """The share of quality that is kept; None without a fold that is needed."""
        was, now = self.before(without), self.after(without)
        whole, part = (now, was) if self.measure.falls else (was, now)
        return None if whole is None or part is None or whole <= 0 else part / whole

    def kept(self) -> Kept:
        cases = len(dict.fromkeys(case for one in self.rules for case in one.cases))
        trials = sum(one.trials for one in self.rules)
        found = (_jackknife(len(self.untouched), read) for read in (self.before, self.after, self.score))
        before, after, score = (
            Estimate(count, *numbers) for count, numbers in zip((cases, trials, cases), found, strict=True)
        )
        return Kept(self.name, trials, cases, before, after, score)


def _add(sums: Sums, samples: Iterable[Sample], size: int) -> None:
    for sample in samples:
        if sample.kind not in sums:
            sums[sample.kind] = np.zeros(size)
        if sample.places is None:
            sums[sample.kind] += sample.amounts
        else:
            np.add.at(sums[sample.kind], sample.places, sample.amounts)


def _total(folds: Sequence[Sums], without: int | None) -> Sums:
    total: dict[str, Array] = {}
    for place, sums in enumerate(folds):
        for kind, numbers in sums.items() if place != without else ():
            total[kind] = total[kind] + numbers if kind in total else numbers
    return total


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _jackknife(folds: int, read: Callable[[int | None], float | None]) -> tuple[float | None, float | None, float | None]:
    """A number, and its 95% interval from the numbers without each fold; no interval with too few folds."""
    whole = read(None)
    parts = [part for part in map(read, range(folds)) if part is not None] if folds >= FEWEST else []
    if whole is None or len(parts) < FEWEST:
        return whole, None, None
    spread = math.sqrt((len(parts) - 1) * float(np.mean((np.array(parts) - np.mean(parts)) ** 2)))
    reach = STUDENT[len(parts) - FEWEST] * spread
    return whole, max(whole - reach, 0.0), whole + reach
