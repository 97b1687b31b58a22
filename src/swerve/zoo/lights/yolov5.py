"""A detector after YOLOv5: anchors, objectness and kinds at every cell, and labels assigned by the shape of a box."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from swerve.train.labelled_pictures import FIRST, Target
from swerve.zoo.lights.anchors import PER_CELL, shapes
from swerve.zoo.lights.box_maths import around, centres, ciou, inside, spans
from swerve.zoo.lights.light_network import RARE, STRIDES, WIDTHS, LightNet, cell_centres, rows

ALIKE = 4.0  # the greatest ratio of a box's width or height to that of an anchor that may answer with it
BALANCE = (4.0, 1.0, 0.4)  # of the objectness on the levels, finest first
# Gains as in YOLOv5 for pictures of 320 pixels and four kinds, times twenty.
BOX, OBJECT, KIND = 1.0, 5.0, 0.5


class YoloV5Net(LightNet):
    """One convolution on each level answers with a box, an objectness and kinds for each anchor of every cell."""

    def __init__(self, kinds: int) -> None:
        super().__init__(kinds)
        self.heads = nn.ModuleList(nn.Conv2d(width, PER_CELL * (5 + kinds), 1) for width in WIDTHS)
        for head in self.heads:
            nn.init.normal_(head.weight, std=0.01)  # type: ignore[arg-type]
            prior = [*[0.0] * 4, math.log(RARE / (1 - RARE)), *[0.0] * kinds]
            head.bias = nn.Parameter(torch.tensor(prior * PER_CELL))

    def level(self, number: int, maps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Boxes, objectness and kinds before their sigmoid of one level, images x (cells x anchors)."""
        stride = STRIDES[number]
        numbers = rows(self.heads[number](maps), 5 + self.kinds)
        cell = cell_centres(maps, stride).repeat_interleave(PER_CELL, 0)
        shape = shapes(number).repeat(len(cell) // PER_CELL, 1)
        shares = numbers[..., :4].sigmoid()
        middle = cell + (2 * shares[..., :2] - 1) * stride
        return around(middle, (2 * shares[..., 2:]).square() * shape), numbers[..., 4], numbers[..., 5:]

    def candidates(self, maps: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        levels = [self.level(number, part) for number, part in enumerate(maps)]
        boxes, objects, kinds = (torch.cat(parts, 1) for parts in zip(*levels, strict=True))
        return list(boxes), list(objects.sigmoid()[..., None] * kinds.sigmoid())

    def losses(self, maps: list[Tensor], targets: Sequence[Target]) -> dict[str, Tensor]:
        """CIoU of the boxes, objectness that wants to be their overlap, and cross entropy of the kinds."""
        total = {name: maps[0].new_zeros((), dtype=torch.float32) for name in ("box", "object", "kind")}
        for number, part in enumerate(maps):
            for name, loss in self._level_losses(number, part, targets).items():
                total[name] = total[name] + loss
        return total

    def _level_losses(self, number: int, maps: Tensor, targets: Sequence[Target]) -> dict[str, Tensor]:
        boxes, objects, kinds = self.level(number, maps)
        size = (maps.shape[-1], maps.shape[-2])
        picks = [assigned(target["boxes"], number, size) for target in targets]
        image = torch.cat([torch.full_like(place, count) for count, (place, _) in enumerate(picks)])
        place = torch.cat([place for place, _ in picks])
        pairs = list(zip(targets, picks, strict=True))
        true = torch.cat([target["boxes"][box] for target, (_, box) in pairs])
        label = torch.cat([target["labels"][box] - FIRST for target, (_, box) in pairs])
        overlap = ciou(boxes[image, place], true)
        wanted, counted = torch.zeros_like(objects), torch.ones_like(objects)
        cell = cell_centres(maps, STRIDES[number]).repeat_interleave(PER_CELL, 0)
        for count, target in enumerate(targets):
            counted[count, inside(cell, target["ignore"]).any(1)] = 0.0
        wanted[image, place], counted[image, place] = overlap.detach().clamp(min=0), 1.0
        by_object = functional.binary_cross_entropy_with_logits(objects, wanted, weight=counted)
        if not len(place):
            return {"object": OBJECT * BALANCE[number] * by_object}
        states = functional.one_hot(label, self.kinds).float()
        by_kind = functional.binary_cross_entropy_with_logits(kinds[image, place], states)
        by_box = (1 - overlap).mean()
        return {"box": BOX * by_box, "object": OBJECT * BALANCE[number] * by_object, "kind": KIND * by_kind}


@torch.no_grad()
def assigned(wanted: Tensor, level: int, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The predictions of a level of `size` cells that are to answer with a wanted box, and the number of each one's box.

    They are those of every anchor with a similar shape, at the cell of the box's centre and at its two nearest neighbours.
    """
    ratio = spans(wanted)[:, None] / shapes(level)
    box, anchor = (torch.maximum(ratio, 1 / ratio).amax(-1) < ALIKE).nonzero(as_tuple=True)
    at = centres(wanted)[box] / STRIDES[level]
    cell, wide, high = at.floor(), *size
    aside = torch.where(at - cell < 0.5, -1.0, 1.0)
    steps = torch.stack([torch.zeros_like(aside), aside * aside.new_tensor([1, 0]), aside * aside.new_tensor([0, 1])])
    x, y = (cell + steps).long().unbind(-1)
    shown = (x >= 0) & (x < wide) & (y >= 0) & (y < high)
    places = (y * wide + x) * PER_CELL + anchor
    return places[shown], box.expand(3, -1)[shown]
