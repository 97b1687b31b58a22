"""Deliberate mistakes in campaigns of real models: each is caught with the right hint or has no effect; right files pass."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from swerve.analysis.baseline import baseline_error
from swerve.config.toml import Builder, read_toml
from swerve.execution.checks.concern import Level
from swerve.execution.checks.own_error import own_error
from swerve.execution.checks.steering_sign import unit_and_sign
from swerve.execution.evaluator import observe_batch
from swerve.sources.subset import Subset

EXAMPLES = Path(__file__).parents[2] / "examples"
FRAMES = {"dronet": 60, "pulp-dronet": 60, "yolox-nano": 20}
pytestmark = pytest.mark.usefixtures("one_thread", "data")

GREY, SIZE, CROP = (
    "grey",
    {"use": "resize", "width": 320, "height": 240},
    {"use": "crop-to", "width": 200, "height": 200, "at": "bottom"},
)
BOXED = {"use": "letterbox", "width": 416, "height": 416, "pad": 114, "at": "top-left"}
IMAGENET = {"use": "normalise", "mean": [103.53, 116.28, 123.675], "std": [57.375, 57.12, 58.395]}
SHIFTED = [f"kind {number}" for number in range(79)] + ["traffic light"]
MEANS = {"use": "normalise", "mean": [0.485], "std": [0.229]}
CENTRED = {"use": "normalise", "mean": [127.5], "std": [127.5]}
ANSWERS, LABELS = "the answers ([system])", "the labels ([source])"
# What is changed in the campaign's file, and what must be told; None where the mistake has no effect on the error.
STEERING: dict[str, tuple[dict[str, Any], str | None]] = {
    "correct": ({}, None),
    "BGR": ({"read": ["bgr", GREY, SIZE, CROP, {"use": "divide", "by": 255.0}]}, None),  # grey knows it
    "no ÷255": ({"read": [GREY, SIZE, CROP, "float"]}, "divided by 255 in 'read'"),
    "-1 to 1": ({"read": [GREY, SIZE, CROP, CENTRED]}, "divided by 255 in 'read'"),
    "mean and std": ({"read": [GREY, SIZE, CROP, {"use": "divide", "by": 255.0}, MEANS]}, "divided by 255 in 'read'"),
    "letterbox": ({"read": [GREY, {**SIZE, "use": "letterbox"}, CROP, {"use": "divide", "by": 255.0}]}, None),
    "sign of the answers": ({"say": {"positive": "right"}}, "had the other sign"),
    "sign of the labels": ({"source": {"positive": "right"}}, "had the other sign"),
    "unit of the answers": ({"say": {"unit": "degrees"}}, f"if {ANSWERS} were radians ('unit') and not degrees"),
    "unit of the labels": ({"source": {"unit": "degrees"}}, f"if {LABELS} were radians ('unit') and not degrees"),
    "both units": ({"source": {"unit": "degrees"}, "say": {"unit": "degrees"}}, "if these are radians, say so ('unit')"),
    "road wheels": ({"say": {"kind": "road", "ratio": 15.0}}, "check 'unit', 'kind' and 'ratio'"),
}
DETECTION: dict[str, tuple[dict[str, Any], str | None]] = {
    "correct": ({}, None),
    "÷255": (
        {"read": ["bgr", BOXED, {"use": "divide", "by": 255.0}]},
        "without divide in 'read', that is with numbers from 0 to 255",
    ),
    "RGB": ({"read": [BOXED, "float"]}, None),
    "mean and std": ({"read": ["bgr", BOXED, IMAGENET]}, "without normalise in 'read'"),
    "letterbox in the centre": ({"read": ["bgr", {**BOXED, "at": "centre"}, "float"]}, None),
    "plain size": ({"read": ["bgr", {"use": "resize", "width": 416, "height": 416}, "float"]}, None),
    "another kind": ({"say": {"only": ["car"]}}, "check the decoder, its kinds"),
    "kinds in another order": ({"say": {"kinds": SHIFTED}}, "check the decoder, its kinds"),
}


LOSSES = {"RGB": 0.25}  # a share of mAP that a mistake may cost and is not named: this one costs about a sixth; others 0.15


@cache
def table_of(example: str) -> dict[str, Any]:
    return read_toml(EXAMPLES / f"{example}.toml")


def told(example: str, changed: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[Level, str]]]:
    """The error on some frames, and the concerns about it."""
    table = copy.deepcopy(table_of(example))
    table["source"] |= changed.get("source", {})
    table["system"]["say"][0] |= changed.get("say", {})
    table["system"]["read"] = changed.get("read", table["system"]["read"])
    campaign = Builder(example, EXAMPLES).campaign(table)
    keys = Subset(campaign.source, FRAMES[example]).keys()
    seen = [one for start in range(0, len(keys), 16) for one in observe_batch(campaign, keys[start : start + 16])]
    concerns = list(unit_and_sign(campaign.source, seen)) or list(own_error(campaign, seen))
    return baseline_error(campaign.source, seen), [(concern.level, concern.why) for concern in concerns]


@pytest.mark.parametrize("mistake", STEERING)
@pytest.mark.parametrize("example", ["dronet", "pulp-dronet"])
def test_mistakes_with_steering_networks(example: str, mistake: str) -> None:
    changed, hint = STEERING[mistake]
    error, concerns = told(example, changed)
    if hint is None:  # the correct file, or no effect
        assert concerns == []
        assert error["rmse_degrees"] == pytest.approx(told(example, {})[0]["rmse_degrees"], rel=0.01)
    else:
        ((level, why),) = concerns
        assert level in (Level.REFUSAL, Level.WARNING)
        assert hint in why


@pytest.mark.parametrize("mistake", DETECTION)
def test_mistakes_with_a_detector(mistake: str) -> None:
    changed, hint = DETECTION[mistake]
    error, concerns = told("yolox-nano", changed)
    if hint is None:
        assert concerns == []
        assert error["map_50"] == pytest.approx(told("yolox-nano", {})[0]["map_50"], rel=LOSSES.get(mistake, 0.15))
    else:
        ((level, why),) = concerns
        assert level is Level.REFUSAL
        assert hint in why
