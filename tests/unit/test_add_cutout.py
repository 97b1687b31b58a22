"""One more object in a picture: where it stands, what stays in front, labels and answers, and which objects fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swerve.core.asset import Asset
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.gate import admission
from swerve.core.seeding import rng_for
from swerve.core.space import Space
from swerve.core.values import Array, Boxes2D, Classes, Group, Image, Masks, Steering, find
from swerve.explain.heat import HeatMap
from swerve.relations.gates import SameObjects
from swerve.testing import FakeSystem, SpaceContract
from swerve.transformations.add_cutout import AddCutout, AddedCutouts
from swerve.transformations.object_choice import LargestObjects, RandomObjects
from swerve.transformations.object_library import build_library
from swerve.transformations.salient import SalientObjects
from tests.unit.test_retouch import VAN, Boxes, ids_of, pixels_of, street

ELSEWHERE = (100, 100, 160, 130)


def library_of(folder: Path, boxes: Boxes, kinds: str = "car") -> Asset:
    build_library([street(boxes, VAN, key="van", kinds=kinds)], folder / "vans")
    return Asset(folder / "vans")


@pytest.fixture
def vans(tmp_path: Path) -> Asset:
    return library_of(tmp_path, {5: ELSEWHERE})


def proposed(space: AddedCutouts, case: Case, draw: int = 0) -> AddCutout:
    change = space.propose(case, rng_for("add", draw), FakeSystem())
    assert isinstance(change, AddCutout)
    return change


def test_it_stands_where_it_stood_and_everything_else_stays(vans: Asset) -> None:
    case = street({7: (200, 50, 220, 70)})
    change = proposed(AddedCutouts(vans), case)
    assert (change.span, change.box, change.name) == (ELSEWHERE, ELSEWHERE, "van:5")
    after = change(case)
    new = ids_of(after) == 8  # a number that nothing had
    assert [int(edge) for edge in (*np.argwhere(new).min(axis=0), *np.argwhere(new).max(axis=0))] == [100, 100, 129, 159]
    assert np.array_equal(ids_of(after) == 7, ids_of(case) == 7)
    middle = pixels_of(after)[110:120, 120:140].astype(int)
    assert np.abs(middle - VAN).max() <= 1
    changed = (pixels_of(after) != pixels_of(case)).any(axis=2)
    assert not changed[:98].any()  # the shadow falls below
    assert not changed[:, 170:].any()
    assert 0.02 < float(after.facts["changed"]) < 0.06
    assert change.words() == "a car added, van:5"


def test_labels_and_answers_get_the_new_object(vans: Asset) -> None:
    case = street({7: (200, 50, 220, 70)})
    change = proposed(AddedCutouts(vans), case)
    after = change(case)
    masks, boxes, angle = (find(after.truth, slot) for slot in ("masks", "boxes2d", "steering"))
    assert isinstance(masks, Masks)
    assert dict(masks.kinds) == {7: "car", 8: "car"}
    assert isinstance(boxes, Boxes2D)
    assert boxes.xyxy.tolist() == [[200, 50, 220, 70], [100, 100, 160, 130]]
    assert boxes.kinds == ("car", "car")
    assert np.asarray(boxes.care).all()
    assert angle == Steering(3.0)
    none = Boxes2D(np.zeros((0, 4)), ())
    assert change.map(none).xyxy.tolist() == [[100, 100, 160, 130]]
    assert change.placed().xyxy.tolist() == [[100, 100, 160, 130]]


def test_an_object_that_it_hides_need_not_be_detected(vans: Asset) -> None:
    change = proposed(AddedCutouts(vans), street({7: (110, 80, 130, 110), 9: (10, 80, 30, 110)}))
    answer = Boxes2D(np.array([[110.0, 80, 130, 110], [10, 80, 30, 110]]), ("car", "car"), hidden=np.zeros(2))
    expected = change.map(answer)
    assert np.asarray(expected.care).tolist() == [False, True, True]  # a third of the first is hidden
    assert expected.hidden is not None


def test_what_is_nearer_stays_in_front(vans: Asset) -> None:
    case = street({7: (130, 90, 180, 150)})
    change = proposed(AddedCutouts(vans), case)
    assert list(change.box) == [100, 100, 130, 130]
    after = change(case)
    assert np.array_equal(pixels_of(after)[ids_of(case) == 7], pixels_of(case)[ids_of(case) == 7])
    assert np.array_equal(ids_of(after) == 7, ids_of(case) == 7)


def test_objects_that_do_not_fit_are_refused_with_the_reason(vans: Asset, tmp_path: Path) -> None:
    space = AddedCutouts(vans)
    hidden = street({7: (90, 90, 150, 150)})  # in front of more than half of it
    with pytest.raises(NotApplicable, match="none of 1 objects would stand on the road"):
        proposed(space, hidden)
    green = street({})
    pixels = pixels_of(green).copy()
    pixels[125:, :140] = (40, 160, 40)
    with pytest.raises(NotApplicable, match="none of 1 objects would stand on the road"):
        proposed(space, replace(green, inputs={"camera": Image(pixels)}))
    with pytest.raises(NotApplicable, match="no object of another picture of this shape; it has 1 car"):
        proposed(space, street({}, key="van"))  # the picture that it was cut out of
    with pytest.raises(NotApplicable, match="no bus of another picture"):
        proposed(AddedCutouts(vans, kinds=("bus",)), street({}))
    window = Case("w", {"camera": Group((green.inputs["camera"],) * 2)}, green.truth)
    with pytest.raises(NotApplicable, match="window"):
        proposed(space, window)
    square = Case("s", {"camera": Image(np.full((180, 180, 3), 100, np.uint8))}, (Masks(np.zeros((180, 180), int), {}),))
    with pytest.raises(NotApplicable, match="of this shape"):
        proposed(space, square)


def test_classes_tell_the_road_and_get_the_new_object(vans: Asset) -> None:
    case, names = street({}), {7: "road", 8: "sidewalk", 26: "car"}
    numbers = np.full((180, 320), 7)
    there = replace(case, truth=(*case.truth, Classes(numbers, names)))
    after = find(proposed(AddedCutouts(vans), there)(there).truth, "classes")
    assert isinstance(after, Classes)
    assert np.array_equal(after.numbers == 26, ids_of(proposed(AddedCutouts(vans), there)(there)) > 0)
    assert (after.numbers[after.numbers != 26] == 7).all()
    numbers = numbers.copy()
    numbers[:, :110] = 8  # its lower left corner is on the pavement
    with pytest.raises(NotApplicable, match="none of 1 objects"):
        proposed(AddedCutouts(vans), replace(case, truth=(*case.truth, Classes(numbers, names))))


def test_a_picture_of_another_size_gets_it_in_proportion(vans: Asset) -> None:
    half = Case(
        "half", {"camera": Image(np.full((90, 160, 3), (90, 110, 100), np.uint8))}, (Masks(np.zeros((90, 160), int), {}),)
    )
    assert proposed(AddedCutouts(vans), half).box == (50, 50, 80, 65)


def test_the_gate_for_the_same_scene_refuses_it(vans: Asset) -> None:
    case = street({7: (200, 50, 220, 70)})
    after = proposed(AddedCutouts(vans), case)(case)
    assert admission(SameObjects(), case, after).why == "object 8 is new"


class Left:
    """Heat on the left third alone."""

    def explain(self, cases: Sequence[Case], system: object) -> list[HeatMap]:
        del system
        heat: Array = np.array([[1.0, 0.0, 0.0]])
        return [HeatMap(heat, (0, 0, 320, 180), (320, 180)) for _ in cases]


def test_a_selection_chooses_among_the_objects_that_fit(tmp_path: Path) -> None:
    library = library_of(tmp_path, {5: (30, 100, 60, 120), 6: (240, 100, 300, 140)})
    case = street({})
    assert {proposed(AddedCutouts(library), case, draw).name for draw in range(12)} == {"van:5", "van:6"}
    for draw in range(4):
        assert proposed(AddedCutouts(library, LargestObjects()), case, draw).name == "van:6"
        assert proposed(AddedCutouts(library, SalientObjects(Left())), case, draw).name == "van:5"


@pytest.mark.parametrize("part", ["span", "box"])
def test_wrong_rectangles_are_refused(vans: Asset, part: str) -> None:
    right: dict[str, tuple[float, ...]] = {"span": ELSEWHERE, "box": ELSEWHERE}
    with pytest.raises(ValueError, match=part):
        AddCutout(**{**right, part: (5, 5, 5, 9)}, name="van:5", library=vans)  # type: ignore[arg-type]


def test_unknown_objects_are_refused(vans: Asset) -> None:
    with pytest.raises(NotApplicable, match="the library has no object 'other'"):
        AddCutout(ELSEWHERE, ELSEWHERE, "other", vans)(street({}))


class TestAddedCutouts(SpaceContract):
    @pytest.fixture(autouse=True)
    def _with_library(self, vans: Asset) -> None:
        self.vans = vans

    def space(self) -> Space:
        return AddedCutouts(self.vans, RandomObjects())

    def cases(self) -> Sequence[Case]:
        boxes = {7: (200, 80, 240, 100)}
        return [street(boxes, key="a"), street({}, key="b"), street({8: (80, 60, 170, 175)}, key="hidden")]
