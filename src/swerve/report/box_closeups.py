"""Which 2-D boxes of a finding are shown enlarged: those that the verdict counts as errors, the worst and largest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from swerve.core.transformation import Transformation
from swerve.core.values import Boxes2D
from swerve.relations.box_states import BoxState, BoxVerdict
from swerve.relations.matching import overlaps
from swerve.report.closeups import Closeup, CloseupStrip, Edges, ObjectView

MOST = 3  # objects of a finding
ROOM = 2.0  # the side of the square that is shown, in sides of the object
LEAST = 20.0  # pixels of that square
NEAR = 0.1  # the IoU from which a box of the source is said to be at a place
OF_EXPECTED = (BoxState.LOST, BoxState.MISLABELLED, BoxState.DRIFTED)  # worst first, as the verdict names them
OF_DETECTED = (BoxState.GHOST, BoxState.DOUBLED)
NOTHING = "not detected"


@dataclass(frozen=True)
class JudgedBoxes:
    """The boxes of a finding as its verdict has them; `alone` is the source judged by its labels, if labels count."""

    found: BoxVerdict
    alone: BoxVerdict | None
    change: Transformation

    def strip(self, sizes: tuple[tuple[int, int], tuple[int, int]]) -> CloseupStrip:
        """The objects that decided the verdict."""
        chosen = sorted(self._errors(), key=lambda item: item[:3])
        shown = (self._closeup(BoxState(state), place) for (_, _, place, state) in chosen[:MOST])
        return CloseupStrip(tuple(shown), max(len(chosen) - MOST, 0), sizes)

    def _errors(self) -> Iterator[tuple[int, float, int, str]]:
        """Rank of the error, minus the area of the box, its place and its state."""
        of_boxes = (
            (OF_EXPECTED, self.found.expected, self.found.of_expected),
            (OF_DETECTED, self.found.detected, self.found.of_detected),
        )
        for ranked, boxes, states in of_boxes:
            for place, state in enumerate(states):
                if state in ranked:
                    yield (*OF_EXPECTED, *OF_DETECTED).index(state), -_area(boxes, place), place, state

    def _closeup(self, state: BoxState, place: int) -> Closeup:
        if state in OF_DETECTED:
            about = "(a second box)" if state is BoxState.DOUBLED else ""
            return Closeup(str(state), about, *_alike(self._extra(state, place)))
        missed = self.found.labelled and state is BoxState.LOST
        label = f"(label {self.found.expected.kinds[place]})" if self.found.labelled else ""
        words = "missed" if missed else str(state)
        return Closeup(words, label, *_alike((self._before(state, place), _answered(self.found, place, words))))

    def _before(self, state: BoxState, row: int) -> ObjectView | None:
        """The expected object of a row on the source."""
        found = self.found
        if found.before is not None:
            return _view(found.before, row, str(state))
        if self.alone is None or len(self.alone.expected.kinds) != len(found.expected.kinds):
            return None
        return _answered(self.alone, row, "missed")

    def _extra(self, state: BoxState, column: int) -> tuple[ObjectView | None, ObjectView]:
        """What is detected at a place where nothing more is expected, and what was detected there on the source."""
        after = _view(self.found.detected, column, str(state))
        seen = self.found.before if self.alone is None else self.alone.detected
        if seen is None or not self._stays(column):
            return None, after
        shared = overlaps(self.found.detected.xyxy[[column]], seen.xyxy)[0]
        if shared.max(initial=0.0) < NEAR:
            return replace(after, said=NOTHING, kind="", outlines=()), after
        return replace(_view(seen, int(shared.argmax()), "before"), centre=after.centre), after

    def _stays(self, column: int) -> bool:
        """Whether the change leaves the place of a detected box as it is."""
        every = self.found.detected
        box = Boxes2D(every.xyxy[[column]], (every.kinds[column],), np.asarray(every.scores)[[column]], every.size)
        try:
            moved = self.change.map(box)
        except Exception:  # a change of an installed package may raise anything
            return False
        return isinstance(moved, Boxes2D) and np.array_equal(moved.xyxy, box.xyxy)


def _answered(found: BoxVerdict, row: int, gone: str) -> ObjectView:
    """The object expected in a row as it was detected; its expected place is dashed."""
    column = next((column for column, matched in found.expected_of.items() if matched == row), None)
    expected = _view(found.expected, row, gone)
    if column is None:
        return replace(expected, said=NOTHING, kind="")
    state = found.of_detected[column]
    seen = _view(found.detected, column, "found" if found.labelled and state is BoxState.KEPT else str(state))
    dashed = (("label" if found.labelled else "expected", _edges(found.expected, row)),)
    return replace(seen, outlines=(*(dashed if state is not BoxState.KEPT else ()), *seen.outlines))


def _alike(views: tuple[ObjectView | None, ObjectView | None]) -> tuple[ObjectView | None, ObjectView | None]:
    """Both views with the larger of their squares, so that the object has one scale."""
    reach = max((view.reach for view in views if view), default=LEAST)
    first, second = (replace(view, reach=reach) if view else None for view in views)
    return first, second


def _view(boxes: Boxes2D, place: int, state: str) -> ObjectView:
    left, top, right, bottom = edges = _edges(boxes, place)
    reach = max(ROOM * max(right - left, bottom - top), LEAST)
    said = f"{boxes.kinds[place]} {float(np.asarray(boxes.scores)[place]):.2f}"
    return ObjectView(((left + right) / 2, (top + bottom) / 2), reach, said, boxes.kinds[place], ((state, edges),))


def _edges(boxes: Boxes2D, place: int) -> Edges:
    left, top, right, bottom = map(float, boxes.xyxy[place])
    return left, top, right, bottom


def _area(boxes: Boxes2D, place: int) -> float:
    left, top, right, bottom = _edges(boxes, place)
    return (right - left) * (bottom - top)
