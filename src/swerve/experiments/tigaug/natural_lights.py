"""RQ4: how many follow-ups look unnatural, by the filters and by reviewers."""

# TG-24, TG-27

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from swerve.analysis.tables import TABLES
from swerve.core.relation import Status
from swerve.experiments import Counted, Row, question, table
from swerve.experiments.tigaug.light_campaigns import CHANGES, REFUSED
from swerve.experiments.tigaug.light_robustness import ALL_TWELVE, PAPER, tested
from swerve.experiments.tigaug.light_runs import LightResults, LightRuns
from swerve.methods.tigaug import CONTROL, rule_name
from swerve.review.agreement import agreements, naturalness, read_review, resolve
from swerve.sources.writing import slug
from swerve.store.files import make_folder, write_whole
from swerve.store.view import Run

JUDGED = (Status.HELD.value, Status.VIOLATED.value)
UNNATURAL, REVIEWED, BY_REVIEWERS = "unnatural by filters", "reviewed", "unnatural by reviewers"


def _first_on(results: LightResults) -> list[LightRuns]:
    """A subject for each set of pictures: their follow-ups are the same for every detector."""
    first: dict[str, LightRuns] = {}
    for one in results:
        first.setdefault(one.streets, one)
    return list(first.values())


@table("rq4", "Unnatural follow-ups", printed=PAPER["rq4"])
def rq4(results: LightResults) -> Iterator[Row]:
    """filters: a light that cannot be seen any more, or a box much larger than its light; flares are never applied by night.
    reviewers: follow-ups that more than half of the reviewers marked, of those with a majority. In the paper two reviewers
    and a third for conflicts marked all. skipped: pictures that a change cannot be applied to, and the first reason"""
    for one in _first_on(results):
        counts = {change: _counts(one, change) for change in tested(one)}
        total = sum((counts[change] for change in one.setting.size.changes), Counter[str]())
        whys = {change: one.skipped(CHANGES, change) for change in counts}
        for change, found in counts.items():
            why = whys[change].most_common(1)
            yield {**_row(one, change, found), "skipped": whys[change].total(), "why": why[0][0] if why else ""}
        yield {**_row(one, ALL_TWELVE, total), "skipped": None, "why": ""}


def _row(one: LightRuns, change: str, found: Counter[str]) -> Row:
    first = {"streets": one.streets, "change": change, "follow-ups": found["judged"]}
    reviewed = Counted(found[BY_REVIEWERS], found[REVIEWED]) if found[REVIEWED] else None
    return {
        **first,
        UNNATURAL: Counted(found[UNNATURAL], found["judged"]),
        REVIEWED: found[REVIEWED],
        BY_REVIEWERS: reviewed,
    }


def _counts(one: LightRuns, change: str) -> Counter[str]:
    run = one.runs[CHANGES]
    votes = one.once(_votes)
    found: Counter[str] = Counter()
    for row in run.trials():
        if row["rule"] == rule_name(change) and row["status"] in JUDGED:
            mark = votes.get(row["id"])
            found["judged"] += 1
            found[UNNATURAL] += bool(row["facts"].get(REFUSED))
            found[REVIEWED] += mark is not None
            found[BY_REVIEWERS] += mark == "unnatural"
    return found


def _votes(one: LightRuns) -> dict[str, str]:
    """What most reviewers say of the naturalness of each follow-up."""
    votes = read_review(one.runs[CHANGES]).votes
    scaled = {trial: {name: naturalness(mark) for name, mark in given.items()} for trial, given in votes.items()}
    return {trial: mark for trial, given in scaled.items() if (mark := resolve(given)) is not None}


@table("rq4_reviewers", "Agreement of reviewers")
def reviewers(results: LightResults) -> Iterator[Row]:
    """Cohen's κ of two reviewers, Fleiss' κ of more, on natural or unnatural; in the paper 0.845 after three more rounds.
    The command opens the follow-ups for one reviewer; then run the experiment again, which reads the marks"""
    for one in _first_on(results):
        run = one.runs[CHANGES]
        found = [each for each in agreements(read_review(run)) if each.scale == "natural"]
        for each in found:
            cells = {"follow-ups": each.kappa.n, "agreed": each.agreed, "κ": each.kappa.value}
            yield {"streets": one.streets, "reviewers": ", ".join(each.reviewers), **cells, "to mark": None}
        if not found:
            yield {"streets": one.streets, "reviewers": None, "to mark": _command(one, run)}


def _command(one: LightRuns, run: Run) -> str:
    """The command that opens all judged follow-ups but those of the control, whose ids are written to a file."""
    ids = [row["id"] for row in run.trials() if row["status"] in JUDGED and row["rule"] != rule_name(CONTROL)]
    file = one.setting.into / TABLES / f"review-{slug(one.name)}.txt"
    make_folder(file.parent, parents=True)
    write_whole(file, "".join(f"{finding}\n" for finding in sorted(ids)).encode())
    return shlex.join(["swerve", "review", str(run.folder), "--only", str(file)])


@question("RQ4: how natural are the follow-ups?", rq4, reviewers)
def how_natural(results: LightResults) -> str:
    """Filters stand for what reviewers of the paper named; people can mark the same pictures."""
    rows = [row for row in rq4.rows(results) if row["change"] == ALL_TWELVE]
    parts = [
        f"{'streets ' * bool(row['streets'])}{row['streets'] or 'pictures'}: {row[UNNATURAL]:,} of {row['follow-ups']:,} "
        f"by filters, {row[REVIEWED]:,} reviewed"
        for row in rows
    ]
    return "; ".join(parts)
