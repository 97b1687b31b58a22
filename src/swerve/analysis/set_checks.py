"""The checks on sets of objects side by side, whichever of them was a rule's verdict.

`subset` is `swerve.relations.sets.Superset`, `no-fewer` counts objects as `NoFewer` matches them, and `plain-count` compares
the plain numbers of objects in the region, as Zhou and Sun did.
"""
# LM-6, LM-7, D-17

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from swerve.analysis.groups import relation_parts
from swerve.analysis.statistics import wilson
from swerve.core.relation import Status
from swerve.relations.sets import DEMANDED, IN_REGION_AFTER, MISSING
from swerve.store.journal import Row
from swerve.store.view import Run

SUBSET, NO_FEWER, PLAIN_COUNT = "subset", "no-fewer", "plain-count"
COUNTED: Mapping[str, tuple[str, str]] = {NO_FEWER: ("before", "after"), PLAIN_COUNT: (DEMANDED, IN_REGION_AFTER)}
JUDGED = (Status.HELD.value, Status.VIOLATED.value)
FEWER, EQUAL, MORE = "fewer", "equal", "more"
COLUMNS = ("rule", "check", "judged", "violated", "rate", "low", "high", FEWER, EQUAL, MORE)


@dataclass(frozen=True)
class CheckCounts:
    """How the judged trials of one rule end by one check."""

    rule: str
    check: str
    judged: int
    violated: int
    outcomes: Mapping[str, int] | None  # trials with fewer, equally many and more objects; None for a check of another kind

    @property
    def rate(self) -> float:
        """The share of judged trials that violate the check."""
        return self.violated / self.judged

    @property
    def interval(self) -> tuple[float, float]:
        """The rate's 95% Wilson interval."""
        return wilson(self.violated, self.judged)

    @property
    def cells(self) -> tuple[Any, ...]:
        """A row of `tables/checks.csv`."""
        numbers = [self.outcomes[name] for name in (FEWER, EQUAL, MORE)] if self.outcomes else [""] * 3
        return (self.rule, self.check, self.judged, self.violated, self.rate, *self.interval, *numbers)


class SetCheckTally:
    """Counts how the trials of rules about sets of objects end by every check."""

    def __init__(self, run: Run) -> None:
        rules = run.identity["campaign"].get("rule", ())
        self._about_sets = [str(rule["name"]) for rule in rules if _is_about_sets(rule.get("expect"))]
        self._ends: dict[tuple[str, str], Counter[str]] = {}

    def add(self, row: Row) -> None:
        """Count a trial."""
        if self._about_sets and row["status"] in JUDGED and row["rule"] in self._about_sets:
            for check, end in _ends(row["facts"]):
                self._ends.setdefault((row["rule"], check), Counter())[end] += 1

    def counts(self) -> list[CheckCounts]:
        """The counts of every check for every rule."""
        wanted = [(rule, check) for rule in self._about_sets for check in (SUBSET, *COUNTED)]
        return [_counts(*key, self._ends[key]) for key in wanted if key in self._ends]


def _is_about_sets(expect: object) -> bool:
    return any(part.get("use") in ("superset", "no-fewer") for part in relation_parts(expect))


def _ends(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How one trial ends by each check whose facts it has."""
    if all(name in facts for name in MISSING):
        yield SUBSET, FEWER if any(facts[name] for name in MISSING) else EQUAL
    for check, (before, after) in COUNTED.items():
        if before in facts and after in facts:
            lost, gained = facts[after] < facts[before], facts[after] > facts[before]
            yield check, FEWER if lost else MORE if gained else EQUAL


def _counts(rule: str, check: str, ends: Counter[str]) -> CheckCounts:
    outcomes = None if check == SUBSET else {name: ends[name] for name in (FEWER, EQUAL, MORE)}
    return CheckCounts(rule, check, ends.total(), ends[FEWER], outcomes)
