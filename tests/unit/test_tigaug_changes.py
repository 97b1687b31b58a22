"""TigAug's twelve changes: a detector that reads drawn lights, and never sees the change, is right under each of them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from swerve.analysis.detection import average_precision
from swerve.core.case import Case
from swerve.core.errors import InputError, NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.space import Space
from swerve.core.transformation import Transformation
from swerve.core.values import Boxes2D
from swerve.relations.boxes import PlacedBoxes
from swerve.testing.fakes import FakeSystem
from swerve.transformations.exposure import AutoLevels, RaiseValue
from swerve.transformations.light_changes import CODES, FAMILIES, GRIDS, NAMES, severities, twelve
from tests.fixture_lights import ReadsDrawnLights, boxes_of, light_case, pixels_of

STYLES = ("clean", "paper")


@cache
def cases() -> tuple[Case, ...]:
    """Large pictures with upright and flat lights, of odd and even sizes, and everything so near that no fog hides it."""
    placed = [
        [((60, 400, 156, 690), "red"), ((260 + 9 * n, 430, 520, 526), "green"), ((640, 330 + n, 739, 640), "green")]
        for n in range(4)
    ]
    return tuple(
        light_case([*lights, ((950, 520, 1210, 618 + n), "red")], size=(1280, 720), key=f"picture {n}", near=True)
        for n, lights in enumerate(placed)
    )


@cache
def read_untouched(key: str) -> Boxes2D:
    """What the perfect detector says of a picture without a change."""
    (case,) = (case for case in cases() if case.key == key)
    ((read,),) = ReadsDrawnLights()([case])
    assert isinstance(read, Boxes2D)
    return read


def drawn(space: Space, case: Case, draw: int = 0) -> Transformation:
    return space.propose(case, rng_for("twelve", case.key, draw), FakeSystem())


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", NAMES)
def test_perfect_detector_stays_perfect(name: str, style: str) -> None:
    space = twelve(style)[name]
    labels, answers, own = [], [], []
    for case in cases():
        for draw in range(2):
            change = drawn(space, case, draw)
            followup = change(case)
            ((read,),) = ReadsDrawnLights()([followup])
            assert isinstance(read, Boxes2D)
            labels.append(boxes_of(followup))
            answers.append(read)
            own.append(change.map(read_untouched(case.key)))
    assert average_precision(labels, answers).mean >= 0.999, name  # type: ignore[operator]
    # What was said of the untouched picture maps as well as the label does.
    assert average_precision([Boxes2D(one.xyxy, one.kinds) for one in own], answers).mean >= 0.999, name  # type: ignore[operator]


def test_a_detector_that_forgets_the_change_is_found_out() -> None:
    """The test above can fail: answers to the untouched pictures are wrong for the changed ones."""
    for name in ("colour", "move", "rotate", "scale"):
        labels = [boxes_of(drawn(twelve()[name], case)(case)) for case in cases()]
        answers = [ReadsDrawnLights()([case])[0][0] for case in cases()]
        assert average_precision(labels, answers).mean < 0.8, name  # type: ignore[arg-type,operator]


@pytest.mark.parametrize("name", NAMES)
def test_every_change_changes_the_picture(name: str) -> None:
    for style in STYLES:
        case = cases()[0]
        followup = drawn(twelve(style)[name], case)(case)
        assert not np.array_equal(pixels_of(followup), pixels_of(case))
        assert pixels_of(followup).shape == pixels_of(case).shape


def test_names_codes_and_families_agree() -> None:
    assert tuple(twelve()) == NAMES
    assert sorted(CODES.values()) == sorted(["RN", "SW", "FG", "LF", "OE", "UE", "MB", "CC", "MP", "AD", "RT", "SC"])
    assert [name for names in FAMILIES.values() for name in names] == list(NAMES)


def test_flare_needs_daylight() -> None:
    night = light_case([((60, 40, 80, 100), "red")], size=(320, 180))
    dark = Case("night", {"camera": type(night.inputs["camera"])(pixels_of(night) // 8)}, night.truth)  # type: ignore[call-arg]
    for style in STYLES:
        change = drawn(twelve(style)["flare"], night)
        assert change.applies(night) is None
    with pytest.raises(NotApplicable, match="night"):
        drawn(twelve()["flare"], dark)(dark)


def test_paper_raises_the_value_for_both_exposures() -> None:
    case = cases()[0]
    for name, by in (("over-exposure", 0.4), ("under-exposure", 0.1)):
        assert drawn(twelve("paper")[name], case) == RaiseValue(by)
    darker = drawn(twelve()["under-exposure"], case)(case)
    assert pixels_of(darker).mean() < pixels_of(case).mean()  # as its name says


def test_levels_reach_black_and_white() -> None:
    case = cases()[0]
    stretched = pixels_of(AutoLevels(0.01)(case))
    assert stretched.min() == 0
    assert stretched.max() == 255
    flat = light_case([((5, 5, 9, 15), "red")], size=(40, 30))
    assert np.array_equal(pixels_of(AutoLevels(0.0)(flat)), pixels_of(flat))


@pytest.mark.parametrize("name", GRIDS)
def test_severities_grow(name: str) -> None:
    """Each step changes the picture at least as much as the one before."""
    case = cases()[0]
    moved = [np.abs(pixels_of(change(case)).astype(int) - pixels_of(case)).mean() for change in severities(name).grid()]
    assert len(moved) >= 4
    if name != "fog":  # everything is near here
        assert moved == sorted(moved)
    assert min(moved) > 0


def test_unknown_severities_are_named() -> None:
    with pytest.raises(InputError, match="hail"):
        severities("hail")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reference", ["truth", "answer"])
def test_relation_holds_for_the_perfect_detector(name: str, reference: str) -> None:
    from swerve.core.relation import Pair, Status

    case = cases()[1]
    change = drawn(twelve()[name], case)
    followup = change(case)
    before, after = ReadsDrawnLights()([case, followup])
    verdict = PlacedBoxes(reference=reference).check(Pair(case, followup, change, before, after))
    assert verdict.status is Status.HELD, verdict.why
