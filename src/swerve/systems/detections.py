"""The heads of common detectors, each as its own boxes; what they share is in `swerve.systems.detector`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.systems.decoders import Outputs, numbers_of
from swerve.systems.detector import (
    BACKGROUNDS,
    Detector,
    RawDetections,
    check_alike,
    check_order,
    check_pixels,
    check_scores,
    corners,
    largest,
    ordered,
    rows_of,
    unit_of,
)
from swerve.systems.preprocessing import ImageView

FILLER = -1  # the score, or the kind, of a row that only fills up a list
COLUMNS = ("left", "top", "right", "bottom", "score", "kind")


@dataclass(frozen=True, kw_only=True)
class Yolox(Detector):
    """YOLOX without its decoding: for each cell of each stride x, y, log width, log height, objectness and kinds."""

    output: str | int = 0
    strides: tuple[int, ...] = (8, 16, 32)

    def found(self, outputs: Outputs, view: ImageView) -> RawDetections:
        rows = rows_of(outputs, self.output, 5 + len(self.kinds))
        cells, strides = _grid(view.shown, self.strides)
        if len(cells) != len(rows):
            width, height = view.shown
            raise InputError(f"output {self.output!r} has {len(rows)} rows, {width}x{height} shown have {len(cells)} cells")
        xyxy = corners((rows[:, :2] + cells) * strides, np.exp(rows[:, 2:4]) * strides)
        return _best(xyxy, rows[:, 4], rows[:, 5:], rows)


@dataclass(frozen=True, kw_only=True)
class YoloV5(Detector):
    """YOLOv5 as exported: rows of centre x and y, width, height, objectness and kinds."""

    output: str | int = 0

    def found(self, outputs: Outputs, view: ImageView) -> RawDetections:
        del view
        rows = rows_of(outputs, self.output, 5 + len(self.kinds))
        return _best(corners(rows[:, :2], rows[:, 2:4]), rows[:, 4], rows[:, 5:], rows)


@dataclass(frozen=True, kw_only=True)
class YoloV8(Detector):
    """YOLOv8, 11 and their relatives as exported: columns, or rows, of centre x and y, width, height and kinds."""

    output: str | int = 0

    def found(self, outputs: Outputs, view: ImageView) -> RawDetections:
        del view
        rows = rows_of(outputs, self.output, 4 + len(self.kinds), turned=True)
        return _best(corners(rows[:, :2], rows[:, 2:4]), np.ones(len(rows)), rows[:, 4:], rows)


@dataclass(frozen=True, kw_only=True)
class Ssd(Detector):
    """Two outputs, decoded boxes and their scores; a box is said once for each kind whose score is high enough.

    Args:
        boxes: the output with a box in each row.
        scores: the output with the scores of all kinds in each row.
        normalised: whether boxes are shares of what is shown, not pixels.
        background: whether the first score is that of nothing at all; `kinds` may name it or leave it out.
        order: how a box is written: `xyxy`, `yxyx`, `xywh` or `cxcywh`.
    """

    boxes: str | int = 0
    scores: str | int = 1
    normalised: bool = True
    background: bool = True
    order: str = "xyxy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_order(self.order)
        if self.background and self.kinds[0] in BACKGROUNDS:
            object.__setattr__(self, "kinds", self.kinds[1:])

    def found(self, outputs: Outputs, view: ImageView) -> RawDetections:
        xyxy = ordered(rows_of(outputs, self.boxes, 4), self.order) * unit_of(self.normalised, view)
        scores = rows_of(outputs, self.scores, len(self.kinds) + self.background)
        check_alike(boxes=xyxy, scores=scores)
        check_scores(scores)
        kinds = scores[:, int(self.background) :]
        rows, labels = np.nonzero(kinds > self.score)
        if not self.normalised:
            check_pixels(xyxy[np.unique(rows)])
        return RawDetections(xyxy[rows], kinds[rows, labels], labels, largest(xyxy, scores))


@dataclass(frozen=True, kw_only=True)
class NumberedDetections(Detector):
    """What networks share that chose their boxes themselves, and tell each one's kind by its number.

    Args:
        first: the number of the first of `kinds`, 0 unless told; 1 where 0 is a background that `kinds` leaves out.
        normalised: whether boxes are shares of what is shown, not pixels.
    """

    iou: float = 1.0
    first: int | None = None
    normalised: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.first, bool) or not isinstance(self.first, int | None):
            raise InputError(f"first must be a whole number, got {self.first!r}")
        if self.kinds[0] in BACKGROUNDS and self.numbers[0] > 0:
            raise InputError(f"kinds begin with {self.kinds[0]!r}, so they count from 0; leave first = {self.first} out")

    @property
    def numbers(self) -> range:
        """The numbers by which the network tells its kinds."""
        first = self.first or 0
        return range(first, first + len(self.kinds))

    def listed(self, boxes: Array, scores: Array, labels: Array, view: ImageView) -> RawDetections:
        """The boxes of a list, without the rows that only fill it up."""
        xyxy = boxes * unit_of(self.normalised, view)
        real = (scores != FILLER) & (labels != FILLER)
        found = RawDetections(xyxy, scores, labels, largest(xyxy, scores, labels)).where(real)
        check_scores(found.scores)
        if not self.normalised:
            check_pixels(found.xyxy[found.scores > self.score])
        return found


@dataclass(frozen=True, kw_only=True)
class Dicts(NumberedDetections):
    """Boxes, the numbers of their kinds and scores as outputs of their own: torchvision, TensorFlow's detection API.

    Args:
        boxes: the output with a box in each row.
        labels: the output with the number of each box's kind. How it counts must be told: for `kinds = "coco"`, `first`.
        scores: the output with the score of each box.
        count: the output that says how many rows are boxes, if the others only fill up.
        order: how a box is written: `xyxy`, `yxyx`, `xywh` or `cxcywh`.
    """

    boxes: str | int = "boxes"
    labels: str | int = "labels"
    scores: str | int = "scores"
    count: str | int | None = None
    order: str = "xyxy"

    def __post_init__(self) -> None:
        if self.kinds == "coco" and self.first is None:
            raise InputError(
                "detections: kinds = 'coco' does not say how the labels count; say kinds = 'coco-91' (torchvision and "
                "TensorFlow: a traffic light is 10), or add first = 1 (80 kinds after a background) or first = 0"
            )
        super().__post_init__()
        check_order(self.order)

    def found(self, outputs: Outputs, view: ImageView) -> RawDetections:
        boxes = rows_of(outputs, self.boxes, 4, fewest=0)
        labels, scores = (numbers_of(outputs, which).reshape(-1) for which in (self.labels, self.scores))
        check_alike(boxes=boxes, labels=labels, scores=scores)
        count = len(boxes) if self.count is None else _counted(outputs, self.count, len(boxes))
        return self.listed(ordered(boxes, self.order)[:count], scores[:count], labels[:count], view)


@dataclass(frozen=True, kw_only=True)
class EndToEnd(NumberedDetections):
    """Networks exported with their suppression: a row for each box.

    Args:
        output: the output with the rows.
        columns: what the numbers of a row are; those with any other name, such as `batch`, are not looked at.
    """

    output: str | int = 0
    columns: tuple[str, ...] = COLUMNS

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(self.columns.count(name) != 1 for name in COLUMNS):
            raise InputError(f"columns must name each of {', '.join(COLUMNS)} once, got {', '.join(map(str, self.columns))}")

    def found(self, outputs: Outputs, view: ImageView) -> RawDetections:
        rows = rows_of(outputs, self.output, len(self.columns), fewest=0)
        told = rows[:, [self.columns.index(name) for name in COLUMNS]]
        return self.listed(told[:, :4], told[:, 4], told[:, 5], view)


def _counted(outputs: Outputs, which: str | int, rows: int) -> int:
    """How many of the rows are boxes."""
    told = numbers_of(outputs, which).reshape(-1)
    if len(told) != 1 or told[0] not in range(rows + 1):
        raise InputError(f"output {which!r} must be a count of 0 to {rows} rows, it is {told[:3].tolist()}")
    return int(told[0])


def _grid(shown: tuple[int, int], strides: tuple[int, ...]) -> tuple[Array, Array]:
    """The column and row of each cell, and its stride, row by row, one stride after the other."""
    sizes = [(shown[0] // stride, shown[1] // stride) for stride in strides]
    cells = [np.stack(np.meshgrid(np.arange(wide), np.arange(high)), axis=-1).reshape(-1, 2) for wide, high in sizes]
    return np.concatenate(cells), np.repeat(strides, [len(part) for part in cells])[:, np.newaxis]


def _best(xyxy: Array, objectness: Array, kinds: Array, raw: Array) -> RawDetections:
    """One box for each row, of the kind with the best score; `raw` tells numbers that decoding hides."""
    check_scores(objectness)
    check_scores(kinds)
    labels = np.argmax(kinds, axis=1)
    return RawDetections(xyxy, objectness * kinds[np.arange(len(kinds)), labels], labels, largest(xyxy, raw))
