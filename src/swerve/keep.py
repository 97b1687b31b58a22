"""The best findings of a run as pictures: rebuilt from their seeds, checked by hash, kept losslessly."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from swerve.campaign import Campaign
from swerve.case import Case
from swerve.errors import StoreError
from swerve.files import json_bytes, sensor_file, write_folder
from swerve.rows import Finding
from swerve.spec import build_change
from swerve.store import KEPT_PER_RULE, Run

FINDINGS = "findings"


def keep_best(run: Run, campaign: Campaign, trusted: Collection[Path] = (), count: int = KEPT_PER_RULE) -> list[Finding]:
    """Make `findings/` hold exactly the `count` best findings of each rule, and return them."""
    best = run.best(count)
    root = run.folder / FINDINGS
    root.mkdir(exist_ok=True)
    wanted = {finding.id for finding in best}
    for folder in root.iterdir():
        if folder.name not in wanted:
            shutil.rmtree(folder)
    missing = [finding for finding in best if not (root / finding.id).exists()]
    last: Case | None = None
    for finding in sorted(missing, key=lambda item: item.case):
        if last is None or last.key != finding.case:
            last = campaign.source[finding.case]
        write_folder(root / finding.id, _files(last, finding, run.base, trusted))
    return best


def _files(source: Case, finding: Finding, base: Path, trusted: Collection[Path]) -> dict[str, bytes]:
    followup = build_change(finding.change, base, trusted)(source)
    if followup.input_sha != finding.input_sha:
        raise StoreError(f"finding {finding.id}: '{finding.words}' made another input than before; it is not deterministic")
    files = {"finding.json": json_bytes(finding.as_dict())}
    for name, case in (("source", source), ("followup", followup)):
        for sensor, value in case.inputs.items():
            if (made := sensor_file(value)) is not None:
                files[f"{name}-{_safe(sensor)}{made[0]}"] = made[1]
    return files


def _safe(name: str) -> str:
    """A sensor's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)[:40] or "sensor"
