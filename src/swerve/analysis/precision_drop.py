"""How much mAP@[.50:.95] a detector loses under changes, with bootstrap intervals over drives, and a verdict with a limit.

The answers to every picture are matched with its labels once, as COCO does, so that a resample only sorts and adds up.
"""

# TG-3, TG-19, D-21

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from swerve.analysis.detection import LIMITS, MOST_PER_IMAGE, RECALLS, relative_drop
from swerve.analysis.statistics import Estimate
from swerve.core.campaign import Record
from swerve.core.errors import InputError
from swerve.core.relation import Status, Verdict
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes2D, find
from swerve.relations.matching import overlaps

RESAMPLES = 200
TAIL = 2.5  # percent on each side of an interval


@dataclass(frozen=True)
class PicturePair:
    """The labels and answers of a picture before and after a change, and its drive."""

    group: str
    label: Boxes2D
    answer: Boxes2D
    new_label: Boxes2D
    new_answer: Boxes2D


@dataclass(frozen=True)
class PrecisionDrop:
    """mAP before and after, and the share that is lost, with 95% intervals; `by_kind` has the loss of each kind."""

    before: Estimate
    after: Estimate
    drop: Estimate
    by_kind: Mapping[str, float | None]

    def judged(self, most: float) -> Verdict:
        """Held if the share of mAP that is lost is at most `most`: 0.1 allows a fall by 10%."""
        if self.drop.value is None:
            return Verdict.skipped(self.drop.why or "the mAP before the changes is 0 or unknown")
        interval = "" if self.drop.low is None else f" (95% from {self.drop.low:.1%} to {self.drop.high:.1%})"
        words = f"mAP {self.before.value:.3f} became {self.after.value:.3f}, a fall by {self.drop.value:.1%}{interval}"
        return Verdict.at_most(self.drop.value, most, words)


def pairs_of(records: Iterable[Record], labels: Mapping[str, Boxes2D], groups: Mapping[str, str]) -> list[PicturePair]:
    """The pictures of judged records, with the labels and drives of the untouched cases by key."""
    found = []
    for record in records:
        values = [find(answer, Boxes2D.slot) for answer in (record.before, record.truth, record.after)]
        key = record.trial.case
        if record.verdict.status in (Status.HELD, Status.VIOLATED) and key in labels:
            before, new_label, after = values
            if isinstance(before, Boxes2D) and isinstance(new_label, Boxes2D) and isinstance(after, Boxes2D):
                found.append(PicturePair(groups.get(key) or key, labels[key], before, new_label, after))
    return found


def precision_drop(pairs: Sequence[PicturePair], *, seed: int = 0, resamples: int = RESAMPLES) -> PrecisionDrop:
    """The loss over all pairs; intervals are percentiles over resampled drives, the same before and after."""
    if not pairs:
        raise InputError("a loss of mAP needs at least one judged picture")
    before = [match_picture(pair.label, pair.answer) for pair in pairs]
    after = [match_picture(pair.new_label, pair.new_answer) for pair in pairs]
    whole = np.arange(len(pairs))
    was, now = mean_precision(before, whole), mean_precision(after, whole)
    drives: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        drives.setdefault(pair.group, []).append(place)
    samples = _resampled(list(drives.values()), resamples if len(drives) > 1 else 0, seed)
    values = [(_mean(mean_precision(before, rows)), _mean(mean_precision(after, rows))) for rows in samples]
    drops = [relative_drop(*value) for value in values]
    return PrecisionDrop(
        _estimate(len(pairs), _mean(was), [first for first, _ in values]),
        _estimate(len(pairs), _mean(now), [second for _, second in values]),
        _estimate(len(pairs), relative_drop(_mean(was), _mean(now)), drops),
        {kind: relative_drop(value, now[kind]) for kind, value in was.items() if kind in now},
    )


@dataclass(frozen=True, eq=False)
class MatchedKind:
    """The boxes of one kind in one answer, best first: scores, and for each limit whether it hits or is to be ignored."""

    scores: Array
    hits: Array
    ignored: Array
    wanted: int


def match_picture(label: Boxes2D, answer: Boxes2D) -> dict[str, MatchedKind]:
    """The answer to one picture matched with its label at every limit, kind by kind."""
    return {kind: _matched(label, answer, kind) for kind in sorted({*label.kinds, *answer.kinds})}


def mean_precision(pictures: Sequence[Mapping[str, MatchedKind]], rows: Array) -> dict[str, float]:
    """The average precision of each labelled kind over some pictures, which may occur several times."""
    kinds = dict.fromkeys(kind for row in rows for kind in pictures[row])
    found = {kind: [pictures[row][kind] for row in rows if kind in pictures[row]] for kind in kinds}
    return {kind: _precision(parts) for kind, parts in found.items() if any(part.wanted for part in parts)}


def _matched(label: Boxes2D, answer: Boxes2D, kind: str) -> MatchedKind:
    """As COCO: each box, best first, takes the free required label with the largest IoU, or else lies on an ignored one."""
    ours = [place for place, one in enumerate(label.kinds) if one == kind]
    theirs = np.array([place for place, one in enumerate(answer.kinds) if one == kind], int)
    theirs = theirs[np.asarray(answer.care, bool)[theirs]] if len(theirs) else theirs
    theirs = theirs[np.argsort(-np.asarray(answer.scores)[theirs], kind="stable")][:MOST_PER_IMAGE]
    care = np.asarray(label.care, bool)[ours]
    boxes, mine = label.xyxy[ours], answer.xyxy[theirs]
    shared = overlaps(mine, boxes[care])
    covered = _shares(mine, boxes[~care]).max(axis=1, initial=0.0)
    limits = np.array(LIMITS)
    free = np.ones((len(limits), int(care.sum())), bool)
    hits = np.zeros((len(limits), len(theirs)), bool)
    for column in range(len(theirs) if free.size else 0):
        near = np.where(free, shared[column], -1.0)
        best = near.argmax(axis=1)
        hit = near[np.arange(len(limits)), best] >= limits - 1e-10
        hits[hit, column] = True
        free[np.flatnonzero(hit), best[hit]] = False
    ignored = ~hits & (covered[None, :] >= limits[:, None])
    return MatchedKind(np.asarray(answer.scores)[theirs], hits, ignored, int(care.sum()))


def _shares(boxes: Array, areas: Array) -> Array:
    """The share of each box that lies in each of the areas."""
    low, high = np.maximum(boxes[:, None, :2], areas[None, :, :2]), np.minimum(boxes[:, None, 2:], areas[None, :, 2:])
    sizes = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1)[:, None]
    return np.asarray(np.prod(np.clip(high - low, 0, None), axis=2) / np.maximum(sizes, 1e-12))


def _precision(parts: Sequence[MatchedKind]) -> float:
    scores = np.concatenate([part.scores for part in parts])
    order = np.argsort(-scores, kind="mergesort")
    hits = np.concatenate([part.hits for part in parts], axis=1)[:, order]
    counted = ~np.concatenate([part.ignored for part in parts], axis=1)[:, order]
    wanted = sum(part.wanted for part in parts)
    return float(np.mean([_area(hit[use], wanted) for hit, use in zip(hits, counted, strict=True)]))


def _area(hits: Array, wanted: int) -> float:
    """The mean precision at COCO's recalls."""
    found = np.cumsum(hits)
    best = np.maximum.accumulate((found / np.arange(1, len(hits) + 1))[::-1])[::-1]
    return float(np.append(best, 0.0)[np.searchsorted(found / wanted, RECALLS, side="left")].mean())


def _resampled(drives: Sequence[Sequence[int]], count: int, seed: int) -> Iterator[Array]:
    rng = rng_for(seed, "precision drop")
    for _ in range(count):
        yield np.concatenate([drives[drive] for drive in rng.integers(len(drives), size=len(drives))])


def _mean(precisions: Mapping[str, float]) -> float | None:
    return float(np.mean(list(precisions.values()))) if precisions else None


def _estimate(count: int, value: float | None, samples: Iterable[float | None]) -> Estimate:
    known = [sample for sample in samples if sample is not None]
    if value is None or not known:
        return Estimate(count, value, why="" if value is not None else "no required label, or nothing was found before")
    low, high = (float(np.percentile(known, tail)) for tail in (TAIL, 100 - TAIL))
    return Estimate(count, value, low, high)
