"""Numbers of other systems become degrees of the steering wheel, left positive."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.convention import Convention
from swerve.core.errors import InputError
from swerve.world.driver import RATIO
from swerve.world.source import World
from swerve.zoo.steering import DEGREES, STEERING


@pytest.mark.parametrize(
    ("convention", "number", "degrees"),
    [
        (Convention("degrees", "left", "wheel", 15.0), 12.5, 12.5),
        (Convention("degrees", "right", "wheel", None), 12.5, -12.5),
        (Convention("radians", "left", "wheel", None), math.pi / 4, 45.0),
        (Convention("degrees", "left", "road", 15.0), 2.0, 30.0),
        (Convention("radians", "right", "road", 16.0), math.pi / 180, -16.0),
        (Convention(40.0, "left", "wheel", 15.0), -0.5, -20.0),
    ],
)
def test_numbers_become_degrees(convention: Convention, number: float, degrees: float) -> None:
    assert convention.steering(number).degrees == pytest.approx(degrees)


@given(st.floats(-400, 400))
def test_the_other_sign_is_the_other_way(number: float) -> None:
    left, right = (Convention("degrees", side, "wheel", None) for side in ("left", "right"))
    assert left.steering(number).degrees == -right.steering(number).degrees


@pytest.mark.parametrize(
    "wrong",
    [
        ("turns", "left", "wheel", None),
        (0.0, "left", "wheel", None),
        (math.nan, "left", "wheel", None),
        ("degrees", "up", "wheel", None),
        ("degrees", "left", "rudder", None),
        ("degrees", "left", "wheel", -15.0),
        ("degrees", "left", "road", None),
    ],
)
def test_what_cannot_be_is_refused(wrong: tuple[str | float, str, str, float | None]) -> None:
    with pytest.raises(InputError, match="steering: "):
        Convention(*wrong)


def test_nothing_is_assumed() -> None:
    with pytest.raises(TypeError, match="missing 4"):
        Convention()  # type: ignore[call-arg]


def test_the_world_and_its_systems_declare_theirs() -> None:
    assert World.convention == Convention("degrees", "left", "wheel", RATIO)
    for kind in STEERING.values():
        assert kind.convention == Convention(DEGREES, "left", "wheel", RATIO)
    assert str(World.convention) == "degrees of the steering wheel, left positive, ratio 15"
