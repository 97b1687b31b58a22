"""The counts of a run, from its journal, so that they add up for an unfinished run too."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from swerve.analysis.growth import kept
from swerve.analysis.statistics import wilson
from swerve.core.errors import printable
from swerve.core.relation import Status
from swerve.search.greedy import COVERAGE
from swerve.store.journal import Row
from swerve.store.record_json import BASELINE
from swerve.store.view import Run

SUMMARY, HEALTH, PAGE = "summary.json", "health.json", "report/index.html"
MOST_REASONS = 1000  # counted separately; further ones are counted together
OTHER = "other reasons"
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class RuleCounts:
    """The counts of one rule, or of all: trials = held + violated + skipped + errors."""

    name: str
    held: int = 0
    violated: int = 0
    skipped: int = 0
    errors: int = 0
    introduced: int = 0
    already_wrong: int = 0
    untouched: tuple[int, int] | None = None  # cases that are already wrong, and all cases
    sampled: bool = True  # whether the trials are a sample, so that the rate has an interval

    @property
    def trials(self) -> int:
        """All trials, whatever their outcome."""
        return self.held + self.violated + self.skipped + self.errors

    @property
    def judged(self) -> int:
        """The trials that held or violated."""
        return self.held + self.violated

    @property
    def unattributed(self) -> int:
        """Violations that can be called neither introduced nor already wrong."""
        return self.violated - self.introduced - self.already_wrong

    @property
    def blame(self) -> tuple[int | None, int | None]:
        """The violations that were introduced and those already wrong; None if this is unknown for all of them."""
        return (
            (None, None) if self.violated and self.unattributed == self.violated else (self.introduced, self.already_wrong)
        )

    @property
    def rate(self) -> float:
        """The share of judged trials that violated."""
        return self.violated / self.judged if self.judged else 0.0

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The rate's 95% Wilson interval."""
        return wilson(self.violated, self.judged)


@dataclass
class Reason:
    """Why cases or trials were not judged: the first such sentence, their number, and the first case."""

    what: str
    why: str
    case: str
    count: int = 0
    alike: bool = False  # whether others differ only in their numbers


@dataclass
class Failures:
    """Errors of the system, a change or a relation: trials by kind of error, and untouched cases."""

    kinds: Counter[str] = field(default_factory=Counter)
    first: Row | None = None  # the row of the first such trial
    untouched: int = 0
    first_untouched: Row | None = None

    def add(self, row: Row) -> None:
        """Count a journal row if it records a failure."""
        if row["kind"] == BASELINE:
            if row["fault"] and row["readable"]:
                self.untouched += 1
                self.first_untouched = self.first_untouched or row
        elif row["status"] == Status.ERROR.value:
            self.kinds[row["error"]] += 1
            self.first = self.first or row

    def lines(self, folder: Path) -> Iterator[str]:
        """A line about failed trials and one about failed cases, where there are any."""
        if self.first:
            count = self.kinds.total()
            kinds = ", ".join(f"{kind} {number:,}" for kind, number in self.kinds.most_common())
            again = shlex.join(["swerve", "replay", str(folder), self.first["id"]])
            head = f"{count:,} error{'' if count == 1 else 's'} ({kinds})"
            yield f"{head}; first: {printable(self.first['case'], 60)}: {printable(self.first['why'], 160)}; {again}"
        if seen := self.first_untouched:
            cases = f"{self.untouched:,} untouched case{'' if self.untouched == 1 else 's'}"
            yield f"the system failed on {cases}; first: {printable(seen['case'], 60)}: {printable(seen['fault'], 160)}"


@dataclass(frozen=True)
class Numbers:
    """A run in numbers."""

    method: str
    seed: int
    cases: int
    unusable: int
    finished: bool
    overall: RuleCounts
    rules: tuple[RuleCounts, ...]
    reasons: tuple[Reason, ...]
    failures: Failures
    asked_again: int = 0  # findings
    flaky: int = 0  # of them, that did not fail again

    @property
    def repeats(self) -> str:
        """How many findings failed again when they were asked again, or nothing where none was."""
        if not self.asked_again:
            return ""
        asked = f"{self.asked_again:,} finding{'' if self.asked_again == 1 else 's'} asked again, each alone"
        return f"{asked}: {self.flaky:,} did not fail again (flaky)." if self.flaky else f"{asked}: all failed again."

    @property
    def headline(self) -> str:
        """The result in one sentence; a run without judged trials is never reported as a success."""
        whole, (low, high) = self.overall, self.overall.interval
        if not whole.trials:
            return "The run has no trials, so it says nothing about the system."
        if not whole.judged:
            counts = f"{whole.skipped:,} skipped, {whole.errors:,} errors"
            return f"No trial could be judged ({counts}), so this run says nothing about the system."
        if not whole.sampled:
            found = f"{whole.violated:,} of {whole.judged:,} judged trials violated their rule" if whole.violated else ""
            none = f"No findings: all {whole.judged:,} judged trials held"
            return f"{found or none}; the search adapted to earlier results, so this is not a failure rate."
        if not whole.violated:
            beside = f"; {whole.errors:,} more ended in an error" if whole.errors else ""
            return f"No findings: all {whole.judged:,} judged trials held (at most {high:.1%} may fail, 95% Wilson){beside}."
        share = f"{whole.rate:.1%} (95% Wilson {low:.1%} to {high:.1%})"
        return f"{whole.violated:,} of {whole.judged:,} judged trials violated their rule: {share}."

    @property
    def unfinished(self) -> str:
        """The notice that a campaign was stopped; empty if it finished."""
        if self.finished:
            return ""
        done = f"{self.overall.trials:,} trials and {self.cases + self.unusable:,} cases committed so far"
        return (
            f"This campaign has not finished: the numbers cover the {done}. Run it again with the same folder to continue."
        )


@dataclass
class _Tally:
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        status = row["status"]
        self.counts[status] += 1
        if status == Status.VIOLATED.value and row["introduced"] is not None:
            self.counts["introduced" if row["introduced"] else "already_wrong"] += 1

    def line(self, name: str, untouched: tuple[int, int] | None = None, *, sampled: bool = True) -> RuleCounts:
        plain = {key: self.counts[key] for key in ("held", "violated", "skipped", "introduced", "already_wrong")}
        return RuleCounts(name, **plain, errors=self.counts[Status.ERROR.value], untouched=untouched, sampled=sampled)


def numbers_of(run: Run) -> Numbers:
    """The numbers of `run`, in one pass over its rows."""
    campaign = run.identity["campaign"]
    rules = {str(rule["name"]): _Tally() for rule in campaign.get("rule", ())}
    overall, cases, reasons, failures = _Tally(), Counter[bool](), _Reasons(), Failures()
    for row in run.rows():
        failures.add(row)
        if row["kind"] == BASELINE:
            cases[bool(row["fault"])] += 1
            if row["fault"]:
                reasons.add("unusable case", row["fault"], row["case"])
            continue
        overall.add(row)
        rules.setdefault(row["rule"], _Tally()).add(row)
        if row["status"] in (Status.SKIPPED.value, Status.ERROR.value):
            reasons.add(f"{row['error']} error" if row["error"] else row["status"], row["why"], row["case"])
    whole = overall.line("all rules", sampled=run.sampled)
    summary = _derived(run, SUMMARY)
    finished = summary.get("trials") == whole.trials
    untouched = _untouched(summary) if finished else {}
    lines = tuple(tally.line(name, untouched.get(name), sampled=run.sampled) for name, tally in rules.items())
    return Numbers(
        str(campaign.get("method", "custom")),
        int(campaign.get("seed", 0)),
        cases[False],
        cases[True],
        finished,
        whole,
        lines,
        reasons.most_first(),
        failures,
        len(run.repeats),
        list(run.repeats.values()).count(False),
    )


@dataclass(frozen=True)
class Reached:
    """What a finished run covered inside the system, in sentences, and the measured layers with their neurons."""

    sentences: tuple[str, ...]
    layers: Mapping[str, int]

    @property
    def counted(self) -> str:
        """The layers in one line."""
        whole = sum(self.layers.values())
        return f"{whole:,} neurons are measured: " + ", ".join(f"{name} {count:,}" for name, count in self.layers.items())


def reached_of(run: Run) -> Reached | None:
    """The coverage in `summary.json`, and the number of images that a guided search kept."""  # D-5, DT-33
    summary, search = _derived(run, SUMMARY), run.identity["campaign"].get("search", {})
    covered = summary.get("coverage")
    if not covered or not isinstance(covered, dict):
        return None
    guided = search.get("use") == "greedy" and search.get("follow", COVERAGE) == COVERAGE
    images = f", {sum(1 for _ in kept(run)):,} images kept" if guided else ""
    sentences = [_describe_coverage(name, counts) + images for name, counts in covered.items()]
    caveat = ["No other search was run for comparison, so this does not show a benefit of guidance."] if guided else []
    return Reached((*sentences, *caveat), summary.get("layers") or {})


def _describe_coverage(name: str, counts: Mapping[str, int]) -> str:
    what = "neurons" if name == "NC" else "regions"
    return f"{name} {counts['untouched']:,} → {counts['covered']:,} of {counts['total']:,} {what}"


class _Reasons:
    """Reasons grouped by their sentence, ignoring numbers and the case's name."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Reason] = {}

    def add(self, what: str, why: str, case: str) -> None:
        key = what, _NUMBER.sub("#", why.replace(case, "…") if case else why)
        if key not in self.found and len(self.found) >= MOST_REASONS:
            key, why, case = (what, OTHER), OTHER, ""
        reason = self.found.setdefault(key, Reason(what, why, case))
        reason.count += 1
        reason.alike = reason.alike or reason.why != why

    def most_first(self) -> tuple[Reason, ...]:
        return tuple(sorted(self.found.values(), key=lambda reason: -reason.count))


@dataclass(frozen=True)
class Condition:
    """The health check before the first trial: numbers on the untouched cases, and every concern."""

    numbers: Mapping[str, str]
    concerns: tuple[Mapping[str, str], ...]  # each with a name, a level and why


def condition_of(run: Run) -> Condition | None:
    """The content of `health.json`, or None without it."""
    health = _derived(run, HEALTH)
    baseline, concerns = health.get("baseline"), health.get("concerns")
    if not isinstance(baseline, dict) or not isinstance(concerns, list):
        return None
    numbers = {
        name.replace("_", " "): f"{item:.4g}" if isinstance(item, float) else str(item) for name, item in _flat(baseline)
    }
    named = [
        {key: str(item.get(key, "")) for key in ("name", "level", "why")} for item in concerns if isinstance(item, dict)
    ]
    return Condition(numbers, tuple(named))


def _flat(baseline: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, item) for name, item in baseline.items() if isinstance(item, str | int | float))


def _derived(run: Run, name: str) -> Mapping[str, Any]:
    """A JSON file of the run folder; empty if it is missing or damaged, since such files are derived."""
    try:
        data = json.loads((run.folder / name).read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _untouched(summary: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    given: Iterable[tuple[str, Any]] = ((name, rule.get("untouched")) for name, rule in summary.get("rules", {}).items())
    return {name: (counts["violated"], counts["cases"]) for name, counts in given if counts and counts["cases"]}
