"""A run folder open for reading: its records, findings and baseline, streamed from the journal."""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from swerve.core.campaign import Observation
from swerve.core.errors import StoreError, did_you_mean
from swerve.core.relation import Status
from swerve.store.fingerprint import FORMAT
from swerve.store.journal import Journal, Row, opened
from swerve.store.record_json import BASELINE, TRIAL, Finding, finding_of, is_finding, observation_of

CAMPAIGN, JOURNAL, ORIGIN, LOCK = "campaign.json", "journal.jsonl", "origin.json", ".lock"
KEPT_PER_RULE = 200
SHORTEST_ID = 4
_REPEAT = b'{"kind":"repeat",'  # the start of the line of a finding that was asked again


class Run:
    """A run folder open for reading: its records, findings and baseline, streamed from the journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity = read_identity(folder)

    @property
    def base(self) -> Path:
        """What the campaign's paths are relative to."""
        return Path(_read_json(self.folder / ORIGIN)["base"])

    @property
    def sampled(self) -> bool:
        """Whether its trials are a sample, the same for any system: not those of a search that learns."""
        return not self.identity.get("learns", False)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every committed row of an untouched case or a trial, in order."""
        for lines in Journal(self.folder / JOURNAL).sealed():
            yield from (opened(line) for line in lines if not line.startswith(_REPEAT))

    @cached_property
    def repeats(self) -> dict[str, bool]:
        """The findings that were asked again before they were reported, by id, and whether each failed again."""
        lines = (line for batch in Journal(self.folder / JOURNAL).sealed() for line in batch if line.startswith(_REPEAT))
        return {row["id"]: row["status"] == Status.VIOLATED.value for row in map(opened, lines)}

    def baseline(self) -> list[Observation]:
        """What the system said of the untouched cases."""
        return list(self.untouched())

    def untouched(self) -> Iterator[Observation]:
        """The same, one by one."""
        return map(observation_of, itertools.takewhile(lambda row: row["kind"] == BASELINE, self.rows()))

    def trials(self) -> Iterator[dict[str, Any]]:
        """Every trial's row, in order."""
        return (row for row in self.rows() if row["kind"] == TRIAL)

    def findings(self) -> Iterator[Finding]:
        """Every finding, in the order of the journal."""
        return map(finding_of, self._finding_rows())

    def best(self, count: int = KEPT_PER_RULE) -> list[Finding]:
        """The `count` findings of each rule with the largest margins, largest first."""
        return [finding_of(row) for row in best_of(self._finding_rows(), count)]

    def row(self, prefix: str) -> dict[str, Any]:
        """The one finding whose id starts with `prefix`."""
        rows = [row for row in self._finding_rows() if row["id"].startswith(prefix)]
        if len(prefix) < SHORTEST_ID or not rows:
            known = [finding.id for finding in self.best(5)]
            raise StoreError(f"{self.folder}: no finding '{prefix}'; {did_you_mean(prefix, known)}")
        if len({row["id"] for row in rows}) > 1:
            raise StoreError(f"{self.folder}: '{prefix}' is the start of {len(rows)} findings; give more of it")
        return rows[0]

    def _finding_rows(self) -> Iterator[dict[str, Any]]:
        repeats = self.repeats
        return ({**row, "repeated": repeats.get(row["id"])} for row in self.trials() if is_finding(row))


def best_of(rows: Iterable[Row], count: int) -> list[Row]:
    """The `count` findings' rows of each rule with the largest margins, largest first; memory stays flat."""
    heaps: dict[str, list[tuple[float, str, int, Row]]] = {}
    for number, row in enumerate(rows):
        heap = heaps.setdefault(row["rule"], [])
        item = (row["margin"], row["id"], number, row)  # the number, so that rows are never compared
        if len(heap) < count:
            heapq.heappush(heap, item)
        elif item[:2] > heap[0][:2]:
            heapq.heapreplace(heap, item)
    kept = (item for heap in heaps.values() for item in heap)
    return [row for *_, row in sorted(kept, key=lambda item: (-item[0], item[1]))]


def read_identity(folder: Path) -> dict[str, Any]:
    """The content of `campaign.json`, refused if another format wrote it."""
    if not (folder / CAMPAIGN).is_file():
        raise StoreError(f"{folder}: is not a run folder (no {CAMPAIGN}); make one with 'swerve run FILE --into {folder}'")
    identity = _read_json(folder / CAMPAIGN)
    if identity.get("format") != FORMAT:
        raise StoreError(f"{folder}: written in format {identity.get('format')}, this version reads format {FORMAT}")
    _check_complete(identity, folder / CAMPAIGN)
    return identity


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise StoreError(f"{path}: is not a JSON object")
    return data


def _check_complete(identity: Mapping[str, Any], path: Path) -> None:
    missing = [key for key in ("factory", "rebuildable", "fingerprints", "campaign") if key not in identity]
    if missing or not isinstance(identity["campaign"], dict):
        raise StoreError(f"{path}: is damaged: {', '.join(missing) or 'campaign'} cannot be read")
