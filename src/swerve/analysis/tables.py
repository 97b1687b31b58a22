"""The tables of a run as CSV files, derived from its journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from swerve.analysis.exemplars import smallest_words
from swerve.analysis.odd_export import write_operating_domain
from swerve.analysis.overview import overview_of
from swerve.analysis.robustness import Robustness
from swerve.analysis.set_checks import COLUMNS
from swerve.analysis.statistics import Estimate
from swerve.core.campaign import Observation
from swerve.core.origin import Origin
from swerve.core.relation import Status
from swerve.core.values import Steering
from swerve.store.files import csv_table, make_folder, write_csv
from swerve.store.journal import Row
from swerve.store.record_json import BASELINE
from swerve.store.view import Run

SKIPPED = "skipped.csv"
TABLES = "tables"
FINDING = ("id", "rule", "case", "change", "margin", "origin", "why", "before", "after", "truth", "facts")
REASON = ("case", "reason")
ERROR = ("id", "case", "rule", "change", "kind", "why")
GROUP = ("group", "rule", "family", "direction", "way", "findings", "cases", "margin", "exemplar", "smallest")
ROBUSTNESS = (
    *("scope", "name", "measure", "cases", "trials"),
    *(f"{name}{end}" for name in ("before", "after", "score") for end in ("", "_low", "_high")),
)
COUNTS = ("trials", "held", "violated", "skipped", "errors", *(origin.key for origin in Origin))


def write_tables(run: Run, summary: dict[str, Any]) -> None:
    """Write `tables/rules.csv`, `findings.csv`, `errors.csv`, `groups.csv`, `baseline.csv` and `skipped.csv`.

    Where a rule is about sets of objects, also `checks.csv`; where cases have labels, `robustness.csv`; where something is
    known of cases, `cases.csv`; and the operating domain, as CSV and as YAML. The journal is read once, which leaves the
    run's overview.
    """
    folder = run.folder / TABLES
    make_folder(folder)
    write_csv(folder / "rules.csv", ("rule", *COUNTS, "untouched_cases", "untouched_violated"), _rule_rows(summary))
    with (
        csv_table(folder / "findings.csv", FINDING) as write_finding,
        csv_table(folder / "errors.csv", ERROR) as write_error,
        csv_table(folder / "baseline.csv", ("case", "group", "said", "truth")) as write_case,
        csv_table(folder / SKIPPED, REASON) as write_reason,
    ):

        def read(row: Row) -> None:
            if row["kind"] == BASELINE:
                write_case((row["case"], row["group"], answer_cell(row["said"]), answer_cell(row["truth"])))
                if row["fault"]:
                    write_reason((row["case"], row["fault"]))
            elif row["status"] == Status.VIOLATED.value:
                write_finding(_finding_cells(row))
            elif row["status"] == Status.ERROR.value:
                write_error([row[name] for name in ("id", "case", "rule", "words", "error", "why")])

        overview = overview_of(run, read)
    write_groups(run)
    if checks := overview.checks:
        write_csv(folder / "checks.csv", COLUMNS, (check.cells for check in checks))
    if found := overview.robustness:
        write_csv(folder / "robustness.csv", ROBUSTNESS, _robustness_rows(found))
    if columns := overview.cases.columns:
        rows = ((case, *(facts.get(name) for name in columns)) for case, facts in overview.cases.rows())
        write_csv(folder / "cases.csv", ("case", *columns), rows)
    write_operating_domain(run, overview.domain)


def _robustness_rows(found: Robustness) -> Iterator[tuple[Any, ...]]:
    """The run's score, then every family and every rule, with the ends of their intervals."""
    yield ("run", "", found.measure, "", "", *([""] * 6), *_ends(found.overall))
    for scope, parts in (("family", found.families), ("rule", found.rules)):
        for kept in parts:
            ends = (end for one in (kept.before, kept.after, kept.score) for end in _ends(one))
            yield (scope, kept.name, found.measure, kept.cases, kept.trials, *ends)


def _ends(one: Estimate) -> tuple[float | None, ...]:
    return one.value, one.low, one.high


def write_groups(run: Run) -> None:
    """Write `tables/groups.csv`, all groups of findings; also called after shrinking, which fills the last column."""
    make_folder(run.folder / TABLES)
    write_csv(run.folder / TABLES / "groups.csv", GROUP, _group_rows(run))


def write_skipped(folder: Path, baseline: Iterable[Observation]) -> None:
    """Write `skipped.csv`: every unusable case and the reason."""
    make_folder(folder)
    write_csv(folder / SKIPPED, REASON, ((seen.case, seen.fault) for seen in baseline if seen.fault))


def _rule_rows(summary: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for name, rule in summary["rules"].items():
        untouched = rule["untouched"]
        yield (name, *(rule[count] for count in COUNTS), untouched["cases"], untouched["violated"])


def _finding_cells(row: Row) -> tuple[Any, ...]:
    cells = (row[name] for name in ("id", "rule", "case", "words", "margin", "origin", "why"))
    facts = json.dumps(row["facts"]) if row["facts"] else ""
    return (*cells, *(answer_cell(row[name]) for name in ("before", "after", "truth")), facts)


def _group_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    for group in overview_of(run).groups:
        kind, worst = group.symptom, group.exemplar
        way = f"{group.way[0]} of {group.way[1]}"
        counts = group.findings, group.cases, worst.margin
        yield (group.number, kind.rule, kind.family, kind.direction, way, *counts, worst.id, smallest_words(run, worst))


def answer_cell(values: list[dict[str, Any]]) -> float | str:
    """An encoded answer as one cell: the degrees of a single steering angle, anything else as JSON."""
    if len(values) == 1 and values[0]["slot"] == Steering.slot:
        return cast(float, values[0]["degrees"])
    return json.dumps(values) if values else ""
