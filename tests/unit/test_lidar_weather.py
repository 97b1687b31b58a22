"""Fog, rain and snow in a sweep: returns that fade and end, and the air that answers near the sensor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes3D, Group, Image, PointCloud, Steering
from swerve.transformations.weather import (
    BLIND_ZONE,
    IN_FOG,
    IN_RAIN,
    IN_SNOW,
    Backscatter,
    Fog,
    Rain,
    Snow,
    max_range,
    sweep_through_air,
)
from tests.fixture_sweeps import points_of, sweep_case

SILENT = Backscatter(1e-12, 5.0, 0.1)  # fades, and answers nobody
HEAVIEST = ((Fog(10), 0.39, IN_FOG), (Rain(1), 3.912 / 350, IN_RAIN), (Snow(5), 3.912 / 130, IN_SNOW))


def wall(metres: float, count: int = 20_000) -> Array:
    """A wall all around, so that every beam is as long."""
    turn = np.linspace(-np.pi, np.pi, count, endpoint=False)
    return np.column_stack([metres * np.cos(turn), metres * np.sin(turn), np.zeros(count), np.full(count, 0.8)]).astype(
        np.float32
    )


def ranges(xyzi: Array) -> Array:
    return np.linalg.norm(xyzi[:, :3].astype(float), axis=1)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- fading -----------------------------------------------------------------------------------------------------------


@given(st.floats(0.001, 0.4), st.lists(st.floats(0.5, 200), min_size=1, max_size=20))
def test_returns_fade_there_and_back(extinction: float, far: list[float]) -> None:
    xyzi = np.array([[0, metres, 0, 0.8] for metres in far], np.float32)
    after = sweep_through_air(xyzi, extinction, SILENT, rng())
    seen = xyzi[xyzi[:, 1] <= max_range(extinction)]
    np.testing.assert_array_equal(after[:, :3], seen[:, :3])
    np.testing.assert_allclose(after[:, 3], 0.8 * np.exp(-2 * extinction * seen[:, 1]), rtol=1e-5)
    assert (after[:, 3] >= 0.8 * 0.0199).all()  # 2% is what visibility means


@pytest.mark.parametrize(("change", "metres"), [(Fog(100), 50.0), (Rain(1), 175.0), (Rain(0.5), 350.0), (Snow(5), 65.0)])
def test_sweep_ends_at_half_the_visibility(change: Transformation, metres: float) -> None:
    for far, left in ((metres - 0.5, True), (metres + 0.5, False)):
        after = ranges(change.map(PointCloud(wall(far))).xyzi)
        assert (np.abs(after - far) < 0.01).any() == left


def test_boxes_beyond_the_reach_are_not_demanded() -> None:
    boxes = Boxes3D(np.array([[40, 0, 0, 4, 2, 1.5, 0], [0, 55, 0, 4, 2, 1.5, 0]]), ("car", "car"))
    assert Fog(100).map(boxes).care.tolist() == [True, False]  # type: ignore[union-attr]
    assert Fog(10_000).map(boxes) is boxes
    never = Boxes3D(boxes.xyzlwhy, boxes.kinds, care=np.array([False, False]))
    assert not Fog(100).map(never).care.any()  # type: ignore[union-attr]


# --- the air's answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "extinction", "air"), HEAVIEST, ids=["fog", "rain", "snow"])
def test_share_of_answers_is_the_law_s(change: Transformation, extinction: float, air: Backscatter) -> None:
    """1 − exp(−∫ share·extinction·exp(−r/depth) dr) of all beams, summed up centimetre by centimetre."""
    far = 30.0
    after = ranges(change.map(PointCloud(wall(far))).xyzi)
    r = np.arange(BLIND_ZONE, far, 0.01) + 0.005
    expected = 1 - np.exp(-(air.share * extinction * np.exp(-r / air.depth) * 0.01).sum())
    sigma = np.sqrt(expected * (1 - expected) / 20_000)
    assert (after < far - 0.01).sum() / 20_000 == pytest.approx(expected, abs=5 * sigma)


def test_answers_thin_out_with_distance() -> None:
    """Of the first answers of a thin air, the share beyond r metres falls by e every `depth` metres."""
    air, extinction = Backscatter(1.0, 6.0, 0.1), 0.004
    after = ranges(sweep_through_air(wall(80.0, 400_000), extinction, air, rng()))
    answers = after[after < 79]
    for r in (3.0, 6.0, 12.0, 18.0):
        ratio = (answers > r + 6).sum() / (answers > r).sum()
        assert ratio == pytest.approx(np.exp(-1), abs=0.04)
    assert answers.min() >= BLIND_ZONE


@pytest.mark.parametrize("change", [Fog(40), Rain(1), Snow(5)], ids=repr)
def test_answer_lies_on_its_own_beam(change: Transformation) -> None:
    """In the order of the beams, in the same direction, nearer than what it hides, and faint."""
    cloud = PointCloud(wall(18.0))
    after = change.map(cloud).xyzi
    assert len(after) == len(cloud.xyzi)  # nothing was out of reach
    ways = [xyzi[:, :3] / ranges(xyzi)[:, None] for xyzi in (after, cloud.xyzi)]
    np.testing.assert_allclose(*ways, atol=1e-6)
    answered = (after[:, :3] != cloud.xyzi[:, :3]).any(axis=1)
    assert 0.01 < answered.mean() < 0.5
    assert (ranges(after)[answered] < 18).all()
    assert (after[answered, 3] <= 0.25).all()
    assert (after[answered, 3] >= 0).all()


def test_lost_beams_are_answered_too() -> None:
    after = Fog(40).map(PointCloud(wall(100.0))).xyzi  # nothing of the wall is left
    assert 0.05 < len(after) / 20_000 < 0.3
    assert ranges(after).max() < 60


@given(st.integers(0, 2**31), st.floats(0.01, 0.2), st.floats(1.1, 3))
@settings(max_examples=25)
def test_denser_air_answers_the_same_beams_nearer(seed: int, extinction: float, denser: float) -> None:
    less, more = (
        ranges(sweep_through_air(wall(3.2, 500), some, IN_FOG, rng(seed))) for some in (extinction, denser * extinction)
    )
    assert (more <= less + 1e-5).all()


def test_nearest_returns_hide_nothing() -> None:
    """A beam that ends within the blind metre has no air to be answered by."""
    after = Fog(10).map(PointCloud(wall(0.9)))
    np.testing.assert_allclose(ranges(after.xyzi), 0.9, atol=1e-6)


# --- cases ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [Fog(40, seed=3), Rain(1), Snow(5)], ids=repr)
def test_lidar_alone_is_enough(change: Transformation) -> None:
    case = sweep_case()
    after = change(case)
    assert len(points_of(after)) < len(points_of(case)) or after.input_sha != case.input_sha
    assert change(case).input_sha == after.input_sha
    assert after.inputs["region"] is case.inputs["region"]
    assert after.parent == "sweep"


def test_camera_and_lidar_share_the_weather() -> None:
    image = Image(rng().integers(0, 200, (30, 40, 3), np.uint8))
    both = Case("k", {"lidar": PointCloud(wall(20.0)), "camera": image})
    after = Fog(40)(both)
    assert after.inputs["camera"] != image
    assert after.inputs["lidar"] == Fog(40).map(both.inputs["lidar"])


def test_every_sweep_of_a_window_is_changed() -> None:
    window = Case("w", {"lidar": Group((PointCloud(wall(20.0)), PointCloud(wall(30.0))))})
    after = Snow(5)(window).inputs["lidar"]
    assert after == Group(tuple(Snow(5).map(PointCloud(wall(metres))) for metres in (20.0, 30.0)))


def test_another_seed_answers_other_beams() -> None:
    cloud = PointCloud(wall(20.0))
    assert Snow(5, seed=1).map(cloud) != Snow(5, seed=2).map(cloud)


@pytest.mark.parametrize("change", [Fog(10_000), Rain(0), Snow(0)], ids=repr)
def test_clear_air_changes_nothing(change: Transformation) -> None:
    case = sweep_case()
    assert all(value is case.inputs[name] for name, value in change(case).inputs.items())


def test_nobody_who_sees_is_told() -> None:
    with pytest.raises(NotApplicable, match="no image and no point cloud"):
        Fog(40)(Case("k", {"wheel": Steering(1)}))


def test_broken_points_are_left_to_the_system() -> None:
    broken = PointCloud(np.array([[np.nan, 1, 0, 0.5], [1, 0, 0, 0.5], [np.inf, 0, 0, 0.5]], np.float32))
    assert len(Fog(40).map(broken).xyzi) == 2  # nobody sees infinitely far
    empty = PointCloud(np.zeros((0, 4), np.float32))
    assert Fog(40).map(empty) is empty
