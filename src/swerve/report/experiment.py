"""The page of an experiment: a paper's questions, each with its answer, tables, charts and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from swerve.values import Array

Cell = str | int | float | None


@dataclass(frozen=True)
class Sheet:
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


@dataclass(frozen=True)
class Chart:
    """A drawing of `swerve.report.charts`."""

    title: str
    svg: str
    note: str = ""


@dataclass(frozen=True)
class Pictures:
    """Captioned pictures side by side: pixels, the bytes of a PNG or JPEG, or a path inside the experiment's folder.

    `across` is how many stand in a row (0: as many as fit); wider than `wide` pixels they become JPEG thumbnails (0: never).
    """

    title: str
    items: tuple[tuple[str, Array | bytes | str], ...]
    note: str = ""
    across: int = 0
    wide: int = 0


Part = Sheet | Chart | Pictures


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
    raise NotImplementedError


def print_page(page: Page, console: Console) -> None:
    """Print the lead, the answers and the main tables."""
    raise NotImplementedError
