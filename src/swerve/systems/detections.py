"""What a detector's numbers mean: the heads of common networks to boxes in the picture's own pixels.

What happens to an answer that is not as it should be (R22):

- A number that is none (NaN) anywhere in the output, or a coordinate that is infinite or beyond ±1e9, whatever the score
  of its row: the answer is at fault. It is said as a box of that number, `Boxes2D.fault` finds it, and the engine records
  an ERROR for the case.
- A score outside 0 to 1 by more than 0.001: refused with a sentence, an ERROR too; by less it is a matter of rounding,
  and the score becomes 0 or 1.
- A kind without a name, of a box that is kept: refused. So is an output of the wrong shape or type, and a raw head
  without rows; a list of found boxes may be empty.
- Boxes that reach beyond the picture are clipped. A box that shows nothing of it is left out: one outside, one without
  area, one whose right is left of its left or whose bottom is above its top.
- Boxes on each other: of one kind (`across`: of any) the best score stays, the others go if their IoU with it is above
  `iou`. Those of `Dicts` and `EndToEnd` were chosen by the network itself, so there `iou` is 1 unless told otherwise: a
  box said twice is said twice, and a relation may call it doubled.
- More than `most` boxes: those with the best scores stay, of equal ones the first. Of a raw head the best 30,000 are
  compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from swerve.errors import InputError, did_you_mean
from swerve.systems.nms import apart
from swerve.systems.reading import Sight
from swerve.systems.saying import Outputs, numbers_of
from swerve.values import LARGEST_NUMBER, Array, Boxes2D

ROUNDING = 1e-3  # by which a score may miss 0 or 1: those of half precision and of quantised networks do
ORDERS = ("xyxy", "yxyx", "xywh", "cxcywh")
_COCO = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, stop sign, "
    "parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, backpack, umbrella, "
    "handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard, "
    "surfboard, tennis racket, bottle, wine glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange, "
    "broccoli, carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop, "
    "mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, "
    "teddy bear, hair drier, toothbrush"
)
COCO = tuple(_COCO.split(", "))


class Found(NamedTuple):
    """Boxes in shown pixels (left, top, right, bottom), the score and the number of the kind of each."""

    xyxy: Array
    scores: Array
    labels: Array
    largest: float  # size of any number that was looked at; NaN if one is none

    def where(self, which: Array) -> Found:
        """The boxes at some places."""
        return Found(self.xyxy[which], self.scores[which], self.labels[which], self.largest)


@dataclass(frozen=True, kw_only=True)
class Detector:
    """What all heads share: which boxes are said, and under which names.

    Args:
        kinds: the names of the network's kinds in its own order, or `coco` for the 80 of COCO.
        only: the kinds that are said, by the network's names; all of them if empty.
        rename: other names for some of them.
        score: a box is said if its score is above this.
        iou: of two boxes with an IoU above this the worse is left out.
        across: whether boxes of different kinds leave each other out too.
        most: boxes said of one picture.
    """

    kinds: tuple[str, ...] | str
    only: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    score: float = 0.25
    iou: float = 0.45
    across: bool = False
    most: int = 300

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", _names(self.kinds))
        for name in (*self.only, *self.rename):
            if name not in self.kinds:
                raise InputError(f"the network has no kind {name!r}; {did_you_mean(str(name), self.kinds)}")
        for what, given in (("score", self.score), ("iou", self.iou)):
            if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
                raise InputError(f"{what} must be a number from 0 to 1, got {given!r}")
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 1:
            raise InputError(f"most must be a whole number of at least 1, got {self.most!r}")

    def __call__(self, outputs: Outputs, sight: Sight) -> Boxes2D:
        """The boxes in the picture's own pixels, best score first."""
        with np.errstate(all="ignore"):  # what is not finite is looked for below
            found = self.found(outputs, sight)
        if not found.largest <= LARGEST_NUMBER:
            return Boxes2D(np.full((1, 4), found.largest), (self.kinds[0],), size=sight.size)
        found = self._wanted(found.where(found.scores > self.score))
        labels = found.labels * (not self.across)  # boxes of one label meet
        kept = apart(found.xyxy, found.scores, labels, iou=self.iou, most=self.most)
        return self._said(found.where(kept), sight)

    def found(self, outputs: Outputs, sight: Sight) -> Found:
        """Every box of the output, before any is left out."""
        raise NotImplementedError

    def _wanted(self, found: Found) -> Found:
        """The boxes of the kinds that are asked for, each of a kind with a name."""
        labels = found.labels
        nameless = (labels != np.floor(labels)) | (labels < 0) | (labels >= len(self.kinds))
        if nameless.any():
            raise InputError(f"a box is of kind {labels[nameless][0]:g}, there are names for 0 to {len(self.kinds) - 1}")
        asked = np.array([not self.only or name in self.only for name in self.kinds])
        return found.where(asked[labels.astype(np.intp)])

    def _said(self, found: Found, sight: Sight) -> Boxes2D:
        xyxy = np.clip(sight.back(found.xyxy), 0, np.tile(sight.size, 2))
        shows = (xyxy[:, 2:] > xyxy[:, :2]).all(axis=1)
        names = [self.kinds[int(label)] for label in found.labels[shows]]
        scores = np.clip(found.scores[shows], 0, 1)
        return Boxes2D(xyxy[shows], tuple(self.rename.get(name, name) for name in names), scores, sight.size)


@dataclass(frozen=True, kw_only=True)
class Yolox(Detector):
    """YOLOX without its decoding: for each cell of each stride x, y, log width, log height, objectness and kinds."""

    output: str | int = 0
    strides: tuple[int, ...] = (8, 16, 32)

    def found(self, outputs: Outputs, sight: Sight) -> Found:
        rows = _rows(outputs, self.output, 5 + len(self.kinds))
        cells, strides = _grid(sight.shown, self.strides)
        if len(cells) != len(rows):
            width, height = sight.shown
            raise InputError(f"output {self.output!r} has {len(rows)} rows, {width}x{height} shown have {len(cells)} cells")
        xyxy = _corners((rows[:, :2] + cells) * strides, np.exp(rows[:, 2:4]) * strides)
        return _best(xyxy, rows[:, 4], rows[:, 5:], rows)


@dataclass(frozen=True, kw_only=True)
class YoloV5(Detector):
    """YOLOv5 as exported: rows of centre x and y, width, height, objectness and kinds."""

    output: str | int = 0

    def found(self, outputs: Outputs, sight: Sight) -> Found:
        del sight
        rows = _rows(outputs, self.output, 5 + len(self.kinds))
        return _best(_corners(rows[:, :2], rows[:, 2:4]), rows[:, 4], rows[:, 5:], rows)


@dataclass(frozen=True, kw_only=True)
class YoloV8(Detector):
    """YOLOv8, 11 and their relatives as exported: columns, or rows, of centre x and y, width, height and kinds."""

    output: str | int = 0

    def found(self, outputs: Outputs, sight: Sight) -> Found:
        del sight
        rows = _rows(outputs, self.output, 4 + len(self.kinds), turned=True)
        return _best(_corners(rows[:, :2], rows[:, 2:4]), np.ones(len(rows)), rows[:, 4:], rows)


@dataclass(frozen=True, kw_only=True)
class Ssd(Detector):
    """Two outputs, decoded boxes and their scores; a box is said once for each kind whose score is high enough.

    Args:
        boxes: the output with a box in each row.
        scores: the output with the scores of all kinds in each row.
        normalised: whether boxes are shares of what is shown, not pixels.
        background: whether the first score is that of nothing at all, which has no name.
        order: how a box is written: `xyxy`, `yxyx`, `xywh` or `cxcywh`.
    """

    boxes: str | int = 0
    scores: str | int = 1
    normalised: bool = True
    background: bool = True
    order: str = "xyxy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ORDERS:
            raise InputError(f"order = {self.order!r} is not known; {did_you_mean(str(self.order), ORDERS)}")

    def found(self, outputs: Outputs, sight: Sight) -> Found:
        xyxy = _ordered(_rows(outputs, self.boxes, 4), self.order) * _unit(self.normalised, sight)
        scores = _rows(outputs, self.scores, len(self.kinds) + self.background)
        _check_alike(boxes=xyxy, scores=scores)
        _check_scores(scores)
        kinds = scores[:, int(self.background) :]
        rows, labels = np.nonzero(kinds > self.score)
        return Found(xyxy[rows], kinds[rows, labels], labels, _largest(xyxy, scores))


@dataclass(frozen=True, kw_only=True)
class Dicts(Detector):
    """Three outputs as torchvision's detectors have them: boxes as corners in pixels, the numbers of their kinds, scores."""

    iou: float = 1.0
    boxes: str | int = "boxes"
    labels: str | int = "labels"
    scores: str | int = "scores"

    def found(self, outputs: Outputs, sight: Sight) -> Found:
        del sight
        xyxy = _rows(outputs, self.boxes, 4, fewest=0)
        labels, scores = (numbers_of(outputs, which).reshape(-1) for which in (self.labels, self.scores))
        _check_alike(boxes=xyxy, labels=labels, scores=scores)
        _check_scores(scores)
        return Found(xyxy, scores, labels, _largest(xyxy, labels, scores))


@dataclass(frozen=True, kw_only=True)
class EndToEnd(Detector):
    """Networks exported with their suppression: rows of left, top, right, bottom, score and the number of the kind."""

    iou: float = 1.0
    output: str | int = 0
    normalised: bool = False

    def found(self, outputs: Outputs, sight: Sight) -> Found:
        rows = _rows(outputs, self.output, 6, fewest=0)
        xyxy = rows[:, :4] * _unit(self.normalised, sight)
        _check_scores(rows[:, 4])
        return Found(xyxy, rows[:, 4], rows[:, 5], _largest(xyxy, rows))


def _names(kinds: object) -> tuple[str, ...]:
    given = COCO if kinds == "coco" else kinds
    if not isinstance(given, tuple | list) or not given or not all(isinstance(name, str) for name in given):
        raise InputError(f"kinds must be a list of one or more names, or 'coco', got {kinds!r}")
    return tuple(given)


def _rows(outputs: Outputs, which: str | int, wide: int, *, fewest: int = 1, turned: bool = False) -> Array:
    """An output as rows of `wide` numbers; with `turned` its columns are taken where those are as long."""
    numbers = numbers_of(outputs, which)
    rows = numbers.T if turned and numbers.ndim == 2 and numbers.shape[0] == wide else numbers
    if rows.ndim != 2 or rows.shape[1] != wide or len(rows) < fewest:
        shape = "x".join(map(str, numbers.shape)) or "one number"
        raise InputError(f"output {which!r} must be rows of {wide} numbers (for the kinds named), it is {shape}")
    return rows


def _grid(shown: tuple[int, int], strides: tuple[int, ...]) -> tuple[Array, Array]:
    """The column and row of each cell, and its stride, row by row, one stride after the other."""
    sizes = [(shown[0] // stride, shown[1] // stride) for stride in strides]
    cells = [np.stack(np.meshgrid(np.arange(wide), np.arange(high)), axis=-1).reshape(-1, 2) for wide, high in sizes]
    return np.concatenate(cells), np.repeat(strides, [len(part) for part in cells])[:, np.newaxis]


def _corners(centres: Array, spans: Array) -> Array:
    return np.hstack([centres - spans / 2, centres + spans / 2])


def _ordered(boxes: Array, order: str) -> Array:
    first, second = boxes[:, :2], boxes[:, 2:]
    if order == "cxcywh":
        return _corners(first, second)
    if order == "xywh":
        return np.hstack([first, first + second])
    return boxes[:, [1, 0, 3, 2]] if order == "yxyx" else boxes


def _best(xyxy: Array, objectness: Array, kinds: Array, raw: Array) -> Found:
    """One box for each row, of the kind with the best score; `raw` tells numbers that decoding hides."""
    _check_scores(objectness)
    _check_scores(kinds)
    labels = np.argmax(kinds, axis=1)
    return Found(xyxy, objectness * kinds[np.arange(len(kinds)), labels], labels, _largest(xyxy, raw))


def _unit(normalised: bool, sight: Sight) -> Array:
    """The pixels of one unit, for each edge of a box."""
    return np.tile(sight.shown, 2) if normalised else np.ones(4)


def _largest(*numbers: Array) -> float:
    return float(np.max([np.abs(part).max(initial=0.0) for part in numbers]))  # this max hands NaN on


def _check_scores(scores: Array) -> None:
    wrong = (scores < -ROUNDING) | (scores > 1 + ROUNDING)
    if wrong.any():
        raise InputError(f"a score is {scores[wrong][0]:g}, expected 0 to 1; the head may lack its sigmoid or softmax")


def _check_alike(**parts: Array) -> None:
    if len({len(part) for part in parts.values()}) > 1:
        raise InputError(f"the outputs do not fit: {', '.join(f'{len(part)} {name}' for name, part in parts.items())}")
