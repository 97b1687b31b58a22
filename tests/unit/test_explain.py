"""Explanations: Grad-CAM equal to captum's, its sign rule, maps on pictures, occlusion, and objects by their heat."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from captum.attr import LayerGradCam
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from swerve.cli.main import main
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.core.system import Answer, Gradients
from swerve.core.values import Array, Group, Image, Steering
from swerve.explain.grad_cam import GradCam, convolutions, last_convolution, weighted_maps
from swerve.explain.heat import HeatMap, normalised
from swerve.explain.occlusion import Occlusion
from swerve.systems.decoders import SteeringDecoder
from swerve.systems.keras import Keras
from swerve.systems.preprocessing import Step
from swerve.systems.steps import Crop, Divide
from swerve.systems.torch import Torch
from swerve.testing import FakeSystem
from swerve.transformations.frame_objects import FrameObject, FrameObjects
from swerve.transformations.object_choice import Ranking
from swerve.transformations.salient import FLAT, NO_HEAT, SalientObjects, importance
from swerve.zoo.steering import DaveOrig, Epoch, Rambo

ANGLE = SteeringDecoder(unit="radians", positive="left", kind="wheel")


def frame(key: str, width: int = 96, height: int = 54) -> Case:
    few = rng_for("explained", key).integers(0, 256, (6, 10, 3)).astype(np.uint8)
    pixels = cv2.resize(few, (width, height), interpolation=cv2.INTER_CUBIC)
    return Case(key, {"camera": Image(np.ascontiguousarray(pixels))}, (), group=key)


class TwoConvolutions(nn.Module):
    def __init__(self, sign: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second = nn.Conv2d(3, 4, 5, stride=3), nn.Conv2d(4, 6, 3)
        self.out = nn.Linear(6, 1)
        self.sign = sign

    def forward(self, batch: Tensor) -> Tensor:
        maps = torch.relu(self.second(torch.relu(self.first(batch))))
        return self.sign * self.out(maps.mean((2, 3)))  # type: ignore[no-any-return]


def network(sign: float = 1.0, *steps: Step) -> Torch:
    return Torch(net=TwoConvolutions, arguments={"sign": sign}, read=(*steps, Divide()), say=(ANGLE,), device="cpu")


# --- Grad-CAM --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("system", "layer"), [(Epoch(), "conv3"), (Epoch(), "conv1"), (DaveOrig(), "conv2")])
def test_maps_equal_those_of_captum(system: Epoch | DaveOrig, layer: str) -> None:
    cases = [frame(str(number)) for number in range(3)]
    net = system.system.net
    batch = torch.stack([system.view.read(case) for case in cases])
    theirs = LayerGradCam(net, getattr(net, layer)).attribute(batch).detach().numpy()[:, 0]
    found = system.gradients(cases, layer)
    signs = np.where(found.outputs >= 0, 1.0, -1.0)
    ours = weighted_maps(found, signs)
    np.testing.assert_allclose(ours, theirs * signs[:, None, None], rtol=1e-4, atol=1e-7)
    heats = GradCam(layer).explain(cases, system)
    for heat, expected in zip(heats, ours, strict=True):
        np.testing.assert_allclose(heat.values, normalised(expected), atol=1e-5)


def test_opposite_networks_have_the_same_map() -> None:
    cases = [frame(str(number)) for number in range(4)]
    one, other = (GradCam().explain(cases, network(sign)) for sign in (1.0, -1.0))
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(first.values, second.values, atol=1e-5)


def test_batches_give_the_maps_of_single_cases() -> None:
    cases = [frame(str(number)) for number in range(3)]
    together = GradCam().explain(cases, network())
    for case, heat in zip(cases, together, strict=True):
        np.testing.assert_allclose(GradCam().explain([case], network())[0].values, heat.values, atol=1e-5)


def test_small_angles_can_be_explained_as_straight() -> None:
    case = frame("straight")
    system = network()
    found = system.gradients([case], "second")
    usual = weighted_maps(found, np.where(found.outputs >= 0, 1.0, -1.0))[0]
    (heat,) = GradCam("second", straight=90.0).explain([case], system)
    np.testing.assert_allclose(heat.values, normalised(-usual), atol=1e-5)


def test_gradients_leave_the_network_unchanged() -> None:
    system = network()
    net = system.engine.net  # type: ignore[attr-defined]
    before = system.fingerprint()
    GradCam().explain([frame("a")], system)
    assert all(parameter.grad is None for parameter in net.parameters())
    assert not net.first._forward_hooks
    assert network().fingerprint() == before


def test_threads_explain_one_network() -> None:
    system, cases = network(), [frame(str(number)) for number in range(4)]
    expected = [heat.values for heat in (GradCam().explain([case], system)[0] for case in cases)]
    wrong: list[int] = []

    def explain(number: int) -> None:
        for _ in range(20):
            (heat,) = GradCam().explain([cases[number]], system)
            if not np.allclose(heat.values, expected[number], atol=1e-6):
                wrong.append(number)

    threads = [threading.Thread(target=explain, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_last_convolution_is_the_default() -> None:
    case = frame("a")
    assert convolutions(network(), case) == ["first", "second"]
    assert last_convolution(DaveOrig(), case) == "conv5"
    (heat,) = GradCam().explain([case], DaveOrig())
    assert heat.values.shape == (1, 18)
    assert heat.is_coarse


def test_windows_are_explained_by_their_last_frame() -> None:
    frames = tuple(frame(str(number)).inputs["camera"] for number in range(3))
    window = Case("window", {"camera": Group(frames)}, (), group="window")
    (heat,) = GradCam("s1.conv2").explain([window], Rambo())
    assert heat.size == (96, 54)
    assert heat.window[1] == round(54 * 0.35)


def keras_network() -> object:
    import keras

    keras.utils.set_random_seed(3)
    layers = [keras.Input((54, 96, 3)), keras.layers.Conv2D(4, 5, strides=3, activation="relu", name="first")]
    layers += [keras.layers.Conv2D(6, 3, name="second"), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
    return keras.Sequential(layers)


def test_keras_networks_are_explained() -> None:
    system = Keras(net=keras_network, read=(Divide(),), say=(ANGLE,))
    cases = [frame("a"), frame("b")]
    found = system.gradients(cases, "second")
    assert found.features.shape == (2, 6, 15, 29)
    # The last layers are an average and a weight for each map, so the slopes are known.
    weights = system.engine.model.layers[-1].kernel.value.detach().numpy()[:, 0]  # type: ignore[attr-defined]
    np.testing.assert_allclose(found.slopes[0, :, 3, 4], weights / (15 * 29), rtol=1e-4)
    assert [heat.values.shape for heat in GradCam().explain(cases, system)] == [(15, 29)] * 2


@pytest.mark.parametrize(("layer", "why"), [("third", "no layer 'third'"), ("out", "must have feature maps")])
def test_wrong_layers_are_refused(layer: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        GradCam(layer).explain([frame("a")], network())


def test_black_boxes_are_refused() -> None:
    with pytest.raises(InputError, match="use 'occlusion'"):
        GradCam().explain([frame("a")], FakeSystem())


# --- maps on pictures ------------------------------------------------------------------------------------------------------


def test_maps_lie_where_the_network_looks() -> None:
    (heat,) = GradCam().explain([frame("a")], network(1.0, Crop(24, 27, 96, 54)))
    assert heat.window == pytest.approx((24.0, 27.0, 96.0, 54.0))
    shown = HeatMap(np.ones_like(heat.values), heat.window, heat.size).on_picture
    assert shown.shape == (54, 96)
    assert not shown[:27].any()
    assert not shown[:, :24].any()
    assert (shown[27:, 24:] == 1).all()


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 200))
@settings(max_examples=30, deadline=None)
def test_hottest_cell_is_hottest_on_the_picture(rows: int, columns: int, seed: int) -> None:
    values = np.zeros((rows, columns))
    place = divmod(seed % (rows * columns), columns)
    values[place] = 1.0
    shown = HeatMap(values, (0.0, 20.0, 90.0, 65.0), (90, 65)).on_picture
    y, x = np.unravel_index(int(shown.argmax()), shown.shape)
    assert not shown[:20].any()
    assert (math.floor((y + 0.5 - 20) / 45 * rows), math.floor((x + 0.5) / 90 * columns)) == place


def test_flat_maps_are_recognised() -> None:
    assert HeatMap(normalised(-np.ones((5, 5))), (0, 0, 5, 5), (5, 5)).is_flat
    assert not HeatMap(normalised(np.eye(5)), (0, 0, 5, 5), (5, 5)).is_flat


# --- occlusion -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LooksAtOneTile:
    """Steers by the brightness of one corner."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        corners = [next(iter(case.inputs.values())).pixels[-10:, -12:] for case in cases]  # type: ignore[attr-defined]
        return [(Steering(float(corner.mean()) / 4),) for corner in corners]

    def fingerprint(self) -> str:
        return "one tile"


def test_occlusion_finds_what_matters() -> None:
    pixels = np.full((60, 96, 3), 20, np.uint8)
    pixels[-10:, -12:] = 240
    (heat,) = Occlusion(rows=6, columns=8).explain([Case("a", {"camera": Image(pixels)}, (), group="a")], LooksAtOneTile())
    assert heat.values[5, 7] == 1.0
    assert heat.values.sum() == 1.0


# --- objects ---------------------------------------------------------------------------------------------------------------


def test_importance_has_the_printed_values() -> None:
    mask = np.zeros((5, 5), bool)
    mask[:2] = True
    assert importance(np.ones((5, 5)), mask, "average") == 1.0
    assert importance(np.ones((5, 5)), mask, "sum") == 10.0
    assert importance(np.ones((5, 5)), np.zeros((5, 5), bool)) == 0.0


@dataclass(frozen=True, eq=False)
class Planted:
    """An explanation that is known, and counts its cases."""

    heat: Array
    asked: list[str]

    def explain(self, cases: Sequence[Case], system: object) -> Sequence[HeatMap]:
        self.asked.extend(case.key for case in cases)
        rows, columns = self.heat.shape
        return [HeatMap(self.heat, (0, 0, columns, rows), (columns, rows)) for _ in cases]


THINGS = np.zeros((10, 10), int)
THINGS[:6], THINGS[7:9, :4], THINGS[9] = 1, 2, 3
SEEN = FrameObjects(THINGS, tuple(FrameObject(number, "car", (0, 0, 9, 9), 9) for number in (1, 2, 3)))
CASES = [frame("a", 10, 10), frame("b", 10, 10)]


def ranked(planted: Planted, by: str = "sum") -> Sequence[Ranking]:
    return SalientObjects(planted, by=by).rank(CASES, [SEEN] * 2, [rng_for("unused")] * 2, FakeSystem())


def test_objects_are_ranked_by_their_heat() -> None:
    heat = np.zeros((10, 10))
    heat[:6], heat[7:9, :4] = 0.3, 0.9
    planted = Planted(heat, [])
    assert ranked(planted) == [[1, 2, 3]] * 2
    assert ranked(planted, "average") == [[2, 1, 3]] * 2
    assert planted.asked == ["a", "b"]  # selections share what an explanation found


def test_pictures_without_heat_on_objects_have_a_reason() -> None:
    aside = np.zeros((10, 10))
    aside[6] = 1.0
    for heat, why in ((np.zeros((10, 10)), FLAT), (aside, NO_HEAT)):
        assert [str(reason) for reason in ranked(Planted(heat, []))] == [why] * 2


def test_sign_rule_follows_the_equation() -> None:
    features = np.ones((2, 1, 2, 2))
    found = Gradients(np.array([2.0, -2.0]), features, np.array([1.0, -1.0]).reshape(2, 1, 1, 1) * features, [])
    heat = weighted_maps(found, np.array([1.0, -1.0]))
    np.testing.assert_array_equal(heat, np.ones((2, 2, 2)))


# --- the command -----------------------------------------------------------------------------------------------------------

FILE = """
[source]
use = "swerve.testing:FakeSource"
width = 96
height = 54

[system]
use = "epoch"

[[rule]]
name = "brighter"
change = { use = "brighten", beta = [1, 40] }
expect = { use = "same-angle", within = 15 }
"""


def test_command_writes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.toml").write_text(FILE)
    assert main(["explain", str(tmp_path / "c.toml"), "--out", str(tmp_path / "e.png")]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()[:3]] == ["conv1", "conv2", "conv3"]
    sheet = cv2.imread(str(tmp_path / "e.png"))
    assert sheet is not None
    assert sheet.shape[1] == 3 * 480
    assert main(["explain", str(tmp_path / "c.toml"), "--by", "occlusion", "--out", str(tmp_path / "o.png")]) == 0
    assert main(["explain", str(tmp_path / "c.toml"), "--layer", "conv9", "--out", str(tmp_path / "x.png")]) == 2
    assert "no layer 'conv9'" in capsys.readouterr().err
