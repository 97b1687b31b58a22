"""TigAug's example on photographs: the campaign of `examples/tigaug.toml`, and a zoo detector that learns from some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swerve.analysis.detection import average_precision
from swerve.analysis.precision_limits import precision_drops
from swerve.api import run
from swerve.config.toml import load_campaign
from swerve.core.campaign import Campaign
from swerve.core.seeding import rng_for
from swerve.core.values import Boxes2D, find
from swerve.sources.coco import Coco
from swerve.sources.subset import Subset
from swerve.store.view import Run
from swerve.systems.weights import load
from swerve.train.detectors import DetectorRecipe, detected, fit_detector
from swerve.train.labelled_pictures import CropRecipe, pictures_of
from swerve.transformations.flare import LensFlare
from swerve.transformations.light_changes import NAMES, twelve
from swerve.zoo.lights.light_detectors import light_net, packaged
from swerve.zoo.lights.light_frames import KINDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "tigaug.toml"
LIMITED = ("weather, fog", "traffic lights, colour")


@pytest.fixture(scope="module")
def frames(data: Path) -> Coco:
    return Coco(data / "lights" / "china-300")


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two changes of the example on twelve frames, with a limit on mAP."""
    file = tmp_path_factory.mktemp("example") / "tigaug.toml"
    file.write_text(EXAMPLE.read_text().replace("../../shared/data", str(data)).replace("count = 60", "count = 12"))
    whole = load_campaign(str(file)).campaign
    assert len(whole.rules) == 2 * len(NAMES)
    limited = tuple(replace(rule, fail_if=("map_drop > 10%",)) for rule in whole.rules if rule.name in LIMITED)
    campaign: Campaign = replace(whole, rules=limited)
    run(campaign, into=file.parent / "run", report=False)
    return Run(file.parent / "run")


def test_the_example_is_judged(finished: Run) -> None:
    rows = list(finished.trials())
    assert {row["rule"] for row in rows} == set(LIMITED)
    assert not [row["why"] for row in rows if row["status"] == "error"]
    judged = [row for row in rows if row["status"] in ("held", "violated")]
    assert len(judged) >= 8
    drops = precision_drops(finished)
    assert set(drops) == set(LIMITED)
    for drop in drops.values():
        assert drop.before.value is not None
        assert drop.after.value is not None
        assert drop.drop.low is not None


def test_every_change_keeps_the_lights_of_photographs(frames: Coco) -> None:
    """The label of a follow-up has as many lights as the picture, and more where some were added; pixels change."""
    case = frames["00008.jpg"]
    label = find(case.truth, Boxes2D.slot)
    assert isinstance(label, Boxes2D)
    for name, space in twelve().items():
        change = space.propose(case, rng_for("real", name), lambda cases: [])  # type: ignore[arg-type]
        if isinstance(change, LensFlare) and change.applies(case):  # by night there is no sun
            continue
        followup = change(case)
        mapped = find(followup.truth, Boxes2D.slot)
        assert isinstance(mapped, Boxes2D)
        assert len(mapped.kinds) > len(label.kinds) if name == "add" else len(mapped.kinds) == len(label.kinds), name
        before, after = (one.inputs["camera"].pixels for one in (case, followup))  # type: ignore[attr-defined]
        assert not np.array_equal(before, after), name


def test_a_zoo_detector_learns_from_photographs(frames: Coco) -> None:
    """A few passes over 24 frames raise mAP on these frames; `bench/light_photographs.py` measures it on others."""
    some = Subset(frames, 24)
    pictures = pictures_of((some[key] for key in some.keys()), KINDS)
    net = load(lambda: light_net("lights-yolox"), packaged("lights-yolox"))
    recipe = DetectorRecipe(
        passes=6,
        repeats=1,
        batch=12,
        rate=1e-3,
        average=0.9,
        patience=6,
        bfloat16=True,
        crops=CropRecipe(side=256, mosaic=0.0),
    )
    truth = [picture.truth(KINDS) for picture in pictures[:6]]

    def precision() -> float:
        return average_precision(truth, [detected(net, picture.pixels, KINDS) for picture in pictures[:6]]).mean or 0.0

    before = precision()
    fit_detector(net, pictures, pictures[:6], kinds=KINDS, recipe=recipe, rng=rng_for("real"), initial=True)
    assert precision() > before
