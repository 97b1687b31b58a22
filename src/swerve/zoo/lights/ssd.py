"""A detector after SSD: default boxes at every cell, a softmax over kinds and background, and hard negatives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from swerve.train.labelled_pictures import Target
from swerve.zoo.lights.anchors import BACKGROUND, PER_CELL, anchors_of, matched
from swerve.zoo.lights.box_maths import centres, decoded, encoded, inside
from swerve.zoo.lights.light_network import RARE, WIDTHS, LightNet, rows

MATCHING = 0.5  # IoU
NEGATIVES = 3  # per default box with a head: those that are mistaken most
FEWEST = 10  # negatives of a picture without any head


class SsdNet(LightNet):
    """One convolution on each level answers with kinds and shifts of the default boxes of every cell."""

    def __init__(self, kinds: int) -> None:
        super().__init__(kinds)
        self.scores = nn.ModuleList(nn.Conv2d(width, PER_CELL * (kinds + 1), 3, padding=1) for width in WIDTHS)
        self.shifts = nn.ModuleList(nn.Conv2d(width, PER_CELL * 4, 3, padding=1) for width in WIDTHS)
        for head in self.scores:
            prior = [math.log((1 - RARE) / RARE * kinds), *[0.0] * kinds]
            head.bias = nn.Parameter(torch.tensor(prior * PER_CELL))
        for head in (*self.scores, *self.shifts):
            nn.init.normal_(head.weight, std=0.01)

    def predicted(self, maps: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Scores before their softmax, the background first, shifts, and the default boxes."""
        scores = [rows(head(part), self.kinds + 1) for head, part in zip(self.scores, maps, strict=True)]
        shifts = [rows(head(part), 4) for head, part in zip(self.shifts, maps, strict=True)]
        return torch.cat(scores, 1), torch.cat(shifts, 1), anchors_of(maps)

    def candidates(self, maps: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        scores, shifts, anchors = self.predicted(maps)
        return list(decoded(shifts, anchors)), list(scores.softmax(-1)[..., 1:])

    def losses(self, maps: list[Tensor], targets: Sequence[Target]) -> dict[str, Tensor]:
        """The multi-box loss: cross entropy on matched and the hardest other default boxes, smooth L1 on matched ones."""
        scores, shifts, anchors = self.predicted(maps)
        by_kind = by_box = scores.new_zeros(())
        count = 0
        for score, shift, target in zip(scores, shifts, targets, strict=True):
            match = matched(anchors, target["boxes"], least=MATCHING, below=MATCHING)
            mine = match >= 0
            kind = torch.zeros_like(match)
            kind[mine] = target["labels"][match[mine]]
            free = (match == BACKGROUND) & ~inside(centres(anchors), target["ignore"]).any(1)
            errors = functional.cross_entropy(score, kind, reduction="none")
            by_kind = by_kind + errors[mine].sum() + errors[hardest(errors, free, int(mine.sum()))].sum()
            wanted = encoded(target["boxes"][match[mine]], anchors[mine])
            by_box = by_box + functional.smooth_l1_loss(shift[mine], wanted, reduction="sum")
            count += int(mine.sum())
        return {"kind": by_kind / max(count, 1), "box": by_box / max(count, 1)}


def hardest(errors: Tensor, free: Tensor, matches: int) -> Tensor:
    """The numbers of the free default boxes with the largest errors: three for each match, a few where there is none."""
    count = min(max(NEGATIVES * matches, FEWEST), int(free.sum()))
    return errors.detach().masked_fill(~free, -1.0).topk(count).indices
