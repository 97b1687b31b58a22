"""Finds how the input of a network is prepared and what its outputs mean, by what is right on labelled cases."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from swerve.config.toml import Builder
from swerve.core.case import Case, Source
from swerve.core.convention import SIDES, UNITS, Convention
from swerve.core.encode import encode
from swerve.core.errors import UnreadableCase
from swerve.core.system import Answer
from swerve.core.values import Array, Boxes2D, Image, Steering, find
from swerve.drafting.likely_outputs import Place, angle_places, detector_tables, reported
from swerve.drafting.likely_steps import Read, boxed, cropped, detector_steps, steering_steps
from swerve.drafting.signature import Signature
from swerve.execution.answers import without_truth
from swerve.execution.checks.own_error import BLIND, GOOD, HELPS, precision, rmse
from swerve.execution.checks.remedies import remedies
from swerve.execution.checks.sampling import spread
from swerve.systems.decoders import Decoder, SteeringDecoder
from swerve.systems.network import Network

ANGLES, BOXES = 24, 16  # cases that every possibility is tried on
BATCH = 8
BETTER = 0.9  # a less likely possibility leaves at most this share of the error
USEFUL = 0.9  # of the error of always 0°; a network that is worse tells nothing about its input
ROUNDS = 3  # remedies that are tried one after the other


@dataclass(frozen=True)
class Fit:
    """Steps and decoder of a network, and how well they do on labelled cases; `right` is empty if none are labelled."""

    signature: Signature
    read: Read
    say: Mapping[str, Any]
    right: str = ""
    useful: bool = True  # whether the labels tell that steps and decoder are right


def readable(source: Source, keys: Sequence[str]) -> Iterator[Case]:
    """The cases that can be read."""
    for key in keys:
        try:
            yield source[key]
        except UnreadableCase:
            continue


def labelled(source: Source, slot: str) -> list[Case]:
    """Some cases with a label of that kind."""
    count = ANGLES if slot == Steering.slot else BOXES
    return [case for case in readable(source, spread(source.keys(), count)) if find(case.truth, slot)]


def fit_steering(network: Network, shapes: Sequence[Signature], cases: Sequence[Case], label: Convention) -> Fit | None:
    """The steps and the convention with the least error; the likeliest ones if no case is labelled."""
    first = next((shape for shape in shapes if angle_places(shape)), None)
    if first is None:
        return None
    if not cases:
        return Fit(first, next(steering_steps(first)), _decoder_table(angle_places(first)[0], label))
    labels = np.array([_degrees(case.truth) for case in cases])
    best, least = _best_angles(network, _angle_fits(shapes), cases, labels, label)
    boxes = ((best.signature, read, _place_of(best)) for read in boxed(best.read))
    best, least = _best_angles(network, boxes, cases, labels, label, (best, least))
    zero = rmse(labels, np.zeros(len(labels)))
    if least > GOOD * zero:
        known = [(best.signature, best.read, _place_of(best))] if least < USEFUL * zero else _angle_fits(shapes)
        crops = ((shape, other, place) for shape, read, place in known for other in _cropped(read, shape, network, cases))
        best, least = _best_angles(network, crops, cases, labels, label, (best, least))
    right = f"RMSE {least:.3g}° on {len(cases)} labelled frames, always 0°: {zero:.3g}°"
    return dataclasses.replace(best, right=right, useful=least < USEFUL * zero)


def _cropped(read: Read, signature: Signature, network: Network, cases: Sequence[Case]) -> Iterator[Read]:
    """Steps with every likely crop; none if the pictures differ in size, as crops are in pixels."""
    pictures = [case.inputs.get(network.sensor) for case in cases]
    sizes = {picture.size if isinstance(picture, Image) else None for picture in pictures}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is not None:
        yield from cropped(read, signature, size)


def _angle_fits(shapes: Sequence[Signature]) -> Iterator[tuple[Signature, Read, Place]]:
    for shape in shapes:
        for place in angle_places(shape):
            yield from ((shape, read, place) for read in steering_steps(shape))


def _best_angles(
    network: Network,
    fits: Iterator[tuple[Signature, Read, Place]],
    cases: Sequence[Case],
    labels: Array,
    label: Convention,
    best: tuple[Fit | None, float] = (None, math.inf),
) -> tuple[Fit, float]:
    found, least = best
    for signature, read, place in fits:
        raw = _raw_angles(network, read, place, cases)
        for convention in _conventions(label):
            error = rmse(labels, raw * convention.steering(1.0).degrees) if np.isfinite(raw).all() else math.inf
            if found is None or error < BETTER * least:
                found, least = Fit(signature, read, _decoder_table(place, convention)), error
    assert found
    return found, least


def _raw_angles(network: Network, read: Read, place: Place, cases: Sequence[Case]) -> Array:
    """The network's own numbers; NaN if it cannot run."""
    plain = SteeringDecoder(unit="degrees", positive="left", kind="wheel", output=place[0], index=place[1])
    answers = _answers(network, read, plain, cases)
    return np.array([_degrees(answer) for answer in answers] if answers else [math.nan] * len(cases))


def _conventions(label: Convention) -> Iterator[Convention]:
    """What the answers may be in: as the labels, or in another unit or with another sign."""
    for positive in (label.positive, *(side for side in SIDES if side != label.positive)):
        for unit in dict.fromkeys((label.unit, *reversed(UNITS))):
            yield dataclasses.replace(label, unit=unit, positive=positive)


def _decoder_table(place: Place, convention: Convention) -> dict[str, Any]:
    output, index = place
    which = {**({"output": output} if output else {}), **({} if index is None else {"index": index})}
    told = {key: item for key, item in dataclasses.asdict(convention).items() if item is not None}
    return {"use": "steering", **which, **told}


def _place_of(fit: Fit) -> Place:
    return fit.say.get("output", 0), fit.say.get("index")


def fit_boxes(network: Network, shapes: Sequence[Signature], cases: Sequence[Case], given: Mapping[str, Any]) -> Fit | None:
    """The decoder, with the steps of its authors, that finds most; then what else finds more."""
    kinds = kinds_of(cases)
    tables = [(shape, {**table, **given}) for shape in shapes for table in detector_tables(shape, kinds)]
    fits = [Fit(shape, detector_steps(table["use"], shape), {**reported(table, kinds), **given}) for shape, table in tables]
    if not fits or not cases:
        return fits[0] if fits else None
    found = [(_precision(network, fit.read, fit.say, cases), -place) for place, fit in enumerate(fits)]
    most, place = max(found)
    best = fits[-place]
    for _ in range(ROUNDS):
        tried = [(_precision(network, remedy.read, best.say, cases), remedy.read) for remedy in remedies(best.read)]
        more, read = max(tried, key=lambda pair: pair[0])
        if not HELPS * (more + BLIND) > most + BLIND:
            break
        best, most = dataclasses.replace(best, read=read), more
    right = f"mAP {most:.3f} at an IoU of 0.5 on {len(cases)} labelled pictures"
    return dataclasses.replace(best, right=right, useful=most >= BLIND)


def _precision(network: Network, read: Read, say: Mapping[str, Any], cases: Sequence[Case]) -> float:
    answers = _answers(network, read, Builder().component(say), cases)
    return precision([case.truth for case in cases], answers) if answers else 0.0


def _answers(network: Network, read: Read, decoder: Decoder, cases: Sequence[Case]) -> list[Answer]:
    """The network's answers behind other steps; none if it cannot run behind them."""
    other = network.behind(read, (decoder,))
    try:
        batches = (cases[start : start + BATCH] for start in range(0, len(cases), BATCH))
        return [answer for batch in batches for answer in other([without_truth(case) for case in batch])]
    except Exception:  # a network may raise anything for an input of another shape or range
        return []


def _degrees(values: Answer) -> float:
    found = find(values, Steering.slot)
    return found.degrees if isinstance(found, Steering) else math.nan


def kinds_of(cases: Sequence[Case]) -> list[str]:
    """The kinds of objects in the labels."""
    boxes = [find(case.truth, Boxes2D.slot) for case in cases]
    return sorted({kind for one in boxes if isinstance(one, Boxes2D) for kind in one.kinds})


def table_of(part: object) -> dict[str, Any] | str:
    """A step as a campaign file has it: without the way of resizing, and by its name alone if nothing is left."""
    table: Any = encode(part)
    bare = {key: value for key, value in table.items() if value not in (True, "linear")}
    return bare if len(bare) > 1 else str(bare["use"])
