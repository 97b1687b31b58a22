"""Objects set into sweeps: met by the sweep's own beams, hiding and hidden as they would be."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.errors import NotApplicable, UnmappedError
from swerve.core.region import inside
from swerve.core.relation import Pair, Status
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes3D, Image, PointCloud, Region, Steering
from swerve.relations.sets import Superset
from swerve.testing import FakeSystem, TransformationContract
from swerve.transformations.insert import DEFAULT_GROUND, MIN_RETURNS, NOISE, Insertions, InsertObject, ground_at
from swerve.transformations.solids import LIBRARY, Block, Ellipsoid, Object, Shape, SolidPart
from tests.fixture_sweeps import points_of

ELEVATIONS, COLUMNS = np.radians(np.linspace(2, -25, 64)), 900
FAR = 40.0


def beams() -> Array:
    """Unit directions of a small LiDAR, n x 3."""
    turn = np.linspace(-np.pi, np.pi, COLUMNS, endpoint=False)[None]
    up = ELEVATIONS[:, None]
    parts = np.broadcast_arrays(np.cos(up) * np.cos(turn), np.cos(up) * np.sin(turn), np.sin(up))
    return np.stack([part.ravel() for part in parts], axis=1)


def street(walls: dict[tuple[float, float], float] | None = None, ground: float = DEFAULT_GROUND) -> Array:
    """A level street within a round wall 40 m away; `walls`: nearer ones, as metres by the degrees they stand between."""
    ways = beams()
    with np.errstate(divide="ignore"):
        metres = np.where(ways[:, 2] < 0, ground / ways[:, 2], np.inf)
    wall = np.full(len(ways), FAR)
    degrees = np.degrees(np.arctan2(ways[:, 1], ways[:, 0]))
    for (low, high), near in (walls or {}).items():
        wall[(degrees >= low) & (degrees <= high)] = near
    metres = np.minimum(metres, wall / np.hypot(ways[:, 0], ways[:, 1]))
    return np.column_stack([ways * metres[:, None], np.full(len(ways), 0.2)]).astype(np.float32)


def scene(
    walls: dict[tuple[float, float], float] | None = None, *boxes: tuple[float, ...], ground: float = DEFAULT_GROUND
) -> Case:
    truth = Boxes3D(np.array(boxes, float).reshape(-1, 7), ("car",) * len(boxes))
    return Case("street", {"lidar": PointCloud(street(walls, ground))}, (truth,))


def moved(change: InsertObject, case: Case) -> Array:
    """Which points the object took."""
    return (points_of(change(case)) != points_of(case)).any(axis=1)


def boxes_of(case: Case) -> Boxes3D:
    value = case.truth[0]
    assert isinstance(value, Boxes3D)
    return value


class TestInsertObject(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [InsertObject(kind, 10.2, -3, 30, seed) for seed, kind in enumerate(LIBRARY)] + [
            InsertObject("car", -12, 4, ground=-1.7)
        ]

    def case(self) -> Case:
        return scene(None, (20, 0, 0, 4, 2, 1.5, 0))


# --- what beams meet -----------------------------------------------------------------------------------------------------

SHAPES: dict[str, Shape] = {
    "ball": Ellipsoid((0.3, -0.2, 1.0), (0.5, 0.8, 1.0)),
    "box": Block((-1, 1, 0.5), (-1, 1, 0.5), (0.2, 1.4)),
    "cabin": Block((-1.5, 1, 0.9), (-0.8, 0.3, 0.5), (0.5, 1.5)),
    "keel": Block((-0.2, 0.2, 0.1), (-1, 1.4, 0.9), (0.0, 1.0)),
}


def holds(shape: Shape, at: Array) -> Array:
    """Whether places lie in a shape, by its definition."""
    if isinstance(shape, Ellipsoid):
        return (((at - shape.centre) / shape.radii) ** 2).sum(axis=1) <= 1
    assert isinstance(shape, Block)
    low, high = shape.heights
    share = (at[:, 2] - low) / (high - low)
    least, most, wide = (a + share * (b - a) for a, b in zip(shape.floor, shape.top, strict=True))
    within = (share >= 0) & (share <= 1)
    return within & (at[:, 0] >= least) & (at[:, 0] <= most) & (np.abs(at[:, 1]) <= wide)


@pytest.mark.parametrize("name", SHAPES)
@given(
    st.floats(-np.pi, np.pi), st.floats(2.5, 20), st.floats(-1, 4), st.lists(st.floats(-1.5, 1.5), min_size=3, max_size=3)
)
@settings(max_examples=60, deadline=None)
def test_beam_ends_on_the_surface(name: str, angle: float, far: float, up: float, aim: list[float]) -> None:
    """Against a walk along the beam in steps of a millimetre."""
    shape = SHAPES[name]
    eye = np.array([far * np.cos(angle), far * np.sin(angle), up])
    way = np.array([aim[0], aim[1], aim[2] + 1]) - eye
    way /= np.linalg.norm(way)
    metres = shape.intersect(eye, way[None])[0]
    steps = np.arange(0, far + 5, 0.001)
    within = np.flatnonzero(holds(shape, eye + steps[:, None] * way))
    if len(within) > 3:  # fewer are a graze that rounding decides
        assert metres == pytest.approx(steps[within[0]], abs=0.0011)
    elif not len(within):
        assert not np.isfinite(metres) or not holds(shape, (eye + (metres + 0.002) * way)[None])[0]


def test_beam_the_other_way_meets_nothing() -> None:
    for shape in SHAPES.values():
        assert not np.isfinite(shape.intersect(np.array([9.0, 0, 1]), np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]))).any()


def test_nearest_part_is_met_first() -> None:
    pair = Object("pair", (SolidPart(Ellipsoid((0, 0, 1), (1, 1, 1)), 0.3), SolidPart(Ellipsoid((3, 0, 1), (1, 1, 1)), 0.7)))
    metres, shine = pair.intersect(np.array([10.0, 0, 1]), np.array([[-1.0, 0, 0]]))
    assert (metres[0], shine[0]) == (6.0, 0.7)


@pytest.mark.parametrize("kind", LIBRARY)
@pytest.mark.parametrize("seed", range(5))
def test_objects_stand_on_the_ground_about_their_middle(kind: str, seed: int) -> None:
    low, high = LIBRARY[kind](np.random.default_rng(seed)).bounds
    np.testing.assert_allclose(low[:2], -high[:2], atol=1e-9)
    assert low[2] == pytest.approx(0, abs=1e-9)
    size = {"car": (4.35, 1.8, 1.5), "pedestrian": (0.5, 0.6, 1.72), "cyclist": (1.74, 0.52, 1.75)}[kind]
    np.testing.assert_allclose(high - low, size, atol=0.5)


# --- hiding and hidden --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LIBRARY)
def test_points_lie_on_the_object(kind: str) -> None:
    case, change = scene(), InsertObject(kind, 12, 5, 40, 3, ground=DEFAULT_GROUND)
    took = moved(change, case)
    x, y, z, *size, yaw = change.box
    own = points_of(change(case))[took, :3] - (x, y, z)
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    assert took.sum() == change(case).facts["inserted"]
    assert took.sum() > 60
    assert (np.abs(own @ turn) <= np.array(size) / 2 + 5 * NOISE).all()
    assert own[:, 2].max() > 0.3 * size[2]  # up to the roof or head
    assert ((points_of(change(case))[took, 3] > 0) & (points_of(change(case))[took, 3] <= 1)).all()


def test_what_stands_behind_is_hidden_and_all_else_stays() -> None:
    case, change = scene(), InsertObject("car", 12, 0, ground=DEFAULT_GROUND)
    before, after, took = points_of(case), points_of(change(case)), moved(change, case)
    np.testing.assert_array_equal(after[~took], before[~took])
    ways = [rows[:, :3] / np.linalg.norm(rows[:, :3], axis=1)[:, None] for rows in (before[took], after[took])]
    np.testing.assert_allclose(*ways, atol=1e-5)  # each on the beam it came by
    nearer = np.linalg.norm(before[took, :3], axis=1) - np.linalg.norm(after[took, :3], axis=1)
    assert (nearer > -5 * NOISE).all()
    slope = before[:, 2] / np.hypot(before[:, 0], before[:, 1])
    boot = (np.abs(np.arctan2(before[:, 1], before[:, 0])) < 0.05) & (slope > -0.13) & (slope < -0.1)
    assert boot.sum() > 20
    assert np.hypot(after[boot, 0], after[boot, 1]).max() < 10.2  # all that is aimed at it ends there


def test_behind_a_wall_nothing_appears() -> None:
    case, change = scene({(-60, 60): 8.0}), InsertObject("car", 15, 0)
    assert change.map(case.inputs["lidar"]) is case.inputs["lidar"]
    assert change.applies(case) == f"only 0 beams hit the car, and at least {MIN_RETURNS} are needed"
    with pytest.raises(NotApplicable, match="only 0 beams"):
        change(case)


def test_half_behind_a_wall_half_is_seen() -> None:
    change = InsertObject("car", 15, 0, 90, ground=DEFAULT_GROUND)  # broadside, from -8 to 8 degrees
    whole, half = (moved(change, scene(walls)).sum() for walls in (None, {(0.0, 60.0): 8.0}))
    assert half == pytest.approx(whole / 2, rel=0.2)  # its cabin is not in the middle
    seen = points_of(change(scene({(0.0, 60.0): 8.0})))[moved(change, scene({(0.0, 60.0): 8.0}))]
    assert (seen[:, 1] < 0.05).all()


def test_points_are_as_dense_as_the_beams() -> None:
    """Twice as far, a quarter of the beams meet it."""
    near, far = (moved(InsertObject("cyclist", x, 0, 90, ground=DEFAULT_GROUND), scene()).sum() for x in (8.0, 16.0))
    assert near / far == pytest.approx(4, rel=0.15)


@given(st.floats(-180, 180), st.floats(6, 30), st.floats(-180, 180), st.integers(0, 50), st.sampled_from(sorted(LIBRARY)))
@settings(max_examples=15, deadline=None)
def test_beams_end_where_they_first_meet_something(angle: float, far: float, yaw: float, seed: int, kind: str) -> None:
    """Everywhere and however turned: each beam ends on the object, nearer than it did, or where it did."""
    x, y = far * np.cos(np.radians(angle)), far * np.sin(np.radians(angle))
    sweep, change = PointCloud(street()), InsertObject(kind, x, y, yaw, seed, ground=DEFAULT_GROUND)
    made = change.map(sweep).xyzi
    before, after = (np.linalg.norm(rows[:, :3], axis=1) for rows in (sweep.xyzi, made))
    assert (after <= before + 6 * NOISE).all()
    took = (made != sweep.xyzi).any(axis=1)
    assert (np.hypot(*(made[took, :2] - (x, y)).T) < 3.0).all()


def test_turned_scene_and_turned_object_agree() -> None:
    """Turned by a whole number of columns about the sensor, the same beams meet it."""
    step = 360 / COLUMNS * 100
    ahead = InsertObject("car", 12, 0, 20, 7, ground=DEFAULT_GROUND)
    aside = InsertObject(
        "car", 12 * np.cos(np.radians(step)), 12 * np.sin(np.radians(step)), 20 + step, 7, ground=DEFAULT_GROUND
    )
    counts = [moved(change, scene()).reshape(64, COLUMNS).sum(axis=1) for change in (ahead, aside)]
    assert np.abs(counts[0] - counts[1]).max() <= 1  # beams that graze it


def test_broken_points_stay_broken() -> None:
    rows = street()
    rows[::50] = np.nan
    rows[7] = 0
    case = Case("k", {"lidar": PointCloud(rows)})
    after = points_of(InsertObject("car", 12, 0)(case))
    assert np.isnan(after[::50]).all()
    assert not after[7].any()


# --- labels -----------------------------------------------------------------------------------------------------------


def test_box_joins_the_labels() -> None:
    case = scene(None, (30, 20, -1, 4, 2, 1.5, 0))
    change = InsertObject("pedestrian", 10, 2, 90, ground=-1.7)
    after = boxes_of(change(case))
    assert after.kinds == ("car", "pedestrian")
    assert after.care is not None
    assert after.care.tolist() == [True, True]
    x, y, z, _, _, height, yaw = after.xyzlwhy[1]
    assert (x, y, yaw) == (10, 2, pytest.approx(np.pi / 2))
    assert z - height / 2 == pytest.approx(-1.7)


def test_boxes_it_hides_are_not_demanded() -> None:
    behind, aside, before = (25, 0.5, -1, 4, 2, 1.5, 0), (25, 9, -1, 4, 2, 1.5, 0), (6, 4, -1, 4, 2, 1.5, 0)
    touched = (14, 1.5, -1, 4, 2, 1.5, 0)  # a label that overlaps its place, though no point does
    boxes = Boxes3D(np.array([behind, aside, before, touched], float), ("car",) * 4)
    after = InsertObject("car", 12, 0).map(boxes)
    assert after.care is not None
    assert after.care.tolist() == [False, True, True, False, True]
    never = dataclasses.replace(boxes, care=np.zeros(4, bool))
    assert InsertObject("car", 12, 0).map(never).care.tolist() == [False] * 4 + [True]  # type: ignore[union-attr]


@pytest.mark.parametrize(("seen", "status"), [(True, Status.HELD), (False, Status.VIOLATED)])
def test_system_must_see_it(seen: bool, status: Status) -> None:
    """A superset of what was seen before, with the inserted object: a planted blindness is a loss."""
    case, change = scene(), InsertObject("car", 12, 0, 10)
    before = Boxes3D(np.array([[30, 20, -1, 4, 2, 1.5, 0.0]]), ("car",))
    after = change.map(before) if seen else before
    verdict = Superset().check(Pair(case, change(case), change, (before,), (after,)))
    assert verdict.status is status
    assert verdict.facts["lost"] == (not seen)


def test_way_to_steer_is_not_known() -> None:
    with pytest.raises(UnmappedError, match="steering"):
        InsertObject("car", 12, 0).map(Steering(1.0))


# --- where it may stand -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ground", [-1.5, -1.9])
def test_ground_is_taken_from_the_sweep(ground: float) -> None:
    case = scene(ground=ground)
    after = InsertObject("car", 10, 3)(case)
    assert after.facts["ground"] == pytest.approx(ground, abs=0.01)
    box = boxes_of(after).xyzlwhy[0]
    assert box[2] - box[5] / 2 == pytest.approx(ground, abs=0.01)


def test_ground_is_the_street_where_nothing_is_seen() -> None:
    assert ground_at(PointCloud(np.zeros((0, 4), np.float32)), 10, 0) == DEFAULT_GROUND
    assert ground_at(PointCloud(street(ground=-1.6)), 500, 500) == DEFAULT_GROUND


def test_taken_place_is_refused() -> None:
    case = scene({(-4.0, 4.0): 12.0})
    with pytest.raises(NotApplicable, match=r"the place of the car is taken: \d+ points"):
        InsertObject("car", 12, 0)(case)
    with pytest.raises(NotApplicable, match="less than 2 m from the sensor"):
        InsertObject("car", 3, 0)(case)
    with pytest.raises(NotApplicable, match="camera"):
        InsertObject("car", 9, 9)(Case("k", {**case.inputs, "camera": Image(np.zeros((2, 2, 3), np.uint8))}))
    with pytest.raises(NotApplicable, match="no point cloud"):
        InsertObject("car", 9, 9)(Case("k", {"wheel": Steering(1)}))


def test_proposals_can_be_made() -> None:
    road = Region((np.array([[-30.0, -6], [30, -6], [30, 6], [-30, 6]]),))
    case = Case("k", {"lidar": PointCloud(street({(20.0, 90.0): 4.0})), "region": road}, scene().truth)
    rng = np.random.default_rng(0)
    made = [Insertions(far=25.0).propose(case, rng, FakeSystem()) for _ in range(25)]
    assert all(isinstance(change, InsertObject) and change.applies(case) is None for change in made)
    assert inside(road, np.array([(change.x, change.y) for change in made])).all()  # type: ignore[attr-defined]
    assert len({change.kind for change in made}) == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(("y", "stands"), [(0.0, True), (5.5, False), (9.0, False)])
def test_it_stands_wholly_in_the_region(y: float, stands: bool) -> None:
    road = Region((np.array([[-30.0, -6], [30, -6], [30, 6], [-30, 6]]),))
    why = InsertObject("car", 12, y).applies(Case("k", {"lidar": PointCloud(street()), "region": road}))
    assert why is None if stands else "fully inside the region" in str(why)


def test_no_place_is_told() -> None:
    with pytest.raises(NotApplicable, match="found no free place for a car in 10 tries"):
        Insertions(("car",), tries=10).propose(scene({(-180.0, 180.0): 3.0}), np.random.default_rng(0), FakeSystem())
    with pytest.raises(NotApplicable, match="no point cloud"):
        Insertions().propose(Case("k", {}), np.random.default_rng(0), FakeSystem())


# --- as values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "why"),
    [({"kind": "cra"}, "did you mean 'car'"), ({"x": np.nan}, "'x' must be a finite"), ({"yaw": "left"}, "'yaw' must be")],
)
def test_bad_numbers_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        InsertObject(**{"kind": "car", "x": 9.0, "y": 1.0, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"kinds": ()}, {"kinds": ("bus",)}, {"near": 50.0}, {"tries": 0}])
def test_bad_spaces_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"insertions needs|unknown kind"):
        Insertions(**given)  # type: ignore[arg-type]


def test_words_tell_where() -> None:
    assert InsertObject("car", 12.5, -3, 90).words() == "a car inserted 12.5 m ahead and 3 m to the right, turned by 90°"
    assert InsertObject("cyclist", -8, 1).words() == "a cyclist inserted 8 m behind and 1 m to the left"


def test_simpler_ends() -> None:
    change: Transformation = InsertObject("car", 12.34, -3.2, 31, 9)
    for _ in range(4):
        change = next(change.simpler())
    assert change == InsertObject("car", 12, -3)
    assert not list(change.simpler())
