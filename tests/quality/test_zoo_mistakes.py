"""Deliberate mistakes with a network of the zoo on frames of the world: each is named, or has little effect.

Wrong steps are named if they leave more than 40% of the error of always 0°, and right ones at most 60% of that.
"""

from __future__ import annotations

import copy
import csv
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import swerve.zoo.steering
from swerve.analysis.baseline import angles
from swerve.config.toml import Builder
from swerve.core.values import Image, Steering
from swerve.execution.checks.own_error import GOOD, HELPS, own_error, rmse
from swerve.execution.checks.steering_sign import unit_and_sign
from swerve.execution.checks.untouched import skipped
from swerve.execution.evaluator import observe_batch
from swerve.world.source import World

WORLD = World(drives=12, frames=41, width=320, height=180)
CROP = {"use": "crop", "left": 0, "top": 68, "right": 320, "bottom": 180}
SIZE = {"use": "resize", "width": 200, "height": 66, "by": "area"}
CENTRED = {"use": "normalise", "mean": [127.5], "std": [127.5]}
IMAGENET = {"use": "normalise", "mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}
ANSWERS = "the answers ([system])"
CAMPAIGN: dict[str, Any] = {
    "source": {"use": "udacity", "table": "labels.csv", "file": "file", "angle": "degrees"}
    | {"unit": "degrees", "positive": "left", "kind": "wheel"},
    "system": {
        "use": "torch",
        "net": "swerve.zoo.networks:DaveOrigNet",
        "weights": str(swerve.zoo.steering.PACKAGED / "dave-orig.safetensors"),
        "read": [CROP, SIZE, CENTRED],
        "say": [{"use": "steering", "unit": swerve.zoo.steering.DEGREES, "positive": "left", "kind": "wheel"}],
    },
    "rule": [{"name": "lighter", "change": {"use": "brighten", "beta": 20}, "expect": {"use": "same-angle", "within": 5}}],
}
RIGHT = "numbers from -1 to 1 in 'read'"
NEARLY = "standard deviation of ImageNet in 'read'"  # on few frames the network may do as well with it as with its own scale
# What is changed in `read`, and what must be told if the error grows enough.
STEPS: dict[str, tuple[list[Any], str]] = {
    "bytes": ([CROP, SIZE, "float"], RIGHT),
    "÷255": ([CROP, SIZE, {"use": "divide", "by": 255.0}], RIGHT),
    "BGR": (["bgr", CROP, SIZE, CENTRED], "without bgr"),
    "mean and std": ([CROP, SIZE, IMAGENET], RIGHT),
    "letterbox": ([CROP, {"use": "letterbox", "width": 200, "height": 66}, CENTRED], "with resize"),
}
# What is changed elsewhere in the campaign's file, and what must be told.
MEANING: dict[str, tuple[dict[str, Any], str]] = {
    "sign of the answers": ({"say": {"positive": "right"}}, "had the other sign"),
    "sign of the labels": ({"source": {"positive": "right"}}, "had the other sign"),
    "unit of the answers": ({"say": {"unit": "degrees"}}, f"if {ANSWERS} were radians ('unit') and not degrees"),
    "a unit of 100° for one of 40°": ({"say": {"unit": 100.0}}, "check 'unit', 'kind' and 'ratio'"),
    "unit of the labels": ({"source": {"unit": "radians"}}, "is the unit degrees?"),
    "road wheels": ({"say": {"kind": "road", "ratio": 15.0}}, "check 'unit', 'kind' and 'ratio'"),
    "labels of road wheels": ({"source": {"kind": "road", "ratio": 15.0}}, "check 'unit', 'kind' and 'ratio'"),
}


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Frames of the world a second apart, with their angles in a table."""
    folder, rows = tmp_path_factory.mktemp("drive"), [("file", "degrees")]
    for number, key in enumerate(key for key in WORLD.keys() if key.endswith(("#0", "#20", "#40"))):
        case = WORLD[key]
        camera, label = case.inputs["camera"], case.truth[0]
        assert isinstance(camera, Image)
        assert isinstance(label, Steering)
        cv2.imwrite(str(folder / f"{number}.png"), cv2.cvtColor(camera.pixels, cv2.COLOR_RGB2BGR))
        rows.append((f"{number}.png", str(label.degrees)))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder


def told(folder: Path, changed: dict[str, Any]) -> tuple[float, float, list[str]]:
    """The error, that of always 0°, and the concerns about the unchanged cases."""
    table = copy.deepcopy(CAMPAIGN)
    table["source"] |= {"folder": str(folder), **changed.get("source", {})}
    table["system"]["say"][0] |= changed.get("say", {})
    table["system"]["read"] = changed.get("read", table["system"]["read"])
    campaign = Builder("mistakes", folder).campaign(table)
    keys = campaign.source.keys()
    seen = [one for start in range(0, len(keys), 16) for one in observe_batch(campaign, keys[start : start + 16])]
    usable = [one for one in seen if not one.fault]
    found = [*skipped(seen), *(list(unit_and_sign(campaign.source, usable)) or own_error(campaign, usable))]
    labels, answers = (np.array(numbers) for numbers in angles(usable))
    return rmse(labels, answers), rmse(labels, 0 * labels), [concern.why for concern in found]


@pytest.mark.usefixtures("one_thread")
def test_the_right_file_has_no_concern(drive: Path) -> None:
    assert told(drive, {})[2] == []


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("mistake", STEPS)
def test_wrong_steps_are_named_if_they_matter(drive: Path, mistake: str) -> None:
    read, hint = STEPS[mistake]
    error, zero, concerns = told(drive, {"read": read})
    if error > max(GOOD * zero, told(drive, {})[0] / HELPS):
        hints = (RIGHT, NEARLY) if hint == RIGHT else (hint,)
        assert any(one in why for why in concerns for one in hints), (error, concerns)
    else:
        assert concerns == []


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("mistake", MEANING)
def test_wrong_units_signs_and_wheels_are_named(drive: Path, mistake: str) -> None:
    changed, hint = MEANING[mistake]
    concerns = told(drive, changed)[2]
    assert any(hint in why for why in concerns), concerns
