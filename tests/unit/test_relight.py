"""Traffic lights rendered again: labels are mapped exactly, answers as labels, and the rest of the picture stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.space import Space
from swerve.core.transformation import Transformation
from swerve.core.values import Boxes2D, Image, SceneRef, find
from swerve.relations.boxes import placed_by
from swerve.testing.contracts import SpaceContract, TransformationContract
from swerve.testing.fakes import FakeSystem
from swerve.transformations.light_targets import LightTarget, edited_lights
from swerve.transformations.relight import RelightFarther, RelightMore, RelightState, Relit
from swerve.transformations.relights import CHANGES, Relights
from swerve.world.light_source import LightWorld

WIDE, HIGH = 640, 360


@cache
def cases() -> tuple[Case, ...]:
    """Frames with lights that must be detected."""
    found = []
    for streets in ("A", "B"):
        source = LightWorld(
            junctions=3, frames=1, streets=streets, split="train", conditions="clear", width=WIDE, height=HIGH
        )
        found += [source[key] for key in source.keys()]
    return tuple(case for case in found if np.asarray(boxes_of(case).care).any())


def boxes_of(case: Case) -> Boxes2D:
    boxes = find(case.truth, "boxes2d")
    assert isinstance(boxes, Boxes2D)
    return boxes


@cache
def proposed(change: str) -> tuple[tuple[Case, Relit, Case], ...]:
    """Cases, their changes and follow-ups."""
    found = []
    for case in cases():
        try:
            drawn = Relights(change).propose(case, rng_for("relight", change, case.key), FakeSystem())
        except NotApplicable:
            continue
        assert isinstance(drawn, Relit)
        found.append((case, drawn, drawn(case)))
        if len(found) == 3:
            break
    assert found
    return tuple(found)


@pytest.mark.parametrize("change", CHANGES)
def test_truth_is_the_mapped_truth(change: str) -> None:
    for case, drawn, after in proposed(change):
        mapped, truth = drawn.map(boxes_of(case)), boxes_of(after)
        kept = len(mapped.kinds) - len(getattr(drawn, "fresh", ()))
        assert np.array_equal(mapped.xyxy[:kept], truth.xyxy[:kept]), drawn.words()
        assert mapped.kinds[:kept] == truth.kinds[:kept]
        assert np.array_equal(np.asarray(mapped.care)[:kept], np.asarray(truth.care)[:kept])
        assert len(mapped.kinds) == len(truth.kinds)


@pytest.mark.parametrize("change", CHANGES)
def test_targets_are_lights_of_the_follow_up(change: str) -> None:
    for _, drawn, after in proposed(change):
        placed = placed_by(drawn)
        assert placed is not None
        truth = {(kind, *box) for kind, box in zip(boxes_of(after).kinds, boxes_of(after).xyxy.tolist(), strict=True)}
        assert {(kind, *box) for kind, box in zip(placed.kinds, placed.xyxy.tolist(), strict=True)} <= truth


@pytest.mark.parametrize("change", [change for change in CHANGES if change != "farther"])
def test_pixels_change_near_the_lights_alone(change: str) -> None:
    for case, drawn, after in proposed(change):
        near = np.zeros((HIGH, WIDE), bool)
        for box in (*drawn.old, *drawn.new):
            left, top, right, bottom = map(int, box)
            near[max(top - 30, 0) : bottom + 30, max(left - 30, 0) : right + 30] = True
        one, other = case.inputs["camera"], after.inputs["camera"]
        assert isinstance(one, Image)
        assert isinstance(other, Image)
        difference = np.abs(one.pixels.astype(int) - other.pixels).max(axis=2)
        assert difference[near].max() > 30, drawn.words()
        if change == "state":
            assert difference[~near].max() <= 2, drawn.words()  # the widest glow
        assert (difference[~near] > 2).mean() < 0.004, drawn.words()  # a shadow may fall farther away


class TestChanges(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [drawn for change in CHANGES for case, drawn, _ in proposed(change) if case.key == self.case().key]

    def case(self) -> Case:
        shared = set.intersection(*({case.key for case, _, _ in proposed(change)} for change in CHANGES))
        return next(case for case in cases() if case.key in shared)


@pytest.mark.parametrize("change", CHANGES)
class TestSpaces(SpaceContract):
    draws = 2

    @pytest.fixture(autouse=True)
    def _change(self, change: str) -> None:
        self.change = change

    def space(self) -> Space:
        return Relights(self.change)

    def cases(self) -> Sequence[Case]:
        return [case for case, _, _ in proposed(self.change)]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_frames_are_not_changed_again(change: str) -> None:
    case, drawn, after = proposed(change)[0]
    with pytest.raises(NotApplicable, match="already changed"):
        drawn(after)
    ref = find(after.truth, "scene")
    assert isinstance(ref, SceneRef)
    assert ref.scene != case.key
    with pytest.raises(NotApplicable, match="already changed"):
        Relights(change).propose(after, rng_for(1), FakeSystem())


def test_state_changes_twice_give_the_frame() -> None:
    case, drawn, after = proposed("state")[0]
    assert isinstance(drawn, RelightState)
    assert drawn.map(drawn.map(boxes_of(case))) == boxes_of(case)
    back = replace(drawn, was=drawn.states, states=drawn.was)
    assert back.map(boxes_of(after)).kinds == boxes_of(case).kinds
    same = replace(drawn, states=drawn.was)
    assert same(case).inputs == case.inputs


def test_lights_fewer_are_simpler() -> None:
    many = [drawn for change in CHANGES[:4] for _, drawn, _ in proposed(change) if len(drawn.heads) > 1]
    assert many
    for drawn in many:
        easier = list(drawn.simpler())
        assert {len(one.heads) for one in easier} == {len(drawn.heads) - 1}  # type: ignore[attr-defined]
    assert not list(proposed("farther")[0][1].simpler())


TARGET = LightTarget((10, 10, 20, 40), (30, 12, 40, 42), "red", "green")


def answer(*rows: tuple[str, float, list[float]]) -> Boxes2D:
    kinds, scores, corners = zip(*rows, strict=True)
    return Boxes2D(np.array(corners, float), kinds, scores=np.array(scores), size=(100, 50))


def test_answers_on_a_target_are_edited() -> None:
    found = edited_lights(answer(("red", 0.9, [11, 10, 21, 40]), ("red", 0.8, [60, 10, 70, 40])), [TARGET])
    assert found.kinds == ("green", "red")
    assert found.xyxy.tolist() == [[31, 12, 41, 42], [60, 10, 70, 40]]
    assert np.asarray(found.scores).tolist() == [0.9, 0.8]


def test_wrong_answers_stay_wrong() -> None:
    found = edited_lights(answer(("green", 1.0, [10, 10, 20, 40]), ("yellow", 1.0, [10, 10, 20, 40])), [TARGET])
    assert found.kinds == ("red", "yellow")


def test_answers_off_the_target_stay() -> None:
    off = answer(("red", 1.0, [15, 25, 25, 55]))
    assert edited_lights(off, [TARGET]) == off
    nothing = Boxes2D(np.zeros((0, 4)), (), size=(100, 50))
    assert edited_lights(nothing, [TARGET]) == nothing


def test_copies_are_added_to_answers() -> None:
    found = edited_lights(answer(("red", 0.7, [10, 10, 20, 40])), [replace(TARGET, now="red", copied=True)])
    assert found.kinds == ("red", "red")
    assert found.xyxy.tolist() == [[10, 10, 20, 40], [30, 12, 40, 42]]
    assert np.asarray(found.scores).tolist() == [0.7, 0.7]


def test_answers_elsewhere_shrink_with_the_picture() -> None:
    far = RelightFarther("lights-A/test/0/0#0", (1,), ((10, 10, 20, 40),), ((20, 15, 28, 39),), ("red",), (False,), zoom=0.8)
    found = far.map(answer(("red", 1.0, [10, 10, 20, 40]), ("green", 1.0, [50, 25, 60, 45])))
    assert found.xyxy.tolist() == [[20, 15, 28, 39], [50, 25, 58, 41]]
    assert np.asarray(found.care).tolist() == [False, True]


def test_lights_that_come_into_the_frame_are_optional() -> None:
    boxes = (((10.0, 10.0, 20.0, 40.0),), ((20.0, 15.0, 28.0, 39.0),))
    far = RelightFarther("lights-A/test/0/0#0", (1,), *boxes, ("red",), (True,), fresh=((1.0, 2.0, 3.0, 9.0),))
    found = far.map(answer(("red", 1.0, [10, 10, 20, 40])))
    assert found.xyxy.tolist()[1] == [1, 2, 3, 9]
    assert np.asarray(found.care).tolist() == [True, False]


@pytest.mark.parametrize("change", ["stat", "colour"])
def test_unknown_change_is_named(change: str) -> None:
    with pytest.raises(InputError, match="unknown change"):
        Relights(change)


def test_wrong_lists_are_named() -> None:
    box = ((1.0, 2.0, 3.0, 9.0),)
    with pytest.raises(ValueError, match="'new' must have an entry for each of the 1 heads"):
        RelightMore("lights-A/test/0/0#0", (1,), box, (), ("red",), (True,), shifts=(0.5,))
    with pytest.raises(ValueError, match="different numbers of heads"):
        RelightState("f", (1, 1), box * 2, box * 2, ("red",) * 2, (True,) * 2, states=("green",) * 2)
    with pytest.raises(InputError, match="unknown state 'blue'"):
        RelightState("f", (1,), box, box, ("red",), (True,), states=("blue",))


def test_frames_without_lights_are_refused() -> None:
    case = cases()[0]
    bare = Case(case.key, case.inputs, ())
    drawn = proposed("turned")[0][1]
    with pytest.raises(NotApplicable, match="not a frame of 'world-lights'"):
        drawn(bare)
    with pytest.raises(NotApplicable, match="not a frame of 'world-lights'"):
        Relights().propose(bare, rng_for(1), FakeSystem())
