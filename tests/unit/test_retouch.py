"""Objects replaced within pictures: where the new one stands, what stays in front, labels, the control, the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.encode import encode
from swerve.core.errors import InputError, NotApplicable
from swerve.core.gate import admission
from swerve.core.seeding import rng_for
from swerve.core.space import Space
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes2D, Group, Image, Masks, Steering, find
from swerve.relations.gates import SameObjects
from swerve.testing import FakeSystem, SpaceContract
from swerve.transformations.cutouts import Cutout
from swerve.transformations.frame_objects import frame_objects
from swerve.transformations.object_choice import LargestObjects, RandomObjects
from swerve.transformations.object_library import build_library
from swerve.transformations.replace_objects import PasteBack, PasteObjects, Retouched, target
from swerve.transformations.retouch import place, retouched, without
from swerve.transformations.retouches import Retouches

GROUND, CAR, VAN = (90, 110, 100), (200, 30, 30), (30, 30, 210)
Boxes = dict[int, tuple[int, int, int, int]]


def street(boxes: Boxes, colour: tuple[int, int, int] = CAR, *, key: str = "a", kinds: str = "car") -> Case:
    """A grey picture of 320 x 180 with boxes in one colour; where two overlap, the one that reaches further down is seen."""
    ids = np.zeros((180, 320), np.int32)
    for number, (left, top, right, bottom) in sorted(boxes.items(), key=lambda pair: pair[1][3]):
        ids[top:bottom, left:right] = number
    pixels = np.where(ids[..., None] > 0, np.uint8(0), np.array(GROUND, np.uint8))
    pixels[ids > 0] = colour
    seen = np.array([boxes[number] for number in sorted(boxes)], float).reshape(-1, 4)
    truth = (
        Steering(3.0),
        Masks(ids, dict.fromkeys(boxes, kinds)),
        Boxes2D(seen, (kinds,) * len(boxes), size=(320, 180)),
    )
    return Case(key, {"camera": Image(pixels.astype(np.uint8))}, truth, group=key)


def pixels_of(case: Case) -> Array:
    picture = case.inputs["camera"]
    assert isinstance(picture, Image)
    return picture.pixels


def ids_of(case: Case) -> Array:
    masks = find(case.truth, "masks")
    assert isinstance(masks, Masks)
    return masks.instances


@pytest.fixture
def vans(tmp_path: Path) -> Asset:
    """A library with one blue van of 60 x 30."""
    build_library([street({5: (100, 100, 160, 130)}, VAN, key="van")], tmp_path / "vans")
    return Asset(tmp_path / "vans")


def proposed(space: Space, case: Case, draw: int = 0) -> Retouched:
    change = space.propose(case, rng_for("retouch", draw), FakeSystem())
    assert isinstance(change, Retouched)
    return change


def test_a_replacement_is_as_high_and_stands_on_the_same_spot(vans: Asset) -> None:
    case = street({7: (100, 80, 140, 100)})
    change = proposed(Retouches(library=vans), case)
    assert isinstance(change, PasteObjects)
    assert (change.things, change.names, change.old) == ((7,), ("van:5",), ((100, 80, 140, 100),))
    assert change.new == ((100, 80, 140, 100),)  # 60 x 30 is 40 x 20 here
    after = change(case)
    assert np.array_equal(ids_of(after) == 7, ids_of(case) == 7)
    assert np.abs(pixels_of(after)[84:96, 105:135].astype(int) - VAN).max() <= 2
    assert np.array_equal(pixels_of(after)[:70], pixels_of(case)[:70])


def test_a_wider_replacement_keeps_the_middle_and_moves_labels_and_answers_alike(vans: Asset) -> None:
    case = street({7: (100, 80, 120, 100), 9: (200, 50, 220, 70)})
    change = proposed(Retouches(library=vans, choose=LargestObjects()), case)
    assert change.things == (7,)
    assert change.new == ((90, 80, 130, 100),)
    boxes = find(change(case).truth, "boxes2d")
    assert isinstance(boxes, Boxes2D)
    assert boxes.xyxy.tolist() == [[90, 80, 130, 100], [200, 50, 220, 70]]
    answer = Boxes2D(np.array([[102.0, 81, 122, 101], [20, 20, 40, 40]]), ("car", "car"))
    assert change.map(answer).xyxy.tolist() == [[92, 81, 132, 101], [20, 20, 40, 40]]
    assert change.map(Steering(4.0)) == Steering(4.0)


def test_what_was_in_front_stays_in_front(vans: Asset) -> None:
    case = street({7: (100, 80, 140, 100), 9: (120, 85, 170, 120)})
    change = proposed(Retouches(library=vans, kinds=("car",), choose=Only(7)), case)
    after = change(case)
    assert np.array_equal(ids_of(after) == 9, ids_of(case) == 9)
    assert np.array_equal(pixels_of(after)[ids_of(case) == 9], pixels_of(case)[ids_of(case) == 9])
    assert (ids_of(after) == 7).any()


def test_an_object_that_gets_hidden_need_not_be_detected(vans: Asset) -> None:
    case = street({7: (100, 80, 116, 100), 9: (117, 78, 127, 94)})
    change = proposed(Retouches(library=vans, least=8, choose=Only(7)), case)
    boxes = find(change(case).truth, "boxes2d")
    assert isinstance(boxes, Boxes2D)
    assert np.asarray(boxes.care).tolist() == [True, False]


def test_an_answer_without_boxes_stays_without(vans: Asset) -> None:
    change = proposed(Retouches(library=vans), street({7: (100, 80, 140, 100)}))
    none = Boxes2D(np.zeros((0, 4)), ())
    assert change.map(none) == none


class Only:
    """The objects with these numbers."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def rank(self, cases: Sequence[Case], *_: object) -> list[tuple[int, ...]]:
        return [self.numbers for _ in cases]


def test_a_removed_object_is_filled_with_ground_and_not_with_other_objects() -> None:
    case = street({7: (100, 80, 140, 100), 9: (145, 80, 190, 100)})
    seen = frame_objects(case)
    left = without(pixels_of(case), seen, [seen.numbered[7]])
    assert np.array_equal(left[seen.mask(7)], np.broadcast_to(np.array(GROUND, np.uint8), (800, 3)))
    assert np.array_equal(left[seen.mask(9)], pixels_of(case)[seen.mask(9)])


def test_the_control_changes_the_rim_and_the_shadow_alone(vans: Asset) -> None:
    case = street({7: (100, 80, 140, 100)})
    change = proposed(Retouches(vans, "paste-back"), case)
    after = change(case)
    changed = (pixels_of(after) != pixels_of(case)).any(axis=2)
    assert changed.any()
    assert not changed[82:98, 102:138].any()  # the object itself
    assert not changed[:78].any()
    assert not changed[:, :95].any()
    assert np.array_equal(ids_of(after), ids_of(case))
    assert change.new == change.old


def test_several_objects_are_all_removed_before_any_is_pasted(vans: Asset) -> None:
    case = street({7: (100, 80, 140, 100), 8: (180, 90, 230, 115)})
    change = proposed(Retouches(library=vans, count=2), case)
    after = change(case)
    assert set(np.unique(ids_of(after))) == {0, 7, 8}
    assert float(after.facts["objects_lost"]) == 0
    assert [len(easier.things) for easier in change.simpler() if isinstance(easier, Retouched)] == [1, 1]
    assert not (np.abs(pixels_of(after).astype(int) - CAR).max(axis=2) < 9).any()


def test_the_light_of_the_new_place_is_taken_on() -> None:
    case = street({7: (100, 80, 140, 100)})
    seen = frame_objects(case)
    grey = Cutout(np.full((20, 40, 3), 100, np.uint8), np.ones((20, 40), bool), (360 / 2, 440 / 2, 400 / 2))
    darker = retouched(pixels_of(case), seen, [(seen.numbered[7], grey)])
    assert darker[90, 120].tolist() == [71, 71, 71]  # half the light: the most that colours are scaled by, 1 / 1.4
    same = retouched(pixels_of(case), seen, [(seen.numbered[7], replace(grey, light=GROUND))])
    assert same[90, 120].tolist() == [100, 100, 100]


def test_a_replacement_beyond_the_edge_is_cut_off() -> None:
    case = street({7: (2, 80, 22, 100)})
    seen = frame_objects(case)
    wide = Cutout(np.full((20, 60, 3), 100, np.uint8), np.ones((20, 60), bool), GROUND)
    assert place(wide, seen.numbered[7], seen).span == (-18, 80, 42, 100)
    assert target(wide, seen.numbered[7], seen) == (0, 80, 42, 100)
    assert (retouched(pixels_of(case), seen, [(seen.numbered[7], wide)])[85:95, :40] == 100).all()


def test_the_same_change_has_the_same_bytes(vans: Asset) -> None:
    case = street({7: (100, 80, 140, 100)})
    change = proposed(Retouches(library=vans), case)
    assert change(case).input_sha == change(case).input_sha
    assert encode(change)["library"] == {"asset": vans.sha256}


def test_other_pictures_are_refused_with_the_reason(vans: Asset) -> None:
    case = street({7: (100, 80, 140, 100)})
    change = proposed(Retouches(library=vans), case)
    with pytest.raises(NotApplicable, match="no object 7 in the box"):
        change(street({7: (101, 80, 140, 100)}))
    window = Case("w", {"camera": Group((case.inputs["camera"],) * 2)}, case.truth)
    with pytest.raises(NotApplicable, match="window"):
        change(window)
    with pytest.raises(NotApplicable, match="the library has no object 'other'"):
        replace(change, names=("other",))(case)  # type: ignore[call-arg]
    with pytest.raises(NotApplicable, match="no person from another picture"):
        proposed(Retouches(library=vans), street({7: (100, 80, 140, 100)}, kinds="person"))


@pytest.mark.parametrize(
    "arguments",
    [{"change": "swap"}, {"fill": "magic"}, {"count": 0}, {"pick": "best"}],
)
def test_wrong_arguments_are_refused(vans: Asset, arguments: dict[str, object]) -> None:
    with pytest.raises((ValueError, InputError), match=next(iter(arguments))):
        Retouches(vans, **arguments)  # type: ignore[arg-type]


def test_the_control_skips_the_same_pictures(vans: Asset) -> None:
    with pytest.raises(NotApplicable, match="no person from another picture"):
        proposed(Retouches(vans, "paste-back"), street({7: (100, 80, 140, 100)}, kinds="person"))


def moved(case: Case, edit: Array) -> Case:
    masks = find(case.truth, "masks")
    assert isinstance(masks, Masks)
    return replace(case, truth=(Steering(3.0), Masks(edit, masks.kinds)))


def test_the_gate_refuses_objects_that_moved_grew_vanished_or_are_new() -> None:
    case = street({7: (100, 80, 140, 100)})
    ids = ids_of(case)
    gate = SameObjects(shift=0.25, area=1.5)
    reasons = {
        "": ids,
        "an object moved by 0.28": np.roll(ids, 11, axis=1),
        "an object changed its area by a factor of 2.00": street({7: (100, 80, 180, 100)}).truth[1].instances,  # type: ignore[attr-defined]
        "1 object is visible only": np.zeros_like(ids),
        "object 8 is new": np.where(ids == 0, 8, ids),
    }
    found = {why: admission(gate, case, moved(case, edit)).why for why, edit in reasons.items()}
    assert found[""] == ""
    for why, said in found.items():
        assert said.startswith(why) or "moved by 0.50" in said, said
    assert admission(gate, case, moved(case, np.roll(ids, 10, axis=1))).why == ""  # on the limit: 10 of 40 pixels


def test_the_gate_refuses_another_kind_and_what_nobody_knows() -> None:
    case = street({7: (100, 80, 140, 100)})
    other = replace(case, truth=(Masks(ids_of(case), {7: "bus"}),))
    assert admission(SameObjects(), case, other).why == "object 7 was a car and is a bus"
    bare = replace(case, truth=())
    assert "is not known" in admission(SameObjects(), bare, bare).why
    noted = replace(bare, facts={"object_shift": 0.9, "object_area": 1.0, "objects_lost": 0.0})
    assert admission(SameObjects(), bare, noted).why == "an object moved by 0.90 of its size, more than 0.25"


class TestRetouches(SpaceContract):
    @pytest.fixture(autouse=True)
    def _with_library(self, vans: Asset) -> None:
        self.vans = vans

    def space(self) -> Space:
        return Retouches(self.vans, "paste-back", choose=RandomObjects())

    def cases(self) -> Sequence[Case]:
        boxes = {7: (100, 80, 140, 100), 8: (180, 90, 230, 115)}
        return [street(boxes, key="a"), street(boxes, VAN, key="b"), street({}, key="none")]


def test_changes_are_transformations(vans: Asset) -> None:
    assert issubclass(PasteBack, Transformation)
    assert issubclass(PasteObjects, Transformation)
    with pytest.raises(ValueError, match="entry for each"):
        PasteObjects((7,), ((1, 2, 3, 4),), (), ("van:5",), vans)
