from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.space import Over, Range
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Array, Depth, Group, Image, PointCloud, Steering
from swerve.testing import FakeSystem, TransformationContract
from swerve.transformations.affine import Translate
from swerve.transformations.atmosphere import assumed_depth, estimate_air
from swerve.transformations.weather import Fog, Rain, Snow, fog, rain, snow, tigaug_weather

WIDTH, HEIGHT = 160, 90
SAMPLES = (Fog(400), Fog(40, seed=3), Rain(0.3), Rain(1, 0.2, 0.3, -20), Snow(1), Snow(5, 30, seed=9))
STRONGEST = (Fog(10), Rain(1, 1, 1), Snow(5))

every_sample = pytest.mark.parametrize("change", SAMPLES, ids=repr)


class TestWeather(TransformationContract):
    def changes(self) -> Sequence[Transformation]:
        return [*SAMPLES, *Fog.grid(), *Rain.grid(), *Snow.grid(), Fog(50, patchiness=0.0, horizon=0.4)]


def road(sky: int = 210, ground: int = 60) -> Array:
    pixels = np.full((HEIGHT, WIDTH, 3), ground, dtype=np.uint8)
    pixels[: HEIGHT // 3] = sky
    return pixels


def case(metres: Array | float | None = None, pixels: Array | None = None) -> Case:
    image = Image(road() if pixels is None else pixels)
    if metres is None:
        return Case("k", {"camera": image})
    return Case("k", {"camera": image, "depth": Depth(np.broadcast_to(np.float32(metres), (HEIGHT, WIDTH)))})


def seen(change: Transformation, source: Case) -> Array:
    image = change(source).inputs["camera"]
    assert isinstance(image, Image)
    return image.pixels.astype(int)


# --- fog -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("visibility", "metres"), [(100, 50.0), (100, 10.0), (30, 12.5), (400, 380.0)])
def test_fog_follows_koschmieder(visibility: float, metres: float) -> None:
    depth = np.full((HEIGHT, WIDTH), metres, dtype=np.float32)
    depth[:, 0] = math.inf  # nothing but air comes from there
    result = seen(Fog(visibility, patchiness=0.0), case(depth))
    air, through = result[-1, 0], math.exp(-3.912 * metres / visibility)
    assert np.abs(result[-1, 80] - (60 * through + air * (1 - through))).max() <= 1


def test_farther_is_nearer_air() -> None:
    ramp = np.linspace(0, 300, WIDTH, dtype=np.float32)[None].repeat(HEIGHT, axis=0)
    row = seen(Fog(100, patchiness=0.0), case(ramp))[-1, :, 0]
    assert row[0] == 60
    assert (np.diff(row) >= 0).all()
    assert abs(row[-1] - estimate_air(road()).light[0]) <= 1


def test_less_visibility_more_fog() -> None:
    levels = [seen(Fog(metres, patchiness=0.0), case(60.0))[-1, 80, 0] for metres in (2000, 400, 200, 100, 50)]
    assert levels == sorted(levels)
    assert len(set(levels)) == 5


def test_clear_air_changes_nothing() -> None:
    assert seen(Fog(10_000), case()).tolist() == road().tolist()
    assert np.abs(seen(Fog(9_999, patchiness=0.0), case(20.0)) - road()).max() <= 2


def test_without_depth_road_fades() -> None:
    column = seen(Fog(60, patchiness=0.0), case(pixels=road(sky=240, ground=20)))[:, 80, 0]
    assert (np.diff(column[50:]) <= 0).all()
    assert column[50] - column[-1] > 60


def test_sides_are_nearer_than_middle() -> None:
    metres = assumed_depth(1280, 720, 0.5)
    assert metres[45, 80] > 3 * metres[45, 2]
    assert metres[-1].max() < 8


def test_dark_things_stay_before_sky() -> None:
    pixels = road(sky=220)
    pixels[10:20, 20:26] = 15  # a traffic light
    after = seen(Fog(100, patchiness=0.0), case(pixels=pixels))
    assert after[12, 60].min() - after[15, 23].max() > 40


def test_sky_lowers_the_horizon() -> None:
    tall = road()
    tall[: int(0.8 * HEIGHT)] = 210
    assert estimate_air(road()).horizon == 0.55
    assert estimate_air(tall).horizon == pytest.approx(0.8, abs=0.03)
    assert estimate_air(tall, horizon=0.3).horizon == 0.3


def test_air_is_lit_by_scene() -> None:
    assert min(estimate_air(road(sky=200)).light) > 180
    assert max(estimate_air(road(sky=70, ground=10)).light) < 75
    warm = road()
    warm[:30] = (230, 180, 120)
    red, _, blue = estimate_air(warm).light
    assert 10 < red - blue < 60


def test_unknown_depth_is_assumed() -> None:
    metres = np.full((HEIGHT, WIDTH), 50, dtype=np.float32)
    metres[:, 40] = math.nan
    change = Fog(100, patchiness=0.0)
    assert abs(seen(change, case(metres))[-1, 40] - seen(change, case())[-1, 40]).max() <= 1


def test_depth_is_found_in_truth() -> None:
    depth = Depth(np.full((HEIGHT, WIDTH), 30, dtype=np.float32))
    labelled = Case("k", {"camera": Image(road())}, truth=(Steering(1), depth))
    assert seen(Fog(100), labelled).tolist() == seen(Fog(100), case(30.0)).tolist()
    assert Fog(100)(labelled).truth == labelled.truth


def test_depth_of_other_size_ignored() -> None:
    depth = Depth(np.full((9, 16), 30, dtype=np.float32))
    other = Case("k", {"camera": Image(road()), "depth": depth})
    assert seen(Fog(100), other).tolist() == seen(Fog(100), case()).tolist()


def test_window_frames_take_own_depths() -> None:
    near, far = (Depth(np.full((HEIGHT, WIDTH), metres, dtype=np.float32)) for metres in (5, 500))
    window = Case("k", {"camera": Group((Image(road()),) * 2), "depth": Group((near, far))})
    frames = Fog(100)(window).inputs["camera"]
    assert isinstance(frames, Group)
    first, second = frames.values
    assert first == Fog(100)(case(5.0)).inputs["camera"]
    assert second == Fog(100)(case(500.0)).inputs["camera"]


@every_sample
def test_window_frames_share_air(change: Transformation) -> None:
    dull = Image(road(sky=120))
    window = change(Case("k", {"camera": Group((Image(road()), Image(road()), dull))})).inputs["camera"]
    assert isinstance(window, Group)
    assert window.values[0] == window.values[1] == change.map(Image(road()))
    assert window.values[2] != change.map(dull)


def test_half_as_dense_is_simpler() -> None:
    assert list(Fog(40).simpler()) == [Fog(10_000), Fog(80)]
    assert list(Fog(10_000).simpler()) == []


def test_patchiness_varies_the_density() -> None:
    even, patchy = seen(Fog(60, patchiness=0.0), case(30.0)), seen(Fog(60, patchiness=0.5), case(30.0))
    assert np.ptp(even[60:, :, 0]) == 0
    assert np.ptp(patchy[60:, :, 0]) > 10


# --- rain and snow --------------------------------------------------------------------------------------------------


@every_sample
def test_seed_decides_the_bytes(change: Transformation) -> None:
    again, other = dataclasses.replace(change), dataclasses.replace(change, seed=77)  # type: ignore[call-arg]
    image = Image(road())
    assert change.map(image) == again.map(image)
    assert change.map(image) != other.map(image)


def test_no_weather_is_identity() -> None:
    image = Image(road())
    for change in (Rain(0, 0.2, 0.3), Snow(0, 20)):
        assert change.map(image) is image


def test_more_of_it_hides_more() -> None:
    noise = np.random.default_rng(0).integers(0, 200, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    for rising in ([Rain(a) for a in (0.2, 0.5, 1.0)], [Snow(s) for s in (1, 2.5, 5)], [Fog(m) for m in (300, 80, 20)]):
        contrast = [change.map(Image(noise)).pixels[45:].astype(float).std() for change in rising]
        assert noise[45:].std() > contrast[0] > contrast[1] > contrast[2]


@pytest.mark.parametrize("change", STRONGEST, ids=repr)
def test_nothing_outshines_the_air(change: Transformation) -> None:
    after = change.map(Image(road(sky=150, ground=30))).pixels
    assert after.max() <= 1.08 * 150 + 0.12 * 255 + 1


@pytest.mark.parametrize("change", [Rain(0.6), Snow(3)], ids=repr)
def test_dark_grounds_show_particles(change: Transformation) -> None:
    ground = change.map(Image(road(ground=30))).pixels[60:, :, 0].astype(int)
    brighter = ground - np.median(ground) > 8
    assert 0.01 < brighter.mean() < 0.5


def test_streaks_differ_in_strength() -> None:
    pixels = np.full((720, 1280, 3), 40, dtype=np.uint8)
    pixels[:200] = 220
    ground = Rain(0.5).map(Image(pixels)).pixels[400:, :, 0].astype(int)
    streaks = ground[ground > np.median(ground) + 10]
    assert np.percentile(streaks, 95) - np.percentile(streaks, 5) > 25


def test_slant_leans_the_streaks() -> None:
    pixels = np.full((360, 360, 3), 40, dtype=np.uint8)
    pixels[:100] = 220
    spread = []
    for slant in (-40, 40):
        ground = Rain(0.6, slant=slant).map(Image(pixels)).pixels[150:, :, 0].astype(float)
        down, across = np.gradient(ground)
        spread.append(float((down * across).mean()))
    assert spread[0] > 0 > spread[1]


def test_rain_darkens_the_scene() -> None:
    bright = np.full((HEIGHT, WIDTH, 3), 180, dtype=np.uint8)
    assert Rain(1).map(Image(bright)).pixels.mean() < 165


# --- cases and spaces -----------------------------------------------------------------------------------------------


def test_lidar_sees_half_as_far() -> None:
    cloud = PointCloud(np.array([[10, 0, 0, 1], [49, 0, 0, 1], [0, 51, 0, 1]], dtype=np.float32))
    after = Fog(100, seed=1).map(cloud)  # a seed by which the air itself answers none of the three
    assert after.xyzi[:, 0].tolist() == [10, 49]
    assert after.xyzi[0, 3] == pytest.approx(math.exp(-2 * 3.912 / 100 * 10))
    assert Fog(10_000).map(cloud) is cloud


def test_weather_needs_an_image() -> None:
    with pytest.raises(NotApplicable, match="no image"):
        Fog(100)(Case("k", {"wheel": Steering(1)}))


def test_empty_image_stays_empty() -> None:
    empty = Image(np.zeros((0, 0, 3), dtype=np.uint8))
    assert Rain(0.5)(Case("k", {"camera": empty})).inputs["camera"] == empty


def test_depth_follows_a_chain() -> None:
    chain = Chain((Translate(80, 0), Fog(100, patchiness=0.0)))
    result = seen(chain, case(10.0))
    air = result[-1, 0]  # what came into view is infinitely far
    assert air.min() > 150
    assert (result[-1, 100] < 110).all()


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="'visibility' must be a number from 10 to 10000, got 5"):
        Fog(5)
    with pytest.raises(ValueError, match=r"'horizon' must lie between 0 .top. and 1 .bottom., .* got 1.5"):
        Snow(2, horizon=1.5)
    with pytest.raises(ValueError, match="'patchiness' must be a number from 0 to 1, got 2"):
        Fog(50, patchiness=2)


def test_presets_are_the_paper_s() -> None:
    assert rain().domains["drop_size"] == Range(0.1, 0.2)
    assert rain().domains["speed"] == Range(0.2, 0.3)
    assert snow().domains["severity"] == 2
    assert fog().domains["visibility"] == 120


def test_presets_propose_sound_changes() -> None:
    rng = np.random.default_rng(0)
    drawn = {type(tigaug_weather().propose(case(), rng, FakeSystem())) for _ in range(40)}
    assert drawn == {Fog, Rain, Snow}
    first, second = (Over(Rain).propose(case(), rng, FakeSystem()) for _ in range(2))
    assert first != second


def test_words_are_for_people() -> None:
    assert Fog(120).words() == "fog, visibility 120 m"
    assert Rain(0.5).words() == "rain of 0.5, drops of 0.15 at speed 0.25"
    assert Snow(2).words() == "snow of severity 2"
