"""The journal of a run: JSON lines with a checksum each, committed in batches.

    {"kind": "baseline", ..., "crc": "5d0b31f2"}
    {"kind": "commit", "batch": 0, "rows": 1, "crc": "a7c1e09d"}

A batch is valid once its commit line is on disk. An incomplete end, left by a process that was
killed while writing, is dropped; a damaged line anywhere else is an error that names the line.
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
from swerve.store.files import is_deep, open_plain, refuse_constant, sync_folder, whole_file

Row = Mapping[str, Any]
COMMIT = "commit"
BLOCK = 1 << 16  # bytes read at first from the end
BATCH_BYTES = 10 * JOURNAL_LINE  # held in memory until the commit line is read
_COMMIT = b'{"kind":"commit",'
_MARK = b',"crc":"'
_TAIL = len(_MARK) + 8 + len(b'"}')
# json.dumps would make an encoder for every line.
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
# json.loads would detect the encoding of every line.
_raw_decode = json.JSONDecoder(parse_constant=refuse_constant).raw_decode


def encode_line(row: Row) -> bytes:
    """One journal line: the row as JSON, ending with the crc32 of all before it."""
    text = _encode(row).encode()[:-1]
    return text + _MARK + f"{zlib.crc32(text):08x}".encode() + b'"}\n'


def verified_row(line: bytes) -> dict[str, Any] | None:
    """The row of a line without its newline, or None if it is damaged."""
    try:
        return decode_line(line) if _is_intact(line) else None
    except StoreError:
        return None


def _is_intact(line: bytes) -> bool:
    """Whether the checksum of a line without its newline matches its bytes."""
    return line[-_TAIL:] == b'%b%08x"}' % (_MARK, zlib.crc32(line[:-_TAIL]))


def decode_line(line: bytes) -> dict[str, Any]:
    """The row of a line whose checksum was verified."""
    row = _decode_object(line)
    row.pop("crc", None)
    return row


def decode_head(start: bytes) -> dict[str, Any]:
    """The fields in the `start` of such a line, which was cut before a comma between two fields."""
    return _decode_object(start + b"}")


def _decode_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; a correct checksum does not prove that it is one."""
    try:
        row = _raw_decode(line.decode())[0]
    except (ValueError, RecursionError) as error:
        raise StoreError(f"a journal row cannot be read: {type(error).__name__}: {error}") from error
    if not isinstance(row, dict):
        raise StoreError(f"a journal row must be a JSON object, got {type(row).__name__}")
    if line.count(b"[") + line.count(b"{") > DEPTH and is_deep(row):  # counting is cheaper
        raise StoreError(f"a journal row is nested deeper than {DEPTH} levels (swerve list limits)")
    return row


def _committed(lines: Sequence[bytes]) -> Sequence[bytes]:
    """The lines up to the last commit."""
    end = next((place + 1 for place in reversed(range(len(lines))) if lines[place].startswith(_COMMIT)), 0)
    return lines[:end]


def _trailing(lines: Sequence[bytes], start: bytes) -> list[bytes]:
    """The intact lines at the end that are commits or begin with `start`."""
    wanted = itertools.takewhile(lambda line: line.startswith((_COMMIT, start)) and _is_intact(line), reversed(lines))
    return [*wanted][::-1]


class Journal:
    """An append-only journal; `line_batches` and `batches` read what is committed, `append` commits another batch.

    Up to `hold` bytes of lines that were read or written stay in memory for `again`; of a larger journal, none.
    """

    def __init__(self, path: Path, hold: int = 0) -> None:
        self.path = path
        self._count = 0
        self.end = 0  # the byte after the last commit read or written
        self._hold = hold
        self._held: list[list[bytes]] | None = [] if hold else None

    def again(self) -> Iterator[list[bytes]]:
        """The batches that were read or written so far, from memory; if they are not held, all of the file."""
        return Journal(self.path).line_batches() if self._held is None else iter(self._held)

    @property
    def is_current(self) -> bool:
        """Whether the file ends with what was read or written last."""
        return os.path.lexists(self.path) and os.lstat(self.path).st_size == self.end

    def _keep(self, lines: list[bytes]) -> None:
        """Hold a batch that was read or written, unless all together have become too large."""
        if self._held is not None:
            self._held.append(lines)
            if self.end > self._hold:
                self._held = None

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Every committed batch, in order."""
        return ([decode_line(line) for line in lines] for lines in self.line_batches())

    def line_batches(self) -> Iterator[list[bytes]]:
        """Every committed batch as verified lines, for readers that decode one row at a time or only parts of rows."""
        self._count = self.end = 0
        self._held = [] if self._hold else None
        if not os.path.lexists(self.path):
            return
        lines: list[bytes] = []
        position = held = 0
        with self._open(os.O_RDONLY) as file:
            size = os.fstat(file.fileno()).st_size  # what is appended meanwhile is not read
            for number in itertools.count(1):
                line = file.readline(min(JOURNAL_LINE, size - position))
                held += len(line)
                if held > BATCH_BYTES or len(line) == JOURNAL_LINE:
                    raise self._damage(number, position, "is part of a line or batch that is too long")
                if not line.endswith(b"\n"):
                    return  # the end, or an incomplete line of a killed process
                if not _is_intact(line[:-1]):
                    raise self._damage(number, position, "is damaged")
                position += len(line)
                if not line.startswith(_COMMIT):
                    lines.append(line)
                    continue
                commit = decode_line(line)
                if commit.get("batch") != self._count or commit.get("rows") != len(lines):
                    start, batch = position - len(line), commit.get("batch")
                    raise self._damage(number, start, f"says that batch {batch} is incomplete or out of order")
                self._count, self.end = self._count + 1, position
                self._keep(lines)
                yield lines
                lines, held = [], 0

    def last_lines(self, start: bytes) -> list[bytes]:
        """The committed lines that begin with `start`, as far as no others follow them; the rest is not read."""
        if not os.path.lexists(self.path):
            return []
        with self._open(os.O_RDONLY) as file:
            size = os.fstat(file.fileno()).st_size
            length = min(size, BLOCK)
            while True:
                file.seek(size - length)
                lines = file.read(length).split(b"\n")
                whole = _committed(lines[0 if length == size else 1 : -1])  # the first may lack its start, the last its end
                found = _trailing(whole, start)
                if len(found) < len(whole) or length == size or len(lines[0]) > JOURNAL_LINE:
                    return [line for line in found if line.startswith(start)]
                length = min(size, 2 * length)

    def _open(self, flags: int) -> BinaryIO:
        try:
            return open_plain(self.path, flags)
        except OSError as error:
            raise EnvironmentFault(f"{self.path}: cannot be opened: {error.strerror}") from error

    def _damage(self, record: int, position: int, what: str) -> StoreError:
        return StoreError(
            f"{self.path}: record {record} at byte {position} {what}; earlier records are good, "
            "and 'swerve run … --repair' continues from the last good batch"
        )

    def append(self, rows: Sequence[Row]) -> None:
        """Commit one batch with one write and one fsync; all committed batches must have been read before."""
        commit = {"kind": COMMIT, "batch": self._count, "rows": len(rows)}
        lines = [encode_line(row) for row in rows]
        data = b"".join((*lines, encode_line(commit)))
        if (longest := max(map(len, lines), default=0)) >= JOURNAL_LINE or len(data) > BATCH_BYTES:  # unreadable later
            what = f"a line of {longest} bytes in a batch of {len(data)} is too long"
            raise StoreError(f"{self.path}: {what}; at most {JOURNAL_LINE} and {BATCH_BYTES} bytes can be stored")
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
        self._keep(lines)


@dataclass(frozen=True)
class Repair:
    """The result of a repair: how many records were removed, from which byte on, and where the old journal is."""

    records: int
    byte: int
    copy: Path

    def __str__(self) -> str:
        many = f"{self.records:,} record{'' if self.records == 1 else 's'}"
        verb = "was" if self.records == 1 else "were"
        return f"repaired: {many} from byte {self.byte} on {verb} removed because of damage; the old journal is {self.copy}"


def repair_journal(path: Path) -> Repair | None:
    """Truncate a damaged journal to its last good batch and keep a copy of the old one; None if it is intact."""
    journal = Journal(path)
    try:
        for _ in journal.batches():
            pass
    except StoreError:
        copy = _unused_name(path)
        try:
            with open_plain(path) as file:
                records = _count_lines(file.fileno(), journal.end)
                file.seek(0)
                with whole_file(path) as good:
                    _copy_start(file, good, journal.end)
                    os.link(path, copy)  # the old file keeps this name when the new one takes its place
        except OSError as error:
            raise EnvironmentFault(f"{path}: cannot be repaired: {error.strerror}") from error
        return Repair(records, journal.end, copy)
    return None


def _count_lines(handle: int, position: int) -> int:
    """The lines from a byte on, the last one without a newline included; holes of a sparse file are not read."""
    count, size, block = 0, os.fstat(handle).st_size, b"\n"
    while position < size:
        try:
            position = os.lseek(handle, position, os.SEEK_DATA)
        except OSError:  # only a hole is left
            return count + 1
        block = os.pread(handle, BLOCK, position)
        count, position = count + block.count(b"\n"), position + len(block)
    return count + (not block.endswith(b"\n"))


def _copy_start(old: BinaryIO, new: BinaryIO, length: int) -> None:
    while length and (block := old.read(min(length, BLOCK))):
        new.write(block)
        length -= len(block)


def _unused_name(path: Path) -> Path:
    """A name for a copy that does not exist yet: `.damaged.jsonl`, `.damaged-2.jsonl` and so on."""
    names = (path.with_suffix(f".damaged{f'-{number}' if number > 1 else ''}.jsonl") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
