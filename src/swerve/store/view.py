"""A run folder open for reading: its records, findings and baseline, streamed from the journal."""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from swerve.config.trust import Trust, named_in
from swerve.core.campaign import Observation
from swerve.core.errors import StoreError, did_you_mean
from swerve.core.relation import Status
from swerve.store.consents import recall, remember
from swerve.store.files import read_json, refuse_links
from swerve.store.fingerprint import FORMAT
from swerve.store.journal import Journal, Row
from swerve.store.record_json import BASELINE, TRIAL, Finding, finding_of, is_finding, observation_of, read_row

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
        base = read_json(self.folder / ORIGIN).get("base")
        if not isinstance(base, str):
            raise StoreError(f"{self.folder / ORIGIN}: is damaged: base cannot be read")
        return Path(base)

    def trust(self, given: Collection[str | Path] | Trust = ()) -> Trust:
        """The code that this folder may run: what the user allowed for it before, and what is `given` now, which is kept."""
        if isinstance(given, Trust):
            return given
        allowed = Trust.of(given)
        if given:
            named = self._named()
            programs = {path: sha for path, sha in named.files.items() if allowed.names & named.names}
            allowed = allowed.joined(Trust(files=programs))
            remember(self._campaign_sha, str(self.base), allowed)
        known = recall(self._campaign_sha, str(self.base))
        return replace(known.joined(allowed), foreign=True)

    def trust_own(self, given: Collection[str | Path] | Trust = ()) -> Trust:
        """As `trust`, for a run that this user starts: all that its campaign names is allowed from now on."""
        remember(self._campaign_sha, str(self.base), self._named().joined(Trust.of(given)))
        return self.trust()

    def _named(self) -> Trust:
        return named_in(self.identity["campaign"], self.base, self.identity["factory"])

    @property
    def _campaign_sha(self) -> str:
        return hashlib.sha256((self.folder / CAMPAIGN).read_bytes()).hexdigest()

    @property
    def sampled(self) -> bool:
        """Whether its trials are a sample, the same for any system: not those of a search that learns."""
        return not self.identity.get("learns", False)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every committed row of an untouched case or a trial, in order."""
        for lines in Journal(self.folder / JOURNAL).sealed():
            yield from (read_row(line) for line in lines if not line.startswith(_REPEAT))

    @cached_property
    def repeats(self) -> dict[str, bool]:
        """The findings that were asked again before they were reported, by id, and whether each failed again."""
        lines = (line for batch in Journal(self.folder / JOURNAL).sealed() for line in batch if line.startswith(_REPEAT))
        return {row["id"]: row["status"] == Status.VIOLATED.value for row in map(read_row, lines)}

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
    refuse_links(folder)
    identity = read_json(folder / CAMPAIGN)
    if identity.get("format") != FORMAT:
        raise StoreError(f"{folder}: written in format {identity.get('format')}, this version reads format {FORMAT}")
    _check_complete(identity, folder / CAMPAIGN)
    return identity


def _check_complete(identity: Mapping[str, Any], path: Path) -> None:
    missing = [key for key in ("factory", "rebuildable", "fingerprints", "campaign") if key not in identity]
    wrong = [key for key in ("fingerprints", "campaign") if not isinstance(identity.get(key), dict)]
    if not isinstance(identity.get("factory"), str | None):
        wrong.append("factory")
    if missing or wrong:
        raise StoreError(f"{path}: is damaged: {', '.join(missing or wrong)} cannot be read")
