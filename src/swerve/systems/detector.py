"""What all decoders of detectors share: from raw outputs to boxes in the picture's own pixels.

Faulty answers are handled as follows:

- NaN anywhere in the output, or a coordinate that is infinite or beyond ±1e9, whatever the score of its row: the answer is
  faulty. It is returned as a box with that number, which `Boxes2D.fault` reports, and the engine records an ERROR.
- A score outside 0 to 1 by more than 0.001 is refused, an ERROR too; a smaller deviation is rounding and is clipped.
- A kept box whose kind has no name is refused; so are the background, a number that COCO does not use, an output of the
  wrong shape or type, and a raw output without rows. A list of detections may be empty.
- In a list of detections, rows with score -1 or kind -1 are padding and are dropped before scores are checked. So are the
  rows beyond `count`.
- Two or more boxes that all lie within the first pixel, from a network that is declared to return pixels, are refused:
  they are fractions of the picture.
- Boxes are clipped to the picture. A box without any area inside it, or with negative width or height, is dropped.
- Of overlapping boxes of one kind (`across`: of any kind) the one with the best score is kept and those with an IoU above
  `iou` are dropped. `SeparateOutputs` and `EndToEnd` have been suppressed by the network already, so their default `iou`
  is 1: a box returned twice stays, and a relation may report it as a duplicate.
- Of more than `most` boxes those with the best scores are kept, the first of equal ones. Of a raw output only the best
  30,000 are compared.
"""
# R22

# No postponed annotations here: subclasses in another module inherit them, and TOML tables are converted by them.

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from swerve.core.arguments import check_number, check_whole
from swerve.core.errors import InputError, did_you_mean
from swerve.core.values import LARGEST_NUMBER, Array, Boxes2D
from swerve.systems.decoders import Outputs, numbers_of
from swerve.systems.preprocessing import ImageView

ROUNDING = 1e-3  # tolerance for scores outside 0 to 1, which half precision and quantised networks return
SHARES = 1.5  # largest coordinate of boxes in fractions of a picture, some of which extend a little beyond it
ORDERS = ("xyxy", "yxyx", "xywh", "cxcywh")
MOST_COMPARED = 30_000  # boxes with the best scores, as in YOLOv5 and its successors, to bound the time of one answer
AT_ONCE = 256  # boxes compared with all kept ones at a time: all pairs would not fit into memory

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

BACKGROUNDS = ("__background__", "background")
NAMELESS = (*BACKGROUNDS, "N/A")  # entries of a list that no box may have
_LEFT_OUT = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)  # numbers in the paper's list that the labels never use


def _with_gaps() -> tuple[str, ...]:
    named = iter(COCO)
    return (BACKGROUNDS[0], *("N/A" if number in _LEFT_OUT else next(named) for number in range(1, 91)))


COCO_91 = _with_gaps()  # by the numbers of the labels, which torchvision and TensorFlow's detection API use
LISTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"coco": COCO, "coco-91": COCO_91})


class RawDetections(NamedTuple):
    """Boxes in pixels of the network's input (left, top, right, bottom), with their scores and kind numbers."""

    xyxy: Array
    scores: Array
    labels: Array
    largest: float  # largest absolute value in the output; NaN if one is NaN

    def where(self, which: Array) -> "RawDetections":
        """The boxes at the given indices."""
        return RawDetections(self.xyxy[which], self.scores[which], self.labels[which], self.largest)


@dataclass(frozen=True, kw_only=True)
class Detector:
    """What all detectors share: which boxes are reported, and under which names.

    Args:
        kinds: the names of the network's kinds in its own order; `coco` for COCO's 80, `coco-91` for the same with the
            numbers 0 (background) to 90 of COCO's labels.
        only: the kinds that are reported, by the network's names; all if empty.
        rename: other names for some of them.
        score: a box is reported if its score is above this.
        iou: of two boxes with an IoU above this, the one with the lower score is dropped.
        across: whether boxes of different kinds suppress each other too.
        most: the maximum number of boxes per picture.
    """

    kinds: tuple[str, ...] | str
    only: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    score: float = 0.25
    iou: float = 0.45
    across: bool = False
    most: int = 300

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", kind_names(self.kinds))
        for name in (*self.only, *self.rename):
            if name not in self.kinds:
                raise InputError(f"the network has no kind {name!r}; {did_you_mean(str(name), self.kinds)}")
        check_number("score", self.score, 0, 1, error=InputError)
        check_number("iou", self.iou, 0, 1, error=InputError)
        check_whole("most", self.most, 1, error=InputError)

    def __call__(self, outputs: Outputs, view: ImageView) -> Boxes2D:
        """The boxes in the picture's own pixels, best score first."""
        with np.errstate(all="ignore"):  # numbers that are not finite are detected below
            found = self.decode(outputs, view)
        if not found.largest <= LARGEST_NUMBER:
            return Boxes2D(np.full((1, 4), found.largest), (self.kinds[0],), size=view.size)
        found = self._wanted(found.where(found.scores > self.score))
        labels = found.labels * (not self.across)  # only boxes with equal labels suppress each other
        kept = suppress_overlaps(found.xyxy, found.scores, labels, iou=self.iou, most=self.most)
        return self._to_boxes(found.where(kept), view)

    def decode(self, outputs: Outputs, view: ImageView) -> RawDetections:
        """Every box in the output, before any is dropped."""
        raise NotImplementedError

    @property
    def numbers(self) -> range:
        """The numbers that the network uses for its kinds."""
        return range(len(self.kinds))

    def _wanted(self, found: RawDetections) -> RawDetections:
        """The boxes of the selected kinds, their labels as indices of `kinds`; refuses kinds without a name."""
        labels, numbers = found.labels, self.numbers
        unknown = (labels != np.floor(labels)) | (labels < numbers[0]) | (labels > numbers[-1])
        if unknown.any():
            raise InputError(
                f"a box has the class number {labels[unknown][0]:g}, but 'kinds' names only {numbers[0]} to {numbers[-1]}"
            )
        found = found._replace(labels=labels.astype(np.intp) - numbers[0])
        for place in np.unique(found.labels):
            if self.kinds[place] in NAMELESS:
                raise InputError(
                    f"a box has the class number {numbers[place]}, which 'kinds' calls "
                    f"{self.kinds[place]!r}; its order may be shifted"
                )
        asked = np.array([not self.only or name in self.only for name in self.kinds])
        return found.where(asked[found.labels])

    def _to_boxes(self, found: RawDetections, view: ImageView) -> Boxes2D:
        xyxy = np.clip(view.back(found.xyxy), 0, np.tile(view.size, 2))
        shows = (xyxy[:, 2:] > xyxy[:, :2]).all(axis=1)
        names = [self.kinds[int(label)] for label in found.labels[shows]]
        scores = np.clip(found.scores[shows], 0, 1)
        return Boxes2D(xyxy[shows], tuple(self.rename.get(name, name) for name in names), scores, view.size)


def rows_of(outputs: Outputs, which: str | int, wide: int, *, fewest: int = 1, turned: bool = False) -> Array:
    """An output as rows of `wide` numbers; with `turned` it is transposed if its columns have that length."""
    numbers = numbers_of(outputs, which)
    rows = numbers.T if turned and numbers.ndim == 2 and numbers.shape[0] == wide else numbers
    if rows.ndim != 2 or rows.shape[1] != wide or len(rows) < fewest:
        shape = "x".join(map(str, numbers.shape)) or "one number"
        raise InputError(f"output {which!r} must be rows of {wide} numbers (for the given kinds), but it is {shape}")
    return rows


def from_centres(centres: Array, spans: Array) -> Array:
    """Boxes from their centres, widths and heights."""
    return np.hstack([centres - spans / 2, centres + spans / 2])


def to_xyxy(boxes: Array, order: str) -> Array:
    """Boxes in one of `ORDERS` as left, top, right and bottom."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if order == "cxcywh":
        return from_centres(first, second)
    if order == "xywh":
        return np.hstack([first, first + second])
    return boxes[:, [1, 0, 3, 2]] if order == "yxyx" else boxes


def unit_of(normalised: bool, view: ImageView) -> Array:
    """The number of pixels of one unit, for each edge of a box."""
    return np.tile(view.shown, 2) if normalised else np.ones(4)


def largest(*numbers: Array) -> float:
    """The largest absolute value; NaN if one is NaN."""
    return float(np.max([np.abs(part).max(initial=0.0) for part in numbers]))


def check_pixels(xyxy: Array) -> None:
    """Raise `InputError` for boxes in fractions of the picture; a single box, or one without area, is no proof of that."""
    spread = xyxy[(xyxy[:, 2:] > xyxy[:, :2]).all(axis=1)]
    if len(spread) > 1 and np.abs(spread).max() <= SHARES:
        raise InputError(
            f"all {len(spread)} boxes lie within the first pixel, so they must be fractions; set normalised = true"
        )


def check_scores(scores: Array) -> None:
    """Raise `InputError` for scores outside 0 to 1; NaN is detected by `largest`."""
    wrong = (scores < -ROUNDING) | (scores > 1 + ROUNDING)
    if wrong.any():
        raise InputError(f"a score is {scores[wrong][0]:g}, expected 0 to 1; the network may lack its sigmoid or softmax")


def check_lengths(**parts: Array) -> None:
    """Raise `InputError` for outputs of different lengths."""
    if len({len(part) for part in parts.values()}) > 1:
        lengths = ", ".join(f"{len(part)} {name}" for name, part in parts.items())
        raise InputError(f"the outputs must have one row for each box, but their lengths differ: {lengths}")


def kind_names(kinds: object) -> tuple[str, ...]:
    """The given names, or those of a list with a short name."""
    given = LISTS.get(kinds, kinds) if isinstance(kinds, str) else kinds
    if not isinstance(given, tuple | list) or not given or not all(isinstance(name, str) for name in given):
        raise InputError(f"'kinds' must be a list of one or more names, or one of {', '.join(LISTS)}, got {kinds!r}")
    return tuple(given)


def suppress_overlaps(xyxy: Array, scores: Array, labels: Array, *, iou: float, most: int) -> Array:
    """Non-maximum suppression: the indices of at most `most` boxes, best score first, without overlaps above `iou`.

    Only boxes with equal labels suppress each other. Of equal scores the lower index comes first, so that the result is the
    same on every machine.
    """
    order = np.argsort(-scores, kind="stable")
    if iou >= 1:  # no IoU is above it
        return order[:most]
    kept = order[:0]
    for start in range(0, min(len(order), MOST_COMPARED), AT_ONCE):
        block = order[start : min(start + AT_ONCE, MOST_COMPARED)]
        block = block[~_suppressed(xyxy, labels, kept, block, iou)]
        while block.size and len(kept) < most:
            kept = np.append(kept, block[0])
            block = block[1:][~_suppressed(xyxy, labels, kept[-1:], block[1:], iou)]
        if len(kept) == most:
            break
    return kept


def _suppressed(xyxy: Array, labels: Array, better: Array, worse: Array, iou: float) -> Array:
    """Which of the worse boxes overlap a better one with the same label."""
    same = labels[better][:, np.newaxis] == labels[worse]
    suppressed: Array = (same & (iou_matrix(xyxy[better], xyxy[worse]) > iou)).any(axis=0)
    return suppressed


def iou_matrix(ones: Array, others: Array) -> Array:
    """The IoU of each of `ones` (rows) with each of `others` (columns); 0 where both are empty."""
    low = np.maximum(ones[:, np.newaxis, :2], others[:, :2])
    high = np.minimum(ones[:, np.newaxis, 2:], others[:, 2:])
    shared = _areas(low, high)
    union = _areas(ones[:, np.newaxis, :2], ones[:, np.newaxis, 2:]) + _areas(others[:, :2], others[:, 2:]) - shared
    shares: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def _areas(low: Array, high: Array) -> Array:
    areas: Array = np.maximum(high - low, 0).prod(axis=-1)
    return areas
