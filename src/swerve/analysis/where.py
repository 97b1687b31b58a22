"""Conditions on what is known of a finding's case, as a user writes them: `weather=rainy`, `speed>30`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from swerve.analysis.overview import overview_of
from swerve.analysis.statistics import wilson
from swerve.core.case import Fact
from swerve.core.errors import InputError, did_you_mean
from swerve.core.relation import Status
from swerve.store.record_json import Finding, finding_of
from swerve.store.view import Run

_FORM = re.compile(r"\s*(?P<column>[^<>=!]+?)\s*(?P<sign>!=|>=|<=|=|<|>)\s*(?P<value>.*?)\s*")


@dataclass(frozen=True)
class Where:
    """A condition on a column, such as `weather=rainy` or `speed>30`."""

    column: str
    sign: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Where:
        """The condition that a user wrote."""
        if (found := _FORM.fullmatch(text)) is None:
            raise InputError(f"--where takes COLUMN=VALUE, or one of != < <= > >= with a number, got '{text}'")
        return cls(**found.groupdict())

    def refuse_unknown(self, columns: Iterable[str]) -> None:
        """Raise `InputError` if no case has the column."""
        known = sorted(columns)
        if self.column not in known:
            raise InputError(f"--where: no column '{self.column}'; {did_you_mean(self.column, known)}")

    def holds(self, facts: Mapping[str, Fact]) -> bool:
        """Whether a case has the column, and it fits."""
        if (fact := facts.get(self.column)) is None:
            return False
        if self.sign in ("=", "!="):
            return (str(fact) == self.value or _is_equal(fact, self.value)) == (self.sign == "=")
        try:
            given, limit = float(fact), float(self.value)
        except ValueError:
            return False
        return {"<": given < limit, "<=": given <= limit, ">": given > limit, ">=": given >= limit}[self.sign]


def _is_equal(fact: Fact, value: str) -> bool:
    try:
        return float(fact) == float(value)
    except ValueError:
        return False


@dataclass(frozen=True)
class FoundSlice:
    """The findings of the trials that fit some conditions, the largest margins first, and how many were judged."""

    findings: list[Finding]
    judged: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% Wilson interval of its failure rate."""
        return wilson(len(self.findings), self.judged)


def slice_of(run: Run, texts: Iterable[str]) -> FoundSlice:
    """The trials of `run` whose case, rule and origin fit all conditions."""
    wanted = [Where.parse(text) for text in texts]
    cases = overview_of(run).cases
    for where in wanted:
        where.refuse_unknown(("case", "rule", "origin", *cases.columns))
    found, judged = list[Finding](), 0
    for row in run.trials():
        own = {"case": row["case"], "rule": row["rule"], "origin": row["origin"] or ""}
        if row["status"] not in (Status.HELD.value, Status.VIOLATED.value):
            continue
        if all(where.holds({**cases.of(row["case"]), **own}) for where in wanted):
            judged += 1
            if row["status"] == Status.VIOLATED.value:
                found.append(finding_of({**row, "repeated": run.repeats.get(row["id"])}))
    return FoundSlice(sorted(found, key=lambda finding: (-finding.margin, finding.id)), judged)
