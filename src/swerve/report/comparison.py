"""The comparison of two runs in the terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from swerve.analysis.compare import HELD, Counts, Paired, RunComparison, findings_among, persisting
from swerve.core.errors import printable
from swerve.report.cells import filled, fitted, plain, shortened
from swerve.report.words import replay_line
from swerve.store.record_json import Finding
from swerve.store.view import Run

LONGEST, NARROW = 160, 24
WARNINGS = 10  # printed at most
# Two lines each, so that the table fits 80 columns.
HEADS = (
    ("", "judged", "", "", "", "", "", "", "", "not", "McNemar"),
    ("rule", "in both", "before", "95%", "after", "95%", "new", "fixed", "still", "judged", "p"),
)
DEPENDENT = "Trials of one case are not independent, so the true p is larger."


def print_comparison(found: RunComparison, console: Console, most: int, failure: str = "") -> None:
    """Print the table of rules, the conclusion, the worst findings of only one run, and the reason for failing."""
    for name, run in (("before", found.before), ("after", found.after)):
        console.print(_plain(f"{name:7} {run.folder}  weights {weights_of(run)[:12]}"), soft_wrap=True)
    for warning in few(warnings(found)):
        console.print(_plain(f"note: {warning}", style="yellow"), soft_wrap=True)
    console.print(_table(found, console.width), soft_wrap=True)
    for sentence in sentences(found):
        console.print(_plain(sentence, style="bold"), soft_wrap=not console.is_terminal)
    if found.overall.mcnemar.p is not None:
        console.print(Text(DEPENDENT, style="dim"), soft_wrap=True)
    _print_listed(found, console, most)
    if failure:
        console.print()
        console.print(_plain(f"failed: {failure}", style="bold red", longest=None), soft_wrap=True)


def _print_listed(found: RunComparison, console: Console, most: int) -> None:
    sections: Sequence[tuple[str, Run, Collection[str], Mapping[str, str]]] = (
        ("new", found.after, found.new, {}),
        ("fixed", found.before, found.fixed, {}),
        ("not judged before", found.after, found.surfaced, found.appeared),
        ("no longer judged", found.before, found.dropped, found.gone),
    )
    for name, run, ids, statuses in sections:
        if ids:
            console.print()
            console.print(Text(f"{name}: {len(ids):,}{f', the worst {most:,} of them' if len(ids) > most else ''}"))
            for finding in findings_among(run, ids, most):
                console.print(_describe_finding(finding, run, statuses.get(finding.id, ""), console.width), soft_wrap=True)


def _describe_finding(finding: Finding, run: Run, status: str, width: int) -> Text:
    """A finding in three lines, the last of which replays it."""
    head = [_plain(f"{finding.rule}: {finding.words}", style="red"), _plain(finding.case)]
    elsewhere = f", {status} in the other run" if status else ""
    lines = (
        filled([*head, Text(f"margin {finding.margin:+.3g}, {finding.origin.words}{elsewhere}")], width, indent="  "),
        Text("  ") + _plain(finding.why),
        Text("  ") + _plain(replay_line(run, finding.id), style="cyan", longest=None),
    )
    return Text("\n").join(lines)


def weights_of(run: Run) -> str:
    """The fingerprint of the system that a run tested."""
    return str(run.identity["fingerprints"].get("system", "unknown"))


def warnings(found: RunComparison) -> Iterator[str]:
    """What to know before the numbers are believed, such as how the campaigns differ."""
    if weights_of(found.before) == weights_of(found.after):
        yield "both runs have the same weights"
    yield from found.warnings


def few(every: Iterable[str]) -> list[str]:
    """The first warnings, and how many more there are."""
    every = list(every)
    more = len(every) - WARNINGS
    return [*every[:WARNINGS], *([f"and {more:,} more differences"] if more > 0 else [])]


def sentences(found: RunComparison) -> Iterator[str]:
    """The result in a few sentences."""
    whole = found.overall
    test = (
        f"McNemar's exact test p = {whole.mcnemar.p:.2g}" if whole.mcnemar.p is not None else "no trial changed its verdict"
    )
    yield f"{whole.new:,} new, {whole.fixed:,} fixed, {whole.persisting:,} persisting of {whole.judged:,} pairs: {test}."
    if found.worse:
        yield f"Worse than before: {', '.join(found.worse)}."
    for count, what, how in (
        (whole.dropped, "Findings of BEFORE that are no longer judged", found.gone),
        (whole.surfaced, "Findings of AFTER that were not judged before", found.appeared),
    ):
        if count:
            ways = Counter(way for way in how.values() if way != HELD)
            yield f"{what}: {count:,} ({', '.join(f'{n:,} {way}' for way, n in sorted(ways.items()))})."


def _table(found: RunComparison, width: int) -> Text:
    lines = (*found.rules, found.overall) if len(found.rules) > 1 else found.rules
    styles = ["dim"] * len(HEADS) + [""] * len(found.rules) + ["bold"]
    parts = range(1, 6), range(6, 11)
    return fitted([*HEADS, *map(_cells, lines)], styles, width=width, parts=parts)


def _cells(line: Paired) -> tuple[str, ...]:
    rates = (*_rate(line.before), *_rate(line.after))
    counts = [f"{count:,}" for count in (line.new, line.fixed, line.persisting, line.dropped)]
    p = "–" if line.mcnemar.p is None else f"{line.mcnemar.p:.2g}"
    return (shortened(printable(line.name), NARROW), f"{line.judged:,}", *rates, *counts, p)


def _rate(counts: Counts) -> tuple[str, str]:
    if counts.rate is None:
        return "–", "–"
    low, high = counts.interval
    return f"{counts.rate:.1%}", f"{100 * low:.1f}–{100 * high:.1f}"


def _plain(text: str, *, style: str = "", longest: int | None = LONGEST) -> Text:
    return plain(text, style=style, longest=longest)


def as_json(found: RunComparison, *, failure: str = "", most: int | None = None) -> dict[str, Any]:
    """The comparison as plain JSON, with `failure`, the reason for failing.

    `new` and the other lists hold the `most` worst findings; None: all.
    """
    dropped = {item["id"]: item for item in _listed(found.before, found.dropped, most)}
    surfaced = {item["id"]: item for item in _listed(found.after, found.surfaced, most)}
    return {
        "before": _side(found.before, found.overall.before),
        "after": _side(found.after, found.overall.after),
        **_numbers(found.overall),
        "worse": list(found.worse),
        "failure": failure,
        "warnings": list(warnings(found)),
        "rules": {line.name: _rule(line) for line in found.rules},
        "new": _listed(found.after, found.new, most),
        "fixed": _listed(found.before, found.fixed, most),
        "still_there": [_item(finding, found.after) for finding in persisting(found, most)],
        "not_judged_any_more": [{**item, "now": found.gone[name]} for name, item in dropped.items()],
        "not_judged_before": [{**item, "then": found.appeared[name]} for name, item in surfaced.items()],
    }


def _side(run: Run, counts: Counts) -> dict[str, Any]:
    return {"folder": str(run.folder), "weights": weights_of(run), **_counts(counts)}


def _counts(counts: Counts) -> dict[str, Any]:
    numbers = {name: getattr(counts, name) for name in ("trials", "held", "violated", "skipped", "errors", "rate")}
    return {**numbers, "interval": list(counts.interval) if counts.judged else None}


def _rule(line: Paired) -> dict[str, Any]:
    numbers = {**_numbers(line), "new": line.new, "fixed": line.fixed}
    unjudged = {"not_judged_any_more": line.dropped, "not_judged_before": line.surfaced}
    return {"before": _counts(line.before), "after": _counts(line.after), **numbers, **unjudged}


def _numbers(line: Paired) -> dict[str, Any]:
    test = {"new": line.new, "fixed": line.fixed, "p": line.mcnemar.p, "exact": True}
    return {"pairs": line.judged, "persisting": line.persisting, "mcnemar": test}


def _listed(run: Run, ids: Collection[str], most: int | None) -> list[dict[str, Any]]:
    return [_item(finding, run) for finding in findings_among(run, ids, most)]


def _item(finding: Finding, run: Run) -> dict[str, Any]:
    facts = {name: getattr(finding, name) for name in ("id", "rule", "case", "margin", "origin", "why")}
    return {**facts, "change": finding.words, "parameters": dict(finding.change), "replay": replay_line(run, finding.id)}
