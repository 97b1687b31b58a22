"""Objects in other colours: hue, lightness and saturation as semSensFuzz changes them, and nothing else."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.gate import admission
from swerve.core.seeding import rng_for
from swerve.core.space import Space
from swerve.core.values import Boxes2D, Group
from swerve.relations.gates import SameObjects
from swerve.testing import FakeSystem, SpaceContract
from swerve.transformations.object_choice import LargestObjects
from swerve.transformations.tint_objects import DARKER, HUES, RICHER, TintObjects, Tints
from tests.unit.test_retouch import CAR, VAN, ids_of, pixels_of, street

BOXES = {7: (100, 80, 140, 100), 9: (200, 50, 220, 70)}
BOX = (100, 80, 140, 100)


def tinted(colour: tuple[int, int, int], **numbers: float) -> tuple[int, int, int]:
    after = TintObjects((7,), (BOX,), (BOX,), **numbers)(street({7: BOX}, colour))
    red, green, blue = pixels_of(after)[90, 120].tolist()
    return red, green, blue


@pytest.mark.parametrize("degrees", [90, 120, 180, 240])
def test_the_hue_turns_by_as_many_degrees(degrees: float) -> None:
    before = colorsys.rgb_to_hls(*(level / 255 for level in (180, 20, 20)))
    after = colorsys.rgb_to_hls(*(level / 255 for level in tinted((180, 20, 20), hue=degrees, darker=0, richer=0)))
    assert after[0] * 360 == pytest.approx((before[0] * 360 + degrees) % 360, abs=3)
    assert after[1:] == pytest.approx(before[1:], abs=0.03)


def test_light_objects_get_darker_and_richer_and_dark_ones_do_not() -> None:
    assert tinted((200, 200, 200), hue=0, darker=40, richer=0) == (160, 160, 160)
    assert tinted((90, 90, 90), hue=0, darker=40, richer=30) == (90, 90, 90)
    pale = tinted((210, 200, 200), hue=0, darker=0, richer=40)
    assert max(pale) - min(pale) > 10


def test_only_the_object_changes() -> None:
    case = street(BOXES)
    change = TintObjects((7,), (BOX,), (BOX,), hue=120)
    after = change(case)
    changed = (pixels_of(after) != pixels_of(case)).any(axis=2)
    assert np.array_equal(changed, ids_of(case) == 7)
    assert np.array_equal(ids_of(after), ids_of(case))
    boxes = Boxes2D(np.array([[100.0, 80, 140, 100]]), ("car",))
    assert change.map(boxes) == boxes
    assert admission(SameObjects(), case, after).why == ""
    assert change.words() == "object 7 in another colour, hue turned by 120°"


def test_without_a_change_of_colour_nothing_changes() -> None:
    assert tinted((200, 120, 40), hue=0, darker=0, richer=0) == pytest.approx((200, 120, 40), abs=2)
    simpler = list(TintObjects((7, 9), (BOX, BOX), (BOX, BOX), hue=120).simpler())
    assert [change.things for change in simpler if isinstance(change, TintObjects)] == [(9,), (7,)]


def test_numbers_are_drawn_from_the_published_ranges() -> None:
    case, found = street(BOXES), []
    for draw in range(60):
        change = Tints(LargestObjects()).propose(case, rng_for("tint", draw), FakeSystem())
        assert isinstance(change, TintObjects)
        assert change.things == (7,)
        found.append((change.hue, change.darker, change.richer))
    for drawn, (low, high) in zip(zip(*found, strict=True), (HUES, DARKER, RICHER), strict=True):
        assert low <= min(drawn) < max(drawn) <= high
        assert len(set(drawn)) > 10


def test_windows_are_skipped_with_the_reason() -> None:
    case = street(BOXES)
    window = Case("w", {"camera": Group((case.inputs["camera"],) * 2)}, case.truth)
    with pytest.raises(NotApplicable, match="window"):
        Tints().propose(window, rng_for("tint"), FakeSystem())


class TestTints(SpaceContract):
    def space(self) -> Space:
        return Tints()

    def cases(self) -> Sequence[Case]:
        return [street(BOXES, CAR, key="a"), street(BOXES, VAN, key="b"), street({}, key="none")]
