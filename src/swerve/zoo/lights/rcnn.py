"""A detector after Faster R-CNN: a first stage proposes regions, a second one classifies and corrects each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from swerve.systems.detector import suppress_overlaps
from swerve.train.labelled_pictures import Target
from swerve.zoo.lights.anchors import BACKGROUND, PER_CELL, UNDECIDED, anchors_of, matched
from swerve.zoo.lights.box_maths import centres, decoded, encoded, inside
from swerve.zoo.lights.light_network import RARE, STRIDES, WIDTHS, LightNet, rows

OBJECT, NO_OBJECT = 0.5, 0.3  # IoU of an anchor with a head, and below which it has none
ANCHORS, REGIONS = 64, 48  # per picture in the losses of the two stages
REGION = 0.5  # IoU of a region with the head that it is to answer with
HEADS = 0.25  # the largest share of the regions in the loss that show a head
PROPOSED, COMPARED, APART = 100, 600, 0.7  # regions of a picture, those before overlaps above an IoU are dropped
CELLS, POINTS = 7, 2  # of a region along each axis, and the points of each cell
FEATURES = 128
LEAST = 1.0  # pixels: narrower proposals are widened


class RcnnNet(LightNet):
    """Objectness and shifts of anchors on all levels; kinds and shifts of regions from the finest one."""

    def __init__(self, kinds: int) -> None:
        super().__init__(kinds)
        self.objects = nn.ModuleList(nn.Conv2d(width, PER_CELL, 3, padding=1) for width in WIDTHS)
        self.shifts = nn.ModuleList(nn.Conv2d(width, PER_CELL * 4, 3, padding=1) for width in WIDTHS)
        for head in (*self.objects, *self.shifts):
            nn.init.normal_(head.weight, std=0.01)
        for head in self.objects:
            nn.init.constant_(head.bias, math.log(RARE / (1 - RARE)))  # type: ignore[arg-type]
        flat = WIDTHS[0] * CELLS**2
        self.region = nn.Sequential(
            nn.Flatten(), nn.Linear(flat, FEATURES), nn.ReLU(), nn.Linear(FEATURES, FEATURES), nn.ReLU()
        )
        self.kind, self.correction = nn.Linear(FEATURES, kinds + 1), nn.Linear(FEATURES, 4)
        for last in (self.kind, self.correction):
            nn.init.normal_(last.weight, std=0.01)

    def proposed(self, maps: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Objectness before its sigmoid and shifts of each image, and the anchors."""
        objects = [rows(head(part), 1) for head, part in zip(self.objects, maps, strict=True)]
        shifts = [rows(head(part), 4) for head, part in zip(self.shifts, maps, strict=True)]
        return torch.cat(objects, 1)[..., 0], torch.cat(shifts, 1), anchors_of(maps)

    def judged(self, maps: Tensor, regions: Tensor) -> tuple[Tensor, Tensor]:
        """Kinds before their softmax, the background first, and shifts of some regions of one image."""
        features = self.region(region_features(maps.float(), regions, STRIDES[0]))
        return self.kind(features).float(), self.correction(features).float()

    def candidates(self, maps: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        objects, shifts, anchors = self.proposed(maps)
        boxes, scores = [], []
        for number in range(len(objects)):
            regions = proposals(objects[number], decoded(shifts[number], anchors), size_of(maps[0]))
            kinds, corrections = self.judged(maps[0][number], regions)
            boxes.append(decoded(corrections, regions))
            scores.append(kinds.softmax(-1)[:, 1:])
        return boxes, scores

    def losses(self, maps: list[Tensor], targets: Sequence[Target]) -> dict[str, Tensor]:
        """Objectness and shifts of sampled anchors, kinds and shifts of sampled regions."""
        objects, shifts, anchors = self.proposed(maps)
        parts = []
        for number, target in enumerate(targets):
            first = _anchor_losses(objects[number], shifts[number], anchors, target)
            boxes = decoded(shifts[number].detach(), anchors)
            regions = torch.cat([proposals(objects[number].detach(), boxes, size_of(maps[0])), target["boxes"]])
            parts.append(first | self._region_losses(maps[0][number], regions, target))
        return {name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}

    def _region_losses(self, maps: Tensor, regions: Tensor, target: Target) -> dict[str, Tensor]:
        regions, match = sampled_regions(regions, target)
        kinds, corrections = self.judged(maps, regions)
        mine = match >= 0
        label = torch.zeros_like(match)
        label[mine] = target["labels"][match[mine]]
        wanted = encoded(target["boxes"][match[mine]], regions[mine])
        by_box = functional.smooth_l1_loss(corrections[mine], wanted, reduction="sum") / max(len(match), 1)
        by_kind = functional.cross_entropy(kinds, label, reduction="sum") / max(len(match), 1)
        return {"region_kind": by_kind, "region_box": by_box}


def _anchor_losses(objects: Tensor, shifts: Tensor, anchors: Tensor, target: Target) -> dict[str, Tensor]:
    match = matched(anchors, target["boxes"], least=OBJECT, below=NO_OBJECT)
    match[(match < 0) & inside(centres(anchors), target["ignore"]).any(1)] = UNDECIDED
    with_head, without = sample(match >= 0, ANCHORS // 2), match == BACKGROUND
    chosen = torch.cat([with_head, sample(without, ANCHORS - len(with_head))])
    wanted = (match[chosen] >= 0).float()
    mine = encoded(target["boxes"][match[with_head]], anchors[with_head])
    by_box = functional.smooth_l1_loss(shifts[with_head], mine, reduction="sum") / ANCHORS
    by_object = functional.binary_cross_entropy_with_logits(objects[chosen], wanted, reduction="sum") / ANCHORS
    return {"object": by_object, "box": by_box}


def sample(which: Tensor, most: int) -> Tensor:
    """The numbers of at most `most` of the true ones, drawn from torch's generator."""
    numbers = which.nonzero()[:, 0]
    return numbers[torch.randperm(len(numbers))[:most]]


def sampled_regions(regions: Tensor, target: Target) -> tuple[Tensor, Tensor]:
    """Regions for the loss, and the number of each one's head or `BACKGROUND`."""
    match = torch.full((len(regions),), BACKGROUND)
    if len(target["boxes"]):
        match = matched(regions, target["boxes"], least=REGION, below=REGION)
    with_head = sample(match >= 0, round(REGIONS * HEADS))
    free = (match == BACKGROUND) & ~inside(centres(regions), target["ignore"]).any(1)
    chosen = torch.cat([with_head, sample(free, REGIONS - len(with_head))])
    return regions[chosen], match[chosen]


def size_of(maps: Tensor) -> tuple[int, int]:
    """Width and height in pixels of what the finest maps show."""
    return maps.shape[-1] * STRIDES[0], maps.shape[-2] * STRIDES[0]


@torch.no_grad()
def proposals(objects: Tensor, boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """The best boxes of one image that do not overlap much, within the picture."""
    score, place = objects.topk(min(COMPARED, len(objects)))
    limits = boxes.new_tensor([*size, *size])
    clipped = torch.minimum(boxes[place].clamp(min=0), limits)
    low = torch.minimum(clipped[:, :2], limits[:2] - LEAST)
    shown = torch.cat([low, torch.maximum(clipped[:, 2:], low + LEAST)], -1)
    labels = torch.zeros(len(shown)).numpy()
    kept = suppress_overlaps(shown.double().numpy(), score.double().numpy(), labels, iou=APART, most=PROPOSED)
    return shown[torch.from_numpy(kept)]


def region_features(maps: Tensor, regions: Tensor, stride: int) -> Tensor:
    """RoI align: regions x channels x cells x cells, each the mean of points between which the maps are interpolated.

    The value of a map belongs to the middle of its cell; beyond the outermost ones it stays as it is there.
    """
    high, wide = maps.shape[-2:]
    side = CELLS * POINTS
    steps = (torch.arange(side) + 0.5) / side
    low, span = regions[:, :2], regions[:, 2:] - regions[:, :2]
    x, y = ((low[:, None] + steps[:, None] * span[:, None]) / stride).unbind(-1)
    grid = torch.stack(
        [(2 * x / wide - 1)[:, None].expand(-1, side, -1), (2 * y / high - 1)[:, :, None].expand(-1, -1, side)], -1
    )
    points = functional.grid_sample(maps[None], grid.reshape(1, -1, side, 2), padding_mode="border", align_corners=False)
    return functional.avg_pool2d(points[0].reshape(len(maps), -1, side, side).movedim(0, 1), POINTS)
