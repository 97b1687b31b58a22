"""Arithmetic of boxes as tensors: overlaps, distances, and boxes relative to anchors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

CENTRE, SPAN = 0.1, 0.2  # the units of encoded centres and spans, as in SSD
WIDEST = math.log(1000 / 16)  # of an encoded span, so that a wild prediction does not overflow
TINY = 1e-7


def areas(boxes: Tensor) -> Tensor:
    """The area of each box; boxes with reversed corners have none."""
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1)


def ious(ones: Tensor, others: Tensor) -> Tensor:
    """The IoU of boxes with boxes, broadcast against each other."""
    shared = areas(_joined(torch.maximum, torch.minimum, ones, others))
    return shared / (areas(ones) + areas(others) - shared + TINY)


def giou(ones: Tensor, others: Tensor) -> Tensor:
    """Generalised IoU: less by the share of the enclosing box that is in neither."""
    shared = areas(_joined(torch.maximum, torch.minimum, ones, others))
    union = areas(ones) + areas(others) - shared + TINY
    around = areas(_joined(torch.minimum, torch.maximum, ones, others)) + TINY
    return shared / union - (around - union) / around


def ciou(ones: Tensor, others: Tensor) -> Tensor:
    """Complete IoU: less by the squared distance of the centres and by how far the aspect ratios are apart."""
    overlap = ious(ones, others)
    around = _joined(torch.minimum, torch.maximum, ones, others)
    diagonal = (around[..., 2:] - around[..., :2]).square().sum(-1) + TINY
    apart = (centres(ones) - centres(others)).square().sum(-1) / diagonal
    aspect = 4 / math.pi**2 * (_slope(ones) - _slope(others)).square()
    with torch.no_grad():
        weight = aspect / (1 - overlap + aspect + TINY)
    return overlap - apart - weight * aspect


def centres(boxes: Tensor) -> Tensor:
    """The centre of each box."""
    return (boxes[..., :2] + boxes[..., 2:]) / 2


def spans(boxes: Tensor) -> Tensor:
    """Width and height of each box."""
    return boxes[..., 2:] - boxes[..., :2]


def around(middle: Tensor, span: Tensor) -> Tensor:
    """Boxes from their centres, widths and heights."""
    return torch.cat([middle - span / 2, middle + span / 2], -1)


def inside(points: Tensor, boxes: Tensor) -> Tensor:
    """Which points lie in which boxes, points x boxes."""
    return ((points[:, None] > boxes[None, :, :2]) & (points[:, None] < boxes[None, :, 2:])).all(-1)


def encoded(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Boxes relative to anchors: the shift of the centre in spans of the anchor, and the logarithms of the spans' ratios."""
    shift = (centres(boxes) - centres(anchors)) / spans(anchors) / CENTRE
    return torch.cat([shift, torch.log(spans(boxes) / spans(anchors)) / SPAN], -1)


def decoded(numbers: Tensor, anchors: Tensor) -> Tensor:
    """The boxes that were encoded."""
    middle = centres(anchors) + numbers[..., :2] * CENTRE * spans(anchors)
    return around(middle, spans(anchors) * torch.exp((numbers[..., 2:] * SPAN).clamp(max=WIDEST)))


def _slope(boxes: Tensor) -> Tensor:
    wide, high = spans(boxes).unbind(-1)
    return torch.atan(wide / (high + TINY))


def _joined(low: object, high: object, ones: Tensor, others: Tensor) -> Tensor:
    """Upper left corners joined by `low`, lower right corners by `high`."""
    assert callable(low)
    assert callable(high)
    return torch.cat([low(ones[..., :2], others[..., :2]), high(ones[..., 2:], others[..., 2:])], -1)
