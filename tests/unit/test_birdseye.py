"""Sweeps from above: every place at its pixel, the region's shade exact, boxes in their colours, what is lost dashed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.region import inside
from swerve.core.values import Array, Boxes3D, Calibration, Image, PointCloud, Region
from swerve.report.birdseye import (
    ADDED,
    BROAD,
    COLOURS,
    GAP,
    GONE,
    LEAST,
    MARKS,
    MOVED,
    NIGHT,
    OTHER,
    RETYPED,
    SHADE,
    SIDE,
    AnsweredPair,
    AnsweredSweep,
    GroundView,
    appended,
    around,
    before_after,
    birdseye,
)
from swerve.transformations.scatter import PlacePoints
from swerve.transformations.sensor_pose import Yaw
from tests.fixture_sweeps import road

GAP_IN_WIDE = np.array([[3.0, 6], [3, 10], [7, 10], [7, 6]])  # where `pair` puts its point
WIDE = Region((np.array([[-60.0, -60], [60, -60], [60, 60], [-60, 60]]), GAP_IN_WIDE))
SQUARE = Region((np.array([[0.0, -5], [10, -5], [10, 5], [0, 5]]),))
EMPTY = np.zeros((0, 4), np.float32)


def cars(*places: tuple[float, float], kind: str = "car") -> Boxes3D:
    rows = [[x, y, 0, 4, 2, 1.5, 0.0] for x, y in places]
    return Boxes3D(np.array(rows).reshape(-1, 7), (kind,) * len(places))


def has(picture: Array, colour: tuple[int, int, int]) -> Array:
    """Which pixels have a colour."""
    return np.asarray((picture == np.array(colour)).all(axis=2))


# --- places --------------------------------------------------------------------------------------------------------------


def test_ahead_is_up_and_left_is_left() -> None:
    view = GroundView(0, 0, reach=10, side=100)
    assert view.pixels(np.array([[0.0, 0.0]])).tolist() == [[50, 50]]
    assert view.pixels(np.array([[10.0, 10.0]])).tolist() == [[0, 0]]  # ahead and left: the upper left corner
    assert view.pixels(np.array([[-10.0, -10.0]])).tolist() == [[100, 100]]


@given(st.floats(-29, 29), st.floats(-29, 29))
@settings(deadline=None)
def test_point_is_drawn_where_it_lies(x: float, y: float) -> None:
    view = GroundView(0, 0, reach=30, side=120)
    picture = birdseye(np.array([[x, y, 0, 0]], np.float32), view=view)
    blank = birdseye(EMPTY, view=view)
    rows, columns = np.nonzero((picture != blank).any(axis=2))
    if len(rows):  # else it lies under the sensor's outline
        assert len(rows) == 1
        column, row = view.pixels(np.array([[x, y]]))[0]
        assert abs(columns[0] + 0.5 - column) <= 0.51
        assert abs(rows[0] + 0.5 - row) <= 0.51


def test_points_that_are_not_finite_or_far_away_are_left_out() -> None:
    odd = np.array([[np.nan, 0, 0, 0], [np.inf, 1, 0, 0], [500, 0, 0, 0]], np.float32)
    assert (birdseye(odd) == birdseye(EMPTY)).all()


# --- the region ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("region", [SQUARE, road()])
def test_shade_is_the_region(region: Region) -> None:
    view = GroundView(5, 2, reach=40, side=160)
    shade = view.shaded(region)
    metres = 2 * view.reach / view.side
    row, column = np.indices(shade.shape)
    x = view.x + view.reach - (row + 0.5) * metres
    y = view.y + view.reach - (column + 0.5) * metres
    expected = inside(region, np.stack([x.ravel(), y.ravel()], axis=1)).reshape(shade.shape)
    assert (shade == expected).all()
    picture = birdseye(EMPTY, region=region, view=view)
    assert (has(picture, SHADE) | has(picture, NIGHT))[shade != 0].mean() > 0.9


# --- boxes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "colour"), [*COLOURS.items(), ("Car", COLOURS["car"]), ("tram", OTHER)])
def test_boxes_have_the_paper_s_colours(kind: str, colour: tuple[int, int, int]) -> None:
    picture = birdseye(EMPTY, cars((10, 3), kind=kind))
    rows, columns = np.nonzero(has(picture, colour))
    assert len(rows) > 20
    seen = GroundView().pixels(np.array([[12.0, 4.0], [8.0, 2.0]]))  # its corners
    assert seen[0, 0] - 2 <= columns.min() <= columns.max() <= seen[1, 0] + 2
    assert seen[0, 1] - 2 <= rows.min() <= rows.max() <= seen[1, 1] + 2


def test_colours_are_green_pink_blue_and_purple() -> None:
    """LM-1: each by its strongest parts."""
    red, green, blue = (np.array([COLOURS[kind][part] for kind in COLOURS]) for part in range(3))
    assert list(COLOURS) == ["car", "pedestrian", "cyclist", "unknown"]
    assert green[0] > max(red[0], blue[0])
    assert red[1] > blue[1] > green[1]
    assert blue[2] > max(red[2], green[2])
    assert blue[3] > red[3] > green[3]


def test_box_far_outside_the_view_does_no_harm() -> None:
    assert (birdseye(EMPTY, cars((1e6, -1e6))) == birdseye(EMPTY)).all()


def test_view_shows_what_was_lost() -> None:
    assert around(cars((10, 3)), []) == GroundView()
    near = around(cars((10, 3), (50, 0)), [0])
    assert (near.x, near.y, near.reach) == (10, 3, LEAST)
    both = around(cars((10, 0), (50, 0)), [0, 1])
    assert (both.x, both.reach) == (30, 28)
    assert around(cars((10, 0), (500, 0)), [0, 1]).reach == BROAD
    assert around(cars((10, 0)), [0], np.array([[10.0, 20, 0, 0]])).reach == 24


# --- before and after ----------------------------------------------------------------------------------------------------


def pair(pictured: bool = False, region: Region = SQUARE) -> tuple[Case, Case]:
    inputs = {"lidar": PointCloud(np.array([[1, 1, -1, 0], [2, 0, 1, 1]], np.float32)), "region": region}
    camera = {"camera": Image(np.full((90, 160, 3), 77, np.uint8))} if pictured else {}
    case = Case("a", {**inputs, **camera})
    return case, PlacePoints(((5.0, 8.0, 0.0, 0.5),))(case)


def test_lost_box_is_dashed_and_added_point_marked() -> None:
    case, followup = pair()
    view = GroundView(5, 0, reach=20)
    picture = before_after(case, followup, cars((5, 0)), cars(), view=view)
    assert picture.shape == (view.side, 2 * view.side + GAP, 3)
    left, right = picture[:, : view.side], picture[:, -view.side :]
    assert has(left, COLOURS["car"]).any()
    assert not has(left, GONE).any()
    assert not has(left, ADDED).any()
    assert has(right, GONE).sum() > 20
    assert not has(right, COLOURS["car"]).any()
    column, row = np.rint(view.pixels(np.array([[5.0, 8.0]]))[0]).astype(int)
    assert has(right, ADDED)[row, column]
    assert has(picture, (255, 255, 255))[:, view.side : view.side + GAP].all()


def test_kept_box_is_not_dashed() -> None:
    case, followup = pair()
    picture = before_after(case, followup, cars((5, 0)), cars((5.2, 0)))
    assert not has(picture, GONE).any()


@pytest.mark.parametrize("place", [(20, 0), (5, 30), (-8, -3)])
def test_box_outside_the_region_is_not_dashed(place: tuple[float, float]) -> None:
    """The verdict does not demand it, so it was not lost."""
    case, followup = pair()
    assert not has(before_after(case, followup, cars(place), cars()), GONE).any()
    both = before_after(case, followup, cars((5, 0), place), cars(), view=GroundView())
    assert (both == before_after(case, followup, cars((5, 0), place), cars(), facts=LOST_FIRST, view=GroundView())).all()
    assert has(both, GONE).any()


LOST_FIRST = {"lost": 1.0, "type_changed": 0.0, "moved": 0.0, "lost_rows": "0"}


def test_moved_and_retyped_boxes_are_dashed_in_colours_of_their_own() -> None:
    case, followup = pair()
    before = cars((3, -3), (8, 3))
    moved = before_after(case, followup, before, cars((5, -3), (8, 3)))
    retyped = before_after(case, followup, before, Boxes3D(before.xyzlwhy, ("car", "cyclist")))
    for picture, colour, others in ((moved, MOVED, (GONE, RETYPED)), (retyped, RETYPED, (GONE, MOVED))):
        assert has(picture[:, -SIDE:], colour).sum() > 20
        assert not has(picture[:, :SIDE], colour).any()
        assert not any(has(picture, other).any() for other in others)


def test_verdict_s_facts_say_what_is_dashed() -> None:
    """By other limits than the default, a box 2 m off is the same: what the verdict does not miss is not dashed."""
    case, followup = pair()
    before, after = cars((3, -3), (8, 3)), cars((5, -3), (8, 3))
    facts = {"lost": 0.0, "type_changed": 0.0, "moved": 0.0}
    same = before_after(case, followup, before, after, facts=facts)
    assert not any(has(same, colour).any() for colour in MARKS.values())
    lost = before_after(case, followup, before, after, facts={**facts, "lost": 1.0, "lost_rows": "1"})
    assert has(lost, GONE).sum() > 20
    torn = before_after(case, followup, before, after, facts={**facts, "lost_rows": "7 -1 x"})
    assert not has(torn, GONE).any()


def test_camera_stands_beside_where_there_is_one() -> None:
    case, followup = pair(pictured=True)
    view = GroundView(side=180)
    wide = before_after(case, followup, cars(), cars(), view=view)
    assert wide.shape == (180, 320 + 2 * 180 + 2 * GAP, 3)
    assert (wide[:, :320] == 77).all()
    bare = pair()
    lent = before_after(*bare, cars(), cars(), view=view, pictured=case)
    assert (lent == wide).all()


AHEAD = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0]])  # a camera where the LiDAR is


def calibrated(case: Case) -> Case:
    """A camera of 160 x 90 pixels that sees as wide as it is far."""
    lens = np.array([[160.0, 0, 80], [0, 160, 45], [0, 0, 1]])
    return replace(case, truth=(Calibration({"camera": lens, "Tr_velo_to_cam": AHEAD}, (160, 90)),))


def test_lost_box_is_dashed_in_the_camera_s_frame() -> None:
    case, followup = map(calibrated, pair(pictured=True, region=WIDE))
    picture = before_after(case, followup, cars((12, 1), (20, -30)), cars(), view=GroundView(side=90))
    assert picture.shape == (90, 160 + 2 * 90 + 2 * GAP, 3)
    rows, columns = np.nonzero(has(picture[:, :160], GONE))
    # 10 to 14 m ahead, 2 m wide about 1 m to the left, 1.5 m high: its nearest face spans 0 to 2 m left, 0.75 m up and down.
    assert (columns.min(), columns.max()) == (pytest.approx(80 - 160 * 2 / 10, abs=2), pytest.approx(80, abs=2))
    assert (rows.min(), rows.max()) == (
        pytest.approx(45 - 160 * 0.75 / 10, abs=2),
        pytest.approx(45 + 160 * 0.75 / 10, abs=2),
    )


@pytest.mark.parametrize("place", [(20, -30), (-12, 1)])
def test_frame_that_shows_nothing_lost_is_left_out(place: tuple[float, float]) -> None:
    case, followup = map(calibrated, pair(pictured=True, region=WIDE))
    assert before_after(case, followup, cars(place), cars(), view=GroundView(side=90)).shape == (90, 2 * 90 + GAP, 3)


def test_edges_end_at_the_camera() -> None:
    """A box that reaches behind the camera is drawn as far as it lies ahead, not mirrored."""
    case, followup = map(calibrated, pair(pictured=True, region=WIDE))
    picture = before_after(case, followup, cars((1, 1.2)), cars(), view=GroundView(side=90))
    assert picture.shape == (90, 2 * 90 + GAP, 3)  # its middle is beside the frame
    picture = before_after(case, followup, cars((1, 0.3)), cars(), view=GroundView(side=90))
    _, columns = np.nonzero(has(picture[:, :160], GONE))
    assert columns.min() <= 80 < columns.max() < 160


def test_same_picture_every_time() -> None:
    case, followup = pair()
    made = [before_after(case, followup, cars((5, 0)), cars()) for _ in range(2)]
    assert made[0].tobytes() == made[1].tobytes()


# --- changes that do more than add points --------------------------------------------------------------------------------


def test_only_a_sweep_that_begins_with_the_other_has_points_added() -> None:
    rows = np.arange(20, dtype=np.float32).reshape(5, 4)
    odd = rows.copy()
    odd[1, 3] = np.nan
    for cloud in (rows, odd):
        added = appended(cloud[:3], cloud)
        assert added is not None
        assert (added == cloud[3:]).all()
    same = appended(rows, rows)
    assert same is not None
    assert len(same) == 0
    assert appended(rows, rows[:3]) is None
    assert appended(rows[:3], rows[::-1]) is None
    assert appended(rows[:3], np.nextafter(rows, np.inf, dtype=np.float32)) is None  # by a bit


@given(st.floats(-180, 180), st.floats(4, 30), st.floats(-3.14, 3.14))
@settings(deadline=None, max_examples=40)
def test_turn_loses_nothing_that_turned_along(degrees: float, far: float, angle: float) -> None:
    case, _ = pair()
    case = Case("a", {**case.inputs, "region": Region(WIDE.polygons[:1])})  # what lies in the gap would not be judged
    turn = Yaw(degrees)
    before = cars((far * np.cos(angle), far * np.sin(angle)))
    after = turn.map(before)
    assert not has(before_after(case, turn(case), before, after, expected=after), GONE).any()
    picture = before_after(case, turn(case), before, cars(), expected=after)
    assert has(picture[:, -GroundView().side :], GONE).sum() > 20
    assert not has(picture, ADDED).any()


def test_without_an_expected_answer_a_turn_tells_of_no_loss() -> None:
    """The raw answers differ by the turn alone, which says nothing."""
    case, _ = pair()
    turn, before = Yaw(90.0), cars((8, 0))
    assert not has(before_after(case, turn(case), before, turn.map(before)), GONE).any()


def test_both_sides_look_at_what_went_wrong_at_one_scale() -> None:
    before, after = cars((10, 0), (30, 4)), cars((10, 0), (30, 4), kind="pedestrian")
    moved = Boxes3D(before.xyzlwhy + np.array([0, -6, 0, 0, 0, 0, 0]), before.kinds)
    out_of_sight = np.full((1, 4), 999, np.float32)
    near, far = AnsweredPair(AnsweredSweep(out_of_sight, before), AnsweredSweep(EMPTY, after), moved).views()
    view = GroundView(20, 2, reach=18)
    assert (near == birdseye(EMPTY, before, view=view)).all()
    assert (far == birdseye(EMPTY, after, marked={"lost": moved}, view=GroundView(20, -4, reach=18))).all()


def test_view_is_about_an_obstacle_of_another_type_too() -> None:
    case, followup = pair(region=WIDE)
    picture = before_after(case, followup, cars((30, 3)), cars((30, 3), kind="cyclist"))
    assert not has(picture, GONE).any()
    rows, columns = np.nonzero(has(picture[:, : GroundView().side], COLOURS["car"]))
    assert abs(rows.mean() - GroundView().side / 2) < 25
    assert abs(columns.mean() - GroundView().side / 2) < 5


def test_region_of_each_side_is_its_own() -> None:
    left, right = AnsweredPair(AnsweredSweep(EMPTY, cars(), SQUARE), AnsweredSweep(EMPTY, cars())).views()
    assert has(left, SHADE).any()
    assert not has(right, SHADE).any()
