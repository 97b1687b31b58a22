"""Marks as a CSV file, out and in: for a spreadsheet, for another program, and from a page that was sent to somebody."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swerve.errors import EnvironmentFault, InputError, did_you_mean
from swerve.files import write_csv
from swerve.review.agreement import Review
from swerve.review.marks import Judgement, MarkFile, mark_of, reviewer_name
from swerve.rows import is_finding
from swerve.store import Run

COLUMNS = ("reviewer", "finding", "mark", "comment", "rule", "case", "change")
NEEDED = ("finding", "mark")
LARGEST_FILE = 64 * 2**20
TOLD = 20  # bad lines listed at a time
# `write_csv` puts a quote before what a spreadsheet would take for a formula. Text that has such a quote of its own gets one
# more, so that taking one away always gives the text back.
_QUOTED = re.compile(r"'+[=+\-@\t\r]")


class BadMarks(InputError):
    """A CSV file of marks that cannot be used; `changed` lists its bad lines."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        more = len(faults) - TOLD
        self.changed = (*faults[:TOLD], *([f"and {more} lines more"] if more > 0 else ()))
        lines = "1 line" if len(faults) == 1 else f"{len(faults)} lines"
        super().__init__(f"{path}: {lines} cannot be used, so nothing was imported; mend or take out what is listed")


@dataclass(frozen=True)
class Imported:
    """What an import did: marks by reviewer that are new or changed, and how many were there already."""

    changed: Mapping[str, int]
    same: int


def export_marks(review: Review, path: Path, *, reviewer: str | None = None) -> int:
    """Write all marks, or those of `reviewer`, to a CSV file and say how many; unknown findings come along."""
    rows = [row for row in _rows(review) if reviewer in (None, row[0])]
    write_csv(path, COLUMNS, ([_guarded(cell) for cell in row] for row in rows))
    return len(rows)


def _rows(review: Review) -> Iterator[tuple[str, ...]]:
    for name, said in review.marks.items():
        for one in said.values():
            row = review.findings.get(one.finding, {})
            about = (str(row.get(key, "")) for key in ("rule", "case", "words"))
            yield (name, one.finding, one.mark or "", one.comment, *about)


def _guarded(cell: str) -> str:
    return f"'{cell}" if _QUOTED.match(cell) else cell


def _unguarded(cell: str) -> str:
    return cell[1:] if _QUOTED.match(cell) else cell


def import_marks(run: Run, path: Path, *, reviewer: str | None = None) -> Imported:
    """Add the marks of a CSV file, all or none; `reviewer` is whose marks they are where the file does not say."""
    given = _read(path, reviewer, known={row["id"] for row in run.trials() if is_finding(row)})
    changed, same = Counter[str](), 0
    for name, said in given.items():
        file = MarkFile(run.folder, name)
        before = file.read()
        news = [one for one in said.values() if before.get(one.finding) != one]
        file.add(news)
        changed[name] = len(news)
        same += len(said) - len(news)
    return Imported(changed, same)


@dataclass
class _Collected:
    reviewer: str | None
    known: Collection[str]
    said: dict[str, dict[str, Judgement]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, line: int, row: Mapping[str, str]) -> None:
        """Take one row, or note what is wrong with it."""
        try:
            name = reviewer_name(row.get("reviewer") or self.reviewer or "")
            one = self._judgement(row)
            if self.said.setdefault(name, {}).setdefault(one.finding, one) != one:
                raise InputError(f"'{name}' marks finding {one.finding} twice, in different ways")
        except InputError as error:
            self.faults.append(f"line {line}: {error}")

    def _judgement(self, row: Mapping[str, str]) -> Judgement:
        finding, mark = row["finding"].strip(), row["mark"].strip()
        if finding not in self.known:
            raise InputError(f"the run has no finding '{finding}'{self._hint(finding)}")
        return Judgement(finding, None if not mark and row.get("comment") else mark_of(mark), row.get("comment", ""))

    def _hint(self, finding: str) -> str:
        hint = did_you_mean(finding, [one for one in self.known if one[:4] == finding[:4]])
        return f"; {hint}" if hint.startswith("did") else ""


def _read(path: Path, reviewer: str | None, *, known: Collection[str]) -> dict[str, dict[str, Judgement]]:
    text = _text(path)
    collected = _Collected(reviewer and reviewer_name(reviewer), known)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        header = [cell.strip().lower() for cell in next(lines, [])]
        _check(path, header, reviewer)
        start = lines.line_num + 1
        for cells in lines:
            if any(cell.strip() for cell in cells):
                padded = [*map(_unguarded, cells), *[""] * (len(header) - len(cells))]
                collected.add(start, dict(zip(header, padded, strict=False)))
            start = lines.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}: line {lines.line_num} is not CSV: {error}") from error
    if collected.faults:
        raise BadMarks(path, collected.faults)
    return collected.said


def _check(path: Path, header: list[str], reviewer: str | None) -> None:
    needed = NEEDED if reviewer else ("reviewer", *NEEDED)
    if missing := [name for name in needed if name not in header]:
        hint = "; or say whose marks they are with --reviewer NAME" if "reviewer" in missing else ""
        raise InputError(f"{path}: line 1 must name the columns {', '.join(needed)}; {', '.join(missing)} is missing{hint}")


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise InputError(f"{path}: is not a file")
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path}: is larger than {LARGEST_FILE >> 20} MB, so it cannot be a file of marks")
        data = path.read_bytes()
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line} is not UTF-8 text; save the file as CSV UTF-8") from None


def _delimiter(text: str) -> str:
    """Semicolons where a spreadsheet of a country with decimal commas wrote the file."""
    head = text.partition("\n")[0]
    return ";" if head.count(";") > head.count(",") else ","
