"""The tables of a run as CSV files, derived from its journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from swerve.analysis.groups import groups, smallest_words
from swerve.analysis.set_checks import COLUMNS, set_checks
from swerve.core.campaign import Observation
from swerve.core.encode import encode
from swerve.core.relation import Status
from swerve.core.values import Steering
from swerve.store.artifacts import features_of
from swerve.store.files import make_folder, write_csv
from swerve.store.record_json import is_finding
from swerve.store.view import Run

SKIPPED = "skipped.csv"
TABLES = "tables"
FINDING = ("id", "rule", "case", "change", "margin", "introduced", "why", "before", "after", "truth")
ERROR = ("id", "case", "rule", "change", "kind", "why")
GROUP = ("group", "rule", "family", "direction", "way", "findings", "cases", "margin", "exemplar", "smallest")
COUNTS = ("trials", "held", "violated", "skipped", "errors", "introduced", "already_wrong")


def write_tables(run: Run, summary: dict[str, Any]) -> None:
    """Write `tables/rules.csv`, `findings.csv`, `errors.csv`, `groups.csv`, `baseline.csv` and `skipped.csv`.

    Where a rule is about sets of objects, also `checks.csv`.
    """
    folder = run.folder / TABLES
    make_folder(folder)
    write_csv(folder / "rules.csv", ("rule", *COUNTS, "untouched_cases", "untouched_violated"), _rule_rows(summary))
    write_csv(folder / "findings.csv", FINDING, _finding_rows(run))
    write_csv(folder / "errors.csv", ERROR, _error_rows(run))
    write_groups(run)
    if checks := set_checks(run):
        write_csv(folder / "checks.csv", COLUMNS, (check.cells for check in checks))
    write_csv(folder / "baseline.csv", ("case", "group", "said", "truth"), map(_baseline_row, run.untouched()))
    write_skipped(folder, run.untouched())


def write_groups(run: Run) -> None:
    """Write `tables/groups.csv`, all groups of findings; also called after shrinking, which fills the last column."""
    make_folder(run.folder / TABLES)
    write_csv(run.folder / TABLES / "groups.csv", GROUP, _group_rows(run))


def write_skipped(folder: Path, baseline: Iterable[Observation]) -> None:
    """Write `skipped.csv`: every unusable case and the reason."""
    make_folder(folder)
    write_csv(folder / SKIPPED, ("case", "reason"), ((seen.case, seen.fault) for seen in baseline if seen.fault))


def _rule_rows(summary: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for name, rule in summary["rules"].items():
        untouched = rule["untouched"]
        yield (name, *(rule[count] for count in COUNTS), untouched["cases"], untouched["violated"])


def _finding_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    for row in filter(is_finding, run.trials()):
        cells = (row[name] for name in ("id", "rule", "case", "words", "margin", "introduced", "why"))
        yield (*cells, *(answer_cell(row[name]) for name in ("before", "after", "truth")))


def _error_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    for row in run.trials():
        if row["status"] == Status.ERROR.value:
            yield tuple(row[name] for name in ("id", "case", "rule", "words", "error", "why"))


def _group_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    for group in groups(run, features_of(run)):
        kind, worst = group.symptom, group.exemplar
        way = f"{group.way[0]} of {group.way[1]}"
        counts = group.findings, group.cases, worst.margin
        yield (group.number, kind.rule, kind.family, kind.direction, way, *counts, worst.id, smallest_words(run, worst))


def _baseline_row(seen: Observation) -> tuple[Any, ...]:
    return seen.case, seen.group, answer_cell(encode(seen.said)), answer_cell(encode(seen.truth))


def answer_cell(values: list[dict[str, Any]]) -> float | str:
    """An encoded answer as one cell: the degrees of a single steering angle, anything else as JSON."""
    if len(values) == 1 and values[0]["slot"] == Steering.slot:
        return cast(float, values[0]["degrees"])
    return json.dumps(values) if values else ""
