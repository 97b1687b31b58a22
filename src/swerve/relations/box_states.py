"""The state of every 2-D box in a verdict: kept, lost, mislabelled, drifted, a ghost or doubled.

The states come from the matching that gives the verdict, so a picture never shows another result than the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from swerve.core.relation import Correct, Equivariant, Pair, Relation, Verdict
from swerve.core.system import Answer
from swerve.core.values import Boxes2D, find
from swerve.relations.boxes import BoxesAlike, PlacedBoxes, placed_by
from swerve.relations.matching import Pairs, above_score
from swerve.relations.obstacles import changes
from swerve.relations.sets import NoFewer, Superset


class BoxState(StrEnum):
    """What became of an expected box, or what a detected box is."""

    IGNORED = "ignored"  # neither required nor an error
    KEPT = "kept"
    GAINED = "gained"  # without an expected box, which the relation allows
    DOUBLED = "doubled"  # a further box on an object that was found
    GHOST = "ghost"
    DRIFTED = "drifted"
    MISLABELLED = "mislabelled"
    LOST = "lost"


@dataclass(frozen=True)
class _Matched:
    """Pairs of an expected and a detected box by state, the rows that were lost, and the columns without an expected box."""

    pairs: Mapping[BoxState, Pairs]
    lost: Iterable[int]
    extra: Mapping[BoxState, Iterable[int]]

    def rows(self) -> dict[int, BoxState]:
        paired = {row: state for state, pairs in self.pairs.items() for row, _ in pairs}
        return paired | dict.fromkeys(self.lost, BoxState.LOST)

    def columns(self) -> dict[int, BoxState]:
        paired = {column: state for state, pairs in self.pairs.items() for _, column in pairs}
        return paired | {column: state for state, columns in self.extra.items() for column in columns}


@dataclass(frozen=True)
class BoxVerdict:
    """A verdict on 2-D boxes with what was expected and what was detected; from `box_verdict`.

    `before` holds the boxes of the source in the order of `expected`, if these are the system's own answer and the change
    left their number as it is.
    """

    verdict: Verdict
    expected: Boxes2D
    detected: Boxes2D
    matched: _Matched
    labelled: bool = False  # the expected boxes are labels
    before: Boxes2D | None = None

    @property
    def of_expected(self) -> tuple[BoxState, ...]:
        """The state of each expected box."""
        known = self.matched.rows()
        return tuple(known.get(row, BoxState.IGNORED) for row in range(len(self.expected.kinds)))

    @property
    def of_detected(self) -> tuple[BoxState, ...]:
        """The state of each detected box."""
        known = self.matched.columns()
        return tuple(known.get(column, BoxState.IGNORED) for column in range(len(self.detected.kinds)))

    @property
    def expected_of(self) -> dict[int, int]:
        """From each matched detected box to its expected box."""
        return {column: row for pairs in self.matched.pairs.values() for row, column in pairs}


def box_verdict(relation: Relation, pair: Pair) -> BoxVerdict | None:
    """The verdict of a relation between 2-D boxes; None for any other relation, and where boxes are missing or faulty."""
    if isinstance(relation, Superset | NoFewer):
        return _of_sets(relation, pair) if relation.slot == Boxes2D.slot else None
    if isinstance(relation, PlacedBoxes):
        return _box_verdict(relation.compare, pair, relation.reference == "truth", placed_by(pair.change))
    if isinstance(relation, Equivariant | Correct) and isinstance(relation.compare, BoxesAlike):
        return _box_verdict(relation.compare, pair, isinstance(relation, Correct), None)
    return None


def _box_verdict(compare: BoxesAlike, pair: Pair, labelled: bool, placed: Boxes2D | None) -> BoxVerdict | None:
    """The state of every box under `compare`; None without boxes. `labelled`: labels are the reference, not the answer."""
    expected, detected = _boxes(pair.followup.truth if labelled else pair.expected), _boxes(pair.after)
    if expected is None or detected is None:
        return None
    errors = compare.errors(expected, detected, placed)
    between = errors.between
    matched = _Matched(
        {BoxState.KEPT: between.found, BoxState.MISLABELLED: between.mislabelled, BoxState.DRIFTED: between.drifted},
        between.missed,
        {BoxState.GHOST: between.ghosts, BoxState.DOUBLED: between.doubled},
    )
    before = None if labelled else _in_order(_boxes(pair.before), errors.expected, compare.least_score)
    return BoxVerdict(errors.verdict(), errors.expected, errors.detected, matched, labelled, before)


def _of_sets(relation: Superset | NoFewer, pair: Pair) -> BoxVerdict | None:
    expected, detected = _boxes(pair.expected), _boxes(pair.after)
    if expected is None or detected is None:
        return None
    became = changes(expected, detected, relation.same())
    matched = _Matched(
        {BoxState.KEPT: became.kept, BoxState.MISLABELLED: became.type_changed, BoxState.DRIFTED: became.moved},
        became.lost,
        {BoxState.GAINED: became.gained},
    )
    before = _in_order(_boxes(pair.before), expected, 0.0)
    return BoxVerdict(relation.check(pair), expected, detected, matched, before=before)


def _boxes(answer: Answer) -> Boxes2D | None:
    boxes = find(answer, Boxes2D.slot)
    return boxes if isinstance(boxes, Boxes2D) and boxes.fault() is None else None


def _in_order(before: Boxes2D | None, expected: Boxes2D, least_score: float) -> Boxes2D | None:
    sure = None if before is None else above_score(before, least_score)
    return sure if isinstance(sure, Boxes2D) and len(sure.kinds) == len(expected.kinds) else None
