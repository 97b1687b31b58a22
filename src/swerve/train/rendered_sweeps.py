"""Sweeps of the embedded world with regions and labels, each rendered into a cache when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from swerve.core.case import Case
from swerve.core.values import Boxes3D, PointCloud, Region, SceneRef, find
from swerve.train.rendered import Arrays, RenderedCache
from swerve.world.conditions import conditions
from swerve.world.lidar_source import LidarWorld

NAMES = ("xyzi", "rings", "lengths", "boxes", "kinds", "scores", "care")  # of the arrays of a sweep


@dataclass(frozen=True)
class CachedSweeps:
    """The sweeps of a world, each rendered into the cache when it is first asked for.

    Rendering a new drive takes ten times as long as its sweep; reading a file takes next to nothing.
    """

    world: LidarWorld
    folder: Path

    def keys(self) -> Sequence[str]:
        return self.world.keys()

    def group(self, key: str) -> str:
        """The scene of a sweep."""
        return self.world.group(key)

    def __getitem__(self, key: str) -> Case:
        if key not in self.keys():
            raise KeyError(key)
        entry = key.replace("/", "-")
        if not self.cache.file(entry).exists():
            self.cache.state_key()
            self.cache.render(partial(_arrays, self.world, key), entry)
        return self._read(key, entry)

    @cached_property
    def cache(self) -> RenderedCache:
        """The files of this world."""
        return RenderedCache(self.folder, "regions", {"kind": "sweeps with regions", "world": self.world.fingerprint()})

    def fingerprint(self) -> str:
        return self.world.fingerprint()

    def pictured(self, key: str) -> Case:
        """The same case with the camera image."""
        return replace(self.world, camera=True)[key]

    def _read(self, key: str, entry: str) -> Case:
        xyzi, rings, lengths, boxes, kinds, scores, care = self.cache.load(entry, NAMES)
        polygons = np.split(rings, np.cumsum(lengths)[:-1]) if len(lengths) else []
        truth = Boxes3D(boxes, tuple(kinds.tolist()), scores, care)
        inputs = {"lidar": PointCloud(xyzi), "region": Region(tuple(polygons))}
        return Case(key, inputs, (truth, SceneRef(key, conditions("clear").numbers())), group=self.group(key))


def _arrays(world: LidarWorld, key: str, entry: str) -> Arrays:
    """A sweep with its region and its boxes."""
    del entry
    case = world[key]
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
    return dict(zip(NAMES, arrays, strict=True))
