"""Findings that are the same fault: one rule, one kind of change, one direction of the error, one way inside the network.

The first three are a finding's `Symptom`, read off its journal row. Where a white-box system showed what the changes did to
its last layer but one (`swerve.execution.finding_pictures`), the findings of a symptom are split further: two belong to
different patterns where that layer moved in directions more than 60° apart, on the average of their clusters (average
linkage, cosine distance `APART`). A pattern that fewer than `FEWEST` cases show is merged into the symptom's largest one, as
are findings whose layer was not recorded, so that every finding is in exactly one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from swerve.core.errors import StoreError
from swerve.core.system import Answer
from swerve.core.values import Array, Boxes2D, Boxes3D, Signal, Steering, find
from swerve.relations.boxes import Flaw
from swerve.relations.sets import rows_fact
from swerve.store.artifacts import SHA_DIGITS, shrunk_of
from swerve.store.record_json import Finding
from swerve.store.view import Run

APART = 0.5  # 1 - cos 60°
FEWEST = 2
MOST_SYMPTOMS = 1000  # kept apart; further kinds of change are counted together
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
    """What findings of one fault have in common, as far as their rows tell."""

    rule: str
    family: str  # what was done, whatever the numbers
    direction: str  # of the error


@dataclass(frozen=True)
class FindingGroup:
    """Findings of one fault, with the worst of them as its exemplar."""

    number: int  # 1 hits most cases
    symptom: Symptom
    findings: int
    cases: int
    exemplar: Finding
    way: tuple[int, int] = (1, 1)  # which of its symptom's ways of failing it is, and of how many
    inputs: frozenset[str] = frozenset()  # follow-ups that tell it from its symptom's largest way, by their first digits

    @property
    def label(self) -> str:
        """What was done and what went wrong: `rotate, further left`."""
        ways = " (way {} of {})".format(*self.way) if self.way[1] > 1 else ""
        return f"{self.symptom.family}, {self.symptom.direction}{ways}"


def symptom(finding: Finding, expect: object = None) -> Symptom:
    """The symptom of a finding; `expect`, the rule's relation as `campaign.json` describes it, says what it was held to."""
    return Symptom(finding.rule, family(finding.change), _direction(finding, tuple(relation_parts(expect))))


def family(change: Mapping[str, Any]) -> str:
    """The kinds of an encoded change's steps: `blur + rotate`, in whatever order and however often."""
    return " + ".join(sorted(set(_kinds(change))))


def _kinds(change: Mapping[str, Any]) -> Iterator[str]:
    if change.get("use") == "chain":
        for step in change["steps"]:
            yield from _kinds(step)
    else:
        yield str(change.get("use")).rpartition(":")[2]


def relation_parts(expect: object) -> Iterator[Mapping[str, Any]]:
    """A described relation and all that it is made of."""
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
    return (_told_by_facts(finding.facts) if boxes else "") or _of_numbers(finding, expect) or _of_counts(finding) or CHANGED


def _told_by_facts(facts: Mapping[str, Any]) -> str:
    if flaw := str(facts.get("flaw", "")):
        return FLAWS.get(flaw, flaw)  # type: ignore[call-overload, no-any-return]
    return next((told for name, told in COUNTED.items() if _number(facts.get(name)) > 0), "")


def _number(fact: object) -> float:
    return float(fact) if isinstance(fact, int | float) else 0.0


def _of_numbers(finding: Finding, expect: Sequence[Mapping[str, Any]]) -> str:
    """To which side of what was wanted the answer lies.

    What was wanted is the label, or the answer on the source as it was: a row does not tell what a change that turns
    steering around made of it.
    """
    held_to = next((part["use"] for part in expect if part.get("use") in ("correct", "equivariant")), "")
    wanted = finding.truth if held_to == "correct" and finding.truth else finding.before
    named = next((str(part["name"]) for part in expect if part.get("use") in OF_SIGNALS), None)
    angles = [find(answer, Steering.slot) for answer in (wanted, finding.after)]
    if named is None and all(isinstance(angle, Steering) for angle in angles):
        error = angles[1].degrees - angles[0].degrees  # type: ignore[union-attr]
        return LEFT if error > 0 else RIGHT if error < 0 else ""
    return _of_signals(wanted, finding.after, named)


def _of_signals(wanted: Answer, said: Answer, name: str | None) -> str:
    for signal in (value for value in said if isinstance(value, Signal) and name in (None, value.name)):
        before = find(wanted, Signal.slot, signal.name)
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
    """Findings counted; a bit per case, so that memory does not grow with the findings."""

    findings: int = 0
    exemplar: Finding | None = None
    hit: bytearray = field(default_factory=bytearray)

    def add(self, finding: Finding, case: int) -> None:
        self.findings += 1
        if self.exemplar is None or worst_first(finding) < worst_first(self.exemplar):
            self.exemplar = finding
        byte, bit = divmod(case, 8)
        self.hit.extend(bytes(max(0, byte + 1 - len(self.hit))))
        self.hit[byte] |= 1 << bit

    def group(self, symptom: Symptom, way: tuple[int, int], inputs: frozenset[str]) -> FindingGroup:
        assert self.exemplar is not None
        return FindingGroup(0, symptom, self.findings, int.from_bytes(self.hit).bit_count(), self.exemplar, way, inputs)


def worst_first(finding: Finding) -> tuple[bool, float, str]:
    """What sorts findings: those that failed again when asked again first, then the largest margins."""
    return not finding.repeated, -finding.margin, finding.id


class WithFindings(Protocol):
    """A run folder, or a ledger that a run is committed to."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The content of `campaign.json`."""

    def findings(self) -> Iterator[Finding]:
        """Every finding."""


def groups(run: WithFindings, features: Mapping[str, Array] | None = None) -> list[FindingGroup]:
    """The groups of all findings of `run`, in one pass, those that hit most cases first, then those with most findings.

    Args:
        run: the run.
        features: how a change moved the layer looked at, by the first digits of its follow-up's hash (`keep.features_of`).
    """
    seen = features or {}
    read = reader_of(run)
    unseen: dict[Symptom, _Tally] = {}
    looked_into: dict[Symptom, list[Finding]] = {}
    cases: dict[str, int] = {}
    for finding in run.findings():
        kind = read(finding)
        if kind not in unseen and len(unseen) >= MOST_SYMPTOMS:
            kind = replace(kind, family=OTHERS)
        tally = unseen.setdefault(kind, _Tally())
        case = cases.setdefault(finding.case, len(cases))
        if _digits(finding) in seen:
            looked_into.setdefault(kind, []).append(finding)
        else:
            tally.add(finding, case)
    found = [
        group
        for kind, tally in unseen.items()
        for group in _ways_of(kind, tally, ways(looked_into.get(kind, []), seen), cases)
    ]
    found.sort(key=lambda group: (-group.cases, -group.findings, worst_first(group.exemplar)))
    return [replace(group, number=number) for number, group in enumerate(found, 1)]


def reader_of(run: WithFindings) -> Callable[[Finding], Symptom]:
    """`symptom` for the findings of one run, which knows what its rules expect."""
    rules = run.identity["campaign"].get("rule", ())
    expects = {rule["name"]: rule.get("expect") for rule in rules}
    return lambda finding: symptom(finding, expects.get(finding.rule))


def same_fault(run: WithFindings) -> Callable[[Finding, Finding], bool]:
    """Whether a finding of a run is wrong the same way as another of its case: what shrinking must not change.

    Where the facts tell which objects are lost, of another type or moved, at least one of them must be so in both.
    """
    read = reader_of(run)

    def same(first: Finding, second: Finding) -> bool:
        direction = read(first).direction
        return direction == read(second).direction and _same_objects(first.facts, second.facts, direction)

    return same


def _same_objects(first: Mapping[str, Any], second: Mapping[str, Any], direction: str) -> bool:
    fact = next((rows_fact(name) for name, told in COUNTED.items() if told == direction), "")
    rows, others = (set(str(facts.get(fact, "")).split()) for facts in (first, second))
    return not rows or bool(rows & others)


def _ways_of(
    kind: Symptom, unseen: _Tally, seen: Sequence[Sequence[Finding]], cases: Mapping[str, int]
) -> Iterator[FindingGroup]:
    """The groups of one symptom: its largest way with all that nobody looked into, and every other way."""
    told = seen or [[]]
    for place, way in enumerate(told, 1):
        tally = unseen if place == 1 else _Tally()
        for finding in way:
            tally.add(finding, cases[finding.case])
        yield tally.group(kind, (place, len(told)), frozenset(map(_digits, way)) if place > 1 else frozenset())


def _digits(finding: Finding) -> str:
    return finding.input_sha[:SHA_DIGITS]


def ways(findings: Sequence[Finding], features: Mapping[str, Array]) -> list[list[Finding]]:
    """Findings of one symptom that failed in different ways inside the network, the largest way first."""
    in_order = sorted(findings, key=worst_first)
    apart: dict[int, list[Finding]] = {}
    for finding, cluster in zip(in_order, _clusters([features[_digits(one)] for one in in_order]), strict=True):
        apart.setdefault(cluster, []).append(finding)
    shown = [way for way in apart.values() if len({finding.case for finding in way}) >= FEWEST]
    if len(shown) < 2:
        return [in_order] if in_order else []
    shown.sort(key=lambda way: (-len(way), worst_first(way[0])))
    shown[0] += [finding for way in apart.values() if not any(way is other for other in shown) for finding in way]
    return shown


def _clusters(directions: Sequence[Array]) -> list[int]:
    if len(directions) < 2:
        return [0] * len(directions)
    # Imported here: without features, as most readers of a run folder are, nobody should wait for it.
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist

    between = np.maximum(pdist(np.asarray(directions, np.float64), "cosine"), 0.0)
    return [int(label) for label in fcluster(linkage(between, "average"), APART, "distance")]


def sorter(run: WithFindings, found: Sequence[FindingGroup]) -> Callable[[Finding], FindingGroup]:
    """A function that says which of `groups(run)` a finding is in."""
    read = reader_of(run)
    places = {(group.symptom, digits): group for group in found for digits in group.inputs or ("",)}

    def place(finding: Finding) -> FindingGroup:
        kind = read(finding)
        kind = kind if (kind, "") in places else replace(kind, family=OTHERS)
        return places.get((kind, _digits(finding))) or places[kind, ""]

    return place


def worth_keeping(run: Run) -> list[Finding]:
    """The findings whose pictures a run keeps: the best of every rule, and the worst of every symptom."""
    best = run.best()
    there = {finding.id for finding in best}
    return best + [group.exemplar for group in groups(run) if group.exemplar.id not in there]


def smallest_words(run: Run, finding: Finding) -> str:
    """What a finding was shrunk to, in words; nothing where it was not, or its file does not read."""
    try:
        made = shrunk_of(run, finding.id)
    except StoreError:
        return ""
    if made is None:
        return ""
    read = reader_of(run)
    now = read(made.finding).direction
    # The smallest change that fails may fail otherwise than the one it came from: then the reader is told.
    return made.words if now == read(finding).direction else f"{made.words}; there the answer is {now}"
