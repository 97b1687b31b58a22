"""The page of an experiment: a paper's questions, each with its answer, tables, charts and pictures."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from swerve.core.errors import printable
from swerve.core.values import Array
from swerve.report.cells import Cell, is_numeric, spelled
from swerve.report.html import CONTROLS
from swerve.report.numbers import PAGE
from swerve.report.thumbnails import PICTURES, PagePicture, clear, keep
from swerve.store.files import make_folder, write_whole

LONG = 24  # rows, before a table scrolls in itself
SHORT = 24  # characters of a cell that stays on one line
MOST_ACROSS = 6
WIDEST_NAME = 40  # characters of a cell in the terminal


@dataclass(frozen=True)
class TablePanel:
    """A table. Columns named in `printed` hold the paper's numbers and are set apart; None is shown as –.

    `csv` is where the table lies in the experiment's folder, `formats` are format specs by column such as `.1%`, `total`
    sets the last row apart, and `main` tables are shown in the terminal too.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    printed: tuple[str, ...] = ()
    csv: str = ""
    formats: Mapping[str, str] = field(default_factory=dict)
    total: bool = False
    main: bool = True

    def __post_init__(self) -> None:
        odd = next((place for place, row in enumerate(self.rows) if len(row) != len(self.columns)), None)
        if odd is not None:
            raise ValueError(f"{self.title}: row {odd} has {len(self.rows[odd])} cells for {len(self.columns)} columns")
        unknown = sorted({*self.printed, *self.formats} - {*self.columns})
        if unknown:
            raise ValueError(f"{self.title}: no column is called {unknown[0]!r}")
        _inside(self.csv)

    @property
    def heads(self) -> list[tuple[str, bool, bool]]:
        """Of each column its name, whether it holds numbers and whether the paper printed them."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        return [(name, is_numeric(cells), name in self.printed) for name, cells in zip(self.columns, columns, strict=True)]

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The rows as they are shown."""
        columns = zip(*self.rows, strict=True)
        told = (spelled(cells, self.formats.get(name, "")) for name, cells in zip(self.columns, columns, strict=False))
        return list(zip(*told, strict=True))


@dataclass(frozen=True)
class ChartPanel:
    """A drawing of `swerve.report.charts`."""

    title: str
    svg: Markup
    note: str = ""


@dataclass(frozen=True)
class PicturePanel:
    """Captioned pictures side by side: pixels, the bytes of a PNG or JPEG, or a path inside the experiment's folder.

    `across` is how many stand in a row (0: as many as fit); wider than `wide` pixels they become JPEG thumbnails (0: never).
    """

    title: str
    items: tuple[tuple[str, Array | bytes | str], ...]
    note: str = ""
    across: int = 0
    wide: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.across <= MOST_ACROSS:
            raise ValueError(f"{self.title}: 0 to {MOST_ACROSS} pictures stand in a row, got {self.across}")
        for _, picture in self.items:
            if isinstance(picture, str):
                _inside(picture)


Part = TablePanel | ChartPanel | PicturePanel
KINDS = {TablePanel: "sheets", ChartPanel: "charts", PicturePanel: "pictures"}


@dataclass(frozen=True)
class Section:
    """A question: what was done as paragraphs, the `answer` in a sentence or two, and what shows it."""

    title: str
    text: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    answer: str = ""


@dataclass(frozen=True)
class Page:
    """An experiment: what it found in a few sentences, `facts` such as system, data and seed, and its questions."""

    title: str
    lead: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def write_page(page: Page, folder: Path) -> Path:
    """Write `report/index.html` and its pictures into `folder` and say where it is."""
    path = folder / PAGE
    make_folder(path.parent / PICTURES, parents=True)
    shown = {id(part): keep(part.items, folder, part.wide) for part in _parts(page) if isinstance(part, PicturePanel)}
    write_whole(path, _render(page, shown).encode(errors="backslashreplace"))
    clear(path.parent / PICTURES, {one.file for row in shown.values() for one in row})
    return path


def _parts(page: Page) -> Iterator[Part]:
    return (part for section in page.sections for part in section.parts)


def _render(page: Page, shown: Mapping[int, list[PagePicture]]) -> str:
    style = _asset("style.css") + Markup("\n") + _asset("experiment.css")
    return (
        _environment()
        .get_template("experiment.html")
        .render(
            page=page,
            sections=[(section, _blocks(section, shown)) for section in page.sections],
            long=LONG,
            short=SHORT,
            style=style,
            style_hash="sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            version=version("swerve"),
        )
    )


def _blocks(
    section: Section, shown: Mapping[int, list[PagePicture]]
) -> list[tuple[str, list[tuple[Part, list[PagePicture]]]]]:
    """Neighbours of one kind together, so that charts stand side by side."""
    kinds = itertools.groupby(section.parts, key=lambda part: KINDS[type(part)])
    return [(kind, [(part, shown.get(id(part), [])) for part in parts]) for kind, parts in kinds]


@cache
def _environment() -> Environment:
    loader = PackageLoader("swerve.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_visible
    )
    environment.filters.update(address=_address)
    return environment


@cache
def _asset(name: str) -> Markup:
    """A style of ours: with the charts, the only text on the page that is not escaped."""
    environment = _environment()
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0].strip())


def _visible(item: Any) -> Any:
    return item.translate(CONTROLS) if type(item) is str else item


def _address(path: str) -> str:
    """A file of the experiment's folder, seen from the page."""
    return f"../{quote(path, errors='backslashreplace')}"


def _inside(path: str) -> None:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "\\" in path:
        raise ValueError(f"{path!r} must be a path inside the experiment's folder, such as tables/rates.csv")


def print_page(page: Page, console: Console) -> None:
    """Print the lead, the answers and the main tables."""
    console.print(_plain(page.title, style="bold"), soft_wrap=True)
    for sentence in page.lead:
        console.print(_plain(sentence), soft_wrap=True)
    for section in page.sections:
        console.print()
        console.print(_plain(section.title, style="bold"), soft_wrap=True)
        if section.answer:
            console.print(_plain(section.answer), soft_wrap=True)
        for sheet in (part for part in section.parts if isinstance(part, TablePanel) and part.main):
            console.print()
            console.print(_table(sheet), soft_wrap=True)


def _plain(text: str, *, style: str = "") -> Text:
    """Text shown as it is: neither markup nor control sequences in it have any effect (R55)."""
    return Text(printable(text), style=style, overflow="fold")


def _table(sheet: TablePanel) -> Text:
    """The table, as wide as its numbers need: a number cut short would be another number."""
    named = [f"{name} (paper)" if printed else name for name, _, printed in sheet.heads]
    rows = [[printable(cell, WIDEST_NAME) for cell in row] for row in (named, *sheet.texts)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    numeric = [is_number for _, is_number, _ in sheet.heads]
    told = [_aligned(row, widths, numeric) for row in rows]
    styles = ["dim", *[""] * (len(rows) - 2), "bold" if sheet.total else ""]
    lines = [Text(line, style=style) for line, style in zip(told, styles, strict=False)]
    return Text("\n").join([_plain(sheet.title, style="underline"), *lines])


def _aligned(row: list[str], widths: list[int], numeric: list[bool]) -> str:
    cells = zip(row, widths, numeric, strict=True)
    padded = ((cell, " " * (width - cell_len(cell)), right) for cell, width, right in cells)
    return "  ".join(pad + cell if right else cell + pad for cell, pad, right in padded).rstrip()
