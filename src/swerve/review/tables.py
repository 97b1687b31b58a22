"""`tables/review.csv` and `tables/conflicts.csv`: what reviewers made of the findings (DeepTest Table 8, TigAug Fig. 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swerve.analysis.statistics import wilson
from swerve.analysis.tables import TABLES
from swerve.files import make_folder, write_csv
from swerve.review.agreement import Review, is_conflict, resolve
from swerve.review.marks import Mark
from swerve.rows import is_finding
from swerve.store import Run

RULE, TRANSFORMATION, ALL = "rule", "transformation", "all"
COLUMNS = (
    *("by", "name", "findings", "reviewed", "true_positive", "false_positive", "unnatural", "conflicts"),
    *("false_share", "false_low", "false_high", "unnatural_share", "unnatural_low", "unnatural_high"),
)
CONFLICTS = ("finding", "rule", "case", "change", "marks", "resolved")


@dataclass
class Line:
    """The reviewed findings of one rule, one transformation or all: reviewed = the three marks + open conflicts."""

    by: str
    name: str
    findings: int = 0
    marks: Counter[Mark | None] = field(default_factory=Counter)  # None: an open conflict

    @property
    def reviewed(self) -> int:
        """The findings that anybody marked."""
        return self.marks.total()

    @property
    def resolved(self) -> int:
        """The findings whose mark is settled."""
        return self.reviewed - self.marks[None]

    def share(self, mark: Mark) -> tuple[float, float, float] | None:
        """The share of `mark` among the settled findings, and its 95% Wilson interval; None without any."""
        if not self.resolved:
            return None
        return self.marks[mark] / self.resolved, *wilson(self.marks[mark], self.resolved)


def review_lines(run: Run, review: Review) -> list[Line]:
    """A line for each rule of the campaign, each transformation that failed and all."""
    lines = {(RULE, rule["name"]): Line(RULE, rule["name"]) for rule in run.identity["campaign"].get("rule", ())}
    votes, seen = review.votes, set[str]()
    for row in filter(is_finding, run.trials()):
        if row["id"] in seen:
            continue
        seen.add(row["id"])
        for key in ((RULE, row["rule"]), (TRANSFORMATION, change_name(row["change"])), (ALL, ALL)):
            line = lines.setdefault(key, Line(*key))
            line.findings += 1
            if row["id"] in votes:
                line.marks[resolve(votes[row["id"]])] += 1
    return sorted(lines.values(), key=lambda line: (RULE, TRANSFORMATION, ALL).index(line.by))


def change_name(change: object) -> str:
    """A described change by its names alone: `rain`, or `rotate + fog` for one after the other."""
    if not isinstance(change, Mapping):
        return "?"
    parts = [part for item in change.values() if isinstance(item, list) for part in item if isinstance(part, Mapping)]
    names = [change_name(part) for part in parts if "use" in part]
    return " + ".join(names) if names else str(change.get("use", "?"))


def write_review_tables(run: Run, review: Review) -> list[Line]:
    """Write both tables and return the lines of the first."""
    folder = run.folder / TABLES
    make_folder(folder)
    lines = review_lines(run, review)
    write_csv(folder / "review.csv", COLUMNS, map(_cells, lines))
    write_csv(folder / "conflicts.csv", CONFLICTS, _conflicts(review))
    return lines


def _cells(line: Line) -> Sequence[Any]:
    counts = (line.marks[mark] for mark in (Mark.TRUE, Mark.FALSE, Mark.UNNATURAL, None))
    shares = (line.share(mark) or (None, None, None) for mark in (Mark.FALSE, Mark.UNNATURAL))
    numbers = (None if cell is None else round(cell, 6) for share in shares for cell in share)
    return line.by, line.name, line.findings, line.reviewed, *counts, *numbers


def _conflicts(review: Review) -> Iterator[Sequence[Any]]:
    for finding, votes in review.votes.items():
        if is_conflict(votes):
            row = review.findings[finding]
            marks = "; ".join(f"{name}: {mark}" for name, mark in votes.items())
            yield finding, row["rule"], row["case"], row["words"], marks, resolve(votes) or "open"
