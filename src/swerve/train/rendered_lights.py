"""Pictures of junctions with traffic lights, each rendered into a cache when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from swerve.core.case import Case
from swerve.core.values import Array, Boxes2D, Image, SceneRef, find
from swerve.train.rendered import Arrays
from swerve.train.rendered_cases import CachedCases
from swerve.world.light_source import LightWorld


@dataclass(frozen=True)
class CachedLights(CachedCases):
    """The pictures of a world with their 2-D boxes, each rendered into the cache when it is first asked for."""

    world: LightWorld
    folder: Path
    kind: ClassVar[str] = "lights with boxes"
    stored: ClassVar[tuple[str, ...]] = ("pixels", "boxes", "kinds", "care", "hidden")

    def case(self, key: str, stored: Mapping[str, Array]) -> Case:
        """The picture that was stored, with its boxes and its conditions."""
        pixels, kinds = stored["pixels"], tuple(stored["kinds"].tolist())
        size = (pixels.shape[1], pixels.shape[0])
        truth = Boxes2D(stored["boxes"], kinds, size=size, care=stored["care"], hidden=stored["hidden"])
        scene = SceneRef(key, self.world.weather(key).numbers())
        return Case(key, {"camera": Image(pixels)}, (truth, scene), group=self.group(key))

    def arrays(self, case: Case) -> Arrays:
        """A picture and its boxes."""
        image, truth = case.inputs["camera"], find(case.truth, Boxes2D.slot)
        assert isinstance(image, Image)
        assert isinstance(truth, Boxes2D)
        hidden = np.zeros(len(truth.kinds)) if truth.hidden is None else np.asarray(truth.hidden)
        arrays = (image.pixels, truth.xyxy, np.array(truth.kinds, dtype=np.str_), np.asarray(truth.care), hidden)
        return dict(zip(self.stored, arrays, strict=True))
