from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes2D, Group, Image, Steering
from swerve.testing import FakeSystem, TransformationContract
from swerve.transformations.flare import LensFlare, lens_flare
from swerve.world.source import World


class TestFlare(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [LensFlare(0.2, 0.1, 0.4), LensFlare(0.7, 0.3, 1.0, seed=5), LensFlare(0, 0), LensFlare(1, 1)]


def added(change: LensFlare, level: int = 100) -> Array:
    grey = np.full((180, 320, 3), level, dtype=np.uint8)
    return change.map(Image(grey)).pixels.astype(int) - level


def case(level: int) -> Case:
    return Case("k", {"camera": Image(np.full((20, 30, 3), level, dtype=np.uint8))}, truth=(Steering(1),))


def test_light_is_only_added() -> None:
    assert added(LensFlare(0.3, 0.2, 0.9)).min() >= 0


def test_brightest_where_sun_is() -> None:
    light = added(LensFlare(0.25, 0.2, 0.9)).sum(axis=2)
    rows, columns = np.nonzero(light == light.max())
    assert rows.mean() == pytest.approx(36, abs=2)
    assert columns.mean() == pytest.approx(80, abs=2)
    assert light[36, 80] > 8 * light[170, 300]


def test_ghosts_lie_across_the_centre() -> None:
    light = added(LensFlare(0.25, 0.25, 0.9), level=60).max(axis=2)
    ghost = light[135 - 12 : 135, 240 - 16 : 240].mean()  # 0.9 of the way to the mirror image of the sun
    elsewhere = light[135 - 12 : 135, 80 - 16 : 80].mean()  # nearer to the sun, off the line
    assert ghost > elsewhere + 5


def test_ghosts_have_their_colours() -> None:
    light = added(LensFlare(0.25, 0.25, 1.0), level=60)
    assert np.abs(light[..., 0] - light[..., 2]).max() > 10


def test_veil_reaches_every_corner() -> None:
    light = added(LensFlare(0.5, 0.1, 1.0))
    assert all(light[row, column].max() > 0 for row in (0, -1) for column in (0, -1))


def test_stronger_is_brighter() -> None:
    totals = [added(LensFlare(0.3, 0.2, strength)).sum() for strength in (0, 0.3, 0.6, 1)]
    assert totals[0] == 0
    assert totals == sorted(totals)
    assert len(set(totals)) == 4


def test_night_is_skipped() -> None:
    with pytest.raises(NotApplicable, match=r"a night image .mean grey level below 75"):
        LensFlare(0.3, 0.2, 0.8)(case(20))
    assert LensFlare(0.3, 0.2, 0.8).applies(case(90)) is None
    assert LensFlare(0.3, 0.2, 0.0).applies(case(20)) is None


def test_window_is_day_or_night() -> None:
    frames = Group(tuple(Image(np.full((20, 30, 3), level, dtype=np.uint8)) for level in (60, 120)))
    assert LensFlare(0.3, 0.2).applies(Case("k", {"camera": frames})) is None


def test_lamps_make_no_day_and_woods_no_night() -> None:
    night = np.full((90, 160, 3), 40, dtype=np.uint8)
    night[40:44, ::20] = 255  # lit windows and lamps
    assert LensFlare(0.3, 0.2).applies(Case("k", {"camera": Image(night)})) is not None
    wood = np.full((90, 160, 3), 20, dtype=np.uint8)
    wood[48:] = 150  # a sunny road under dark trees
    assert LensFlare(0.3, 0.2).applies(Case("k", {"camera": Image(wood)})) is None


@pytest.mark.usefixtures("rendered_once")
@pytest.mark.parametrize("sky", ["dusk", "night", "snow-night"])
def test_nights_of_the_world_are_skipped(sky: str) -> None:
    for name, night in ((sky, True), ("clear", False)):
        world = World(drives=6, conditions=name, width=128, height=72)
        skipped = [LensFlare(0.3, 0.2).applies(world[key]) is not None for key in world.keys()]
        assert skipped == [night] * 6


def test_labels_are_kept() -> None:
    boxes = Boxes2D(np.array([[1, 2, 3, 4]]), ("light",), size=(30, 20))
    assert LensFlare(0.3, 0.2).map(boxes) is boxes


def test_seed_turns_the_star() -> None:
    image = Image(np.full((90, 160, 3), 80, dtype=np.uint8))
    assert LensFlare(0.3, 0.2, seed=1).map(image) != LensFlare(0.3, 0.2, seed=2).map(image)


def test_preset_stays_in_the_sky() -> None:
    rng = np.random.default_rng(0)
    drawn = [lens_flare().propose(case(90), rng, FakeSystem()) for _ in range(20)]
    assert all(isinstance(change, LensFlare) and change.y <= 0.33 and change.strength >= 0.6 for change in drawn)


def test_words_are_for_people() -> None:
    assert LensFlare(0.2, 0.1, 0.8).words() == "lens flare of 0.8 from 20% across and 10% down"
