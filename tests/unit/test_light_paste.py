"""Traffic lights edited in the picture: maps of labels and answers, pixels where labels say, reasons to skip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.space import Space
from swerve.core.transformation import Transformation
from swerve.core.values import Boxes2D, Image
from swerve.relations.boxes import placed_by
from swerve.relations.matching import overlaps
from swerve.testing.contracts import SpaceContract, TransformationContract
from swerve.testing.fakes import FakeSystem
from swerve.transformations.affine import ZoomOut
from swerve.transformations.lamps import colour_of, find_lamp, other_state
from swerve.transformations.light_changes import CODES
from swerve.transformations.light_paste import Pasted, PasteLights, PasteMore, PastePlace, PasteState, PasteTurned
from swerve.transformations.light_pastes import CHANGES, LightPastes
from swerve.transformations.light_targets import Corners, turned_box
from tests.fixture_lights import LIT, boxes_of, draw_light, light_case, pixels_of

UPRIGHT, FLAT, SECOND = (100, 100, 124, 170), (300, 120, 380, 146), (200, 60, 216, 108)
STYLES = ("clean", "paper")


def street() -> Case:
    """An upright red light, a flat green one, and a smaller upright yellow one."""
    return light_case([(UPRIGHT, "red"), (FLAT, "green"), (SECOND, "yellow")])


def drawn(change: str, case: Case, draw: int = 0, style: str = "clean") -> Pasted:
    found = LightPastes(change, style).propose(case, rng_for("paste", case.key, draw), FakeSystem())
    assert isinstance(found, Pasted)
    return found


def refusal(change: str, case: Case) -> str:
    with pytest.raises(NotApplicable) as caught:
        drawn(change, case)
    return str(caught.value)


def state_change(case: Case, rows: Sequence[int], style: str = "clean") -> PasteState:
    label = boxes_of(case)
    was = tuple(label.kinds[row] for row in rows)
    now = tuple({"red": "green", "green": "red"}[state] for state in was)
    return PasteState(tuple(_corners(label, row) for row in rows), was, now=now, style=style)


def _corners(label: Boxes2D, row: int) -> Corners:
    left, top, right, bottom = label.xyxy[row].tolist()
    return left, top, right, bottom


def test_a_quarter_turn_swaps_the_sides_about_the_middle() -> None:
    assert turned_box((10, 20, 30, 80), (10, 20, 30, 80), 1) == (-10, 40, 50, 60)
    assert turned_box((-10, 40, 50, 60), (-10, 40, 50, 60), -1) == (10, 20, 30, 80)
    assert turned_box((0, 0, 10, 21), (0, 0, 10, 21), 1) == (-5, 6, 16, 16)  # half a pixel off the middle


def test_a_turn_out_of_the_picture_is_skipped() -> None:
    case = light_case([((10, 20, 30, 80), "red")])
    assert "would leave the picture" in refusal("turned", case)
    change = PasteTurned(((10.0, 20.0, 30.0, 80.0),), ("red",))
    with pytest.raises(NotApplicable, match=r"\(-10, 40, 50, 60\) is not inside"):
        change(case)


def test_the_canvas_scales_about_its_middle() -> None:
    boxes = Boxes2D(np.array([[100, 100, 120, 150], [600, 320, 680, 400]]), ("red", "green"), size=(1280, 720))
    scaled = ZoomOut(border="inpaint").map(boxes)
    assert scaled.xyxy.tolist() == [[208, 152, 224, 192], [608, 328, 672, 392]]  # the second keeps its middle (640, 360)


def test_the_margin_is_filled_and_not_black() -> None:
    case = light_case([(UPRIGHT, "red")])
    moved = pixels_of(ZoomOut(border="inpaint")(case))
    assert pixels_of(ZoomOut()(case)).min(axis=2)[:10].max() == 0
    assert np.abs(moved[:30].astype(int) - 150).max() <= 8
    assert np.abs(moved[40:320, :60].astype(int) - 150).max() <= 8


def test_colour_changes_twice_give_state_and_box_back() -> None:
    case = street()
    change = state_change(case, [0, 1])
    once = change(case)
    back = replace(change, was=change.now, now=change.was)
    twice = back(once)
    assert boxes_of(once).kinds == ("green", "red", "yellow")
    assert boxes_of(twice) == boxes_of(case)
    assert change.map(change.map(boxes_of(case))) == boxes_of(case)
    apart = np.abs(pixels_of(twice).astype(int) - pixels_of(case)).max(axis=2)
    assert apart[110:160, 104:120].mean() < 12  # the picture is nearly the same too


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("row", "box"), [(0, UPRIGHT), (1, FLAT)])
def test_the_lit_lamp_changes_its_end_and_colour(style: str, row: int, box: Corners) -> None:
    case = street()
    changed = pixels_of(state_change(case, [row], style)(case))
    left, top, right, bottom = box
    light = changed[top:bottom, left:right]
    lamp = find_lamp(light, "green" if row == 0 else "red")
    if style == "paper" and row == 1:
        assert lamp is None  # a fixed turn takes this green to yellow
        return
    assert lamp is not None
    down, across = (np.mean(places) for places in np.nonzero(lamp.pixels))
    if row == 0:
        assert down > 0.6 * len(light)  # green is at the bottom
    else:
        assert across < 0.4 * light.shape[1]  # red is on the left


def test_the_yellow_middle_of_a_bright_red_lamp_becomes_green() -> None:
    """Turned as far as the red around it, it would be blue."""
    case = light_case([(UPRIGHT, "red")])
    picture = pixels_of(case).copy()
    lamp = (picture == LIT["red"]).all(axis=2)
    rows, columns = np.nonzero(lamp)
    core = np.hypot(*(np.indices(lamp.shape) - np.array([rows.mean(), columns.mean()])[:, None, None])) < 3
    picture[core] = (255, 180, 30)
    changed = pixels_of(state_change(case, [0])(case_of(picture, case)))
    below = changed[135:170, 100:124].reshape(-1, 3).astype(int)
    lit = below[below.max(axis=1) - below.min(axis=1) > 100]
    assert len(lit) > 60
    assert (lit[:, 1] >= lit[:, 2]).all()  # no pixel is more blue than green


def test_all_lit_parts_of_a_light_change_their_colour() -> None:
    """As of a walking figure above digits: nothing of the old colour is left."""
    case = light_case([(UPRIGHT, "green")])
    picture = pixels_of(case).copy()
    picture[108:114, 108:116] = LIT["green"]
    changed = pixels_of(state_change(case, [0])(case_of(picture, case)))
    red, green, _ = np.moveaxis(changed[100:170, 100:124].astype(int), 2, 0)
    assert not (green > red + 40).any()
    assert (red > green + 100).sum() > 60


def case_of(picture: np.ndarray, case: Case) -> Case:
    return replace(case, inputs={"camera": Image(picture)})


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("style", STYLES)
def test_pixels_change_near_the_lights_alone(change: str, style: str) -> None:
    case = street()
    edit = drawn(change, case, style=style)
    near = np.zeros((360, 640), bool)
    for one in edit.targets:
        for left, top, right, bottom in (one.old, one.new):
            near[int(top) - 16 : int(bottom) + 16, int(left) - 16 : int(right) + 16] = True
    apart = np.abs(pixels_of(edit(case)).astype(int) - pixels_of(case)).max(axis=2)
    assert apart[~near].max() == 0
    if change != "back":
        assert apart[near].max() > 60


def test_pasted_back_is_nearly_the_same() -> None:
    case = street()
    for style in STYLES:
        apart = np.abs(pixels_of(drawn("back", case, style=style)(case)).astype(int) - pixels_of(case))
        assert apart.max() <= (60 if style == "clean" else 255)
        assert apart.mean() < 0.2
        assert boxes_of(drawn("back", case, style=style)(case)) == boxes_of(case)


def test_moved_light_leaves_the_ground_behind() -> None:
    case = light_case([(UPRIGHT, "red")])
    after = drawn("place", case)(case)
    assert boxes_of(after).xyxy.tolist() == [[124, 100, 148, 170]]  # by its width
    assert np.abs(pixels_of(after)[100:170, 100:122].astype(int) - 150).max() <= 6
    before = pixels_of(case)[104:166, 104:120]
    assert np.array_equal(pixels_of(after)[104:166, 128:144], before)


def test_copies_follow_and_originals_stay() -> None:
    case = street()
    for draw in range(6):
        edit = drawn("more", case, draw)
        assert len(edit.old) == 1  # half of three
        after = boxes_of(edit(case))
        assert after.xyxy[:3].tolist() == boxes_of(case).xyxy.tolist()
        assert after.xyxy[3].tolist() == list(edit.targets[0].new)
        assert after.kinds[3] == edit.was[0]


def test_turned_pixels_are_the_light_s_own() -> None:
    case = light_case([(UPRIGHT, "red")])
    after = drawn("turned", case)(case)
    (box,) = boxes_of(after).xyxy.astype(int).tolist()
    left, top, right, bottom = box
    assert (right - left, bottom - top) == (70, 24)
    turned = np.rot90(pixels_of(case)[100:170, 100:124], 1)
    assert np.array_equal(pixels_of(after)[top + 3 : bottom - 3, left + 3 : right - 3], turned[3:-3, 3:-3])


def test_a_place_that_is_taken_is_tried_on_the_other_side() -> None:
    beside = (124, 100, 148, 170)
    case = light_case([(UPRIGHT, "red"), (beside, "yellow")])
    moves = {tuple(edit.old): edit for draw in range(20) for edit in [drawn("place", case, draw)] if len(edit.old) == 1}
    found = moves[((100.0, 100.0, 124.0, 170.0),)]
    assert isinstance(found, PastePlace)
    assert found.shifts == (-24,)
    both = next(edit for draw in range(40) for edit in [drawn("place", case, draw)] if len(edit.old) == 2)
    assert isinstance(both, PastePlace)
    assert both.shifts == (-24, 24)


def test_no_free_place_is_a_reason() -> None:
    row = [((left, 10, left + 20, 60), "red") for left in range(0, 100, 20)]
    assert "no free space beside" in refusal("place", light_case(row, size=(100, 100)))
    assert "no free space beside" in refusal("more", light_case(row, size=(100, 100)))


@pytest.mark.parametrize(
    ("change", "lights", "reason"),
    [
        ("state", [(UPRIGHT, "yellow"), (SECOND, "off")], "neither red nor green"),
        ("state", [((100, 100, 102, 107), "red")], "smaller than 4 px"),
        ("state", [(UPRIGHT, "greenStraight")], "an arrow that a flip would turn round"),
        ("state", [(FLAT, "redLeft")], "an arrow that a flip would turn round"),
        ("state", [(UPRIGHT, "traffic light")], "neither red nor green"),
        ("turned", [((100, 100, 140, 150), "red")], "nearly square"),
        ("turned", [(UPRIGHT, "red"), ((130, 120, 150, 170), "red")], "would cover another light"),
        ("place", [((-5, 10, 20, 80), "red")], "cut off by the border"),
    ],
)
def test_reasons_to_skip(change: str, lights: list[tuple[Corners, str]], reason: str) -> None:
    label = Boxes2D(np.array([box for box, _ in lights], float), tuple(state for _, state in lights), size=(640, 360))
    named = replace(street(), truth=(label,))
    assert reason in refusal(change, named)


def test_an_unlit_light_cannot_change_its_colour() -> None:
    case = light_case([(UPRIGHT, "off")])
    named = replace(case, truth=(replace(boxes_of(case), kinds=("red",)),))
    assert "no lit lamp found" in refusal("state", named)


def test_lights_that_need_not_be_found_stay() -> None:
    case = street()
    label = replace(boxes_of(case), care=np.array([False, True, True]))
    for draw in range(10):
        assert drawn("state", replace(case, truth=(label,)), draw).old == ((300.0, 120.0, 380.0, 146.0),)
    hidden = replace(boxes_of(case), hidden=np.array([0.9, 0.0, 0.0]))
    for draw in range(10):
        assert drawn("turned", replace(case, truth=(hidden,)), draw).old[0] != (100.0, 100.0, 124.0, 170.0)


def test_subsets_are_never_empty_and_sometimes_partial() -> None:
    sizes = {len(drawn("turned", street(), draw).old) for draw in range(30)}
    assert sizes == {1, 2, 3}


@pytest.mark.parametrize(
    ("state", "flat", "other"),
    [
        ("red", False, "green"),
        ("Red", False, "Green"),
        ("stop", True, "go"),
        ("stopLeft", False, "goLeft"),
        ("stopLeft", True, None),
        ("goForward", True, None),
        ("GreenStraight", True, "RedStraight"),
        ("goForward", False, None),
        ("GreenStraightLeft", False, None),
        ("GreenRight", False, "RedRight"),
        ("yellow", False, None),
        ("off", False, None),
        ("redundant", False, None),
        ("warning", False, None),
    ],
)
def test_states_have_an_opposite(state: str, flat: bool, other: str | None) -> None:
    assert other_state(state, flat=flat) == other


def test_colours_are_known_in_the_words_of_data_sets() -> None:
    assert [colour_of(name) for name in ("stop", "GO", "goLeft", "warningLeft", "YellowStraight", "off", "car")] == [
        *("red", "green", "green", "yellow", "yellow"),
        *(None, None),
    ]


@pytest.mark.parametrize("colour", ["red", "green"])
@pytest.mark.parametrize("level", [0.25, 1.0])
def test_lamps_are_found_by_day_and_night(colour: str, level: float) -> None:
    picture = np.full((70, 24, 3), 150, np.uint8)
    draw_light(picture, (0, 0, 24, 70), colour)
    lamp = find_lamp((picture * level).astype(np.uint8), colour)
    assert lamp is not None
    assert 0.6 * 20 * 0.48 < lamp.diameter < 1.4 * 20 * 0.48
    assert find_lamp((picture * level).astype(np.uint8), "green" if colour == "red" else "red") is None


def test_the_sky_is_no_green_lamp() -> None:
    sky = np.full((40, 20, 3), (70, 130, 230), np.uint8)
    assert find_lamp(sky, "green") is None


def test_no_other_light_is_copied_into_a_hole() -> None:
    """The best match beside a light would be another light of its kind: it must not appear a second time."""
    row = [((left, 100, left + 24, 170), "red") for left in range(40, 600, 60)]
    case = light_case(row)
    for draw in range(5):
        edit = drawn("place", case, draw)
        after = pixels_of(edit(case)).astype(int)
        red = (after[..., 0] - after[..., 1]) > 100
        expected = boxes_of(edit(case)).xyxy
        for left, top, right, bottom in expected.astype(int):
            red[top:bottom, left:right] = False
        assert not red.any()


def test_answers_on_a_light_are_mapped_and_others_stay() -> None:
    case = street()
    said = Boxes2D(
        np.array([[101, 103, 125, 171], [500, 300, 520, 350], [102, 99, 122, 165]], float),
        ("red", "red", "yellow"),
        np.array([0.9, 0.8, 0.3]),
        size=(640, 360),
    )
    state = state_change(case, [0]).map(said)
    assert state.kinds == ("green", "red", "yellow")
    assert np.array_equal(state.xyxy, said.xyxy)
    turned = PasteTurned((tuple(map(float, UPRIGHT)),), ("red",)).map(said)  # type: ignore[arg-type]
    assert turned.xyxy[1].tolist() == said.xyxy[1].tolist()
    middles = [(box[:2] + box[2:]) / 2 for box in turned.xyxy]
    assert np.allclose(middles[0], [113.5 + 1.5, 135.0 - 0.5 - 0.5], atol=2)
    assert (turned.xyxy[0, 2:] - turned.xyxy[0, :2]).tolist() == [68, 24]
    more = PasteMore((tuple(map(float, UPRIGHT)),), ("red",), shifts=(24,)).map(said)  # type: ignore[arg-type]
    assert more.xyxy.tolist() == [*said.xyxy.tolist(), [125, 103, 149, 171], [126, 99, 146, 165]]
    assert more.kinds == ("red", "red", "yellow", "red", "yellow")
    assert np.asarray(more.scores).tolist() == [0.9, 0.8, 0.3, 0.9, 0.3]


@pytest.mark.parametrize("change", CHANGES)
def test_targets_are_lights_of_the_follow_up(change: str) -> None:
    case = street()
    for draw in range(8):
        edit = drawn(change, case, draw)
        placed, after = placed_by(edit), boxes_of(edit(case))
        assert placed is not None
        truth = {(kind, *box) for kind, box in zip(after.kinds, after.xyxy.tolist(), strict=True)}
        assert {(kind, *box) for kind, box in zip(placed.kinds, placed.xyxy.tolist(), strict=True)} <= truth
        free = overlaps(after.xyxy, after.xyxy)[~np.eye(len(after.kinds), dtype=bool)]
        assert not free.any()  # no light lies on another


def test_facts_tell_lights_and_room() -> None:
    case = light_case([(UPRIGHT, "red")])
    facts = PasteLights(((100.0, 100.0, 124.0, 170.0),), ("red",))(case).facts
    assert facts["changed_lights"] == 1
    assert 1.5 < float(facts["box_room"]) < 3.5
    wide = PasteLights(((60.0, 80.0, 164.0, 190.0),), ("red",))(case).facts
    assert float(wide["box_room"]) > 8  # the box is far too large for its lamp


def test_errors_name_what_is_wrong() -> None:
    box = (1.0, 2.0, 3.0, 9.0)
    with pytest.raises(ValueError, match="'was' must have an entry for each of the 1 lights, got 2"):
        PasteLights((box,), ("red", "red"))
    with pytest.raises(ValueError, match="with an area"):
        PasteLights(((3.0, 2.0, 1.0, 9.0),), ("red",))
    with pytest.raises(ValueError, match="'now' must be states that are red or green, got 'off'"):
        PasteState((box,), ("red",), now=("off",))
    with pytest.raises(ValueError, match="whole number"):
        PastePlace((box,), ("red",), shifts=(1.5,))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="style"):
        PasteLights((box,), ("red",), style="nice")
    with pytest.raises(InputError, match="change"):
        LightPastes("colour")
    with pytest.raises(NotApplicable, match="no single picture"):
        LightPastes().propose(Case("none", {}, street().truth), rng_for(0), FakeSystem())
    with pytest.raises(NotApplicable, match="no traffic light is labelled"):
        LightPastes().propose(Case("none", street().inputs), rng_for(0), FakeSystem())


def test_two_pictures_are_not_changed() -> None:
    case = street()
    two = Case("two", {"left": case.inputs["camera"], "right": Image(pixels_of(case))}, case.truth)
    with pytest.raises(NotApplicable, match="no single picture"):
        PasteLights(((100.0, 100.0, 124.0, 170.0),), ("red",))(two)


def test_fewer_lights_are_simpler() -> None:
    case = street()
    many = state_change(case, [0, 1])
    easier = list(many.simpler())
    assert [len(one.old) for one in easier if isinstance(one, Pasted)] == [1, 1]
    assert all(isinstance(one, Pasted) and len(one.others) == 1 for one in easier)
    assert list(state_change(case, [0]).simpler()) == []


class TestPasted(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [drawn(change, street(), draw, style) for change in CHANGES for style in STYLES for draw in range(2)]

    def case(self) -> Case:
        return street()


@pytest.mark.parametrize("change", CHANGES)
class TestLightPastes(SpaceContract):
    draws = 4

    @pytest.fixture(autouse=True)
    def _change(self, change: str) -> None:
        self.change = change

    def space(self) -> Space:
        return LightPastes(self.change)

    def cases(self) -> Sequence[Case]:
        return [street(), light_case([(UPRIGHT, "red")], key="one")]


def test_the_five_have_their_codes() -> None:
    assert [CODES[name] for name in ("colour", "move", "add", "rotate", "scale")] == ["CC", "MP", "AD", "RT", "SC"]
