"""A network's numbers become values, and broken numbers stay broken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.core.convention import Convention
from swerve.core.errors import InputError
from swerve.core.values import Signal, Steering
from swerve.systems.decoders import (
    ACTIVATIONS,
    PER_METRE,
    Decoder,
    SignalDecoder,
    SteeringDecoder,
    numbers_of,
    select_output,
)
from swerve.systems.preprocessing import ImageView

VIEW = ImageView(np.zeros((2, 2, 3), np.uint8), (2, 2))
OUTPUTS = {"steer": np.array([0.5], np.float32), "crash": np.array([[-2.0, 3.0]], np.float64), "whole": np.array(7)}
RADIANS = {"unit": "radians", "positive": "left", "kind": "wheel"}
BROKEN = [math.nan, math.inf, -math.inf, 1e308, -1e308]


def test_outputs_are_chosen() -> None:
    assert select_output(OUTPUTS, "crash") is OUTPUTS["crash"]
    assert select_output(OUTPUTS, 0) is OUTPUTS["steer"]
    assert select_output(OUTPUTS, -1) is OUTPUTS["whole"]


@pytest.mark.parametrize("which", ["steering", 3, -4, None, 1.0])
def test_unknown_outputs_are_refused(which: Any) -> None:
    with pytest.raises(InputError, match="the model has no output"):
        select_output(OUTPUTS, which)


@pytest.mark.parametrize(
    "given", [None, "0.5", object(), np.array([1j]), np.array(["a"]), np.array([True]), [[1], [1, 2]], np.array([None])]
)
def test_only_numbers_are_numbers(given: Any) -> None:
    with pytest.raises(InputError, match=r"^output 'x' "):
        numbers_of({"x": given}, "x")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64])
def test_all_precisions_are_numbers(dtype: type) -> None:
    made = numbers_of({"x": np.array([1, 2], dtype)}, "x")
    assert made.dtype == np.float64
    assert made.tolist() == [1.0, 2.0]


def test_decoders_fulfil_the_protocol() -> None:
    assert isinstance(SteeringDecoder(**RADIANS), Decoder)
    assert isinstance(SignalDecoder(name="crash"), Decoder)


@pytest.mark.parametrize(
    ("given", "degrees"),
    [
        ({"unit": "radians", "positive": "left", "kind": "wheel"}, math.degrees(0.5)),
        ({"unit": "radians", "positive": "right", "kind": "wheel"}, -math.degrees(0.5)),
        ({"unit": "degrees", "positive": "left", "kind": "wheel", "ratio": 15.0}, 0.5),
        ({"unit": "degrees", "positive": "left", "kind": "road", "ratio": 15.0}, 7.5),
        ({"unit": 40.0, "positive": "left", "kind": "wheel"}, 20.0),
        ({"unit": 460.0, "positive": "right", "kind": "wheel"}, -230.0),
        ({"unit": 1.0, "positive": "left", "kind": "wheel", "activation": "tanh"}, math.tanh(0.5)),
        (
            {"unit": "radians", "positive": "left", "kind": "wheel", "activation": "twice-arctan"},
            math.degrees(2 * math.atan(0.5)),
        ),
    ],
)
def test_angles_are_said(given: dict[str, Any], degrees: float) -> None:
    said = SteeringDecoder(**given)(OUTPUTS, VIEW)
    assert isinstance(said, Steering)
    assert said.degrees == pytest.approx(degrees)


@given(st.floats(3, 1000), st.sampled_from([-1, 1]))
def test_a_path_becomes_an_angle(radius: float, side: int) -> None:
    """A car with its axles 2.8 m apart follows a circle if its front wheels point along it: tan(angle) = 2.8 / radius."""
    say = SteeringDecoder(unit=PER_METRE, positive="left", kind="road", ratio=15.0, wheelbase=2.8)
    said = say({"curve": np.array([side / radius])}, VIEW).degrees
    assert said == pytest.approx(side * 15 * math.degrees(math.atan2(2.8, radius)))


@given(st.floats(-100, 100), st.sampled_from(["degrees", "radians", 25.0]), st.sampled_from(["left", "right"]))
def test_angles_are_the_convention(number: float, unit: str | float, positive: str) -> None:
    say = SteeringDecoder(unit=unit, positive=positive, kind="road", ratio=12.5)
    assert say({"x": np.array([number])}, VIEW) == Convention(unit, positive, "road", 12.5).steering(number)


def test_signals_are_said() -> None:
    assert SignalDecoder(name="brake", output="steer", unit="m/s²")(OUTPUTS, VIEW) == Signal("brake", 0.5, "m/s²")
    assert SignalDecoder(name="crash", output="crash", index=1)(OUTPUTS, VIEW) == Signal("crash", 3.0)
    assert SignalDecoder(name="crash", output="crash", index=-2)(OUTPUTS, VIEW) == Signal("crash", -2.0)
    assert SignalDecoder(name="gear", output="whole")(OUTPUTS, VIEW) == Signal("gear", 7.0)


@given(st.floats(-30, 30))
def test_sigmoid_is_the_sigmoid(number: float) -> None:
    said = SignalDecoder(name="crash", activation="sigmoid")({"x": np.array([number])}, VIEW)
    assert said.value == pytest.approx(1 / (1 + math.exp(-number)), abs=1e-15)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("number", BROKEN)
def test_activations_hide_nothing(activation: str, number: float) -> None:
    outputs = {"x": np.array([number])}
    angles = [
        SteeringDecoder(**RADIANS, activation=activation),
        SteeringDecoder(unit=PER_METRE, positive="left", kind="road", ratio=15, wheelbase=2.8, activation=activation),
    ]
    for say in (*angles, SignalDecoder(name="crash", activation=activation)):
        assert say(outputs, VIEW).fault()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_sound_numbers_stay_sound(activation: str) -> None:
    for number in (-1e9, -800.0, 0.0, 1.0, 800.0, 1e9):
        assert SignalDecoder(name="crash", activation=activation)({"x": np.array([number])}, VIEW).fault() is None


@pytest.mark.parametrize(
    ("given", "index"), [([], None), ([1, 2], None), ([1, 2], 2), ([1, 2], -3), ([], 0), ([[1], [2]], None)]
)
def test_wrong_counts_are_refused(given: list[Any], index: int | None) -> None:
    with pytest.raises(InputError, match=r"^output 0 has \d numbers"):
        SteeringDecoder(**RADIANS, index=index)({"x": np.array(given, float)}, VIEW)


@pytest.mark.parametrize("left_out", RADIANS)
def test_conventions_have_no_defaults(left_out: str) -> None:
    given = {name: word for name, word in RADIANS.items() if name != left_out}
    with pytest.raises(TypeError, match=left_out):
        SteeringDecoder(**given)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({**RADIANS, "unit": "turns"}, "'unit' must be"),
        ({**RADIANS, "positive": "up"}, "'positive' must be 'left' or 'right'"),
        ({**RADIANS, "kind": "road"}, "needs 'ratio'"),
        ({**RADIANS, "activation": "tahn"}, "did you mean 'tanh'"),
        ({**RADIANS, "wheelbase": 2.8}, "needs 'wheelbase', in metres"),
        ({**RADIANS, "unit": PER_METRE}, "needs 'wheelbase', in metres"),
        ({**RADIANS, "unit": PER_METRE, "wheelbase": 2.8}, "needs kind = 'road'"),
        ({**RADIANS, "unit": PER_METRE, "kind": "road", "wheelbase": 2.8}, "needs 'ratio'"),
        (
            {**RADIANS, "unit": PER_METRE, "kind": "road", "ratio": 15, "wheelbase": -1},
            "'wheelbase' must be a number above 0",
        ),
    ],
)
def test_wrong_conventions_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        SteeringDecoder(**given)


def test_wrong_signals_are_refused() -> None:
    with pytest.raises(InputError, match="unknown activation 'softmax'"):
        SignalDecoder(name="crash", activation="softmax")
