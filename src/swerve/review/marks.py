"""One reviewer's marks: a file of checksummed lines in `RUN/review/`, one line appended for each mark.

    {"kind": "reviewer", "format": 1, "name": "anna", "crc": "…"}
    {"kind": "mark", "finding": "3ec7991a39756a22", "mark": "unnatural", "comment": "", "crc": "…"}

The last line about a finding counts; a withdrawn mark is a line with `"mark": null`. An incomplete last line, left by a
process that died while writing, is dropped; any other unreadable line is an error that names its number.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from swerve.core.errors import EnvironmentFault, InputError, StoreError
from swerve.core.seeding import digest_of
from swerve.store.files import make_folder, open_plain, sync_folder
from swerve.store.journal import Row, encode_line, verified_row

FOLDER, SUFFIX = "review", ".jsonl"
FORMAT = 1
LONGEST_NAME, LONGEST_COMMENT = 60, 2000
LARGEST_FILE = 64 * 2**20
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_-]{0,39}")


class Mark(StrEnum):
    """A reviewer's mark: a trial that held is natural or unnatural, a finding is any of the other three."""

    TRUE = "true positive"
    FALSE = "false positive"
    UNNATURAL = "unnatural"
    NATURAL = "natural"


OF_FINDINGS = (Mark.TRUE, Mark.FALSE, Mark.UNNATURAL)
OF_HELD = (Mark.NATURAL, Mark.UNNATURAL)


@dataclass(frozen=True)
class Judgement:
    """One reviewer's mark of one finding; `mark` is None for a comment alone, or if it was withdrawn."""

    finding: str
    mark: Mark | None
    comment: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "comment", clean_comment(self.comment))

    @property
    def empty(self) -> bool:
        """Whether it has neither mark nor comment."""
        return self.mark is None and not self.comment


Judgements = Mapping[str, Judgement]  # by finding


def clean_comment(text: str) -> str:
    """A comment as it is stored: no control characters but newline and tab, at most `LONGEST_COMMENT` characters."""
    lines = text.encode(errors="replace").decode().replace("\r\n", "\n").replace("\r", "\n")
    kept = "".join(ch for ch in lines if ch in "\n\t" or (ord(ch) >= 32 and ord(ch) != 127))
    return kept.strip()[:LONGEST_COMMENT].rstrip()


def mark_of(text: object) -> Mark:
    """The mark called `text`; case and surrounding blanks do not matter."""
    try:
        return Mark(str(text).strip().lower())
    except ValueError:
        raise InputError(f"'{str(text)[:LONGEST_NAME]}' is not a mark; the marks are {_quoted(Mark)}") from None


def fitting_mark(text: object, *, held: bool) -> Mark:
    """The mark called `text`, which must fit a trial that held, or a finding."""
    mark, fitting = mark_of(text), OF_HELD if held else OF_FINDINGS
    if mark not in fitting:
        what = "a trial that held" if held else "a finding"
        raise InputError(f"'{mark}' is not a mark for {what}; use {_quoted(fitting)}")
    return mark


def _quoted(marks: Iterable[Mark]) -> str:
    return ", ".join(f"'{mark}'" for mark in marks)


def reviewer_name(text: str) -> str:
    """`text` as a reviewer's name: one line of 1 to 60 visible characters."""
    name = text.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError(f"a reviewer's name must be 1 to {LONGEST_NAME} visible characters on one line, got '{name}'")
    return name


class MarkFile:
    """The marks of one reviewer on disk; any number of processes may add to it."""

    def __init__(self, run: Path, reviewer: str) -> None:
        self.reviewer = reviewer_name(reviewer)
        self.path = run / FOLDER / _file_name(self.reviewer)

    def read(self) -> dict[str, Judgement]:
        """The latest judgement of each finding, in the order in which they were first judged."""
        return _read(self.path)[1] if self.path.exists() else {}

    def add(self, judgements: Iterable[Judgement]) -> None:
        """Append `judgements` with one write and one sync: on return they survive a power cut."""
        rows = [_row(one) for one in judgements]
        if not rows:
            return
        make_folder(self.path.parent)
        try:
            with _locked(self.path) as file:
                start = _seek_end(file)
                head: list[Row] = [] if start else [{"kind": "reviewer", "format": FORMAT, "name": self.reviewer}]
                file.write(b"".join(map(encode_line, (*head, *rows))))
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self.path.parent)
        except OSError as error:
            raise EnvironmentFault(f"{self.path}: the mark cannot be saved: {error.strerror}") from error


def read_marks(run: Path) -> dict[str, dict[str, Judgement]]:
    """The latest judgements of every reviewer of a run folder, by name."""
    folder = run / FOLDER
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    read = (_read(file) for file in files)
    return dict(sorted(one for one in read if one[0]))


def _file_name(reviewer: str) -> str:
    """A file name for any reviewer's name; `Anna` and `anna` differ even where file names ignore case."""
    if _PLAIN.fullmatch(reviewer):
        return reviewer + SUFFIX
    plain = re.sub(r"[^a-z0-9_]+", "-", reviewer.lower()).strip("-")[:30] or "reviewer"
    return f"{plain}-{digest_of(reviewer)[:8]}{SUFFIX}"


def _locked(path: Path) -> BinaryIO:
    """The file open for reading and writing, under a lock that ends with the process."""
    file = open_plain(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _seek_end(file: BinaryIO) -> int:
    """Seek to the end of the last complete line, cutting off what a killed process left; returns the position."""
    end = _newline_end(file)
    file.seek(end)
    if _is_finished(file.read()):
        file.write(b"\n")
    else:
        file.truncate(end)
        file.seek(end)
    return file.tell()


def _newline_end(file: BinaryIO) -> int:
    """The position after the last newline."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(end - 4096, 0)
        file.seek(start)
        if (found := file.read(end - start).rfind(b"\n")) >= 0:
            return start + found + 1
        end = start
    return 0


def _is_finished(tail: bytes) -> bool:
    """Whether a last line without a newline is complete: an editor removed the newline, not a killed process."""
    end = tail.rstrip()
    return end.endswith(b'"}') and not end.endswith(b'\\"}')  # a quote inside a comment is escaped


def _read(path: Path) -> tuple[str, dict[str, Judgement]]:
    """The reviewer's name in `path` and the latest judgement of each finding; no name without a complete line."""
    lines = _rows(path)
    first = next(lines, None)
    if first is None:
        return "", {}
    name = _head(path, first[1])
    judgements: dict[str, Judgement] = {}
    for number, row in lines:
        judgement = _judgement(row)
        if judgement is None:
            raise _damaged(path, number)
        judgements[judgement.finding] = judgement
    return name, {finding: one for finding, one in judgements.items() if not one.empty}


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_lines(path), 1):
        row = _unsealed(line)
        if row is None:
            raise _damaged(path, number)
        yield number, row


def _lines(path: Path) -> list[bytes]:
    """The complete lines of a file; a pipe, a link or a huge file is refused before it is opened."""
    try:
        if path.is_symlink() or not path.is_file():
            raise StoreError(f"{path}: is not a regular file; remove it from the folder")
        if path.stat().st_size > LARGEST_FILE:
            raise StoreError(f"{path}: is larger than {LARGEST_FILE >> 20} MB, too large for one reviewer's marks")
        *lines, tail = path.read_bytes().split(b"\n")
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot be read: {error.strerror}") from error
    return [*lines, tail] if _is_finished(tail) else lines


def _unsealed(line: bytes) -> dict[str, Any] | None:
    try:
        return verified_row(line)
    except (ValueError, RecursionError):  # a correct checksum of something that is not JSON
        return None


def _head(path: Path, row: Mapping[str, Any]) -> str:
    """The reviewer's name in the first line, which must match the file name."""
    if row.get("kind") != "reviewer" or not isinstance(row.get("name"), str):
        raise StoreError(f"{path}: line 1 does not name the reviewer; restore the file, or delete it and mark again")
    if row.get("format") != FORMAT:
        raise StoreError(f"{path}: written in format {row.get('format')}, this version reads format {FORMAT}")
    name: str = row["name"]
    if _file_name(name) != path.name:
        raise StoreError(f"{path}: line 1 names the reviewer '{name}', whose file is called {_file_name(name)}; rename it")
    return name


def _row(one: Judgement) -> Row:
    return {"kind": "mark", "finding": one.finding, "mark": one.mark, "comment": one.comment}


def _judgement(row: Mapping[str, Any]) -> Judgement | None:
    finding, mark, comment = (row.get(key) for key in ("finding", "mark", "comment"))
    known = mark is None or mark in tuple(Mark)
    if row.get("kind") != "mark" or not known or not isinstance(finding, str) or not isinstance(comment, str):
        return None
    return Judgement(finding, None if mark is None else Mark(mark), comment)


def _damaged(path: Path, number: int) -> StoreError:
    return StoreError(
        f"{path}: line {number} is damaged or was edited by hand; delete that line and repeat its mark on the page "
        "(to edit many marks: swerve review RUN --export FILE.csv, then --import)"
    )
