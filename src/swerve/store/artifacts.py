"""What a run folder keeps of its findings besides the journal: pictures, features and shrunk changes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from swerve.config.limits import FILE
from swerve.core.errors import StoreError
from swerve.core.values import Array
from swerve.store.files import json_bytes, read_json, write_whole
from swerve.store.journal import Row
from swerve.store.record_json import Finding, checked_row, finding_of
from swerve.store.view import Run

FINDINGS = "findings"
SHA_DIGITS = 16
FEATURES = "features.npy"
REGION = "region.json"
CALIBRATION = "calibration.json"
HEAT = "_heat"  # the end of the name of a picture that is laid over its sensor's
UNCHANGED = "fails without any change"
SHRUNK = "shrunk"
SHRINKING = "shrinking.json"  # what was shrunk at the end of the run, and within which budget
CASES = "cases.json"  # the columns of the source's metadata by case; only if it has any
KEPT = re.compile(rf"[0-9a-f]{{{SHA_DIGITS}}}-\w+\.(png|npy|json)|{re.escape(FEATURES)}")  # every file of `findings/`


def pictures_of(run: Run, sha: str) -> dict[str, Path]:
    """The saved files of the input with hash `sha`, by sensor."""
    head = f"{sha[:SHA_DIGITS]}-"
    files = (path for path in sorted((run.folder / FINDINGS).glob(f"{head}*")) if path.is_file())
    return {path.stem.removeprefix(head): path for path in files}


def features_of(run: Run) -> dict[str, Array]:
    """The direction in which each change moved the traced layer, by the first digits of its follow-up's hash."""
    path = run.folder / FINDINGS / FEATURES
    try:
        if path.stat().st_size > FILE:
            return {}
        with path.open("rb") as file:
            rows = np.load(file, allow_pickle=False)
        return {str(row["input"]): row["moved"].astype(np.float64) for row in rows if np.isfinite(row["moved"]).all()}
    except Exception:  # a derived file may be missing, and a damaged one can make numpy raise anything
        return {}


@dataclass(frozen=True)
class Shrunk:
    """A finding with the smallest change that still fails."""

    finding: Finding  # with the smallest change
    of: str  # the id of the finding it was shrunk from
    edges: tuple[str, ...]
    tries: int
    flaky: bool = False  # it did not fail again, so smaller changes were not tested (R16)

    @property
    def is_whole(self) -> bool:
        """Whether nothing smaller fails, so that this is the change of the finding itself."""
        return not self.flaky and self.finding.id == self.of

    @property
    def words(self) -> str:
        """The smallest failing change and the edges of failure, as one sentence."""
        if self.finding.input_sha == self.finding.source_sha:
            return UNCHANGED
        return "; ".join((self.finding.words, *self.edges))


def save_shrunk(run: Run, shrunk: Shrunk, row: Row) -> None:
    """Save a shrunk finding in the run folder."""
    content = {
        "of": shrunk.of,
        "words": shrunk.words,
        "edges": list(shrunk.edges),
        "tries": shrunk.tries,
        "flaky": shrunk.flaky,
        "row": row,
    }
    write_whole(run.folder / SHRUNK / f"{shrunk.of}.json", json_bytes(content))


def shrunk_of(run: Run, identity: str) -> Shrunk | None:
    """The saved result of shrinking a finding, or None."""
    path = run.folder / SHRUNK / f"{identity}.json"
    if not path.is_file():
        return None
    try:
        content = read_json(path)
        if not isinstance(content["row"], dict) or not isinstance(content["edges"], list):
            raise StoreError(f"{path}: row or edges cannot be read")
        return Shrunk(
            finding_of(checked_row(content["row"])),
            str(content["of"]),
            tuple(map(str, content["edges"])),
            int(content["tries"]),
            bool(content.get("flaky", False)),
        )
    except (StoreError, KeyError, TypeError, ValueError, OverflowError) as error:
        why = str(error).removeprefix(f"{path}: ")
        raise StoreError(f"{path}: cannot be read: {why}; delete it and shrink again") from error
