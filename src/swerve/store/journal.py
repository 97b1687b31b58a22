"""The one file that holds a run: JSON lines with a checksum each, committed batch by batch.

    {"kind": "baseline", ..., "crc": "5d0b31f2"}
    {"kind": "commit", "batch": 0, "rows": 1, "crc": "a7c1e09d"}

A batch counts once its commit line is on disk. A torn tail, whatever was being written when the
process died, is dropped; a damaged line anywhere else is an error that names it.
"""

from __future__ import annotations

import itertools
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from swerve.config.limits import DEPTH, JOURNAL_LINE
from swerve.core.errors import EnvironmentFault, StoreError
from swerve.store.files import is_deep, open_plain, sync_folder, write_whole

Row = Mapping[str, Any]
COMMIT = "commit"
BATCH_BYTES = 10 * JOURNAL_LINE  # held in memory until the commit line is read
_COMMIT = b'{"kind":"commit",'
_MARK = b',"crc":"'
_TAIL = len(_MARK) + 8 + len(b'"}')
_decode = json.JSONDecoder().raw_decode  # without the guess at an encoding that json.loads makes for every line


def seal(row: Row) -> bytes:
    """One journal line: the row as JSON, ending with the crc32 of all before it."""
    text = json.dumps(row, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()[:-1]
    return text + _MARK + f"{zlib.crc32(text):08x}".encode() + b'"}\n'


def unseal(line: bytes) -> dict[str, Any] | None:
    """The row of a sealed line without its newline, or None if it is damaged."""
    try:
        return opened(line) if _sound(line) else None
    except StoreError:
        return None


def _sound(line: bytes) -> bool:
    """Whether a line without its newline is as it was sealed: the checksum is that of the very bytes."""
    return line[-_TAIL:] == b'%b%08x"}' % (_MARK, zlib.crc32(line[:-_TAIL]))


def opened(line: bytes) -> dict[str, Any]:
    """The row of a line whose seal was looked at."""
    row = _decoded(line)
    row.pop("crc", None)
    return row


def opened_head(start: bytes) -> dict[str, Any]:
    """The fields that the `start` of such a line holds, cut before a comma between two of them."""
    return _decoded(start + b"}")


def _decoded(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; anybody can put a right checksum on what is none."""
    try:
        row = _decode(line.decode())[0]
    except (ValueError, RecursionError) as error:
        raise StoreError(f"a journal row cannot be read: {type(error).__name__}: {error}") from error
    if not isinstance(row, dict):
        raise StoreError(f"a journal row must be a JSON object, got {type(row).__name__}")
    if line.count(b"[") + line.count(b"{") > DEPTH and is_deep(row):  # the count is the cheaper question
        raise StoreError(f"a journal row is nested deeper than {DEPTH} levels (swerve list limits)")
    return row


class Journal:
    """An append-only journal; `sealed` and `batches` read what is committed, `append` commits one batch more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0
        self.end = 0  # the byte after the last commit read or written

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Every committed batch, in order."""
        return ([opened(line) for line in lines] for lines in self.sealed())

    def sealed(self) -> Iterator[list[bytes]]:
        """Every committed batch as sound lines, for those who do not need all rows at once, or all of a row."""
        self._count = self.end = 0
        if not os.path.lexists(self.path):
            return
        lines: list[bytes] = []
        position = held = 0
        with self._open(os.O_RDONLY) as file:
            size = os.fstat(file.fileno()).st_size  # what is written while this reads is for the next reader
            for number in itertools.count(1):
                line = file.readline(min(JOURNAL_LINE, size - position))
                held += len(line)
                if held > BATCH_BYTES or len(line) == JOURNAL_LINE:
                    raise self._damage(number, position, "is part of a line or batch that is too long")
                if not line.endswith(b"\n"):
                    return  # the end, or torn: the process died while writing this line
                if not _sound(line[:-1]):
                    raise self._damage(number, position, "is damaged")
                position += len(line)
                if not line.startswith(_COMMIT):
                    lines.append(line)
                    continue
                commit = opened(line)
                if commit.get("batch") != self._count or commit.get("rows") != len(lines):
                    start, batch = position - len(line), commit.get("batch")
                    raise self._damage(number, start, f"says that batch {batch} is incomplete or out of order")
                self._count, self.end = self._count + 1, position
                yield lines
                lines, held = [], 0

    def _open(self, flags: int) -> BinaryIO:
        try:
            return open_plain(self.path, flags)
        except OSError as error:
            raise EnvironmentFault(f"{self.path}: cannot be opened: {error.strerror}") from error

    def _damage(self, record: int, position: int, what: str) -> StoreError:
        return StoreError(
            f"{self.path}: record {record} at byte {position} {what}; earlier records are good, "
            "and 'swerve run … --repair' goes on from the last good batch of them"
        )

    def append(self, rows: Sequence[Row]) -> None:
        """Commit one batch: a single write and a single fsync; all committed batches must have been read before."""
        commit = {"kind": COMMIT, "batch": self._count, "rows": len(rows)}
        data = b"".join(map(seal, (*rows, commit)))
        try:
            new = not self.path.exists()
            with open_plain(self.path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if new else 0)) as file:
                os.ftruncate(file.fileno(), self.end)
                os.lseek(file.fileno(), self.end, os.SEEK_SET)
                _write_all(file.fileno(), data)
                os.fsync(file.fileno())
            if new:
                sync_folder(self.path.parent)
        except OSError as error:
            raise EnvironmentFault(f"{self.path}: cannot write {len(data)} bytes: {error.strerror}") from error
        self._count, self.end = self._count + 1, self.end + len(data)


@dataclass(frozen=True)
class Repair:
    """What a repair did: how many records it cut off, from which byte on, and where the old journal is."""

    records: int
    byte: int
    copy: Path

    def __str__(self) -> str:
        many = f"{self.records:,} record{'' if self.records == 1 else 's'}"
        cut = f"{many} from byte {self.byte} on were cut off, as one is damaged"
        return f"repaired: {cut}; the old journal is in {self.copy}"


def repair_journal(path: Path) -> Repair | None:
    """Cut a damaged journal back to its last good batch, and keep a copy of what was there; None if it is sound."""
    journal = Journal(path)
    try:
        for _ in journal.batches():
            pass
    except StoreError:
        copy = _free(path)
        try:
            data = path.read_bytes()
            write_whole(copy, data)
            with open_plain(path, os.O_RDWR) as file:
                file.truncate(journal.end)
                os.fsync(file.fileno())
        except OSError as error:
            raise EnvironmentFault(f"{path}: cannot be repaired: {error.strerror}") from error
        return Repair(len(data[journal.end :].splitlines()), journal.end, copy)
    return None


def _free(path: Path) -> Path:
    """A name for a copy that no earlier repair has taken: `.damaged.jsonl`, `.damaged-2.jsonl` and so on."""
    names = (path.with_suffix(f".damaged{f'-{number}' if number > 1 else ''}.jsonl") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
