"""DroNet from its original files, and its small relative as ONNX, on real frames of a real drive."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from swerve.core.case import Case
from swerve.core.values import Image, Steering
from swerve.coverage.meter import Meter
from swerve.systems.decoders import SignalDecoder, SteeringDecoder
from swerve.systems.keras import Keras
from swerve.systems.network import INPUT, Network
from swerve.systems.onnx import Onnx
from swerve.systems.steps import CropTo, Divide, Grey, Resize

READ = (Grey(), Resize(width=320, height=240), CropTo(width=200, height=200, at="bottom"), Divide(255.0))
SAY = (SteeringDecoder(unit="radians", positive="left", kind="wheel"), SignalDecoder(name="collision", output=1))
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def drive(data: Path) -> list[Case]:
    folder = data / "steering" / "udacity-300"
    with (folder / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [_case(folder, row) for row in rows]


def _case(folder: Path, row: dict[str, str]) -> Case:
    pixels = cv2.cvtColor(cv2.imread(str(folder / row["file"])), cv2.COLOR_BGR2RGB)
    truth = Steering(math.degrees(float(row["steering_angle_rad"])))
    return Case(row["frame_id"], {"camera": Image(pixels)}, (truth,))


@pytest.fixture(scope="module")
def dronet(data: Path) -> Keras:
    folder = data / "steering" / "dronet"
    return Keras(structure=folder / "model_struct.json", weights=folder / "model_weights.h5", read=READ, say=SAY)


@pytest.fixture(scope="module")
def small(data: Path) -> Onnx:
    return Onnx(model=data / "steering" / "pulp-dronet" / "model_original.onnx", read=READ, say=SAY)


def squared_error(system: Network, cases: list[Case]) -> float:
    """The mean square of the error in radians."""
    said: list[Any] = [answer for start in range(0, len(cases), 50) for answer in system(cases[start : start + 50])]
    errors = [math.radians(answer[0].degrees - case.truth[0].degrees) for answer, case in zip(said, cases, strict=True)]
    return float(np.mean(np.square(errors)))


def test_dronet_steers_as_published(dronet: Keras, drive: list[Case]) -> None:
    assert len(drive) == 300
    assert squared_error(dronet, drive) == pytest.approx(0.0242, abs=0.0005)


def test_pulp_dronet_steers_as_measured(small: Onnx, drive: list[Case]) -> None:
    assert small.engine.batch == 1
    assert squared_error(small, drive) == pytest.approx(0.0284, abs=0.0005)


def test_another_crop_steers_worse(small: Onnx, drive: list[Case]) -> None:
    top = Onnx(model=small.model, read=(*READ[:2], CropTo(width=200, height=200, at="top"), READ[3]), say=SAY)
    assert squared_error(top, drive) > 0.03


def test_dronet_is_seen_inside(dronet: Keras, drive: list[Case]) -> None:
    layers = dronet.layers()
    assert layers[0] == INPUT
    traced = dronet.trace(drive[:4], layers)
    assert traced.answers == dronet(drive[:4])
    kinds = [part.kind for part in traced.layers.values()]
    assert (kinds.count("convolution"), kinds.count("dense"), kinds.count("dropout")) == (10, 2, 1)
    # Its blocks normalise and activate before they convolve: the one convolution that an activation follows says no less
    # than nothing, the last of a block, which is added to another, says both signs.
    assert traced.layers["conv2d_2"].low.min() >= 0
    assert traced.layers["conv2d_3"].low.max() < 0


def test_layers_without_an_activation_are_flagged(dronet: Keras, drive: list[Case]) -> None:
    """The last convolution of each residual block and its shortcut: all their neurons are active on every frame."""
    meter = Meter()
    gains = [gain for start in range(0, 100, 20) for gain in meter.measured(dronet, drive[start : start + 20])[1]]
    found = meter.linear_layers(dronet, drive[0], gains)
    assert len(found) == 6
    assert sum(counts["neurons"] for counts in found.values()) == 448
    assert sum(counts["always"] for counts in found.values()) == 448
    assert sum(meter.layers(dronet, drive[0]).values()) == 704
    assert sum(Meter(linear=False).layers(dronet, drive[0]).values()) == 704 - 448


def test_batch_of_one_sees_all(small: Onnx, drive: list[Case]) -> None:
    whole = small.trace(drive[:3], small.layers())
    single = [small.trace([case], small.layers()) for case in drive[:3]]
    assert whole.answers == [part.answers[0] for part in single]
    for name, found in whole.layers.items():
        np.testing.assert_array_equal(found.mean, np.concatenate([part.layers[name].mean for part in single]))


def test_shares_of_collision_stay_shares(dronet: Keras, small: Onnx, drive: list[Case]) -> None:
    for system in (dronet, small):
        assert all(0 <= answer[1].value <= 1 for answer in system(drive[:20]))
