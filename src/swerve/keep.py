"""The best findings of a run as pictures: rebuilt from their seeds, checked by hash, kept losslessly.

A picture is named by what it shows: `findings/<first digits of the input's sha256>-<sensor>.png`. Findings that share a
source or a follow-up share its picture, and the journal tells every finding's hashes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from swerve.campaign import Campaign
from swerve.case import Case
from swerve.engine import Progress, Silent, read_case
from swerve.errors import EnvironmentFault, StoreError
from swerve.files import sensor_file
from swerve.rows import Finding
from swerve.spec import build_change
from swerve.store import Run

FINDINGS = "findings"
PARTIAL = "findings.partial"
SHA_DIGITS = 16


def keep_pictures(
    run: Run,
    campaign: Campaign,
    best: Collection[Finding],
    *,
    trusted: Collection[Path] = (),
    progress: Progress | None = None,
) -> None:
    """Make `findings/` hold exactly the pictures of `best`; a reader sees the old folder or the new one."""
    watch = progress or Silent()
    watch.begin("pictures", len(best))
    partial = run.folder / PARTIAL
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        written: set[str] = set()
        for finding, source in _with_sources(best, campaign):
            if source.input_sha not in written:
                _write(partial, source.input_sha, source)
            if finding.input_sha not in written:
                _write(partial, finding.input_sha, _rebuilt(finding, source, run.base, trusted))
            written |= {source.input_sha, finding.input_sha}
            watch.advance(1, 0)
        shutil.rmtree(run.folder / FINDINGS, ignore_errors=True)
        partial.rename(run.folder / FINDINGS)
    except OSError as error:
        raise EnvironmentFault(f"{partial}: pictures cannot be written: {error.strerror}") from error


def pictures_of(run: Run, sha: str) -> dict[str, Path]:
    """The kept files of the input with hash `sha`, by sensor."""
    head = f"{sha[:SHA_DIGITS]}-"
    return {path.stem.removeprefix(head): path for path in sorted((run.folder / FINDINGS).glob(f"{head}*"))}


def _with_sources(findings: Collection[Finding], campaign: Campaign) -> Iterator[tuple[Finding, Case]]:
    """Each finding with its source case, every case read once."""
    source: Case | None = None
    for finding in sorted(findings, key=lambda item: (item.case, item.id)):
        if source is None or source.key != finding.case:
            source = read_case(campaign, finding.case)
        yield finding, source


def _rebuilt(finding: Finding, source: Case, base: Path, trusted: Collection[Path]) -> Case:
    followup = build_change(finding.change, base, trusted)(source)
    if followup.input_sha != finding.input_sha:
        raise StoreError(f"finding {finding.id}: '{finding.words}' made another input than before; it is not deterministic")
    return followup


def _write(folder: Path, sha: str, case: Case) -> None:
    for sensor, value in case.inputs.items():
        if (made := sensor_file(value)) is not None:
            (folder / f"{sha[:SHA_DIGITS]}-{_safe(sensor)}{made[0]}").write_bytes(made[1])


def _safe(name: str) -> str:
    """A sensor's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)[:40] or "sensor"
