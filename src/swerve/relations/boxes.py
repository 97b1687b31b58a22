"""Comparisons of the boxes a detector says, with every error named as TigAug names it (TG-4, D-21).

A change that puts objects into the picture may say so by offering `placed()`, the boxes it put there (D-32); errors are
then told apart by whether they hit a placed object or one that was left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from swerve.core.case import Fact
from swerve.core.relation import Algebra, Correct, Equivariant, Pair, Status, Verdict
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Array, Boxes2D, Value, find
from swerve.relations.matching import Differences, Same, box_overlaps, counted, differences, match, same_kinds

REFERENCES = ("truth", "answer")
SAME, ANY = KINDS = ("same", "any")  # whether boxes must be of the same kind to be one object


class Flaw(StrEnum):
    """What is wrong with a set of boxes, worst first: the kinds of TG-4, and a further box on an object already found."""

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
    """A change that puts objects into the picture: recoloured, moved, added or turned ones (D-32)."""

    def placed(self) -> Boxes2D:
        """The objects it puts there: where they are afterwards, with their new kinds."""


def placed_by(change: Transformation) -> Boxes2D | None:
    """The objects a change puts into the picture, those of a chain moved by its later steps; None if it does not say."""
    if isinstance(change, Chain):
        return _placed_in_turn(change)
    return change.placed() if isinstance(change, Placing) else None


@dataclass(frozen=True)
class BoxesAlike:
    """Every object is found once, in its state, and nothing else: IoU ≥ `overlap` and the same kind (D-21).

    Held: the margin is minus the least IoU to spare. Violated: it is the number of errors. A box of the right kind with
    an IoU from `near` to `overlap` has drifted; below, its object was missed. Boxes under `least_score` do not count.
    Expected boxes with `care` False are neither demanded nor forbidden, whatever their kind. With `kinds = "any"` kinds are
    not compared, for labels and systems that name them differently.
    """

    overlap: float = 0.5
    near: float = 0.1
    least_score: float = 0.0
    kinds: str = SAME
    slot: ClassVar[str] = Boxes2D.slot

    def __post_init__(self) -> None:
        if self.kinds not in KINDS:
            raise ValueError(f"kinds must be '{SAME}' or '{ANY}', got {self.kinds!r}")
        self.same()  # its limits are checked there
        if (
            isinstance(self.least_score, bool)
            or not isinstance(self.least_score, int | float)
            or not 0 <= self.least_score <= 1
        ):
            raise ValueError(f"least_score must be a number from 0 to 1, got {self.least_score!r}")

    def same(self) -> Same:
        """When two boxes are one object."""
        return Same(self.overlap, self.near, any_kind=self.kinds == ANY)

    def compare(self, expected: Value, actual: Value) -> Verdict:
        if why := expected.fault() or actual.fault():
            return Verdict.error(why)
        return self.errors(expected, actual).verdict()

    def errors(self, expected: Value, actual: Value, placed: Boxes2D | None = None) -> BoxErrors:
        """What is wrong, box by box, for tables and sentences."""
        wanted, said = self._counted(expected), self._counted(actual)
        return BoxErrors(wanted, said, differences(wanted, said, self.same()), _placed_rows(wanted, placed, self.overlap))

    def _counted(self, value: Value) -> Boxes2D:
        boxes = counted(value, self.least_score) if isinstance(value, Boxes2D) else value
        if not isinstance(boxes, Boxes2D):
            raise TypeError(f"boxes are compared with boxes, got {type(value).__name__}")
        return boxes


@dataclass(frozen=True)
class BoxErrors:
    """The differences between the boxes `wanted` and `said`; `placed` are the rows that the change put there."""

    wanted: Boxes2D
    said: Boxes2D
    between: Differences
    placed: frozenset[int] = field(default=frozenset())

    def counts(self) -> dict[Flaw, int]:
        """How many errors there are of each plain kind."""
        told = self.between
        return {
            Flaw.MISSED: len(told.missed),
            Flaw.WRONG_STATE: len(told.mislabelled),
            Flaw.GHOST: len(told.ghosts),
            Flaw.DRIFTED: len(told.drifted),
            Flaw.DOUBLED: len(told.doubled),
        }

    def flaw(self) -> Flaw | None:
        """The worst error, or None; where objects were placed, one of TG-4's second list if any object was lost."""
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
        """The counts and the worst error, for a record."""
        counts = {str(kind).replace(" ", "_"): float(count) for kind, count in self.counts().items()}
        told: dict[str, Fact] = {**counts, "objects": float(self.between.demanded), "flaw": str(self.flaw() or "")}
        return told | ({"placed": float(len(self.placed))} if self.placed else {})

    def verdict(self) -> Verdict:
        """Held without an error; the sentence names the worst one and counts them all."""
        flaw, demanded = self.flaw(), self.between.demanded
        if flaw is None:
            room = self.between.spare
            return Verdict(
                Status.HELD, -room, f"all {demanded} objects found, {room:.2f} IoU to spare at the least", facts=self.facts()
            )
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts().items() if count)
        why = f"{self._worst(flaw)} ({counts}; {demanded} expected, {len(self.said.kinds)} said)"
        return Verdict(Status.VIOLATED, self.between.lost + self.between.gained, why, facts=self.facts())

    def _worst(self, flaw: Flaw) -> str:
        """The largest box with the worst error, in words."""
        between, placed = self.between, self.placed
        if flaw in (Flaw.PLACED_MISSED, Flaw.PLACED_DRIFTED, Flaw.KEPT_LOST):
            rows = set(placed) if flaw is not Flaw.KEPT_LOST else set(range(len(self.wanted.kinds))) - placed
            which = "the placed" if flaw is not Flaw.KEPT_LOST else "the unchanged"
            return f"{which} {self._lost(rows)}"
        if flaw in (Flaw.GHOST, Flaw.DOUBLED):
            column = _largest(self.said, between.ghosts if flaw is Flaw.GHOST else between.doubled)
            what = "is a ghost" if flaw is Flaw.GHOST else "is a further box on an object already found"
            return f"{_told(self.said, column)} {what}"
        return self._lost(set(range(len(self.wanted.kinds))))

    def _lost(self, rows: set[int]) -> str:
        """The worst thing that befell one of `rows`."""
        if missed := [row for row in self.between.missed if row in rows]:
            return f"{_told(self.wanted, _largest(self.wanted, missed))} was missed"
        pairs = dict(self.between.mislabelled)
        if wrong := [row for row in pairs if row in rows]:
            row = _largest(self.wanted, wrong)
            return f"{_told(self.wanted, row)} was taken for '{self.said.kinds[pairs[row]]}'"
        pairs = dict(self.between.drifted)
        row = _largest(self.wanted, [row for row in pairs if row in rows])
        return f"{_told(self.wanted, row)} drifted to {_place(self.said, pairs[row])}"


@dataclass(frozen=True)
class PlacedBoxes(Algebra):
    """`compare`, for changes that place objects: tells a placed object that is lost from an unchanged one (TG-4, D-32).

    The `reference` is the mapped "truth" or the system's own mapped "answer". A change that places nothing is judged by
    `compare` alone.
    """

    compare: BoxesAlike = field(default_factory=BoxesAlike)
    reference: str = "truth"

    def __post_init__(self) -> None:
        if self.reference not in REFERENCES:
            raise ValueError(f"reference must be one of {', '.join(REFERENCES)}, got {self.reference!r}")

    def check(self, pair: Pair) -> Verdict:
        plain = (Correct if self.reference == "truth" else Equivariant)(self.compare).check(pair)
        if plain.status not in (Status.HELD, Status.VIOLATED):
            return plain
        return self.errors(pair).verdict()

    def errors(self, pair: Pair) -> BoxErrors:
        """What is wrong, box by box, for tables and sentences."""
        wanted = find(pair.followup.truth if self.reference == "truth" else pair.expected, Boxes2D.slot)
        said = find(pair.after, Boxes2D.slot)
        assert wanted is not None
        assert said is not None
        return self.compare.errors(wanted, said, placed_by(pair.change))


def same_boxes(overlap: float = 0.5, least_score: float = 0.0, kinds: str = SAME) -> Equivariant:
    """The boxes are what the change makes of the system's own boxes on the source (TG-2, self-consistency)."""
    return Equivariant(BoxesAlike(overlap, min(0.1, overlap), least_score, kinds))


def right_boxes(overlap: float = 0.5, least_score: float = 0.0, kinds: str = SAME) -> Correct:
    """The boxes are what the change makes of the labels (D-21, the default reference)."""
    return Correct(BoxesAlike(overlap, min(0.1, overlap), least_score, kinds))


def _placed_in_turn(chain: Chain) -> Boxes2D | None:
    placed: list[Boxes2D] = []
    for step in chain.steps:
        placed = [step.map(boxes) for boxes in placed]
        if (more := placed_by(step)) is not None:
            placed.append(more)
    if not placed:
        return None
    kinds = tuple(kind for boxes in placed for kind in boxes.kinds)
    return Boxes2D(np.concatenate([boxes.xyxy for boxes in placed]), kinds, size=placed[0].size)


def _placed_rows(wanted: Boxes2D, placed: Boxes2D | None, overlap: float) -> frozenset[int]:
    """The rows of `wanted` that the change put there."""
    if placed is None:
        return frozenset()
    affinity = box_overlaps(wanted, placed)
    pairs = match(affinity, (affinity >= overlap) & same_kinds(wanted, placed)).pairs
    return frozenset(row for row, _ in pairs)


def _largest(boxes: Boxes2D, places: Array | list[int] | tuple[int, ...]) -> int:
    sizes = np.prod(boxes.xyxy[:, 2:] - boxes.xyxy[:, :2], axis=1)
    return max((int(place) for place in places), key=lambda place: float(sizes[place]))


def _told(boxes: Boxes2D, place: int) -> str:
    return f"'{boxes.kinds[place]}' at {_place(boxes, place)}"


def _place(boxes: Boxes2D, place: int) -> str:
    return "(" + ", ".join(f"{edge:.0f}" for edge in boxes.xyxy[place]) + ")"
