"""Non-maximum suppression: of boxes that lie on each other, the one with the best score."""

from __future__ import annotations

import numpy as np

from swerve.core.values import Array

MOST_COMPARED = 30_000  # boxes with the best scores: as YOLOv5 and its successors do, so that no answer costs a minute
AT_ONCE = 256  # boxes held against all that were kept: pairs of all with all would fill the memory


def apart(xyxy: Array, scores: Array, labels: Array, *, iou: float, most: int) -> Array:
    """The places of at most `most` boxes, best score first, each without an IoU above `iou` with a better one it meets.

    Boxes meet where their labels are equal. Of equal scores the lower place comes first, so that the result is the same
    on every machine.
    """
    order = np.argsort(-scores, kind="stable")
    if iou >= 1:  # no overlap is above it
        return order[:most]
    kept = order[:0]
    for start in range(0, min(len(order), MOST_COMPARED), AT_ONCE):
        block = order[start : min(start + AT_ONCE, MOST_COMPARED)]
        block = block[~_hidden(xyxy, labels, kept, block, iou)]
        while block.size and len(kept) < most:
            kept = np.append(kept, block[0])
            block = block[1:][~_hidden(xyxy, labels, kept[-1:], block[1:], iou)]
        if len(kept) == most:
            break
    return kept


def _hidden(xyxy: Array, labels: Array, better: Array, worse: Array, iou: float) -> Array:
    """Which of the worse boxes lie on a better one of their label."""
    meets = labels[better][:, np.newaxis] == labels[worse]
    hidden: Array = (meets & (overlaps(xyxy[better], xyxy[worse]) > iou)).any(axis=0)
    return hidden


def overlaps(ones: Array, others: Array) -> Array:
    """The IoU of each box with each other one, in rows; 0 where both are empty."""
    low = np.maximum(ones[:, np.newaxis, :2], others[:, :2])
    high = np.minimum(ones[:, np.newaxis, 2:], others[:, 2:])
    shared = _areas(low, high)
    union = _areas(ones[:, np.newaxis, :2], ones[:, np.newaxis, 2:]) + _areas(others[:, :2], others[:, 2:]) - shared
    shares: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def _areas(low: Array, high: Array) -> Array:
    areas: Array = np.maximum(high - low, 0).prod(axis=-1)
    return areas
