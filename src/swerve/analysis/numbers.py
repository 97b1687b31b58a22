"""The counts of a run, from its journal, so that they add up for an unfinished run too."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from swerve.analysis.statistics import wilson
from swerve.core.campaign import ALWAYS, NEURONS
from swerve.core.encode import close
from swerve.core.errors import StoreError, printable
from swerve.core.origin import Origin
from swerve.core.relation import Status
from swerve.store.files import read_json
from swerve.store.journal import Row
from swerve.store.record_json import BASELINE
from swerve.store.view import Run

SUMMARY, TIMINGS, HEALTH = "summary.json", "timings.json", "health.json"
MOST_REASONS = 1000  # counted separately; further ones are counted together
OTHER = "other reasons"
UNUSABLE = "unusable case"  # the kind of a reason
USUAL = (Origin.INTRODUCED, Origin.ALREADY_WRONG)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class RuleCounts:
    """The counts of one rule, or of all: trials = held + violated + skipped + errors."""

    name: str
    held: int = 0
    violated: int = 0
    skipped: int = 0
    errors: int = 0
    origins: Mapping[Origin, int] = field(default_factory=dict)  # of the violations; together they are all of them
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

    def number_of(self, origin: Origin) -> int | None:
        """The number of violations of an origin; None if the origin of all violations is unknown."""
        unknown = self.origins.get(Origin.UNKNOWN, 0)
        if origin is not Origin.UNKNOWN and self.violated and unknown == self.violated:
            return None
        return self.origins.get(origin, 0)

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
    answered_again: int = 0  # unchanged cases of these findings
    moved: int = 0  # of them, that were answered differently than at the start

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The origins that have a column in the table of rules: the two usual ones, and all that occur."""
        return tuple(origin for origin in Origin if origin in USUAL or self.overall.origins.get(origin))

    @property
    def repeats(self) -> str:
        """How many findings failed again when they were asked again, or nothing where none was."""
        if not self.asked_again:
            return ""
        asked = f"{self.asked_again:,} finding{'' if self.asked_again == 1 else 's'} asked again, each alone"
        outcome = f"{self.flaky:,} did not fail again (flaky)." if self.flaky else "all failed again."
        if not self.moved:
            return f"{asked}: {outcome}"
        return (
            f"{asked}: {outcome} {self.moved:,} of {self.answered_again:,} of their unchanged cases got another answer than "
            "at the start of the run, so other findings may not fail again either."
        )

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
    origins: Counter[Origin] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        self.counts[row["status"]] += 1
        if row["origin"] is not None:
            self.origins[Origin(row["origin"])] += 1

    def line(self, name: str, untouched: tuple[int, int] | None = None, *, sampled: bool = True) -> RuleCounts:
        plain = {key: self.counts[key] for key in ("held", "violated", "skipped")}
        counts = {**plain, "errors": self.counts[Status.ERROR.value]}
        return RuleCounts(name, **counts, origins=self.origins, untouched=untouched, sampled=sampled)


class NumbersTally:
    """Counts the rows of a run one by one."""

    def __init__(self, run: Run) -> None:
        self._run, self._campaign = run, run.identity["campaign"]
        self._rules = {str(rule["name"]): _Tally() for rule in self._campaign.get("rule", ())}
        self._overall, self._cases, self._reasons, self._failures = _Tally(), Counter[bool](), _Reasons(), Failures()
        self._moved = 0

    def add(self, row: Row) -> None:
        """Count a row."""
        self._failures.add(row)
        if row["kind"] == BASELINE:
            self._cases[bool(row["fault"])] += 1
            if row["fault"]:
                self._reasons.add(UNUSABLE, row["fault"], row["case"])
            again = self._run.answered_again.get(row["case"])
            self._moved += again is not None and not close(again, row["said"])
            return
        self._overall.add(row)
        self._rules.setdefault(row["rule"], _Tally()).add(row)
        if row["status"] in (Status.SKIPPED.value, Status.ERROR.value):
            self._reasons.add(f"{row['error']} error" if row["error"] else row["status"], row["why"], row["case"])

    def numbers(self) -> Numbers:
        """The numbers; whether the run has finished is read from its `summary.json`."""
        sampled, repeats = self._run.sampled, self._run.repeats
        whole = self._overall.line("all rules", sampled=sampled)
        summary = summary_of(self._run)
        finished = summary.get("trials") == whole.trials
        untouched = _untouched(summary) if finished else {}
        lines = tuple(tally.line(name, untouched.get(name), sampled=sampled) for name, tally in self._rules.items())
        return Numbers(
            str(self._campaign.get("method", "custom")),
            int(self._campaign.get("seed", 0)),
            self._cases[False],
            self._cases[True],
            finished,
            whole,
            lines,
            self._reasons.most_first(),
            self._failures,
            len(repeats),
            list(repeats.values()).count(False),
            len(self._run.answered_again),
            self._moved,
        )


def numbers_of(run: Run) -> Numbers:
    """The numbers of `run`, in one pass over its rows."""
    tally = NumbersTally(run)
    for row in run.rows():
        tally.add(row)
    return tally.numbers()


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


def reached_of(run: Run, images_kept: int | None = None) -> Reached | None:
    """The coverage in `summary.json`, and the number of images that a guided search kept, counted if it is not given."""
    # D-5, DT-33
    summary = summary_of(run)
    covered = summary.get("coverage")
    if not covered:
        return None
    guided = is_guided(run)
    count = _images_kept(run) if guided and images_kept is None else images_kept
    images = f", {count:,} images kept" if guided else ""
    sentences = [_describe_coverage(name, counts) + images for name, counts in covered.items()]
    caveat = ["No other search was run for comparison, so this does not show a benefit of guidance."] if guided else []
    layers = summary.get("layers") or {}
    if linear := describe_linear(summary.get("linear_layers") or {}, layers):
        sentences.append(f"{linear}; `linear = false` in the campaign file leaves these layers out")
    return Reached((*sentences, *caveat), layers)


def _images_kept(run: Run) -> int:
    from swerve.analysis.growth import kept  # which most runs need not import

    return sum(1 for _ in kept(run))


def describe_linear(linear: Mapping[str, Mapping[str, int]], layers: Mapping[str, int]) -> str:
    """A sentence on the counted layers without an activation function; empty if there are none."""
    if not linear:
        return ""
    neurons = sum(found[NEURONS] for found in linear.values())
    text = (
        f"{len(linear)} of {len(layers)} layers without an activation function ({neurons:,} of {sum(layers.values()):,} "
        f"neurons): {', '.join(linear)}"
    )
    if all(ALWAYS in found for found in linear.values()):
        text += f"; {sum(found[ALWAYS] for found in linear.values()):,} of these neurons are active on every untouched case"
    return text


def is_guided(run: Run) -> bool:
    """Whether its search followed coverage."""
    search = run.identity["campaign"].get("search", {})
    if search.get("use") != "greedy":
        return False
    from swerve.search.greedy import COVERAGE  # which most runs need not import

    return bool(search.get("follow", COVERAGE) == COVERAGE)


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


def derived_file(run: Run, name: str) -> Mapping[str, Any]:
    """A JSON file of the run folder; empty if it is missing or damaged, since such files are derived."""
    try:
        return read_json(run.folder / name)
    except StoreError:
        return {}


def summary_of(run: Run) -> Mapping[str, Any]:
    """The content of `summary.json`; empty if it is missing or damaged."""
    summary = derived_file(run, SUMMARY)
    rules, tables = summary.get("rules", {}), [summary.get(name, {}) for name in ("coverage", "linear_layers")]
    intact = isinstance(rules, dict) and all(isinstance(rule, dict) for rule in rules.values())
    counted = [rule["untouched"] for rule in rules.values() if rule.get("untouched")] if intact else []
    intact = intact and all(_are_counts(one, ("violated", "cases")) for one in counted)
    intact = intact and all(isinstance(table, dict) and all(map(_are_counts, table.values())) for table in tables)
    intact = intact and all(_are_counts(one, ("untouched", "covered", "total")) for one in tables[0].values())
    intact = intact and all(_are_counts(one, (NEURONS,)) for one in tables[1].values())
    return summary if intact and _are_counts(summary.get("layers", {})) else {}


def _are_counts(table: object, needed: Collection[str] = ()) -> bool:
    """Whether a table of a file holds whole numbers by name, those that are `needed` among them."""
    return isinstance(table, dict) and {*needed} <= table.keys() and all(isinstance(one, int) for one in table.values())


def _untouched(summary: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    given: Iterable[tuple[str, Any]] = ((name, rule.get("untouched")) for name, rule in summary.get("rules", {}).items())
    return {name: (counts["violated"], counts["cases"]) for name, counts in given if counts and counts["cases"]}
