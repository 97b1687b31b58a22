"""Questions and the evidence for their answers, declared: functions that yield rows of a table, draw a chart, or answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from markupsafe import Markup

from swerve.analysis.tables import TABLES
from swerve.core.values import Array
from swerve.experiments.results import Results
from swerve.report.experiment_page import ChartPanel, Part, PicturePanel, Section
from swerve.report.quantities import Printed, Row, plain_cells
from swerve.report.table_view import Format, Note, TableView, columns_of, describe
from swerve.store.files import make_folder, write_csv

Text = str | Callable[[Any], Iterable[str]]
Evidence = Callable[[Any], Iterable[Part]]  # a table, a chart, pictures, or any function of the results that yields panels
Chosen = Callable[[Any], Iterable[Any]]  # those of the subjects' runs that evidence is about


@dataclass(frozen=True, eq=False)
class ResultTable:
    """A table of an experiment: its rows, its file `tables/NAME.csv`, and how the page shows it."""

    make: Callable[[Results[Any]], Iterable[Row]]
    name: str = ""
    views: tuple[TableView, ...] = ()
    formats: Mapping[str, Format] = field(default_factory=dict)
    printed: Printed | None = None
    file: str = ""  # of another table, whose CSV file the page links to
    optional: bool = False  # without rows, neither written nor shown

    def rows(self, results: Results[Any]) -> list[Row]:
        """The rows with plain cells, as in the CSV file."""
        return [plain_cells(row) for row in self._rows(results)]

    def _rows(self, results: Results[Any]) -> list[Row]:
        if self not in results.tables:
            beside = self.printed.beside if self.printed else dict
            results.tables[self] = [beside(row) for row in self.make(results)]
        return results.tables[self]

    def __call__(self, results: Results[Any]) -> Iterator[Part]:
        """Write the CSV file and return the panels."""
        rows, plain = self._rows(results), self.rows(results)
        if self.optional and not rows:
            return
        if self.name:
            columns = columns_of(plain)
            folder = results.setting.into / TABLES
            make_folder(folder, parents=True)
            write_csv(folder / f"{self.name}.csv", columns, ([row.get(name) for name in columns] for row in plain))
        if unknown := sorted({*self.formats} - {*columns_of(rows)}) if rows else ():
            raise ValueError(
                f"table {self.name or self.views[0].title!r}: formats name {unknown[0]!r}, which is not a column"
            )
        file = self.name or self.file
        for view in self.views:
            yield view.panel(results, rows, f"{TABLES}/{file}.csv" if file else "", self.formats)


def table(
    name: str = "",
    title: str = "",
    *,
    note: Note | None = None,
    more: Note = "",
    each: str = "",
    of: Chosen = list,
    hidden: Sequence[str] = (),
    formats: Mapping[str, Format] | None = None,
    printed: Printed | None = None,
    main: bool = True,
    views: Sequence[TableView] = (),
    file: str = "",
    optional: bool = False,
) -> Callable[[Callable[[Any], Iterable[Row]]], ResultTable]:
    """A function that yields the rows of a table, one dict per row; its docstring is the note below the table.

    `more` is added to the note. Without a `name` there is no CSV file, without a `title` or `views` nothing on the page.
    With `each`, the function is called with the runs of one subject after the other, all or those that `of` chooses, and a
    column of that name holds the subject's name. Columns are the keys in the order of their first appearance. A table
    without rows is an empty file, or none if it is `optional`.
    """

    def declare(make: Callable[[Any], Iterable[Row]]) -> ResultTable:
        def of_each(results: Results[Any]) -> Iterator[Row]:
            return ({each: one.name, **row} for one in of(results) for row in make(one))

        own = TableView(title, words_of(make) if note is None else note, hidden=hidden, main=main, more=more)
        shown_as = (own, *views) if title else tuple(views)
        return ResultTable(of_each if each else make, name, shown_as, formats or {}, printed, file, optional)

    return declare


def chart(title: str, note: Note = "", *, of: Chosen | None = None) -> Callable[[Callable[[Any], Markup]], Evidence]:
    """A function that draws the results as a chart; with `of`, one for each of the chosen subjects, {name} in its title."""

    def panels(make: Callable[[Any], Markup], results: Results[Any]) -> Iterator[Part]:
        subjects: Iterable[Any] = of(results) if of else [results]
        for one in subjects:
            yield ChartPanel(title.format(name=one.name) if of else title, make(one), describe(note, results))

    return lambda make: partial(panels, make)


def pictures(
    title: str = "{name}", *, of: Chosen = list, across: int = 1
) -> Callable[[Callable[[Any], Iterable[tuple[str, Array]]]], Evidence]:
    """A function that yields captioned pictures of one subject; {name} in the title is its name."""

    def panels(make: Callable[[Any], Iterable[tuple[str, Array]]], results: Results[Any]) -> Iterator[Part]:
        every = ((one.name, tuple(make(one))) for one in of(results))
        return (PicturePanel(title.format(name=name), items, across=across) for name, items in every if items)

    return lambda make: partial(panels, make)


@dataclass(frozen=True)
class Question:
    """A question of a paper: the evidence in the order of the page, the answer in a sentence, and paragraphs about it."""

    title: str
    evidence: Sequence[Evidence] = ()
    answer: Note = ""
    text: Sequence[Text] = ()

    def section(self, results: Results[Any]) -> Section:
        """The section of the page; tables are written on the way."""
        parts = tuple(panel for part in self.evidence for panel in part(results))
        return Section(self.title, paragraphs(self.text, results), parts, describe(self.answer, results))


def question(title: str, *evidence: Evidence, text: Sequence[Text] = (), each: bool = False) -> Callable[[Any], Question]:
    """A function that answers a question; its docstring and `text` are the paragraphs about it.

    With `each`, the function is called with the runs of one subject after the other, and the answers are joined.
    """

    def declare(answer: Callable[[Any], str]) -> Question:
        about = [words] if (words := words_of(answer)) else []
        joined = (lambda results: "; ".join(map(answer, results))) if each else answer
        return Question(title, evidence, joined, (*about, *text))

    return declare


def words_of(function: Any) -> str:
    """The docstring of a function in one line; constants of its module stand in it in braces."""
    return " ".join((function.__doc__ or "").split()).format_map(function.__globals__)


def paragraphs(text: Sequence[Text], results: Results[Any]) -> tuple[str, ...]:
    """Written paragraphs, and those computed from the results."""
    return tuple(line for part in text for line in ([part] if isinstance(part, str) else part(results)))
