"""Sweeps of the embedded world with regions and labels, each rendered into a cache when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from swerve.core.case import Case
from swerve.core.values import Array, Boxes3D, PointCloud, Region, SceneRef, find
from swerve.train.rendered import Arrays
from swerve.train.rendered_cases import CachedCases
from swerve.world.conditions import conditions
from swerve.world.lidar_source import LidarWorld


@dataclass(frozen=True)
class CachedSweeps(CachedCases):
    """The sweeps of a world, each rendered into the cache when it is first asked for.

    Rendering a new drive takes ten times as long as its sweep; reading a file takes next to nothing.
    """

    world: LidarWorld
    folder: Path
    kind: ClassVar[str] = "sweeps with regions"
    stored: ClassVar[tuple[str, ...]] = ("xyzi", "rings", "lengths", "boxes", "kinds", "scores", "care")

    def pictured(self, key: str) -> Case:
        """The same case with the camera image."""
        return replace(self.world, camera=True)[key]

    def case(self, key: str, stored: Mapping[str, Array]) -> Case:
        """The sweep that was stored, with its region and its boxes."""
        rings, lengths = stored["rings"], stored["lengths"]
        polygons = np.split(rings, np.cumsum(lengths)[:-1]) if len(lengths) else []
        truth = Boxes3D(stored["boxes"], tuple(stored["kinds"].tolist()), stored["scores"], stored["care"])
        inputs = {"lidar": PointCloud(stored["xyzi"]), "region": Region(tuple(polygons))}
        return Case(key, inputs, (truth, SceneRef(key, conditions("clear").numbers())), group=self.group(key))

    def arrays(self, case: Case) -> Arrays:
        """A sweep with its region and its boxes."""
        cloud, region, truth = case.inputs["lidar"], case.inputs["region"], find(case.truth, Boxes3D.slot)
        assert isinstance(cloud, PointCloud)
        assert isinstance(region, Region)
        assert isinstance(truth, Boxes3D)
        arrays = (
            cloud.xyzi,
            np.concatenate([np.zeros((0, 2)), *region.polygons]),
            np.array([len(ring) for ring in region.polygons], np.int64),
            truth.xyzlwhy,
            np.array(truth.kinds, dtype=np.str_),
            np.asarray(truth.scores),
            np.asarray(truth.care),
        )
        return dict(zip(self.stored, arrays, strict=True))
