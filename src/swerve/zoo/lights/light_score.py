"""The score of a light detector: average precision by state and by size of a head, and CPU time per picture."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from swerve.analysis.detection import average_precision
from swerve.core.case import Case
from swerve.core.system import System
from swerve.core.values import Array, Boxes2D, Image, find
from swerve.relations.boxes import BoxesAlike
from swerve.train.labelled_pictures import LabelledPicture
from swerve.zoo.lights.light_frames import KINDS

SIZES = {"8–12 px": (0.0, 12.0), "12–20 px": (12.0, 20.0), "over 20 px": (20.0, float("inf"))}  # of the short side
MARGIN = 1.25  # an answer counts for a size if its short side is within this factor of it
GOAL = {"lights-rcnn": 0.35}  # mAP, and for all others:
ONE_STAGE, BEST = 0.40, 0.55
DIGITS = 4
SCORES = tuple(round(0.05 * step, 2) for step in range(2, 20))  # those that may be the least of a reported box


@dataclass(frozen=True, eq=False)
class LightScore:
    """Labels and answers of some pictures, and the seconds of CPU that each took."""

    truth: Sequence[Boxes2D]
    answers: Sequence[Boxes2D]
    seconds: Sequence[float]

    @classmethod
    def of(cls, system: System, pictures: Iterable[LabelledPicture]) -> LightScore:
        """The answers of a system to labelled pictures, one after the other."""
        truth, answers, seconds = [], [], []
        for number, picture in enumerate(pictures):
            started = time.process_time()
            found = find(system([Case(str(number), {"camera": Image(picture.pixels)})])[0], Boxes2D.slot)
            seconds.append(time.process_time() - started)
            assert isinstance(found, Boxes2D)
            truth.append(picture.truth(KINDS))
            answers.append(found)
        return cls(truth, answers, seconds)

    def as_dict(self) -> dict[str, Any]:
        """The numbers of a card."""
        whole = average_precision(self.truth, self.answers)
        return {
            "pictures": len(self.truth),
            "heads": demanded(self.truth),
            "map": rounded(whole.mean),
            "map50": rounded(whole.at(0.5)),
            "any_state": rounded(average_precision(self.truth, self.answers, any_kind=True).mean),
            "kinds": {kind: rounded(whole.by_kind.get(kind)) for kind in KINDS},
            "sizes": {name: self._of_size(*ends) for name, ends in SIZES.items()},
            "cpu_seconds": round(statistics.median(self.seconds), 3) if self.seconds else None,
        }

    def _of_size(self, low: float, high: float) -> dict[str, Any]:
        """The precision on heads of one size; answers of clearly another size are left out."""
        truth = [replace(boxes, care=np.asarray(boxes.care) & sized(boxes, low, high)) for boxes in self.truth]
        answers = [chosen(boxes, sized(boxes, low / MARGIN, high * MARGIN)) for boxes in self.answers]
        found = average_precision(truth, answers)
        return {"heads": demanded(truth), "map": rounded(found.mean), "map50": rounded(found.at(0.5))}


def best_score(truth: Sequence[Boxes2D], answers: Sequence[Boxes2D]) -> float:
    """The score from which boxes are to be reported: that of the greatest F1, at an IoU of 0.5 and with the right state."""
    return max(SCORES, key=lambda score: (_f1(truth, answers, score), -abs(score - 0.5)))


def _f1(truth: Sequence[Boxes2D], answers: Sequence[Boxes2D], score: float) -> float:
    compare = BoxesAlike(least_score=score)
    between = [compare.errors(*pair).between for pair in zip(truth, answers, strict=True)]
    found = sum(one.demanded - one.lost for one in between)
    return 2 * found / max(2 * found + sum(one.lost + one.gained for one in between), 1)


def demanded(truth: Sequence[Boxes2D]) -> int:
    """The number of boxes that must be found."""
    return sum(int(np.count_nonzero(np.asarray(boxes.care))) for boxes in truth)


def sized(boxes: Boxes2D, low: float, high: float) -> Array:
    """Which boxes have a short side of at least `low` and less than `high` pixels."""
    short = (boxes.xyxy[:, 2:] - boxes.xyxy[:, :2]).min(axis=1, initial=np.inf)
    within: Array = (low <= short) & (short < high)
    return within


def chosen(boxes: Boxes2D, which: Array) -> Boxes2D:
    """Some of the boxes."""
    kinds = tuple(kind for kind, kept in zip(boxes.kinds, which, strict=True) if kept)
    return Boxes2D(boxes.xyxy[which], kinds, np.asarray(boxes.scores)[which], boxes.size)


def rounded(precision: float | None) -> float | None:
    """A precision as it is stored."""
    return None if precision is None else round(precision, DIGITS)


def goal_of(name: str) -> float:
    """The mAP that a detector should reach."""
    return GOAL.get(name, ONE_STAGE)
