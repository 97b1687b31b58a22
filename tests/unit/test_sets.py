from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.relation import Pair, Status, Verdict, judge_source
from swerve.core.transformation import Unchanged
from swerve.core.values import Boxes2D, Boxes3D, PointCloud, Region, Steering, Value
from swerve.relations.sets import NoFewer, Superset, missing_rows
from swerve.transformations.sensor_pose import Yaw


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
    numbers = {"before": 1.0, "after": 1.0, "before.car": 1.0, "after.car": 0.0, "before.unknown": 0.0, "after.unknown": 1.0}
    plain = {"demanded": 1.0, "in_region_after": 1.0}
    assert Superset().check(given_pair).facts == {**plain, **numbers, **counts, "type_changed_rows": "0"}


def test_losses_are_told_per_type() -> None:
    before = Boxes3D(obstacles(0, 20, 40).xyzlwhy, ("car", "Pedestrian", "car"))
    facts = Superset().check(pair(before, obstacles(60, kind="cyclist"))).facts
    assert {name: count for name, count in facts.items() if count} == {
        **{"in_region_after": 1, "before": 3, "after": 1, "before.car": 2, "before.pedestrian": 1, "after.cyclist": 1},
        **{"demanded": 3, "lost": 3, "lost.car": 2, "lost.pedestrian": 1},
        **{"vanished": 3, "vanished.car": 2, "vanished.pedestrian": 1},
        **{"gained": 1, "gained.cyclist": 1, "lost_rows": "0 1 2"},
    }


def test_numbers_are_told_per_type() -> None:
    before = Boxes3D(obstacles(0, 20, 40).xyzlwhy, ("car", "pedestrian", "car"))
    after = Boxes3D(obstacles(0, 20).xyzlwhy, ("car", "unknown"))
    facts = NoFewer().check(pair(before, after)).facts
    assert facts == Superset().check(pair(before, after)).facts  # whichever judges
    assert {name: facts[name] for name in facts if name.split(".")[0] in ("demanded", "before", "after")} == {
        **{"demanded": 3, "before": 3, "after": 2, "before.car": 2, "after.car": 1},
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
        with pytest.raises(ValueError, match="'slot' must be 'boxes2d' or 'boxes3d', got 'image'"):
            kind("image")
    with pytest.raises(ValueError, match="'overlap' must be a number"):
        Superset(overlap=2)
    with pytest.raises(ValueError, match="'within' must be a number above 0"):
        Superset("boxes2d", within=0)


# --- the region ----------------------------------------------------------------------------------------------------------

ROAD = Region((np.array([[-80.0, -5], [80, -5], [80, 5], [-80, 5]]),))


def beside(*xs: float) -> Boxes3D:
    """Cars 30 m to the left of the road's middle."""
    rows = np.array([[x, 30, 0, 4, 2, 1.5, 0] for x in xs]).reshape(-1, 7)
    return Boxes3D(rows, ("car",) * len(xs))


def both(first: Boxes3D, second: Boxes3D) -> Boxes3D:
    return Boxes3D(np.concatenate([first.xyzlwhy, second.xyzlwhy]), (*first.kinds, *second.kinds))


def on_road(before: Boxes3D, after: Boxes3D, case: Case | None = None) -> Pair:
    case = case or Case("c", {"region": ROAD})
    return Pair(case, case, Unchanged(), (before,), (after,))


@pytest.mark.parametrize("case", [Case("c", {"region": ROAD}), Case("c", {}, (ROAD,))])
def test_obstacle_beside_the_region_may_be_lost(case: Case) -> None:
    before, after = both(obstacles(0, 20), beside(0)), obstacles(0, 20)
    for relation in (Superset(), NoFewer()):
        assert relation.check(on_road(before, after, case)).status is Status.HELD
        assert relation.check(pair(before, after)).status is Status.VIOLATED  # without a region, everybody counts


def test_obstacle_beside_the_region_stands_for_none_inside() -> None:
    given_pair = on_road(obstacles(0, 20), both(obstacles(0), beside(0, 20)))
    counting, subset = NoFewer().check(given_pair), Superset().check(given_pair)
    assert (counting.status, counting.facts["before"], counting.facts["after"]) == (Status.VIOLATED, 2, 1)
    assert (subset.status, subset.facts["lost"], subset.facts["gained"]) == (Status.VIOLATED, 1, 0)


def test_obstacle_that_leaves_the_region_by_a_little_is_still_there() -> None:
    rows = np.array([[0, 4.9, 0, 4, 2, 1.5, 0], [0, 5.6, 0, 4, 2, 1.5, 0]])
    before, after = (Boxes3D(rows[row : row + 1], ("car",)) for row in (0, 1))
    assert Superset(overlap=0.4).check(on_road(before, after)).status is Status.HELD


def test_region_moves_with_the_scene() -> None:
    """The road as the turned LiDAR sees it decides, not the one of the source."""
    case = Case("c", {"lidar": PointCloud(np.ones((1, 4), np.float32)), "region": ROAD})
    turned = Yaw(90.0)
    before = both(obstacles(60), beside(0))
    after = turned.boxes3d(beside(0))  # the one on the road is lost
    found = Superset().check(Pair(case, turned(case), turned, (before,), (after,)))
    assert (found.status, found.facts["lost"]) == (Status.VIOLATED, 1)
    kept = Superset().check(Pair(case, turned(case), turned, (before,), (turned.boxes3d(obstacles(60)),)))
    assert kept.status is Status.HELD


def test_undemanded_pedestrian_a_step_away_stands_for_no_car() -> None:
    """Both relations take the same pairs: what is half a metre off is the pedestrian that nobody demands."""
    rows = np.array([[0.0, 0, 0, 4, 2, 1.5, 0], [20, 0, 0, 0.6, 0.6, 1.7, 0]])
    before = Boxes3D(rows, ("car", "pedestrian"), care=np.array([True, False]))
    after = Boxes3D(rows[1:] + np.eye(7)[0] / 2, ("pedestrian",))
    counting = NoFewer().check(pair(before, after))
    assert (counting.status, counting.facts["after"]) == (Status.VIOLATED, 0)
    assert "after.pedestrian" not in counting.facts
    assert Superset().check(pair(before, after)).status is Status.VIOLATED


def test_labels_say_nothing_of_a_loss() -> None:
    """A box around the points that one sees is smaller than the label's: no answer to a lone case is right or wrong."""
    for relation in (NoFewer(), Superset(), NoFewer() & Superset()):
        assert judge_source(relation, pair(obstacles(0, 20), obstacles(0))) is None


# --- a subset is never fewer ---------------------------------------------------------------------------------------------


def test_obstacle_that_drifts_over_the_border_is_not_fewer() -> None:
    rows = np.array([[0, 5.2, 0, 4, 2, 1.5, 0], [0, 5.6, 0, 4, 2, 1.5, 0]])  # clear of the region from 5.5 m on
    inner, outer = (Boxes3D(rows[row : row + 1], ("car",)) for row in (0, 1))
    for relation in (Superset(), NoFewer()):
        assert relation.check(on_road(inner, outer)).status is Status.HELD
    facts = NoFewer().check(on_road(inner, outer)).facts
    assert (facts["before"], facts["after"]) == (1, 1)
    assert (facts["demanded"], facts["in_region_after"]) == (1, 0)  # the paper's plain count stands beside it
    facts = NoFewer().check(on_road(outer, inner)).facts  # nobody demanded it, and it makes up for nobody
    assert (facts["before"], facts["after"]) == (0, 0)
    assert (facts["demanded"], facts["in_region_after"]) == (0, 1)


def test_count_takes_the_limits_of_the_subset() -> None:
    rows = np.array([[0, 5.2, 0, 4, 2, 1.5, 0], [0, 6.4, 0, 4, 2, 1.5, 0]])  # an IoU of a quarter
    given_pair = on_road(*(Boxes3D(rows[row : row + 1], ("pedestrian",)) for row in (0, 1)))
    for relation in (Superset, NoFewer):
        assert relation(within=1.5).check(given_pair).status is Status.HELD
        assert relation(within=0.5).check(given_pair).status is Status.VIOLATED


near_the_border = st.tuples(
    st.sampled_from(("car", "pedestrian", "unknown")), st.integers(0, 6), st.integers(20, 28), st.booleans()
)
beside_each_other = st.lists(near_the_border, max_size=5)


def crowd(things: list[tuple[str, int, int, bool]]) -> Boxes3D:
    """Boxes at the road's left border, on a grid of 0.7 by 0.25 m."""
    rows = [[0.7 * x, 0.25 * y, 0, 2, 1, 1.5, 0] for _, x, y, _ in things]
    return Boxes3D(np.array(rows).reshape(-1, 7), tuple(kind for kind, *_ in things), care=np.array([t[3] for t in things]))


@given(beside_each_other, beside_each_other, st.booleans(), st.sampled_from((0.1, 0.5, 0.9)))
def test_subset_that_holds_is_never_fewer(
    before: list[tuple[str, int, int, bool]], after: list[tuple[str, int, int, bool]], region: bool, overlap: float
) -> None:
    """In all and of every type, with a region or without, whoever is demanded."""
    for more in ((), before):  # two crowds seldom hold one another; one and its own with others always do
        given_pair = (on_road if region else pair)(crowd(before), crowd([*more, *after]))
        if Superset(overlap=overlap).check(given_pair).status is Status.HELD:
            count = NoFewer(overlap=overlap).check(given_pair)
            assert count.status is Status.HELD
            assert all(count.facts[f"after{name[6:]}"] >= had for name, had in count.facts.items() if name[:6] == "before")


@given(beside_each_other, beside_each_other)
def test_count_is_the_plain_count_where_everybody_is_demanded(
    before: list[tuple[str, int, int, bool]], after: list[tuple[str, int, int, bool]]
) -> None:
    """What the authors compare (LM-6)."""
    was, now = ([(*thing[:3], True) for thing in things] for things in (before, after))
    count = NoFewer().check(pair(crowd(was), crowd(now)))
    assert (count.facts["before"], count.facts["after"]) == (len(was), len(now))
    assert (count.status is Status.VIOLATED) == (len(now) < len(was))
    for kind in {thing[0] for thing in (*was, *now)}:
        assert count.facts[f"after.{kind}"] == sum(thing[0] == kind for thing in now)


def test_rows_beside_a_count_of_zero_are_not_missing() -> None:
    boxes = Boxes3D(np.array([[10.0, 0, 0, 4, 2, 1.5, 0]]), ("car",))
    merged = {"lost": 1.0, "lost_rows": "0", "type_changed": 0.0, "moved": 0.0, "moved_rows": "0"}
    assert missing_rows(boxes, boxes, None, merged) == {"lost": (0,), "type_changed": (), "moved": ()}
