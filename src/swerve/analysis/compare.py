"""Two runs of one campaign with different weights: new, fixed and persisting findings, and their significance.

A finding's id is a hash of case, rule and change, so the same id in two runs is the same trial of two models. Both journals
are read once, in parallel. Only where their orders differ is a trial kept, as id and status, until its partner comes, so
memory stays constant for two runs of one campaign.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from swerve.analysis.statistics import StatisticalTest, holm, sign_test, wilson
from swerve.core.errors import StoreError, printable
from swerve.core.relation import Status
from swerve.store.files import open_plain, read_json
from swerve.store.fingerprint import differences
from swerve.store.journal import Row
from swerve.store.record_json import Finding, finding_of, is_finding
from swerve.store.view import Run, best_of

HELD, VIOLATED, SKIPPED, ERROR = Status.HELD.value, Status.VIOLATED.value, Status.SKIPPED.value, Status.ERROR.value
ABSENT = "absent"
UNJUDGED = (SKIPPED, ERROR, ABSENT)
JUDGED = (HELD, VIOLATED)
SIGNIFICANT = 0.05
LEARNT = "a search that learns runs other trials for other weights, which cannot be paired: compare the rates instead"
LONGEST_FAULT = 120  # characters
LARGEST_TABLE = 10_000_000  # bytes of `rules.csv`, which has a row for every rule


@dataclass(frozen=True)
class Counts:
    """The trials of one run: trials = held + violated + skipped + errors."""

    held: int = 0
    violated: int = 0
    skipped: int = 0
    errors: int = 0

    @property
    def trials(self) -> int:
        """All trials, whatever their outcome."""
        return self.held + self.violated + self.skipped + self.errors

    @property
    def judged(self) -> int:
        """The trials that held or violated."""
        return self.held + self.violated

    @property
    def rate(self) -> float | None:
        """The share of judged trials that violated."""
        return self.violated / self.judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float]:
        """The rate's 95% Wilson interval."""
        return wilson(self.violated, self.judged)

    def __add__(self, other: Counts) -> Counts:
        held, violated = self.held + other.held, self.violated + other.violated
        return Counts(held, violated, self.skipped + other.skipped, self.errors + other.errors)


@dataclass(frozen=True)
class Paired:
    """One rule, or all, in two runs; `pairs` counts trials by status before and after, `absent` included."""

    name: str
    before: Counts
    after: Counts
    pairs: Mapping[tuple[str, str], int]

    @property
    def new(self) -> int:
        """Held before, violated now."""
        return self._count([HELD], [VIOLATED])

    @property
    def fixed(self) -> int:
        """Violated before, held now."""
        return self._count([VIOLATED], [HELD])

    @property
    def persisting(self) -> int:
        """Violated in both."""
        return self._count([VIOLATED], [VIOLATED])

    @property
    def dropped(self) -> int:
        """Violated before, no longer judged: neither fixed nor persisting."""
        return self._count([VIOLATED], UNJUDGED)

    @property
    def surfaced(self) -> int:
        """Violated now, not judged before: whether it is new is unknown."""
        return self._count(UNJUDGED, [VIOLATED])

    @property
    def broken(self) -> int:
        """Judged before, an error now."""
        return self._count(JUDGED, [ERROR])

    @property
    def left_out(self) -> int:
        """Judged before, skipped now."""
        return self._count(JUDGED, [SKIPPED])

    @property
    def lost(self) -> int:
        """Judged before, absent now."""
        return self._count(JUDGED, [ABSENT])

    @property
    def judged(self) -> int:
        """Judged in both: the pairs of McNemar's test."""
        return self._count(JUDGED, JUDGED)

    @property
    def common(self) -> int:
        """In both runs, whatever the outcome."""
        every = (*JUDGED, SKIPPED, ERROR)
        return self._count(every, every)

    def unpaired(self) -> tuple[int, int]:
        """The numbers of trials in the first run only and in the second only, without skipped ones."""
        counted = (*JUDGED, ERROR)
        return self._count(counted, [ABSENT]), self._count([ABSENT], counted)

    @cached_property
    def mcnemar(self) -> StatisticalTest:
        """McNemar's exact test of whether new and fixed are equally likely."""
        return sign_test(self.new, self.fixed)

    def _count(self, before: Collection[str], after: Collection[str]) -> int:
        return sum(self.pairs.get(pair, 0) for pair in itertools.product(before, after))


@dataclass(frozen=True)
class RunComparison:
    """The comparison of two runs; `appeared` and `gone` have the other run's status where only one violated."""

    before: Run
    after: Run
    overall: Paired
    rules: tuple[Paired, ...]
    appeared: Mapping[str, str]  # id: status before
    gone: Mapping[str, str]  # id: status now
    warnings: tuple[str, ...]
    unfinished: str = ""  # that AFTER has not finished
    unanswered: str = ""  # untouched cases that are unusable in AFTER only
    differing: tuple[str, ...] = ()  # differences of the campaigns other than the system

    @property
    def new(self) -> set[str]:
        """Ids of findings that held before."""
        return {name for name, then in self.appeared.items() if then == HELD}

    @property
    def surfaced(self) -> set[str]:
        """Ids of findings that were not judged before."""
        return {name for name, then in self.appeared.items() if then != HELD}

    @property
    def fixed(self) -> set[str]:
        """Ids of former findings that hold now."""
        return {name for name, now in self.gone.items() if now == HELD}

    @property
    def dropped(self) -> set[str]:
        """Ids of former findings that are no longer judged."""
        return {name for name, now in self.gone.items() if now != HELD}

    @property
    def worse(self) -> tuple[str, ...]:
        """The rules, or all of them, that fail significantly more often than before, with Holm's correction."""
        lines = (*self.rules, self.overall) if len(self.rules) > 1 else self.rules
        adjusted = holm([line.mcnemar.p for line in lines])
        rising = zip(lines, adjusted, strict=True)
        return tuple(line.name for line, p in rising if p is not None and p < SIGNIFICANT and line.new > line.fixed)

    def failure(self, on: str = "new", *, force: bool = False) -> str:
        """Why a pipeline should stop, or an empty text; `on` is `new`, `worse` or `never`.

        Missing verdicts always stop it: a model that was not run, or fails to answer, has no findings. A search that learns
        runs other trials for another model, so there none is missing. Campaigns that differ in more than the system stop
        it too, unless `force` is given.
        """
        if on == "never":
            return ""
        reasons = [
            *(() if force else _differing(self.differing)),
            *filter(None, (self.unfinished, self.unanswered)),
            *(_lost(self.overall) if self.after.sampled else ()),
            *_missing(self.overall),
        ]
        if on == "worse":
            return "; ".join([*reasons, *(f"{name} fails more often than before" for name in self.worse)])
        counts = {"new": self.overall.new, "not judged before": self.overall.surfaced}
        return "; ".join([*reasons, *(f"findings {what}: {count:,}" for what, count in counts.items() if count)])


class Incomparable(StoreError):
    """Two runs that share no judged trial; `details` lists how their campaigns differ."""

    def __init__(self, before: Run, after: Run, overall: Paired, changed: Collection[str]) -> None:
        self.details = (*changed, *_describe_counts(overall))
        why = "no trial was judged in both" if overall.common else "they have no trial in common"
        way_out = "run the same campaign with both weights" if after.sampled or overall.common else LEARNT
        super().__init__(f"{before.folder} and {after.folder} cannot be compared: {why}; {way_out}")


def compare(before: Run, after: Run) -> RunComparison:
    """The differences from `before` to `after`, paired by trial."""
    merge = _Merge()
    for rows in itertools.zip_longest(before.trials(), after.trials()):
        for side, row in enumerate(rows):
            if row is not None:
                merge.add(side, row, alone=rows[1 - side] is None)
    merge.close()
    rules = tuple(merge.paired(name) for name in _names(before, after, merge))
    overall = _sum(rules)
    changed = _differences(before, after)
    unfinished, unanswered = "".join(_unfinished(after, overall.after)), _unanswered(before, after)
    notes = (*_unfinished(before, overall.before), *filter(None, (unfinished, unanswered)))
    if not overall.judged:
        raise Incomparable(before, after, overall, [*changed, *notes])
    warnings = (*changed, *notes, *_gaps(overall))
    differing = tuple(_differences(before, after, _inputs))
    return RunComparison(
        before, after, overall, rules, merge.appeared, merge.gone, warnings, unfinished, unanswered, differing
    )


def findings_among(run: Run, ids: Collection[str], most: int | None = None) -> list[Finding]:
    """The `most` worst findings of `run` among `ids`."""
    return _worst(run, lambda row: row["id"] in ids, len(ids) if most is None else most)


def persisting(found: RunComparison, most: int | None = None) -> list[Finding]:
    """The `most` worst findings of AFTER that BEFORE has too; their ids are not kept in memory."""
    count = found.overall.persisting if most is None else most
    return _worst(found.after, lambda row: row["id"] not in found.appeared, count)


def _worst(run: Run, wanted: Callable[[Row], bool], count: int) -> list[Finding]:
    if not count:
        return []
    rows = (row for row in run.trials() if is_finding(row) and wanted(row))
    return [finding_of(row) for row in best_of(rows, count)[:count]]


@dataclass
class _Merge:
    """Pairs the trials of two journals while they are read."""

    sides: tuple[defaultdict[str, Counter[str]], ...] = field(
        default_factory=lambda: (defaultdict(Counter), defaultdict(Counter))
    )
    pairs: defaultdict[str, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    waiting: tuple[defaultdict[str, dict[str, str]], ...] = field(
        default_factory=lambda: (defaultdict(dict), defaultdict(dict))
    )
    appeared: dict[str, str] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)

    def add(self, side: int, row: Row, *, alone: bool) -> None:
        """Add one trial of a side; `alone` if the other journal has ended."""
        name, rule, status = row["id"], row["rule"], Status(row["status"]).value
        self.sides[side][rule][status] += 1
        partner = self.waiting[1 - side][rule].pop(name, ABSENT if alone else None)
        if partner is not None:
            self._pair(rule, name, (partner, status) if side else (status, partner))
        else:
            # A change drawn twice has a second, skipped row; the first one counts.
            self.waiting[side][rule].setdefault(name, status)

    def close(self) -> None:
        """Both journals have ended: the remaining trials have no partner."""
        for side, rules in enumerate(self.waiting):
            for rule, left in rules.items():
                for name, status in left.items():
                    self._pair(rule, name, (ABSENT, status) if side else (status, ABSENT))
                left.clear()

    def _pair(self, rule: str, name: str, pair: tuple[str, str]) -> None:
        self.pairs[rule][pair] += 1
        then, now = pair
        if now == VIOLATED != then:
            self.appeared[name] = then
        elif then == VIOLATED != now:
            self.gone[name] = now

    def paired(self, rule: str) -> Paired:
        """The counts of a rule."""
        before, after = (_counts(side[rule]) for side in self.sides)
        return Paired(rule, before, after, dict(self.pairs[rule]))


def _counts(statuses: Mapping[str, int]) -> Counts:
    return Counts(*(statuses.get(status, 0) for status in (HELD, VIOLATED, SKIPPED, ERROR)))


def _sum(rules: Collection[Paired]) -> Paired:
    pairs: Counter[tuple[str, str]] = Counter()
    for rule in rules:
        pairs.update(rule.pairs)
    before, after = (sum((getattr(rule, side) for rule in rules), Counts()) for side in ("before", "after"))
    return Paired("all rules", before, after, dict(pairs))


def _names(before: Run, after: Run, merge: _Merge) -> list[str]:
    """Rules in the order of the campaigns, then any others in the journals."""
    declared = (str(rule["name"]) for run in (before, after) for rule in run.identity["campaign"].get("rule", ()))
    return list(dict.fromkeys([*declared, *merge.sides[0], *merge.sides[1]]))


def _differences(before: Run, after: Run, parts: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None) -> list[str]:
    """The differences of the campaigns other than the system, which is compared."""
    select = parts or _comparable
    return differences(select(before.identity), select(after.identity))


def _inputs(identity: Mapping[str, Any]) -> dict[str, Any]:
    """What determines the trials: data and campaign, but neither code nor libraries."""
    data = {key: item for key, item in identity["fingerprints"].items() if key == "source"}
    return {"fingerprints": data, "campaign": _without_system(identity["campaign"])}


def _comparable(identity: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: part for key, part in identity.items() if key not in ("factory", "rebuildable", "assets")}
    parts = {name: _without_system(identity[name]) for name in ("fingerprints", "campaign")}
    return {**kept, **parts}


def _without_system(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in part.items() if key != "system"}


def _unfinished(run: Run, counts: Counts) -> Iterator[str]:
    if counts.trials not in (_trials_of_summary(run.folder), _trials_of_table(run.folder)):
        yield f"{run.folder} has not finished; it has {counts.trials:,} trials so far"


def _trials_of_summary(folder: Path) -> int | None:
    try:
        return int(read_json(folder / "summary.json")["trials"])
    except (StoreError, ValueError, TypeError, KeyError, OverflowError):  # a derived file, which may be missing or damaged
        return None


def _trials_of_table(folder: Path) -> int | None:
    """The same from `rules.csv`, which is also written at the end."""
    try:
        with open_plain(folder / "tables" / "rules.csv") as file:
            text = io.StringIO(file.read(LARGEST_TABLE).decode(), newline="")
            return sum(int(row["trials"]) for row in csv.DictReader(text))
    except (OSError, StoreError, ValueError, TypeError, KeyError, csv.Error):
        return None


def _unanswered(before: Run, after: Run) -> str:
    """Cases that are unusable in AFTER only, whose trials are missing from both journals."""
    known = {seen.case for seen in before.untouched() if seen.fault}
    failed = [seen for seen in after.untouched() if seen.fault and seen.case not in known]
    if not failed:
        return ""
    first = f"{printable(failed[0].case)}: {printable(failed[0].fault, LONGEST_FAULT)}"
    return f"untouched cases that are unusable in AFTER only: {len(failed):,}; first: {first}"


def _gaps(overall: Paired) -> Iterator[str]:
    """Trials that the comparison leaves out."""
    first, second = overall.unpaired()
    if first or second:
        counts = f"trials in BEFORE only: {first:,}, in AFTER only: {second:,}"
        yield f"{counts}; only the trials judged in both are compared: {overall.judged:,}"
    yield from _missing(overall)


def _differing(differences: Sequence[str]) -> Iterator[str]:
    if differences:
        more = f" (and {len(differences) - 1:,} more)" if len(differences) > 1 else ""
        yield f"the campaigns differ in more than the system: {differences[0]}{more}"


def _lost(overall: Paired) -> Iterator[str]:
    if overall.lost:
        yield f"trials that were judged before and are absent now: {overall.lost:,}"


def _missing(overall: Paired) -> Iterator[str]:
    for count, now in ((overall.broken, "end in an error"), (overall.left_out, "are skipped")):
        if count:
            yield f"trials that were judged before and {now} now: {count:,}"


def _describe_counts(overall: Paired) -> Iterator[str]:
    for name, counts in (("BEFORE", overall.before), ("AFTER", overall.after)):
        judged = f"{counts.judged:,} judged ({counts.violated:,} violated)"
        ended = f"{judged}, {counts.skipped:,} skipped, {counts.errors:,} errors"
        yield f"trials of {name}: {ended}"
