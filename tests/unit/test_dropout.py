"""Beams, sectors and points that are missing, and points off their place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes3D, PointCloud, Steering
from swerve.testing import TransformationContract
from swerve.transformations.dropout import HDL_64E, DropBeams, DropPoints, DropSector, Jitter, find_beams
from swerve.transformations.points import bearings, spans_overlap, wrap_angle
from swerve.transformations.sensor_pose import MirrorScene, Yaw
from swerve.transformations.weather import Fog
from swerve.world.lidar_source import LidarWorld
from tests.fixture_sweeps import points_of, shrunk, sweep_case

ANGLES = st.floats(-400, 400)


class TestDropout(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        some = [DropSector(170, 40), DropBeams(0.5, 3), DropBeams(1.0), DropBeams(0.1, elevations=(10.0, 0.0, -10.0))]
        return [*some, *(change for kind in (DropPoints, Jitter, DropSector, DropBeams) for change in kind.grid())]

    def case(self) -> Case:
        return sweep_case()


def rays(elevations: Sequence[float], each: int = 90) -> Array:
    """Points of a sensor with these beams, at all distances and all around, with a little noise along the ray."""
    rng = np.random.default_rng(4)
    up = np.radians(np.repeat(elevations, each))
    turn, far = rng.uniform(-np.pi, np.pi, len(up)), rng.uniform(2, 100, len(up))
    way = np.stack([np.cos(up) * np.cos(turn), np.cos(up) * np.sin(turn), np.sin(up)], axis=1)
    return np.column_stack([way * far[:, None], rng.random(len(up))]).astype(np.float32)


def ray_cloud() -> PointCloud:
    return PointCloud(rays(HDL_64E))


# --- beams ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elevations", [HDL_64E, (15.0, 5.0, -5.0, -15.0), (3.0,)], ids=len)
def test_beam_is_told_by_its_elevation(elevations: tuple[float, ...]) -> None:
    beams, found_by = find_beams(rays(elevations), elevations)
    assert found_by == "elevation"  # these points are in no order
    assert (beams == np.repeat(np.arange(len(elevations)), 90)).all()


@pytest.fixture(scope="module")
def scan() -> tuple[Array, Array]:
    """A sweep of the embedded world with its beams, its lasers up to 10 cm above or below the middle of the sensor."""
    source = LidarWorld(drives=1)
    xyzi = points_of(source[source.keys()[0]]).copy()
    beams = nominal_beams(xyzi)  # exact: in the world all beams leave from one point
    xyzi[:, 2] += np.linspace(0.1, -0.1, 64, dtype=np.float32)[beams]
    return xyzi, beams


def nominal_beams(xyzi: Array) -> Array:
    up = np.degrees(np.arctan2(xyzi[:, 2], np.hypot(xyzi[:, 0], xyzi[:, 1])))
    return np.abs(up[:, None] - np.array(HDL_64E)).argmin(axis=1)


@pytest.mark.parametrize("change", [Yaw(0), Yaw(-77), Yaw(180), MirrorScene(), DropPoints(0.5, 1), Fog(100)], ids=repr)
def test_beam_is_found_from_the_order_of_points(scan: tuple[Array, Array], change: Transformation) -> None:
    xyzi, beams = scan
    assert (nominal_beams(xyzi) == beams).mean() < 0.6  # the elevation of a near point says little of its beam
    numbered = np.column_stack([xyzi[:, :3], beams]).astype(np.float32)
    kept = change.map(PointCloud(xyzi)).xyzi
    truth = beams if len(kept) == len(xyzi) else DropPoints(0.5, 1).map(PointCloud(numbered)).xyzi[:, 3]
    found, found_by = find_beams(kept)
    assert found_by == "order"
    if not isinstance(change, Fog):  # which also removes points, by chance
        assert (found == truth).all()


def test_order_from_the_bottom_up_is_found(scan: tuple[Array, Array]) -> None:
    xyzi, beams = scan
    found, found_by = find_beams(xyzi[::-1])
    assert found_by == "order"
    assert (found == beams[::-1]).all()


def test_whole_rings_are_dropped_where_beams_are_missing(scan: tuple[Array, Array]) -> None:
    xyzi, beams = scan
    rest = ~np.isin(beams, (0, 1, 20, 21, 22, 63))
    found, found_by = find_beams(xyzi[rest])
    assert found_by == "order"
    for beam in np.unique(beams[rest]):
        assert len(np.unique(found[beams[rest] == beam])) == 1
    assert len(np.unique(found)) == 58


def test_order_that_is_not_ring_by_ring_is_not_used(scan: tuple[Array, Array]) -> None:
    xyzi, _ = scan
    azimuth = np.arctan2(xyzi[:, 1], xyzi[:, 0])
    shuffled = xyzi[np.random.default_rng(3).permutation(len(xyzi))]
    for other in (shuffled, xyzi[np.argsort(azimuth, kind="stable")], Jitter(0.1).map(PointCloud(xyzi)).xyzi):
        found, found_by = find_beams(other)
        assert found_by == "elevation"
        assert (found == nominal_beams(other)).mean() > 0.9999  # but for ties
    assert find_beams(xyzi, (2.0, -10.0, -20.0))[1] == "elevation"  # more rings than beams


def test_record_says_how_beams_were_found(scan: tuple[Array, Array]) -> None:
    xyzi, beams = scan
    case = Case("k", {"lidar": PointCloud(xyzi)})
    after = DropBeams(beams=(5, 40))(case)
    assert after.facts["beams_by"] == "order"
    np.testing.assert_array_equal(points_of(after), xyzi[~np.isin(beams, (5, 40))])
    assert DropBeams(0.5)(sweep_case()).facts["beams_by"] == "elevation"
    assert "beams_by" not in DropBeams(0.0)(case).facts


def test_named_beams_go_and_the_others_stay() -> None:
    cloud = ray_cloud()
    left = DropBeams(beams=(3, 0, 63)).map(cloud).xyzi
    np.testing.assert_array_equal(left, cloud.xyzi[~np.isin(np.repeat(np.arange(64), 90), (0, 3, 63))])


@given(st.integers(0, 2**31), st.floats(0, 1))
def test_share_of_beams_is_dropped(seed: int, share: float) -> None:
    dead = DropBeams(share, seed).parts()
    assert len(dead) == round(share * 64)
    assert set(dead) <= set(DropBeams(1.0, seed).parts()) == set(range(64))
    assert set(dead) >= set(DropBeams(share / 2, seed).parts())  # more beams are the same and others
    assert len(DropBeams(share, seed).map(ray_cloud()).xyzi) == 90 * (64 - len(dead))


def test_fewest_dead_beams_are_found() -> None:
    start = DropBeams(0.75, 2)
    needed = set(start.parts()[5:7])
    found = shrunk(start, lambda change: needed <= set(change.parts()))  # type: ignore[attr-defined]
    assert found.change == DropBeams(seed=2, beams=tuple(needed))
    assert found.edges == ()


def test_dead_beams_read_well() -> None:
    assert DropBeams(0.25).words() == "25% of the beams dropped"
    assert DropBeams(beams=(7,)).words() == "beam 7 dropped"
    assert DropBeams(beams=tuple(range(12))).words() == "beams 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more dropped"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"beams": (64,)}, "distinct numbers from 0 to 63"),
        ({"beams": (1, 1)}, "distinct"),
        ({"beams": (1.5,)}, "distinct numbers from 0"),
        ({"beams": (1,), "share": 0.5}, "not both"),
        ({"elevations": (1.0, 2.0)}, "'elevations' must decrease"),
        ({"share": 1.5}, "'share' must be"),
    ],
)
def test_beams_that_are_none_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        DropBeams(**given)  # type: ignore[arg-type]


# --- sectors ------------------------------------------------------------------------------------------------------------


def box(degrees: float, *, far: float = 20.0, yaw: float = 0.0, length: float = 4.0, width: float = 2.0) -> Array:
    angle = np.radians(degrees)
    return np.array([[far * np.cos(angle), far * np.sin(angle), 0, length, width, 1.5, yaw]])


@given(ANGLES, st.floats(1, 359))
def test_sector_is_empty_and_all_else_there(centre: float, width: float) -> None:
    cloud, middle = ray_cloud(), float(np.degrees(wrap_angle(np.radians(centre))))
    change = DropSector(middle, width)
    off = np.abs((np.degrees(np.arctan2(cloud.xyzi[:, 1], cloud.xyzi[:, 0])) - middle + 180) % 360 - 180)
    sure = np.abs(off - width / 2) > 1e-3  # on the edge either will do
    left = {row.tobytes() for row in change.map(cloud).xyzi}
    for row, away in zip(cloud.xyzi[sure][::40], off[sure][::40], strict=True):
        assert (row.tobytes() in left) == (away > width / 2)


@pytest.mark.parametrize("degrees", [0, 90, 180, -135])
def test_box_in_the_sector_is_not_demanded(degrees: float) -> None:
    """A box 2 m across at 20 m covers about 6 degrees, 4 m of it about 12."""
    boxes = Boxes3D(
        np.concatenate([box(degrees), box(degrees + 25), box(degrees - 8, yaw=np.radians(degrees))]), ("car",) * 3
    )
    middle = float((degrees + 180) % 360 - 180)
    after = DropSector(middle, 10).map(boxes)
    assert after.care is not None
    assert after.care.tolist() == [False, True, False]  # the third reaches in with its nearer corner
    assert DropSector(middle, 360).map(boxes).care.tolist() == [False] * 3  # type: ignore[union-attr]
    assert DropSector(middle, 0).map(boxes) is boxes


def test_narrow_sector_within_a_box_is_noticed() -> None:
    assert DropSector(0, 1).map(Boxes3D(box(0, far=4), ("car",))).care.tolist() == [False]  # type: ignore[union-attr]


@given(st.lists(st.tuples(ANGLES, st.floats(0, 350)), min_size=1, max_size=5), ANGLES, st.floats(0, 350))
def test_spans_meet_as_on_a_dial(spans: list[tuple[float, float]], low: float, width: float) -> None:
    """Compared with every hundredth of a degree of the dial, but for touches that rounding decides."""
    least = np.radians([start for start, _ in spans])
    most = least + np.radians([long for _, long in spans])
    found = spans_overlap(least, most, np.radians(low), np.radians(low + width))
    for (start, long), met in zip(spans, found, strict=True):
        gap = min((start - low - width) % 360, (low - start - long) % 360)
        apart = (start - low) % 360 > width and (low - start) % 360 > long
        assert met == (not apart) or min(gap, 360 - gap) < 1e-6


@given(ANGLES, st.floats(3, 60), st.floats(-3, 3), st.floats(0.1, 5), st.floats(0.1, 5))
def test_bearings_hold_every_corner_and_no_more(degrees: float, far: float, yaw: float, length: float, width: float) -> None:
    row = box(degrees, far=far, yaw=yaw, length=length, width=width)
    least, most = bearings(row)
    across = np.linspace(-0.5, 0.5, 9)
    along, aside = np.meshgrid(across * length, across * width)
    x = row[0, 0] + along * np.cos(yaw) - aside * np.sin(yaw)
    y = row[0, 1] + along * np.sin(yaw) + aside * np.cos(yaw)
    seen = wrap_angle(np.arctan2(y, x) - (least + most) / 2)
    around = (np.hypot(x, y) < 0.3).any() or far < np.hypot(length, width) / 2
    if not around:
        half = (most - least)[0] / 2
        assert np.abs(seen).max() == pytest.approx(half, abs=1e-6)


def test_box_around_the_sensor_is_everywhere() -> None:
    least, most = bearings(np.array([[0.5, 0, 0, 4, 2, 1.5, 0.3]]))
    assert most[0] - least[0] == pytest.approx(2 * np.pi)


# --- points -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**31), st.floats(0, 1))
def test_larger_share_drops_more_of_the_same(seed: int, share: float) -> None:
    cloud = ray_cloud()
    less, more = ({row.tobytes() for row in DropPoints(some, seed).map(cloud).xyzi} for some in (share / 2, share))
    assert more <= less
    assert len(more) / len(cloud.xyzi) == pytest.approx(1 - share, abs=0.04)


def test_jitter_is_of_the_size_asked_for() -> None:
    cloud = ray_cloud()
    off = Jitter(0.1, 5).map(cloud).xyzi - cloud.xyzi
    assert off[:, :3].std(axis=0) == pytest.approx([0.1] * 3, rel=0.05)
    assert off[:, :3].mean(axis=0) == pytest.approx([0] * 3, abs=0.01)
    assert not off[:, 3].any()
    np.testing.assert_allclose(Jitter(0.2, 5).map(cloud).xyzi - cloud.xyzi, 2 * off, atol=1e-4)


@pytest.mark.parametrize("change", [DropBeams(1.0), DropSector(0, 360), DropPoints(0.0), Jitter(0.5)], ids=repr)
def test_what_is_not_finite_is_left_to_the_system(change: Transformation) -> None:
    broken = PointCloud(np.array([[np.nan, 1, 0, 0], [1, np.nan, np.nan, 0]], np.float32))
    assert len(change.map(broken).xyzi) == 2


def test_sweep_is_needed() -> None:
    with pytest.raises(NotApplicable, match="no point cloud"):
        DropPoints(0.5)(Case("k", {"wheel": Steering(1)}))


def test_no_points_stay_none() -> None:
    empty = PointCloud(np.zeros((0, 4), np.float32))
    for change in (DropBeams(0.5), DropSector(0, 90), DropPoints(0.5), Jitter(0.1)):
        assert change.map(empty) is empty
    assert points_of(DropPoints(0.5)(sweep_case())).shape[0] < 2_000
