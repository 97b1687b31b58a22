"""The targets of a change of traffic lights: which boxes it edits, and how; one map for labels and for answers."""

# D-32

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from swerve.core.values import Array, Boxes2D
from swerve.relations.matching import overlaps

Corners = tuple[float, float, float, float]
SAME = 0.5  # IoU from which a box is on a target


@dataclass(frozen=True)
class LightTarget:
    """A light of a change: its box and state before and after it, and whether it must be detected after it.

    A light that is `copied` stays where it was; the new box is that of the copy. A light that is `turned` by a quarter, with
    the picture, takes the boxes on it along: 1 is counter-clockwise, -1 clockwise.
    """

    old: Corners
    new: Corners
    was: str
    now: str
    care: bool = True
    copied: bool = False
    turned: int = 0

    def kind(self, given: str) -> str:
        """A state after the change: the old and the new one change places, so that a wrong answer stays wrong."""
        return {self.was: self.now, self.now: self.was}.get(given, given)

    def moved(self, box: Array) -> Array:
        """A box on the light after the change: it lies in the new box as it lay in the old one."""
        if self.turned:
            return np.array(turned_box(tuple(box.tolist()), self.old, self.turned))
        old, new = np.array(self.old), np.array(self.new)
        share = (box - np.tile(old[:2], 2)) / np.tile(old[2:] - old[:2], 2)
        return np.asarray(np.tile(new[:2], 2) + share * np.tile(new[2:] - new[:2], 2))


def turned_box(box: Corners, about: Corners, quarter: int) -> Corners:
    """A box after a quarter turn about the middle of another: 1 is counter-clockwise as displayed, -1 clockwise.

    The turn takes whole pixels to whole pixels, so the middle moves by half a pixel at most.
    """
    # TG-15
    left, top, right, bottom = box
    across, down = (about[0] + about[2]) / 2, (about[1] + about[3]) / 2
    less, more = _half_up(across - down), _half_up(across + down)
    if quarter > 0:
        return top + less, more - right, bottom + less, more - left
    return more - bottom, left - less, more - top, right - less


def _half_up(number: float) -> int:
    return math.floor(number + 0.5)


def targets_of(value: Boxes2D, targets: Sequence[LightTarget]) -> list[LightTarget | None]:
    """The target that each box is on, if any."""
    if not targets or not len(value.xyxy):
        return [None] * len(value.xyxy)
    shared = overlaps(np.array([target.old for target in targets]), value.xyxy)
    best = shared.argmax(axis=0)
    return [targets[row] if shared[row, column] >= SAME else None for column, row in enumerate(best.tolist())]


def edited_lights(value: Boxes2D, targets: Sequence[LightTarget]) -> Boxes2D:
    """Boxes after a change: those on a target are edited, copies are added behind, and all others stay."""
    found = targets_of(value, targets)
    rows, care = value.xyxy.copy(), np.array(value.care, bool)
    kinds, copies = list(value.kinds), []
    for row, target in enumerate(found):
        if target is not None and target.copied:
            copies.append((row, target))
        elif target is not None:
            rows[row], kinds[row] = target.moved(rows[row]), target.kind(kinds[row])
            care[row] &= target.care
    return _with_copies(replace(value, xyxy=rows, kinds=tuple(kinds), care=care), copies)


def _with_copies(value: Boxes2D, copies: Sequence[tuple[int, LightTarget]]) -> Boxes2D:
    if not copies:
        return value
    places = [row for row, _ in copies]
    kept = np.asarray(value.care)[places]
    hidden = None if value.hidden is None else np.concatenate([value.hidden, value.hidden[places]])
    return replace(
        value,
        xyxy=np.concatenate([value.xyxy, [target.moved(value.xyxy[row]) for row, target in copies]]),
        kinds=(*value.kinds, *(target.kind(value.kinds[row]) for row, target in copies)),
        scores=np.concatenate([np.asarray(value.scores), np.asarray(value.scores)[places]]),
        care=np.concatenate([np.asarray(value.care), kept & [target.care for _, target in copies]]),
        hidden=hidden,
    )


def with_optional(value: Boxes2D, boxes: Sequence[Corners], kind: str = "off") -> Boxes2D:
    """Boxes and more of them that may be detected or not."""
    if not boxes:
        return value
    count = len(boxes)
    return replace(
        value,
        xyxy=np.concatenate([value.xyxy, np.array(boxes)]),
        kinds=(*value.kinds, *[kind] * count),
        scores=np.concatenate([np.asarray(value.scores), np.ones(count)]),
        care=np.concatenate([np.asarray(value.care), np.zeros(count, bool)]),
        hidden=None if value.hidden is None else np.concatenate([value.hidden, np.zeros(count)]),
    )
