"""Decoders for the outputs of common detectors; what they share is in `swerve.systems.detector`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.systems.decoders import Outputs, numbers_of
from swerve.systems.detector import (
    BACKGROUNDS,
    ORDERS,
    Detector,
    RawDetections,
    check_lengths,
    check_pixels,
    check_scores,
    from_centres,
    largest,
    rows_of,
    to_xyxy,
    unit_of,
)
from swerve.systems.preprocessing import ImageView

FILLER = -1  # the score or kind of a padding row
COLUMNS = ("left", "top", "right", "bottom", "score", "kind")


@dataclass(frozen=True, kw_only=True)
class Yolox(Detector):
    """YOLOX without its decoding: x, y, log width, log height, objectness and kind scores per cell of each stride."""

    output: str | int = 0
    strides: tuple[int, ...] = (8, 16, 32)

    def decode(self, outputs: Outputs, view: ImageView) -> RawDetections:
        rows = rows_of(outputs, self.output, 5 + len(self.kinds))
        cells, strides = _grid(view.shown, self.strides)
        if len(cells) != len(rows):
            width, height = view.shown
            raise InputError(
                f"output {self.output!r} has {len(rows)} rows, but an input of {width}x{height} has {len(cells)} cells"
            )
        xyxy = from_centres((rows[:, :2] + cells) * strides, np.exp(rows[:, 2:4]) * strides)
        return _best(xyxy, rows[:, 4], rows[:, 5:], rows)


@dataclass(frozen=True, kw_only=True)
class YoloV5(Detector):
    """YOLOv5 as exported: rows of centre x and y, width, height, objectness and kind scores."""

    output: str | int = 0

    def decode(self, outputs: Outputs, view: ImageView) -> RawDetections:
        del view
        rows = rows_of(outputs, self.output, 5 + len(self.kinds))
        return _best(from_centres(rows[:, :2], rows[:, 2:4]), rows[:, 4], rows[:, 5:], rows)


@dataclass(frozen=True, kw_only=True)
class YoloV8(Detector):
    """YOLOv8, YOLO11 and similar as exported: columns or rows of centre x and y, width, height and kind scores."""

    output: str | int = 0

    def decode(self, outputs: Outputs, view: ImageView) -> RawDetections:
        del view
        rows = rows_of(outputs, self.output, 4 + len(self.kinds), turned=True)
        return _best(from_centres(rows[:, :2], rows[:, 2:4]), np.ones(len(rows)), rows[:, 4:], rows)


@dataclass(frozen=True, kw_only=True)
class Ssd(Detector):
    """Two outputs, decoded boxes and their scores; a box is reported once for each kind with a high enough score.

    Args:
        boxes: the output with one box per row.
        scores: the output with the scores of all kinds in each row.
        normalised: whether boxes are fractions of the input's size instead of pixels.
        background: whether the first score is that of the background; `kinds` may include it or not.
        order: the order of a box's numbers: `xyxy`, `yxyx`, `xywh` or `cxcywh`.
    """

    boxes: str | int = 0
    scores: str | int = 1
    normalised: bool = True
    background: bool = True
    order: Annotated[str, OneOfNames(*ORDERS)] = "xyxy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("order", self.order, ORDERS)
        if self.background and self.kinds[0] in BACKGROUNDS:
            object.__setattr__(self, "kinds", self.kinds[1:])

    def decode(self, outputs: Outputs, view: ImageView) -> RawDetections:
        xyxy = to_xyxy(rows_of(outputs, self.boxes, 4), self.order) * unit_of(self.normalised, view)
        scores = rows_of(outputs, self.scores, len(self.kinds) + self.background)
        check_lengths(boxes=xyxy, scores=scores)
        check_scores(scores)
        kinds = scores[:, int(self.background) :]
        rows, labels = np.nonzero(kinds > self.score)
        if not self.normalised:
            check_pixels(xyxy[np.unique(rows)])
        return RawDetections(xyxy[rows], kinds[rows, labels], labels, largest(xyxy, scores))


@dataclass(frozen=True, kw_only=True)
class NumberedDetections(Detector):
    """Networks that suppress overlapping boxes themselves and return the kind of each box as a number.

    Args:
        first: the number of the first of `kinds`, by default 0; 1 if 0 is a background that `kinds` does not include.
        normalised: whether boxes are fractions of the input's size instead of pixels.
    """

    iou: float = 1.0
    first: int | None = None
    normalised: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.first, bool) or not isinstance(self.first, int | None):
            raise InputError(f"'first' must be a whole number, got {self.first!r}")
        if self.kinds[0] in BACKGROUNDS and self.numbers[0] > 0:
            raise InputError(
                f"'kinds' starts with {self.kinds[0]!r}, so the class numbers start at 0; remove first = {self.first}"
            )

    @property
    def numbers(self) -> range:
        """The numbers that the network uses for its kinds."""
        first = self.first or 0
        return range(first, first + len(self.kinds))

    def from_list(self, boxes: Array, scores: Array, labels: Array, view: ImageView) -> RawDetections:
        """The boxes of a list, without padding rows."""
        xyxy = boxes * unit_of(self.normalised, view)
        real = (scores != FILLER) & (labels != FILLER)
        found = RawDetections(xyxy, scores, labels, largest(xyxy, scores, labels)).where(real)
        check_scores(found.scores)
        if not self.normalised:
            check_pixels(found.xyxy[found.scores > self.score])
        return found


@dataclass(frozen=True, kw_only=True)
class SeparateOutputs(NumberedDetections):
    """Boxes, kind numbers and scores as separate outputs: torchvision, TensorFlow's detection API.

    Args:
        boxes: the output with one box per row.
        labels: the output with the number of each box's kind; `kinds = "coco"` requires `first`, the first number.
        scores: the output with the score of each box.
        count: the output with the number of boxes, if further rows are padding.
        order: the order of a box's numbers: `xyxy`, `yxyx`, `xywh` or `cxcywh`.
    """

    boxes: str | int = "boxes"
    labels: str | int = "labels"
    scores: str | int = "scores"
    count: str | int | None = None
    order: Annotated[str, OneOfNames(*ORDERS)] = "xyxy"

    def __post_init__(self) -> None:
        if self.kinds == "coco" and self.first is None:
            raise InputError(
                "detections: kinds = 'coco' does not define how labels are numbered; set kinds = 'coco-91' (torchvision and "
                "TensorFlow: a traffic light is 10), or add first = 1 (80 kinds after a background) or first = 0"
            )
        super().__post_init__()
        check_known("order", self.order, ORDERS)

    def decode(self, outputs: Outputs, view: ImageView) -> RawDetections:
        boxes = rows_of(outputs, self.boxes, 4, fewest=0)
        labels, scores = (numbers_of(outputs, which).reshape(-1) for which in (self.labels, self.scores))
        check_lengths(boxes=boxes, labels=labels, scores=scores)
        count = len(boxes) if self.count is None else _counted(outputs, self.count, len(boxes))
        return self.from_list(to_xyxy(boxes, self.order)[:count], scores[:count], labels[:count], view)


@dataclass(frozen=True, kw_only=True)
class EndToEnd(NumberedDetections):
    """Networks exported with non-maximum suppression: one row per box.

    Args:
        output: the output with the rows.
        columns: the meaning of the numbers in a row; columns with other names, such as `batch`, are ignored.
    """

    output: str | int = 0
    columns: tuple[str, ...] = COLUMNS

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(self.columns.count(name) != 1 for name in COLUMNS):
            raise InputError(
                f"'columns' must name each of {', '.join(COLUMNS)} once, got {', '.join(map(str, self.columns))}"
            )

    def decode(self, outputs: Outputs, view: ImageView) -> RawDetections:
        rows = rows_of(outputs, self.output, len(self.columns), fewest=0)
        picked = rows[:, [self.columns.index(name) for name in COLUMNS]]
        return self.from_list(picked[:, :4], picked[:, 4], picked[:, 5], view)


def _counted(outputs: Outputs, which: str | int, rows: int) -> int:
    """The number of rows that are boxes."""
    count = numbers_of(outputs, which).reshape(-1)
    if len(count) != 1 or count[0] not in range(rows + 1):
        raise InputError(f"output {which!r} must be a count of 0 to {rows} rows, got {count[:3].tolist()}")
    return int(count[0])


def _grid(shown: tuple[int, int], strides: tuple[int, ...]) -> tuple[Array, Array]:
    """The column, row and stride of each cell, row by row, one stride after the other."""
    sizes = [(shown[0] // stride, shown[1] // stride) for stride in strides]
    cells = [np.stack(np.meshgrid(np.arange(wide), np.arange(high)), axis=-1).reshape(-1, 2) for wide, high in sizes]
    return np.concatenate(cells), np.repeat(strides, [len(part) for part in cells])[:, np.newaxis]


def _best(xyxy: Array, objectness: Array, kinds: Array, raw: Array) -> RawDetections:
    """One box per row, of the kind with the best score; `raw` is checked for numbers that decoding would hide."""
    check_scores(objectness)
    check_scores(kinds)
    labels = np.argmax(kinds, axis=1)
    return RawDetections(xyxy, objectness * kinds[np.arange(len(kinds)), labels], labels, largest(xyxy, raw))
