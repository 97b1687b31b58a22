"""Checks that a run fits on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from swerve.core.campaign import Campaign, Record
from swerve.core.relation import Status
from swerve.execution.checks.concern import Concern, Level
from swerve.execution.checks.sampling import spread
from swerve.execution.evaluator import read_case
from swerve.execution.finding_pictures import files_of
from swerve.store.journal import encode_line
from swerve.store.record_json import record_row
from swerve.store.view import PICTURED_PER_RULE

SAMPLED_FINDINGS = 3  # whose pictures are made to measure their size
SPARE = 1.2  # free space on the disk, in multiples of the estimate


def megabytes_of(campaign: Campaign, tried: Sequence[Record], share: float, cases: int) -> float:
    """The size of the journal lines of all trials and of the kept pictures: follow-ups, and every source once."""
    lines = sum(len(encode_line(record_row(record))) for record in tried) * share
    found = [record for record in tried if record.verdict.status is Status.VIOLATED]
    kept = min(len(found) * share, PICTURED_PER_RULE * len(campaign.rules))
    sizes = [_kept_bytes(campaign, record) for record in spread(found, SAMPLED_FINDINGS)]
    sources, followups = np.mean(sizes, axis=0) if sizes else (0.0, 0.0)
    return float(lines + min(kept, cases) * sources + kept * followups) / 1e6


def _kept_bytes(campaign: Campaign, record: Record) -> tuple[int, int]:
    """The size in bytes of the picture files of a finding's source, and of its follow-up."""
    assert record.change  # it was violated
    source = read_case(campaign, record.trial.case)
    first, second = (sum(map(len, files_of(case).values())) for case in (source, record.change(source)))
    return first, second


def disk_space(folder: Path | None, megabytes: float | None) -> Iterator[Concern]:
    """A disk without room for what the run will write to `folder`."""
    if folder is None or megabytes is None:
        return
    existing = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(existing).free / 1e6
    if free < SPARE * megabytes:
        yield Concern("disk", Level.REFUSAL, f"{folder}: needs about {megabytes:,.0f} MB, {free:,.0f} MB are free")
