"""The failure rate of single changes, for rules whose changes differ in more than a number, such as another weather."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from swerve.analysis.statistics import wilson
from swerve.core.relation import Status
from swerve.store.journal import Row

MOST = 24  # different changes of a rule; with more, none is shown
JUDGED = (Status.HELD.value, Status.VIOLATED.value)


class ConditionRate(NamedTuple):
    """The trials of one change in words, and their failure rate with its 95% Wilson interval."""

    words: str
    violated: int
    trials: int
    rate: float
    low: float
    high: float


class ConditionTally:
    """Counts trials by the words of their change, row by row; memory does not grow with the trials."""

    def __init__(self) -> None:
        self._rules: dict[str, _Changes] = {}

    def add(self, row: Row) -> None:
        """Count a trial, if it was judged."""
        if row["status"] in JUDGED:
            self._rules.setdefault(row["rule"], _Changes()).add(row)

    def rates(self, curved: Collection[str]) -> dict[str, list[ConditionRate]]:
        """The changes of each rule with several kinds of change, or that is not `curved`; the highest rate first."""
        return {
            rule: changes.rates()
            for rule, changes in self._rules.items()
            if 1 < len(changes.counts) <= MOST and (len(changes.kinds) > 1 or rule not in curved)
        }


@dataclass
class _Changes:
    kinds: set[object] = field(default_factory=set)
    counts: dict[str, list[int]] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        self.kinds.add((row["change"] or {}).get("use"))
        if len(self.counts) <= MOST:
            cell = self.counts.setdefault(row["words"], [0, 0])
            cell[0] += row["status"] == Status.VIOLATED.value
            cell[1] += 1

    def rates(self) -> list[ConditionRate]:
        found = [ConditionRate(words, bad, n, bad / n, *wilson(bad, n)) for words, (bad, n) in self.counts.items()]
        return sorted(found, key=lambda one: (-one.rate, one.words))
