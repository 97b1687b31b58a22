"""Pasted changes against the same changes rendered again, and how answers to changed lights are counted."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from swerve.analysis.changed_lights import ChangedLights, changed_lights
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.values import Boxes2D
from swerve.testing.fakes import FakeSystem
from swerve.transformations.affine import ZoomOut
from swerve.transformations.lamps import colour_of, find_lamp
from swerve.transformations.light_paste import Pasted, PasteState, span_of
from swerve.transformations.light_twins import pasted_twin
from swerve.transformations.relight import Relit
from swerve.transformations.relights import CHANGES, Relights
from swerve.world.light_source import LightWorld
from tests.fixture_lights import boxes_of, pixels_of


@cache
def rendered(change: str) -> tuple[tuple[Case, Relit], ...]:
    source = LightWorld(junctions=6, frames=1, split="train", conditions="clear", width=640, height=360)
    found = []
    for key in source.keys():
        try:
            drawn = Relights(change).propose(source[key], rng_for("twin", change, key), FakeSystem())
        except NotApplicable:
            continue
        assert isinstance(drawn, Relit)
        found.append((source[key], drawn))
    assert found
    return tuple(found)


@pytest.mark.parametrize("change", CHANGES)
def test_twins_change_the_same_lights(change: str) -> None:
    compared = 0
    for case, again in rendered(change):
        pasted = pasted_twin(again, case)
        if pasted is None:
            continue
        compared += 1
        if isinstance(pasted, ZoomOut):
            assert pasted.x == pytest.approx(0.25)
            continue
        assert isinstance(pasted, Pasted)
        assert pasted.old == again.old
        assert [one.now for one in pasted.targets] == [one.now for one in again.targets]
        for ours, theirs in zip(pasted.targets, again.targets, strict=True):
            middles = [np.add(box[:2], box[2:]) / 2 for box in (ours.new, theirs.new)]
            size = np.subtract(theirs.new[2:], theirs.new[:2]).max()
            assert np.abs(middles[0] - middles[1]).max() < 0.25 * size + 2
    assert compared


def test_recoloured_lamps_are_where_rendered_ones_are() -> None:
    """The lit lamp of a pasted change lies on that of its twin, with nearly the same hue."""
    near, hues, lights = 0, [], 0
    for case, again in rendered("state"):
        pasted = pasted_twin(again, case)
        assert isinstance(pasted, PasteState)
        ours, theirs = pixels_of(pasted(case)), pixels_of(again(case))
        for box, now in zip(pasted.old, pasted.now, strict=True):
            left, top, right, bottom = span_of(box)
            lamps = [find_lamp(picture[top:bottom, left:right], str(colour_of(now))) for picture in (ours, theirs)]
            if lamps[1] is None:
                continue
            lights += 1
            if lamps[0] is not None:
                near += bool((lamps[0].pixels & lamps[1].pixels).any())
                hues.append(abs((lamps[0].hue - lamps[1].hue + 180) % 360 - 180))
    assert lights >= 3
    assert near >= 0.75 * lights
    assert np.median(hues) < 25


def test_changed_lights_are_counted() -> None:
    placed = Boxes2D(np.array([[0, 0, 10, 30], [50, 0, 60, 30], [90, 0, 94, 8]]), ("green", "red", "red"))
    said = Boxes2D(
        np.array([[0, 0, 10, 29], [0, 1, 10, 30], [50, 0, 60, 30], [90, 0, 94, 8]]),
        ("green", "red", "green", "red"),
        np.array([0.9, 0.5, 0.8, 0.1]),
    )
    assert changed_lights(placed, said) == ChangedLights(3, 1, 1)
    assert changed_lights(placed, said, least=8) == ChangedLights(2, 1, 1)
    assert changed_lights(placed, said, least_score=0.05) == ChangedLights(3, 2, 1)
    both = changed_lights(placed, said) + ChangedLights(1, 1, 0)
    assert (both.recall, both.wrong_rate) == (0.5, 0.25)
    assert ChangedLights().recall is None


def test_boxes_stay_the_twins_of_labels() -> None:
    for case, again in rendered("state"):
        pasted = pasted_twin(again, case)
        assert pasted is not None
        assert pasted.map(boxes_of(case)).kinds == again.map(boxes_of(case)).kinds
