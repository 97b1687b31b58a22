"""`tables/review.csv` and `tables/conflicts.csv`: the reviewers' results, as in DeepTest's Table 8 and TigAug's Fig. 8."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from swerve.analysis.statistics import wilson
from swerve.analysis.tables import TABLES
from swerve.review.agreement import Review, Votes, is_conflict, naturalness, resolve
from swerve.review.marks import OF_FINDINGS, Mark
from swerve.review.queue import judged
from swerve.store.files import make_folder, write_csv
from swerve.store.record_json import is_finding
from swerve.store.view import Run

T = TypeVar("T")
Share = tuple[float, float, float]  # with its 95% interval
RULE, TRANSFORMATION, ALL = "rule", "transformation", "all"
COLUMNS = (
    *("by", "name", "findings", "reviewed", "true_positive", "false_positive", "unnatural", "conflicts"),
    *("false_share", "false_low", "false_high", "unnatural_share", "unnatural_low", "unnatural_high"),
    *("held", "held_reviewed", "held_natural", "held_unnatural"),
    *("all_unnatural_share", "all_unnatural_low", "all_unnatural_high"),
)
CONFLICTS = ("finding", "rule", "case", "change", "marks", "resolved")


@dataclass
class MarkTally:
    """The marks of some trials: reviewed = those of each mark + open conflicts (None)."""

    trials: int = 0
    marks: Counter[Mark | None] = field(default_factory=Counter)
    natural: Counter[str | None] = field(default_factory=Counter)  # by a majority of its own: true against false is natural

    def add(self, votes: Votes) -> None:
        """Count one trial, reviewed if it has votes."""
        self.trials += 1
        if votes:
            self.marks[resolve(votes)] += 1
            self.natural[resolve({name: naturalness(mark) for name, mark in votes.items()})] += 1

    @property
    def reviewed(self) -> int:
        """The trials with a mark."""
        return self.marks.total()

    @property
    def false(self) -> Share | None:
        """The share of false positives among the trials with a resolved mark."""
        return _share(self.marks, Mark.FALSE)

    @property
    def unnatural(self) -> Share | None:
        """The share of unnatural trials among those resolved as natural or unnatural."""
        return _share(self.natural, naturalness(Mark.UNNATURAL))


def _share(counts: Counter[T | None], label: T) -> Share | None:
    resolved = counts.total() - counts[None]
    return (counts[label] / resolved, *wilson(counts[label], resolved)) if resolved else None


@dataclass
class ReviewCounts:
    """The reviewed trials of one rule, one transformation or all."""

    by: str
    name: str
    findings: MarkTally = field(default_factory=MarkTally)
    held: MarkTally = field(default_factory=MarkTally)

    @property
    def unnatural(self) -> Share | None:
        """The share of unnatural trials among all judged ones; None until a trial that held is resolved."""
        if self.held.trials and not self.held.unnatural:
            return None
        return _weighted([(tally.trials, tally.unnatural) for tally in (self.findings, self.held) if tally.unnatural])


def _weighted(shares: Sequence[tuple[int, Share]]) -> Share | None:
    """The share over several groups of known size, whatever number of each was reviewed.

    The interval is that of Zou, Huang and Zhang (2009) for a sum of proportions.
    """
    total = sum(size for size, _ in shares)
    if not total:
        return None
    share = sum(size * middle for size, (middle, _, _) in shares) / total
    below = math.hypot(*(size * (middle - low) for size, (middle, low, _) in shares)) / total
    above = math.hypot(*(size * (high - middle) for size, (middle, _, high) in shares)) / total
    return share, max(share - below, 0.0), min(share + above, 1.0)


def review_lines(run: Run, review: Review) -> list[ReviewCounts]:
    """A line for each rule of the campaign, each transformation with judged trials, and all."""
    lines = {(RULE, rule["name"]): ReviewCounts(RULE, rule["name"]) for rule in run.identity["campaign"].get("rule", ())}
    for row in judged(run):
        for key in ((RULE, row["rule"]), (TRANSFORMATION, change_name(row["change"])), (ALL, ALL)):
            line = lines.setdefault(key, ReviewCounts(*key))
            (line.findings if is_finding(row) else line.held).add(review.votes.get(row["id"], {}))
    return sorted(lines.values(), key=lambda line: (RULE, TRANSFORMATION, ALL).index(line.by))


def change_name(change: object) -> str:
    """The names in an encoded change: `rain`, or `rotate + fog` for a chain."""
    if not isinstance(change, Mapping):
        return "?"
    parts = [part for item in change.values() if isinstance(item, list) for part in item if isinstance(part, Mapping)]
    names = [change_name(part) for part in parts if "use" in part]
    return " + ".join(names) if names else str(change.get("use", "?"))


def write_review_tables(run: Run, review: Review) -> list[ReviewCounts]:
    """Write both tables and return the lines of the first."""
    folder = run.folder / TABLES
    make_folder(folder)
    lines = review_lines(run, review)
    write_csv(folder / "review.csv", COLUMNS, map(_cells, lines))
    write_csv(folder / "conflicts.csv", CONFLICTS, _conflicts(review))
    return lines


def _cells(line: ReviewCounts) -> Sequence[Any]:
    findings, held = line.findings, line.held
    counts = (findings.marks[mark] for mark in (*OF_FINDINGS, None))
    alone = (held.trials, held.reviewed, held.marks[Mark.NATURAL], held.marks[Mark.UNNATURAL])
    shares = (*_edges(findings.false), *_edges(findings.unnatural))
    return line.by, line.name, findings.trials, findings.reviewed, *counts, *shares, *alone, *_edges(line.unnatural)


def _edges(share: Share | None) -> Sequence[float | None]:
    return [round(edge, 6) for edge in share] if share else [None] * 3


def _conflicts(review: Review) -> Iterator[Sequence[Any]]:
    for finding, votes in review.votes.items():
        if is_conflict(votes):
            row = review.trials[finding]
            marks = "; ".join(f"{name}: {mark}" for name, mark in votes.items())
            yield finding, row["rule"], row["case"], row["words"], marks, resolve(votes) or "open"
