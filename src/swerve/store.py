"""A run folder: `campaign.json`, `journal.jsonl`, `findings/`, `tables/` and `summary.json`.

The journal is the only state. Everything else follows from it and may be deleted.
"""

from __future__ import annotations

import fcntl
import heapq
import itertools
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar

from swerve.campaign import Ended, Observation, Record, Trial
from swerve.errors import EnvironmentFault, StoreError, did_you_mean
from swerve.files import PARTIAL, json_bytes, make_folder, write_whole
from swerve.identity import FORMAT, differences
from swerve.journal import Journal, Mended, Row, opened, repair
from swerve.rows import (
    BASELINE,
    TRIAL,
    Finding,
    ended_of,
    finding_of,
    head_of,
    is_finding,
    observation_of,
    observation_row,
    record_of,
    record_row,
)

CAMPAIGN, JOURNAL, ORIGIN, LOCK = "campaign.json", "journal.jsonl", "origin.json", ".lock"
KEPT_PER_RULE = 200
SHORTEST_ID = 4
LOOKS, GLANCE = 50, 0.01  # at the pid of whoever holds a lock, which is written a moment after it is taken; seconds
T = TypeVar("T")


class Store:
    """A run folder open for writing, by one process at a time."""

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], base: Path, *, trusted: Collection[Path] = (), mend: bool = False
    ) -> None:
        self.folder, self._base, self._trusted = folder, base, trusted
        self._prepare()
        self.mended: Mended | None = None  # what became of a damaged journal
        self._lock = locked(folder)
        try:
            self._claim(identity, base)
            if mend:
                self.mended = repair(folder / JOURNAL)
            self.journal = Journal(folder / JOURNAL)
            self._committed: Iterator[list[bytes]] = self.journal.sealed()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.truncate(0)
        self._lock.close()

    def observed(self, keys: Sequence[str], compute: Callable[[], Sequence[Observation]]) -> Sequence[Observation]:
        """The committed observations of `keys`, or those of `compute`, committed now."""
        asked = [(BASELINE, key) for key in keys]
        if (past := self._next(asked, _case_of, observation_of)) is not None:
            return past
        seen = compute()
        self.journal.append([observation_row(item) for item in seen])
        return seen

    def recorded(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Record]]) -> Sequence[Record]:
        """The committed records of `trials`, or those of `compute`, committed now."""
        if (past := self._trials(trials, lambda row: record_of(row, self._base, self._trusted))) is not None:
            return past
        records = compute()
        self.journal.append([record_row(record) for record in records])
        return records

    def ended(self, trials: Sequence[Trial]) -> Sequence[Ended] | None:
        """How the committed `trials` ended; None when the journal has no more."""
        return self._trials(trials, ended_of, head_of)

    def _trials(
        self, trials: Sequence[Trial], take: Callable[[Row], T], read: Callable[[bytes], Row] = opened
    ) -> list[T] | None:
        return self._next([(TRIAL, *trial.key) for trial in trials], _trial_of, take, read)

    def _next(
        self,
        asked: Sequence[object],
        key: Callable[[Row], object],
        take: Callable[[Row], T],
        read: Callable[[bytes], Row] = opened,
    ) -> list[T] | None:
        """What to take of the next committed batch, which must be the one asked for; None when the journal has no more."""
        lines = next(self._committed, None)
        if lines is None:
            return None
        taken = []
        for line, wanted in itertools.zip_longest(lines, asked):  # one row at a time: only what is taken of it stays
            row = read(line) if line else None
            if row is None or key(row) != wanted:
                raise StoreError(f"{self.journal.path}: the journal holds other trials than this campaign asks for")
            taken.append(take(row))
        return taken

    def _prepare(self) -> None:
        make_folder(self.folder, parents=True)
        names = {item.name for item in self.folder.iterdir()}
        # A process killed at its very start leaves these alone behind.
        strangers = {name for name in names - {LOCK, ORIGIN} if not name.endswith(PARTIAL)}
        if strangers and CAMPAIGN not in names:
            raise StoreError(f"{self.folder}: is not empty and not a run folder; choose another")

    def _claim(self, identity: Mapping[str, Any], base: Path) -> None:
        path = self.folder / CAMPAIGN
        if path.exists():
            then = read_identity(self.folder)
            if changed := differences(then, json.loads(json_bytes(identity))):
                raise DifferentCampaign(self.folder, changed)
        write_whole(self.folder / ORIGIN, json_bytes({"base": str(base)}))
        if not path.exists():
            write_whole(path, json_bytes(identity))


def _case_of(row: Row) -> tuple[object, ...]:
    return row["kind"], row["case"]


def _trial_of(row: Row) -> tuple[object, ...]:
    return row["kind"], row["case"], row.get("rule"), row.get("draw")  # a row may be of another kind


def locked(folder: Path) -> TextIO:
    """The lock of a run folder: a flock that dies with the process; the pid inside is for the message alone."""
    try:
        file = (folder / LOCK).open("a+")
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with file:
            raise EnvironmentFault(f"{folder}: another process (pid {_holder(file)}) is writing here") from None
    told = str(os.getpid()).encode()
    try:
        file.truncate(0)
        os.write(file.fileno(), told)
    except OSError as error:
        with file:
            raise EnvironmentFault(f"{folder / LOCK}: cannot write {len(told)} bytes: {error.strerror}") from error
    return file


def _holder(file: TextIO) -> str:
    """The pid that the holder of a lock has written into it, or is about to."""
    for _ in range(LOOKS):
        file.seek(0)
        if told := file.read().strip():
            return told
        time.sleep(GLANCE)
    return "unknown"


class DifferentCampaign(StoreError):
    """A run folder that belongs to a campaign that is not this one; `changed` lists how they differ."""

    def __init__(self, folder: Path, changed: Sequence[str]) -> None:
        self.changed = tuple(changed)
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        super().__init__(f"{folder}: holds another campaign: {changed[0]}{more}; choose another --into")


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
        """Every committed row, in order."""
        for lines in Journal(self.folder / JOURNAL).sealed():
            yield from map(opened, lines)

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
        return (finding_of(row) for row in self.trials() if is_finding(row))

    def best(self, count: int = KEPT_PER_RULE) -> list[Finding]:
        """The `count` findings of each rule with the largest margins, largest first."""
        return [finding_of(row) for row in best_of(filter(is_finding, self.rows()), count)]

    def row(self, prefix: str) -> dict[str, Any]:
        """The one finding whose id starts with `prefix`."""
        rows = [row for row in self.trials() if is_finding(row) and row["id"].startswith(prefix)]
        if len(prefix) < SHORTEST_ID or not rows:
            known = [finding.id for finding in self.best(5)]
            raise StoreError(f"{self.folder}: no finding '{prefix}'; {did_you_mean(prefix, known)}")
        if len({row["id"] for row in rows}) > 1:
            raise StoreError(f"{self.folder}: '{prefix}' is the start of {len(rows)} findings; give more of it")
        return rows[0]


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
