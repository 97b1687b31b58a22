"""Training frames of the steering networks: rendered once from the embedded world and read from the cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.lru import SizedLRU
from swerve.core.seeding import digest_of
from swerve.core.system import Answer
from swerve.core.values import Array, Image, Steering, find
from swerve.execution.engine import NoProgress, Progress
from swerve.train.on_demand import OnDemand
from swerve.train.rendered import Arrays, RenderedCache
from swerve.world.drives import STANDARD, scene_key
from swerve.world.source import VERSION, World, code_digest

SKY = 0.35  # share of the rows at the top that no network looks at, usually cut off before a frame is stored


@dataclass(frozen=True)
class FramePart:
    """Runs of frames on drives through the world; another seed has other scenes."""

    split: str
    drives: int
    frames: int
    seed: int = 0
    width: int = 256
    height: int = 144
    conditions: str = "day"
    runs: int = 1  # of each drive
    apart: int = 24  # frames from the start of a run to the start of the next
    sky: float = SKY  # share of the rows that are cut off
    driver: str = STANDARD

    def __str__(self) -> str:
        several = f"{self.runs} runs of " if self.runs > 1 else ""
        own = "" if self.driver == STANDARD else f", {self.driver} driver"
        return f"{self.split}, {self.drives} drives of {several}{self.frames} frames, seed {self.seed}{own}"

    def keys(self, drive: int) -> list[str]:
        """The frames of one drive."""
        starts = [run * self.apart for run in range(self.runs)]
        scene = scene_key(self.split, self.seed, drive, driver=self.driver)
        return [f"{scene}#{start + step}" for start in starts for step in range(self.frames)]

    @property
    def cut(self) -> int:
        """Rows at the top of a frame that are not stored."""
        return round(self.height * self.sky)

    def singles(self, every: int) -> FramePart:
        """The first frame of each short run, or each `every`-th of a long one, with the sky, which weather changes too."""
        runs, apart = (self.runs, self.apart) if self.runs > 1 else (len(range(0, self.frames, every)), every)
        return replace(self, frames=1, runs=runs, apart=apart, sky=0.0)

    def world(self) -> World:
        """The source its frames come from."""
        return World(
            drives=self.drives,
            frames=(self.runs - 1) * self.apart + self.frames,
            split=self.split,
            conditions=self.conditions,
            width=self.width,
            height=self.height,
            seed=self.seed,
            driver=self.driver,
        )

    def cache(self, root: Path) -> RenderedCache:
        """Where its drives are stored; a drive is the same in a part of more drives."""
        several = f"{self.runs}x" if self.runs > 1 else ""
        size = f"{self.width}x{self.height}-{self.conditions}"
        key = {name: value for name, value in asdict(self).items() if name != "drives"}
        return RenderedCache(
            root,
            f"frames-{self.split}-{several}{self.frames}-seed{self.seed}-{size}",
            {"kind": "frames", **key, "world": VERSION, "code": code_digest()},
        )


@dataclass(frozen=True)
class FrameParts:
    """Training, validation and test frames: short runs of many drives and long runs of a few."""

    short: FramePart = FramePart("train", 1200, 3, runs=6)
    long: FramePart = FramePart("train", 60, 130, seed=1)
    val_short: FramePart = FramePart("val", 100, 3, runs=6)
    val_long: FramePart = FramePart("val", 8, 130, seed=1)
    test_short: FramePart = FramePart("test", 150, 3, runs=6)
    test_long: FramePart = FramePart("test", 16, 130, seed=1)

    def scaled(self, share: float) -> FrameParts:
        """The same with a share of the drives, at least one of each, for a quick try."""
        return FrameParts(*(replace(part, drives=max(1, round(part.drives * share))) for part in self.all()))

    def driven_by(self, driver: str) -> FrameParts:
        """The same of another driver's drives, half as many: one network alone is trained on them."""
        if driver == STANDARD:
            return self
        return FrameParts(*(replace(part, driver=driver) for part in self.scaled(0.5).all()))

    def all(self) -> tuple[FramePart, ...]:
        """Every part, in the order of the fields."""
        return self.short, self.long, self.val_short, self.val_long, self.test_short, self.test_long

    def singles(self, every: int) -> dict[str, tuple[FramePart, ...]]:
        """The single frames of the training and of the validation drives."""
        parts = {"train": (self.short, self.long), "val": (self.val_short, self.val_long)}
        return {split: tuple(part.singles(every) for part in some) for split, some in parts.items()}


@dataclass(frozen=True, eq=False)
class SteeringFrames:
    """Runs of frames without their top rows, each frames x rows x columns x RGB, and the wheel angles in degrees."""

    pixels: Sequence[Array] | Array
    degrees: Array  # runs x frames
    cut: int = 0  # rows that were left out at the top
    minutes: float = 0.0  # of CPU that rendering took
    drives: int = 0  # that the runs were taken from


def default_folder() -> Path:
    """The default folder of rendered training data."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "swerve" / "zoo"


def rendered(part: FramePart, folder: Path, *, workers: int = 2, progress: Progress | None = None) -> SteeringFrames:
    """The frames of `part`; drives that are not in the cache under `folder` are rendered first."""
    cache, drives = _filled(part, folder, workers, progress), range(part.drives)
    degrees = np.concatenate([cache.load(drive, ["degrees"])[0] for drive in drives]).reshape(-1, part.frames)
    return SteeringFrames(StoredRuns(part, cache), degrees, part.cut, cache.minutes(drives), part.drives)


def stored_frames(part: FramePart, folder: Path, *, workers: int = 2, progress: Progress | None = None) -> StoredFrames:
    """The frames of `part` as cases; drives that are not in the cache under `folder` are rendered first."""
    _filled(part, folder, workers, progress)
    return StoredFrames(part, folder)


def _filled(part: FramePart, folder: Path, workers: int, progress: Progress | None) -> RenderedCache:
    cache = part.cache(folder)
    render, stage = partial(render_drive, part), f"rendering {part}"
    cache.fill(range(part.drives), render, workers=workers, progress=progress or NoProgress(), stage=stage)
    return cache


@dataclass(frozen=True)
class StoredFrames:
    """The frames of a part as cases, read from the cache under `folder`, where its drives have been rendered."""

    part: FramePart
    folder: Path

    def keys(self) -> Sequence[str]:
        return list(self._places)

    def group(self, key: str) -> str:
        """The drive of a frame."""
        return key.rpartition("#")[0]

    def __getitem__(self, key: str) -> Case:
        drive, place = self._places[key]
        pixels, degrees = self._drives.get(str(drive), lambda: self._cache.load(drive, ["pixels", "degrees"]))
        return Case(key, {"camera": Image(pixels[place])}, (Steering(float(degrees[place])),), group=self.group(key))

    def fingerprint(self) -> str:
        return digest_of("frames", self._cache.key, self.part.drives)

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        """The drive of every frame, and its place there."""
        drives = range(self.part.drives)
        return {key: (drive, place) for drive in drives for place, key in enumerate(self.part.keys(drive))}

    @cached_property
    def _cache(self) -> RenderedCache:
        return self.part.cache(self.folder)

    @cached_property
    def _drives(self) -> SizedLRU:
        return SizedLRU(4)


class StoredRuns(OnDemand[Array]):
    """The runs of a part, each read from its drive's file when it is asked for."""

    def __init__(self, part: FramePart, cache: RenderedCache) -> None:
        self._part, self._cache = part, cache
        self._last: tuple[int, Array] | None = None  # drive: its runs are read one after the other

    def __len__(self) -> int:
        return self._part.drives * self._part.runs

    def item(self, number: int) -> Array:
        drive, run = divmod(number, self._part.runs)
        if self._last is None or self._last[0] != drive:
            self._last = drive, self._cache.load(drive, ["pixels"])[0]
            self._last[1].flags.writeable = False
        return self._last[1][run * self._part.frames : (run + 1) * self._part.frames]


def render_drive(part: FramePart, drive: int) -> Arrays:
    """The stored rows and the wheel angles of one drive's frames, which share a scene."""
    world = part.world()
    cases = [world[key] for key in part.keys(drive)]
    pixels = [image.pixels[part.cut :] for case in cases if isinstance(image := case.inputs["camera"], Image)]
    return {"pixels": np.stack(pixels), "degrees": np.array([degrees_of(case.truth) for case in cases], np.float32)}


def degrees_of(answer: Answer) -> float:
    """The steering angle in `answer`."""
    value = find(answer, "steering")
    if not isinstance(value, Steering):
        raise InputError(f"expected a steering angle, got {answer!r}")
    return value.degrees
