"""Several reviewers of one run: how far they agree, where they do not, and what comes out."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from swerve.analysis.statistics import Estimate, fleiss_kappa, kappa
from swerve.review.marks import Mark, Said, read_marks
from swerve.review.queue import judged
from swerve.store.record_json import is_finding
from swerve.store.view import Run

T = TypeVar("T")
Votes = Mapping[str, Mark]  # by reviewer


@dataclass(frozen=True)
class ReviewAgreement:
    """How far some reviewers agree on the trials that all of them marked."""

    reviewers: tuple[str, ...]
    scale: str  # what was compared: the three marks of findings, or natural against unnatural (TG-24)
    agreed: int
    kappa: Estimate


@dataclass(frozen=True)
class Review:
    """Every mark of a run; `unknown` are marks of trials that the run does not have, as reviewer and id."""

    marks: Mapping[str, Said]
    trials: Mapping[str, Mapping[str, Any]]  # the rows of the findings and held trials that were marked
    unknown: tuple[tuple[str, str], ...]

    @cached_property
    def votes(self) -> dict[str, dict[str, Mark]]:
        """What each reviewer said of each marked trial that the run has, in the order of the journal."""
        return {trial: given for trial in self.trials if (given := _votes_on(self.marks, trial))}

    @property
    def votes_on_findings(self) -> dict[str, dict[str, Mark]]:
        """`votes` without those on trials that held."""
        return {trial: given for trial, given in self.votes.items() if is_finding(self.trials[trial])}


def read_review(run: Run) -> Review:
    """All marks of `run`, held against the trials it has."""
    marks = read_marks(run.folder)
    wanted = {trial for said in marks.values() for trial in said}
    found = {row["id"]: row for row in judged(run) if row["id"] in wanted} if wanted else {}
    unknown = ((name, trial) for name, said in marks.items() for trial in said if trial not in found)
    return Review(marks, found, tuple(unknown))


def _votes_on(marks: Mapping[str, Said], trial: str) -> dict[str, Mark]:
    given = ((name, said[trial].mark) for name, said in marks.items() if trial in said)
    return {name: mark for name, mark in given if mark is not None}


def verdicts(run: Run) -> dict[str, Mark]:
    """The resolved mark of each reviewed trial of `run`; unreviewed ones and open conflicts are not in it."""
    decided = ((trial, resolve(given)) for trial, given in read_review(run).votes.items())
    return {trial: mark for trial, mark in decided if mark is not None}


def resolve(votes: Mapping[str, T]) -> T | None:
    """The mark of more than half of the reviewers: with two who differ, a third decides (TG-24); None: open."""
    ranked = Counter(votes.values()).most_common(1)
    return ranked[0][0] if ranked and 2 * ranked[0][1] > len(votes) else None


def is_conflict(votes: Votes) -> bool:
    """Whether reviewers differ, resolved or not."""
    return len(set(votes.values())) > 1


def naturalness(mark: Mark) -> str:
    """`natural` or `unnatural`: who calls a finding true or false takes its input for natural."""
    return "unnatural" if mark is Mark.UNNATURAL else "natural"


SCALES: Mapping[str, Callable[[Mark], str]] = {"mark": str, "natural": naturalness}


def agreements(review: Review) -> list[ReviewAgreement]:
    """Cohen's kappa of each pair of reviewers and Fleiss' of all, on the marks and on natural against unnatural."""
    votes = {"mark": review.votes_on_findings, "natural": review.votes}
    return [_agreement(list(votes[scale].values()), group, scale) for scale in SCALES for group in _groups(votes[scale])]


def _groups(votes: Mapping[str, Votes]) -> list[tuple[str, ...]]:
    names = sorted({name for given in votes.values() for name in given})
    pairs: list[tuple[str, ...]] = list(itertools.combinations(names, 2))
    return [*pairs, tuple(names)] if len(names) > 2 else pairs


def _agreement(votes: Sequence[Votes], group: tuple[str, ...], scale: str) -> ReviewAgreement:
    shared = [given for given in votes if given.keys() >= set(group)]
    rated = [[SCALES[scale](given[name]) for name in group] for given in shared]
    agreed = sum(len(set(row)) == 1 for row in rated)
    if len(group) > 2:
        return ReviewAgreement(group, scale, agreed, fleiss_kappa(rated))
    return ReviewAgreement(group, scale, agreed, kappa([row[0] for row in rated], [row[1] for row in rated]))
