"""What a campaign file can use, in the terminal: the kinds of parts, the parts of a kind, and one part in full."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from swerve.config.catalog import ABOUT, CatalogArgument, CatalogEntry
from swerve.config.limits import LIMITS
from swerve.report.cells import plain

INDENT = 6
NARROWEST = 20  # columns of a text, however narrow the terminal is


def print_kinds(counts: Mapping[str, int], console: Console) -> None:
    """Print the kinds of parts with their numbers, and how to see more."""
    rows = {**{kind: (f"{count:,}", ABOUT[kind]) for kind, count in counts.items()}, "limits": ("", _limits())}
    width = max(map(len, rows))
    for kind, (count, about) in rows.items():
        _print_item(f"{kind:{width}} {count:>3}", about, console)
    console.print()
    for line in ("swerve list transformations", "swerve list transformations rotate"):
        console.print(plain(f"for example: {line}", style="dim"), soft_wrap=True)


def _limits() -> str:
    return f"the {len(LIMITS)} limits on what is read"


def print_entries(entries: Sequence[CatalogEntry], console: Console) -> None:
    """Print the parts of one kind, a name and its description each."""
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        _print_item(f"{entry.name:{width}}", entry.about, console)
    console.print()
    first = shlex.join(["swerve", "list", entries[0].kind, entries[0].name])
    console.print(plain(f"arguments and a sample of one: {first}", style="dim"), soft_wrap=True)


def _print_item(name: str, about: str, console: Console) -> None:
    """A name, and its description in the rest of the line and below, never under the name."""
    _print_hanging(plain(f"{name}  ", style="bold"), plain(about), console)


def _print_hanging(head: Text, text: Text, console: Console) -> None:
    """`head` and `text`, whose further lines begin where its first one does."""
    for place, line in enumerate(text.wrap(console, max(console.width - head.cell_len, NARROWEST))):
        line.rstrip()
        console.print((head if place == 0 else Text(" " * head.cell_len)) + line, soft_wrap=True)


def print_entry(entry: CatalogEntry, console: Console) -> None:
    """Print one part: its description, its arguments with types, ranges and choices, and a sample in TOML."""
    _print_item(entry.name, entry.about, console)
    for paragraph in entry.details:
        console.print()
        _print_hanging(Text("  "), plain(paragraph), console)
    if entry.white_box:
        console.print(plain("  its neurons can be measured ([coverage])"))
    console.print()
    for name, argument in entry.arguments.items():
        _print_hanging(plain(f"  {name}  ", style="bold"), plain("; ".join(_facts(argument))), console)
        if argument.about:
            _print_hanging(Text(" " * INDENT), plain(argument.about, style="dim"), console)
    if not entry.arguments:
        console.print(Text("  it takes no arguments"))
    console.print()
    console.print(Text("in a campaign file:", style="dim"))
    console.print(plain_lines(entry.toml), soft_wrap=True)


def plain_lines(text: str) -> Text:
    """Lines that can be copied, each shown as it is."""
    return Text("\n").join(Text("  ") + plain(line) if line else Text() for line in text.split("\n"))


def _facts(argument: CatalogArgument) -> Iterator[str]:
    """Type, range, choices and default of an argument."""
    if argument.choices:
        yield f"one of {', '.join(argument.choices)}"
    elif argument.number:
        facts = argument.number
        whole = "whole number" if facts.integer else "number"
        yield f"{whole} from {facts.low:g} to {facts.high:g}{facts.unit}"
        yield f"drawn from {facts.usual[0]:g} to {facts.usual[1]:g} by default"
    else:
        yield argument.type
    if argument.needed:
        yield "needed"
    elif argument.default not in (None, "", (), {}) and not argument.number:
        yield f"default {_value(argument.default)}"
    elif not argument.number:
        yield "optional"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
