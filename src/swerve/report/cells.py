"""Table cells as text: the numbers of a column in one format, None as –, columns aligned for a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from swerve.core.errors import printable

Cell = str | int | float | None
Row = tuple[Cell, ...]

NOTHING = "–"
NOT_FINITE = "not finite"
SIGNIFICANT, MOST_DIGITS = 3, 4
LEAST = 0.001  # smaller numbers are written with a power of ten
# Texts without letters are aligned like numbers: 658 (46%), 57.1% – 69.2%, < 0.001, 1.2e-5.
NUMBER_LIKE = re.compile(r"(?=.*\d)[\d\s.,:%+\-−–<>≤≥=()/×°±]*(e[+-]?\d+)?[\s)]*")


def plain(text: str, *, style: str = "", longest: int | None = None) -> Text:
    """Text for a terminal, shown as it is: neither markup nor control sequences in it have any effect."""  # R55
    return Text(printable(text, longest), style=style, overflow="fold")


def filled(parts: Iterable[Text], width: int, *, indent: str = "") -> Text:
    """Parts two spaces apart, in as few lines as `width` needs; none is broken, and further lines begin with `indent`."""
    lines: list[list[Text]] = [[]]
    for part in parts:
        used = len(indent) + sum(one.cell_len + 2 for one in lines[-1])
        if lines[-1] and used + part.cell_len > width:
            lines.append([])
        lines[-1].append(part)
    return Text(f"\n{indent}").join(Text("  ").join(line) for line in lines)


def aligned(rows: Sequence[Sequence[str]], styles: Sequence[str], *, numeric: Sequence[bool] = (), gap: str = " ") -> Text:
    """Rows in columns, those of numbers to the right (by default all but the first), as wide as their cells need.

    Nothing is cut: a number cut short would be another number.
    """
    widths = _widths(rows)
    right = numeric or [False, *[True] * (len(widths) - 1)]
    styled = zip(rows, [*styles, *[""] * len(rows)], strict=False)
    return Text("\n").join(Text(gap.join(_padded(row, widths, right)).rstrip(), style=style) for row, style in styled)


def fitted(
    rows: Sequence[Sequence[str]],
    styles: Sequence[str],
    *,
    width: int,
    numeric: Sequence[bool] = (),
    gap: str = " ",
    parts: Sequence[Sequence[int]] = (),
    keys: int = 1,
) -> Text:
    """Rows in columns like `aligned`; if they are wider than `width`, in parts one below the other.

    Every part begins with the first `keys` columns, or with the first if these take more than half of the width. `parts` are
    the numbers of the other columns in each; by default as many as fit.
    """
    right = numeric or [False, *[True] * (len(rows[0]) - 1)]
    if sum(_widths(rows)) + len(gap) * (len(right) - 1) <= width:
        return aligned(rows, styles, numeric=right, gap=gap)
    narrow = [[shortened(first, width // 2), *rest] for first, *rest in rows]
    widths, tables = _widths(narrow), []
    first = list(range(keys if sum(widths[:keys]) <= width // 2 else 1))
    for columns in ([*first, *part] for part in parts or _as_many_as_fit(widths, width, len(gap), len(first))):
        some = [[row[column] for column in columns] for row in narrow]
        tables.append(aligned(some, styles, numeric=[right[column] for column in columns], gap=gap))
    return Text("\n\n").join(tables)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def _as_many_as_fit(widths: Sequence[int], width: int, gap: int, keys: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    start = used = sum(widths[:keys]) + gap * (keys - 1)
    for column, needed in enumerate(widths[keys:], keys):
        if parts[-1] and used + gap + needed > width:
            parts.append([])
            used = start
        parts[-1].append(column)
        used += gap + needed
    return parts


def shortened(text: str, longest: int) -> str:
    """`text` in at most `longest` columns, without its middle: names often differ in their ends."""
    if cell_len(text) <= longest:
        return text
    head = (longest - 1) // 2
    tail = longest - 1 - head
    return f"{text[:head]}…{text[-tail:]}"


def _padded(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    for cell, width, is_right in zip(row, widths, right, strict=True):
        pad = " " * (width - cell_len(cell))
        yield pad + cell if is_right else cell + pad


def is_numeric(cells: Iterable[Cell]) -> bool:
    """Whether a column has numbers and no words."""
    given = [cell for cell in map(_python, cells) if cell is not None and cell not in ("", NOTHING)]
    return bool(given) and all(not isinstance(cell, str | bool) or _number_like(cell) for cell in given)


def _python(cell: Cell) -> Cell:
    """A numpy scalar as a Python number."""
    return cell.item() if isinstance(cell, np.generic) else cell


def _number_like(cell: str | bool) -> bool:
    return isinstance(cell, str) and bool(NUMBER_LIKE.fullmatch(cell))


def format_column(cells: Sequence[Cell], form: str = "") -> list[str]:
    """A column's cells as text; numbers by the format spec `form`, else with as many digits as the largest needs."""
    given = [_python(cell) for cell in cells]
    digits = _digits([abs(cell) for cell in given if isinstance(cell, float) and math.isfinite(cell)])
    return [_format_cell(cell, form, digits) for cell in given]


def _digits(sizes: Sequence[float]) -> int:
    """Digits after the point: three significant ones for the largest number, at most four, and none that no number has."""
    largest = max(sizes, default=0.0)
    wanted = SIGNIFICANT - 1 - math.floor(math.log10(largest)) if largest else 0
    return min(max(wanted, 0), MOST_DIGITS, max(map(_own_digits, sizes), default=0))


def _own_digits(size: float) -> int:
    digits, _, power = repr(size).partition("e")
    return max(len(digits.partition(".")[2].rstrip("0")) - int(power or 0), 0)


def _format_cell(cell: Cell, form: str, digits: int) -> str:
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if not math.isfinite(cell):
        return NOT_FINITE
    if form:
        return format(cell, form)
    return f"{cell:,d}" if isinstance(cell, int) else _format_real(cell, digits)


def _format_real(number: float, digits: int) -> str:
    """A number with `digits` after the point; very small and very large ones with a power of ten."""
    if abs(number) >= 1e12 or (number and (abs(number) < LEAST or not round(number, digits))):
        return f"{number:.2g}"
    return f"{number:,.{digits}f}"
