"""What tables, report and terminal show of a run, gathered in one pass over its journal."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from swerve.analysis.acceptance import Acceptance, acceptances
from swerve.analysis.condition_rates import ConditionRate, ConditionTally
from swerve.analysis.groups import FindingGroup, Grouping
from swerve.analysis.numbers import Numbers, NumbersTally, Reached, is_guided, reached_of
from swerve.analysis.operating_domain import DomainRow, DomainTally
from swerve.analysis.precision_limits import PrecisionTally
from swerve.analysis.robustness import Robustness, RobustnessTally
from swerve.analysis.set_checks import CheckCounts, SetCheckTally
from swerve.analysis.severity import Curve, SeverityTally
from swerve.analysis.slices import CaseTable, metadata_of
from swerve.analysis.strength import MilderTrials
from swerve.core.encode import decode_values
from swerve.core.system import Answer
from swerve.store.artifacts import FEATURES, FINDINGS, features_of
from swerve.store.journal import Row
from swerve.store.record_json import BASELINE, Finding, finding_of, is_finding
from swerve.store.view import JOURNAL, Best, Run

if TYPE_CHECKING:
    from swerve.analysis.growth import Growth

RowReader = Callable[[Row], object]


def overview_of(run: Run, *readers: RowReader) -> Overview:
    """The overview of `run`, made once for every state of its journal; `readers` get every row of the pass, in order."""
    state = [_state(run.folder / name) for name in (JOURNAL, f"{FINDINGS}/{FEATURES}")]
    known, overview = run.derived.get(Overview, (None, None))
    if overview is None or known != state or readers:
        overview = Overview(run)
        for row in run.rows():
            overview.add(row)
            for read in readers:
                read(row)
        run.derived[Overview] = state, overview
    made: Overview = overview
    return made


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _growth(run: Run) -> Growth | None:
    if not is_guided(run):
        return None
    from swerve.analysis.growth import Growth  # which most runs need not import

    return Growth(run.identity["campaign"]["search"])


class Overview:
    """The counts, groups, best findings, curves and labels of a run; memory grows with its cases, not with its trials."""

    def __init__(self, run: Run) -> None:
        self._run, self._repeats = run, run.repeats
        self._numbers, self._checks = NumbersTally(run), SetCheckTally(run)
        self._conditions, self._precision = ConditionTally(), PrecisionTally(run)
        self._severity = SeverityTally(run.identity.get("parameters", {}))
        self._grouping, self._best = Grouping(run, features_of(run)), Best[Finding]()
        self._growth = _growth(run)
        self.milder = MilderTrials()
        metadata = metadata_of(run)
        self.cases, self.domain_terms = CaseTable(metadata), DomainTally(metadata)
        self._robustness = RobustnessTally()
        self._images_kept = 0
        self._labels: dict[str, list[Row]] = {}

    def add(self, row: Row) -> None:
        """Take in a row."""
        self._numbers.add(row)
        self._precision.add(row)
        if row["kind"] == BASELINE:
            self._add_case(row)
        else:
            self._add_trial(row)

    def _add_case(self, row: Row) -> None:
        if row["truth"]:
            self._labels[row["case"]] = row["truth"]
        self.cases.add(row)
        self.domain_terms.add_case(row)
        self._robustness.add_case(row)
        if self._growth and row["gain"] and not row["fault"]:
            self._growth.add_seed(row["case"], row["gain"])

    def _add_trial(self, row: Row) -> None:
        self._severity.add(row)
        self._conditions.add(row)
        self.milder.add(row)
        self._checks.add(row)
        self.cases.count(row)
        self.domain_terms.add_trial(row)
        self._robustness.add_trial(row)
        if self._growth:
            self._images_kept += self._growth.add_trial(row) is True
        if is_finding(row):
            finding = finding_of({**row, "repeated": self._repeats.get(row["id"])})
            self._grouping.add(finding)
            self._best.add(finding.rule, finding.margin, finding.id, finding)

    @property
    def numbers(self) -> Numbers:
        """The run in numbers."""
        return self._numbers.numbers()

    @cached_property
    def acceptances(self) -> dict[str, Acceptance]:
        """Whether each rule is accepted, by name."""
        return acceptances(self._run.identity["campaign"], self.numbers.rules, self._precision.drops)

    @property
    def reached(self) -> Reached | None:
        """What the run covered inside the system."""
        return reached_of(self._run, self._images_kept)

    @cached_property
    def groups(self) -> list[FindingGroup]:
        """The groups of its findings, the largest first."""
        return self._grouping.groups()

    @cached_property
    def checks(self) -> list[CheckCounts]:
        """The counts of every check for every rule about sets of objects."""
        return self._checks.counts()

    @cached_property
    def domain(self) -> list[DomainRow]:
        """Every condition of the operating domain, with the trials that brought it about."""
        return self.domain_terms.rows(self.cases)

    @cached_property
    def robustness(self) -> Robustness | None:
        """The share of its quality that the system keeps under changes; None if the search chose what it changed."""
        return self._robustness.robustness() if self._run.sampled else None

    def best(self, count: int | None = None) -> list[Finding]:
        """The findings of each rule with the largest margins, largest first: all that are kept, or at most `count`."""
        found = self._best.sorted()
        if count is None:
            return found
        best = Best[Finding](count)
        for finding in found:
            best.add(finding.rule, finding.margin, finding.id, finding)
        return best.sorted()

    @cached_property
    def curves(self) -> list[Curve]:
        """The failure rate of each rule by the strength of its change."""
        untouched = {line.name: line.untouched for line in self.numbers.rules if line.untouched}
        return self._severity.curves(self._run.trials, untouched)

    @cached_property
    def conditions(self) -> dict[str, list[ConditionRate]]:
        """The failure rate of each change of the rules that have no curve, or several kinds of change."""
        return self._conditions.rates([curve.rule for curve in self.curves])

    def label(self, case: str) -> Answer:
        """The label of an unchanged case."""
        return decode_values(self._labels.get(case, []))
