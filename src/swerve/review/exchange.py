"""Export and import of marks as CSV, for spreadsheets, other programs and pages sent to reviewers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swerve.core.errors import EnvironmentFault, InputError, did_you_mean
from swerve.review.agreement import Review
from swerve.review.marks import Judgement, Judgements, MarkFile, fitting_mark, read_marks, reviewer_name
from swerve.review.queue import judged
from swerve.store.files import write_csv
from swerve.store.record_json import is_finding
from swerve.store.view import Run

COLUMNS = ("reviewer", "finding", "mark", "comment", "rule", "case", "change")
NEEDED = ("finding", "mark")
READ = ("reviewer", *NEEDED, "comment")
LARGEST_FILE = 64 * 2**20
SHOWN = 20  # bad lines listed at a time
# `write_csv` prefixes a quote to cells that a spreadsheet would take for a formula. Texts that start with such a quote get
# another one, so that removing one always restores the text.
_QUOTED = re.compile(r"'+[=+\-@\t\r]")


class BadMarks(InputError):
    """A CSV file of marks that cannot be imported; `changed` lists its bad lines."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        more = len(faults) - SHOWN
        self.details = (*faults[:SHOWN], *([f"and {more} more lines"] if more > 0 else ()))
        lines = "1 line" if len(faults) == 1 else f"{len(faults)} lines"
        super().__init__(f"{path}: {lines} cannot be used, so nothing was imported; correct or remove the listed lines")


@dataclass(frozen=True)
class Imported:
    """The result of an import: new or changed marks by reviewer, and the number of unchanged ones."""

    changed: Mapping[str, int]
    same: int


def export_marks(review: Review, path: Path, *, reviewer: str | None = None) -> int:
    """Write all marks, or those of `reviewer`, to a CSV file, including those of unknown findings; returns their number."""
    rows = [row for row in _rows(review) if reviewer in (None, row[0])]
    write_csv(path, COLUMNS, ([_guarded(cell) for cell in row] for row in rows))
    return len(rows)


def _rows(review: Review) -> Iterator[tuple[str, ...]]:
    for name, judgements in review.marks.items():
        for one in judgements.values():
            row = review.trials.get(one.finding, {})
            about = (str(row.get(key, "")) for key in ("rule", "case", "words"))
            yield (name, one.finding, one.mark or "", one.comment, *about)


def _guarded(cell: str) -> str:
    return f"'{cell}" if _QUOTED.match(cell) else cell


def _unguarded(cell: str) -> str:
    return cell[1:] if _QUOTED.match(cell) else cell


def import_marks(run: Run, path: Path, *, reviewer: str | None = None) -> Imported:
    """Add the marks of a CSV file, all or none; `reviewer` is the name for rows without one."""
    before = read_marks(run.folder)  # a damaged file is reported before another is written
    known = {row["id"]: not is_finding(row) for row in judged(run)}
    given = _read(path, _Collected(reviewer and reviewer_name(reviewer), known, before))
    changed, same = dict[str, int](), 0
    for name, judgements in given.items():
        news = [one for one in judgements.values() if before.get(name, {}).get(one.finding) != one]
        MarkFile(run.folder, name).add(news)
        changed[name] = len(news)
        same += len(judgements) - len(news)
    return Imported(changed, same)


@dataclass
class _Collected:
    reviewer: str | None
    known: Mapping[str, bool]  # by id, whether the trial held
    before: Mapping[str, Judgements]
    judgements: dict[str, dict[str, Judgement]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, line: int, header: Sequence[str], cells: Sequence[str]) -> None:
        """Add one row, or note what is wrong with it."""
        row = dict(zip(header, cells, strict=False))
        try:
            if any(cell.strip() for cell in cells[len(header) :]):
                raise InputError(
                    f"{len(cells)} cells for {len(header)} columns; put quotes around text with a comma or semicolon"
                )
            name = reviewer_name(row.get("reviewer") or self.reviewer or "")
            one = self._judgement(name, row)
            if self.judgements.setdefault(name, {}).setdefault(one.finding, one) != one:
                raise InputError(f"reviewer '{name}' gives finding {one.finding} two different marks")
        except InputError as error:
            self.faults.append(f"line {line}: {error}")

    def _judgement(self, name: str, row: Mapping[str, str]) -> Judgement:
        finding, mark = (row.get(column, "").strip() for column in NEEDED)
        if finding not in self.known:
            raise InputError(f"the run has no finding '{finding}'{self._hint(finding)}")
        given = None if not mark and row.get("comment") else fitting_mark(mark, held=self.known[finding])
        return Judgement(finding, given, row.get("comment", self._comment(name, finding)))

    def _comment(self, name: str, finding: str) -> str:
        """The present comment, which a row without a comment cell keeps."""
        present = self.before.get(name, {})
        return present[finding].comment if finding in present else ""

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
    return collected.judgements


def _check(path: Path, header: list[str], reviewer: str | None) -> None:
    needed = NEEDED if reviewer else ("reviewer", *NEEDED)
    if missing := [name for name in needed if name not in header]:
        hint = "; or name the reviewer with --reviewer NAME" if "reviewer" in missing else ""
        raise InputError(f"{path}: line 1 must name the columns {', '.join(needed)}; missing: {', '.join(missing)}{hint}")
    if twice := [name for name in READ if header.count(name) > 1]:
        raise BadMarks(path, [f"line 1: the column {' and '.join(twice)} occurs more than once"])


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise InputError(f"{path}: is not a file")
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path}: is larger than {LARGEST_FILE >> 20} MB, too large for a file of marks")
        data = path.read_bytes()
    except OSError as error:
        raise EnvironmentFault(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line} is not UTF-8 text; save the file as CSV UTF-8") from None


def _delimiter(text: str) -> str:
    """A comma, or the semicolon that spreadsheets write in locales with decimal commas."""
    head = text.partition("\n")[0]
    return ";" if head.count(";") > head.count(",") else ","
