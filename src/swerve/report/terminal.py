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
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.text import Text

from swerve.analysis.acceptance import Acceptance
from swerve.analysis.exemplars import smallest_words
from swerve.analysis.groups import FindingGroup
from swerve.analysis.numbers import UNUSABLE, Numbers, Reached, RuleCounts
from swerve.analysis.overview import overview_of
from swerve.analysis.set_checks import CheckCounts
from swerve.analysis.verdict import verdict
from swerve.analysis.where import FoundSlice
from swerve.core.errors import printable
from swerve.core.origin import Origin
from swerve.core.relation import Status
from swerve.execution.checks.concern import Health, Level
from swerve.report.cells import filled, fitted, plain, shortened
from swerve.report.condition_words import condition_sentences, has_conditions, time_split
from swerve.report.health import health_of
from swerve.report.templating import PAGE
from swerve.report.words import answer_words, replay_line
from swerve.store.artifacts import Shrunk, pictures_of
from swerve.store.record_json import Finding
from swerve.store.view import Run

LEADING = 3  # groups in the summary of a run
REASONS = 3  # in the summary of a run
LONGEST = 160  # characters of a text that a user or a data set gave
NARROW = 28
SKIPPED = Status.SKIPPED.value
UNTRIED = "No findings: the run stopped before its first trial. Run the campaign again with the same folder to continue."
# Two lines each, so that the table fits 80 columns.
HEADS = (
    (("", "", "", "", ""), ("un-", "skip-", "")),
    (("rule", "trials", "violated", "rate", "95%"), ("touched", "ped", "errors")),
)
ORIGIN_HEADS = {
    Origin.INTRODUCED: ("intro-", "duced"),
    Origin.MADE_WORSE: ("made", "worse"),
    Origin.ALREADY_WRONG: ("already", "wrong"),
    Origin.MARGINAL: ("mar-", "ginal"),
    Origin.UNKNOWN: ("origin", "unknown"),
}
CHECK_HEADS = ("rule", "check", "judged", "violated", "rate", "95%", "fewer", "equal", "more")


def _print_conditions(run: Run, console: Console) -> None:
    """Print the conditions that a search found, each in a sentence."""
    for number, words in enumerate(condition_sentences(run), 1):
        console.print(_plain(f"condition {number}: {words}", longest=None), soft_wrap=True)
    if has_conditions(run) and (spent := time_split(run)):
        _say(spent, console)


def print_summary(run: Run, console: Console) -> None:
    """Print the table of rules, errors, concerns, the largest groups, and the path of the report."""
    overview = overview_of(run)
    numbers = overview.numbers
    if numbers.unfinished:
        _say(numbers.unfinished, console, style="yellow")
    console.print(_table(numbers, console.width), soft_wrap=True)
    if checks := overview.checks:
        rows = [CHECK_HEADS, *(_check_cells(line, run.sampled) for line in checks)]
        numeric, parts = [False, False, *[True] * 7], (range(1, 6), (1, 6, 7, 8))
        console.print(fitted(rows, ["dim"], width=console.width, numeric=numeric, parts=parts), soft_wrap=True)
    first, *further = verdict(numbers, overview.curves) or (numbers.headline,)
    _say(first, console, style="bold")
    for sentence in (*further, *([] if first == numbers.headline else [numbers.headline])):
        _say(sentence, console)
    _print_reasons(numbers, console)
    _print_acceptance(overview.acceptances, console)
    if numbers.repeats:
        _say(numbers.repeats, console, style="yellow" if numbers.flaky or numbers.moved else "")
    _print_failures(numbers, run, console)
    _print_conditions(run, console)
    if numbers.finished and (reached := overview.reached):
        _print_reached(reached, console)
    health = health_of(run)
    for concern in health.concerns if health else ():
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
        _say(line, console)


def print_health(health: Health, console: Console) -> None:
    """Print the system's error on untouched cases, the estimated cost of the run, and every concern."""
    for name, item in _in_one_unit(health.baseline).items():
        text = f"{item:.4g}" if isinstance(item, float) else str(item)
        console.print(_plain(f"{name.replace('_', ' '):>16}  {text}"))
    if health.trials is not None and health.seconds is not None and health.megabytes is not None:
        cost = f"about {health.seconds / 60:.1f} CPU minutes, {health.megabytes:,.0f} MB"
        console.print(_plain(f"{'run':>16}  {health.trials:,} trials, {cost}"))
    for concern in health.concerns:
        _print_concern(concern.level, concern.name, concern.why, console)
    console.print(_plain("the campaign is refused as it is" if health.refusals else "the campaign can run", style="bold"))


def _in_one_unit(baseline: Mapping[str, Any]) -> Mapping[str, Any]:
    """The numbers of a baseline, those of steering in degrees of the wheel alone, as in every concern."""
    if "rmse_degrees" not in baseline:
        return baseline
    steering = {
        "error": f"{baseline['rmse_degrees']:.4g}° of the steering wheel (RMSE of {baseline['labels']:,} labels)",
        "of always 0°": f"{baseline['rmse_of_zero_degrees']:.4g}°",
    }
    own = ("mse", "unit", "of", "labels", "rmse_degrees", "rmse_of_zero_degrees", "mse_of_zero")
    counts = {name: item for name, item in baseline.items() if name in ("cases", "unusable")}
    return {**counts, **steering, **{name: item for name, item in baseline.items() if name not in (*own, *counts)}}


def _print_concern(level: str, name: str, why: str, console: Console) -> None:
    styles: dict[str, str] = {Level.REFUSAL: "bold red", Level.WARNING: "yellow"}
    _say(f"{level}: {name}: {why}", console, style=styles.get(level, ""))


def _print_acceptance(rules: Mapping[str, Acceptance], console: Console) -> None:
    """Print whether each rule with a `fail_if` is accepted, and the requirements that it tests."""
    for one in rules.values():
        if one.conditions:
            tested = f" [{', '.join(one.requirement)}]" if one.requirement else ""
            style = "bold red" if one.failed else "green"
            _say(f"{one.words}{tested}", console, style=style)


def _print_reasons(numbers: Numbers, console: Console) -> None:
    """Why cases are unusable and trials were skipped; errors have lines of their own."""
    reasons = [reason for reason in numbers.reasons if reason.what in (SKIPPED, UNUSABLE)]
    for reason in reasons[:REASONS]:
        what = _count_of(reason.count, "unusable case") if reason.what == UNUSABLE else f"{reason.count:,} skipped"
        alike = ", and similar" if reason.alike else ""
        _say(f"{what}: {printable(reason.why, LONGEST)}{alike}", console)
    if more := sum(reason.count for reason in reasons[REASONS:]):
        _say(f"{more:,} more for other reasons, which the report lists", console)


def _print_failures(numbers: Numbers, run: Run, console: Console) -> None:
    for line in numbers.failures.lines(run.folder):
        console.print(_plain(line, style="red", longest=None), soft_wrap=True)


def print_shrunk(shrunk: Shrunk, run: Run, console: Console) -> None:
    """Print the smallest change found for a finding, or that nothing smaller fails."""
    finding = shrunk.finding
    console.print(_plain(f"{shrunk.of}  {finding.rule}: {shrunk.words}  ({finding.case})", longest=None), soft_wrap=True)
    line = replay_line(run, shrunk.of, *([] if shrunk.flaky else ["--shrunk"]))
    if shrunk.is_whole:
        console.print(_plain(f"  {_nothing_smaller(shrunk)}", style="yellow"), soft_wrap=True)
    console.print(_plain(f"  {finding.why}", longest=None), soft_wrap=True)
    console.print(_plain(f"  {line}", longest=None), soft_wrap=True)


def _nothing_smaller(shrunk: Shrunk) -> str:
    if not shrunk.tries:
        return "It cannot be made smaller: this change has no numbers, steps or parts to reduce."
    return f"It cannot be made smaller: none of {_count_of(shrunk.tries, 'smaller change')} fails in the same way."


def print_shrinking(found: Sequence[Shrunk], console: Console) -> None:
    """Print how many findings were made smaller, if there are several."""
    if len(found) > 1:
        whole, flaky = sum(one.is_whole for one in found), sum(one.flaky for one in found)
        counts = {"made smaller": len(found) - whole - flaky, "already smallest": whole, "flaky": flaky}
        told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        console.print(_plain(f"{len(found):,} findings: {told}", style="bold"), soft_wrap=True)


def _say(sentence: str, console: Console, *, style: str = "") -> None:
    """Print a sentence: broken between words on a terminal, and whole elsewhere, for `grep`."""
    console.print(_plain(sentence, style=style, longest=None), soft_wrap=not console.is_terminal)


def _plain(text: str, *, style: str = "", longest: int | None = LONGEST) -> Text:
    return plain(text, style=style, longest=longest)


def _table(numbers: Numbers, width: int) -> Text:
    """The counts by rule; if they do not fit, origins and untouched cases below."""
    lines = [*numbers.rules, numbers.overall] if len(numbers.rules) > 1 else numbers.rules
    styles = ["dim"] * len(HEADS) + [""] * len(numbers.rules) + ["bold"]
    heads = [
        (*first, *(ORIGIN_HEADS[origin][place] for origin in numbers.origins), *last)
        for place, (first, last) in enumerate(HEADS)
    ]
    rows = [*heads, *(_cells(line, numbers.origins) for line in lines)]
    last = len(rows[0]) - 1
    counts, origins = [*range(1, 5), last - 1, last], range(5, last - 1)
    return fitted(rows, styles, width=width, parts=(counts, origins))


def _cells(line: RuleCounts, origins: Sequence[Origin]) -> tuple[str, ...]:
    low, high = line.interval
    rate = (f"{line.rate:.1%}", f"{100 * low:.1f}–{100 * high:.1f}" if line.sampled else "–") if line.judged else ("–", "–")
    untouched = "{:,}/{:,}".format(*line.untouched) if line.untouched else "–"
    trials, violated, skipped, errors = map(_count, (line.trials, line.violated, line.skipped, line.errors))
    came_from = (_count(line.number_of(origin)) for origin in origins)
    return shortened(printable(line.name), NARROW), trials, violated, *rate, *came_from, untouched, skipped, errors


def _check_cells(line: CheckCounts, sampled: bool) -> tuple[str, ...]:
    low, high = line.interval
    interval = f"{100 * low:.1f}–{100 * high:.1f}" if sampled else "–"
    ends = [f"{count:,}" for count in line.outcomes.values()] if line.outcomes else ["–"] * 3
    rate = f"{line.judged:,}", f"{line.violated:,}", f"{line.rate:.1%}", interval
    return shortened(printable(line.rule), NARROW), line.check, *rate, *ends


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _describe_finding(finding: Finding, run: Run, width: int) -> Text:
    """A finding in three lines, the last of which replays it."""
    head = [_plain(f"{finding.rule}: {finding.words}", style="bold red"), _plain(finding.case), Text(_margin(finding))]
    lines = (
        filled(head, width, indent="  "),
        Text("  ") + _plain(finding.why),
        Text("  ") + _plain(replay_line(run, finding.id), style="cyan", longest=None),
    )
    return Text("\n").join(lines)


def print_groups(run: Run, console: Console, most: int) -> None:
    """Print the worst finding of each of the `most` groups that affect most cases."""
    overview = overview_of(run)
    found = overview.groups
    if not found:
        console.print(Text("No findings." if _has_trials(overview.numbers) else UNTRIED), soft_wrap=True)
        _print_failures(overview.numbers, run, console)
        return
    which = "each" if len(found) <= most else f"the {most:,} that affect most cases"
    console.print(Text(f"{_count_of(len(found), 'group')} of findings; the worst of {which}:", style="bold"), soft_wrap=True)
    for group in found[:most]:
        console.print()
        console.print(_describe_group(group, run, console.width), soft_wrap=True)
    if len(found) > most:
        more = shlex.join(["swerve", "show", str(run.folder), "--most", str(len(found))])
        console.print()
        console.print(_plain(f"to show all groups: {more}", longest=None), soft_wrap=True)


def _has_trials(numbers: Numbers) -> bool:
    return numbers.overall.trials > 0 or numbers.finished


def _describe_group(group: FindingGroup, run: Run, width: int) -> Text:
    """A group in a few lines, the last of which replays its worst finding."""
    worst = group.exemplar
    counts = f"{_count_of(group.findings, 'finding')} in {_count_of(group.cases, 'case')}"
    head = _plain(f"{group.symptom.rule}: {group.label}", style="bold red")
    smallest, indent = smallest_words(run, worst), " " * 4
    lines = (
        Text(f"{group.number:>2}  ") + filled([head, Text(counts)], width, indent=indent),
        Text(indent) + filled([_plain(worst.words), _plain(worst.case), Text(_margin(worst))], width, indent=indent),
        Text("    ") + _plain(worst.why),
        *([Text("    ") + _plain(f"smallest: {smallest}", longest=None)] if smallest else []),
        Text("    ") + _plain(replay_line(run, worst.id), style="cyan", longest=None),
    )
    return Text("\n").join(lines)


def _count_of(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _margin(finding: Finding) -> str:
    return f"margin {finding.margin:+.3g}, {finding.origin.words}{', flaky' if finding.flaky else ''}"


def print_findings(run: Run, console: Console, most: int) -> None:
    """Print one line for each of the `most` findings with the largest margins."""
    found, numbers = run.best(most)[:most], overview_of(run).numbers
    _print_lines(found, console)
    shown = f"{len(found):,} of {numbers.overall.violated:,} findings"
    console.print(Text(shown if _has_trials(numbers) else UNTRIED), soft_wrap=True)


def print_slice(found: FoundSlice, console: Console, most: int) -> None:
    """Print one line for each of the first `most` findings of a slice, and how many of its trials failed."""
    _print_lines(found.findings[:most], console)
    (low, high), count = found.interval, len(found.findings)
    rate = f": {count / found.judged:.1%} (95% Wilson {low:.1%} to {high:.1%})" if found.judged else ""
    shown = f"{min(count, most):,} of {count:,} findings in {found.judged:,} judged trials{rate}"
    console.print(Text(shown), soft_wrap=True)


def _print_lines(findings: Sequence[Finding], console: Console) -> None:
    for item in findings:
        head = Text(f"{item.id}  {item.margin:+8.3g}  {item.origin.words:14}  ")
        console.print(head + _plain(f"{item.rule}: {item.words}  {item.case}"), soft_wrap=True)


def print_finding(run: Run, finding: Finding, console: Console) -> None:
    """Print one finding in full, with the paths of its pictures."""
    from swerve.report.sweep_pictures import drawn_of  # the list of findings draws nothing

    console.print(_describe_finding(finding, run, console.width), soft_wrap=True)
    answers = {"source": finding.before, "follow-up": finding.after, "label": finding.truth}
    texts = {name: answer_words(answer) for name, answer in answers.items() if answer}
    facts = {name: f"{fact:.4g}" if isinstance(fact, float) else str(fact) for name, fact in finding.facts.items()}
    kept = [*pictures_of(run, finding.source_sha).values(), *pictures_of(run, finding.input_sha).values()]
    pictures = [*drawn_of(run, finding), *kept]  # bird's-eye pictures first, since an .npy cannot be viewed
    if smallest := smallest_words(run, finding):
        facts["smallest change"] = smallest
    for name, text in {**texts, **facts, "pictures": ", ".join(map(str, pictures)) or "not kept"}.items():
        console.print(Text("  ") + _plain(f"{name}: {text}", longest=None), soft_wrap=True)


class RichProgress:
    """Progress of `swerve.execution.engine.run`: a bar per stage on a terminal, one line per stage elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage = ""
        self._done = self._found = self._pending = 0
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
        self._stage, self._done, self._found, self._pending = stage, 0, 0, 0
        self._since = time.monotonic()
        if self._bars:
            self._task = self._bars.add_task(printable(stage), total=total, found=0)

    def head(self, line: str) -> None:
        """Print a heading for the following stages and end the previous one."""
        self._end("{:,} done")
        self._console.print(Text(line, style="bold"))

    def advance(self, done: int, found: int) -> None:
        """Count `done` more, `found` of which are findings."""
        self._done, self._found, self._pending = self._done + done, self._found + found, 0
        self._show()

    def tick(self, done: int) -> None:
        """Show `done` more, which will be counted once they are committed."""
        self._pending += done
        self._show()

    def _show(self) -> None:
        if self._bars and self._task is not None:
            self._bars.update(self._task, completed=self._done + self._pending, found=self._found)

    def _end(self, how: str) -> None:
        if self._stage and not self._bars:
            taken = time.monotonic() - self._since
            rate = f"{self._done / taken:,.0f}/s" if taken > 0 else ""
            findings = f", {self._found:,} findings" if self._found else ""
            self._console.print(
                _plain(f"{self._stage}: {how.format(self._done)}{findings} in {taken:.1f} s {rate}".rstrip())
            )
        if self._bars and self._task is not None:
            self._bars.update(self._task, total=self._done)  # ends a stage of unknown length, whose clock would go on
            self._task = None
        self._stage = ""


def _bars(console: Console) -> Progress:
    columns: tuple[ProgressColumn, ...] = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        _Found(),
        _Clock(),
    )
    return Progress(*columns, console=console)


class _Found(ProgressColumn):
    """The number of findings so far."""

    def render(self, task: Task) -> Text:
        return Text(_count_of(task.fields["found"], "finding") if task.fields["found"] else "", style="red")


class _Clock(ProgressColumn):
    """The time since a stage began, and the time that it will probably still take."""

    def render(self, task: Task) -> Text:
        taken = task.finished_time if task.finished else task.elapsed
        left = task.time_remaining if not task.finished else None
        return Text(_clock(taken or 0) + (f", {_clock(left)} left" if left else ""), style="dim")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
