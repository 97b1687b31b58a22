from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize  # noqa: F401  # imported on first use otherwise, which would count against a deadline
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.values import Array, Boxes2D, Boxes3D
from swerve.relations.matching import (
    Boxes,
    Differences,
    Same,
    above_score,
    box_distances,
    box_overlaps,
    box_shares,
    differences,
    ground_overlaps,
    match,
    overlaps,
    same_kinds,
)

corner = st.integers(0, 12)
boxes_2d = st.lists(st.tuples(corner, corner, corner, corner), max_size=5).map(lambda rows: np.array(rows).reshape(-1, 4))
turned = st.tuples(
    *(st.floats(-6, 6), st.floats(-6, 6), st.just(0.0)),
    *(st.floats(0.5, 5), st.floats(0.5, 5), st.just(1.5), st.floats(-4, 4)),
)
boxes_3d = st.lists(turned, min_size=1, max_size=4).map(np.array)
affinities = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2**32 - 1))
seeds = st.integers(0, 2**16)


def flat(*rows: tuple[float, ...], kinds: str = "", care: str = "") -> Boxes2D:
    """Boxes by corners; kinds by a letter each ("a" unless given), care False where the mark is "-"."""
    cares = np.array([mark != "-" for mark in care or "+" * len(rows)])
    return Boxes2D(np.array(rows, dtype=float).reshape(-1, 4), tuple(kinds or "a" * len(rows)), care=cares)


def ground(x: float, y: float, length: float = 4.0, width: float = 2.0, yaw: float = 0.0) -> Array:
    return np.array([[x, y, 0, length, width, 1.5, yaw]])


def random_weights(rows: int, columns: int, seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    affinity = np.round(rng.random((rows, columns)), 1)  # with ties
    return affinity, affinity >= 0.4, rng.random(rows) < 0.6


def worth(pairs: tuple[tuple[int, int], ...], affinity: Array, care: Array) -> tuple[int, int, float]:
    return sum(bool(care[row]) for row, _ in pairs), len(pairs), round(sum(float(affinity[pair]) for pair in pairs), 9)


def best_by_force(affinity: Array, allowed: Array, care: Array) -> tuple[int, int, float]:
    choices = itertools.product(*([None, *np.flatnonzero(row)] for row in allowed))
    sets = (tuple((row, column) for row, column in enumerate(choice) if column is not None) for choice in choices)
    one_to_one = (pairs for pairs in sets if len({column for _, column in pairs}) == len(pairs))
    return max((worth(pairs, affinity, care) for pairs in one_to_one), default=(0, 0, 0.0))


def test_overlap_has_known_values() -> None:
    square = np.array([[0, 0, 2, 2]])
    others = np.array([[0, 0, 2, 2], [0, 0, 1, 2], [1, 1, 3, 3], [2, 0, 4, 2], [9, 9, 10, 10]])
    assert overlaps(square, others).tolist() == [[1.0, 0.5, 1 / 7, 0.0, 0.0]]


@given(boxes_2d, boxes_2d)
def test_overlap_is_symmetric(first: Array, second: Array) -> None:
    both = overlaps(first, second)
    assert np.array_equal(both, overlaps(second, first).T)
    assert ((both >= 0) & (both <= 1)).all()


@given(boxes_2d)
def test_box_is_always_itself(boxes: Array) -> None:
    assert (np.diag(overlaps(boxes, boxes)) == 1).all()


@given(boxes_2d, boxes_2d)
def test_overlap_counts_pixels(first: Array, second: Array) -> None:
    def painted(box: Array) -> Array:
        canvas = np.zeros((12, 12), dtype=bool)
        canvas[box[1] : box[3], box[0] : box[2]] = True
        return canvas

    for i, j in itertools.product(range(len(first)), range(len(second))):
        ours, theirs = painted(first[i]), painted(second[j])
        if (ours | theirs).any() and not np.array_equal(first[i], second[j]):
            assert overlaps(first, second)[i, j] == (ours & theirs).sum() / (ours | theirs).sum()


def test_ground_overlap_has_known_values() -> None:
    square, octagon = ground(0, 0, 2, 2), 8 * (math.sqrt(2) - 1)
    others = [
        ground(1, 0, 2, 2),
        ground(0, 0, 2, 2, math.pi / 4),
        ground(0, 0, 1, 2),
        ground(5, 5, 2, 2),
        ground(2, 0, 2, 2),
    ]
    found = ground_overlaps(square, np.concatenate(others))
    assert found[0] == pytest.approx([1 / 3, octagon / (8 - octagon), 0.5, 0, 0])


def test_half_turn_changes_nothing() -> None:
    box = ground(30, 40, yaw=0.3)
    assert ground_overlaps(box, ground(30, 40, yaw=0.3 + math.pi)) == pytest.approx(1)
    assert ground_overlaps(box, ground(30, 40, 2, 4, yaw=0.3 + math.pi / 2)) == pytest.approx(1)


@pytest.mark.parametrize("yaw", np.linspace(-3, 3, 13))
def test_edges_on_one_line_count(yaw: float) -> None:
    cos, sin = math.cos(yaw), math.sin(yaw)
    assert ground_overlaps(ground(0, 0, 1, 2, yaw), ground(-sin, cos, 1, 1, yaw)) == pytest.approx(0.2)
    assert ground_overlaps(ground(0, 0, 1, 1, yaw), ground(-sin, cos, 1, 1, yaw)) == pytest.approx(0, abs=1e-9)


def test_crossed_boxes_share_a_square() -> None:
    assert ground_overlaps(ground(0, 0, 10, 2), ground(0, 0, 10, 2, math.pi / 2)) == pytest.approx(4 / 36)


@given(boxes_3d, boxes_3d, st.floats(-4, 4), st.floats(-80, 80))
def test_ground_overlap_ignores_the_frame(first: Array, second: Array, turn: float, shift: float) -> None:
    def seen_elsewhere(boxes: Array) -> Array:
        x, y = boxes[:, 0], boxes[:, 1]
        cos, sin = math.cos(turn), math.sin(turn)
        return np.column_stack([x * cos - y * sin + shift, x * sin + y * cos, boxes[:, 2:6], boxes[:, 6] + turn])

    found = ground_overlaps(first, second)
    assert ground_overlaps(seen_elsewhere(first), seen_elsewhere(second)) == pytest.approx(found, abs=1e-6)
    swapped = ground_overlaps(second, first).T
    assert swapped == pytest.approx(found, abs=1e-6)


@given(boxes_3d, boxes_3d)
def test_unturned_boxes_are_upright(first: Array, second: Array) -> None:
    first[:, 6] = second[:, 6] = 0

    def upright(boxes: Array) -> Array:
        return np.hstack([boxes[:, :2] - boxes[:, 3:5] / 2, boxes[:, :2] + boxes[:, 3:5] / 2])

    assert ground_overlaps(first, second) == pytest.approx(overlaps(upright(first), upright(second)), abs=1e-6)


@given(turned, turned)
def test_ground_overlap_counts_points(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    points = np.stack(np.meshgrid(*[np.arange(-10, 10, 0.1) + 0.05] * 2), -1).reshape(-1, 2)

    def holds(box: tuple[float, ...]) -> Array:
        gap, (cos, sin) = points - box[:2], (math.cos(box[6]), math.sin(box[6]))
        return (np.abs(gap @ (cos, sin)) <= box[3] / 2) & (np.abs(gap @ (-sin, cos)) <= box[4] / 2)

    shared = float(ground_overlaps(np.array([first]), np.array([second]))[0, 0])
    areas = first[3] * first[4] + second[3] * second[4]
    seen = 400 * float((holds(first) & holds(second)).mean())
    assert shared / (1 + shared) * areas == pytest.approx(seen, abs=1.0)


def test_distances_are_of_centres() -> None:
    assert box_distances(flat((0, 0, 2, 2)), flat((3, 4, 5, 6))).tolist() == [[5.0]]
    assert box_distances(Boxes3D(ground(0, 0), ("a",)), Boxes3D(ground(3, 4), ("a",))).tolist() == [[5.0]]


def test_share_is_of_the_second() -> None:
    assert box_shares(flat((0, 0, 10, 10)), flat((0, 0, 1, 1), (-1, 0, 1, 1), (20, 0, 21, 1))).tolist() == [[1.0, 0.5, 0.0]]
    large, little = Boxes3D(ground(0, 0, 8, 8), ("a",)), Boxes3D(ground(0, 0, 2, 2, 0.7), ("a",))
    assert box_shares(large, little) == pytest.approx(1)


@pytest.mark.parametrize("make", [lambda: flat(), lambda: Boxes3D([], ())])  # type: ignore[arg-type]
def test_nothing_overlaps_nothing(make: type[Boxes]) -> None:
    assert box_overlaps(make(), make()).shape == (0, 0)
    assert differences(make(), make(), Same()) == Differences(spare=0.5)


@given(affinities)
def test_matching_is_the_best(shape: tuple[int, int, int]) -> None:
    affinity, allowed, care = random_weights(*shape)
    assert worth(match(affinity, allowed, care).pairs, affinity, care) == best_by_force(affinity, allowed, care)


@given(affinities)
def test_matching_is_one_to_one(shape: tuple[int, int, int]) -> None:
    affinity, allowed, care = random_weights(*shape)
    found = match(affinity, allowed, care)
    rows, columns = [row for row, _ in found.pairs], [column for _, column in found.pairs]
    assert all(allowed[pair] for pair in found.pairs)
    assert sorted([*columns, *found.extra]) == list(range(affinity.shape[1]))
    assert sorted({*rows, *found.missed, *np.flatnonzero(~care)}) == list(range(affinity.shape[0]))
    assert not {*rows} & {*found.missed}


@given(affinities)
def test_order_does_not_matter(shape: tuple[int, int, int]) -> None:
    affinity, allowed, care = random_weights(*shape)
    rng = np.random.default_rng(shape[2] + 1)
    rows, columns = rng.permutation(affinity.shape[0]), rng.permutation(affinity.shape[1])
    mixed = match(affinity[rows][:, columns], allowed[rows][:, columns], care[rows]).pairs
    back = tuple((int(rows[row]), int(columns[column])) for row, column in mixed)
    assert worth(back, affinity, care) == worth(match(affinity, allowed, care).pairs, affinity, care)


@given(affinities)
def test_sides_may_be_swapped(shape: tuple[int, int, int]) -> None:
    affinity, allowed, _ = random_weights(*shape)
    everyone = np.ones(max(affinity.shape), dtype=bool)
    there, back = match(affinity, allowed).pairs, match(affinity.T, allowed.T).pairs
    assert worth(there, affinity, everyone) == worth(back, affinity.T, everyone)


def test_more_pairs_beat_better_ones() -> None:
    affinity = np.array([[1.0, 0.5], [0.9, 0.0]])
    assert match(affinity, affinity >= 0.5).pairs == ((0, 1), (1, 0))


def test_demanded_rows_choose_first() -> None:
    affinity = np.array([[1.0], [0.6]])
    found = match(affinity, affinity >= 0.5, np.array([False, True]))
    assert (found.pairs, found.missed) == (((1, 0),), ())
    assert match(affinity, affinity > 1, np.array([False, True])).missed == (1,)


@pytest.mark.parametrize(("right", "found"), [(1.0, 1), (0.999999, 0)])
def test_limit_itself_is_the_same(right: float, found: int) -> None:
    told = differences(flat((0, 0, 2, 1)), flat((0, 0, right, 1)), Same())
    assert (len(told.found), len(told.drifted)) == (found, 1 - found)
    assert told.spare == (0.0 if found else 0.5)


@pytest.mark.parametrize(("x", "outcome"), [(1.0, "found"), (1.0000001, "drifted"), (1.9, "drifted"), (2.0, "missed")])
def test_small_kinds_go_by_centres(x: float, outcome: str) -> None:
    here, there = Boxes3D(ground(0, 0, 0.5, 0.5), ("pedestrian",)), Boxes3D(ground(x, 0, 0.5, 0.5), ("pedestrian",))
    told = differences(here, there, Same(small=("pedestrian",)))
    assert {name for name in ("found", "drifted", "missed") if getattr(told, name)} == {outcome}


def test_other_kind_nearby_is_no_drift() -> None:
    told = differences(flat((0, 0, 9, 9)), flat((6, 0, 15, 9), kinds="b"), Same())
    assert (told.missed, told.ghosts, told.drifted) == ((0,), (0,), ())


def test_each_difference_is_named() -> None:
    expected = flat((0, 0, 9, 9), (20, 0, 29, 9), (40, 0, 49, 9), (60, 0, 69, 9), kinds="abcd")
    seen = flat((0, 0, 9, 9), (20, 0, 29, 9), (46, 0, 55, 9), (90, 0, 99, 9), (0, 1, 9, 9), kinds="axcda")
    told = differences(expected, seen, Same())
    assert told == Differences(((0, 0),), ((1, 1),), ((2, 2),), (3,), (3,), (4,), demanded=4, spare=0.5)
    assert (told.lost, told.gained) == (3, 2)


@given(st.integers(0, 2**32 - 1), st.integers(0, 6))
def test_every_object_is_told_once(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    expected, seen = (
        flat(*np.hstack([low, low + rng.integers(2, 9, (n, 2))]), kinds="".join(rng.choice([*"ab"], n)), care=care)
        for n, low, care in (
            (count, rng.integers(0, 15, (count, 2)), "".join(rng.choice([*"+-"], count))),
            (5, rng.integers(0, 15, (5, 2)), ""),
        )
    )
    told = differences(expected, seen, Same())
    pairs = (*told.found, *told.mislabelled, *told.drifted)
    assert sorted([*told.missed, *(row for row, _ in pairs)]) == np.flatnonzero(expected.care).tolist()
    columns = [*told.ghosts, *told.doubled, *(column for _, column in pairs)]
    assert len(set(columns)) == len(columns)


def test_edge_object_is_never_missed() -> None:
    edge = flat((0, 0, 9, 9), care="-")
    assert differences(edge, flat(), Same()) == Differences(spare=0.5)


@pytest.mark.parametrize("kind", ["a", "b"])
def test_edge_object_absorbs_boxes(kind: str) -> None:
    edge = flat((0, 0, 9, 9), care="-")
    told = differences(edge, flat((0, 0, 9, 9), (1, 1, 4, 4), (5, 5, 8, 8), kinds=kind * 3), Same())
    assert (told.lost, told.gained) == (0, 0)
    assert differences(edge, flat((20, 0, 29, 9), kinds=kind), Same()).ghosts == (0,)


def test_edge_object_hides_no_loss() -> None:
    expected, seen = flat((0, 0, 9, 9), (20, 0, 29, 9), care="+-"), flat((20, 0, 29, 9))
    assert differences(expected, seen, Same()).missed == (0,)


def test_answer_may_be_unsure() -> None:
    unsure = flat((20, 0, 29, 9), care="-")
    assert differences(flat(), unsure, Same()).gained == 0
    assert differences(flat((20, 0, 29, 9)), unsure, Same()).lost == 0


def test_low_scores_do_not_count() -> None:
    boxes = Boxes2D(np.arange(12).reshape(3, 4), ("a", "b", "c"), np.array([0.5, 0.49, 1]), (9, 8), np.array([1, 1, 0]))
    kept = above_score(boxes, 0.5)
    assert kept == Boxes2D(boxes.xyxy[[0, 2]], ("a", "c"), np.array([0.5, 1]), (9, 8), np.array([True, False]))
    assert above_score(boxes, 0.1) is boxes
    part = above_score(Boxes2D(np.zeros((2, 4)), ("a", "b"), np.array([0.9, 0.1]), hidden=np.array([0.3, 0.6])), 0.5)
    assert isinstance(part, Boxes2D)
    assert np.asarray(part.hidden).tolist() == [0.3]
    assert above_score(Boxes3D(ground(0, 0), ("a",), np.array([0.2])), 0.5).kinds == ()


def test_kinds_are_compared_whole() -> None:
    assert same_kinds(flat((0, 0, 1, 1)), flat((0, 0, 1, 1), (0, 0, 1, 1), kinds="ab")).tolist() == [[True, False]]


@pytest.mark.parametrize("wrong", [0, -0.1, 1.1, math.nan, "half", True, None])
def test_bad_limits_are_named(wrong: object) -> None:
    with pytest.raises(ValueError, match="'overlap' must be a number above 0 and at most 1, got"):
        Same(overlap=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'near' must be a number above 0"):
        Same(near=wrong)  # type: ignore[arg-type]


def test_limits_must_fit_together() -> None:
    with pytest.raises(ValueError, match=r"'near' must be at most 'overlap' \(0.5\), got 0.6"):
        Same(near=0.6)
    with pytest.raises(ValueError, match="'within' must be a number above 0, got 0"):
        Same(within=0)
    with pytest.raises(TypeError, match="'small' must be a list of kinds, got 'cyclist'"):
        Same(small="cyclist")  # type: ignore[arg-type]
