"""Points outside the region: where they lie, what they leave alone, and how few of them a shrunk change keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.config.toml import build_change
from swerve.config.trust import OWN
from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.errors import NotApplicable
from swerve.core.region import distance, inside
from swerve.core.space import Over, Range
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Boxes3D, Group, PointCloud, Region, Steering
from swerve.execution.shrink import Parted
from swerve.testing import FakeSystem, TransformationContract
from swerve.transformations.placing import TRIES, draw_points, near_border, nearest_to_border
from swerve.transformations.points import Span
from swerve.transformations.scatter import AddPoints, MorePoints, PlacePoints, scattered
from tests.fixture_sweeps import ISLAND, cloud, points_of, road, shrunk, sweep_case

SQUARE = Region((np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]]),))
OUTSIDE_ROAD = (0.0, 20.0, 0.5, 0.5)


def added(change: MorePoints, case: Case) -> np.ndarray:
    return points_of(change(case))[len(points_of(case)) :]


class TestAddPoints(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        some = [AddPoints(10), AddPoints(100, 7, near=5), AddPoints(50, 3, area="disc"), AddPoints(9, outside=SQUARE)]  # type: ignore[arg-type]
        return [*some, *AddPoints.grid()]

    def case(self) -> Case:
        return sweep_case()


class TestFewPoints(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [PlacePoints((OUTSIDE_ROAD, (0.1, -20.3, -1.7, 0.3))), PlacePoints((OUTSIDE_ROAD,), outside=SQUARE)]  # type: ignore[arg-type]

    def case(self) -> Case:
        return sweep_case()


# --- where they lie ---------------------------------------------------------------------------------------------------


def test_sweep_comes_first_and_unchanged() -> None:
    case = sweep_case()
    after = points_of(AddPoints(100)(case))
    assert len(after) == 2_100
    assert after[:2_000].tobytes() == points_of(case).tobytes()
    assert AddPoints(100)(case).truth == case.truth


def test_numbers_stay_in_the_sweeps_range() -> None:
    case = sweep_case()
    new, old = added(AddPoints(1_000), case), points_of(case)
    assert (new >= old.min(axis=0)).all()
    assert (new <= old.max(axis=0)).all()


@pytest.mark.parametrize("column", range(4))
def test_numbers_are_uniform(column: int) -> None:
    """Of those that a region the size of a cell leaves: a quarter in each quarter of the range (5 sigma)."""
    speck = Region((np.array([[49.0, 49], [49.1, 49], [49.1, 49.1]]),))
    new = added(AddPoints(10_000, 3, outside=speck), sweep_case())[:, column]  # type: ignore[arg-type]
    old = points_of(sweep_case())[:, column]
    quarters = np.histogram(new, 4, (old.min(), old.max()))[0] / len(new)
    np.testing.assert_allclose(quarters, 0.25, atol=5 * np.sqrt(0.25 * 0.75 / 10_000))


def test_density_outside_is_even() -> None:
    """The share of points that fall into the island is its share of the ground outside, but for the cells along borders."""
    new = added(AddPoints(40_000, 1), sweep_case())
    low, high = ISLAND.min(axis=0), ISLAND.max(axis=0)
    share = ((new[:, :2] > low) & (new[:, :2] < high)).all(axis=1).mean()
    ground = 100.0**2 - 12 * 80 - 4.3 * (16 + 8) / 2 - 45
    least, most = (5.1 - 1.0) * (4 - 1.0) / ground, 5.1 * 4 / ground  # up to two cells go on either side
    assert 0.8 * least < share < 1.2 * most


@given(st.integers(0, 2**31), st.sampled_from([None, 0.5, 3.0]), st.sampled_from(["box", "disc"]))
@settings(max_examples=25)
def test_none_lies_inside(seed: int, near: float | None, area: str) -> None:
    case = sweep_case()
    change = AddPoints(60, seed, near=near, area=area)
    new = added(change, case)[:, :2]
    assert len(new) == 60
    assert not inside(road(), new).any()
    if near:
        assert (distance(road(), new) <= near).all()
    if area == "disc":
        assert (np.hypot(*new.T.astype(float)) <= 120).all()
    facts = change(case).facts
    assert facts == {"added": 60.0, "inside": 0.0, "nearest_border": pytest.approx(distance(road(), new).min(), abs=1e-12)}


def test_disc_reaches_beyond_the_sweep() -> None:
    new = added(AddPoints(500, area="disc"), sweep_case())
    assert np.hypot(*new[:, :2].T).max() > 100
    assert np.abs(points_of(sweep_case())[:, :2]).max() <= 50


def test_own_region_gives_way_to_the_given_one() -> None:
    crowded = AddPoints(500, outside=SQUARE)  # type: ignore[arg-type]
    new = added(crowded, sweep_case())[:, :2]
    assert inside(road(), new).any()
    assert not inside(SQUARE, new).any()
    assert crowded.map(cloud()) == crowded(sweep_case()).inputs["lidar"]


@given(st.floats(-3, 3, width=32), st.floats(-3, 3, width=32), st.floats(0.125, 2, width=32))
@settings(max_examples=50)
def test_nearness_is_told_as_by_measuring(x: float, y: float, metres: float) -> None:
    xy = np.array([[x, y]]) + np.random.default_rng(0).normal(0, 3, (50, 2))
    for region in (SQUARE, road()):
        assert (near_border(metres, region, xy) == (distance(region, xy) <= metres)).all()
        assert nearest_to_border(region, xy) == distance(region, xy).min()


def test_broken_sweep_is_measured_by_its_finite_points() -> None:
    xyzi = points_of(sweep_case()).copy()
    xyzi[::100, 2] = np.nan
    xyzi[5, 3] = np.inf
    case = dataclasses.replace(sweep_case(), inputs={"lidar": PointCloud(xyzi), "region": road()})
    after = points_of(AddPoints(200)(case))
    assert after[:2_000].tobytes() == xyzi.tobytes()
    sound = xyzi[np.isfinite(xyzi).all(axis=1)]
    assert (after[2_000:] >= sound.min(axis=0)).all()
    assert (after[2_000:] <= sound.max(axis=0)).all()


def test_every_sweep_of_a_window_gets_them() -> None:
    window = Case("w", {"lidar": Group((cloud(1), cloud(2, 900))), "region": road(), "wheel": Steering(1)})
    after = AddPoints(10)(window)
    assert [len(sweep.xyzi) for sweep in after.inputs["lidar"].values] == [2_010, 910]  # type: ignore[attr-defined]
    assert after.facts["added"] == 20
    assert after.inputs["wheel"] == Steering(1)


def test_two_steps_are_counted_together() -> None:
    case = sweep_case()
    first, second = AddPoints(10, 1), AddPoints(20, 2)
    facts = Chain((first, second))(case).facts
    assert (facts["added"], facts["inside"]) == (30, 0)
    assert facts["nearest_border"] == min(change(case).facts["nearest_border"] for change in (first, second))


# --- where they cannot be placed -----------------------------------------------------------------------------------------


def test_region_that_covers_everything_is_told() -> None:
    wide = Region((np.array([[-900.0, -900], [900, -900], [900, 900], [-900, 900]]),))
    with pytest.raises(NotApplicable, match="cannot place 1,000 points: the region covers the sampling area"):
        AddPoints(1_000, outside=wide)(sweep_case())  # type: ignore[arg-type]
    with pytest.raises(NotApplicable, match="covers the sampling area at most 2 m from it"):
        AddPoints(1, near=2, outside=wide)(sweep_case())  # type: ignore[arg-type]


def test_region_without_rings_holds_nothing() -> None:
    nothing = Region(())
    assert len(added(AddPoints(10, outside=nothing), sweep_case())) == 10  # type: ignore[arg-type]
    assert "nearest_border" not in AddPoints(10, outside=nothing)(sweep_case()).facts  # type: ignore[arg-type]
    with pytest.raises(NotApplicable, match="cannot place 1 point"):
        AddPoints(1, near=5, outside=nothing)(sweep_case())  # type: ignore[arg-type]


def test_what_is_missing_is_named() -> None:
    case = sweep_case()
    with pytest.raises(NotApplicable, match="no point cloud"):
        AddPoints(10)(Case("c", {"region": road()}))
    with pytest.raises(NotApplicable, match="no region"):
        AddPoints(10)(Case("c", {"lidar": case.inputs["lidar"]}))
    with pytest.raises(NotApplicable, match="no region"):
        AddPoints(10).map(case.inputs["lidar"])
    empty = PointCloud(np.full((3, 4), np.nan, np.float32))
    with pytest.raises(NotApplicable, match="no finite point"):
        AddPoints(10)(Case("c", {"lidar": empty, "region": road()}))


def test_label_may_hold_the_region() -> None:
    case = Case("c", {"lidar": cloud()}, (road(),))
    assert not inside(road(), added(AddPoints(100), case)[:, :2]).any()


UNIT = Span(np.zeros(4), np.ones(4))


def stream(n: int, every: int) -> np.ndarray | None:
    """Points drawn where one candidate in `every` is admitted."""
    seen = 0

    def admitted(block: np.ndarray) -> np.ndarray:
        nonlocal seen
        numbers = seen + 1 + np.arange(len(block))
        seen += len(block)
        return numbers % every == 0

    return draw_points(n, UNIT, admitted, np.random.default_rng(5))


def test_ten_thousand_tries_and_no_more() -> None:
    candidates = np.random.default_rng(5).random((3 * TRIES, 4)).astype(np.float32)
    found = stream(3, TRIES)
    assert found is not None
    np.testing.assert_array_equal(found, candidates[TRIES - 1 :: TRIES])
    assert stream(3, TRIES + 1) is None
    assert stream(1, TRIES + 1) is None


@pytest.mark.parametrize("every", [1, 3, 700])
def test_stream_does_not_depend_on_blocks(every: int) -> None:
    candidates = np.random.default_rng(5).random((every * 40, 4)).astype(np.float32)
    for n in (1, 7, 40):
        np.testing.assert_array_equal(stream(n, every), candidates[every - 1 :: every][:n])  # type: ignore[arg-type]


# --- which of them, and how few ------------------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 99)), st.sampled_from([None, 4.0]))
@settings(max_examples=25)
def test_kept_points_are_those_of_the_whole_draw(keep: set[int], near: float | None) -> None:
    case = sweep_case(count=300)
    whole = added(AddPoints(100, 11, near=near), case)
    kept = AddPoints(100, 11, near=near, keep=tuple(keep))
    np.testing.assert_array_equal(added(kept, case), whole[sorted(keep)])
    assert kept(case).facts["added"] == len(keep)


def test_fewer_points_are_the_first_of_more() -> None:
    case = sweep_case()
    np.testing.assert_array_equal(added(AddPoints(10, 4), case), added(AddPoints(1_000, 4), case)[:10])
    assert (added(AddPoints(10, 5), case) != added(AddPoints(10, 4), case)).any()


@pytest.mark.parametrize("change", [AddPoints(0), AddPoints(50, keep=()), PlacePoints(())], ids=repr)
def test_no_points_are_no_change(change: MorePoints) -> None:
    for case in (sweep_case(), Case("bare", {"lidar": cloud()})):
        after = change(case)
        assert all(value is case.inputs[name] for name, value in after.inputs.items())
        assert after.facts == {"added": 0.0, "inside": 0.0}


@given(st.sets(st.integers(0, 199), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_shrinking_finds_the_points_that_matter(needed: set[int]) -> None:
    """A system that fails where certain points lie, whatever lies elsewhere."""
    start = AddPoints(200, 9)
    assert isinstance(start, Parted)
    found = shrunk(start, lambda change: needed <= set(change.parts()))  # type: ignore[attr-defined]
    assert found.change == AddPoints(200, 9, keep=tuple(needed))
    assert found.edges == ()  # how many they were of says nothing


def test_placed_points_shrink_too() -> None:
    places = [(0.0, 20.0 + step, 0.5, 0.5) for step in range(9)]
    found = shrunk(PlacePoints(tuple(places)), lambda change: places[4] in change.at)  # type: ignore[attr-defined]
    assert found.change == PlacePoints((places[4],))


def test_simpler_has_fewer() -> None:
    assert [step.n for step in AddPoints(100).simpler()] == [0, 50]  # type: ignore[attr-defined]
    assert [step.keep for step in AddPoints(100, keep=(1, 5, 70)).simpler()] == [(1, 5), (70,)]  # type: ignore[attr-defined]
    assert not list(AddPoints(100, keep=(1,)).simpler())


# --- placed points ---------------------------------------------------------------------------------------------------


def test_points_lie_where_they_were_placed() -> None:
    places = (OUTSIDE_ROAD, (0.1, -20.3, -1.7, 0.3))
    np.testing.assert_array_equal(added(PlacePoints(places), sweep_case()), np.array(places, np.float32))


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ((0.0, 0.0, 0.5, 0.5), "1 of the 2 points to add lie inside the region"),
        ((0.0, 6.1, 0.5, 0.5), "inside the region, or within a cell of it"),
        ((0.0, 20.0, 9.0, 0.5), "1 of the 2 points to add are outside the sweep's range of heights or intensities"),
        ((0.0, 20.0, 0.5, 0.95), "outside the sweep's range of heights or intensities"),
    ],
)
def test_point_that_may_not_lie_there_is_refused(point: tuple[float, float, float, float], why: str) -> None:
    with pytest.raises(NotApplicable, match=why):
        PlacePoints((OUTSIDE_ROAD, point))(sweep_case())


def test_place_is_what_a_sweep_can_hold() -> None:
    change = PlacePoints(((0.1, 20.0, 0.3, 0.5),))
    assert change.at[0][0] == float(np.float32(0.1))
    assert build_change(encode(change), OWN) == change


# --- as values -------------------------------------------------------------------------------------------------------


def test_words_tell_how_many_of_how_many() -> None:
    assert AddPoints(1_000).words() == "1,000 points scattered outside the region"
    near = AddPoints(100, near=5, keep=(1, 2, 9))
    assert near.words() == "3 of 100 points scattered outside the region, at most 5 m from it"
    assert PlacePoints((OUTSIDE_ROAD,)).words() == "1 point placed outside the region"


def test_region_given_survives_json() -> None:
    change = AddPoints(10, 3, outside=road(), near=2)  # type: ignore[arg-type]
    again = build_change(encode(change), OWN)
    assert again == change
    assert again(sweep_case()).input_sha == change(sweep_case()).input_sha


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"n": -1}, "'n' must be a number from 0"),
        ({"n": 2.5}, "'n' must be a whole number"),
        ({"near": 0}, "'near' must be a number above 0"),
        ({"near": True}, "'near' must be"),
        ({"near": np.inf}, "'near' must be"),
        ({"area": "ring"}, "'area' must be box or disc"),
        ({"keep": (3, 3)}, "'keep' must list distinct indices from 0 to n - 1 = 9"),
        ({"keep": (10,)}, "'keep' must list"),
        ({"keep": (0.5,)}, "'keep' must list"),
        ({"outside": ((1, 2, 3),)}, "'outside' must be a Region or a list of rings"),
        ({"outside": 7}, "'outside' must be a Region or a list of rings"),
        ({"outside": (((0, 0), (1, 0), (0, np.nan)),)}, "'outside' must contain finite numbers only"),
    ],
)
def test_bad_numbers_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AddPoints(**{"n": 10, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [((1, 2, 3),), ((1, 2, 3, "x"),), ((1, 2, np.nan, 0),), ((1e300, 2, 3, 0),)], ids=str)
def test_points_that_are_none_are_refused(at: object) -> None:
    with pytest.raises(ValueError, match="'at'"):
        PlacePoints(at)  # type: ignore[arg-type]


def test_paper_s_numbers_are_a_space() -> None:
    rng = np.random.default_rng(0)
    made = [scattered(5.0).propose(sweep_case(), rng, FakeSystem()) for _ in range(30)]
    assert {change.n for change in made} == {10, 100, 1000}  # type: ignore[attr-defined]
    assert len({change.seed for change in made}) == 30  # type: ignore[attr-defined]
    assert {change.near for change in made} == {5.0}  # type: ignore[attr-defined]
    assert Over(AddPoints, n=10).domains["seed"] == Range(0, 2**31)


def test_boxes_stay_what_they_are() -> None:
    boxes = Boxes3D(np.array([[8, 1, 0, 4, 2, 1.5, 0.1]]), ("car",))
    assert AddPoints(10).map(boxes) is boxes


def test_own_region_says_who_is_demanded() -> None:
    square = ((-5.0, -5.0), (5.0, -5.0), (5.0, 5.0), (-5.0, 5.0))
    boxes = Boxes3D(np.array([[0, 0, 0, 1, 1, 1, 0], [9, 0, 0, 1, 1, 1, 0.0]]), ("car", "car"))
    for change in (AddPoints(3, outside=(square,)), PlacePoints(((9.0, 9.0, 0.0, 0.5),), outside=(square,))):
        assert np.asarray(change.boxes3d(boxes).care).tolist() == [True, False]
    assert AddPoints(3).boxes3d(boxes) is boxes
