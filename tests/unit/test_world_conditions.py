"""Conditions as numbers: declared, continuous, worded, and without any effect on what is where."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.space import Over, Range
from swerve.core.values import SceneRef, find
from swerve.testing import FakeSystem
from swerve.transformations.rerender import Rerender, Reshade, weathers
from swerve.world import frames
from swerve.world.camera import Camera
from swerve.world.conditions import PRESETS, Conditions, conditions, declared
from swerve.world.drives import drive
from swerve.world.gbuffer import GBuffer, cast
from swerve.world.labels import masks, visible_things
from swerve.world.render import Rendered, shade
from swerve.world.secondary_rays import SecondaryRays
from swerve.world.source import World

CAMERA = Camera(160, 90)
PARAMS = declared()
STEEPEST = 2.0  # grey levels that one step of a parameter may change a picture by, on average


@cache
def frame(number: int) -> tuple[GBuffer, SecondaryRays]:
    way = drive(f"test/0/{number}")
    snapshot = way.scene.at(way.poses[12].time)
    return cast(snapshot, way.poses[12], CAMERA), SecondaryRays(lambda: snapshot)


def shaded(number: int, here: Conditions) -> Rendered:
    buffer, secondary = frame(number)
    return shade(buffer, here, secondary)


def moved(here: Conditions, name: str) -> Conditions:
    """One step on."""
    facts, value = PARAMS[name], getattr(here, name)
    step = facts.resolution if value + facts.resolution <= facts.high else -facts.resolution
    return replace(here, **{name: value + step})


def change(number: int, one: Conditions, other: Conditions) -> float:
    before, after = (shaded(number, here).pixels.astype(int) for here in (one, other))
    return float(np.abs(after - before).mean())


numbers = {name: st.floats(facts.low, facts.high) for name, facts in PARAMS.items()}
falling = {name: st.one_of(st.just(0.0), numbers[name]) for name in ("rain", "snowfall", "snow", "wetness", "lamps")}
twilight = st.one_of(st.floats(-12, 12), numbers["sun"])
anywhere = st.builds(Conditions, **{**numbers, **falling, "sun": twilight})


@settings(max_examples=60, deadline=None)
@given(anywhere, st.sampled_from([*PARAMS]), st.integers(0, 5))
def test_one_step_changes_a_picture_a_little(here: Conditions, name: str, number: int) -> None:
    assert change(number, here, moved(here, name)) <= STEEPEST


SEAMS = {  # where earlier editions changed abruptly
    "the warm horizon ended": (Conditions(sun=-10.01, clouds=0.1, ahead=1.0), "sun"),
    "the glow of towns began": (Conditions(sun=-4.02, clouds=0.1), "sun"),
    "the camera's night began": (Conditions(sun=-1.03, clouds=0.1, visibility=60.0), "sun"),
    "lamps were lit": (Conditions(sun=1.98), "sun"),
    "the road dried": (Conditions(clouds=1.0, wetness=0.0), "wetness"),
    "snow began to lie": (Conditions(snow=0.0), "snow"),
    "rain began": (Conditions(sun=-25.0, rain=0.0), "rain"),
    "rain began in snowfall": (Conditions(sun=-25.0, rain=0.0, snowfall=2.0), "rain"),
    "snow began to fall": (Conditions(sun=-25.0, snowfall=0.0), "snowfall"),
    "snow began to fall in rain": (Conditions(sun=-25.0, snowfall=0.0, rain=20.0), "snowfall"),
    "more drops fell than usual": (Conditions(rain=37.5), "rain"),
    "more flakes fell than usual": (Conditions(snowfall=3.0), "snowfall"),
}


@pytest.mark.parametrize("seam", SEAMS)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_seam_is_left(seam: str, number: int) -> None:
    """The step over it is small, and not much larger than the next ones."""
    here, name = SEAMS[seam]
    there = moved(here, name)
    step, following = change(number, here, there), change(number, there, moved(there, name))
    assert step <= min(STEEPEST, 2 * following + 0.1)


@pytest.mark.parametrize("name", PRESETS)
def test_named_skies_are_points_among_their_neighbours(name: str) -> None:
    for parameter in PARAMS:
        assert change(3, PRESETS[name], moved(PRESETS[name], parameter)) <= STEEPEST, parameter


def test_every_parameter_matters() -> None:
    """Otherwise continuity would mean nothing."""
    low = Conditions(sun=10.0, ahead=1.0, clouds=0.2)
    wide = {"azimuth": 60.0, "clouds": 0.9, "visibility": 60.0, "rain": 40.0, "wetness": 1.0, "snowfall": 4.0, "snow": 0.9}
    for name, value in {**wide, "sun": 40.0, "ahead": 0.0, "lamps": 1.0}.items():
        assert change(1, low, replace(low, **{name: value})) > 1.0, name


@settings(max_examples=30, deadline=None)
@given(anywhere, st.integers(0, 5))
@example(PRESETS["snow-night"], 2)
def test_masks_are_the_same_under_all_conditions(here: Conditions, number: int) -> None:
    way = drive(f"test/0/{number}")
    seen = [
        masks(visible_things(way.scene, way.poses[12], CAMERA, picture), picture)
        for picture in (shaded(number, here), shaded(number, Conditions()))
    ]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", PARAMS)
def test_parameters_are_declared_with_bounds(name: str) -> None:
    facts = PARAMS[name]
    assert facts.low <= facts.neutral <= facts.high
    assert getattr(Conditions(), name) == facts.neutral
    for wrong in (facts.low - 1, facts.high + 1, float("nan")):
        with pytest.raises(InputError, match=f"conditions: '{name}' must be a number from"):
            Conditions(**{name: wrong})


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (Conditions(visibility=42.0, sun=8.0, ahead=1.0, wetness=0.8), "fog 42 m, low sun ahead, wet road"),
        (PRESETS["clear"], "clear sky"),
        (PRESETS["sunshine"], "low sun ahead"),
        (PRESETS["overcast"], "overcast"),
        (PRESETS["rain"], "heavy rain, visibility 700 m, overcast, wet road"),
        (PRESETS["snow"], "heavy snowfall, visibility 380 m, overcast, snow on the road"),
        (PRESETS["fog"], "fog 75 m, overcast"),
        (PRESETS["dusk"], "twilight"),
        (PRESETS["night"], "night"),
        (Conditions(rain=1.0, lamps=0.5), "light rain, clear sky, lamps lit"),
        (Conditions(rain=5.0, snowfall=1.5), "moderate rain, moderate snowfall, clear sky, damp road"),
        (Conditions(sun=5.0, ahead=1.0, azimuth=90.0), "low sun from the left"),
        (Conditions(sun=5.0, ahead=1.0, azimuth=-90.0), "low sun from the right"),
        (Conditions(sun=30.0, ahead=1.0, azimuth=180.0, visibility=3000.0), "haze 3000 m, sun behind"),
        (Conditions(snow=0.2, clouds=0.7), "cloudy, snow beside the road"),
    ],
)
def test_conditions_describe_themselves(here: Conditions, words: str) -> None:
    assert here.words() == words


@settings(max_examples=200)
@given(anywhere)
def test_no_conditions_are_without_words(here: Conditions) -> None:
    assert here.words()
    assert "  " not in here.words()


def test_road_is_wet_in_rain() -> None:
    assert Conditions(rain=25.0).wet == pytest.approx(0.7)
    assert Conditions(rain=25.0, wetness=0.9).wet == 0.9
    assert Conditions(wetness=0.3).wet == 0.3


def test_lamps_are_lit_in_the_dark() -> None:
    assert Conditions(sun=-4.0).lit == Conditions(sun=-90.0, lamps=0.2).lit == 1.0
    assert Conditions(sun=-1.0).lit == 0.5
    assert Conditions(sun=30.0, lamps=0.4).lit == 0.4


# Changes.


def test_numbers_render_the_named_skies() -> None:
    case = World(drives=1, width=96, height=54)["test/0/0#0"]
    for name, sky in PRESETS.items():
        by_name, by_numbers = Rerender(name)(case), Reshade(**sky.numbers())(case)
        assert by_name.inputs == by_numbers.inputs
        assert by_name.truth == by_numbers.truth


def test_neutral_numbers_change_nothing() -> None:
    case = World(drives=1, width=96, height=54)["test/0/0#0"]
    after = Reshade()(case)
    assert after.inputs == case.inputs
    assert find(after.truth, "scene") == find(case.truth, "scene")


def test_turned_sun_comes_back() -> None:
    """A full turn is none; half a turn is another picture."""
    here = Conditions(sun=20.0, azimuth=-180.0)
    assert change(2, here, replace(here, azimuth=180.0)) < 0.05
    assert change(2, here, replace(here, azimuth=0.0)) > 2.0


def test_numbers_shrink_towards_neutral() -> None:
    change = Reshade(sun=-20.0, visibility=50.0)
    easier = list(change.simpler())
    assert Reshade(sun=42.0, visibility=50.0) in easier
    assert Reshade(sun=-20.0, visibility=20_000.0) in easier
    assert Reshade(sun=11.0, visibility=50.0) in easier
    assert {replace(item, sun=-20.0, visibility=50.0) for item in easier} == {change}


def test_space_draws_what_is_given_alone() -> None:
    space = weathers(sun=[-5, 10], visibility=(30, 300), rain={"choices": [0.0, 20.0]}, snow=0.5)
    case = World(drives=1, width=96, height=54)["test/0/0#0"]
    drawn = [space.propose(case, rng_for("weathers", number), FakeSystem()) for number in range(60)]
    assert all(isinstance(item, Reshade) for item in drawn)
    assert all(-5 <= item.sun <= 10 and 30 <= item.visibility <= 300 and item.snow == 0.5 for item in drawn)
    assert {item.rain for item in drawn} == {0.0, 20.0}
    assert {(item.clouds, item.snowfall, item.azimuth, item.lamps) for item in drawn} == {(0.3, 0.0, 0.0, 0.0)}
    assert len({item.sun for item in drawn}) > 30
    with pytest.raises(ValueError, match="did you mean 'sun'"):
        weathers(suns=[1, 2])


def test_any_weather_can_be_drawn() -> None:
    space = Over(Reshade, sun=Range(-5, 5))
    for number in range(20):
        item = space.propose(None, rng_for("any", number), FakeSystem())
        assert isinstance(item, Reshade)
        assert item == Reshade(**item.weather.numbers())


def test_drawn_suns_cost_frames_nothing() -> None:
    """Their number has no end: no frame casts shadows for them in advance."""
    frames.forget()
    for step in range(40):
        Reshade(sun=1.0 + step, clouds=0.0, rain=float(step % 2))
    assert {here.words() for here in frames._EXPECTED} == {"overcast", "overcast, wet road"}
    frames.take_frame(SceneRef("test/0/0#3", {}), Camera(96, 54), Conditions(clouds=1.0), among=1)
    assert not [key for key in frames._KEPT._kept if "shadow" in key]
    frames.forget()


def test_words_of_numbers() -> None:
    change = Reshade(visibility=42.0, sun=8.0, ahead=1.0, wetness=0.8)
    assert change.words() == "rendered again: fog 42 m, low sun ahead, wet road"
    assert conditions("fog", sun=8.0, ahead=1.0, clouds=0.3).words() == "fog 75 m, low sun ahead"
