"""A run told in the terminal, and the bars that show one under way."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from swerve.errors import printable
from swerve.keep import pictures_of
from swerve.report.numbers import PAGE, Line, Numbers, numbers_of
from swerve.report.words import answer_words
from swerve.rows import Finding
from swerve.store import Run

WORST = 3
LONGEST = 160  # characters of a text that is not ours
NARROW = 28
# Two lines each, so that the table fits a terminal of 80 columns.
HEADS = (
    ("", "", "", "", "", "intro-", "already", "un-", "skip-", ""),
    ("rule", "trials", "violated", "rate", "95%", "duced", "wrong", "touched", "ped", "errors"),
)


def print_summary(run: Run, console: Console) -> None:
    """Print the rules' table, the worst findings with their replay lines, and where the report is."""
    numbers = numbers_of(run)
    if numbers.unfinished:
        console.print(_plain(numbers.unfinished, style="yellow", longest=None), soft_wrap=True)
    console.print(_table(numbers), soft_wrap=True)
    console.print(_plain(numbers.headline, style="bold", longest=None), soft_wrap=True)
    for finding in run.best(WORST)[:WORST]:
        console.print()
        console.print(_told(finding, run), soft_wrap=True)
    page = run.folder / PAGE
    if page.is_file():
        console.print()
        console.print(_plain(f"report: {page}", longest=None), soft_wrap=True)


def _plain(text: str, *, style: str = "", longest: int | None = LONGEST) -> Text:
    """Text shown as it is: neither markup nor control sequences in it have any effect (R55)."""
    return Text(printable(text, longest), style=style, overflow="fold")


def _table(numbers: Numbers) -> Text:
    """The counts by rule, as wide as its numbers need: a number cut short would be another number."""
    lines = [*numbers.rules, numbers.overall] if len(numbers.rules) > 1 else numbers.rules
    rows = [*HEADS, *map(_cells, lines)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    styles = ["dim"] * len(HEADS) + [""] * len(numbers.rules) + ["bold"]
    return Text("\n").join(_aligned(row, widths, style) for row, style in zip(rows, styles, strict=False))


def _aligned(row: Sequence[str], widths: Sequence[int], style: str) -> Text:
    pads = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
    numbers = (f" {pad}{cell}" for pad, cell in zip(pads[1:], row[1:], strict=True))
    return Text(row[0] + pads[0] + "".join(numbers), style=style)


def _cells(line: Line) -> tuple[str, ...]:
    low, high = line.interval
    rate = (f"{line.rate:.1%}", f"{100 * low:.1f}–{100 * high:.1f}") if line.judged else ("–", "–")
    untouched = "{:,}/{:,}".format(*line.untouched) if line.untouched else "–"
    counts = map(_count, (line.trials, line.violated, line.introduced, line.already_wrong, line.skipped, line.errors))
    trials, violated, introduced, already, skipped, errors = counts
    return printable(line.name, NARROW), trials, violated, *rate, introduced, already, untouched, skipped, errors


def _count(number: int) -> str:
    return f"{number:,}"


def _told(finding: Finding, run: Run) -> Text:
    """A finding in three lines, the last of which runs it again."""
    head = [_plain(f"{finding.rule}: {finding.words}", style="bold red"), _plain(finding.case), Text(_margin(finding))]
    replay = f"swerve replay {shlex.quote(str(run.folder))} {finding.id}"
    lines = (
        Text("  ").join(head),
        Text("  ") + _plain(finding.why),
        Text("  ") + _plain(replay, style="cyan", longest=None),
    )
    return Text("\n").join(lines)


def _margin(finding: Finding) -> str:
    return f"margin {finding.margin:+.3g}, {finding.origin}"


def print_findings(run: Run, console: Console, most: int) -> None:
    """Print one line for each of the `most` findings with the largest margins."""
    found = run.best(most)[:most]
    for item in found:
        head = Text(f"{item.id}  {item.margin:+8.3g}  {item.origin:13}  ")
        console.print(head + _plain(f"{item.rule}: {item.words}  {item.case}"), soft_wrap=True)
    console.print(Text(f"{len(found):,} of {sum(1 for _ in run.findings()):,} findings"))


def print_finding(run: Run, finding: Finding, console: Console) -> None:
    """Print all there is to say of one finding, and where its pictures are."""
    console.print(_told(finding, run), soft_wrap=True)
    answers = {"source": finding.before, "follow-up": finding.after, "label": finding.truth}
    told = {name: answer_words(answer) for name, answer in answers.items() if answer}
    facts = {name: f"{fact:.4g}" if isinstance(fact, float) else str(fact) for name, fact in finding.facts.items()}
    pictures = [*pictures_of(run, finding.source_sha).values(), *pictures_of(run, finding.input_sha).values()]
    for name, text in {**told, **facts, "pictures": ", ".join(map(str, pictures)) or "not kept"}.items():
        console.print(Text("  ") + _plain(f"{name}: {text}", longest=None), soft_wrap=True)


def print_names(found: Mapping[str, Sequence[Mapping[str, Any]]], console: Console) -> None:
    """Print what `swerve.listing.listing` found: each name, what it is and what it takes."""
    for kind, entries in found.items():
        console.print(_plain(kind, style="bold"))
        for entry in entries:
            console.print(Text("  ") + _plain(f"{entry['name']}  {entry['about']}", longest=None), soft_wrap=True)
            for name, takes in entry["arguments"].items():
                console.print(Text("      ") + _plain(f"{name}: {takes}", style="dim"), soft_wrap=True)


class RichProgress:
    """Progress of `swerve.engine.run`: a bar per stage on a terminal, one line per stage elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage = ""
        self._done = self._found = 0
        self._since = 0.0
        self._bars: Progress | None = _bars(console) if console.is_terminal else None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end("stopped after {:,}" if kind else "{:,} done")
        if self._bars:
            self._bars.stop()

    def begin(self, stage: str, total: int | None) -> None:
        """A stage starts, and the one before it is over."""
        self._end("{:,} done")
        self._stage, self._done, self._found = stage, 0, 0
        self._since = time.monotonic()
        if self._bars:
            self._task = self._bars.add_task(printable(stage), total=total, found=0)

    def advance(self, done: int, found: int) -> None:
        """`done` more are through, `found` of them findings."""
        self._done, self._found = self._done + done, self._found + found
        if self._bars and self._task is not None:
            self._bars.update(self._task, advance=done, found=self._found)

    def _end(self, how: str) -> None:
        if self._stage and not self._bars:
            taken = time.monotonic() - self._since
            rate = f"{self._done / taken:,.0f}/s" if taken > 0 else ""
            findings = f", {self._found:,} findings" if self._found else ""
            self._console.print(
                _plain(f"{self._stage}: {how.format(self._done)}{findings} in {taken:.1f} s {rate}".rstrip())
            )
        self._stage = ""


def _bars(console: Console) -> Progress:
    columns: tuple[ProgressColumn, ...] = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Found(),
        _Rate(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console)


class _Found(ProgressColumn):
    """How many findings so far."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.fields['found']:,} findings", style="red" if task.fields["found"] else "dim")


class _Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="dim")
