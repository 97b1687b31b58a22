"""Several reviewers of one run: how far they agree, where they do not, and what comes out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swerve.analysis.statistics import Estimate, fleiss_kappa, kappa
from swerve.review.marks import Mark, Said, read_marks
from swerve.rows import is_finding
from swerve.store import Run

Votes = Mapping[str, Mark]  # by reviewer


@dataclass(frozen=True)
class Agreement:
    """How far some reviewers agree on the findings that all of them marked."""

    reviewers: tuple[str, ...]
    scale: str  # what was compared: the three marks, or natural against unnatural (TG-24)
    agreed: int
    kappa: Estimate


@dataclass(frozen=True)
class Review:
    """Every mark of a run; `unknown` are marks of findings that the run does not have, as reviewer and finding."""

    marks: Mapping[str, Said]
    findings: Mapping[str, Mapping[str, Any]]  # the rows of the findings that were marked
    unknown: tuple[tuple[str, str], ...]

    @property
    def votes(self) -> dict[str, dict[str, Mark]]:
        """What each reviewer said of each marked finding, in the order of the journal."""
        return {finding: given for finding in self.findings if (given := votes_on(self.marks, finding))}


def read_review(run: Run) -> Review:
    """All marks of `run`, held against the findings it has."""
    marks = read_marks(run.folder)
    wanted = {finding for said in marks.values() for finding in said}
    found = {row["id"]: row for row in _findings(run, wanted)}
    unknown = ((name, finding) for name, said in marks.items() for finding in said if finding not in found)
    return Review(marks, found, tuple(unknown))


def _findings(run: Run, wanted: Collection[str]) -> Iterator[Mapping[str, Any]]:
    return (row for row in run.trials() if is_finding(row) and row["id"] in wanted) if wanted else iter(())


def verdicts(run: Run) -> dict[str, Mark]:
    """The resolved mark of each reviewed finding of `run`; unreviewed ones and open conflicts are not in it."""
    decided = ((finding, resolve(given)) for finding, given in read_review(run).votes.items())
    return {finding: mark for finding, mark in decided if mark is not None}


def votes_on(marks: Mapping[str, Said], finding: str) -> dict[str, Mark]:
    """What each reviewer marked `finding` as."""
    given = ((name, said[finding].mark) for name, said in marks.items() if finding in said)
    return {name: mark for name, mark in given if mark is not None}


def resolve(votes: Votes) -> Mark | None:
    """The mark of more than half of the reviewers: with two who differ, a third decides (TG-24); None: open."""
    ranked = Counter(votes.values()).most_common(1)
    return ranked[0][0] if ranked and 2 * ranked[0][1] > len(votes) else None


def is_conflict(votes: Votes) -> bool:
    """Whether reviewers differ, resolved or not."""
    return len(set(votes.values())) > 1


def agreements(marks: Mapping[str, Said]) -> list[Agreement]:
    """Cohen's kappa of each pair of reviewers and Fleiss' of all, on the marks and on natural against unnatural."""
    names = sorted(name for name, said in marks.items() if any(one.mark for one in said.values()))
    groups: list[tuple[str, ...]] = list(itertools.combinations(names, 2))
    if len(names) > 2:
        groups.append(tuple(names))
    return [_agreement(marks, group, scale) for group in groups for scale in SCALES]


SCALES: Mapping[str, Callable[[Mark], str]] = {
    "mark": str,
    "natural": lambda mark: "unnatural" if mark is Mark.UNNATURAL else "natural",
}


def _agreement(marks: Mapping[str, Said], group: Sequence[str], scale: str) -> Agreement:
    rated = [[SCALES[scale](mark) for mark in row] for row in _shared(marks, group)]
    agreed = sum(len(set(row)) == 1 for row in rated)
    if len(group) > 2:
        return Agreement(tuple(group), scale, agreed, fleiss_kappa(rated))
    return Agreement(tuple(group), scale, agreed, kappa([row[0] for row in rated], [row[1] for row in rated]))


def _shared(marks: Mapping[str, Said], group: Sequence[str]) -> Iterator[list[Mark]]:
    """The marks of `group` on every finding that all of them marked."""
    for finding in marks[group[0]]:
        votes = votes_on({name: marks[name] for name in group}, finding)
        if len(votes) == len(group):
            yield list(votes.values())
