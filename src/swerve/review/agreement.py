"""Several reviewers of one run: their agreement, their conflicts, and the resolved marks."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from swerve.analysis.statistics import Estimate, fleiss_kappa, kappa
from swerve.review.marks import Judgements, Mark, read_marks
from swerve.review.queue import judged
from swerve.store.record_json import is_finding
from swerve.store.view import Run

T = TypeVar("T")
Votes = Mapping[str, Mark]  # by reviewer


@dataclass(frozen=True)
class ReviewAgreement:
    """The agreement of some reviewers on the trials that all of them marked."""

    reviewers: tuple[str, ...]
    scale: str  # `mark`, the three marks of findings, or `natural` against unnatural (TG-24)
    agreed: int
    kappa: Estimate


@dataclass(frozen=True)
class Review:
    """Every mark of a run; `unknown` are the marks of trials that the run does not have, as reviewer and id."""

    marks: Mapping[str, Judgements]
    trials: Mapping[str, Mapping[str, Any]]  # the rows of the findings and held trials that were marked
    unknown: tuple[tuple[str, str], ...]

    @cached_property
    def votes(self) -> dict[str, dict[str, Mark]]:
        """The marks of each trial of the run by reviewer, in the order of the journal."""
        return {trial: given for trial in self.trials if (given := _votes_on(self.marks, trial))}

    @property
    def votes_on_findings(self) -> dict[str, dict[str, Mark]]:
        """`votes` without those on trials that held."""
        return {trial: given for trial, given in self.votes.items() if is_finding(self.trials[trial])}


def read_review(run: Run) -> Review:
    """All marks of `run`, with the trials they are about."""
    marks = read_marks(run.folder)
    wanted = {trial for judgements in marks.values() for trial in judgements}
    found = {row["id"]: row for row in judged(run) if row["id"] in wanted} if wanted else {}
    unknown = ((name, trial) for name, judgements in marks.items() for trial in judgements if trial not in found)
    return Review(marks, found, tuple(unknown))


def _votes_on(marks: Mapping[str, Judgements], trial: str) -> dict[str, Mark]:
    given = ((name, judgements[trial].mark) for name, judgements in marks.items() if trial in judgements)
    return {name: mark for name, mark in given if mark is not None}


def verdicts(run: Run) -> dict[str, Mark]:
    """The resolved mark of each reviewed trial of `run`, without open conflicts."""
    decided = ((trial, resolve(given)) for trial, given in read_review(run).votes.items())
    return {trial: mark for trial, mark in decided if mark is not None}


def resolve(votes: Mapping[str, T]) -> T | None:
    """The mark of more than half of the reviewers; None, an open conflict, if there is none."""  # TG-24
    ranked = Counter(votes.values()).most_common(1)
    return ranked[0][0] if ranked and 2 * ranked[0][1] > len(votes) else None


def is_conflict(votes: Votes) -> bool:
    """Whether reviewers disagree, even if a majority resolves it."""
    return len(set(votes.values())) > 1


def naturalness(mark: Mark) -> str:
    """`natural` or `unnatural`: true and false positives imply a natural input."""
    return "unnatural" if mark is Mark.UNNATURAL else "natural"


SCALES: Mapping[str, Callable[[Mark], str]] = {"mark": str, "natural": naturalness}


def agreements(review: Review) -> list[ReviewAgreement]:
    """Cohen's kappa of each pair of reviewers and Fleiss' kappa of all, for both scales."""
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
