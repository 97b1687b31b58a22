"""The four light detectors as systems: how they read a case, their weights, and the boxes that they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from swerve.core.arguments import check_known, check_number
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.system import Answer, Traced
from swerve.core.values import Array
from swerve.systems.detections import SeparateOutputs
from swerve.systems.steps import Divide
from swerve.systems.torch import Torch
from swerve.train.labelled_pictures import FIRST
from swerve.zoo.lights.light_frames import KINDS
from swerve.zoo.lights.light_network import LightNet
from swerve.zoo.lights.rcnn import RcnnNet
from swerve.zoo.lights.ssd import SsdNet
from swerve.zoo.lights.yolov5 import YoloV5Net
from swerve.zoo.lights.yolox import YoloxNet
from swerve.zoo.networks import folded
from swerve.zoo.steering import PACKAGED


@dataclass(frozen=True)
class LightDetector:
    """A detector of traffic lights: boxes of heads with their state as kind, red, yellow, green or off.

    Boxes with a score of at most `score` are not reported; for an average precision set it to 0. By default it is that of
    the best F1 on validation frames. Pictures of any size are read as they are, one by one, so that no answer depends on the
    batch.
    """

    weights: Path | None = None
    score: float | None = None
    name: ClassVar[str]
    net: ClassVar[type[LightNet]]
    usual: ClassVar[float]  # the usual `score`, as the card has it

    def __post_init__(self) -> None:
        if self.score is not None:
            check_number("score", self.score, 0, 1, error=InputError)
        _ = self.system  # refuses a bad file now rather than in the middle of a campaign

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        return self.system(cases)

    def sees(self, case: Case) -> Array:
        """The network's input for a case."""
        return self.system.sees(case)

    def layers(self) -> Sequence[str]:
        return self.system.layers()

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        return self.system.trace(cases, layers)

    def fingerprint(self) -> str:
        return self.system.fingerprint()

    @cached_property
    def system(self) -> Torch:
        """The network between its preprocessing and its decoder, its weights read once."""
        return Torch(
            net=light_net,
            arguments={"name": self.name},
            weights=self.weights or packaged(self.name),
            read=(Divide(),),
            say=(SeparateOutputs(kinds=KINDS, first=FIRST, score=self.usual if self.score is None else self.score),),
            device="cpu",
            batched=False,
        )


@dataclass(frozen=True)
class LightsYolox(LightDetector):
    """A detector of traffic lights after YOLOX: no anchors, separate branches for state and box, SimOTA."""

    name, net, usual = "lights-yolox", YoloxNet, 0.7


@dataclass(frozen=True)
class LightsYolov5(LightDetector):
    """A detector of traffic lights after YOLOv5: anchors, objectness and states."""

    name, net, usual = "lights-yolov5", YoloV5Net, 0.65


@dataclass(frozen=True)
class LightsSsd(LightDetector):
    """A detector of traffic lights after SSD: default boxes, trained on hard negatives."""

    name, net, usual = "lights-ssd", SsdNet, 0.75


@dataclass(frozen=True)
class LightsRcnn(LightDetector):
    """A detector of traffic lights after Faster R-CNN: proposed regions, each classified and corrected."""

    name, net, usual = "lights-rcnn", RcnnNet, 0.9


LIGHTS: Mapping[str, type[LightDetector]] = MappingProxyType(
    {kind.name: kind for kind in (LightsYolox, LightsYolov5, LightsSsd, LightsRcnn)}
)


def lights_named(name: str) -> type[LightDetector]:
    """The light detector called `name`; raises `InputError` for any other name."""
    check_known("light detector", name, LIGHTS)
    return LIGHTS[name]


def untrained_net(name: str) -> LightNet:
    """A network with new weights, drawn from torch's generator."""
    return lights_named(name).net(len(KINDS))


def light_net(name: str) -> LightNet:
    """The same with normalisation folded into its convolutions, as weights are stored."""
    return folded(untrained_net(name))


def packaged(name: str) -> Path:
    """The packaged weights; raises `InputError` for a detector that has none yet."""
    file = PACKAGED / f"{name}.safetensors"
    if not file.exists():
        raise InputError(
            f"{name} is not trained yet, so there are no packaged weights: run `swerve zoo train {name}` and give the file "
            "that it writes as 'weights'"
        )
    return file
