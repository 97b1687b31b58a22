"""Checks of the untouched cases: unusable, repeated, all answered alike, or without an object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from swerve.core.campaign import Campaign, Observation, Record
from swerve.core.encode import encode
from swerve.core.errors import printable
from swerve.core.region import region_of
from swerve.core.relation import Status
from swerve.core.transformation import Unchanged
from swerve.core.values import Boxes2D, Boxes3D
from swerve.execution.checks.concern import Concern, Level
from swerve.execution.checks.sampling import any_violated, spread
from swerve.execution.evaluator import read_case
from swerve.relations.obstacles import in_region
from swerve.relations.sets import DEMANDED

FEWEST_FOR_CONSTANT = 3  # different inputs that a refusal needs; with fewer it is a warning
MOST_SKIPPED = 0.5
SAMPLED_REGIONS = 16  # cases whose region is read to see whether it holds an object
MOST_EMPTY = 0.5


def skipped(seen: Sequence[Observation]) -> Iterator[Concern]:
    """Cases that do not read, or that the system fails on."""
    unusable = [item for item in seen if item.fault]
    unread = [
        item for item in unusable if not item.readable
    ]  # a model that fails is a result; a file that cannot be read is not
    if unusable:
        level = Level.REFUSAL if len(unread) > MOST_SKIPPED * len(seen) else Level.WARNING
        first = printable(unusable[0].fault, 120)
        yield Concern("unusable cases", level, f"{len(unusable)} of {len(seen)} cases cannot be used; first: {first}")


def repeated(usable: Sequence[Observation]) -> Iterator[Concern]:
    """The same input under two names, whatever the format of its file (R37)."""
    names: dict[str, list[str]] = {}
    for seen in usable:
        names.setdefault(seen.input_sha, []).append(seen.case)
    if groups := [keys for keys in names.values() if len(keys) > 1]:
        first = " and ".join(printable(key, 60) for key in groups[0][:2])
        yield Concern("same input twice", Level.NOTE, f"{len(groups)} inputs occur more than once; first: {first}")


def constant(usable: Sequence[Observation], tried: Sequence[Record]) -> Iterator[Concern]:
    """A model that always gives the same answer cannot contradict itself (R28)."""
    inputs, answers = {seen.input_sha for seen in usable}, {str(encode(seen.answer)) for seen in usable}
    after = {str(encode(record.after)) for record in tried if record.after and not isinstance(record.change, Unchanged)}
    few, moved = len(inputs) < FEWEST_FOR_CONSTANT, not after <= answers
    if len(answers) > 1 or (few and (moved or not after)):
        return
    why = f"the system gives the same answer to all {len(usable)} cases"
    check = "check its preprocessing and weights"
    if moved:
        yield Concern("constant answers", Level.WARNING, f"{why}, though not to all follow-ups")
    elif few or any_violated(tried):
        yield Concern("constant answers", Level.WARNING, f"{why} and to the follow-ups tried: {check}")
    else:
        why += ", and to the follow-ups tried; no change can make it contradict itself"
        yield Concern("constant answers", Level.REFUSAL, f"{why}: {check}")


def blind(campaign: Campaign, usable: Sequence[Observation], tried: Sequence[Record]) -> Iterator[Concern]:
    """A system that detects no object, or none in the region, cannot lose one (R28)."""
    judged = [record for record in tried if record.verdict.status in (Status.HELD, Status.VIOLATED)]
    of_sets = [record for record in judged if DEMANDED in record.facts]
    if not of_sets:
        return
    looked = spread(usable, SAMPLED_REGIONS)
    empty = sum(not _has_objects(campaign, seen) for seen in looked)
    placed = any(record.facts[DEMANDED] for record in of_sets)  # a change may bring its own object
    if empty == len(looked) and not placed and not any(_has_objects(campaign, seen) for seen in usable):
        looked, empty = list(usable), len(usable)
    if not empty:
        return
    some = " checked" if len(looked) < len(usable) else ""
    why = f"no object is detected, or none in the region, in {empty} of {len(looked)} cases{some}"
    if empty < len(usable) or placed or len(of_sets) < len(judged):
        yield Concern("no objects", Level.WARNING if empty > MOST_EMPTY * len(looked) else Level.NOTE, why)
    else:
        why += ", so none can be lost; check the system's weights and limits, and the region"
        yield Concern("no objects", Level.REFUSAL, why)


def _has_objects(campaign: Campaign, seen: Observation) -> bool:
    """Whether an answer has an object that counts, in the case's region if there is one."""
    boxes = [value for value in seen.answer if isinstance(value, Boxes2D | Boxes3D) and np.any(value.care)]
    if not boxes or any(isinstance(value, Boxes2D) for value in boxes):
        return bool(boxes)
    region = region_of(read_case(campaign, seen.case))
    return any(np.any(in_region(value, region).care) for value in boxes if isinstance(value, Boxes3D))
