"""Groups of findings with the same fault: one rule, kind of change, direction of the error and failure mode.

The first three are a finding's `Symptom`, read from its journal row. For white-box systems, whose penultimate layer was
recorded (`swerve.execution.finding_pictures`), the findings of a symptom are split into failure modes: clusters whose layer
moved in directions more than 60° apart (average linkage, cosine distance `APART`). A cluster of fewer than `FEWEST` cases
stays with the symptom's largest failure mode, as do findings without a recorded layer, so every finding is in one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_uppercase
from typing import Any, Protocol

import numpy as np

from swerve.analysis.strength import believable_first
from swerve.core.system import Answer
from swerve.core.values import Array, Boxes2D, Boxes3D, Signal, Steering, find
from swerve.relations.boxes import Flaw
from swerve.relations.sets import rows_fact
from swerve.store.artifacts import SHA_DIGITS
from swerve.store.record_json import Finding

APART = 0.5  # 1 - cos 60°
FEWEST = 2
MOST_SYMPTOMS = 1000  # counted separately; further kinds of change are counted together
OTHERS = "other changes"
LEFT, RIGHT = "further left", "further right"
HIGHER, LOWER = "higher", "lower"
LOST, GAINED, MOVED, OTHER_KIND, DOUBLED = "lost", "gained", "moved", "other kind", "found twice"
DISAGREE, CHANGED = "members disagree", "changed"
FLAWS = {
    Flaw.PLACED_MISSED: "placed object lost",
    Flaw.PLACED_DRIFTED: "placed object moved",
    Flaw.KEPT_LOST: "unchanged object lost",
    Flaw.MISSED: LOST,
    Flaw.WRONG_STATE: OTHER_KIND,
    Flaw.GHOST: GAINED,
    Flaw.DRIFTED: MOVED,
    Flaw.DOUBLED: DOUBLED,
}
OF_SIGNALS = ("signal-within", "decrease")
COUNTED = {"lost": LOST, "type_changed": OTHER_KIND, "moved": MOVED}  # facts of `swerve.relations.sets`, worst first


@dataclass(frozen=True)
class Symptom:
    """What findings of one fault have in common, according to their journal rows."""

    rule: str
    family: str  # the kind of change, whatever its numbers
    direction: str  # of the error


@dataclass(frozen=True)
class FindingGroup:
    """Findings of one fault: the worst of them, and the most believable one, which has the smallest change."""

    number: int  # 1 affects most cases
    symptom: Symptom
    findings: int
    cases: int
    exemplar: Finding  # the worst
    mildest: Finding
    way: tuple[int, int] = (1, 1)  # which of its symptom's failure modes it is, and of how many
    inputs: frozenset[str] = frozenset()  # first digits of its follow-ups' hashes; empty for the largest failure mode

    @property
    def label(self) -> str:
        """The kind of change and the direction of the error: `rotate, further left`."""
        pattern = f" ({self.pattern})" if self.pattern else ""
        return f"{self.symptom.family}, {self.symptom.direction}{pattern}"

    @property
    def pattern(self) -> str:
        """The name of its failure mode, `pattern A`; empty if its symptom has only one."""
        place, count = self.way
        return f"pattern {ascii_uppercase[place - 1] if place <= len(ascii_uppercase) else place}" if count > 1 else ""


def symptom(finding: Finding, expect: object = None) -> Symptom:
    """The symptom of a finding; `expect` is the rule's relation as described in `campaign.json`."""
    return _symptom(finding, tuple(relation_parts(expect)))


def _symptom(finding: Finding, parts: Sequence[Mapping[str, Any]]) -> Symptom:
    return Symptom(finding.rule, family(finding.change), _direction(finding, parts))


def family(change: Mapping[str, Any]) -> str:
    """The kinds of an encoded change's steps, `blur + rotate`, without order and repetition."""
    return " + ".join(sorted(set(_kinds(change))))


def _kinds(change: Mapping[str, Any]) -> Iterator[str]:
    if change.get("use") == "chain":
        for step in change["steps"]:
            yield from _kinds(step)
    else:
        yield str(change.get("use")).rpartition(":")[2]


def relation_parts(expect: object) -> Iterator[Mapping[str, Any]]:
    """A relation's description and those of all its parts."""
    if isinstance(expect, Mapping):
        yield expect
        for inner in expect.values():
            yield from relation_parts(inner)
    elif isinstance(expect, list):
        for inner in expect:
            yield from relation_parts(inner)


def _direction(finding: Finding, expect: Sequence[Mapping[str, Any]]) -> str:
    if any(part.get("use") == "agreement" for part in expect):
        return DISAGREE
    boxes = [value for value in finding.after if isinstance(value, Boxes2D | Boxes3D)]
    return (_of_facts(finding.facts) if boxes else "") or _of_numbers(finding, expect) or _of_counts(finding) or CHANGED


def _of_facts(facts: Mapping[str, Any]) -> str:
    if flaw := str(facts.get("flaw", "")):
        return FLAWS.get(flaw, flaw)  # type: ignore[call-overload, no-any-return]
    return next((direction for name, direction in COUNTED.items() if _number(facts.get(name)) > 0), "")


def _number(fact: object) -> float:
    return float(fact) if isinstance(fact, int | float) else 0.0


def _of_numbers(finding: Finding, expect: Sequence[Mapping[str, Any]]) -> str:
    """The side of the reference on which the answer lies.

    The reference is the label, or the unmapped answer on the source: a row does not record how a change that reverses
    steering maps it.
    """
    reference = next((part["use"] for part in expect if part.get("use") in ("correct", "equivariant")), "")
    expected = finding.truth if reference == "correct" and finding.truth else finding.before
    named = next((str(part["name"]) for part in expect if part.get("use") in OF_SIGNALS), None)
    angles = [find(answer, Steering.slot) for answer in (expected, finding.after)]
    if named is None and all(isinstance(angle, Steering) for angle in angles):
        error = angles[1].degrees - angles[0].degrees  # type: ignore[union-attr]
        return LEFT if error > 0 else RIGHT if error < 0 else ""
    return _of_signals(expected, finding.after, named)


def _of_signals(expected: Answer, answer: Answer, name: str | None) -> str:
    for signal in (value for value in answer if isinstance(value, Signal) and name in (None, value.name)):
        before = find(expected, Signal.slot, signal.name)
        if isinstance(before, Signal) and signal.value != before.value:
            return HIGHER if signal.value > before.value else LOWER
    return ""


def _of_counts(finding: Finding) -> str:
    before, after = (_boxes_in(answer) for answer in (finding.before, finding.after))
    return LOST if after < before else GAINED if after > before else ""


def _boxes_in(answer: Answer) -> int:
    return sum(len(value.kinds) for value in answer if isinstance(value, Boxes2D | Boxes3D))


@dataclass
class _Tally:
    """Counts findings and, with a bit per case, affected cases, so that memory does not grow with the findings."""

    findings: int = 0
    exemplar: Finding | None = None
    mildest: tuple[tuple[Any, ...], Finding] | None = None  # with what it is sorted by
    affected: bytearray = field(default_factory=bytearray)

    def add(self, finding: Finding, case: int) -> None:
        self.findings += 1
        if self.exemplar is None or worst_first(finding) < worst_first(self.exemplar):
            self.exemplar = finding
        order = believable_first(finding)
        if self.mildest is None or order < self.mildest[0]:
            self.mildest = order, finding
        byte, bit = divmod(case, 8)
        self.affected.extend(bytes(max(0, byte + 1 - len(self.affected))))
        self.affected[byte] |= 1 << bit

    def group(self, symptom: Symptom, way: tuple[int, int], inputs: frozenset[str]) -> FindingGroup:
        assert self.exemplar is not None
        assert self.mildest is not None
        cases = int.from_bytes(self.affected).bit_count()
        return FindingGroup(0, symptom, self.findings, cases, self.exemplar, self.mildest[1], way, inputs)


def worst_first(finding: Finding) -> tuple[bool, float, str]:
    """What sorts findings: those that failed again when asked again first, then the largest margins."""
    return not finding.repeated, -finding.margin, finding.id


class Identified(Protocol):
    """A run that tells its campaign."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The content of `campaign.json`."""


class WithFindings(Identified, Protocol):
    """A run folder, or a ledger that a run is committed to."""

    def findings(self) -> Iterator[Finding]:
        """Every finding."""


class Grouping:
    """Groups findings one by one; memory grows with the number of groups and cases, not with that of findings.

    Args:
        run: the run that the findings belong to.
        features: how a change moved the recorded layer, by the first digits of its follow-up's hash.
    """

    def __init__(self, run: Identified, features: Mapping[str, Array] | None = None) -> None:
        self._features, self._read = features or {}, reader_of(run)
        self._tallies: dict[Symptom, _Tally] = {}
        self._recorded: dict[Symptom, list[Finding]] = {}
        self._cases: dict[str, int] = {}

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        kind = self._kind(finding)
        tally = self._tallies.setdefault(kind, _Tally())
        case = self._cases.setdefault(finding.case, len(self._cases))
        if _digits(finding) in self._features:
            self._recorded.setdefault(kind, []).append(finding)
        else:
            tally.add(finding, case)

    def prefer(self, finding: Finding) -> None:
        """Let a finding that was added before represent its group, if it is worse now that it was repeated."""
        tally = self._tallies[self._kind(finding)]
        if tally.exemplar is None or worst_first(finding) < worst_first(tally.exemplar):
            tally.exemplar = finding

    def groups(self) -> list[FindingGroup]:
        """All groups; those that affect most cases, then most findings, come first."""
        found = [
            group
            for kind, tally in self._tallies.items()
            for group in _groups_of(kind, tally, failure_modes(self._recorded.get(kind, []), self._features), self._cases)
        ]
        found.sort(key=lambda group: (-group.cases, -group.findings, worst_first(group.exemplar)))
        return [replace(group, number=number) for number, group in enumerate(found, 1)]

    def _kind(self, finding: Finding) -> Symptom:
        kind = self._read(finding)
        known = kind in self._tallies or len(self._tallies) < MOST_SYMPTOMS
        return kind if known else replace(kind, family=OTHERS)


def groups(run: WithFindings, features: Mapping[str, Array] | None = None) -> list[FindingGroup]:
    """The groups of all findings of `run`, in one pass."""
    grouping = Grouping(run, features)
    for finding in run.findings():
        grouping.add(finding)
    return grouping.groups()


def reader_of(run: Identified) -> Callable[[Finding], Symptom]:
    """`symptom` for the findings of one run, given its rules' relations."""
    rules = run.identity["campaign"].get("rule", ())
    parts = {rule["name"]: tuple(relation_parts(rule.get("expect"))) for rule in rules}
    return lambda finding: _symptom(finding, parts.get(finding.rule, ()))


def same_fault(run: Identified) -> Callable[[Finding, Finding], bool]:
    """Whether two findings of one case have the same fault, which shrinking must preserve.

    Where the facts name the objects that are lost, of another type or moved, both must have one in common.
    """
    read = reader_of(run)

    def same(first: Finding, second: Finding) -> bool:
        direction = read(first).direction
        return direction == read(second).direction and _same_objects(first.facts, second.facts, direction)

    return same


def _same_objects(first: Mapping[str, Any], second: Mapping[str, Any], direction: str) -> bool:
    fact = next((rows_fact(name) for name, known in COUNTED.items() if known == direction), "")
    rows, others = (set(str(facts.get(fact, "")).split()) for facts in (first, second))
    return not rows or bool(rows & others)


def _groups_of(
    kind: Symptom, unrecorded: _Tally, modes: Sequence[Sequence[Finding]], cases: Mapping[str, int]
) -> Iterator[FindingGroup]:
    """The groups of one symptom: its largest failure mode with all findings without a recorded layer, then the others."""
    every = modes or [[]]
    for place, mode in enumerate(every, 1):
        tally = replace(unrecorded, affected=unrecorded.affected[:]) if place == 1 else _Tally()
        for finding in mode:
            tally.add(finding, cases[finding.case])
        yield tally.group(kind, (place, len(every)), frozenset(map(_digits, mode)) if place > 1 else frozenset())


def _digits(finding: Finding) -> str:
    return finding.input_sha[:SHA_DIGITS]


def failure_modes(findings: Sequence[Finding], features: Mapping[str, Array]) -> list[list[Finding]]:
    """The findings of one symptom by failure mode inside the network, the largest first."""
    in_order = sorted(findings, key=worst_first)
    clusters: dict[int, list[Finding]] = {}
    for finding, cluster in zip(in_order, _clusters([features[_digits(one)] for one in in_order]), strict=True):
        clusters.setdefault(cluster, []).append(finding)
    modes = [mode for mode in clusters.values() if len({finding.case for finding in mode}) >= FEWEST]
    if len(modes) < 2:
        return [in_order] if in_order else []
    modes.sort(key=lambda mode: (-len(mode), worst_first(mode[0])))
    modes[0] += [finding for one in clusters.values() if not any(one is mode for mode in modes) for finding in one]
    return modes


def _clusters(directions: Sequence[Array]) -> list[int]:
    """The cluster of each direction: the two that are nearest on average are joined, until all are too far apart.

    This is scipy's average linkage of cosine distances, without half a second of imports for every reader of a run folder.
    """
    vectors, labels = np.asarray(directions, np.float64), np.arange(len(directions))
    if len(labels) < 2:
        return labels.tolist()
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    between = np.maximum(1 - units @ units.T, 0.0)
    np.fill_diagonal(between, np.inf)
    sizes = np.ones(len(labels))
    while True:
        kept, joined = np.unravel_index(between.argmin(), between.shape)
        if between[kept, joined] > APART:
            return labels.tolist()
        row = (sizes[kept] * between[kept] + sizes[joined] * between[joined]) / (sizes[kept] + sizes[joined])
        row[[kept, joined]] = np.inf
        between[kept] = between[:, kept] = row
        between[joined] = between[:, joined] = np.inf
        sizes[kept] += sizes[joined]
        labels[labels == joined] = kept


def sorter(run: Identified, found: Sequence[FindingGroup]) -> Callable[[Finding], FindingGroup]:
    """A function that maps a finding to its group among `groups(run)`."""
    read = reader_of(run)
    places = {(group.symptom, digits): group for group in found for digits in group.inputs or ("",)}

    def place(finding: Finding) -> FindingGroup:
        kind = read(finding)
        kind = kind if (kind, "") in places else replace(kind, family=OTHERS)
        return places.get((kind, _digits(finding))) or places[kind, ""]

    return place
