"""The best findings of a run as pictures: rebuilt from their seeds, checked by hash, kept losslessly."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from swerve.campaign import Campaign
from swerve.case import Case
from swerve.engine import Progress, Silent
from swerve.errors import StoreError
from swerve.files import Linkable, json_bytes, sensor_file, write_folder
from swerve.rows import Finding
from swerve.spec import build_change
from swerve.store import KEPT_PER_RULE, Run
from swerve.values import Value

FINDINGS = "findings"


def keep_best(
    run: Run,
    campaign: Campaign,
    trusted: Collection[Path] = (),
    *,
    count: int = KEPT_PER_RULE,
    progress: Progress | None = None,
) -> list[Finding]:
    """Make `findings/` hold exactly the `count` best findings of each rule, and return them."""
    watch = progress or Silent()
    best = run.best(count)
    root = run.folder / FINDINGS
    root.mkdir(exist_ok=True)
    wanted = {finding.id for finding in best}
    for folder in root.iterdir():
        if folder.name not in wanted:
            shutil.rmtree(folder)
    missing = [finding for finding in best if not (root / finding.id).exists()]
    watch.begin("pictures", len(missing))
    keeper = _Keeper(root, run.base, trusted)
    for finding, source in _with_sources(missing, campaign):
        keeper.keep(finding, source)
        watch.advance(1, 0)
    return best


def _with_sources(findings: Collection[Finding], campaign: Campaign) -> Iterator[tuple[Finding, Case]]:
    """Each finding with its source case, every case read once."""
    source: Case | None = None
    for finding in sorted(findings, key=lambda item: (item.case, item.input_sha, item.id)):
        if source is None or source.key != finding.case:
            source = campaign.source[finding.case]
        yield finding, source


class _Keeper:
    """Writes findings' folders; a picture that several findings share is encoded once and linked."""

    def __init__(self, root: Path, base: Path, trusted: Collection[Path]) -> None:
        self.root, self.base, self.trusted = root, base, trusted
        self._written: dict[str, Path] = {}

    def keep(self, finding: Finding, source: Case) -> None:
        followup = build_change(finding.change, self.base, self.trusted)(source)
        if followup.input_sha != finding.input_sha:
            raise StoreError(
                f"finding {finding.id}: '{finding.words}' made another input than before; it is not deterministic"
            )
        folder = self.root / finding.id
        files: dict[str, Linkable] = {"finding.json": json_bytes(finding.as_dict())}
        shas: dict[str, str] = {}
        for role, case in (("source", source), ("followup", followup)):
            for sensor, value in case.inputs.items():
                if (made := self._file(value)) is not None:
                    name = f"{role}-{_safe(sensor)}{made[0]}"
                    files[name], shas[name] = made[1], value.digest
        write_folder(folder, files)
        self._written.update({sha: folder / name for name, sha in shas.items()})

    def _file(self, value: Value) -> tuple[str, Linkable] | None:
        if (earlier := self._written.get(value.digest)) is not None:
            return earlier.suffix, earlier
        return sensor_file(value)


def _safe(name: str) -> str:
    """A sensor's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)[:40] or "sensor"
