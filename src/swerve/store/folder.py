"""A run folder: `campaign.json`, `journal.jsonl`, `findings/`, `tables/` and `summary.json`.

The journal is the only state. Everything else is derived from it and may be deleted.
"""

from __future__ import annotations

import contextlib
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

from swerve.core.asset import Asset
from swerve.core.campaign import Gain, Observation, Trial
from swerve.core.errors import EnvironmentFault, StoreError
from swerve.core.transformation import Transformation
from swerve.store.artifacts import KEPT
from swerve.store.files import PARTIAL, json_bytes, make_folder, open_plain, refuse_links, write_whole
from swerve.store.fingerprint import differences
from swerve.store.journal import Journal, Repair, Row, repair_journal
from swerve.store.record_json import (
    BASELINE,
    GAIN,
    REPEAT,
    TRIAL,
    Finding,
    Result,
    finding_of,
    head_of,
    is_finding,
    observation_of,
    observation_row,
    outcome_of,
    read_row,
)
from swerve.store.view import CAMPAIGN, JOURNAL, LOCK, ORIGIN, Run, read_identity

HELD = 16 << 20  # bytes of a journal that stay in memory, so that most runs are not read again when they have ended
LOCK_READS, LOCK_WAIT = 50, 0.01  # attempts and seconds; the pid in a lock is written shortly after the lock is taken
T = TypeVar("T")
_VIOLATED = b'"status":"violated"'  # in the line of a finding
# The files that Swerve writes in a run folder, without exported data sets; nothing else is ever deleted there.
OURS = re.compile(
    r"(campaign|origin|summary|timings|health|files|cases|shrinking)\.json|finding-[\w-]+\.html|journal(\.damaged(-\d+)?)?\.jsonl|\.lock|(\w+/)?\.[^/]+\.partial"
    rf"|findings(\.partial)?/({KEPT.pattern})|report/((index|compare|conditions)\.html|(pictures(\.partial)?|conditions)/[^/]+\.png)"
    r"|tables/[^/]+\.(csv|yaml)|shrunk/[^/]+\.json|review/[^/]+\.(jsonl|csv)|export/(junit\.xml|findings\.(sarif|csv))"
)


class Store:
    """A run folder open for writing, by one process at a time."""

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        base: Path,
        *,
        assets: Collection[Asset] = (),
        trusted: Collection[str | Path] = (),
        repair: bool = False,
    ) -> None:
        self.folder, self.identity = folder, identity
        self._prepare()
        self.repaired: Repair | None = None  # the repair of a damaged journal
        self._lock = lock_folder(folder)
        try:
            self._claim(identity, base, assets)
            run = Run(folder)
            self._builder = run.builder(trusted=run.trust_own(trusted))
            if repair:
                self.repaired = repair_journal(folder / JOURNAL)
            self.journal = Journal(folder / JOURNAL, hold=HELD)
            self._committed: Iterator[list[bytes]] = self.journal.line_batches()
            self._ahead: list[bytes] | None = None  # the next committed batch, once it was looked for
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError):  # the system may have closed it
            self._lock.truncate(0)
            self._lock.close()

    def observed(self, keys: Sequence[str], compute: Callable[[], Sequence[Observation]]) -> Sequence[Observation]:
        """The committed observations of `keys`, or those of `compute`, committed now."""
        expected = [(BASELINE, key) for key in keys]
        if (committed := self._next(expected, read_row, _case_of, lambda row, _: observation_of(row))) is not None:
            return committed
        observations = compute()
        self.journal.append([observation_row(item) for item in observations])
        return observations

    def gained(self, compute: Callable[[], Gain]) -> Gain:
        """The committed gain of the next cases or trials together, or that of `compute`, committed now, before them."""
        if (committed := self._next([(GAIN,)], read_row, _kind_of, lambda row, _: row["gain"])) is not None:
            gain: Gain = committed[0]
            return gain
        gain = compute()
        self.journal.append([{"kind": GAIN, "gain": gain}])
        return gain

    def recorded(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Result]]) -> Sequence[Result]:
        """The committed results of `trials`, or those of `compute`, committed now."""
        return self._results(TRIAL, trials, compute)

    def repeated(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Result]]) -> Sequence[Result]:
        """The committed results of repeated findings, or those of `compute`, committed now."""
        return self._results(REPEAT, trials, compute)

    def _results(self, kind: str, trials: Sequence[Trial], compute: Callable[[], Sequence[Result]]) -> Sequence[Result]:
        expected = [(kind, *trial.key) for trial in trials]
        if (committed := self._next(expected, head_of, _trial_of, self._result)) is not None:
            return committed
        results = compute()
        self.journal.append([{**result.row, "kind": kind} for result in results])
        return results

    def _result(self, head: Row, line: bytes) -> Result:
        return Result(line=line, outcome=outcome_of(head), builder=self._builder)

    def findings(self) -> Iterator[Finding]:
        """Every committed finding as it was first recorded."""
        lines = (line for batch in self.journal.again() for line in batch if _VIOLATED in line)
        return map(finding_of, filter(is_finding, map(read_row, lines)))

    def view(self) -> Run:
        """The run folder open for reading, without reading again what was just read or written."""
        return Run(self.folder, self.journal)

    def change_of(self, finding: Finding) -> Transformation:
        """The change of a finding."""
        return self._builder.change(finding.change)

    @property
    def under_way(self) -> bool:
        """Whether the journal holds more than was asked for so far."""
        self._ahead = next(self._committed, None) if self._ahead is None else self._ahead
        return self._ahead is not None

    def _next(
        self,
        expected: Sequence[object],
        read: Callable[[bytes], Row],
        key: Callable[[Row], object],
        convert: Callable[[Row, bytes], T],
    ) -> list[T] | None:
        """The converted lines of the next committed batch, whose keys must be `expected`; None when there is no more."""
        lines = self._ahead if self.under_way else None
        self._ahead = None
        if lines is None:
            return None
        converted = []
        for line, wanted in itertools.zip_longest(lines, expected):  # line by line: no row stays in memory
            row = read(line) if line else None
            if line is None or row is None or key(row) != wanted:
                what = "the journal holds other trials than those of this campaign"
                raise StoreError(f"{self.journal.path}: {what}; choose another --into")
            converted.append(convert(row, line))
        return converted

    def _prepare(self) -> None:
        make_folder(self.folder, parents=True)
        names = {item.name for item in self.folder.iterdir()}
        # A process killed while starting leaves only these files behind.
        others = {name for name in names - {LOCK, ORIGIN} if not name.endswith(PARTIAL)}
        if others and CAMPAIGN not in names:
            raise StoreError(f"{self.folder}: is not empty and not a run folder; choose another folder")
        refuse_links(self.folder)

    def _claim(self, identity: Mapping[str, Any], base: Path, assets: Collection[Asset]) -> None:
        path = self.folder / CAMPAIGN
        if path.exists():
            then, now = read_identity(self.folder), json.loads(json_bytes(identity))
            if changed := differences(then, now):
                raise DifferentCampaign(self.folder, changed)
            if (rules := now["campaign"].get("rule")) != then["campaign"].get("rule"):  # they are judged in another way now
                write_whole(path, json_bytes({**then, "campaign": {**then["campaign"], "rule": rules}}))
        paths = {asset.sha256: os.path.relpath(asset.path, base) for asset in assets}
        write_whole(self.folder / ORIGIN, json_bytes({"base": str(base), **({"assets": paths} if paths else {})}))
        if not path.exists():
            write_whole(path, json_bytes(identity))


def _kind_of(row: Row) -> tuple[object, ...]:
    return (row.get("kind"),)


def _case_of(row: Row) -> tuple[object, ...]:
    return row.get("kind"), row.get("case")


def _trial_of(row: Row) -> tuple[object, ...]:
    return row.get("kind"), row.get("case"), row.get("rule"), row.get("draw")  # a row may be of another kind


def lock_folder(folder: Path) -> BinaryIO:
    """Lock a run folder with a flock, which is released when the process ends; the pid inside is only for messages."""
    path = folder / LOCK
    try:
        file = open_plain(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with file:
            raise EnvironmentFault(f"{folder}: another process (pid {_lock_owner(path)}) is writing here") from None
    pid = str(os.getpid()).encode()
    try:
        file.truncate(0)
        os.write(file.fileno(), pid)
    except OSError as error:
        with file:
            raise EnvironmentFault(f"{path}: cannot write {len(pid)} bytes: {error.strerror}") from error
    return file


def clear_run(folder: Path) -> None:
    """Delete a run folder; one with a file that is not part of a run is refused and left unchanged."""
    refuse_links(folder)
    inside = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    if foreign := next((name for name in inside if not OURS.fullmatch(name)), None):
        raise StoreError(f"{folder}: contains {foreign}, which is not part of a run; move it elsewhere to run here again")
    shutil.rmtree(folder)


def _lock_owner(path: Path) -> str:
    """The pid in a lock file, which its owner may only be about to write."""
    for _ in range(LOCK_READS):
        with open_plain(path) as file:
            if pid := file.read(20).strip():
                return pid.decode(errors="backslashreplace")
        time.sleep(LOCK_WAIT)
    return "unknown"


class DifferentCampaign(StoreError):
    """A run folder that belongs to another campaign; `details` lists the differences."""

    def __init__(self, folder: Path, changed: Sequence[str]) -> None:
        self.details = tuple(changed)
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        super().__init__(f"{folder}: belongs to another campaign: {changed[0]}{more}; choose another --into")
