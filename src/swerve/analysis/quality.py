"""How good answers are against labels, as sums that can be added up row by row: RMSE of steering, mAP of boxes.

Rows are read as the journal has them, encoded. Scores of boxes are counted in steps of 1/1000, so that memory does not grow
with the number of boxes; mAP is that of `swerve.analysis.detection` at one limit, but for the order of boxes within a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from swerve.analysis.detection import ANY, RECALLS
from swerve.core.values import Array, Boxes2D, Boxes3D, Steering
from swerve.relations.matching import overlaps
from swerve.store.journal import Row

STEPS = 1000  # of a score from 0 to 1
IOU, METRES = 0.5, 2.0  # limits of a hit
ERRORS = ""  # the part of a measure that has only one
Sums = dict[str, Array]  # of any number of answers, by kind of object
Rows = Sequence[Row]


class Sample(NamedTuple):
    """What one answer adds to the sum of one kind: `amounts`, all of them, or one at each of `places`."""

    kind: str
    amounts: Array | tuple[float, ...]
    places: Array | None = None


class Measure(Protocol):
    """Adds up how good answers are."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def unit(self) -> str:
        """The unit of its numbers."""

    @property
    def falls(self) -> bool:
        """Whether a lower number is better."""

    def samples(self, label: Rows, answer: Rows) -> list[Sample] | None:
        """What one answer adds, None without a label and an answer of this kind."""

    @property
    def size(self) -> int:
        """The numbers in the sum of one kind."""

    def value(self, sums: Sums) -> float | None:
        """The measure over all that was added up."""


def measure_of(pairs: Iterable[tuple[Rows, Rows]]) -> Measure | None:
    """The measure of untouched cases' labels and answers: of steering, or else of boxes; None if they have neither."""
    known = list(pairs)
    if any(_found(Steering.slot, *pair) for pair in known):
        return SteeringError()
    for kind in (Boxes2D, Boxes3D):
        both = [found for pair in known if (found := _found(kind.slot, *pair))]
        kinds = [{str(name) for pair in both for name in pair[side].get("kinds", ())} for side in (0, 1)]
        if both and kinds[0]:
            return BoxPrecision(kind.slot, any_kind=not kinds[0] & kinds[1])
    return None


def _found(slot: str, label: Rows, answer: Rows) -> tuple[Row, Row] | None:
    first, second = (next((value for value in side if value.get("slot") == slot), None) for side in (label, answer))
    return (first, second) if first and second else None


@dataclass(frozen=True)
class SteeringError:
    """The root mean squared error of the steering-wheel angle."""

    name: str = "RMSE"
    unit: str = "°"
    falls: bool = True
    size: int = 2

    def samples(self, label: Rows, answer: Rows) -> list[Sample] | None:
        """The squared error."""
        found = _found(Steering.slot, label, answer)
        try:
            wrong = None if found is None else float(found[1]["degrees"]) - float(found[0]["degrees"])
        except (KeyError, TypeError, ValueError):  # a damaged row
            return None
        return None if wrong is None else [Sample(ERRORS, (wrong * wrong, 1.0))]

    def value(self, sums: Sums) -> float | None:
        """The root of the mean."""
        total, count = sums.get(ERRORS, (0.0, 0.0))
        return math.sqrt(max(float(total), 0.0) / float(count)) if count > 0 else None


@dataclass(frozen=True)
class BoxPrecision:
    """mAP at an IoU of 0.5, or of 3-D boxes at 2 m between centres: hits and misses by score, then the number of labels."""

    slot: str
    any_kind: bool = False
    unit: str = ""
    falls: bool = False
    size: int = 2 * STEPS + 1

    @property
    def name(self) -> str:
        """Such as mAP@.5."""
        return "mAP@.5" if self.slot == Boxes2D.slot else f"mAP@{METRES:g} m"

    def samples(self, label: Rows, answer: Rows) -> list[Sample] | None:
        """The hits and misses of each kind."""
        found = _found(self.slot, label, answer)
        try:
            return None if found is None else list(self._samples(_Boxes.read(found[0]), _Boxes.read(found[1])))
        except (KeyError, TypeError, ValueError):  # a damaged row
            return None

    def _samples(self, label: _Boxes, answer: _Boxes) -> Iterable[Sample]:
        hits, ignored = self._matched(label, answer)
        places = np.clip((STEPS * answer.scores).astype(int), 0, STEPS - 1) + STEPS * ~hits
        for kind in (ANY,) if self.any_kind else sorted({*label.kinds, *answer.kinds}):
            mine = answer.of(kind) & ~ignored
            wanted = np.count_nonzero(label.of(kind) & label.care)
            yield Sample(kind, np.append(np.ones(np.count_nonzero(mine)), wanted), np.append(places[mine], 2 * STEPS))

    def _matched(self, label: _Boxes, answer: _Boxes) -> tuple[Array, Array]:
        """Which boxes of the answer hit a label, and which lie on one that is to be ignored; the surest choose first."""
        hits, ignored = np.zeros(len(answer.kinds), bool), ~answer.care
        if not (len(label.kinds) and len(answer.kinds)):
            return hits, ignored
        near = self._nearness(answer.numbers, label)
        if not self.any_kind:
            near[answer.names[:, None] != label.names[None, :]] = -1.0
        pairs = [(int(row), int(column)) for row, column in zip(*np.nonzero(near >= 0), strict=True)]
        pairs.sort(key=lambda pair: (-answer.scores[pair[0]], pair[0], not label.care[pair[1]], -near[pair]))
        taken: set[int] = set()
        for row, column in pairs:
            if hits[row] or ignored[row] or (column in taken and label.care[column]):
                continue
            taken.add(column)
            if label.care[column]:
                hits[row] = True
            else:
                ignored[row] = True
        return hits, ignored

    def _nearness(self, answer: Array, label: _Boxes) -> Array:
        """How near two boxes are; below zero if they are too far apart for a hit."""
        if self.slot == Boxes3D.slot:
            return np.asarray(METRES - np.linalg.norm(answer[:, None, :2] - label.numbers[None, :, :2], axis=2))
        near = overlaps(answer, label.numbers)
        if not label.care.all():  # as COCO, by the share of the answer's box that lies in what is to be ignored
            ours, theirs = _areas(answer)[:, None], _areas(label.numbers[~label.care])[None, :]
            apart = near[:, ~label.care]
            near[:, ~label.care] = apart * (ours + theirs) / (1 + apart) / np.maximum(ours, 1e-12)
        return near - IOU

    def value(self, sums: Sums) -> float | None:
        """The mean over kinds that are labelled."""
        precisions = [_precision(numbers) for numbers in sums.values() if numbers[-1] > 0]
        return float(np.mean(precisions)) if precisions else None


@dataclass(frozen=True)
class _Boxes:
    """Boxes of a row of the journal."""

    numbers: Array
    kinds: tuple[str, ...]
    scores: Array
    care: Array

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> _Boxes:
        flat = row["slot"] == Boxes2D.slot
        kinds = tuple(map(str, row["kinds"]))
        numbers = np.array(row["xyxy" if flat else "xyzlwhy"], dtype=float).reshape(len(kinds), 4 if flat else 7)
        scores, care = row.get("scores"), row.get("care")
        return cls(
            numbers,
            kinds,
            np.ones(len(kinds)) if scores is None else np.array(scores, dtype=float),
            np.ones(len(kinds), bool) if care is None else np.array(care, dtype=bool),
        )

    def of(self, kind: str) -> Array:
        return np.ones(len(self.kinds), bool) if kind == ANY else self.names == kind

    @cached_property
    def names(self) -> Array:
        return np.array(self.kinds, dtype=np.str_)


def _areas(xyxy: Array) -> Array:
    return np.asarray(np.prod(np.maximum(xyxy[:, 2:] - xyxy[:, :2], 0), axis=1))


def _precision(numbers: Array) -> float:
    """The average precision of one kind over COCO's recalls."""
    hits, misses, wanted = numbers[:STEPS][::-1], numbers[STEPS:-1][::-1], numbers[-1]
    used = (hits + misses) > 0
    found = np.cumsum(hits)[used]
    answered = np.cumsum(hits + misses)[used]
    best_from_here = np.maximum.accumulate((found / answered)[::-1])[::-1]
    places = np.searchsorted(found / wanted, RECALLS, side="left")
    return float(np.append(best_from_here, 0.0)[places].mean())
