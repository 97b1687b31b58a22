"""What became of a set of obstacles: against every possible assignment, and with planted losses."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.values import Array, Boxes2D, Boxes3D
from swerve.relations.matching import Same, same_kinds
from swerve.relations.obstacles import ALL, OBSTACLES, Changes, ObstacleCount, changes, count_obstacles, labelled, stand_on

KINDS = ("car", "pedestrian", "cyclist", "unknown")
SIZES = {"car": (4.2, 1.8, 1.5), "pedestrian": (0.6, 0.6, 1.7), "cyclist": (1.8, 0.6, 1.7), "unknown": (1.0, 1.0, 1.0)}


def boxes(*things: tuple[str, float, float], care: Array | None = None) -> Boxes3D:
    """A box of its type's size at each (kind, x, y)."""
    rows = [[x, y, 0, *SIZES[kind], 0.1] for kind, x, y in things]
    return Boxes3D(np.array(rows, float).reshape(-1, 7), tuple(kind for kind, _, _ in things), care=care)


# Places on a coarse grid: many boxes coincide, touch, or miss each other by little.
things = st.tuples(st.sampled_from(KINDS), st.integers(0, 8).map(lambda step: 0.7 * step), st.integers(0, 2).map(float))
some = st.lists(things, max_size=4)


# --- against every assignment -------------------------------------------------------------------------------------------


def most_pairs(allowed: Array) -> int:
    """The largest number of rows that can have a column each, by trying all."""
    rows, columns = allowed.shape
    for size in range(min(rows, columns), 0, -1):
        for chosen in combinations(range(rows), size):
            if any(
                all(allowed[row, to[place]] for place, row in enumerate(chosen)) for to in permutations(range(columns), size)
            ):
                return size
    return 0


@given(some, some)
@settings(max_examples=150, deadline=None)
def test_no_assignment_keeps_more(before: list[tuple[str, float, float]], after: list[tuple[str, float, float]]) -> None:
    was, now = boxes(*before), boxes(*after)
    found = changes(was, now)
    allowed = OBSTACLES.likeness(was, now).same & same_kinds(was, now)
    assert len(found.kept) == most_pairs(allowed)
    assert all(allowed[pair] for pair in found.kept)


@given(some, some)
@settings(max_examples=150, deadline=None)
def test_everyone_is_told_once(before: list[tuple[str, float, float]], after: list[tuple[str, float, float]]) -> None:
    was, now = boxes(*before), boxes(*after)
    found = changes(was, now)
    pairs = (*found.kept, *found.type_changed, *found.moved)
    assert sorted([*(row for row, _ in pairs), *found.lost]) == list(range(len(before)))
    assert sorted([*(column for _, column in pairs), *found.gained]) == list(range(len(after)))
    assert set(found.vanished) <= set(found.lost)
    likeness, alike = OBSTACLES.likeness(was, now), same_kinds(was, now)
    free = set(found.gained)
    assert not any(likeness.same[row, column] for row in found.lost for column in free)  # else it would be kept or renamed
    assert not any((likeness.near & alike)[row, column] for row in found.lost for column in free)  # else it would be moved


@given(some)
@settings(deadline=None)
def test_same_set_has_no_changes(before: list[tuple[str, float, float]]) -> None:
    found = changes(boxes(*before), boxes(*before[::-1]))
    assert found.missing == 0
    assert not any(found.counts().values())


@given(some, some)
@settings(deadline=None)
def test_numbers_add_up(before: list[tuple[str, float, float]], after: list[tuple[str, float, float]]) -> None:
    """Losses, gains and changes of type explain every difference in number, in all and per type."""
    was, now = boxes(*before), boxes(*after)
    found, numbers = changes(was, now), count_obstacles(was, now)
    told = found.counts()
    assert numbers[ALL].after - numbers[ALL].before == told["gained"] - told["lost"]
    for kind, (had, has) in numbers.items():
        if kind != ALL:
            renamed_to = sum(now.kinds[column] == kind for _, column in found.type_changed)
            away = told.get(f"lost.{kind}", 0) + told.get(f"type_changed.{kind}", 0)
            assert has - had == told.get(f"gained.{kind}", 0) + renamed_to - away
    for name in ("lost", "gained", "moved", "type_changed", "vanished"):
        assert told[name] == sum(count for key, count in told.items() if key.startswith(f"{name}."))


# --- planted ------------------------------------------------------------------------------------------------------------

ROW = [(kind, 12.0 * number, 0.0) for number, kind in enumerate(KINDS)]


@given(st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)), st.integers(0, 3))
@settings(deadline=None)
def test_planted_changes_are_all_found(gone: set[int], renamed: set[int], ghosts: int) -> None:
    """Far apart there is no doubt: what was taken away is lost and vanished, what was renamed is of another type."""
    renamed -= gone
    was, extra = boxes(*ROW), boxes(*(("car", 12.0 * number, 50.0) for number in range(ghosts)))
    left = [row for row in range(4) if row not in gone]
    kinds = [("car" if was.kinds[row] == "unknown" else "unknown") if row in renamed else was.kinds[row] for row in left]
    found = changes(was, Boxes3D(np.concatenate([was.xyzlwhy[left], extra.xyzlwhy]), (*kinds, *extra.kinds)))
    assert set(found.lost) == set(found.vanished) == gone
    assert {row for row, _ in found.type_changed} == renamed
    assert len(found.gained) == ghosts
    assert not found.moved
    assert found.missing == len(gone | renamed)


def test_moved_box_is_neither_lost_nor_kept() -> None:
    found = changes(boxes(("car", 0, 0), ("pedestrian", 20, 0)), boxes(("car", 1.8, 0), ("pedestrian", 21.5, 0)))
    assert found.moved == ((0, 0), (1, 1))
    assert not found.lost
    assert not found.gained
    assert found.counts()["moved.pedestrian"] == 1


def test_merged_neighbours_have_not_vanished() -> None:
    """Two cars side by side become one box around both: one is lost, but something stands in its place."""
    was = boxes(("car", 0, 0), ("car", 0, 2.2), ("car", 30, 0))
    hull = Boxes3D(np.array([[0, 1.1, 0, 4.4, 4.2, 1.5, 0.1]]), ("car",))
    found = changes(was, hull)
    assert set(found.lost) | {row for row, _ in (*found.kept, *found.moved)} == {0, 1, 2}
    assert found.vanished == (2,)
    assert len(found.lost) == 2


def test_split_box_has_not_vanished() -> None:
    bus = Boxes3D(np.array([[0, 0, 0, 12, 2.5, 3, 0]]), ("unknown",))
    pieces = Boxes3D(np.array([[-5.0, 0, 0, 1, 1, 2, 0], [5, 0.5, 0, 1, 1, 2, 0]]), ("pedestrian", "pedestrian"))
    found = changes(bus, pieces)
    assert (found.lost, found.gained, found.vanished) == ((0,), (0, 1), ())


def test_passer_by_that_grazes_a_place_does_not_stand_there() -> None:
    beside = Boxes3D(np.array([[0, 1.75, 0, 4.2, 1.8, 1.5, 0]]), ("unknown",))  # 5 cm of 1.8 m
    still = Boxes3D(np.array([[0, 0, 0, 4.2, 1.8, 1.5, 0]]), ("car",))
    assert changes(still, beside).vanished == (0,)


def test_undemanded_boxes_are_never_lost() -> None:
    was = boxes(("car", 0, 0), ("car", 20, 0), care=np.array([True, False]))
    found = changes(was, boxes())
    assert (found.lost, found.vanished) == ((0,), (0,))
    assert count_obstacles(was, boxes())[ALL] == ObstacleCount(1, 0)


def test_limits_are_those_given() -> None:
    was, now = boxes(("pedestrian", 0, 0)), boxes(("pedestrian", 1.5, 0))
    assert changes(was, now).moved
    assert changes(was, now, Same(within=2.0, small=("pedestrian",))).kept
    assert changes(boxes(("car", 0, 0)), boxes(("car", 1.0, 0)), Same(overlap=0.9)).moved


def test_pictures_have_obstacles_too() -> None:
    was = Boxes2D(np.array([[0.0, 0, 10, 10], [50, 0, 60, 10]]), ("car", "car"))
    now = Boxes2D(np.array([[0.0, 0, 10, 10]]), ("car",))
    assert changes(was, now, Same()).vanished == (1,)


# --- counts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("had", "has", "outcome"), [(3, 2, "lost"), (3, 3, "equal"), (0, 1, "gained")])
def test_outcome_is_the_paper_s_column(had: int, has: int, outcome: str) -> None:
    assert ObstacleCount(had, has).outcome == outcome


def test_types_are_counted_apart() -> None:
    """A car lost and a pedestrian gained are equal in all, and neither per type (Fig. 3b-e)."""
    numbers = count_obstacles(boxes(("car", 0, 0), ("car", 9, 0)), boxes(("car", 0, 0), ("pedestrian", 9, 0)))
    assert numbers == {ALL: ObstacleCount(2, 2), "car": ObstacleCount(2, 1), "pedestrian": ObstacleCount(0, 1)}
    assert [numbers[kind].outcome for kind in numbers] == ["equal", "lost", "gained"]


def test_nothing_becomes_nothing() -> None:
    found = changes(boxes(), boxes())
    assert isinstance(found, Changes)
    assert found.missing == 0
    assert count_obstacles(boxes(), boxes()) == {ALL: ObstacleCount(0, 0)}


@pytest.mark.parametrize(
    ("before", "after"),
    [(("car", 0.0, 0.0), ("unknown", 1.2, 0.0)), (("pedestrian", 0.0, 0.0), ("cyclist", 1.5, 0.0))],
)
def test_renamed_and_moved_is_neither_lost_nor_gained(
    before: tuple[str, float, float], after: tuple[str, float, float]
) -> None:
    found = changes(boxes(before), boxes(after))
    assert (found.type_changed, found.lost, found.gained, found.vanished) == (((0, 0),), (), (), ())


def test_neighbour_of_another_kind_is_not_the_lost_one() -> None:
    """It was there before: nobody was renamed."""
    walker, rider = ("pedestrian", 0.0, 0.0), ("cyclist", 1.5, 0.0)
    found = changes(boxes(walker, rider), boxes(rider))
    assert (found.lost, found.type_changed, found.kept) == ((0,), (), ((1, 0),))


# --- labels --------------------------------------------------------------------------------------------------------------


def placed(*rows: tuple[float, float, float, float, float]) -> Boxes3D:
    """Cars at (x, y) of some length and width, turned by degrees."""
    numbers = [[x, y, 0, length, width, 1.5, np.radians(turn)] for x, y, length, width, turn in rows]
    return Boxes3D(np.array(numbers, float).reshape(-1, 7), ("car",) * len(rows))


def test_thin_box_at_the_rear_of_a_car_stands_on_its_label() -> None:
    """Of a car ahead one sees the rear: a box 0.2 m deep, with an IoU of 0.04, is that car all the same."""
    truth, rear = placed((20, 0, 4.2, 1.8, 0)), placed((18, 0, 0.2, 1.6, 0))
    assert OBSTACLES.likeness(rear, truth).affinity[0, 0] < 0.05
    assert labelled(rear, truth).tolist() == [True]


@pytest.mark.parametrize(
    ("x", "y", "known"),
    [
        *((12.5, 0, True), (7.5, 0, True), (12.51, 0, False), (7.49, 0, False)),
        *((10, 1.5, True), (10, -1.51, False), (12.5, 1.5, True), (12.5, 1.51, False)),
    ],
)
def test_middle_may_lie_half_a_metre_beside_the_footprint(x: float, y: float, known: bool) -> None:
    assert labelled(placed((x, y, 0.2, 0.2, 0)), placed((10, 0, 4, 2, 0))).tolist() == [known]


@pytest.mark.parametrize(
    ("turn", "known"), [(0, [True, False, False]), (90, [False, True, False]), (45, [False, False, True])]
)
def test_footprint_of_a_label_turns_with_it(turn: float, known: list[bool]) -> None:
    said = placed((12.4, 0, 1, 1, 0), (10, 2.4, 1, 1, 0), (11.7, 1.7, 1, 1, 0))
    assert labelled(said, placed((10, 0, 4, 2, turn))).tolist() == known


def test_who_stands_on_whom_is_told_label_by_label() -> None:
    truth, said = placed((10, 0, 4, 2, 0), (13, 0, 4, 2, 0)), placed((9, 0, 1, 1, 0), (11.5, 0, 1, 1, 0), (30, 0, 1, 1, 0))
    assert stand_on(truth, said).tolist() == [[True, True, False], [False, True, False]]
    assert stand_on(placed(), said).shape == (0, 3)
    assert labelled(said, placed()).tolist() == [False] * 3
    assert labelled(said, None).tolist() == [True] * 3
