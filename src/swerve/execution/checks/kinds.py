"""Checks that labels, answers and added objects share kinds of objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from swerve.core.campaign import Campaign, Observation, Record
from swerve.core.errors import printable
from swerve.core.relation import Rule, Status
from swerve.core.system import Answer
from swerve.core.values import Boxes2D, Boxes3D, find
from swerve.execution.checks.concern import Concern, Level
from swerve.relations.boxes import ANY, BoxesAlike
from swerve.relations.sets import Superset


def kinds_apart(
    campaign: Campaign, usable: Sequence[Observation], records: Mapping[str, Sequence[Record]]
) -> Iterator[Concern]:
    """R74: answers that share no kind with the labels, or with the objects that a change adds: each would be missed."""
    apart = (
        concern
        for rule in campaign.rules
        for part in _kind_comparisons(rule.expect)
        for concern in _kind_concerns(rule, part, usable, records[rule.name])
    )
    yield from sorted(apart, key=lambda concern: concern.level is not Level.REFUSAL)[:1]


def _kind_comparisons(part: object) -> Iterator[BoxesAlike | Superset]:
    """The relations that compare kinds of boxes: a relation itself, or those that it is made of."""
    if isinstance(part, BoxesAlike | Superset):
        yield from () if part.kinds == ANY else (part,)
    elif isinstance(part, tuple | list):
        yield from (found for item in part for found in _kind_comparisons(item))
    else:
        fields = (getattr(part, name) for name in getattr(part, "__dataclass_fields__", ()))
        yield from (found for item in fields for found in _kind_comparisons(item))


def _kind_concerns(
    rule: Rule, part: BoxesAlike | Superset, usable: Sequence[Observation], tried: Sequence[Record]
) -> Iterator[Concern]:
    labelled = _kinds_in(part.slot, [seen.truth for seen in usable])
    answered = _kinds_in(part.slot, [seen.answer for seen in usable])
    later = answered | _kinds_in(part.slot, [record.after for record in tried])
    apart = not labelled & answered
    # `superset` compares the answer with an earlier one, so its verdicts are right whatever the labels are called. A system
    # that shares other kinds with the labels may really not know the added one.
    levels = {True: Level.REFUSAL, False: Level.WARNING}
    found = (
        ("labels", "the labels have", labelled, answered, isinstance(part, BoxesAlike)),
        ("added objects", "the changes add", _kinds_added(part.slot, tried), later, apart),
    )
    for what, verb, kinds, others, refused in found:
        if kinds and others and not kinds & others:
            named = f"{verb} {_first_few(kinds)}, the system answers {_first_few(others)}"
            where = f"the relation of rule '{printable(rule.name, 40)}'"
            fix = f'rename the kinds of the system, or write kinds = "{ANY}" in {where}'
            why = f"{what} and answers have no kind of object in common: {named}; {fix}"
            yield Concern("kinds", levels[refused], why)


def _kinds_in(slot: str, answers: Sequence[Answer]) -> set[str]:
    found = [value for answer in answers for value in answer if value.slot == slot]
    boxes = [value for value in found if isinstance(value, Boxes2D | Boxes3D)]
    return {kind for value in boxes for kind, care in zip(value.kinds, np.asarray(value.care), strict=True) if care}


def _kinds_added(slot: str, tried: Sequence[Record]) -> set[str]:
    """The kinds of the objects that changes add to a scene: those that they add to no boxes at all."""
    judged = (record for record in tried if record.verdict.status in (Status.HELD, Status.VIOLATED))
    pairs = ((record.change, _no_boxes(slot, record)) for record in judged)
    return _kinds_in(slot, [(change.map(empty),) for change, empty in pairs if change is not None and empty is not None])


def _no_boxes(slot: str, record: Record) -> Boxes2D | Boxes3D | None:
    """No boxes in the image of a trial; None if its size is unknown, without which a change cannot map boxes."""
    if slot == Boxes3D.slot:
        return Boxes3D(np.zeros((0, 7)), ())
    seen = find(record.before, slot)
    return Boxes2D(np.zeros((0, 4)), (), size=seen.size) if isinstance(seen, Boxes2D) and seen.size else None


def _first_few(kinds: set[str]) -> str:
    named = ", ".join(f"'{printable(kind, 20)}'" for kind in sorted(kinds)[:3])
    return f"{named} …" if len(kinds) > 3 else named
