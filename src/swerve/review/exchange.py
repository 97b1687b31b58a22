"""Marks as a CSV file, out and in: for a spreadsheet, for another program, and from a page that was sent to somebody."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swerve.core.errors import EnvironmentFault, InputError, did_you_mean
from swerve.review.agreement import Review
from swerve.review.marks import Judgement, MarkFile, Said, fitting_mark, read_marks, reviewer_name
from swerve.review.queue import judged
from swerve.store.files import write_csv
from swerve.store.record_json import is_finding
from swerve.store.view import Run

COLUMNS = ("reviewer", "finding", "mark", "comment", "rule", "case", "change")
NEEDED = ("finding", "mark")
READ = ("reviewer", *NEEDED, "comment")
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
            row = review.trials.get(one.finding, {})
            about = (str(row.get(key, "")) for key in ("rule", "case", "words"))
            yield (name, one.finding, one.mark or "", one.comment, *about)


def _guarded(cell: str) -> str:
    return f"'{cell}" if _QUOTED.match(cell) else cell


def _unguarded(cell: str) -> str:
    return cell[1:] if _QUOTED.match(cell) else cell


def import_marks(run: Run, path: Path, *, reviewer: str | None = None) -> Imported:
    """Add the marks of a CSV file, all or none; `reviewer` is whose marks they are where the file does not say."""
    before = read_marks(run.folder)  # a file that does not read is told before another is written
    known = {row["id"]: not is_finding(row) for row in judged(run)}
    given = _read(path, _Collected(reviewer and reviewer_name(reviewer), known, before))
    changed, same = dict[str, int](), 0
    for name, said in given.items():
        news = [one for one in said.values() if before.get(name, {}).get(one.finding) != one]
        MarkFile(run.folder, name).add(news)
        changed[name] = len(news)
        same += len(said) - len(news)
    return Imported(changed, same)


@dataclass
class _Collected:
    reviewer: str | None
    known: Mapping[str, bool]  # whether the trial held
    before: Mapping[str, Said]
    said: dict[str, dict[str, Judgement]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, line: int, header: Sequence[str], cells: Sequence[str]) -> None:
        """Take one row, or note what is wrong with it."""
        row = dict(zip(header, cells, strict=False))
        try:
            if any(cell.strip() for cell in cells[len(header) :]):
                raise InputError(f"{len(cells)} cells for {len(header)} columns; quote a text that holds the separator")
            name = reviewer_name(row.get("reviewer") or self.reviewer or "")
            one = self._judgement(name, row)
            if self.said.setdefault(name, {}).setdefault(one.finding, one) != one:
                raise InputError(f"'{name}' marks finding {one.finding} twice, in different ways")
        except InputError as error:
            self.faults.append(f"line {line}: {error}")

    def _judgement(self, name: str, row: Mapping[str, str]) -> Judgement:
        finding, mark = (row.get(column, "").strip() for column in NEEDED)
        if finding not in self.known:
            raise InputError(f"the run has no finding '{finding}'{self._hint(finding)}")
        given = None if not mark and row.get("comment") else fitting_mark(mark, held=self.known[finding])
        return Judgement(finding, given, row.get("comment", self._comment(name, finding)))

    def _comment(self, name: str, finding: str) -> str:
        """What a row that has no cell for a comment leaves as it was."""
        said = self.before.get(name, {})
        return said[finding].comment if finding in said else ""

    def _hint(self, finding: str) -> str:
        hint = did_you_mean(finding, [one for one in self.known if one[:4] == finding[:4]])
        return f"; {hint}" if hint.startswith("did") else ""


def _read(path: Path, collected: _Collected) -> dict[str, dict[str, Judgement]]:
    text = _text(path)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        header = [cell.strip().lower() for cell in next(lines, [])]
        _check(path, header, collected.reviewer)
        start = lines.line_num + 1
        for cells in lines:
            if any(cell.strip() for cell in cells):
                collected.add(start, header, list(map(_unguarded, cells)))
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
    if twice := [name for name in READ if header.count(name) > 1]:
        raise BadMarks(path, [f"line 1: more than one column is called {' or '.join(twice)}"])


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
