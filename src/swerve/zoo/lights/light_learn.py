"""The recipes of the light detectors, and their training by the loop that trains any detector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from swerve.core.seeding import rng_for
from swerve.execution.engine import Progress
from swerve.systems.weights import load
from swerve.train.detectors import DetectorRecipe, fit_detector
from swerve.train.labelled_pictures import CropRecipe, Crops
from swerve.train.loop import Checkpoint, Fitted
from swerve.zoo.lights.light_detectors import light_net, packaged, untrained_net
from swerve.zoo.lights.light_frames import KINDS, LightParts, StoredLights, stored_lights
from swerve.zoo.lights.light_network import LightNet, padded
from swerve.zoo.lights.light_start import begin_with
from swerve.zoo.networks import folded

FIRST_LOOK = 16  # samples on which a pyramid that was taken over is normalised


@dataclass(frozen=True)
class LightRecipe:
    """How a light detector is trained, and the detector whose pyramid it begins with; none if empty."""

    loop: DetectorRecipe
    start: str = ""

    def numbers(self) -> dict[str, Any]:
        """The recipe as one table."""
        numbers = asdict(self.loop)
        crops: dict[str, Any] = numbers.pop("crops")
        return numbers | crops | {"start": self.start or "new weights"}


ALONE = DetectorRecipe(passes=8, repeats=4, batch=12, bfloat16=True, crops=CropRecipe(side=256, mosaic=0.25))
AFTER = replace(ALONE, passes=4)  # half as many, as the pyramid is trained; two were too few for YOLOv5
RECIPES: Mapping[str, LightRecipe] = MappingProxyType(
    {
        "lights-yolox": LightRecipe(ALONE),
        **{name: LightRecipe(AFTER, "lights-yolox") for name in ("lights-yolov5", "lights-ssd", "lights-rcnn")},
    }
)


@dataclass(frozen=True, eq=False)
class LightSets:
    """The training and validation frames, and the parts they are of; test frames are read when the file is scored."""

    train: StoredLights
    val: StoredLights
    parts: LightParts
    folder: Path  # of the cache
    workers: int = 2

    @classmethod
    def under(cls, folder: Path, parts: LightParts, *, workers: int = 2, progress: Progress | None = None) -> LightSets:
        """The frames in the cache under `folder`, rendered where they are missing."""
        train, val = (stored_lights(part, folder, workers=workers, progress=progress) for part in (parts.train, parts.val))
        return cls(train, val, parts, folder, workers)


def learn_lights(
    name: str,
    sets: LightSets,
    *,
    recipe: LightRecipe,
    seed: int = 7,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[LightNet, Fitted]:
    """A trained light detector of the zoo: the same seed on one thread gives the same weights."""
    net = initial(name, sets, recipe, seed)
    fitted = fit_detector(
        net,
        sets.train.frames,
        sets.val.frames,
        kinds=KINDS,
        recipe=recipe.loop,
        rng=rng_for(seed, "zoo", name),
        seed=seed,
        progress=progress,
        checkpoint=checkpoint,
    )
    return folded(net), fitted


def initial(name: str, sets: LightSets, recipe: LightRecipe, seed: int) -> LightNet:
    """The network before training, torch's own generator left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = untrained_net(name)
    if recipe.start:
        start = load(lambda: light_net(recipe.start), packaged(recipe.start))
        assert isinstance(start, LightNet)
        crops = Crops(sets.train.frames, rng_for(seed, "zoo", name, "first look"), recipe.loop.crops)
        images, _ = crops.batch(np.arange(min(FIRST_LOOK, len(sets.train.frames))))
        begin_with(net.pyramid, start.pyramid, padded(torch.stack(images)))
    return net
