"""Checks that the untouched system is better than none, and tries what may be wrong with its input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from swerve.analysis.baseline import angles
from swerve.analysis.detection import average_precision
from swerve.core.campaign import Campaign, Observation
from swerve.core.system import Answer
from swerve.core.values import Array, Boxes2D, Steering, find
from swerve.execution.answers import without_truth
from swerve.execution.checks.concern import Concern, Level
from swerve.execution.checks.remedies import TRIED, Remedy, remedies
from swerve.execution.checks.sampling import spread
from swerve.execution.checks.steering_sign import ENOUGH_FOR_SIGN, FEWEST_FOR_SIGN
from swerve.execution.evaluator import read_case
from swerve.systems.network import Network

USELESS = 0.98  # of the squared error of always 0°, or more, is no better than that
GOOD = 0.4  # of the error of always 0°; a network behind wrong steps is hardly ever that good
FEWEST_BOXES, BLIND = 20, 0.01  # labelled objects, and the mAP at an IoU of 0.5 below which none of them is found
SAMPLED = 48  # cases that every remedy is tried on
# A remedy leaves at most this share of the error (of a detector, of the inverse of its mAP); chance does not.
HELPS_USELESS, HELPS = 0.8, 0.6


@dataclass(frozen=True)
class OwnMeasure:
    """How wrong answers are: a number for a sample of cases that falls as they get better, and its words."""

    of: Callable[[Sequence[Observation], Sequence[Answer]], float]
    none: Callable[[Sequence[Observation]], float]  # of a system that always answers 0°, or finds nothing
    words: Callable[[float], str]


def own_error(campaign: Campaign, usable: Sequence[Observation]) -> Iterator[Concern]:
    """R42: a system that is no better than none; named is what would make it better, if it is among the usual mistakes."""
    labelled = [seen for seen in usable if find(seen.truth, Steering.slot) and find(seen.answer, Steering.slot)]
    boxed = [seen for seen in usable if find(seen.truth, Boxes2D.slot) and find(seen.answer, Boxes2D.slot)]
    if len(labelled) >= FEWEST_FOR_SIGN:
        yield from _steering(campaign, labelled)
    elif boxed:
        yield from _boxes(campaign, boxed)


def _steering(campaign: Campaign, labelled: Sequence[Observation]) -> Iterator[Concern]:
    labels, answers = (np.array(numbers) for numbers in angles(labelled))
    wrong, zero = rmse(labels, answers), rmse(labels, np.zeros(len(labels)))
    useless = zero > 0 and not _better_than_constant(labels, answers)
    good = wrong < GOOD * zero
    better = "" if good else _best_remedy(campaign, labelled, ANGLES, HELPS_USELESS if useless else HELPS)
    factor = "" if better else _factor(labels, answers)
    own = f"its own error is {wrong:.3g}° (RMSE of {len(labels)} labels)"
    if useless:
        level = Level.REFUSAL if len(labels) >= ENOUGH_FOR_SIGN else Level.WARNING
        nothing = f"tried without success: sign, unit, {TRIED}; check crop, weights, and that labels belong to frames"
        yield Concern("no better than zero", level, f"{own}, always 0° has {zero:.3g}°; {better or factor or nothing}")
    elif better or factor:
        yield Concern("preprocessing" if better else "unit", Level.WARNING, f"{own}; {better or factor}")


def _boxes(campaign: Campaign, boxed: Sequence[Observation]) -> Iterator[Concern]:
    demanded = sum(int(np.count_nonzero(np.asarray(boxes.care))) for boxes in _boxes_in([seen.truth for seen in boxed]))
    if demanded < FEWEST_BOXES:
        return
    found = precision([seen.truth for seen in boxed], [seen.answer for seen in boxed])
    useless = found < BLIND
    better = _best_remedy(campaign, boxed, BOXES, HELPS_USELESS if useless else HELPS)
    own = f"its mAP at an IoU of 0.5 is {found:.3f} on {demanded} labelled objects"
    if useless:
        nothing = f"tried without success: {TRIED}; check the decoder, its kinds and strides, and the weights"
        yield Concern("finds nothing", Level.REFUSAL, f"{own}; {better or nothing}")
    elif better:
        yield Concern("preprocessing", Level.WARNING, f"{own}; {better}")


def _best_remedy(campaign: Campaign, seen: Sequence[Observation], measure: OwnMeasure, helps: float) -> str:
    """What lowers the error most, in words; empty if nothing lowers it enough, or the system has no steps to try."""
    system = campaign.system
    if not isinstance(system, Network):
        return ""
    sample = spread(seen, SAMPLED)
    now = measure.of(sample, [one.answer for one in sample])
    most = helps * min(now, measure.none(sample))
    tried = [(_error_with(remedy, system, campaign, sample, measure), remedy.words) for remedy in remedies(system.read)]
    best, words = min(tried, default=(math.inf, ""))
    return f"{words} it would be {measure.words(best)} instead of {measure.words(now)}" if best < most else ""


def _error_with(
    remedy: Remedy, system: Network, campaign: Campaign, sample: Sequence[Observation], measure: OwnMeasure
) -> float:
    """The error with other steps; infinite if the network cannot run behind them."""
    try:
        other = system.behind(remedy.read)
        answers: list[Answer] = []
        for start in range(0, len(sample), campaign.inference_batch):
            batch = sample[start : start + campaign.inference_batch]
            answers += other([without_truth(read_case(campaign, seen.case)) for seen in batch])
        error = measure.of(sample, answers)
    except Exception:  # a network may raise anything for an input of another shape or range
        return math.inf
    return error if math.isfinite(error) else math.inf


def _better_than_constant(labels: Array, answers: Array) -> bool:
    """Whether answers follow the labels better than 0° does, or but for an offset better than any other constant."""
    wrong = answers - labels
    return bool(np.mean(wrong**2) < USELESS * np.mean(labels**2) or np.var(wrong) < USELESS * np.var(labels))


def _factor(labels: Array, answers: Array) -> str:
    """A number that the answers would have to be multiplied by, in words; empty if that leaves most of the error."""
    factor = float(labels @ answers) / float(answers @ answers) if answers.any() else 0.0
    left, zero = rmse(labels, factor * answers), rmse(labels, np.zeros(len(labels)))
    if not left < HELPS * min(zero, rmse(labels, answers)):
        return ""
    return f"times {factor:.3g} it would be {left:.3g}°: check 'unit', 'kind' and 'ratio' in [system] and [source]"


def rmse(labels: Array, answers: Array) -> float:
    """The root of the mean squared error."""
    return float(np.sqrt(np.mean((answers - labels) ** 2)))


def _angle_error(sample: Sequence[Observation], answers: Sequence[Answer]) -> float:
    both = zip(sample, answers, strict=True)
    pairs = [(find(seen.truth, Steering.slot), find(answer, Steering.slot)) for seen, answer in both]
    known = [(a.degrees, b.degrees) for a, b in pairs if isinstance(a, Steering) and isinstance(b, Steering)]
    numbers = np.array(known, float).reshape(-1, 2)
    return rmse(numbers[:, 0], numbers[:, 1]) if len(known) == len(sample) else math.inf


def precision(labels: Sequence[Answer], answers: Sequence[Answer]) -> float:
    """The mAP at an IoU of 0.5 of the boxes in answers; of any kind, if labels and answers share none."""
    truth, said = (list(_boxes_in(some)) for some in (labels, answers))
    kinds = [{kind for boxes in some for kind in boxes.kinds} for some in (truth, said)]
    return average_precision(truth, said, any_kind=not kinds[0] & kinds[1]).at(0.5) or 0.0


def _boxes_in(answers: Sequence[Answer]) -> Iterator[Boxes2D]:
    for answer in answers:
        boxes = find(answer, Boxes2D.slot)
        if isinstance(boxes, Boxes2D):
            yield boxes


def _error_of_zero(sample: Sequence[Observation]) -> float:
    return _angle_error(sample, [(Steering(0.0),)] * len(sample))


def _rarity(precision: float) -> float:
    """A number that falls by factors as a detector finds more: a little from 0.2 to 0.25, much from 0 to 0.05."""
    return 1 / (precision + BLIND)


ANGLES = OwnMeasure(_angle_error, _error_of_zero, lambda error: f"{error:.3g}°")


BOXES = OwnMeasure(
    lambda sample, answers: _rarity(precision([seen.truth for seen in sample], answers)),
    lambda _: _rarity(0.0),
    lambda rarity: f"{1 / rarity - BLIND:.3f}",
)
