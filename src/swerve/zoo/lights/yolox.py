"""A detector after YOLOX: no anchors, separate branches for kind and box, and labels assigned by SimOTA."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from swerve.train.labelled_pictures import FIRST, Target
from swerve.zoo.lights.box_maths import centres, giou, inside, ious
from swerve.zoo.lights.light_network import RARE, STRIDES, WIDTHS, LightNet, cell_centres, conv, rows

RADIUS = 2.5  # cells around the centre of a box that may be assigned to it
CANDIDATES = 10  # of the best overlaps, whose sum is the number of cells that a box gets
BY_OVERLAP, FORBIDDEN = 3.0, 1e5  # costs
FEWEST = 4.0  # the least weight by which a batch is divided: one without heads has no other
EASY = 0.75  # weight of a false answer, before its square
SMALLEST, LARGEST = -4.0, 4.5  # logarithms of the distance to an edge, in cells


class YoloxNet(LightNet):
    """A branch for the kinds and one for the distances to the four edges, at every cell of every level."""

    def __init__(self, kinds: int) -> None:
        super().__init__(kinds)
        self.kind = nn.ModuleList(_branch(width, kinds) for width in WIDTHS)
        self.edges = nn.ModuleList(_branch(width, 4) for width in WIDTHS)
        for kind, edges in zip(self.kind, self.edges, strict=True):
            nn.init.constant_(kind[-1].bias, math.log(RARE / (1 - RARE)))  # type: ignore[index]
            nn.init.constant_(edges[-1].bias, 0.7)  # type: ignore[index]

    def predicted(self, maps: list[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores before their sigmoid and boxes of each image, and the centre and stride of each cell."""
        logits = torch.cat([rows(head(part), self.kinds) for head, part in zip(self.kind, maps, strict=True)], 1)
        edges = torch.cat([rows(head(part), 4) for head, part in zip(self.edges, maps, strict=True)], 1)
        levels = [cell_centres(part, stride) for part, stride in zip(maps, STRIDES, strict=True)]
        strides = torch.cat([torch.full((len(part), 1), float(s)) for part, s in zip(levels, STRIDES, strict=True)])
        points = torch.cat(levels)
        away = edges.clamp(SMALLEST, LARGEST).exp() * strides
        return logits, torch.cat([points - away[..., :2], points + away[..., 2:]], -1), points, strides

    def candidates(self, maps: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        logits, boxes, _, _ = self.predicted(maps)
        return list(boxes), list(logits.sigmoid())

    def losses(self, maps: list[Tensor], targets: Sequence[Target]) -> dict[str, Tensor]:
        """The loss of the kinds, whose wanted score is the overlap of the box, and that of the boxes."""
        logits, boxes, points, strides = self.predicted(maps)
        wanted, counted = torch.zeros_like(logits), torch.ones(logits.shape[:2])
        by_box, weight = logits.new_zeros(()), 0.0
        for number, target in enumerate(targets):
            ignored = inside(points, target["ignore"]).any(1)
            labels = target["labels"] - FIRST
            cell, box = sim_ota(logits[number].detach(), boxes[number].detach(), points, strides, target["boxes"], labels)
            mine, true = boxes[number, cell], target["boxes"][box]
            overlap = ious(mine, true).detach().clamp(min=0.05)
            counted[number, ignored] = 0.0
            counted[number, cell] = 1.0
            wanted[number, cell, labels[box]] = overlap
            by_box = by_box + ((1 - giou(mine, true)) * overlap).sum()
            weight += float(overlap.sum())
        doubt = torch.where(wanted > 0, 1.0, EASY * logits.detach().sigmoid().square()) * counted[..., None]
        by_kind = functional.binary_cross_entropy_with_logits(logits, wanted, weight=doubt, reduction="sum")
        return {"kind": by_kind / max(weight, FEWEST), "box": 2 * by_box / max(weight, FEWEST)}


def _branch(width: int, out: int) -> nn.Sequential:
    last = nn.Conv2d(width, out, 1)
    nn.init.normal_(last.weight, std=0.01)
    return nn.Sequential(conv(width, width), last)


@torch.no_grad()
def sim_ota(
    logits: Tensor, boxes: Tensor, points: Tensor, strides: Tensor, wanted: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """The cells that are to answer with a wanted box, and the box of each: those with the least cost.

    Only cells near the centre of a box may get it, and as many as the sum of its best overlaps; a cell gets one box.
    """
    near = ((points[:, None] - centres(wanted)).abs() < RADIUS * strides[:, None]).all(-1)
    cells = near.any(1).nonzero()[:, 0]
    if not len(cells):
        return cells, cells
    near, overlap = near[cells], ious(boxes[cells, None], wanted)
    forbidden = ~(near & inside(points[cells], wanted))
    cost = _kind_cost(logits[cells], labels) - BY_OVERLAP * (overlap + 1e-8).log()
    cost = cost + FORBIDDEN * (forbidden.float() + (~near).float())
    best = (overlap * near).topk(min(CANDIDATES, len(cells)), dim=0).values.sum(0)
    chosen = _cheapest(cost, best.int().clamp(min=1)) & near
    cell, box = chosen.nonzero(as_tuple=True)
    return cells[cell], box


def _kind_cost(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of the scores of each cell if a box's kind were wanted, cells x boxes."""
    return functional.softplus(logits).sum(1, keepdim=True) - logits[:, labels]


def _cheapest(cost: Tensor, count: Tensor) -> Tensor:
    """For each box (column) its `count` cheapest cells; a cell that several boxes want goes to the cheapest."""
    rank = cost.argsort(dim=0, stable=True).argsort(dim=0)
    chosen = rank < count
    cheapest = functional.one_hot(cost.masked_fill(~chosen, torch.inf).argmin(1), cost.shape[1]).bool()
    return chosen & cheapest
