"""Everything that is drawn over the camera pictures of a finding: boxes, projected 3-D boxes, heat maps and arrows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from swerve.core.system import Answer
from swerve.core.values import Boxes2D, Boxes3D, Calibration, find
from swerve.relations.boxes import placed_by
from swerve.relations.sets import MISSING, missing_rows
from swerve.report.box_overlays import BoxOverlays, Outlines
from swerve.report.closeups import CloseupStrip
from swerve.report.frontview import box_edges
from swerve.report.overlay import Arrow, Outline, Overlay, Raster, box, lines, rounded
from swerve.report.sweep_pictures import TORN, change_of, expected_of
from swerve.report.words import steering_turn
from swerve.sources.kitti_writer import boxes_to_camera, camera_of
from swerve.store.record_json import Finding
from swerve.store.view import Run

STATES = {"lost": "lost", "type_changed": "mislabelled", "moved": "drifted"}  # of the facts, as kinds of shapes


@dataclass(frozen=True)
class Backdrop:
    """A camera picture to be drawn over: its width and height, where the camera is, and its heat maps."""

    size: tuple[int, int]
    calibration: Calibration | None = None
    rasters: tuple[Raster, ...] = ()


class FindingOverlays:
    """The drawings over a run's pictures."""

    def __init__(self, run: Run) -> None:
        self._boxes = BoxOverlays(run)

    def of(self, finding: Finding, label: Answer, source: Backdrop, followup: Backdrop) -> tuple[Overlay, Overlay]:
        """The drawings over source and follow-up; `label` is the source's."""
        flat = self._boxes.of(finding, label)
        solid = _solid(finding, source, followup)
        placed = (), tuple(_placed(finding))
        turned = _arrows(l=label, k=finding.before), _arrows(l=finding.truth, k=finding.before, r=finding.after)
        answers = finding.before, finding.after
        near, far = (
            Overlay(
                side.size,
                (*(flat[place] if _fits(answers[place], side) else ()), *solid[place], *placed[place]),
                side.rasters,
                turned[place],
            )
            for place, side in enumerate((source, followup))
        )
        return near, far

    def closeups(self, finding: Finding, label: Answer, source: Backdrop, followup: Backdrop) -> CloseupStrip:
        """The 2-D boxes that decided the verdict, enlarged; none without a verdict on boxes of these pictures."""
        judged = self._boxes.judged(finding, label) if find(finding.after, Boxes2D.slot) else None
        fitting = _fits(finding.before, source) and _fits(finding.after, followup)
        return judged.strip((source.size, followup.size)) if judged and fitting else CloseupStrip()


def read_calibration(data: bytes | None) -> Calibration | None:
    """A kept `calibration.json`; None if there is none, or if it is damaged or without a camera."""
    try:
        given = json.loads(data or b"null")
        found = Calibration(given["matrices"], given["size"])
        camera, turn = camera_of(found), boxes_to_camera(found)
    except (*TORN, AttributeError):
        return None
    shapes = (() if camera is None else camera.shape), turn.shape
    finite = camera is not None and np.isfinite(camera).all() and np.isfinite(turn).all()
    return found if finite and shapes in (((3, 3), (4, 4)), ((3, 4), (4, 4))) else None


def _fits(answer: Answer, side: Backdrop) -> bool:
    """Whether boxes are of a picture of this size; another camera's boxes are not drawn."""
    boxes = find(answer, Boxes2D.slot)
    return not isinstance(boxes, Boxes2D) or boxes.size in (None, side.size)


def _arrows(**answers: Answer) -> tuple[Arrow, ...]:
    """The arrow of the picture's own answer with those it is compared to; none without that answer."""
    turns = {kind: steering_turn(answer) for kind, answer in answers.items()}
    own = list(turns)[-1]
    return tuple(Arrow(kind, turn) for kind, turn in turns.items() if turn) if turns[own] else ()


def _placed(finding: Finding) -> Iterator[Outline]:
    """The objects that the change placed in the follow-up."""
    change = change_of(finding)
    try:
        placed = None if change is None else placed_by(change)
    except Exception:  # a change of an installed package may raise anything
        return
    if placed is not None and placed.fault() is None:
        yield from (box("object", edges, kind) for edges, kind in zip(rounded(placed.xyxy), placed.kinds, strict=True))


def _solid(finding: Finding, source: Backdrop, followup: Backdrop) -> tuple[Outlines, Outlines]:
    """The 3-D boxes in view of the camera, those that the verdict misses apart."""
    before, after = _solid_boxes(finding.before), _solid_boxes(finding.after)
    if before is None or after is None or source.calibration is None or followup.calibration is None:
        return (), ()
    expected = expected_of(finding) if all(name in finding.facts for name in MISSING) else None
    rows = {} if expected is None else missing_rows(expected, after, None, finding.facts)
    states = {row: STATES[name] for name, chosen in rows.items() for row in chosen}
    same = expected is not None and len(expected.kinds) == len(before.kinds)
    near = _edges(before, source, states if same else {}, "before")
    gone = () if expected is None else _edges(expected, followup, states, "")
    return tuple(near), (*_edges(after, followup, {}, "after"), *gone)


def _edges(boxes: Boxes3D, side: Backdrop, states: dict[int, str], otherwise: str) -> Iterator[Outline]:
    """The boxes in view in their states; those without a state are of the kind `otherwise`, or left out."""
    assert side.calibration is not None
    for row, edges in box_edges(boxes, side.calibration, side.size):
        if edges and (kind := states.get(row, otherwise)):
            yield lines(kind, edges, f"{kind} {boxes.kinds[row]}" if row in states else boxes.kinds[row])


def _solid_boxes(answer: Answer) -> Boxes3D | None:
    boxes = find(answer, Boxes3D.slot)
    return boxes if isinstance(boxes, Boxes3D) and boxes.fault() is None else None
