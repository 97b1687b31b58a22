"""RQ4, violation by violation: how many are false according to reviewers, and the worst of each change in pictures."""
# DT-35, DT-37, X-8

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from swerve.analysis.growth import kept
from swerve.analysis.tables import TABLES
from swerve.core.origin import Origin
from swerve.core.values import Array
from swerve.experiments import Counted, Row, pictures, question, rated, table
from swerve.experiments.deeptest.subject_runs import PAPER, DeepTestRuns, DeepTests, judged
from swerve.experiments.deeptest.violations import ALL, EPSILON, FACTOR, TOTAL, fit_changes, paper_count
from swerve.methods.deeptest import WEATHER
from swerve.report.answer_pictures import before_after
from swerve.review.agreement import verdicts
from swerve.review.marks import Mark
from swerve.sources.writing import slug
from swerve.store.files import make_folder, write_whole
from swerve.store.record_json import record_of
from swerve.store.view import Run

Trial = Mapping[str, Any]  # a row of the journal
FOUND = "violations"
LIMITS = f"λ = {FACTOR}, ε = {EPSILON:g}"


@table("review", "False positives")
def review(results: DeepTests) -> Iterator[Row]:
    """violations at {LIMITS}, and how reviewers marked them. The command opens the findings of its row for review; then run
    the experiment again, which reads the marks from the run folders. In the paper 130 of 6,339, 2.05%, are false"""
    every: dict[str, Counter[str]] = {}
    for one in judged(results):
        total = Counter[str]()
        for name, run, rows in _violations(one):
            ids = {row["id"] for row in rows}
            counts = Counter(mark for finding, mark in verdicts(run).items() if finding in ids) + Counter({FOUND: len(ids)})
            total += counts
            every[name] = every.get(name, Counter()) + counts
            yield _row(one.name, name, counts, _command(one, name, ids, run))
        yield _row(one.name, "all", total, None, one.subject.like)
    for name, counts in every.items():
        yield _row(ALL, name, counts, None, ALL)


def _row(model: str, name: str, counts: Counter[str], where: str | None, like: str = "") -> Row:
    marked = sum(counts[mark] for mark in Mark)
    cells = {"true": counts[Mark.TRUE], "false": counts[Mark.FALSE], "unnatural": counts[Mark.UNNATURAL]}
    share = rated(counts[Mark.FALSE], marked, ("false share", "low", "high"))
    first = {"model": model, "changes": name, FOUND: counts[FOUND], "marked": marked, **cells, **share}
    false = PAPER["review"].values.get((like, name), {}).get("false")
    of = paper_count(TOTAL if name == "all" else name, "" if like == ALL else like)
    return {**first, "to mark": where, "printed false": Counted(false, of.count, printed=True) if false and of else None}


def _command(one: DeepTestRuns, name: str, ids: Collection[str], run: Run) -> str | None:
    """The command that opens the violations of a row, whose ids are written to a file; None if there are none."""
    file = one.setting.into / TABLES / f"review-{slug(one.name)}-{name}.txt"
    make_folder(file.parent)
    write_whole(file, "".join(f"{finding}\n" for finding in sorted(ids)).encode())
    return shlex.join(["swerve", "review", str(run.folder), "--only", str(file)]) if ids else None


def _violations(one: DeepTestRuns) -> Iterator[tuple[str, Run, list[Trial]]]:
    """The violations that count, by run: simple changes must pass Eq. 3, and of a search only what it kept counts."""
    fit, weather = fit_changes(one), one.runs[WEATHER]
    yield "simple", one.simple, _violated(row for row in one.simple.trials() if (row["rule"], row["words"]) in fit)
    for name in ("fog", "rain"):
        yield name, weather, _violated(row for row in weather.trials() if row["rule"] == name)
    if one.guided:
        yield "guided", one.guided, _violated(kept(one.guided))


def _violated(rows: Iterable[Trial]) -> list[Trial]:
    return [row for row in rows if row["status"] == "violated"]


@question("RQ4: how many of the violations are false?", review)
def false_positives(results: DeepTests) -> str:
    """Only people can tell whether a changed image still asks for the same angle."""
    marked = sum(row["marked"] for row in review.rows(results) if row["changes"] == "all")
    return f"{marked:,} violations have been marked so far" if marked else "no violation has been marked yet"


EACH = 6  # examples of a system
HELD_BEFORE = (Origin.INTRODUCED, Origin.MARGINAL)


@pictures(of=judged, across=2)
def _pictures(one: DeepTestRuns) -> Iterator[tuple[str, Array]]:
    """The worst introduced violations, at most one of each rule."""
    every = ((row, run) for _, run, rows in _violations(one) for row in rows if row["origin"] in HELD_BEFORE)
    best: dict[str, tuple[Trial, Run]] = {}
    for row, run in sorted(every, key=lambda pair: -pair[0]["margin"]):
        best.setdefault(row["rule"], (row, run))
    for row, run in islice(best.values(), EACH):
        yield f"{row['rule']}: {row['words']}. {row['why']}", _picture(one, run, row)


def _picture(one: DeepTestRuns, run: Run, row: Trial) -> Array:
    record, case = record_of(dict(row), run.builder()), one.subject.source[row["case"]]
    assert record.change
    return before_after(case, record.change(case), record)


@question("Examples of violations", _pictures)
def examples(results: DeepTests) -> str:
    """Left: the image; right: its follow-up. Blue: the answer to the image; red: to the follow-up; green: the label. Each is
    the worst violation that a change introduced: the answer to the untouched image was within the limit."""
    del results
    return LIMITS.replace(", ε", ", simple changes with ε")
