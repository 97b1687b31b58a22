"""The change of a picture that does what a re-rendered change of traffic lights does, to compare the two."""

from __future__ import annotations

from typing import Any

from swerve.core.case import Case
from swerve.core.transformation import Transformation
from swerve.core.values import Boxes2D, find
from swerve.transformations.affine import INPAINT, ZoomOut
from swerve.transformations.lamps import TARGETS, colour_of
from swerve.transformations.light_paste import CLEAN, Pasted, PasteMore, PastePlace, PasteState, PasteTurned
from swerve.transformations.light_targets import Corners
from swerve.transformations.relight import RelightFarther, RelightMore, RelightPlace, RelightState, RelightTurned, Relit


def pasted_twin(change: Relit, case: Case, *, style: str = CLEAN) -> Transformation | None:
    """The same change made in the picture of `case`; None if there is none, such as for a state that is no red or green."""
    if isinstance(change, RelightFarther):
        more = round(1 / change.zoom - 1, 6)
        return ZoomOut(more, more, border=INPAINT)
    arguments: dict[str, Any] = {"old": change.old, "was": change.was, "others": _others(change, case), "style": style}
    if isinstance(change, RelightState):
        known = all(colour_of(state) in TARGETS for state in (*change.was, *change.now))
        return PasteState(**arguments, now=change.now) if known else None
    if isinstance(change, RelightTurned):
        return _inside(PasteTurned(**arguments), case)
    if isinstance(change, RelightPlace | RelightMore):
        kind = PastePlace if isinstance(change, RelightPlace) else PasteMore
        return _inside(kind(**arguments, shifts=tuple(map(_shift, change.old, change.new))), case)
    return None


def _shift(old: Corners, new: Corners) -> int:
    """How far the middle of a box moves to the right."""
    return round((new[0] + new[2] - old[0] - old[2]) / 2)


def _inside(change: Pasted, case: Case) -> Pasted | None:
    return None if change.applies(case) else change


def _others(change: Relit, case: Case) -> tuple[Corners, ...]:
    label = find(case.truth, Boxes2D.slot)
    boxes = label.xyxy.tolist() if isinstance(label, Boxes2D) else []
    rows: list[Corners] = [(left, top, right, bottom) for left, top, right, bottom in boxes]
    return tuple(box for box in rows if box not in change.old)
