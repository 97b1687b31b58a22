"""A torch detector of a campaign is fine-tuned: a copy learns, equal seeds give equal weights, the verb writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Boxes2D, find
from swerve.retrain.tuned_detector import TunedDetector, finetune_detector, torch_detector_of
from swerve.sources.export import export
from swerve.systems.detections import SeparateOutputs
from swerve.systems.steps import Divide
from swerve.systems.torch import Torch
from swerve.train.detectors import FURTHER
from swerve.train.labelled_pictures import CropRecipe
from swerve.zoo.lights.light_detectors import LightsYolox, light_net
from swerve.zoo.lights.light_frames import KINDS
from swerve.zoo.steering import DaveOrig
from tests.fixture_lights import light_case
from tests.unit.test_retrain_cli import retrain, table

RECIPE = replace(FURTHER, passes=2, batch=2, crops=CropRecipe(side=96, mosaic=0.0))


@dataclass(frozen=True)
class Streets:
    """Small pictures with two drawn lights each."""

    count: int = 4

    def keys(self) -> Sequence[str]:
        return [str(number) for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        shift = 7 * int(key)
        lights = [((20 + shift, 20, 44 + shift, 88), "red"), ((100 + shift, 30, 124 + shift, 98), "green")]
        return light_case(lights, size=(192, 128), key=key)

    def fingerprint(self) -> str:
        return f"streets {self.count}"


def tuned() -> TunedDetector:
    return finetune_detector(LightsYolox(), Streets(), Streets(2), recipe=RECIPE, seed=3)


def test_a_copy_is_trained_and_answers() -> None:
    system = LightsYolox()
    before = [part.clone() for part in system.system.engine.net.parameters()]  # type: ignore[attr-defined]
    first, again = finetune_detector(system, Streets(), Streets(2), recipe=RECIPE, seed=3), tuned()
    now = list(system.system.engine.net.parameters())  # type: ignore[attr-defined]
    assert all(torch.equal(one, other) for one, other in zip(before, now, strict=True))
    assert len(first.precisions) == 3
    assert first.precisions[first.fitted.best] == max(first.precisions)
    pairs = zip(first.net.state_dict().values(), again.net.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    (answer,) = first.system([Streets()["1"]])
    assert isinstance(find(answer, Boxes2D.slot), Boxes2D)
    assert ("was kept" if first.fitted.best else "unchanged") in first.describe()


def test_only_detectors_are_trained_as_such() -> None:
    assert torch_detector_of(LightsYolox()) is LightsYolox().system or isinstance(torch_detector_of(LightsYolox()), Torch)
    assert torch_detector_of(DaveOrig()) is None
    with pytest.raises(InputError, match="DaveOrig is not a torch detector"):
        finetune_detector(DaveOrig(), Streets(), Streets())


@pytest.mark.parametrize(
    ("read", "first"), [((Divide(1.0),), 1), ((Divide(), Divide()), 1), ((Divide(),), 0)], ids=["bytes", "twice", "from 0"]
)
def test_another_reading_is_refused(read: tuple[Divide, ...], first: int) -> None:
    net = Torch(
        net=light_net,
        arguments={"name": "lights-yolox"},
        weights=LightsYolox().system.weights,
        read=read,
        say=(SeparateOutputs(kinds=KINDS, first=first),),
        batched=False,
    )
    with pytest.raises(InputError, match="numbers its kinds from 1"):
        finetune_detector(net, Streets(), Streets())


def test_a_strange_kind_is_named() -> None:
    class Strange(Streets):
        def __getitem__(self, key: str) -> Case:
            label = Boxes2D(np.array([[20.0, 20, 44, 88]]), ("blue",))
            return replace(super().__getitem__(key), truth=(label,))

    with pytest.raises(InputError, match="'blue' is not one of the detector's kinds"):
        finetune_detector(LightsYolox(), Strange(), Streets(), recipe=RECIPE)


FILE = """
[source]
use = "coco"
folder = "data"
labels = "annotations/instances_train.json"
images = "train"
[system]
use = "lights-yolox"
score = 0.0
[[rule]]
name = "fog"
change = { use = "fog", visibility = [100, 200] }
expect = { use = "right-boxes" }
"""


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A campaign file of a detector and pictures in COCO's format."""
    streets = Streets(9)
    export({"train": (streets[key] for key in streets.keys())}, tmp_path / "data", "coco")
    (tmp_path / "lights.toml").write_text(FILE)
    return tmp_path / "lights.toml"


SPLIT = ("--mix", 0, "--test", 0.34, "--val", 0.34, "--split", "random")


def test_the_verb_retrains_a_detector(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    into = campaign.parent / "out"
    assert retrain(campaign, "--into", into, *SPLIT, "--epochs", 1) == 0
    assert "validation" in capsys.readouterr().out
    rows = {(row["data"], row["measure"]): row for row in table(into / "tables" / "retrain.csv")}
    assert ("synthetic, fog", "mAP") in rows
    assert rows["original", "mAP"]["low"] != ""
    assert LightsYolox(into / "weights.safetensors")([Streets()["0"]])


def test_the_verb_has_no_guard_for_detectors(campaign: Path) -> None:
    with pytest.raises(InputError, match="--worse limits the error of steering networks"):
        retrain(campaign, "--into", campaign.parent / "out", *SPLIT, "--worse", 0.1)
