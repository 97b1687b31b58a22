"""Rows of a table as a page shows them: some of its rows and columns, numbers in their formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swerve.report.experiment_page import PRINTED, TablePanel
from swerve.report.quantities import HIDDEN, Row, shown

Note = str | Callable[[Any], str]  # written, or computed from the results
Format = str | Callable[[Sequence[float]], str]  # a spec such as `.1%`, or a function that chooses one for a column
PERCENT, SMALL = ".1%", ".2g"
USUAL_DIGITS, MOST_DIGITS = 1, 5  # of a percentage whose size is not known
# How columns with these names, or names that end with them, are shown by default.
ENDINGS = {**dict.fromkeys(("rate", "share", "low", "high"), PERCENT), **dict.fromkeys(("p", "p (Holm)"), SMALL)}


@dataclass(frozen=True)
class TableView:
    """How a page shows a table: the rows with the cells of `where`, without `hidden` columns; `main` in the terminal too."""

    title: str
    note: Note = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    main: bool = True
    more: Note = ""  # added to the note

    def panel(self, results: Any, rows: Sequence[Row], csv: str, formats: Mapping[str, Format]) -> TablePanel:
        """The panel of some rows; columns of the paper's numbers are left out where it prints none."""
        chosen = [row for row in rows if all(row.get(name) == cell for name, cell in self.where.items())]
        unseen = {*self.where, *self.hidden, *(name for name in columns_of(chosen) if _is_unprinted(name, chosen))}
        columns = _side_by_side([name for name in columns_of(chosen) if name not in unseen])
        forms = {name: _format(name, formats, chosen) for name in columns}
        cells = tuple(tuple(shown(row.get(name), forms[name]) for name in columns) for row in chosen)
        printed = tuple(name for name in columns if name.startswith(PRINTED))
        note, main = describe(self.note, results) + describe(self.more, results), self.main and bool(chosen)
        return TablePanel(self.title, tuple(columns), cells, note, printed=printed, csv=csv, formats=forms, main=main)


def describe(note: Note, results: Any) -> str:
    """A note, written or computed."""
    return note if isinstance(note, str) else note(results)


def columns_of(rows: Iterable[Row]) -> list[str]:
    """The columns of some rows, in the order of their first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row if name[:1] != HIDDEN))


def _side_by_side(columns: Sequence[str]) -> list[str]:
    """The columns with each of the paper's right after ours of the same name, where there is one."""
    ours = [name for name in columns if name.removeprefix(PRINTED) == name or name.removeprefix(PRINTED) not in columns]
    return [one for name in ours for one in (name, f"{PRINTED}{name}") if one in columns]


def _is_unprinted(column: str, rows: Sequence[Row]) -> bool:
    return column.startswith(PRINTED) and all(row.get(column) is None for row in rows)


def _format(column: str, formats: Mapping[str, Format], rows: Sequence[Row]) -> str:
    form = formats.get(column) or next((form for end, form in ENDINGS.items() if f" {column}".endswith(f" {end}")), "")
    return form if isinstance(form, str) else form([row[column] for row in rows if isinstance(row.get(column), float)])


def percent(numbers: Sequence[float]) -> str:
    """The format of a column of percentages, of which some may be small."""
    return f"+.{digits([abs(number) for number in numbers if number])}%"


def digits(sizes: Sequence[float]) -> int:
    """As many decimals as the largest needs not to be shown as 0, and one more than usual if that helps smaller ones."""
    needed = [min(max(-math.floor(math.log10(100 * size)), USUAL_DIGITS), MOST_DIGITS) for size in sizes]
    return max(min(needed), min(max(needed), USUAL_DIGITS + 1)) if needed else USUAL_DIGITS
