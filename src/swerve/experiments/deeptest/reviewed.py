"""RQ4, last step: how many of the violations are false positives according to reviewers?"""
# DT-35, DT-37

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from swerve.analysis.growth import kept
from swerve.analysis.statistics import wilson
from swerve.analysis.tables import TABLES
from swerve.experiments.deeptest.paper_values import FALSE_BY_CHANGE, FALSE_POSITIVES
from swerve.experiments.deeptest.subject_runs import DeepTestRuns
from swerve.experiments.deeptest.violations import ALL, EPSILON, FACTOR
from swerve.experiments.setting import Setting
from swerve.report.cells import Row
from swerve.report.experiment_page import Section, TablePanel
from swerve.review.agreement import verdicts
from swerve.review.marks import Mark
from swerve.sources.writing import slug
from swerve.store.files import make_folder, write_whole
from swerve.store.view import Run

COLUMNS = (
    *("model", "changes", "violations", "marked", "true", "false", "unnatural", "false share", "low", "high"),
    *("to mark", "printed false"),
)
NOTE = (
    f"violations at λ = {FACTOR}, ε = {EPSILON:g}, and how reviewers marked them. The command opens the findings of its row "
    "for review; then run the experiment again, which reads the marks from the run folders. In the paper 130 of 6,339, "
    "2.05%, are false"
)


def section(setting: Setting, all_tested: Sequence[DeepTestRuns]) -> Section:
    """The marks so far, with the share of false positives and its interval."""
    judged = [tested for tested in all_tested if tested.oracle]
    rows = (*(row for tested in judged for row in _rows(setting, tested)), *_totals(judged))
    csv = setting.table("review", COLUMNS, rows)
    formats = {"false share": ".1%", "low": ".1%", "high": ".1%"}
    marked = sum(number for row in rows if row[1] == "all" and row[0] != ALL and isinstance(number := row[3], int))
    answer = f"{marked:,} violations have been marked so far" if marked else "no violation has been marked yet"
    sheet = TablePanel("False positives", COLUMNS, rows, NOTE, printed=COLUMNS[-1:], csv=csv, formats=formats)
    return Section("RQ4: how many of the violations are false?", parts=(sheet,), answer=answer)


def _rows(setting: Setting, tested: DeepTestRuns) -> Iterator[Row]:
    total: Counter[Mark] = Counter()
    found = 0
    for name, ids, run in _violations(tested):
        marks = verdicts(run)
        counts = Counter(mark for finding, mark in marks.items() if finding in ids)
        total, found = total + counts, found + len(ids)
        yield _row(tested.name, name, len(ids), counts, _command(setting, tested.name, name, ids, run), None)
    yield _row(tested.name, "all", found, total, None, FALSE_POSITIVES.get(tested.subject.like))


def _command(setting: Setting, model: str, name: str, ids: Collection[str], run: Run) -> str | None:
    """The command that opens the violations of a row, whose ids are written to a file; None if there are none."""
    file = setting.into / TABLES / f"review-{slug(model)}-{name}.txt"
    make_folder(file.parent)
    write_whole(file, "".join(f"{one}\n" for one in sorted(ids)).encode())
    return shlex.join(["swerve", "review", str(run.folder), "--only", str(file)]) if ids else None


def _totals(judged: Sequence[DeepTestRuns]) -> Iterator[Row]:
    """Each kind of change over all models, beside the paper's number."""
    found: dict[str, list[tuple[int, Counter[Mark]]]] = {}
    for tested in judged:
        for name, ids, run in _violations(tested):
            counts = Counter(mark for finding, mark in verdicts(run).items() if finding in ids)
            found.setdefault(name, []).append((len(ids), counts))
    for name, parts in found.items():
        marks = sum((counts for _, counts in parts), Counter[Mark]())
        yield _row(ALL, name, sum(count for count, _ in parts), marks, None, FALSE_BY_CHANGE.get(name))


def _row(model: str, name: str, found: int, counts: Counter[Mark], where: str | None, printed: int | None) -> Row:
    marked, false = counts.total(), counts[Mark.FALSE]
    share: Row = (false / marked, *wilson(false, marked)) if marked else (None, None, None)
    return (model, name, found, marked, counts[Mark.TRUE], false, counts[Mark.UNNATURAL], *share, where, printed)


def _violations(tested: DeepTestRuns) -> Iterator[tuple[str, set[str], Run]]:
    """The ids of the violations that count, by run."""
    oracle = tested.oracle
    assert oracle
    passes = oracle.kept(tested.angles, EPSILON)
    admitted = {change for change, passed in zip(tested.angles.changes, passes, strict=True) if passed}
    simple = (row for row in tested.simple.trials() if (row["rule"], row["words"]) in admitted)
    yield "simple", _ids(simple), tested.simple
    for name in ("fog", "rain"):
        yield name, _ids(row for row in tested.weather.trials() if row["rule"] == name), tested.weather
    if tested.guidance:
        yield "guided", _ids(kept(tested.guidance.guided[0])), tested.guidance.guided[0]


def _ids(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    return {row["id"] for row in rows if row["status"] == "violated"}
