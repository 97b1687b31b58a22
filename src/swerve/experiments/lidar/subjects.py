"""What a LiDAR experiment is run on: the zoo's pipelines on sweeps of the world, or a system and a source of one's own."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault
from swerve.core.seeding import digest_of
from swerve.core.values import Array, Boxes3D, PointCloud, Region, SceneRef, find
from swerve.experiments.setting import DATA, Setting
from swerve.experiments.subjects import Subject
from swerve.store.files import write_whole
from swerve.world.conditions import conditions
from swerve.world.lidar_source import LidarWorld
from swerve.zoo.lidar import Lidar, LidarGlobal

SWEEPS = "sweeps"
SAFE = "lidar, region first"  # the twin that outside points cannot reach (D-29)


@dataclass(frozen=True)
class Kept:
    """The sweeps of a world in a folder: each is made when it is first asked for, by whichever process that is.

    A new drive costs ten times as much as its sweep; a file costs nothing.
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
        file = self.folder / f"{digest_of(key, self.world.fingerprint())[:24]}.npz"
        if not file.exists():
            case = self.world[key]
            write_kept(file, case)
            return case
        return self._read(key, file)

    def fingerprint(self) -> str:
        return self.world.fingerprint()

    def pictured(self, key: str) -> Case:
        """The same case with the frame that the camera takes."""
        return replace(self.world, camera=True)[key]

    def _read(self, key: str, file: Path) -> Case:
        with np.load(file, allow_pickle=False) as kept:
            rings = np.split(kept["rings"], np.cumsum(kept["lengths"])[:-1]) if len(kept["lengths"]) else []
            truth = Boxes3D(kept["boxes"], tuple(kept["kinds"].tolist()), kept["scores"], kept["care"])
            inputs = {"lidar": PointCloud(kept["xyzi"]), "region": Region(tuple(rings))}
        return Case(key, inputs, (truth, SceneRef(key, conditions("clear").numbers())), group=self.group(key))


def write_kept(file: Path, case: Case) -> None:
    """Write a sweep with its region and its boxes, whole or not at all."""
    cloud, region, truth = case.inputs["lidar"], case.inputs["region"], find(case.truth, Boxes3D.slot)
    assert isinstance(cloud, PointCloud)
    assert isinstance(region, Region)
    assert isinstance(truth, Boxes3D)
    parts: dict[str, Array] = {
        "xyzi": cloud.xyzi,
        "rings": np.concatenate([np.zeros((0, 2)), *region.polygons]),
        "lengths": np.array([len(ring) for ring in region.polygons], np.int64),
        "boxes": truth.xyzlwhy,
        "kinds": np.array(truth.kinds, dtype=np.str_),
        "scores": np.asarray(truth.scores),
        "care": np.asarray(truth.care),
    }
    made = io.BytesIO()
    np.savez(made, allow_pickle=False, **parts)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"{file.parent}: cannot keep sweeps: {error.strerror}") from error
    write_whole(file, made.getvalue())


def kept(setting: Setting, frames: int, split: str = "test") -> Kept:
    """`frames` sweeps, each of a scene of its own, kept in the experiment's folder."""
    world = LidarWorld(drives=frames, split=split, seed=setting.seed)
    return Kept(world, setting.into.absolute() / DATA / SWEEPS)


def zoo(setting: Setting, frames: int) -> list[Subject]:
    """The zoo's two pipelines, and the safe twin of the first, all on the same sweeps."""
    source = kept(setting, frames)
    systems = {"lidar": Lidar(), "lidar-global": LidarGlobal(), SAFE: Lidar(roi_first=True)}
    return [Subject(name, system, source) for name, system in systems.items()]
