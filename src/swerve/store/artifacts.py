"""What a run folder keeps of its findings beside the journal: pictures, features, and changes shrunk to the smallest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
UNCHANGED = "fails without any change"
SHRUNK = "shrunk"
KEPT = re.compile(rf"[0-9a-f]{{{SHA_DIGITS}}}-\w+\.(png|npy|json)|{re.escape(FEATURES)}")  # every file of `findings/`


def pictures_of(run: Run, sha: str) -> dict[str, Path]:
    """The kept files of the input with hash `sha`, by sensor."""
    head = f"{sha[:SHA_DIGITS]}-"
    return {path.stem.removeprefix(head): path for path in sorted((run.folder / FINDINGS).glob(f"{head}*"))}


def features_of(run: Run) -> dict[str, Array]:
    """The direction in which each change moved the layer looked at, by the first digits of its follow-up's hash."""
    try:
        rows = np.load(run.folder / FINDINGS / FEATURES, allow_pickle=False)
        return {str(row["input"]): row["moved"].astype(np.float64) for row in rows if np.isfinite(row["moved"]).all()}
    except (OSError, ValueError, TypeError, IndexError, EOFError, MemoryError):  # derived: it may be gone, or torn
        return {}


@dataclass(frozen=True)
class Shrunk:
    """A finding and the smallest change that still fails in its place."""

    finding: Finding  # as it is now
    of: str  # the id of the finding it was shrunk from
    edges: tuple[str, ...]
    tries: int
    flaky: bool = False  # it did not fail again, so nothing is said of smaller changes (R16)

    @property
    def words(self) -> str:
        """What was found, in a sentence."""
        if self.finding.input_sha == self.finding.source_sha:
            return UNCHANGED
        return "; ".join((self.finding.words, *self.edges))


def keep_shrunk(run: Run, made: Shrunk, row: Row) -> None:
    """Keep what a finding was shrunk to in the run folder."""
    head = {"of": made.of, "words": made.words, "edges": list(made.edges), "tries": made.tries, "flaky": made.flaky}
    told = {**head, "row": row}
    write_whole(run.folder / SHRUNK / f"{made.of}.json", json_bytes(told))


def shrunk_of(run: Run, identity: str) -> Shrunk | None:
    """What a finding was shrunk to, if it was."""
    path = run.folder / SHRUNK / f"{identity}.json"
    if not path.is_file():
        return None
    try:
        told = read_json(path)
        return Shrunk(
            finding_of(checked_row(told["row"])),
            told["of"],
            tuple(map(str, told["edges"])),
            told["tries"],
            told.get("flaky", False),
        )
    except (StoreError, KeyError, TypeError) as error:
        why = str(error).removeprefix(f"{path}: ")
        raise StoreError(f"{path}: does not read: {why}; delete it and shrink again") from error
