"""A run's summary and findings in the terminal, and progress bars."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

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

from swerve.analysis.groups import FindingGroup, groups, smallest_words
from swerve.analysis.set_checks import CheckCounts, set_checks
from swerve.core.errors import printable
from swerve.execution.check import Health, Level
from swerve.report.cells import aligned, plain
from swerve.report.numbers import PAGE, Numbers, Reached, RuleCounts, condition_of, numbers_of, reached_of
from swerve.report.sweep_pictures import drawn_of
from swerve.report.words import answer_words, replay_line
from swerve.store.artifacts import Shrunk, features_of, pictures_of
from swerve.store.record_json import Finding
from swerve.store.view import Run

LEADING = 3  # groups in the summary of a run
LONGEST = 160  # characters of a text that a user or a data set gave
NARROW = 28
UNTRIED = "No findings: the run stopped before its first trial. Run the campaign again with the same folder to continue."
# Two lines each, so that the table fits 80 columns.
HEADS = (
    ("", "", "", "", "", "intro-", "already", "un-", "skip-", ""),
    ("rule", "trials", "violated", "rate", "95%", "duced", "wrong", "touched", "ped", "errors"),
)
CHECK_HEADS = ("rule", "check", "judged", "violated", "rate", "95%", "fewer", "equal", "more")


def print_summary(run: Run, console: Console) -> None:
    """Print the table of rules, errors, concerns, the largest groups, and the path of the report."""
    numbers = numbers_of(run)
    if numbers.unfinished:
        console.print(_plain(numbers.unfinished, style="yellow", longest=None), soft_wrap=True)
    console.print(_table(numbers), soft_wrap=True)
    if checks := set_checks(run):
        rows = [CHECK_HEADS, *(_check_cells(line, run.sampled) for line in checks)]
        console.print(aligned(rows, ["dim"], numeric=[False, False, *[True] * 7]), soft_wrap=True)
    console.print(_plain(numbers.headline, style="bold", longest=None), soft_wrap=True)
    if numbers.repeats:
        console.print(_plain(numbers.repeats, style="yellow" if numbers.flaky else "", longest=None), soft_wrap=True)
    _print_failures(numbers, run, console)
    if numbers.finished and (reached := reached_of(run)):
        _print_reached(reached, console)
    condition = condition_of(run)
    for concern in condition.concerns if condition else ():
        if concern["level"] != Level.NOTE:
            _print_concern(concern["level"], concern["name"], concern["why"], console)
    if numbers.overall.violated:
        console.print()
        print_groups(run, console, LEADING)
    page = run.folder / PAGE
    if page.is_file():
        console.print()
        console.print(_plain(f"report: {page}", longest=None), soft_wrap=True)


def _print_reached(reached: Reached, console: Console) -> None:
    """Print what the run covered, and the measured layers."""
    for line in (*reached.sentences, *((reached.counted,) if reached.layers else ())):
        console.print(_plain(line, longest=None), soft_wrap=True)


def print_health(health: Health, console: Console) -> None:
    """Print the system's error on untouched cases, the estimated cost of the run, and every concern."""
    for name, item in health.baseline.items():
        text = f"{item:.4g}" if isinstance(item, float) else str(item)
        console.print(_plain(f"{name.replace('_', ' '):>16}  {text}"))
    if health.trials is not None and health.seconds is not None and health.megabytes is not None:
        cost = f"about {health.seconds / 60:.1f} CPU minutes, {health.megabytes:,.0f} MB"
        console.print(_plain(f"{'run':>16}  {health.trials:,} trials, {cost}"))
    for concern in health.concerns:
        _print_concern(concern.level, concern.name, concern.why, console)
    console.print(_plain("the campaign is refused as it is" if health.refusals else "the campaign can run", style="bold"))


def _print_concern(level: str, name: str, why: str, console: Console) -> None:
    styles: dict[str, str] = {Level.REFUSAL: "bold red", Level.WARNING: "yellow"}
    console.print(_plain(f"{level}: {name}: {why}", style=styles.get(level, ""), longest=None), soft_wrap=True)


def _print_failures(numbers: Numbers, run: Run, console: Console) -> None:
    for line in numbers.failures.lines(run.folder):
        console.print(_plain(line, style="red", longest=None), soft_wrap=True)


def print_shrunk(shrunk: Shrunk, run: Run, console: Console) -> None:
    """Print the smallest change found for a finding."""
    finding = shrunk.finding
    console.print(_plain(f"{shrunk.of}  {finding.rule}: {shrunk.words}  ({finding.case})", longest=None), soft_wrap=True)
    line = replay_line(run, shrunk.of, *([] if shrunk.flaky else ["--shrunk"]))
    console.print(_plain(f"  {finding.why}", longest=None), soft_wrap=True)
    console.print(_plain(f"  {line}", longest=None), soft_wrap=True)


def _plain(text: str, *, style: str = "", longest: int | None = LONGEST) -> Text:
    return plain(text, style=style, longest=longest)


def _table(numbers: Numbers) -> Text:
    """The counts by rule."""
    lines = [*numbers.rules, numbers.overall] if len(numbers.rules) > 1 else numbers.rules
    styles = ["dim"] * len(HEADS) + [""] * len(numbers.rules) + ["bold"]
    return aligned([*HEADS, *map(_cells, lines)], styles)


def _cells(line: RuleCounts) -> tuple[str, ...]:
    low, high = line.interval
    rate = (f"{line.rate:.1%}", f"{100 * low:.1f}–{100 * high:.1f}" if line.sampled else "–") if line.judged else ("–", "–")
    untouched = "{:,}/{:,}".format(*line.untouched) if line.untouched else "–"
    counts = map(_count, (line.trials, line.violated, *line.blame, line.skipped, line.errors))
    trials, violated, introduced, already, skipped, errors = counts
    return printable(line.name, NARROW), trials, violated, *rate, introduced, already, untouched, skipped, errors


def _check_cells(line: CheckCounts, sampled: bool) -> tuple[str, ...]:
    low, high = line.interval
    interval = f"{100 * low:.1f}–{100 * high:.1f}" if sampled else "–"
    ends = [f"{count:,}" for count in line.outcomes.values()] if line.outcomes else ["–"] * 3
    rate = f"{line.judged:,}", f"{line.violated:,}", f"{line.rate:.1%}", interval
    return printable(line.rule, NARROW), line.check, *rate, *ends


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _describe_finding(finding: Finding, run: Run) -> Text:
    """A finding in three lines, the last of which replays it."""
    head = [_plain(f"{finding.rule}: {finding.words}", style="bold red"), _plain(finding.case), Text(_margin(finding))]
    lines = (
        Text("  ").join(head),
        Text("  ") + _plain(finding.why),
        Text("  ") + _plain(replay_line(run, finding.id), style="cyan", longest=None),
    )
    return Text("\n").join(lines)


def print_groups(run: Run, console: Console, most: int) -> None:
    """Print the worst finding of each of the `most` groups that affect most cases."""
    found = groups(run, features_of(run))
    if not found:
        console.print(Text("No findings." if _has_trials(run) else UNTRIED), soft_wrap=True)
        _print_failures(numbers_of(run), run, console)
        return
    which = "each" if len(found) <= most else f"the {most:,} that affect most cases"
    console.print(Text(f"{_count_of(len(found), 'group')} of findings; the worst of {which}:", style="bold"), soft_wrap=True)
    for group in found[:most]:
        console.print()
        console.print(_describe_group(group, run), soft_wrap=True)
    if len(found) > most:
        more = shlex.join(["swerve", "show", str(run.folder), "--most", str(len(found))])
        console.print()
        console.print(_plain(f"to show all groups: {more}", longest=None), soft_wrap=True)


def _has_trials(run: Run) -> bool:
    return next(run.trials(), None) is not None or numbers_of(run).finished


def _describe_group(group: FindingGroup, run: Run) -> Text:
    """A group in a few lines, the last of which replays its worst finding."""
    worst = group.exemplar
    counts = f"{_count_of(group.findings, 'finding')} in {_count_of(group.cases, 'case')}"
    head = _plain(f"{group.symptom.rule}: {group.label}", style="bold red")
    smallest = smallest_words(run, worst)
    lines = (
        Text(f"{group.number:>2}  ") + head + Text(f"  {counts}"),
        Text("    ") + Text("  ").join([_plain(worst.words), _plain(worst.case), Text(_margin(worst))]),
        Text("    ") + _plain(worst.why),
        *([Text("    ") + _plain(f"smallest: {smallest}", longest=None)] if smallest else []),
        Text("    ") + _plain(replay_line(run, worst.id), style="cyan", longest=None),
    )
    return Text("\n").join(lines)


def _count_of(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _margin(finding: Finding) -> str:
    return f"margin {finding.margin:+.3g}, {finding.origin}{', flaky' if finding.flaky else ''}"


def print_findings(run: Run, console: Console, most: int) -> None:
    """Print one line for each of the `most` findings with the largest margins."""
    found = run.best(most)[:most]
    for item in found:
        head = Text(f"{item.id}  {item.margin:+8.3g}  {item.origin:13}  ")
        console.print(head + _plain(f"{item.rule}: {item.words}  {item.case}"), soft_wrap=True)
    shown = f"{len(found):,} of {sum(1 for _ in run.findings()):,} findings"
    console.print(Text(shown if _has_trials(run) else UNTRIED), soft_wrap=True)


def print_finding(run: Run, finding: Finding, console: Console) -> None:
    """Print one finding in full, with the paths of its pictures."""
    console.print(_describe_finding(finding, run), soft_wrap=True)
    answers = {"source": finding.before, "follow-up": finding.after, "label": finding.truth}
    texts = {name: answer_words(answer) for name, answer in answers.items() if answer}
    facts = {name: f"{fact:.4g}" if isinstance(fact, float) else str(fact) for name, fact in finding.facts.items()}
    kept = [*pictures_of(run, finding.source_sha).values(), *pictures_of(run, finding.input_sha).values()]
    pictures = [*drawn_of(run, finding), *kept]  # bird's-eye pictures first, since an .npy cannot be viewed
    if smallest := smallest_words(run, finding):
        facts["smallest change"] = smallest
    for name, text in {**texts, **facts, "pictures": ", ".join(map(str, pictures)) or "not kept"}.items():
        console.print(Text("  ") + _plain(f"{name}: {text}", longest=None), soft_wrap=True)


def print_names(found: Mapping[str, Sequence[Mapping[str, Any]]], console: Console) -> None:
    """Print the entries of `swerve.config.catalog.listing`: name, description and arguments."""
    for kind, entries in found.items():
        console.print(_plain(kind, style="bold"))
        for entry in entries:
            console.print(Text("  ") + _plain(f"{entry['name']}  {entry['about']}", longest=None), soft_wrap=True)
            for name, takes in entry["arguments"].items():
                console.print(Text("      ") + _plain(f"{name}: {takes}", style="dim"), soft_wrap=True)


class RichProgress:
    """Progress of `swerve.execution.engine.run`: a bar per stage on a terminal, one line per stage elsewhere."""

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
        """Start a stage and end the previous one."""
        self._end("{:,} done")
        self._stage, self._done, self._found = stage, 0, 0
        self._since = time.monotonic()
        if self._bars:
            self._task = self._bars.add_task(printable(stage), total=total, found=0)

    def head(self, line: str) -> None:
        """Print a heading for the following stages and end the previous one."""
        self._end("{:,} done")
        self._console.print(Text(line, style="bold"))

    def advance(self, done: int, found: int) -> None:
        """Count `done` more, `found` of which are findings."""
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
    """The number of findings so far."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.fields['found']:,} findings", style="red" if task.fields["found"] else "dim")


class _Rate(ProgressColumn):
    """The rate per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="dim")
