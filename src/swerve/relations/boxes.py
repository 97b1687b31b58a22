"""Comparisons of detected boxes, with TigAug's names for the kinds of error.

A change that places objects in the image may define `placed()`, which returns their boxes; errors on placed objects are
then distinguished from errors on unchanged ones.
"""

# TG-4, D-21, D-32

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, ClassVar, Protocol, runtime_checkable

import numpy as np

from swerve.core.arguments import OneOfNames, check_number
from swerve.core.case import Fact
from swerve.core.origin import Attribution, Course, LeastShift
from swerve.core.relation import Algebra, Correct, Equivariant, Pair, Status, Verdict
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Array, Boxes2D, Value, find
from swerve.relations.matching import Differences, Same, above_score, box_overlaps, differences, match, same_kinds
from swerve.relations.object_origins import attribute_objects, extra_origins, object_origins

REFERENCES = ("truth", "answer")
SAME, ANY = KINDS = ("same", "any")  # whether boxes must be of the same kind to be one object


def check_kinds(kinds: str) -> None:
    """Raise `ValueError` unless `kinds` is 'same' or 'any'."""
    if kinds not in KINDS:
        raise ValueError(f"'kinds' must be '{SAME}' or '{ANY}', got {kinds!r}")


class Flaw(StrEnum):
    """Kinds of error in a set of boxes, worst first."""

    # TG-4, and a further box on an object already found
    PLACED_MISSED = "placed object missed"
    PLACED_DRIFTED = "placed object with too different a box"
    KEPT_LOST = "unchanged object missed or mislabelled"
    MISSED = "missed"
    WRONG_STATE = "wrong state"
    GHOST = "ghost"
    DRIFTED = "drifted"
    DOUBLED = "doubled"


@runtime_checkable
class Placing(Protocol):
    """A change that places objects in the image: recoloured, moved, added or turned ones."""

    # D-32
    def placed(self) -> Boxes2D:
        """The boxes of the placed objects in the changed image, with their new kinds."""


def placed_by(change: Transformation) -> Boxes2D | None:
    """The objects that a change places; those of a chain are mapped by its later steps. None if it does not declare any."""
    if isinstance(change, Chain):
        return _placed_by_chain(change)
    return change.placed() if isinstance(change, Placing) else None


@dataclass(frozen=True)
class BoxesAlike:
    """Every object is detected exactly once with the right kind (IoU ≥ `overlap`), and nothing else is.

    Held: the margin is minus the smallest IoU above the limit. Violated: it is the number of errors. A box of the right kind
    with an IoU from `near` to `overlap` has drifted; below, its object was missed. Boxes scored under `least_score` are
    ignored. Expected boxes with `care` False are neither required nor errors, whatever their kind. With `kinds = "any"`
    kinds are not compared, for labels and systems that name them differently.
    """

    # D-21
    overlap: float = 0.5
    near: float = 0.1
    least_score: float = 0.0
    kinds: Annotated[str, OneOfNames(*KINDS)] = SAME
    slot: ClassVar[str] = Boxes2D.slot

    def __post_init__(self) -> None:
        check_kinds(self.kinds)
        self.same()  # checks its limits
        check_number("least_score", self.least_score, 0, 1)

    def same(self) -> Same:
        """When two boxes are the same object."""
        return Same(self.overlap, self.near, any_kind=self.kinds == ANY)

    def compare(self, expected: Value, actual: Value) -> Verdict:
        if why := expected.fault() or actual.fault():
            return Verdict.error(why)
        return self.errors(expected, actual).verdict()

    def errors(self, expected: Value, actual: Value, placed: Boxes2D | None = None) -> BoxErrors:
        """What is wrong, box by box, for tables and sentences."""
        expected, detected = self._check_boxes(expected), self._check_boxes(actual)
        return BoxErrors(
            expected, detected, differences(expected, detected, self.same()), _placed_rows(expected, placed, self.overlap)
        )

    def origin(self, course: Course) -> Attribution:
        """Where the errors come from: introduced if any object that was found before is not found now."""
        now = self.errors(course.expected, course.after)
        then = self.errors(_required_as(self._check_boxes(course.reference), now.expected), course.before)
        rows, columns = self._kept(course.expected), self._kept(course.after)
        return attribute_objects(
            {rows[row]: origin for row, origin in object_origins(then, now)},
            {columns[column]: origin for column, origin in extra_origins(then, now, course.change, self.same()).items()},
        )

    def _kept(self, value: Value) -> list[int]:
        """The places of the boxes that are not ignored for their score."""
        return [int(place) for place in np.flatnonzero(np.asarray(getattr(value, "scores", ())) >= self.least_score)]

    def _check_boxes(self, value: Value) -> Boxes2D:
        boxes = above_score(value, self.least_score) if isinstance(value, Boxes2D) else value
        if not isinstance(boxes, Boxes2D):
            raise TypeError(f"this relation compares boxes (Boxes2D or Boxes3D), got {type(value).__name__}")
        return boxes


@dataclass(frozen=True)
class BoxErrors:
    """The differences between `expected` and `detected` boxes; `placed` are the rows that the change placed."""

    expected: Boxes2D
    detected: Boxes2D
    between: Differences
    placed: frozenset[int] = field(default=frozenset())

    def counts(self) -> dict[Flaw, int]:
        """The number of errors of each plain kind."""
        found = self.between
        return {
            Flaw.MISSED: len(found.missed),
            Flaw.WRONG_STATE: len(found.mislabelled),
            Flaw.GHOST: len(found.ghosts),
            Flaw.DRIFTED: len(found.drifted),
            Flaw.DOUBLED: len(found.doubled),
        }

    def flaw(self) -> Flaw | None:
        """The worst error, or None; if objects were placed and any was lost, it tells placed from unchanged ones."""
        # TG-4's second list
        plain = next((kind for kind, count in self.counts().items() if count), None)
        if not self.placed or not self.between.lost:
            return plain
        gone = {*self.between.missed, *(row for row, _ in self.between.mislabelled)}
        if gone & self.placed:
            return Flaw.PLACED_MISSED
        drifted = {row for row, _ in self.between.drifted}
        if drifted & self.placed:
            return Flaw.PLACED_DRIFTED
        return Flaw.KEPT_LOST if gone else plain

    def facts(self) -> Mapping[str, Fact]:
        """The counts and the worst error, for the record."""
        counts = {str(kind).replace(" ", "_"): float(count) for kind, count in self.counts().items()}
        facts: dict[str, Fact] = {**counts, "objects": float(self.between.demanded), "flaw": str(self.flaw() or "")}
        return facts | ({"placed": float(len(self.placed))} if self.placed else {})

    def verdict(self) -> Verdict:
        """Held if there is no error; the reason names the worst error and counts all."""
        flaw, demanded = self.flaw(), self.between.demanded
        if flaw is None:
            room = self.between.spare
            return Verdict(
                Status.HELD, -room, f"all {demanded} objects found, smallest IoU margin {room:.2f}", facts=self.facts()
            )
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts().items() if count)
        why = f"{self._describe_worst(flaw)} ({counts}; {demanded} expected, {len(self.detected.kinds)} detected)"
        return Verdict(Status.VIOLATED, self.between.lost + self.between.gained, why, facts=self.facts())

    def _describe_worst(self, flaw: Flaw) -> str:
        """A description of the largest box with the worst error."""
        between, placed = self.between, self.placed
        if flaw in (Flaw.PLACED_MISSED, Flaw.PLACED_DRIFTED, Flaw.KEPT_LOST):
            rows = set(placed) if flaw is not Flaw.KEPT_LOST else set(range(len(self.expected.kinds))) - placed
            which = "the placed" if flaw is not Flaw.KEPT_LOST else "the unchanged"
            return f"{which} {self._describe_lost(rows)}"
        if flaw in (Flaw.GHOST, Flaw.DOUBLED):
            column = _largest(self.detected, between.ghosts if flaw is Flaw.GHOST else between.doubled)
            what = "is a ghost" if flaw is Flaw.GHOST else "is a further box on an object already found"
            return f"{_describe_box(self.detected, column)} {what}"
        return self._describe_lost(set(range(len(self.expected.kinds))))

    def _describe_lost(self, rows: set[int]) -> str:
        """A description of the worst error on one of `rows`."""
        if missed := [row for row in self.between.missed if row in rows]:
            return f"{_describe_box(self.expected, _largest(self.expected, missed))} was missed"
        pairs = dict(self.between.mislabelled)
        if wrong := [row for row in pairs if row in rows]:
            row = _largest(self.expected, wrong)
            return f"{_describe_box(self.expected, row)} was taken for '{self.detected.kinds[pairs[row]]}'"
        pairs = dict(self.between.drifted)
        row = _largest(self.expected, [row for row in pairs if row in rows])
        return f"{_describe_box(self.expected, row)} drifted to {_format_box(self.detected, pairs[row])}"


@dataclass(frozen=True)
class PlacedBoxes(Algebra):
    """`compare` for changes that place objects: a lost placed object is another error than a lost unchanged one.

    The `reference` is the mapped "truth" or the system's own mapped "answer". A change that places nothing is judged by
    `compare` alone.
    """

    # TG-4, D-32
    compare: BoxesAlike = field(default_factory=BoxesAlike)
    reference: Annotated[str, OneOfNames("truth", "answer")] = "truth"

    def __post_init__(self) -> None:
        if self.reference not in REFERENCES:
            raise ValueError(f"'reference' must be one of {', '.join(REFERENCES)}, got {self.reference!r}")

    def check(self, pair: Pair) -> Verdict:
        plain = self._plain().check(pair)
        if plain.status not in (Status.HELD, Status.VIOLATED):
            return plain
        return self.errors(pair).verdict()

    def origin(self, pair: Pair, least: LeastShift) -> Attribution:
        """Where the errors come from, object by object; those on an object that the change added are introduced."""
        return self._plain().origin(pair, least)

    def _plain(self) -> Correct | Equivariant:
        """The comparison without regard to what was placed."""
        return (Correct if self.reference == "truth" else Equivariant)(self.compare)

    def errors(self, pair: Pair) -> BoxErrors:
        """What is wrong, box by box, for tables and sentences."""
        expected = find(pair.followup.truth if self.reference == "truth" else pair.expected, Boxes2D.slot)
        detected = find(pair.after, Boxes2D.slot)
        assert expected is not None
        assert detected is not None
        return self.compare.errors(expected, detected, placed_by(pair.change))


def same_boxes(overlap: float = 0.5, least_score: float = 0.0, kinds: str = SAME) -> Equivariant:
    """The boxes equal the system's own boxes on the source, mapped by the change."""
    # TG-2: self-consistency
    return Equivariant(BoxesAlike(overlap, min(0.1, overlap), least_score, kinds))


def right_boxes(overlap: float = 0.5, least_score: float = 0.0, kinds: str = SAME) -> Correct:
    """The boxes equal the labels, mapped by the change."""
    # D-21: the default reference
    return Correct(BoxesAlike(overlap, min(0.1, overlap), least_score, kinds))


def _required_as(untouched: Boxes2D, changed: Boxes2D) -> Boxes2D:
    """The untouched objects, with those required that are so after the change, so that their errors can be compared."""
    count = len(untouched.kinds)
    if len(changed.kinds) < count:
        return untouched
    return replace(untouched, care=np.asarray(untouched.care) | np.asarray(changed.care)[:count])


def _placed_by_chain(chain: Chain) -> Boxes2D | None:
    placed: list[Boxes2D] = []
    for step in chain.steps:
        placed = [step.map(boxes) for boxes in placed]
        if (more := placed_by(step)) is not None:
            placed.append(more)
    if not placed:
        return None
    kinds = tuple(kind for boxes in placed for kind in boxes.kinds)
    return Boxes2D(np.concatenate([boxes.xyxy for boxes in placed]), kinds, size=placed[0].size)


def _placed_rows(expected: Boxes2D, placed: Boxes2D | None, overlap: float) -> frozenset[int]:
    """The rows of `expected` that the change placed: where it placed them, if possible of the same kind.

    An own answer may expect another kind there, which the system took the object for.
    """
    if placed is None:
        return frozenset()
    shared = box_overlaps(expected, placed)
    pairs = match((shared + same_kinds(expected, placed)) / 2, shared >= overlap).pairs
    return frozenset(row for row, _ in pairs)


def _largest(boxes: Boxes2D, places: Array | list[int] | tuple[int, ...]) -> int:
    sizes = np.prod(boxes.xyxy[:, 2:] - boxes.xyxy[:, :2], axis=1)
    return max((int(place) for place in places), key=lambda place: float(sizes[place]))


def _describe_box(boxes: Boxes2D, place: int) -> str:
    return f"'{boxes.kinds[place]}' at {_format_box(boxes, place)}"


def _format_box(boxes: Boxes2D, place: int) -> str:
    return "(" + ", ".join(f"{edge:.0f}" for edge in boxes.xyxy[place]) + ")"
