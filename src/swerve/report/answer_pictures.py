"""A frame with steering angles as arrows: straight up for 0°, to the left for positive degrees of the wheel."""
#

from __future__ import annotations

import math
from collections.abc import Iterable

import cv2
import numpy as np

from swerve.core.campaign import Record
from swerve.core.case import Case
from swerve.core.system import Answer
from swerve.core.values import Array, Boxes2D, Steering, find
from swerve.store.record_json import Finding
from swerve.transformations.photometric import images_of

BLUE, RED, GREEN = (40, 90, 255), (235, 40, 40), (40, 180, 70)
HIGH = 270  # pixels of a picture
WIDEST = 10 * HIGH  # a foreign run may have kept a picture of one row
FAR = 30_000  # pixels, beyond any picture: OpenCV draws no box whose corners are further away
STEEPEST = 80.0  # degrees from upright


def before_after(case: Case, followup: Case, record: Record) -> Array:
    """A case beside its follow-up, with the label in green, the answer to the case in blue, that to the follow-up in red."""
    image, changed = (list(images_of(some))[-1].pixels for some in (case, followup))
    before, after, label = (_degrees(values) for values in (record.before, record.after, record.truth))
    known = ((label, GREEN), (before, BLUE))
    return np.hstack([with_arrows(image, known), with_arrows(changed, (*known, (after, RED)))])


def answered(source: Array, followup: Array, finding: Finding) -> Array:
    """The two pictures of a finding side by side, with the answers drawn over them: boxes, and angles as arrows."""
    sides = ((source, finding.before, BLUE), (followup, finding.after, RED))
    near, far = (_with_boxes(pixels, answer, colour) for pixels, answer, colour in sides)
    before, after = (_degrees(values) for values in (finding.before, finding.after))
    known = ((_degrees(finding.truth), GREEN), (before, BLUE))
    return np.hstack([with_arrows(near, known), with_arrows(far, (*known, (after, RED)))])


def _with_boxes(pixels: Array, answer: Answer, colour: tuple[int, int, int]) -> Array:
    """The picture with the boxes of an answer; those of another camera's picture are left out."""
    boxes = find(answer, Boxes2D.slot)
    if not isinstance(boxes, Boxes2D) or boxes.size not in (None, (pixels.shape[1], pixels.shape[0])):
        return pixels
    drawn = np.array(pixels)  # a copy: the pixels of a case cannot be drawn on
    thick = max(1, pixels.shape[0] // HIGH * 2)
    edges = np.clip(boxes.xyxy[np.isfinite(boxes.xyxy).all(axis=1)], -FAR, FAR)
    for left, top, right, bottom in np.rint(edges).astype(int).tolist():
        cv2.rectangle(drawn, (left, top), (right, bottom), colour, thick)
    return drawn


def _degrees(values: Answer) -> float | None:
    angle = find(values, Steering.slot)
    return angle.degrees if isinstance(angle, Steering) else None


def with_arrows(pixels: Array, angles: Iterable[tuple[float | None, tuple[int, int, int]]]) -> Array:
    """The picture, made equally high as others, with an arrow from its lower edge for every angle that is known."""
    width = min(max(round(pixels.shape[1] * HIGH / pixels.shape[0]), 1), WIDEST)
    drawn = np.ascontiguousarray(cv2.resize(pixels, (width, HIGH), interpolation=cv2.INTER_AREA))
    foot, length = (width // 2, HIGH - 6), HIGH * 0.45
    for degrees, colour in angles:
        if degrees is None or not math.isfinite(degrees):
            continue
        turn = math.radians(min(max(degrees, -STEEPEST), STEEPEST))
        tip = round(foot[0] - length * math.sin(turn)), round(foot[1] - length * math.cos(turn))
        cv2.arrowedLine(drawn, foot, tip, (255, 255, 255), 6, cv2.LINE_AA, tipLength=0.12)
        cv2.arrowedLine(drawn, foot, tip, colour, 3, cv2.LINE_AA, tipLength=0.12)
    return drawn
