"""Cells that know how certain they are: a CSV file holds their numbers, a page also shows rates and intervals."""

from __future__ import annotations

import tomllib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swerve.analysis.statistics import box_plot, holm, mean_of_runs, wilson
from swerve.report.cells import NOTHING
from swerve.report.experiment_page import PRINTED

Row = dict[str, Any]  # cells by column
WHISKERS = ("low", "first", "median", "third", "high")  # of a box plot, from left to right
HIDDEN = "_"  # starts the names of cells that are looked up but neither written nor shown


@dataclass(frozen=True)
class Counted:
    """A count out of a total: shown with its rate and, unless a paper `printed` it, the rate's 95% Wilson interval."""

    count: int | None
    of: int | None
    printed: bool = False

    @property
    def rate(self) -> float | None:
        """Its share of the total."""
        return self.count / self.of if self.count is not None and self.of else None

    def plain(self) -> int | None:
        """The count alone."""
        return self.count

    def shown(self, form: str) -> str:
        """Such as `12 (2.4%, 1.4–4.1%)`."""
        if self.count is None:
            return NOTHING
        text = format(self.count, form or ",d")
        if not self.of or self.count > self.of:
            return text
        rate = f"{self.count / self.of:.1%}"
        low, high = wilson(self.count, self.of)
        return f"{text} ({rate})" if self.printed else f"{text} ({rate}, {100 * low:.1f}–{high:.1%})"


@dataclass(frozen=True)
class Measured:
    """A number with its interval; a CSV file has a column for each of the three, or for the number alone if not `wide`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    wide: bool = True

    def plain(self) -> float | None:
        """The number alone."""
        return self.value

    def shown(self, form: str) -> str:
        """Such as `43.6 (41.2 – 46.0)`."""
        if self.value is None:
            return NOTHING
        value, *ends = (format(one, form or ".3g") for one in (self.value, self.low, self.high) if one is not None)
        return f"{value} ({' – '.join(ends)})" if len(ends) > 1 else value


def shown(cell: Any, form: str) -> Any:
    """A cell as a page takes it: quantities as text, anything else unchanged."""
    return cell.shown(form) if isinstance(cell, Counted | Measured) else cell


def plain_cells(row: Row) -> Row:
    """The cells of a row as a CSV file has them."""
    return {name: cell for column, whole in row.items() for name, cell in _plain(column, whole) if name[:1] != HIDDEN}


def _plain(column: str, cell: Any) -> Iterator[tuple[str, Any]]:
    yield column, cell.plain() if isinstance(cell, Counted | Measured) else cell
    if isinstance(cell, Measured) and cell.wide:
        yield from ((f"{column} low", cell.low), (f"{column} high", cell.high))


@dataclass(frozen=True)
class Printed:
    """The numbers of a paper's table: those of a row are found by its cells in the columns `by`."""

    by: tuple[str, ...]
    values: Mapping[Any, Mapping[str, Any]]  # by a tuple of cells

    def beside(self, row: Row) -> Row:
        """The row with the paper's numbers, None where it prints none."""
        found = self.values.get(tuple(row.get(column) for column in self.by), {})
        columns = dict.fromkeys(column for numbers in self.values.values() for column in numbers)
        return {**row, **{f"{PRINTED}{column}": found.get(column) for column in columns}}


def read_printed(file: Path) -> dict[str, Printed]:
    """The tables of a paper, from a TOML file: each has `rows` of cells in the columns `by` and `columns`; "" is unknown.

    `of` is the total that all numbers were counted from, or for some columns a total or the column with the total. A cell
    with a total of its own is a list of both.
    """
    return {name: _printed(**table) for name, table in tomllib.loads(file.read_text(encoding="utf-8")).items()}


def _printed(by: list[str], columns: list[str], rows: list[list[Any]], of: Any = None) -> Printed:
    totals = of if isinstance(of, dict) else dict.fromkeys(columns, of)
    values = {}
    for row in rows:
        cells = dict(zip(columns, row[len(by) :], strict=True))
        values[(*row[: len(by)],)] = {name: _printed_cell(cell, totals.get(name), cells) for name, cell in cells.items()}
    return Printed(tuple(by), values)


def _printed_cell(cell: Any, of: Any, cells: Row) -> Any:
    """A number of the paper, with its total if that is known; None if the number is unknown."""
    if cell == "":
        return None
    count, total = cell if isinstance(cell, list) else (cell, cells[of] if isinstance(of, str) else of)
    return Counted(count, total, printed=True) if total else count


def total(counts: Iterable[Counted]) -> Counted:
    """Several counts as one, whose total is known if all of theirs are."""
    some = list(counts)
    of = None if any(one.of is None for one in some) else sum(one.of or 0 for one in some)
    return Counted(sum(one.count or 0 for one in some), of, any(one.printed for one in some))


def rated(count: int | None, of: int, names: Sequence[str] = ("rate", "low", "high")) -> Row:
    """The cells of a share and its 95% Wilson interval; None where there is nothing to share."""
    cells = (count / of, *wilson(count, of)) if count is not None and of else (None, None, None)
    return dict(zip(names, cells, strict=True))


def box_cells(numbers: Sequence[float]) -> Row:
    """The cells of a box plot: its quartiles and whiskers, None without numbers."""
    box = box_plot(numbers)
    return {name: getattr(box, name, None) for name in WHISKERS}


def holm_corrected(rows: Sequence[Row], *columns: str) -> list[Row]:
    """The rows with Holm's correction of each of `columns` over all of them, in the column `… (Holm)`."""
    known = {f"{name} (Holm)": holm([row[name] for row in rows]) for name in columns}
    return [{**row, **{name: cells[place] for name, cells in known.items()}} for place, row in enumerate(rows)]


def averaged(rows: Iterable[Row], over: str, columns: Sequence[str]) -> Iterator[Row]:
    """Rows that differ only in `over`, such as the seed, as one: the mean of each of `columns` with Student's interval."""
    groups: dict[tuple[Hashable, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(cell for name, cell in row.items() if name not in (over, *columns)), []).append(row)
    for some in groups.values():
        means = {name: mean_of_runs([row[name] for row in some if row[name] is not None]) for name in columns}
        kept = {name: cell for name, cell in some[0].items() if name not in (over, *columns)}
        yield {**kept, "runs": len(some), **{name: Measured(one.value, one.low, one.high) for name, one in means.items()}}
