import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.world.ground import Floor, Footprint, _contour, kerbs, paint
from swerve.world.road import AHEAD, BEHIND, LARGEST_TURN, CrossSection, Junction, Road, winding

STRAIGHT = np.zeros(int(BEHIND + AHEAD) + 1)


def road(seed: int = 0, **kwargs) -> Road:
    return Road(winding(np.random.default_rng(seed), 40.0), **kwargs)


def seen(count: int, size: float = 0.01) -> Footprint:
    small = np.full(count, size, np.float32)
    return Footprint(small, small, (np.ones_like(small), np.zeros_like(small)))


def test_begins_at_the_origin() -> None:
    x, y, heading = road(3).at(0.0)
    assert (float(x), float(y), float(heading)) == pytest.approx((0, 0, 0), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 500), st.floats(-40, 300), st.floats(-9, 9))
def test_places_are_found_again(seed: int, s: float, d: float) -> None:
    here = road(seed)
    x, y, _ = here.at(s, d)
    found = here.locate(np.array([x]), np.array([y]))[0]
    assert found[0] == pytest.approx(s, abs=0.12)
    assert found[1] == pytest.approx(d, abs=0.06)


@settings(deadline=None)
@given(st.integers(0, 2000), st.floats(28, 90))
def test_roads_never_turn_back(seed: int, tightest: float) -> None:
    bend = winding(np.random.default_rng(seed), tightest)
    heading = np.cumsum(bend)
    assert np.abs(bend).max() <= 1 / tightest + 1e-9
    assert np.ptp(heading) <= 2 * LARGEST_TURN + 0.2


def test_edge_is_the_kerb() -> None:
    plain = Road(STRAIGHT, CrossSection(lanes=1, lane=3.0))
    _, _, edge = plain.locate(np.array([20.0, 20.0]), np.array([3.45 - 1.0, 3.45 + 2.0])).T
    assert edge == pytest.approx([-1.0, 2.0], abs=0.01)


def test_side_road_opens_the_kerb() -> None:
    crossing = Road(STRAIGHT, CrossSection(), (Junction(50.0, np.pi / 2, 3.0, left=True, right=False),))
    edge = crossing.locate(np.array([50.0, 50.0]), np.array([20.0, -20.0]))[:, 2]
    assert edge[0] < 0 < edge[1]


def test_mirror_exchanges_left_and_right() -> None:
    junction = Junction(60.0, 1.4, 3.0, left=True, right=False)
    one = road(5, junctions=(junction,))
    other = one.mirrored()
    x, y = np.array([30.0, 62.0, 80.0]), np.array([2.0, 18.0, -5.0])
    s, d, edge = one.locate(x, y).T
    mirrored = other.locate(x, -y)
    assert mirrored[:, 0] == pytest.approx(s, abs=0.02)
    assert mirrored[:, 1] == pytest.approx(-d, abs=0.02)
    assert mirrored[:, 2] == pytest.approx(edge, abs=0.1)  # fillets are rounded between the cells of the map
    assert other.lane_middle() == -one.lane_middle()


def test_mirrored_twice_is_itself() -> None:
    one = road(2, junctions=(Junction(60.0, 1.4, 3.0, left=True, right=False),))
    back = one.mirrored().mirrored()
    assert np.array_equal(back.curvature, one.curvature)
    assert back.junctions[0].angle == pytest.approx(one.junctions[0].angle)
    assert (back.side, back.junctions[0].left) == (one.side, one.junctions[0].left)


def test_markings_lie_on_their_lines() -> None:
    plain = Road(STRAIGHT, CrossSection(lanes=1, lane=3.0, solid=True))
    y = np.array([0.16, 1.5, 3.1])
    painted = paint(plain, Floor(wear=0.0, edge_lines=True), np.full(3, 40.0), y, seen(3))
    assert painted.mark == pytest.approx([1, 0, 1], abs=0.05)


def test_markings_keep_off_junctions() -> None:
    profile = CrossSection(lanes=1, lane=3.0, solid=True)
    crossing = Road(STRAIGHT, profile, (Junction(40.0, np.pi / 2, 3.0, left=True, right=True),))
    painted = paint(crossing, Floor(wear=0.0), np.array([40.0, 80.0]), np.array([0.16, 0.16]), seen(2))
    assert painted.mark[0] == 0 < painted.mark[1]


def test_far_lines_fade_but_keep_their_share() -> None:
    plain = Road(STRAIGHT, CrossSection(lanes=1, lane=3.0, solid=True))
    across = np.linspace(-1.0, 1.0, 4001)
    floor = Floor(wear=0.0, edge_lines=False)
    fine, coarse = (paint(plain, floor, np.full(4001, 40.0), across, seen(4001, size)).mark.mean() for size in (0.001, 0.2))
    assert coarse == pytest.approx(fine, rel=0.05)


def test_kerbs_follow_the_edge() -> None:
    here = road(4, junctions=(Junction(80.0, 1.6, 3.0, left=True, right=True),))
    stone = kerbs(here, Floor()).corners
    low = stone[stone[..., 2] == 0].reshape(-1, 3)
    edge = here.locate(low[:, 0], low[:, 1])[:, 2]
    inside = edge < 60  # beyond the map all is far away
    assert inside.mean() > 0.95
    assert edge.min() > -0.1
    assert edge[inside].max() < 0.6


def test_contour_of_a_circle() -> None:
    y, x = np.mgrid[0:40, 0:40].astype(float)
    start, end, outward = _contour(np.hypot(x - 20, y - 20) - 11.0)
    for points in (start, end):
        assert np.hypot(*(points - 20).T) == pytest.approx(11.0, abs=0.05)
    assert (np.sum(outward * (start - 20), axis=1) > 10).all()
    assert np.linalg.norm(end - start, axis=1).sum() == pytest.approx(2 * np.pi * 11, rel=0.01)
