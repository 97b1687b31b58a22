"""The average precision of a detector: COCO's mAP@[.50:.95] for image boxes, nuScenes' distance of centres for 3-D boxes.

An IoU at the limit is a hit, as in COCO (TigAug writes ">"). A label with `care` False is COCO's crowd: a box of its kind
in it is neither right nor wrong, and it is never missed.
"""
# TG-3

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from swerve.core.errors import InputError
from swerve.core.extras import optional_package
from swerve.core.values import Array, Boxes2D, Boxes3D, Value

LIMITS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
METRES = (0.5, 1.0, 2.0, 4.0)  # between centres, as nuScenes counts
RECALLS = np.linspace(0, 1, 101)  # COCO's; nuScenes itself leaves out recall and precision below a tenth
MOST_PER_IMAGE = 100
DIGITS = 12  # COCO divides by n + 2e-16, which would leave a perfect detector at 0.9999999999999998
ANY = "object"  # the name of all kinds if kinds do not matter
Annotation = dict[str, Any]


@dataclass(frozen=True)
class Precision:
    """Average precision: the mean over kinds and limits, per kind and per limit; None without labels."""

    mean: float | None
    by_kind: Mapping[str, float] = field(default_factory=dict)
    by_limit: Mapping[float, float] = field(default_factory=dict)

    def at(self, limit: float) -> float | None:
        """mAP at one limit, such as an IoU of 0.5."""
        return self.by_limit.get(limit)


def average_precision(
    truth: Sequence[Boxes2D],
    answers: Sequence[Boxes2D],
    *,
    any_kind: bool = False,
    limits: Sequence[float] = LIMITS,
    most: int = MOST_PER_IMAGE,
) -> Precision:
    """mAP over IoU `limits` of the answer to each image against its `truth`; the best `most` boxes per image and kind.

    A kind without a demanded label has no precision and is left out of the mean. With `any_kind`, kinds do not matter.
    """
    check_sets(truth, answers, Boxes2D)
    if not limits or not all(0 < limit <= 1 for limit in limits):
        raise InputError(f"average precision needs IoU limits above 0 and at most 1, got {list(limits)}")
    kinds = [ANY] if any_kind else sorted({kind for boxes in truth for kind in boxes.kinds})
    if not kinds or not any(np.any(boxes.care) for boxes in truth):
        return Precision(None)
    limits = tuple(sorted(limits))
    number = {kind: place for place, kind in enumerate(kinds)}
    expected, given = (_annotations(sets, None if any_kind else number) for sets in (truth, answers))
    curves = _evaluated(expected, given, images=len(truth), kinds=len(kinds), limits=limits, most=most)
    known = [place for place in range(len(kinds)) if curves[0, 0, place] > -1]
    precision = curves[:, :, known].mean(axis=1)  # over COCO's 101 recalls
    return Precision(
        tidy(precision.mean()),
        MappingProxyType({kinds[place]: tidy(row.mean()) for place, row in zip(known, precision.T, strict=True)}),
        MappingProxyType({limit: tidy(row.mean()) for limit, row in zip(limits, precision, strict=True)}),
    )


def centre_precision(
    truth: Sequence[Boxes3D], answers: Sequence[Boxes3D], *, any_kind: bool = False, limits: Sequence[float] = METRES
) -> Precision:
    """The mean over kinds and `limits` in metres of the answer to each sweep against its `truth`.

    A box is right if its centre is nearer than the limit to a label of its kind that no better box has taken. A label
    without care is neither missed nor wrongly found. With `any_kind`, kinds do not matter.
    """
    check_sets(truth, answers, Boxes3D)
    demanded = {kind for boxes in truth for kind, care in zip(boxes.kinds, _care(boxes), strict=True) if care}
    kinds = [ANY] if any_kind and demanded else sorted(demanded)
    if not kinds:
        return Precision(None)
    table = np.array([[_centre_precision(truth, answers, kind, limit) for limit in limits] for kind in kinds])
    return Precision(
        tidy(table.mean()),
        MappingProxyType({kind: tidy(row.mean()) for kind, row in zip(kinds, table, strict=True)}),
        MappingProxyType({limit: tidy(column.mean()) for limit, column in zip(limits, table.T, strict=True)}),
    )


def relative_drop(before: float | None, after: float | None) -> float | None:
    """The share of `before` that is lost: 0.25 from 0.8 to 0.6; None if `before` is 0 or unknown."""  # TG-19
    if before is None or after is None or not before > 0:
        return None
    return (before - after) / before


def mean_drop(before: Precision, after: Iterable[Precision]) -> float | None:
    """The relative drop of the mean precision, averaged over several changed sets."""  # TG-20
    drops = [drop for drop in (relative_drop(before.mean, other.mean) for other in after) if drop is not None]
    return sum(drops) / len(drops) if drops else None


def drop_by_kind(before: Precision, after: Precision) -> dict[str, float | None]:
    """The relative drop of each kind that both have."""
    return {kind: relative_drop(was, after.by_kind[kind]) for kind, was in before.by_kind.items() if kind in after.by_kind}


def check_sets(truth: Sequence[Value], answers: Sequence[Value], kind: type[Value]) -> None:
    """Raise `InputError` unless every label has one valid answer."""
    if len(truth) != len(answers):
        raise InputError(f"average precision needs one answer per label, got {len(truth)} labels and {len(answers)} answers")
    for what, sets in (("label", truth), ("answer", answers)):
        for place, boxes in enumerate(sets):
            if not isinstance(boxes, kind):
                raise InputError(f"{what} {place + 1} of {len(sets)} must be {kind.__name__}, got {type(boxes).__name__}")
            if why := boxes.fault():
                raise InputError(f"{what} {place + 1} of {len(sets)} cannot be measured: {why}")


def _evaluated(
    labels: list[Annotation], answers: list[Annotation], *, images: int, kinds: int, limits: Sequence[float], most: int
) -> Array:
    """COCO's precision, limits × recalls × kinds; -1 where a kind has no demanded label."""
    coco_eval = optional_package("faster_coco_eval", "detection")

    known = {"images": [{"id": image} for image in range(images)], "categories": [{"id": kind} for kind in range(kinds)]}
    # Boxes of a kind without labels, and answers' boxes without care, do not count.
    answers = [box for box in answers if box["category_id"] >= 0 and not box.pop("iscrowd")]
    tables = [coco_eval.COCO({**known, "annotations": boxes}, print_function=_silent) for boxes in (labels, answers)]
    judge = coco_eval.COCOeval_faster(*tables, iouType="bbox", print_function=_silent)
    judge.params.iouThrs = np.array(limits)
    judge.params.maxDets = [most]
    judge.params.areaRng, judge.params.areaRngLbl = [[0, np.inf]], ["all"]
    judge.evaluate()
    judge.accumulate()
    return np.asarray(judge.eval["precision"])[:, :, :, 0, 0]


def _annotations(sets: Sequence[Boxes2D], number: Mapping[str, int] | None) -> list[Annotation]:
    """Every box of every image in COCO's format, kinds by `number` (-1: unknown kind; None: one kind for all)."""
    corners = np.concatenate([boxes.xyxy for boxes in sets])
    spans = np.maximum(corners[:, 2:] - corners[:, :2], 0)
    columns = (
        np.repeat(np.arange(len(sets)), [len(boxes.kinds) for boxes in sets]).tolist(),
        [0 if number is None else number.get(kind, -1) for boxes in sets for kind in boxes.kinds],
        np.hstack([corners[:, :2], spans]).tolist(),
        np.prod(spans, axis=1).tolist(),
        _joined(sets, "scores"),
        (~np.array(_joined(sets, "care"), dtype=bool)).astype(int).tolist(),
    )
    names = ("image_id", "category_id", "bbox", "area", "score", "iscrowd")
    rows = zip(*columns, strict=True)
    # COCO treats the id 0 as missing.
    return [{"id": count, **dict(zip(names, row, strict=True))} for count, row in enumerate(rows, start=1)]


def _joined(sets: Sequence[Boxes2D], name: str) -> list[Any]:
    return list(np.concatenate([getattr(boxes, name) for boxes in sets]).tolist())


def tidy(value: float) -> float:
    """A precision without the rounding errors of COCO's division."""
    return round(float(value), DIGITS)


def _silent(*printed: object) -> None:
    del printed


def _centre_precision(truth: Sequence[Boxes3D], answers: Sequence[Boxes3D], kind: str, limit: float) -> float:
    """The average precision of one kind at one limit."""
    outcomes = [_outcomes(*pair, kind, limit) for pair in zip(truth, answers, strict=True)]
    scores = np.concatenate([scores for scores, _ in outcomes])
    hits = np.concatenate([hits for _, hits in outcomes])
    wanted = sum(int(_care(boxes)[_of(boxes, kind)].sum()) for boxes in truth)
    hits = hits[np.argsort(-scores, kind="stable")]
    found = np.cumsum(hits)
    precision = found / np.arange(1, len(hits) + 1)
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(found / wanted, RECALLS, side="left")
    return float(np.append(best_from_here, 0.0)[places].mean())


def _outcomes(truth: Boxes3D, answer: Boxes3D, kind: str, limit: float) -> tuple[Array, Array]:
    """Score and hit of every counted box of one sweep, highest score first: each takes the nearest free label."""
    labels, mine = _of(truth, kind), _of(answer, kind) & _care(answer)
    care, scores = _care(truth)[labels], np.asarray(answer.scores)[mine]
    apart = np.linalg.norm(answer.xyzlwhy[mine, None, :2] - truth.xyzlwhy[None, labels, :2], axis=2)
    free = np.ones(len(care), dtype=bool)
    counted: list[tuple[float, bool]] = []
    for row in np.argsort(-scores, kind="stable"):
        near = np.where(free & (apart[row] < limit), apart[row], np.inf)
        demanded = np.where(care, near, np.inf)
        if np.isfinite(demanded).any():
            free[np.argmin(demanded)] = False
            counted.append((scores[row], True))
        elif not np.isfinite(near).any():
            counted.append((scores[row], False))
    return np.array([score for score, _ in counted]), np.array([hit for _, hit in counted], dtype=bool)


def _of(boxes: Boxes3D, kind: str) -> Array:
    return np.array([kind in (ANY, one) for one in boxes.kinds], dtype=bool)


def _care(boxes: Boxes3D) -> Array:
    return np.asarray(boxes.care, dtype=bool)
