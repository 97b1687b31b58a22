"""Which trials are reviewed, in which order: the same for every reviewer."""

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
from swerve.store.view import KEPT_PER_RULE, Run, best_of


def queue(
    run: Run, sample: int | None = None, *, seed: int = 0, held: bool = False, only: Collection[str] | None = None
) -> list[Finding]:
    """`sample` findings drawn at random from all; without a number the kept ones of each rule, largest margin first.

    With `held`, the sample is of all judged trials, held ones too, so that their share of unnatural ones is the run's
    (TG-24). A larger sample of the same seed starts with the smaller one, so a pilot is the head of the whole.
    With `only`, ids, all others are as if the run had not found them, and none of these is left out for its margin.
    """
    rows = (row for row in judged(run, held=held and sample is not None) if only is None or row["id"] in only)
    if sample is None:
        return [finding_of(row) for row in best_of(rows, KEPT_PER_RULE if only is None else len(only))]
    return [finding_of(row) for row in heapq.nsmallest(sample, rows, key=lambda row: _place(seed, row))]


def chosen(run: Run, file: Path, *, held: bool = False) -> set[str]:
    """The ids that a text file names, one a line; every one must be a finding of `run`, or with `held` a judged trial."""
    ids = list(dict.fromkeys(line for text in _read(file).splitlines() if (line := text.strip())))
    if not ids:
        raise InputError(f"{file}: names no finding; write their ids into it, one a line")
    known = {row["id"] for row in judged(run, held=held)}
    if unknown := [one for one in ids if one not in known]:
        what = "judged trials" if held else "findings"
        raise InputError(
            f"{file}: {len(unknown)} of its {len(ids)} ids are no {what} of {run.folder}, such as '{unknown[0]}'; take them "
            "out, or open the run they are of"
        )
    return set(ids)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except OSError as error:
        raise EnvironmentFault(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text; write ids of findings into it, one a line") from None


def judged(run: Run, *, held: bool = True) -> Iterator[dict[str, Any]]:
    """The row of every finding, and of every trial that held, each once: a search may have drawn the same change twice."""
    seen: set[str] = set()
    for row in run.trials():
        wanted = is_finding(row) or (held and row["status"] == Status.HELD)
        if wanted and row["id"] not in seen:
            seen.add(row["id"])
            yield row


def is_held(finding: Finding) -> bool:
    """Whether this is a trial that held, told by the follow-up's hash, which only other trials have."""
    return not finding.input_sha


def _place(seed: int, row: Row) -> str:
    return digest_of("review", seed, row["id"])
