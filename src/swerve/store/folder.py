"""A run folder: `campaign.json`, `journal.jsonl`, `findings/`, `tables/` and `summary.json`.

The journal is the only state. Everything else follows from it and may be deleted.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeVar

from swerve.config.toml import build_change
from swerve.core.campaign import Observation, Outcome, Record, Trial
from swerve.core.errors import EnvironmentFault, StoreError
from swerve.core.transformation import Transformation
from swerve.store.artifacts import KEPT
from swerve.store.files import PARTIAL, json_bytes, make_folder, open_plain, refuse_links, write_whole
from swerve.store.fingerprint import differences
from swerve.store.journal import Journal, Repair, Row, repair_journal
from swerve.store.record_json import (
    BASELINE,
    REPEAT,
    TRIAL,
    Finding,
    finding_of,
    head_of,
    is_finding,
    observation_of,
    observation_row,
    outcome_of,
    read_row,
    record_of,
    record_row,
    repeat_row,
)
from swerve.store.view import CAMPAIGN, JOURNAL, LOCK, ORIGIN, Run, read_identity

LOOKS, GLANCE = 50, 0.01  # at the pid of whoever holds a lock, which is written a moment after it is taken; seconds
T = TypeVar("T")
_VIOLATED = b'"status":"violated"'  # in the line of a finding
# Every file that Swerve makes in a run folder; nothing else is ever deleted there.
OURS = re.compile(
    r"(campaign|origin|summary|timings|health|files)\.json|journal(\.damaged(-\d+)?)?\.jsonl|\.lock|(\w+/)?\.[^/]+\.partial"
    rf"|findings(\.partial)?/({KEPT.pattern})|report/(index\.html|pictures(\.partial)?/[^/]+\.png)"
    r"|tables/[^/]+\.csv|shrunk/[^/]+\.json|review/[^/]+\.(jsonl|csv)|export/.+"
)


class Store:
    """A run folder open for writing, by one process at a time."""

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        base: Path,
        *,
        trusted: Collection[str | Path] = (),
        repair: bool = False,
    ) -> None:
        self.folder, self.identity, self._base = folder, identity, base
        self._prepare()
        self.repaired: Repair | None = None  # what became of a damaged journal
        self._lock = locked(folder)
        try:
            self._claim(identity, base)
            self._trust = Run(folder).trust_own(trusted)
            if repair:
                self.repaired = repair_journal(folder / JOURNAL)
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
        if (past := self._trials(trials, lambda row: record_of(row, self._base, self._trust))) is not None:
            return past
        records = compute()
        self.journal.append([record_row(record) for record in records])
        return records

    def repeated(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Record]]) -> Sequence[Record]:
        """The committed records of findings asked again, or those of `compute`, committed now."""
        asked = [(REPEAT, *trial.key) for trial in trials]
        if (past := self._next(asked, _trial_of, lambda row: record_of(row, self._base, self._trust))) is not None:
            return past
        records = compute()
        self.journal.append([repeat_row(record) for record in records])
        return records

    def findings(self) -> Iterator[Finding]:
        """Every committed finding, as it was recorded, whether it was asked again or not."""
        lines = (line for batch in Journal(self.journal.path).sealed() for line in batch if _VIOLATED in line)
        return map(finding_of, filter(is_finding, map(read_row, lines)))

    def change_of(self, finding: Finding) -> Transformation:
        """The change of a finding."""
        return build_change(finding.change, self._base, self._trust)

    def outcomes(self, trials: Sequence[Trial]) -> Sequence[Outcome] | None:
        """How the committed `trials` ended; None when the journal has no more."""
        return self._trials(trials, outcome_of, head_of)

    def _trials(
        self, trials: Sequence[Trial], take: Callable[[Row], T], read: Callable[[bytes], Row] = read_row
    ) -> list[T] | None:
        return self._next([(TRIAL, *trial.key) for trial in trials], _trial_of, take, read)

    def _next(
        self,
        asked: Sequence[object],
        key: Callable[[Row], object],
        take: Callable[[Row], T],
        read: Callable[[bytes], Row] = read_row,
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
        refuse_links(self.folder)

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
    return row.get("kind"), row.get("case")


def _trial_of(row: Row) -> tuple[object, ...]:
    return row.get("kind"), row.get("case"), row.get("rule"), row.get("draw")  # a row may be of another kind


def locked(folder: Path) -> BinaryIO:
    """The lock of a run folder: a flock that dies with the process; the pid inside is for the message alone."""
    path = folder / LOCK
    try:
        file = open_plain(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with file:
            raise EnvironmentFault(f"{folder}: another process (pid {_holder(path)}) is writing here") from None
    pid = str(os.getpid()).encode()
    try:
        file.truncate(0)
        os.write(file.fileno(), pid)
    except OSError as error:
        with file:
            raise EnvironmentFault(f"{path}: cannot write {len(pid)} bytes: {error.strerror}") from error
    return file


def clear_run(folder: Path) -> None:
    """Delete a run folder; one that holds a file which Swerve did not make is refused and left as it is."""
    refuse_links(folder)
    inside = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    if foreign := next((name for name in inside if not OURS.fullmatch(name)), None):
        raise StoreError(f"{folder}: holds {foreign}, which Swerve did not make; move it elsewhere to run here again")
    shutil.rmtree(folder)


def _holder(path: Path) -> str:
    """The pid that the holder of a lock has written into it, or is about to."""
    for _ in range(LOOKS):
        with open_plain(path) as file:
            if pid := file.read(20).strip():
                return pid.decode(errors="backslashreplace")
        time.sleep(GLANCE)
    return "unknown"


class DifferentCampaign(StoreError):
    """A run folder that belongs to a campaign that is not this one; `changed` lists how they differ."""

    def __init__(self, folder: Path, changed: Sequence[str]) -> None:
        self.changed = tuple(changed)
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        super().__init__(f"{folder}: holds another campaign: {changed[0]}{more}; choose another --into")
