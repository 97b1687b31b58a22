"""Box arithmetic, anchors, matching and RoI align of the light detectors, against cases computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from swerve.systems.detector import iou_matrix
from swerve.zoo.lights.anchors import ASPECT, BACKGROUND, PER_CELL, SHORT, UNDECIDED, anchors_of, matched, shapes
from swerve.zoo.lights.box_maths import areas, around, centres, ciou, decoded, encoded, giou, inside, ious, spans
from swerve.zoo.lights.light_network import cell_centres, detections, rows
from swerve.zoo.lights.rcnn import CELLS, proposals, region_features, sample
from swerve.zoo.lights.ssd import hardest

numbers = st.floats(0, 400, width=32)
sides = st.floats(2, 200, width=32)
boxes = st.builds(lambda x, y, w, h: [x, y, x + w, y + h], numbers, numbers, sides, sides)


def tensor(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def test_overlap_of_halves_is_a_third():
    one, other = tensor([0, 0, 10, 10]), tensor([5, 0, 15, 10])
    assert ious(one, other).tolist() == pytest.approx([1 / 3])
    assert areas(one).tolist() == [100]


def test_a_reversed_box_overlaps_nothing():
    assert ious(tensor([10, 10, 0, 0]), tensor([0, 0, 10, 10])).tolist() == [0]


def test_giou_counts_the_gap():
    # 10 wide each, 10 apart: enclosing box of 300, of which 100 are in neither.
    assert giou(tensor([0, 0, 10, 10]), tensor([20, 0, 30, 10])).tolist() == pytest.approx([-1 / 3])


def test_ciou_of_shifted_boxes_loses_their_distance():
    # Equal aspect: only the centres differ, by 5, in an enclosing box of 15 x 10.
    expected = 1 / 3 - 25 / (225 + 100)
    assert ciou(tensor([0, 0, 10, 10]), tensor([5, 0, 15, 10])).tolist() == pytest.approx([expected], abs=1e-6)


def test_ciou_punishes_another_aspect():
    tall, flat = tensor([-1, -2, 1, 2]), tensor([-2, -1, 2, 1])
    overlap = 4 / 12
    aspect = 4 / math.pi**2 * (math.atan(0.5) - math.atan(2)) ** 2
    assert ciou(tall, flat).tolist() == pytest.approx([overlap - aspect * aspect / (1 - overlap + aspect)], abs=1e-5)


@given(st.lists(boxes, min_size=1, max_size=4), st.lists(boxes, min_size=1, max_size=4))
def test_overlaps_agree_with_those_of_the_decoders(ones, others):
    mine = ious(tensor(*ones)[:, None], tensor(*others)).numpy()
    assert mine == pytest.approx(iou_matrix(np.array(ones), np.array(others)), abs=1e-4)


@given(boxes, boxes.filter(lambda box: min(box[2] - box[0], box[3] - box[1]) >= 8))
def test_what_was_encoded_is_decoded(box, anchor):
    back = decoded(encoded(tensor(box), tensor(anchor)), tensor(anchor))
    assert back[0].tolist() == pytest.approx(box, rel=1e-3, abs=5e-2)


def test_a_box_on_its_anchor_is_encoded_as_zeros():
    box = tensor([3, 5, 11, 26])
    assert encoded(box, box).tolist() == [[0, 0, 0, 0]]


def test_wild_predictions_stay_finite():
    assert torch.isfinite(decoded(torch.full((1, 4), 1e6), tensor([0, 0, 8, 8]))).all()


@given(boxes)
def test_centre_and_span_make_the_box(box):
    given = tensor(box)
    assert around(centres(given), spans(given))[0].tolist() == pytest.approx(box, abs=1e-3)


def test_points_on_an_edge_are_not_inside():
    found = inside(tensor([5, 5], [0, 5], [11, 5]), tensor([0, 0, 10, 10]))
    assert found.tolist() == [[True], [False], [False]]


def test_cells_are_listed_row_by_row():
    assert cell_centres(torch.zeros(1, 1, 2, 3), 4).tolist() == [[2, 2], [6, 2], [10, 2], [2, 6], [6, 6], [10, 6]]


def test_predictions_of_a_cell_follow_each_other():
    maps = torch.arange(2 * 6 * 1 * 2).reshape(2, 6, 1, 2)  # two predictions of three numbers at two cells
    found = rows(maps, 3)
    assert found.shape == (2, 4, 3)
    assert found[0].tolist() == [[0, 2, 4], [6, 8, 10], [1, 3, 5], [7, 9, 11]]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_anchors_stand_and_lie(level):
    found = shapes(level)
    assert len(found) == PER_CELL
    assert {round(float(each.max() / each.min()), 4) for each in found} == {ASPECT}
    assert found.amin(1).tolist() == [side for side in SHORT[level] for _ in range(2)]
    assert (found[::2, 1] > found[::2, 0]).all()
    assert (found[1::2, 1] < found[1::2, 0]).all()


def test_every_cell_has_its_anchors():
    maps = [torch.zeros(1, 1, size, size) for size in (4, 2, 1)]
    found = anchors_of(maps)
    assert len(found) == PER_CELL * (16 + 4 + 1)
    assert centres(found[:PER_CELL]).tolist() == [[2, 2]] * PER_CELL
    assert centres(found[PER_CELL : 2 * PER_CELL]).tolist() == [[6, 2]] * PER_CELL
    assert centres(found[-PER_CELL:]).tolist() == [[8, 8]] * PER_CELL
    assert spans(found[PER_CELL : 2 * PER_CELL])[0].tolist() == pytest.approx([8, 8 * ASPECT])


def test_anchors_match_by_overlap():
    anchors = tensor([0, 0, 10, 10], [0, 0, 10, 14], [0, 0, 10, 30], [50, 50, 60, 60], [0, 0, 10, 20])
    wanted = tensor([0, 0, 10, 10])  # overlaps 1, 0.71, 0.33, 0, 0.5
    found = matched(anchors, wanted, least=0.6, below=0.4)
    assert found.tolist() == [0, 0, BACKGROUND, BACKGROUND, UNDECIDED]


def test_every_box_gets_its_best_anchor():
    anchors = tensor([0, 0, 40, 40], [100, 100, 140, 140])
    wanted = tensor([0, 0, 10, 10], [300, 300, 310, 310])  # overlaps of 1/16 and none
    assert matched(anchors, wanted, least=0.5, below=0.5).tolist() == [0, BACKGROUND]


def test_without_boxes_all_is_background():
    assert matched(torch.zeros(3, 4), torch.zeros(0, 4), least=0.5, below=0.4).tolist() == [BACKGROUND] * 3


def test_three_hard_negatives_for_a_match():
    errors = torch.tensor([9.0, 1.0, 5.0, 8.0, 2.0, 7.0, 0.5, *[0.1] * 20])
    free = torch.ones(27, dtype=torch.bool)
    free[0] = False
    assert set(hardest(errors, free, 1).tolist()[:3]) == {3, 5, 2}
    assert len(hardest(errors, free, 4)) == 12
    assert len(hardest(errors, free, 0)) == 10
    assert len(hardest(errors, free, 100)) == 26
    assert 0 not in hardest(errors, free, 100)


def test_samples_are_among_the_true_ones():
    which = torch.tensor([True, False, True, True, False])
    torch.manual_seed(0)
    drawn = sample(which, 2)
    assert len(drawn) == 2
    assert set(drawn.tolist()) < {0, 2, 3}
    assert sorted(sample(which, 9).tolist()) == [0, 2, 3]


def ramp(high: int, wide: int) -> Tensor:
    """Maps whose value is the column, and the row, in cells, at the middle of each cell."""
    y, x = torch.meshgrid(torch.arange(high) + 0.5, torch.arange(wide) + 0.5, indexing="ij")
    return torch.stack([x, y])


def test_roi_align_reads_a_ramp_exactly():
    # In pixels of stride 4: columns 8 to 36 are cells 2 to 9, of which each of the seven cells of the region has one.
    found = region_features(ramp(20, 20), tensor([8, 16, 36, 72]), 4)
    assert found.shape == (1, 2, CELLS, CELLS)
    assert found[0, 0, 0].tolist() == pytest.approx([2.5 + step for step in range(7)], abs=1e-5)
    assert found[0, 1, :, 0].tolist() == pytest.approx([5 + 2 * step for step in range(7)], abs=1e-5)


def test_roi_align_interpolates_between_cells():
    maps = torch.zeros(1, 4, 4)
    maps[0, 1, 1], maps[0, 1, 2] = 1.0, 3.0
    # A region of next to no size around a point a quarter of the way from the middle of one cell to that of the other.
    x, y = (1.75 * 4, 1.5 * 4)
    found = region_features(maps, tensor([x - 1e-4, y - 1e-4, x + 1e-4, y + 1e-4]), 4)
    assert found.mean().item() == pytest.approx(1.5, abs=1e-3)


def test_roi_align_stays_at_the_border():
    found = region_features(ramp(8, 8), tensor([-40, -40, -30, -30]), 4)
    assert found.flatten().tolist() == pytest.approx([0.5] * found.numel())


def test_regions_do_not_mix():
    maps = ramp(20, 20)
    both = tensor([8, 16, 36, 72], [0, 0, 28, 28])
    together = region_features(maps, both, 4)
    for number in range(2):
        assert torch.equal(together[number : number + 1], region_features(maps, both[number : number + 1], 4))


def test_proposals_keep_the_best_of_overlapping_boxes():
    found = proposals(torch.tensor([0.1, 0.9, 0.5]), tensor([0, 0, 10, 10], [0, 0, 10, 11], [50, 50, 90, 70]), (64, 64))
    assert found.tolist() == [[0, 0, 10, 11], [50, 50, 64, 64]]


def test_proposals_beside_the_picture_stay_boxes():
    found = proposals(torch.tensor([1.0, 0.5]), tensor([90, 90, 99, 99], [-9, -9, -5, -5]), (64, 64))
    assert (spans(found) >= 1).all()
    assert (found >= 0).all()
    assert (found <= 64).all()


def test_worse_boxes_of_one_kind_are_dropped():
    boxes = tensor([0, 0, 10, 20], [0, 0, 10, 19], [40, 0, 50, 20])
    scores = torch.tensor([[0.9, 0.0], [0.8, 0.3], [0.0, 0.7]])
    found = detections(boxes, scores, (64, 64))
    assert found["labels"].tolist() == [1, 2, 2]
    assert found["scores"].tolist() == pytest.approx([0.9, 0.7, 0.3])
    assert found["boxes"].tolist() == [[0, 0, 10, 20], [40, 0, 50, 20], [0, 0, 10, 19]]


def test_boxes_are_clipped_to_the_picture():
    found = detections(tensor([-5, -5, 5, 5], [70, 70, 80, 80]), torch.tensor([[0.9], [0.8]]), (64, 64))
    assert found["boxes"].tolist() == [[0, 0, 5, 5]]


def test_hardly_likely_boxes_are_not_returned():
    found = detections(tensor([0, 0, 5, 5]), torch.tensor([[0.001, 0.009]]), (64, 64))
    assert [len(found[name]) for name in ("boxes", "labels", "scores")] == [0, 0, 0]
