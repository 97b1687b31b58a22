"""How much mAP@[.50:.95] a detector loses under changes, with bootstrap intervals over drives, and a verdict with a limit.

The answers to every picture are matched with its labels once, as COCO does, so that a resample only sorts and adds up.
"""

# TG-3, TG-19, D-21

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swerve.analysis.detection import LIMITS, MOST_PER_IMAGE, RECALLS, relative_drop
from swerve.analysis.statistics import Estimate
from swerve.core.encode import decode_values
from swerve.core.errors import InputError
from swerve.core.relation import Status, Verdict
from swerve.core.seeding import rng_for
from swerve.core.values import Array, Boxes2D, find
from swerve.relations.matching import overlaps
from swerve.store.journal import Row

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
    """mAP before and after, and the share that is lost, with 95% intervals; `by_kind` has the loss of each kind.

    `samples` has mAP before and after of each resample, None where it is unknown.
    """

    before: Estimate
    after: Estimate
    drop: Estimate
    by_kind: Mapping[str, float | None]
    samples: tuple[tuple[float | None, float | None], ...] = field(default=(), repr=False)

    @property
    def losses(self) -> list[float | None]:
        """The share that is lost in each resample."""
        return [relative_drop(*sample) for sample in self.samples]

    @property
    def rise(self) -> Estimate:
        """mAP after minus mAP before."""
        known = [(was, now) for was, now in self.samples if was is not None and now is not None]
        was, now = self.before.value, self.after.value
        value = None if was is None or now is None else now - was
        return _estimate(self.before.n, value, [now - was for was, now in known])

    def judged(self, most: float) -> Verdict:
        """Held if the share of mAP that is lost is at most `most`: 0.1 allows a fall by 10%."""
        if self.drop.value is None:
            return Verdict.skipped(self.drop.why or "the mAP before the changes is 0 or unknown")
        return Verdict.at_most(self.drop.value, most, self.words)

    def as_dict(self) -> dict[str, Any]:
        """Numbers and intervals as `summary.json` has them."""
        parts = {"before": self.before, "after": self.after, "drop": self.drop}
        numbers = {name: one.value for name, one in parts.items()}
        return {"pictures": self.before.n, **numbers, "interval": [self.drop.low, self.drop.high]}

    @property
    def words(self) -> str:
        """Both numbers and the share that is lost with its interval; empty if that is unknown."""
        if self.drop.value is None:
            return ""
        interval = "" if self.drop.low is None else f" (95% from {self.drop.low:.1%} to {self.drop.high:.1%})"
        return f"mAP {self.before.value:.3f} became {self.after.value:.3f}, a fall by {self.drop.value:.1%}{interval}"


def pair_of(row: Row, label: Boxes2D, group: str) -> PicturePair | None:
    """The pictures of a judged trial's row, with the label and drive of the untouched case; None without boxes."""
    if row["status"] not in (Status.HELD.value, Status.VIOLATED.value):
        return None
    before, new_label, after = (find(decode_values(row[name]), Boxes2D.slot) for name in ("before", "truth", "after"))
    if isinstance(before, Boxes2D) and isinstance(new_label, Boxes2D) and isinstance(after, Boxes2D):
        return PicturePair(group or row["case"], label, before, new_label, after)
    return None


def precision_drop(
    pairs: Sequence[PicturePair], *, seed: int = 0, resamples: int = RESAMPLES, drives: Sequence[str] = ()
) -> PrecisionDrop:
    """The loss over all pairs; intervals are percentiles over resampled drives, the same before and after.

    Losses of several sets that are given the same `drives` are resampled together, as `mean_drop` needs it.
    """
    if not pairs:
        raise InputError("a loss of mAP needs at least one judged picture")
    before = RankedPictures([match_picture(pair.label, pair.answer) for pair in pairs])
    after = RankedPictures([match_picture(pair.new_label, pair.new_answer) for pair in pairs])
    whole = np.ones(len(pairs), int)
    was, now = before.precisions(whole), after.precisions(whole)
    places: dict[str, list[int]] = {drive: [] for drive in drives}
    for place, pair in enumerate(pairs):
        places.setdefault(pair.group, []).append(place)
    several = sum(map(bool, places.values())) > 1
    samples = _resampled(list(places.values()), resamples if several else 0, seed)
    values = tuple((_mean(before.precisions(times)), _mean(after.precisions(times))) for times in samples)
    drops = [relative_drop(*value) for value in values]
    return PrecisionDrop(
        _estimate(len(pairs), _mean(was), [first for first, _ in values]),
        _estimate(len(pairs), _mean(now), [second for _, second in values]),
        _estimate(len(pairs), relative_drop(_mean(was), _mean(now)), drops),
        {kind: relative_drop(value, now[kind]) for kind, value in was.items() if kind in now},
        values,
    )


def mean_drop(drops: Sequence[PrecisionDrop]) -> Estimate:
    """The mean of the known losses of several sets; its interval is joint if all were measured on the same drives."""
    values = [one.drop.value for one in drops if one.drop.value is not None]
    if not values:
        return Estimate(0, why="no loss is known")
    together = zip(*(one.losses for one in drops if one.drop.value is not None), strict=False)
    rows = [[sample for sample in row if sample is not None] for row in together]
    return _estimate(len(values), float(np.mean(values)), [float(np.mean(row)) for row in rows if row])


def less_lost(first: PrecisionDrop, second: PrecisionDrop) -> Estimate:
    """How much less is lost in the second set than in the first, both measured on the same drives."""
    pairs = zip(first.losses, second.losses, strict=False)
    samples = [one - other for one, other in pairs if one is not None and other is not None]
    known = first.drop.value is not None and second.drop.value is not None
    value = first.drop.value - second.drop.value if known else None  # type: ignore[operator]
    return _estimate(second.before.n, value, samples)


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


class RankedPictures:
    """The matched boxes of some pictures, kind by kind and best first: sorted once, however often they are resampled."""

    def __init__(self, pictures: Sequence[Mapping[str, MatchedKind]]) -> None:
        kinds = dict.fromkeys(kind for picture in pictures for kind in picture)
        self._kinds = {kind: _RankedKind.of([picture.get(kind) for picture in pictures]) for kind in kinds}

    def precisions(self, times: Array) -> dict[str, float]:
        """The average precision of each labelled kind, with each picture taken so many times."""
        return {kind: ranked.precision(times) for kind, ranked in self._kinds.items() if ranked.wanted @ times > 0}


@dataclass(frozen=True, eq=False)
class _RankedKind:
    """The boxes of one kind in all pictures, best first: the picture of each, and by limit whether it hits and counts."""

    picture: Array
    hits: Array
    counted: Array
    wanted: Array  # of each picture

    @classmethod
    def of(cls, parts: Sequence[MatchedKind | None]) -> _RankedKind:
        """The boxes of the pictures that have any."""
        known = [(place, part) for place, part in enumerate(parts) if part is not None]
        order = np.argsort(-np.concatenate([part.scores for _, part in known]), kind="mergesort")
        picture = np.concatenate([np.full(len(part.scores), place) for place, part in known])
        hits, ignored = (np.concatenate([getattr(part, name) for _, part in known], axis=1) for name in ("hits", "ignored"))
        wanted = np.array([0 if part is None else part.wanted for part in parts])
        return cls(picture[order], hits[:, order], ~ignored[:, order], wanted)

    def precision(self, times: Array) -> float:
        """The mean over the limits of the mean precision at COCO's recalls."""
        weights = times[self.picture]
        found, answered = (np.cumsum(which * weights, axis=1) for which in (self.hits, self.counted))
        right = self.hits & (weights > 0)  # precision and recall are needed where something was found
        wanted = int(self.wanted @ times)
        return float(np.mean([_area(*row, wanted) for row in zip(found, answered, right, strict=True)]))


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


def _area(found: Array, answered: Array, right: Array, wanted: int) -> float:
    """The mean precision at COCO's recalls, from what was found and answered up to each box, and which boxes are right."""
    hits = found[right]
    best = np.maximum.accumulate((hits / answered[right])[::-1])[::-1]
    return float(np.append(best, 0.0)[np.searchsorted(hits / wanted, RECALLS, side="left")].mean())


def _resampled(drives: Sequence[Sequence[int]], count: int, seed: int) -> Iterator[Array]:
    """How often each picture is taken, sample by sample; the pictures of a drive are taken together."""
    rng, pictures = rng_for(seed, "precision drop"), sum(map(len, drives))
    for _ in range(count):
        rows = [place for drive in rng.integers(len(drives), size=len(drives)) for place in drives[drive]]
        yield np.bincount(np.array(rows, int), minlength=pictures)


def _mean(precisions: Mapping[str, float]) -> float | None:
    return float(np.mean(list(precisions.values()))) if precisions else None


def _estimate(count: int, value: float | None, samples: Iterable[float | None]) -> Estimate:
    known = [sample for sample in samples if sample is not None]
    if value is None or not known:
        return Estimate(count, value, why="" if value is not None else "no required label, or nothing was found before")
    low, high = (float(np.percentile(known, tail)) for tail in (TAIL, 100 - TAIL))
    return Estimate(count, value, low, high)
