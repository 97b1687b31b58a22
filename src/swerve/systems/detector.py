"""What a detector's numbers mean: what all heads share on the way to boxes in the picture's own pixels.

What happens to an answer that is not as it should be (R22):

- A number that is none (NaN) anywhere in the output, or a coordinate that is infinite or beyond ±1e9, whatever the score
  of its row: the answer is at fault. It is said as a box of that number, `Boxes2D.fault` finds it, and the engine records
  an ERROR for the case.
- A score outside 0 to 1 by more than 0.001: refused with a sentence, an ERROR too; by less it is a matter of rounding,
  and the score becomes 0 or 1.
- A kind without a name, of a box that is kept: refused; so is the background, and a number that COCO leaves out. So is
  an output of the wrong shape or type, and a raw head without rows; a list of found boxes may be empty.
- In a list of found boxes a row with the score -1 or the kind -1 only fills up, and is left out before its score is looked
  at. So are the rows beyond those that a `count` counts.
- Two or more boxes that all lie in the first pixel, of a network that is said to count in pixels: refused, those are
  shares of the picture.
- Boxes that reach beyond the picture are clipped. A box that shows nothing of it is left out: one outside, one without
  area, one whose right is left of its left or whose bottom is above its top.
- Boxes on each other: of one kind (`across`: of any) the best score stays, the others go if their IoU with it is above
  `iou`. Those of `Dicts` and `EndToEnd` were chosen by the network itself, so there `iou` is 1 unless told otherwise: a
  box said twice is said twice, and a relation may call it doubled.
- More than `most` boxes: those with the best scores stay, of equal ones the first. Of a raw head the best 30,000 are
  compared.
"""

# Annotations are not postponed here: the heads in another module take them over, and a TOML table is read by them.

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from swerve.core.errors import InputError, did_you_mean
from swerve.core.values import LARGEST_NUMBER, Array, Boxes2D
from swerve.systems.decoders import Outputs, numbers_of
from swerve.systems.preprocessing import ImageView

ROUNDING = 1e-3  # by which a score may miss 0 or 1: those of half precision and of quantised networks do
SHARES = 1.5  # boxes in shares of a picture end before this: some reach a little beyond its edge
ORDERS = ("xyxy", "yxyx", "xywh", "cxcywh")
MOST_COMPARED = 30_000  # boxes with the best scores: as YOLOv5 and its successors do, so that no answer costs a minute
AT_ONCE = 256  # boxes held against all that were kept: pairs of all with all would fill the memory

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
NAMELESS = (*BACKGROUNDS, "N/A")  # places of a list that no box may have
_LEFT_OUT = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)  # numbers of the paper's list that the labels never had


def _with_gaps() -> tuple[str, ...]:
    named = iter(COCO)
    return (BACKGROUNDS[0], *("N/A" if number in _LEFT_OUT else next(named) for number in range(1, 91)))


COCO_91 = _with_gaps()  # by the labels' own numbers, as torchvision and TensorFlow's detection API count
LISTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"coco": COCO, "coco-91": COCO_91})


class RawDetections(NamedTuple):
    """Boxes in shown pixels (left, top, right, bottom), the score and the number of the kind of each."""

    xyxy: Array
    scores: Array
    labels: Array
    largest: float  # size of any number that was looked at; NaN if one is none

    def where(self, which: Array) -> "RawDetections":
        """The boxes at some places."""
        return RawDetections(self.xyxy[which], self.scores[which], self.labels[which], self.largest)


@dataclass(frozen=True, kw_only=True)
class Detector:
    """What all heads share: which boxes are said, and under which names.

    Args:
        kinds: the names of the network's kinds in its own order; `coco` for the 80 of COCO, `coco-91` for the same by the
            numbers 0 (background) to 90 of COCO's labels.
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
        object.__setattr__(self, "kinds", names_of(self.kinds))
        for name in (*self.only, *self.rename):
            if name not in self.kinds:
                raise InputError(f"the network has no kind {name!r}; {did_you_mean(str(name), self.kinds)}")
        for what, given in (("score", self.score), ("iou", self.iou)):
            if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
                raise InputError(f"{what} must be a number from 0 to 1, got {given!r}")
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 1:
            raise InputError(f"most must be a whole number of at least 1, got {self.most!r}")

    def __call__(self, outputs: Outputs, view: ImageView) -> Boxes2D:
        """The boxes in the picture's own pixels, best score first."""
        with np.errstate(all="ignore"):  # what is not finite is looked for below
            found = self.found(outputs, view)
        if not found.largest <= LARGEST_NUMBER:
            return Boxes2D(np.full((1, 4), found.largest), (self.kinds[0],), size=view.size)
        found = self._wanted(found.where(found.scores > self.score))
        labels = found.labels * (not self.across)  # boxes of one label meet
        kept = apart(found.xyxy, found.scores, labels, iou=self.iou, most=self.most)
        return self._said(found.where(kept), view)

    def found(self, outputs: Outputs, view: ImageView) -> RawDetections:
        """Every box of the output, before any is left out."""
        raise NotImplementedError

    @property
    def numbers(self) -> range:
        """The numbers by which the network tells its kinds."""
        return range(len(self.kinds))

    def _wanted(self, found: RawDetections) -> RawDetections:
        """The boxes of the kinds that are asked for, each of a kind with a name, by its place among the names."""
        labels, numbers = found.labels, self.numbers
        unknown = (labels != np.floor(labels)) | (labels < numbers[0]) | (labels > numbers[-1])
        if unknown.any():
            raise InputError(f"a box is of kind {labels[unknown][0]:g}, there are names for {numbers[0]} to {numbers[-1]}")
        found = found._replace(labels=labels.astype(np.intp) - numbers[0])
        for place in np.unique(found.labels):
            if self.kinds[place] in NAMELESS:
                raise InputError(f"a box is of kind {numbers[place]}, which is {self.kinds[place]!r}; kinds may be shifted")
        asked = np.array([not self.only or name in self.only for name in self.kinds])
        return found.where(asked[found.labels])

    def _said(self, found: RawDetections, view: ImageView) -> Boxes2D:
        xyxy = np.clip(view.back(found.xyxy), 0, np.tile(view.size, 2))
        shows = (xyxy[:, 2:] > xyxy[:, :2]).all(axis=1)
        names = [self.kinds[int(label)] for label in found.labels[shows]]
        scores = np.clip(found.scores[shows], 0, 1)
        return Boxes2D(xyxy[shows], tuple(self.rename.get(name, name) for name in names), scores, view.size)


def rows_of(outputs: Outputs, which: str | int, wide: int, *, fewest: int = 1, turned: bool = False) -> Array:
    """An output as rows of `wide` numbers; with `turned` its columns are taken where those are as long."""
    numbers = numbers_of(outputs, which)
    rows = numbers.T if turned and numbers.ndim == 2 and numbers.shape[0] == wide else numbers
    if rows.ndim != 2 or rows.shape[1] != wide or len(rows) < fewest:
        shape = "x".join(map(str, numbers.shape)) or "one number"
        raise InputError(f"output {which!r} must be rows of {wide} numbers (for the kinds named), it is {shape}")
    return rows


def corners(centres: Array, spans: Array) -> Array:
    """Boxes from their centres, widths and heights."""
    return np.hstack([centres - spans / 2, centres + spans / 2])


def ordered(boxes: Array, order: str) -> Array:
    """Boxes written in some order as left, top, right and bottom."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if order == "cxcywh":
        return corners(first, second)
    if order == "xywh":
        return np.hstack([first, first + second])
    return boxes[:, [1, 0, 3, 2]] if order == "yxyx" else boxes


def unit_of(normalised: bool, view: ImageView) -> Array:
    """The pixels of one unit, for each edge of a box."""
    return np.tile(view.shown, 2) if normalised else np.ones(4)


def largest(*numbers: Array) -> float:
    """The size of the largest number; NaN if one is none."""
    return float(np.max([np.abs(part).max(initial=0.0) for part in numbers]))


def check_order(order: str) -> None:
    """Refuses an order that nobody knows."""
    if order not in ORDERS:
        raise InputError(f"order = {order!r} is not known; {did_you_mean(str(order), ORDERS)}")


def check_pixels(xyxy: Array) -> None:
    """Refuses boxes that are shares of the picture; one alone, or one without area, is no sign of that."""
    spread = xyxy[(xyxy[:, 2:] > xyxy[:, :2]).all(axis=1)]
    if len(spread) > 1 and np.abs(spread).max() <= SHARES:
        raise InputError(
            f"all {len(spread)} boxes lie in the first pixel, they are shares of the picture: normalised = true"
        )


def check_scores(scores: Array) -> None:
    """Refuses scores outside 0 to 1; NaN passes, it is found with the largest number."""
    wrong = (scores < -ROUNDING) | (scores > 1 + ROUNDING)
    if wrong.any():
        raise InputError(f"a score is {scores[wrong][0]:g}, expected 0 to 1; the head may lack its sigmoid or softmax")


def check_alike(**parts: Array) -> None:
    """Refuses outputs of different lengths."""
    if len({len(part) for part in parts.values()}) > 1:
        raise InputError(f"the outputs do not fit: {', '.join(f'{len(part)} {name}' for name, part in parts.items())}")


def names_of(kinds: object) -> tuple[str, ...]:
    """The names of a list that is known by its word, or those that are given."""
    given = LISTS.get(kinds, kinds) if isinstance(kinds, str) else kinds
    if not isinstance(given, tuple | list) or not given or not all(isinstance(name, str) for name in given):
        raise InputError(f"kinds must be a list of one or more names, or one of {', '.join(LISTS)}, got {kinds!r}")
    return tuple(given)


def apart(xyxy: Array, scores: Array, labels: Array, *, iou: float, most: int) -> Array:
    """The places of at most `most` boxes, best score first, each without an IoU above `iou` with a better one it meets.

    Boxes meet where their labels are equal. Of equal scores the lower place comes first, so that the result is the same
    on every machine.
    """
    order = np.argsort(-scores, kind="stable")
    if iou >= 1:  # no overlap is above it
        return order[:most]
    kept = order[:0]
    for start in range(0, min(len(order), MOST_COMPARED), AT_ONCE):
        block = order[start : min(start + AT_ONCE, MOST_COMPARED)]
        block = block[~_hidden(xyxy, labels, kept, block, iou)]
        while block.size and len(kept) < most:
            kept = np.append(kept, block[0])
            block = block[1:][~_hidden(xyxy, labels, kept[-1:], block[1:], iou)]
        if len(kept) == most:
            break
    return kept


def _hidden(xyxy: Array, labels: Array, better: Array, worse: Array, iou: float) -> Array:
    """Which of the worse boxes lie on a better one of their label."""
    meets = labels[better][:, np.newaxis] == labels[worse]
    hidden: Array = (meets & (overlaps(xyxy[better], xyxy[worse]) > iou)).any(axis=0)
    return hidden


def overlaps(ones: Array, others: Array) -> Array:
    """The IoU of each box with each other one, in rows; 0 where both are empty."""
    low = np.maximum(ones[:, np.newaxis, :2], others[:, :2])
    high = np.minimum(ones[:, np.newaxis, 2:], others[:, 2:])
    shared = _areas(low, high)
    union = _areas(ones[:, np.newaxis, :2], ones[:, np.newaxis, 2:]) + _areas(others[:, :2], others[:, 2:]) - shared
    shares: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def _areas(low: Array, high: Array) -> Array:
    areas: Array = np.maximum(high - low, 0).prod(axis=-1)
    return areas
