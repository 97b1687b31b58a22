"""Sweeps of the embedded world to learn from: made once by several processes, kept as files, continued where left off."""

from __future__ import annotations

import io
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import EnvironmentFault, InputError
from swerve.core.values import Array, Boxes3D, PointCloud, find
from swerve.execution.process_pool import process_pool
from swerve.store.files import json_bytes, write_whole
from swerve.world.lidar_source import LidarWorld
from swerve.world.source import VERSION, code_digest
from swerve.zoo.clusters import KINDS
from swerve.zoo.data import DESCRIPTION, Watch, check_kept, unwatched
from swerve.zoo.lidar_learn import Labelled

STEP = 1 / 500  # metres in which points are kept: finer than any LiDAR measures
FARTHEST = 65.0  # metres each way; farther points reach no grid, however it is turned
NAMES = ("points", "owner", "boxes", "kinds")
BRIGHTEST = 255  # intensities come in as many steps


@dataclass(frozen=True)
class SweepPart:
    """Sweeps on drives through the world."""

    split: str
    drives: int
    frames: int
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.drives} drives of {self.frames} sweeps"

    @property
    def folder(self) -> str:
        """The name of the folder that keeps it."""
        return f"lidar-{self.split}-{self.drives}x{self.frames}-seed{self.seed}"

    def world(self) -> LidarWorld:
        """The source its sweeps come from."""
        return LidarWorld(drives=self.drives, frames=self.frames, split=self.split, seed=self.seed)

    def cases(self, drive: int) -> Iterator[Case]:
        """The sweeps of one drive."""
        world = self.world()
        yield from (world[key] for key in world.keys()[drive * self.frames : (drive + 1) * self.frames])

    def described(self) -> dict[str, object]:
        """What decides its bytes."""
        return {**asdict(self), "step": STEP, "world": VERSION, "code": code_digest()}

    def scaled(self, share: float) -> SweepPart:
        """The same with a share of the drives, at least one, for a quick try."""
        return replace(self, drives=max(1, round(self.drives * share)))


@dataclass(frozen=True)
class SweepParts:
    """What the recipes learn from, choose by, and are scored on."""

    train: SweepPart = SweepPart("train", 250, 6)
    val: SweepPart = SweepPart("val", 20, 2)
    test: SweepPart = SweepPart("test", 100, 2, seed=1)

    def scaled(self, share: float) -> SweepParts:
        """The same with a share of the drives of each."""
        return SweepParts(*(part.scaled(share) for part in (self.train, self.val, self.test)))


def labelled(case: Case) -> Labelled:
    """A case with a cloud and boxes in the sensor's frame as something to learn from."""
    cloud, truth = case.inputs.get("lidar"), find(case.truth, Boxes3D.slot)
    if not isinstance(cloud, PointCloud) or not isinstance(truth, Boxes3D):
        raise InputError(f"{case.key}: there is nothing to learn without a point cloud 'lidar' and 3-D boxes")
    kinds = np.array([KINDS.index(kind if kind in KINDS else "unknown") for kind in truth.kinds], np.int64)
    return Labelled.of(cloud.xyzi, truth.xyzlwhy, kinds)


class KeptSweeps(Sequence[Labelled]):
    """The sweeps of a part in its folder; each is read when it is asked for."""

    def __init__(self, part: SweepPart, folder: Path) -> None:
        self.part, self.folder = part, folder

    def __len__(self) -> int:
        return self.part.drives * self.part.frames

    @overload
    def __getitem__(self, number: int) -> Labelled: ...
    @overload
    def __getitem__(self, number: slice) -> list[Labelled]: ...

    def __getitem__(self, number: int | slice) -> Labelled | list[Labelled]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        drive, frame = divmod(number, self.part.frames)
        with np.load(file_of(self.folder, drive)) as kept:
            return unpacked(*(kept[f"{name}{frame}"] for name in NAMES))

    @property
    def minutes(self) -> float:
        """CPU minutes that making them took."""
        seconds = 0.0
        for drive in range(self.part.drives):
            with np.load(file_of(self.folder, drive)) as kept:
                seconds += float(kept["seconds"])
        return seconds / 60


def file_of(folder: Path, drive: int) -> Path:
    """The file that keeps the sweeps of a drive."""
    return folder / f"{drive}.npz"


def packed(given: Labelled) -> tuple[Array, Array, Array, Array]:
    """Points in steps of 2 mm and of 1/255, whose they are, boxes and kinds."""
    near = (np.abs(given.xyzi[:, :3]) < FARTHEST).all(axis=1)
    points = np.rint(given.xyzi[near] / _steps()).astype(np.int16)
    return points, given.owner[near].astype(np.int16), given.boxes, given.kinds


def unpacked(points: Array, owner: Array, boxes: Array, kinds: Array) -> Labelled:
    """The sweep that was packed, but for the rounding."""
    return Labelled(points * _steps(), owner, boxes, kinds)


def _steps() -> Array:
    return np.array([STEP, STEP, STEP, 1 / BRIGHTEST], np.float32)


def kept_sweeps(part: SweepPart, folder: Path, *, workers: int = 2, progress: Watch = unwatched) -> KeptSweeps:
    """The sweeps of `part`, kept under `folder`; only drives that are not there yet are made."""
    place = folder / part.folder
    try:
        if not (place / DESCRIPTION).exists():
            place.mkdir(parents=True, exist_ok=True)
            write_whole(place / DESCRIPTION, json_bytes(part.described()))
        check_kept(part.described(), place)
        missing = [drive for drive in range(part.drives) if not file_of(place, drive).exists()]
        with closing(_made(part, place, missing, workers)) as made:
            for _ in zip(progress(missing, f"sweeping {part.split}, {part}", len(missing)), made, strict=True):
                pass
    except OSError as error:
        raise EnvironmentFault(f"{place}: cannot keep sweeps: {error.strerror}") from error
    return KeptSweeps(part, place)


def _made(part: SweepPart, place: Path, drives: list[int], workers: int) -> Generator[None]:
    work = partial(keep_drive, part, place)
    if workers < 2 or len(drives) < 2:
        yield from map(work, drives)
        return
    with process_pool(workers) as pool:
        yield from pool.map(work, drives)


def keep_drive(part: SweepPart, place: Path, drive: int) -> None:
    """Make the sweeps of one drive and write them, whole or not at all."""
    started = time.process_time()
    arrays: dict[str, Array] = {}
    for number, case in enumerate(part.cases(drive)):
        for name, array in zip(NAMES, packed(labelled(case)), strict=True):
            arrays[f"{name}{number}"] = array
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, seconds=np.array(time.process_time() - started), **arrays)
    write_whole(file_of(place, drive), file.getvalue())
