"""Which objects may be changed, and in which order: by size, kind, place, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.values import Image, Masks
from swerve.testing import FakeSystem
from swerve.transformations.frame_objects import UNKNOWN, frame_objects
from swerve.transformations.object_choice import (
    LEAST,
    ChosenObjects,
    LargestObjects,
    NearestObjects,
    ObjectChoice,
    RandomObjects,
    Ranking,
)


def labelled(instances: Any, kinds: dict[int, str] | None = None, key: str = "a") -> Case:
    """A picture whose objects have instance numbers."""
    pixels = np.zeros((*instances.shape, 3), np.uint8)
    found = {int(number): "car" for number in np.unique(instances) if number}
    return Case(key, {"camera": Image(pixels)}, (Masks(instances, kinds or found),), group=key)


def street() -> Case:
    """640 x 360: a large car far away, a small one near, a thin one, one at the edge, and a person."""
    ids = np.zeros((360, 640), np.int32)
    ids[100:160, 200:300] = 26001
    ids[300:320, 300:320] = 26002
    ids[100:200, 400:415] = 26003
    ids[150:250, 600:640] = 26004
    ids[200:260, 500:520] = 24001
    kinds = {26001: "car", 26002: "car", 26003: "car", 26004: "car", 24001: "person"}
    return labelled(ids, kinds)


def chosen(choice: ObjectChoice, case: Case, draw: int = 0) -> tuple[int, ...] | str:
    (one,) = choice.choose([case], [rng_for("choice", draw)], FakeSystem())
    return one.numbers if isinstance(one, ChosenObjects) else str(one)


def test_objects_come_from_their_masks() -> None:
    seen = frame_objects(street())
    assert [item.number for item in seen.items] == [24001, 26001, 26002, 26003, 26004]
    car = seen.numbered[26001]
    assert (car.kind, car.span, car.pixels, car.size) == ("car", (200, 100, 300, 160), 6000, (100, 60))
    assert seen.mask(26001).sum() == 6000
    assert [item.number for item in seen.items if seen.is_cut_off(item)] == [26004]


def test_pictures_without_masks_have_no_objects() -> None:
    with pytest.raises(NotApplicable, match=UNKNOWN):
        frame_objects(Case("a", {"camera": Image(np.zeros((4, 4, 3), np.uint8))}, (), group="a"))


@pytest.mark.parametrize(("width", "least"), [(2048, 50), (640, 16), (320, 8)])
def test_limit_scales_with_the_width(width: int, least: int) -> None:
    for size, is_large in ((least, True), (least - 1, False)):
        for shape in ((size, least + 9), (least + 9, size)):
            ids = np.zeros((width // 2, width), np.int32)
            ids[20 : 20 + shape[0], 20 : 20 + shape[1]] = 7
            assert (chosen(ObjectChoice(), labelled(ids)) == (7,)) == is_large


def test_limit_can_be_pixels() -> None:
    assert LEAST * 640 < 16
    assert chosen(ObjectChoice(LargestObjects(), count=4), street()) == (26001, 26004, 24001, 26002)
    assert chosen(ObjectChoice(LargestObjects(), count=2, least=40), street()) == (26001, 26004)
    assert chosen(ObjectChoice(LargestObjects(), least=101), street()) == (
        "the frame has 0 objects of at least 101x101 visible pixels, 1 are needed"
    )


def test_orders_follow_size_and_nearness() -> None:
    assert chosen(ObjectChoice(NearestObjects(), count=4), street()) == (26002, 24001, 26004, 26001)
    assert chosen(ObjectChoice(NearestObjects(), kinds=("person",)), street()) == (24001,)
    assert chosen(ObjectChoice(LargestObjects(), count=3, whole=True), street()) == (26001, 24001, 26002)


def test_random_order_depends_on_the_draw_alone() -> None:
    choice = ObjectChoice(RandomObjects(), count=2)
    draws = [chosen(choice, street(), draw) for draw in range(30)]
    assert draws == [chosen(choice, street(), draw) for draw in range(30)]
    assert {number for draw in draws for number in draw} == {24001, 26001, 26002, 26004}


def test_too_few_objects_are_a_reason() -> None:
    assert "has 1 person of at least 16x16 visible pixels, 2 are needed" in chosen(
        ObjectChoice(count=2, kinds=("person",)), street()
    )


@dataclass(frozen=True)
class Picky:
    """Refuses a case, and chooses too few objects of another."""

    def rank(self, cases: Sequence[Case], objects: Any, rngs: Any, system: Any) -> Sequence[Ranking]:
        del objects, rngs, system
        return [NotApplicable("not this one") if case.key == "a" else [24001] for case in cases]


def test_reasons_keep_their_places() -> None:
    ids = np.zeros((360, 640), np.int32)
    cases = [street(), labelled(ids, key="empty"), labelled(ids + 24001, key="one")]
    rngs = [rng_for(0)] * 3
    first, second, third = ObjectChoice(Picky()).choose(cases, rngs, FakeSystem())
    assert str(first) == "not this one"
    assert "has 0 objects" in str(second)
    assert isinstance(third, ChosenObjects)
    assert third.numbers == (24001,)
    *_, few = ObjectChoice(Picky(), count=1).choose(cases, rngs, FakeSystem(), check=_refuse)
    assert str(few) == "cannot be changed"


def _refuse(case: Case) -> None:
    raise NotApplicable("cannot be changed")


def test_selections_that_choose_too_few_are_counted() -> None:
    case = labelled(np.where(np.arange(640) < 320, 24001, 24002) + np.zeros((360, 1), np.int32), key="two")
    assert chosen(ObjectChoice(Picky(), count=2), case) == "the selection chose 1 of 2 objects, 2 are needed"


@pytest.mark.parametrize(
    "wrong",
    [{"count": 0}, {"least": -1}, {"least": float("nan")}, {"hidden": 1.5}, {"hidden": "all"}],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ObjectChoice(**wrong)


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_choice_is_some_of_the_candidates(seed: int, count: int) -> None:
    rng = rng_for("masks", seed)
    ids = np.zeros((60, 100), np.int32)
    for number in range(1, 7):
        top, left = rng.integers(0, 55), rng.integers(0, 95)
        ids[top : top + rng.integers(1, 30), left : left + rng.integers(1, 40)] = number
    case = labelled(ids)
    for order in (RandomObjects(), LargestObjects(), NearestObjects()):
        choice = ObjectChoice(order, count=count, least=6)
        found = chosen(choice, case, seed)
        able = {item.number for item in frame_objects(case).items if min(item.size) >= 6}
        assert (len(found) == count and set(found) <= able) if len(able) >= count else isinstance(found, str)
