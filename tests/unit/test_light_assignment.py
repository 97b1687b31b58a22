"""Which predictions learn which box: SimOTA and YOLOv5's assignment by shape, on small cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from swerve.zoo.lights.anchors import PER_CELL, shapes
from swerve.zoo.lights.box_maths import around, ious
from swerve.zoo.lights.yolov5 import assigned
from swerve.zoo.lights.yolox import sim_ota

POINTS = torch.tensor([[x + 0.5, y + 0.5] for y in range(8) for x in range(8)]) * 4
STRIDES = torch.full((64, 1), 4.0)
QUIET = torch.full((64, 2), -4.0)


def tensor(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def sized(width: float, height: float) -> Tensor:
    """A box of one size around every point."""
    return around(POINTS, torch.tensor([width, height]).expand(64, 2))


def assign(boxes: Tensor, wanted: Tensor, labels: list[int], logits: Tensor = QUIET) -> dict[int, int]:
    cell, box = sim_ota(logits, boxes, POINTS, STRIDES, wanted, torch.tensor(labels))
    assert len(set(cell.tolist())) == len(cell)
    return dict(zip(cell.tolist(), box.tolist(), strict=True))


def test_no_boxes_are_assigned_to_nobody():
    assert assign(sized(8, 8), torch.zeros(0, 4), []) == {}


def test_useless_predictions_still_give_one_cell():
    # Boxes of 0.1 pixels overlap a wanted one by next to nothing, so it gets the least number of cells: one.
    wanted = tensor([9, 9, 19, 19])  # the middles of nine cells lie in it, all at the same cost: the first gets it
    assert assign(sized(0.1, 0.1), wanted, [0]) == {2 * 8 + 2: 0}


def test_as_many_cells_as_overlaps_add_up_to():
    wanted = tensor([8, 8, 20, 20])
    boxes = sized(12, 12)
    # Overlaps: 1 at the centre, 96/192 at its four neighbours, 64/224 at the diagonal ones and less farther out. The best
    # ten are 1, 4 x 1/2, 4 x 2/7 and one of (4 x 12) / 240 = 1/5: together 4.34, so four cells.
    overlaps = ious(boxes[:, None], wanted)[:, 0].sort(descending=True).values[:10]
    assert overlaps.sum().item() == pytest.approx(1 + 4 / 2 + 4 * 2 / 7 + 1 / 5, abs=1e-4)
    found = assign(boxes, wanted, [0])
    centre = 3 * 8 + 3
    assert len(found) == 4
    assert centre in found
    assert set(found) <= {centre, centre - 1, centre + 1, centre - 8, centre + 8}


def test_a_surer_cell_is_cheaper():
    wanted = tensor([8, 8, 20, 20])
    sure = QUIET.clone()
    centre = 3 * 8 + 3
    sure[centre + 1, 0] = sure[centre + 8, 0] = sure[centre - 1, 0] = 4.0
    assert set(assign(sized(12, 12), wanted, [0], sure)) == {centre, centre + 1, centre + 8, centre - 1}
    # Sure of another kind, these cells cost more than the one that is left.
    assert centre - 8 in assign(sized(12, 12), wanted, [1], sure)


def test_cells_beside_the_box_come_last():
    # A box of 2 x 30 pixels: only cells of one column lie in it, though others are near its centre.
    wanted = tensor([13, 1, 15, 31])
    found = assign(sized(2, 30), wanted, [0])
    assert len(found) >= 1
    assert {cell % 8 for cell in found} == {3}


def test_two_boxes_share_no_cell():
    wanted = tensor([8, 8, 20, 20], [9, 9, 21, 21])
    found = assign(sized(12, 12), wanted, [0, 1])
    assert set(found.values()) <= {0, 1}


def test_far_cells_get_no_box():
    wanted = tensor([0, 0, 8, 8])
    found = assign(sized(8, 8), wanted, [0])
    away = (POINTS[list(found)] - torch.tensor([4.0, 4.0])).abs().max().item()
    assert away < 2.5 * 4


def places(found: tuple[Tensor, Tensor], wide: int) -> set[tuple[int, int, int, int]]:
    """Column, row, anchor and box of every assignment."""
    return {
        (place // PER_CELL % wide, place // PER_CELL // wide, place % PER_CELL, box)
        for place, box in zip(*(part.tolist() for part in found), strict=True)
    }


def test_a_head_is_answered_by_its_cell_and_two_neighbours():
    # Centre (21, 30) at stride 4: cell (5, 7) at (0.25, 0.5) within it, so its left and lower neighbours too.
    wanted = around(tensor([21, 30]), tensor([8, 21]))
    found = places(assigned(wanted, 0, (16, 16)), 16)
    assert {(x, y) for x, y, _, _ in found} == {(5, 7), (4, 7), (5, 8)}
    anchors = {anchor for _, _, anchor, _ in found}
    ratio = torch.tensor([8.0, 21.0]) / shapes(0)
    fitting = {number for number, each in enumerate(ratio) if max(each.max(), (1 / each).max()) < 4}
    assert anchors == fitting
    assert len(found) == 3 * len(fitting)


def test_neighbours_outside_the_map_are_left_out():
    wanted = around(tensor([1, 1]), tensor([8, 21]))
    assert {(x, y) for x, y, _, _ in places(assigned(wanted, 0, (16, 16)), 16)} == {(0, 0)}


def test_a_box_of_a_strange_shape_has_no_anchor():
    wanted = around(tensor([21, 30]), tensor([1, 60]))
    place, box = assigned(wanted, 0, (16, 16))
    assert len(place) == len(box) == 0


def test_no_box_no_assignment():
    place, box = assigned(torch.zeros(0, 4), 1, (8, 8))
    assert len(place) == len(box) == 0


def test_every_head_size_has_an_anchor_somewhere():
    rng = np.random.default_rng(0)
    for _ in range(50):
        wide = float(rng.uniform(6.5, 55))
        shape = tensor([wide, wide * float(rng.uniform(2.0, 3.2))])
        for span in (shape, shape.flip(-1)):
            wanted = around(tensor([400, 300]), span)
            assert sum(len(assigned(wanted, number, (200 >> number, 200 >> number))[0]) for number in range(3)) > 0
