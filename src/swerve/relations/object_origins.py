"""Where the errors in a set of boxes come from, object by object."""

#

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from swerve.core.errors import SwerveError
from swerve.core.origin import OF_SOME, Attribution, Origin, combined, place_facts
from swerve.core.transformation import Transformation
from swerve.relations.matching import Differences, Same, match, take

if TYPE_CHECKING:
    from swerve.relations.boxes import BoxErrors

DRIFTED, MISLABELLED, MISSED = 1, 2, 3  # how wrong an object is


def attribute_objects(objects: Mapping[int, Origin], boxes: Mapping[int, Origin]) -> Attribution:
    """The origin of a finding, introduced if the error of any object is, and which `objects` and extra `boxes` are."""
    found = [Attribution(origin) for origin in (*objects.values(), *boxes.values())]
    return Attribution(combined(found, OF_SOME).origin, {**place_facts(objects, "rows"), **place_facts(boxes, "boxes")})


def object_origins(before: BoxErrors, after: BoxErrors) -> Iterator[tuple[int, Origin]]:
    """The origin of the error of every expected object that is not detected as expected.

    Objects of source and follow-up are the same by their place in the list: a change keeps the order of the boxes and adds
    new ones at the end.
    """
    was, known = _errors(before.between), len(before.expected.kinds)
    removed = len(after.expected.kinds) < known  # then a place in the list says nothing
    for row, error in _errors(after.between).items():
        if not was or row >= known:  # nothing was wrong, or the change placed the object
            yield row, Origin.INTRODUCED
        elif removed:
            yield row, Origin.UNKNOWN
        elif row not in was:
            yield row, Origin.INTRODUCED
        else:
            yield row, Origin.MADE_WORSE if error > was[row] else Origin.ALREADY_WRONG


def _errors(between: Differences) -> dict[int, int]:
    """How wrong each object is that is not detected as expected."""
    wrong_kind = {row: MISLABELLED for row, _ in between.mislabelled}
    return {**dict.fromkeys(between.missed, MISSED), **wrong_kind, **{row: DRIFTED for row, _ in between.drifted}}


def extra_origins(before: BoxErrors, after: BoxErrors, change: Transformation, same: Same) -> dict[int, Origin]:
    """The origin of every extra box: it was there before if the change carries a wrong box of the untouched answer to it."""
    extra, wrong = [*after.between.ghosts, *after.between.doubled], _wrong_boxes(before.between)
    if not extra or not wrong:
        return dict.fromkeys(extra, Origin.INTRODUCED)
    old = take(before.detected, np.array(wrong))
    try:
        carried = change.map(replace(old, size=old.size or before.expected.size))
    except SwerveError:  # a relation on labels does not need the change to map answers
        return dict.fromkeys(extra, Origin.UNKNOWN)
    likeness = same.likeness(take(carried, np.arange(len(wrong))), take(after.detected, np.array(extra)))
    there = {extra[column] for _, column in match(likeness.affinity, likeness.same).pairs}
    return {column: Origin.ALREADY_WRONG if column in there else Origin.INTRODUCED for column in extra}


def _wrong_boxes(between: Differences) -> list[int]:
    """The boxes that are not as expected: extra ones, and those that drifted or have another kind."""
    return [*between.ghosts, *between.doubled, *(column for _, column in (*between.drifted, *between.mislabelled))]
