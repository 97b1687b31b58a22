from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.case import Case
from swerve.relation import Pair, Status, Verdict
from swerve.relations.sets import NoFewer, Superset
from swerve.transformation import Unchanged
from swerve.values import Boxes2D, Boxes3D, Steering, Value


def obstacles(*xs: float, kind: str = "car", care: str = "") -> Boxes3D:
    """Obstacles 4 m long and 2 m wide, ahead at `xs` metres; care False where the mark is "-"."""
    rows = np.array([[x, 0, 0, 4, 2, 1.5, 0] for x in xs]).reshape(-1, 7)
    cares = np.array([mark != "-" for mark in care or "+" * len(xs)])
    return Boxes3D(rows, (kind,) * len(xs), care=cares)


def pair(before: Value, after: Value) -> Pair:
    case = Case("c", {})
    return Pair(case, case, Unchanged(), (before,), (after,))


def test_ghost_hides_no_loss() -> None:
    given_pair = pair(obstacles(0, 20), obstacles(0, 60))
    assert NoFewer().check(given_pair).status is Status.HELD  # what the authors compare (D-17)
    told = "of 2 objects 1 lost, 0 type changed, 0 moved, 1 gained"
    assert Superset().check(given_pair) == Verdict(Status.VIOLATED, 1.0, told)


def test_gain_alone_is_allowed() -> None:
    assert Superset().check(pair(obstacles(0, 20), obstacles(20, 0, 40))).status is Status.HELD
    assert Superset().check(pair(obstacles(), obstacles(20))).status is Status.HELD


@given(st.lists(st.floats(-50, 50), max_size=6), st.randoms(use_true_random=False))
def test_same_objects_always_hold(xs: list[float], shuffler: object) -> None:
    mixed = list(xs)
    shuffler.shuffle(mixed)  # type: ignore[attr-defined]
    for kind in ("car", "pedestrian"):
        assert Superset().check(pair(obstacles(*xs, kind=kind), obstacles(*mixed, kind=kind))).margin == pytest.approx(-0.5)


def test_boxes_that_are_no_numbers_are_errors() -> None:
    for relation in (NoFewer(), Superset()):
        assert relation.check(pair(obstacles(0), obstacles(np.nan))).status is Status.ERROR


@pytest.mark.parametrize("kind", ["pedestrian", "Pedestrian", "CYCLIST"])
def test_small_kinds_go_by_their_centres_however_written(kind: str) -> None:
    small = np.array([[0, 0, 0, 0.6, 0.6, 1.7, 0], [0.9, 0, 0, 0.6, 0.6, 1.7, 0]])  # no overlap, 0.9 m apart
    before, after = (Boxes3D(small[row : row + 1], (kind,)) for row in (0, 1))
    assert Superset().check(pair(before, after)).status is Status.HELD


def test_changed_type_is_a_loss() -> None:
    given_pair = pair(obstacles(0), obstacles(0, kind="unknown"))
    assert Superset().check(given_pair).status is Status.VIOLATED
    counts = {"lost": 0.0, "type_changed": 1.0, "type_changed.car": 1.0, "moved": 0.0, "gained": 0.0, "vanished": 0.0}
    assert Superset().check(given_pair).facts == counts


def test_losses_are_told_per_type() -> None:
    before = Boxes3D(obstacles(0, 20, 40).xyzlwhy, ("car", "Pedestrian", "car"))
    facts = Superset().check(pair(before, obstacles(60, kind="cyclist"))).facts
    assert {name: count for name, count in facts.items() if count} == {
        **{"lost": 3, "lost.car": 2, "lost.pedestrian": 1},
        **{"vanished": 3, "vanished.car": 2, "vanished.pedestrian": 1},
        **{"gained": 1, "gained.cyclist": 1},
    }


def test_numbers_are_told_per_type() -> None:
    before = Boxes3D(obstacles(0, 20, 40).xyzlwhy, ("car", "pedestrian", "car"))
    after = Boxes3D(obstacles(0, 20).xyzlwhy, ("car", "unknown"))
    assert NoFewer().check(pair(before, after)).facts == {
        **{"before": 3, "after": 2, "before.car": 2, "after.car": 1},
        **{"before.pedestrian": 1, "after.pedestrian": 0, "before.unknown": 0, "after.unknown": 1},
    }
    undemanded = NoFewer().check(pair(obstacles(0, 20, care="+-"), obstacles(20)))
    assert (undemanded.facts["before"], undemanded.facts["after"]) == (1, 0)


def test_both_checks_are_kept_apart() -> None:
    """A ghost that makes up for a loss: the authors' count holds, the subset does not (D-17), and the facts tell both."""
    verdict = (NoFewer() & Superset()).check(pair(obstacles(0, 20), obstacles(0, 60)))
    assert verdict.status is Status.VIOLATED
    assert (verdict.facts["before"], verdict.facts["after"], verdict.facts["lost"]) == (2, 2, 1)


@pytest.mark.parametrize(("x", "status"), [(1.25, Status.HELD), (1.5, Status.VIOLATED)])
def test_moved_obstacle_is_lost(x: float, status: Status) -> None:
    given_pair = pair(obstacles(0), obstacles(x))  # IoU (4 - x) / (4 + x)
    assert Superset().check(given_pair).status is status
    assert Superset().check(given_pair).facts["moved"] == (status is Status.VIOLATED)


@pytest.mark.parametrize(("x", "status"), [(1.0, Status.HELD), (1.01, Status.VIOLATED)])
def test_pedestrians_go_by_centres(x: float, status: Status) -> None:
    assert Superset().check(pair(obstacles(0, kind="pedestrian"), obstacles(x, kind="pedestrian"))).status is status


def test_half_overlap_is_enough() -> None:
    half = Boxes3D(np.array([[0, 0, 0, 4, 1, 1.5, 0]]), ("car",))
    assert Superset().check(pair(obstacles(0), half)).margin == 0.0
    assert Superset().check(pair(obstacles(0), half)).status is Status.HELD


def test_undemanded_object_hides_no_loss() -> None:
    given_pair = pair(obstacles(0, 20, care="+-"), obstacles(20))
    for relation in (NoFewer(), Superset()):
        assert relation.check(given_pair).status is Status.VIOLATED
    assert NoFewer().check(given_pair).why == "1 objects before, 0 after"


def test_demanded_objects_take_theirs_first() -> None:
    given_pair = pair(obstacles(0, 0.5, care="-+"), obstacles(0))
    for relation in (NoFewer(), Superset()):
        assert relation.check(given_pair).status is Status.HELD


def test_undemanded_may_vanish() -> None:
    for relation in (NoFewer(), Superset()):
        assert relation.check(pair(obstacles(0, 20, care="+-"), obstacles(0))).status is Status.HELD


def test_image_boxes_go_by_overlap() -> None:
    walker = Boxes2D(np.array([[0, 0, 0.5, 0.5]]), ("pedestrian",))
    beside = Boxes2D(np.array([[0.6, 0, 1.1, 0.5]]), ("pedestrian",))
    assert Superset("boxes2d").check(pair(walker, beside)).status is Status.VIOLATED
    assert Superset("boxes2d").check(pair(walker, walker)).status is Status.HELD


def test_missing_answer_is_an_error() -> None:
    for relation in (NoFewer(), Superset()):
        assert relation.check(pair(obstacles(0), Steering(1))).status is Status.ERROR
    assert Superset().check(pair(Steering(1), Steering(1))).facts == {}
    assert Superset().check(pair(obstacles(0), obstacles(np.nan))).status is Status.ERROR


def test_bad_settings_are_named() -> None:
    for kind in (NoFewer, Superset):
        with pytest.raises(ValueError, match="slot must be 'boxes2d' or 'boxes3d', got 'image'"):
            kind("image")
    with pytest.raises(ValueError, match="overlap must be a number"):
        Superset(overlap=2)
    with pytest.raises(ValueError, match="within must be a number above 0"):
        Superset("boxes2d", within=0)
