"""The page of an experiment: the paper's questions with their answers, tables, charts and pictures."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import cv2
import numpy as np
from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from swerve.core.errors import InputError, printable
from swerve.core.values import Array
from swerve.report.cells import Cell, fitted, format_column, is_numeric, plain
from swerve.report.templating import PAGE, render_page
from swerve.store.files import make_folder, png_bytes, write_whole

LONG = 24  # rows beyond which a table scrolls
SHORT = 24  # characters of a cell that does not wrap
MOST_ACROSS = 6
PICTURES = "pictures"
QUALITY = 90  # of a JPEG thumbnail
DIGITS = 16
OURS = re.compile(rf"[0-9a-f]{{{DIGITS}}}\.(png|jpg)")
PRINTED = "printed "  # starts the names of columns with the paper's numbers
WIDEST_NAME = 40  # characters of a cell in the terminal


@dataclass(frozen=True)
class TablePanel:
    """A table. Columns named in `printed` hold the paper's numbers and are highlighted; None is shown as –.

    `csv` is the table's path in the experiment's folder, `formats` are format specs by column such as `.1%`, `total`
    highlights the last row, and `main` tables are also printed in the terminal.
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
            raise ValueError(f"{self.title}: there is no column {unknown[0]!r}; the columns are {', '.join(self.columns)}")
        _inside(self.csv)

    @property
    def heads(self) -> list[tuple[str, bool, bool]]:
        """Per column: its title, whether it holds numbers, and whether they are the paper's, which the title leaves out."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        titles = (name.removeprefix(PRINTED) if name in self.printed else name for name in self.columns)
        kinds = zip(titles, columns, self.columns, strict=True)
        return [(title, is_numeric(cells), name in self.printed) for title, cells, name in kinds]

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The rows as they are shown."""
        columns = zip(*self.rows, strict=True)
        texts = (
            format_column(cells, self.formats.get(name, "")) for name, cells in zip(self.columns, columns, strict=False)
        )
        return list(zip(*texts, strict=True))


@dataclass(frozen=True)
class ChartPanel:
    """A chart of `swerve.report.charts`."""

    title: str
    svg: Markup
    note: str = ""


@dataclass(frozen=True)
class PicturePanel:
    """Captioned pictures side by side: pixels, the bytes of a PNG or JPEG, or a path inside the experiment's folder.

    `across` is the number per row (0: as many as fit); pictures wider than `wide` pixels become JPEG thumbnails (0: never).
    """

    title: str
    items: tuple[tuple[str, Array | bytes | str], ...]
    note: str = ""
    across: int = 0
    wide: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.across <= MOST_ACROSS:
            raise ValueError(f"{self.title}: across must be 0 to {MOST_ACROSS} pictures per row, got {self.across}")
        for _, picture in self.items:
            if isinstance(picture, str):
                _inside(picture)


@dataclass(frozen=True)
class PagePicture:
    """A picture on the page: a file among the page's pictures, or a path in the experiment's folder."""

    caption: str
    file: str = ""
    path: str = ""
    size: tuple[int, int] | None = None


Part = TablePanel | ChartPanel | PicturePanel
KINDS = {TablePanel: "sheets", ChartPanel: "charts", PicturePanel: "pictures"}


@dataclass(frozen=True)
class Section:
    """A question: paragraphs on what was done, the `answer` in a sentence or two, and the evidence."""

    title: str
    text: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    answer: str = ""


@dataclass(frozen=True)
class Page:
    """An experiment: its result in a few sentences, `facts` such as system, data and seed, and its questions."""

    title: str
    lead: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def write_page(page: Page, folder: Path, *, name: str = PAGE, pictures: str = PICTURES) -> Path:
    """Write a page, by default `report/index.html`, into `folder`, its pictures beside it; returns its path."""
    path = folder / name
    beside = path.parent / pictures
    make_folder(beside, parents=True)
    panels = [part for section in page.sections for part in section.parts if isinstance(part, PicturePanel)]
    shown = {id(panel): [_write_picture(*item, folder, beside, panel.wide) for item in panel.items] for panel in panels}
    write_whole(path, _render(page, shown, pictures).encode(errors="backslashreplace"))
    _remove_stale(beside, {one.file for row in shown.values() for one in row})
    return path


def _render(page: Page, shown: Mapping[int, list[PagePicture]], pictures: str) -> str:
    return render_page(
        "experiment.html",
        styles=("style.css", "experiment.css"),
        page=page,
        folder=pictures,
        sections=[(section, _blocks(section, shown)) for section in page.sections],
        long=LONG,
        short=SHORT,
        version=version("swerve"),
    )


def _blocks(
    section: Section, shown: Mapping[int, list[PagePicture]]
) -> list[tuple[str, list[tuple[Part, list[PagePicture]]]]]:
    """Neighbouring parts of one kind as one block, so that charts appear side by side."""
    kinds = itertools.groupby(section.parts, key=lambda part: KINDS[type(part)])
    return [(kind, [(part, shown.get(id(part), [])) for part in parts]) for kind, parts in kinds]


def _inside(path: str) -> None:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "\\" in path:
        raise ValueError(f"{path!r} must be a path inside the experiment's folder, such as tables/rates.csv")


def _remove_stale(folder: Path, wanted: Collection[str]) -> None:
    """Remove the pictures of an earlier page."""
    for file in folder.iterdir():
        if OURS.fullmatch(file.name) and file.name not in wanted:
            file.unlink()


def _write_picture(caption: str, picture: Array | bytes | str, folder: Path, beside: Path, wide: int) -> PagePicture:
    """Write a picture into the folder `beside` a page; one that is already in the page's `folder` is only referred to."""
    if isinstance(picture, str):
        return PagePicture(caption, path=picture if (folder / picture).is_file() else "")
    content, pixels = _content(caption, picture)
    high, across = pixels.shape[:2]
    if wide and across > wide:
        content, (across, high) = _thumbnail(pixels, wide), (wide, max(round(high * wide / across), 1))
    suffix = "png" if content.startswith(b"\x89PNG") else "jpg"
    name = f"{hashlib.sha256(content).hexdigest()[:DIGITS]}.{suffix}"
    write_whole(beside / name, content)
    return PagePicture(caption, file=name, size=(across, high))


def _content(caption: str, picture: Array | bytes) -> tuple[bytes, Array]:
    """The file of a picture, and its RGB pixels."""
    if isinstance(picture, bytes):
        if not picture.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")):
            raise InputError(f"picture {caption!r}: the bytes are neither PNG nor JPEG; pass its pixels instead")
        read = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR_RGB)
        if read is None:
            raise InputError(f"picture {caption!r}: the bytes cannot be decoded; pass its pixels instead")
        return picture, read
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise InputError(f"picture {caption!r}: pixels must be H×W×3 uint8 RGB, got {picture.dtype} {picture.shape}")
    return png_bytes(picture), picture


def _thumbnail(pixels: Array, wide: int) -> bytes:
    high, across = pixels.shape[:2]
    small = cv2.resize(pixels, (wide, max(round(high * wide / across), 1)), interpolation=cv2.INTER_AREA)
    _, data = cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return data.tobytes()


def print_page(page: Page, console: Console) -> None:
    """Print the lead, the answers and the main tables."""
    console.print(plain(page.title, style="bold"), soft_wrap=True)
    for sentence in page.lead:
        console.print(plain(sentence), soft_wrap=True)
    for section in page.sections:
        console.print()
        console.print(plain(section.title, style="bold"), soft_wrap=True)
        if section.answer:
            console.print(plain(section.answer), soft_wrap=True)
        for sheet in (part for part in section.parts if isinstance(part, TablePanel) and part.main):
            console.print()
            console.print(_table(sheet, console.width), soft_wrap=True)


def _key_columns(rows: Sequence[Sequence[Cell]]) -> int:
    """How many of the first columns it takes to tell the rows apart."""
    most = len(rows[0]) if rows else 1
    return next((count for count in range(1, most) if len({tuple(row[:count]) for row in rows}) == len(rows)), 1)


def _table(sheet: TablePanel, width: int) -> Text:
    named = [f"{name} (paper)" if printed else name for name, _, printed in sheet.heads]
    rows = [[printable(cell, WIDEST_NAME) for cell in row] for row in (named, *sheet.texts)]
    styles = ["dim", *[""] * (len(rows) - 2), "bold" if sheet.total else ""]
    numeric = [is_number for _, is_number, _ in sheet.heads]
    table = fitted(rows, styles, width=width, numeric=numeric, gap="  ", keys=_key_columns(sheet.rows))
    return Text("\n").join([plain(sheet.title, style="underline"), table])
