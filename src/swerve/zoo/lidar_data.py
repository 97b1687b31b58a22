"""Training sweeps of the LiDAR networks: rendered once from the embedded world and read from the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.values import Array, Boxes3D, PointCloud, find
from swerve.execution.engine import NoProgress, Progress
from swerve.train.on_demand import OnDemand
from swerve.train.rendered import Arrays, RenderedCache
from swerve.world.lidar_source import LidarWorld
from swerve.world.source import VERSION, code_digest
from swerve.zoo.clusters import KINDS
from swerve.zoo.lidar_learn import Labelled

STEP = 1 / 500  # metres to which stored points are rounded: finer than any LiDAR measures
FARTHEST = 65.0  # metres along each axis; no grid reaches farther, however the sweep is turned
NAMES = ("points", "owner", "boxes", "kinds")
BRIGHTEST = 255  # steps of a stored intensity


@dataclass(frozen=True)
class SweepPart:
    """Sweeps on drives through the world."""

    split: str
    drives: int
    frames: int
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.drives} drives of {self.frames} sweeps"

    def world(self) -> LidarWorld:
        """The source its sweeps come from."""
        return LidarWorld(drives=self.drives, frames=self.frames, split=self.split, seed=self.seed)

    def cases(self, drive: int) -> Iterator[Case]:
        """The sweeps of one drive."""
        world = self.world()
        yield from (world[key] for key in world.keys()[drive * self.frames : (drive + 1) * self.frames])

    def cache(self, root: Path) -> RenderedCache:
        """Where its drives are stored; a drive is the same in a part of more drives."""
        key = {name: value for name, value in asdict(self).items() if name != "drives"}
        return RenderedCache(
            root,
            f"sweeps-{self.split}-{self.frames}-seed{self.seed}",
            {"kind": "sweeps", **key, "step": STEP, "world": VERSION, "code": code_digest()},
        )

    def scaled(self, share: float) -> SweepPart:
        """The same with a share of the drives, at least one, for a quick try."""
        return replace(self, drives=max(1, round(self.drives * share)))


@dataclass(frozen=True)
class SweepParts:
    """Training, validation and test sweeps."""

    train: SweepPart = SweepPart("train", 250, 6)
    val: SweepPart = SweepPart("val", 20, 2)
    test: SweepPart = SweepPart("test", 100, 2, seed=1)

    def scaled(self, share: float) -> SweepParts:
        """The same with a share of the drives of each."""
        return SweepParts(*(part.scaled(share) for part in (self.train, self.val, self.test)))


def labelled(case: Case) -> Labelled:
    """A case with a point cloud and boxes in the sensor's frame as a training sample."""
    cloud, truth = case.inputs.get("lidar"), find(case.truth, Boxes3D.slot)
    if not isinstance(cloud, PointCloud) or not isinstance(truth, Boxes3D):
        raise InputError(f"{case.key}: training needs a point cloud 'lidar' and 3-D boxes as labels")
    kinds = np.array([KINDS.index(kind if kind in KINDS else "unknown") for kind in truth.kinds], np.int64)
    return Labelled.of(cloud.xyzi, truth.xyzlwhy, kinds)


class StoredSweeps(OnDemand[Labelled]):
    """The sweeps of a part, each read from its drive's file when it is asked for."""

    def __init__(self, part: SweepPart, cache: RenderedCache) -> None:
        self.part, self.cache = part, cache

    def __len__(self) -> int:
        return self.part.drives * self.part.frames

    def item(self, number: int) -> Labelled:
        drive, frame = divmod(number, self.part.frames)
        return unpacked(*self.cache.load(drive, [f"{name}{frame}" for name in NAMES]))

    @property
    def minutes(self) -> float:
        """CPU minutes that rendering took."""
        return self.cache.minutes(range(self.part.drives))


def packed(sweep: Labelled) -> tuple[Array, Array, Array, Array]:
    """Points in steps of 2 mm and of 1/255, the box that each lies in, boxes and kinds."""
    near = (np.abs(sweep.xyzi[:, :3]) < FARTHEST).all(axis=1)
    points = np.rint(sweep.xyzi[near] / _steps()).astype(np.int16)
    return points, sweep.owner[near].astype(np.int16), sweep.boxes, sweep.kinds


def unpacked(points: Array, owner: Array, boxes: Array, kinds: Array) -> Labelled:
    """The sweep that was packed, except for the rounding."""
    return Labelled(points * _steps(), owner, boxes, kinds)


def _steps() -> Array:
    return np.array([STEP, STEP, STEP, 1 / BRIGHTEST], np.float32)


def stored_sweeps(part: SweepPart, folder: Path, *, workers: int = 2, progress: Progress | None = None) -> StoredSweeps:
    """The sweeps of `part`; drives that are not in the cache under `folder` are rendered first."""
    cache = part.cache(folder)
    cache.fill(
        range(part.drives),
        partial(render_sweeps, part),
        workers=workers,
        progress=progress or NoProgress(),
        stage=f"rendering {part.split}, {part}",
    )
    return StoredSweeps(part, cache)


def render_sweeps(part: SweepPart, drive: int) -> Arrays:
    """The sweeps of one drive as they are stored."""
    return {
        f"{name}{number}": array
        for number, case in enumerate(part.cases(drive))
        for name, array in zip(NAMES, packed(labelled(case)), strict=True)
    }
