"""The trials to review and their order, the same for every reviewer."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from swerve.core.errors import EnvironmentFault, InputError
from swerve.core.relation import Status
from swerve.core.seeding import digest_of
from swerve.store.journal import Row
from swerve.store.record_json import Finding, finding_of, is_finding
from swerve.store.view import LISTED_PER_RULE, Run, best_of


def queue(
    run: Run, sample: int | None = None, *, seed: int = 0, held: bool = False, only: Collection[str] | None = None
) -> list[Finding]:
    """A random sample of the findings; without `sample`, those with the largest margins of each rule, largest first.

    With `held`, the sample is of all judged trials, including those that held, so that its share of unnatural ones
    estimates the run's. A larger sample of the same seed starts with the smaller one. `only` restricts the review to
    these ids, all of them whatever their margin.
    """
    # TG-24
    rows = (row for row in judged(run, held=held and sample is not None) if only is None or row["id"] in only)
    if sample is None:
        return [finding_of(row) for row in best_of(rows, LISTED_PER_RULE if only is None else len(only))]
    return [finding_of(row) for row in heapq.nsmallest(sample, rows, key=lambda row: _place(seed, row))]


def chosen(run: Run, file: Path, *, held: bool = False) -> set[str]:
    """The ids in a text file, one per line; each must be a finding of `run`, or with `held` a judged trial."""
    ids = list(dict.fromkeys(line for text in _read(file).splitlines() if (line := text.strip())))
    if not ids:
        raise InputError(f"{file}: contains no ids; write the ids of findings into it, one per line")
    known = {row["id"] for row in judged(run, held=held)}
    if unknown := [one for one in ids if one not in known]:
        what = "judged trials" if held else "findings"
        raise InputError(
            f"{file}: {len(unknown)} of its {len(ids)} ids are not {what} of {run.folder}, such as '{unknown[0]}'; remove "
            "them, or review the run they belong to"
        )
    return set(ids)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except OSError as error:
        raise EnvironmentFault(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text; it must contain ids of findings, one per line") from None


def judged(run: Run, *, held: bool = True) -> Iterator[dict[str, Any]]:
    """The rows of all findings and of trials that held, without repetitions: a search may draw the same change twice."""
    seen: set[str] = set()
    for row in run.trials():
        wanted = is_finding(row) or (held and row["status"] == Status.HELD)
        if wanted and row["id"] not in seen:
            seen.add(row["id"])
            yield row


def is_held(finding: Finding) -> bool:
    """Whether this trial held: only then does its row lack the follow-up's hash."""
    return not finding.input_sha


def _place(seed: int, row: Row) -> str:
    return digest_of("review", seed, row["id"])
