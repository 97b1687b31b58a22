"""The boxes expected of a system after an edit of the scene, from its own boxes before and the true objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from swerve.core.values import Array, Boxes2D, Boxes3D
from swerve.relations.matching import box_overlaps, match, take
from swerve.world.labels import VisibleThing
from swerve.world.objects import SeenObjects

B = TypeVar("B", Boxes2D, Boxes3D)
SAME = 0.5  # IoU from which a detected box is that of a true object (D-32)


def in_order(before: SeenObjects, after: SeenObjects) -> list[VisibleThing]:
    """The objects after an edit, those that were visible before in the same places of the list.

    Relations know an object by its place. One that is gone makes room for a new one; if there is none, the list is shorter.
    """
    fresh = iter([item for item in after.items if item.number not in before.numbered])
    kept = (after.numbered.get(item.number) or next(fresh, None) for item in before.items)
    return [*(item for item in kept if item is not None), *fresh]


def expected_boxes(
    value: B, before: SeenObjects, after: SeenObjects, boxes_of: Callable[[list[VisibleThing]], B], *, edited: frozenset[int]
) -> B:
    """The boxes `value` of a system as they are expected after the edit.

    A box on an edited object moves with it, or is gone with it. One on an object that the edit hides is no longer required,
    and objects that it adds are; what gets visible may be detected or not, as the system was never asked about it.
    """
    owners = _owners(value, before, boxes_of)
    rows, care = _numbers_of(value).copy(), np.array(value.care, bool)
    for row, number in enumerate(owners):
        if number is not None:
            care[row] &= number in after.numbered and after.numbered[number].care
        if number in edited and number in after.numbered:
            old, new = (_numbers_of(boxes_of([seen.numbered[number]]))[0] for seen in (before, after))
            rows[row] += new - old
    kept = [row for row, number in enumerate(owners) if number not in edited or number in after.numbered]
    moved = take(_with_numbers(value, rows, care=care), np.array(kept, int))
    return _joined(moved, _unseen(before, after, set(owners), edited), boxes_of)


def _owners(value: B, before: SeenObjects, boxes_of: Callable[[list[VisibleThing]], B]) -> list[int | None]:
    """The number of the object that each detected box is on, if any."""
    items = list(before.items)
    affinity = box_overlaps(boxes_of(items), value) if items else np.zeros((0, len(value.kinds)))
    pairs = match(affinity, affinity >= SAME).pairs
    found = {column: items[row].number for row, column in pairs}
    return [found.get(column) for column in range(len(value.kinds))]


def _unseen(
    before: SeenObjects, after: SeenObjects, detected: set[int | None], edited: frozenset[int]
) -> tuple[list[VisibleThing], list[bool]]:
    """Objects without a detected box that were added or got more visible, and whether they must be detected."""
    found, required = [], []
    for item in after.items:
        old = before.numbered.get(item.number)
        added = old is None and item.number in edited
        if item.number not in detected and (old is None or item.visible > old.visible):
            found.append(item)
            required.append(added and item.care)
    return found, required


def _numbers_of(boxes: Boxes2D | Boxes3D) -> Array:
    return boxes.xyxy if isinstance(boxes, Boxes2D) else boxes.xyzlwhy


def _with_numbers(value: B, rows: Array, **others: Any) -> B:
    return replace(value, **{"xyxy" if isinstance(value, Boxes2D) else "xyzlwhy": rows}, **others)  # type: ignore[arg-type]


def _joined(value: B, more: tuple[list[VisibleThing], list[bool]], boxes_of: Callable[[list[VisibleThing]], B]) -> B:
    items, required = more
    if not items:
        return value
    new: B = boxes_of(items)
    parts = {
        "scores": np.concatenate([np.asarray(value.scores), np.ones(len(items))]),
        "care": np.concatenate([np.asarray(value.care), np.array(required, bool)]),
    }
    if (hidden := getattr(value, "hidden", None)) is not None:
        parts["hidden"] = np.concatenate([hidden, [item.hidden for item in items]])
    rows = np.concatenate([_numbers_of(value), _numbers_of(new)])
    return _with_numbers(value, rows, kinds=(*value.kinds, *new.kinds), **parts)
