"""The tables of a run, as CSV files that follow from its journal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swerve.campaign import Observation
from swerve.codec import encode
from swerve.files import write_csv
from swerve.store import Run
from swerve.system import Answer
from swerve.values import Steering

TABLES = "tables"
FINDING = ("id", "rule", "case", "change", "margin", "introduced", "why", "before", "after", "truth")
COUNTS = ("trials", "held", "violated", "skipped", "errors", "introduced", "already_wrong")


def write_tables(run: Run, summary: dict[str, Any]) -> None:
    """Write `tables/rules.csv`, `findings.csv`, `baseline.csv` and `skipped.csv`."""
    folder = run.folder / TABLES
    folder.mkdir(exist_ok=True)
    write_csv(folder / "rules.csv", ("rule", *COUNTS, "untouched_cases", "untouched_violated"), _rule_rows(summary))
    write_csv(folder / "findings.csv", FINDING, _finding_rows(run))
    baseline = run.baseline()
    write_csv(folder / "baseline.csv", ("case", "group", "said", "truth"), (_seen_row(seen) for seen in baseline))
    write_skipped(folder, baseline)


def write_skipped(folder: Path, baseline: list[Observation]) -> None:
    """Write `skipped.csv`: every case that could not be used, and why."""
    folder.mkdir(exist_ok=True)
    write_csv(folder / "skipped.csv", ("case", "reason"), ((seen.case, seen.fault) for seen in baseline if seen.fault))


def _rule_rows(summary: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for name, rule in summary["rules"].items():
        untouched = rule["untouched"]
        yield (name, *(rule[count] for count in COUNTS), untouched["cases"], untouched["violated"])


def _finding_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    for item in run.findings():
        answers = (answer_cell(item.before), answer_cell(item.after), answer_cell(item.truth))
        yield (item.id, item.rule, item.case, item.words, item.margin, item.introduced, item.why, *answers)


def _seen_row(seen: Observation) -> tuple[Any, ...]:
    return seen.case, seen.group, answer_cell(seen.said), answer_cell(seen.truth)


def answer_cell(answer: Answer) -> float | str:
    """What a system said as one cell: the degrees of a lone steering angle, anything else as JSON."""
    if len(answer) == 1 and isinstance(answer[0], Steering):
        return answer[0].degrees
    return json.dumps(encode(answer)) if answer else ""
