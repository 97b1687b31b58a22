"""Training frames of the embedded world: rendered once by several processes, kept as arrays, continued where left off."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from swerve.core.errors import EnvironmentFault, InputError
from swerve.core.system import Answer
from swerve.core.values import Array, Image, Steering, find
from swerve.execution.process_pool import process_pool
from swerve.store.files import json_bytes, write_whole
from swerve.world.source import VERSION, World, code_digest

ABOVE = 0.35  # share of the rows that no network looks at, cut off before a frame is kept
DESCRIPTION, FRAMES, ANGLES, SECONDS = "part.json", "frames.npy", "degrees.npy", "cpu_seconds.npy"

Watch = Callable[[Iterable[int], str, int], Iterable[int]]


def unwatched(steps: Iterable[int], what: str, total: int) -> Iterable[int]:
    """The steps without a progress bar."""
    del what, total
    return steps


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

    def __str__(self) -> str:
        several = f"{self.runs} runs of " if self.runs > 1 else ""
        return f"{self.split}, {self.drives} drives of {several}{self.frames} frames, seed {self.seed}"

    @property
    def folder(self) -> str:
        """The name of the folder that keeps it."""
        size = f"{self.width}x{self.height}"
        several = f"{self.runs}x" if self.runs > 1 else ""
        return f"{self.split}-{self.drives}x{several}{self.frames}-seed{self.seed}-{size}-{self.conditions}"

    def keys(self, drive: int) -> list[str]:
        """The frames of one drive."""
        starts = [run * self.apart for run in range(self.runs)]
        return [f"{self.split}/{self.seed}/{drive}#{start + step}" for start in starts for step in range(self.frames)]

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Drives x frames x rows x columns x RGB."""
        return self.drives, self.runs * self.frames, self.height - self.cut, self.width, 3

    @property
    def cut(self) -> int:
        """Rows at the top of a frame that are not kept."""
        return round(self.height * ABOVE)

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
        )

    def described(self) -> dict[str, object]:
        """What decides its bytes."""
        return {**asdict(self), "above": ABOVE, "world": VERSION, "code": code_digest()}


@dataclass(frozen=True)
class FrameParts:
    """What the recipes learn from, choose by, and are scored on: short runs of many drives and long ones of a few."""

    short: FramePart = FramePart("train", 1200, 3, runs=6)
    long: FramePart = FramePart("train", 60, 130, seed=1)
    val_short: FramePart = FramePart("val", 100, 3, runs=6)
    val_long: FramePart = FramePart("val", 8, 130, seed=1)
    test_short: FramePart = FramePart("test", 150, 3, runs=6)
    test_long: FramePart = FramePart("test", 16, 130, seed=1)

    def all(self) -> list[FramePart]:
        """Every part, those for scoring first: they are few."""
        return [self.val_short, self.val_long, self.test_short, self.test_long, self.long, self.short]

    def scaled(self, share: float) -> FrameParts:
        """The same with a share of the drives, at least one of each, for a quick try."""
        return FrameParts(*(replace(part, drives=max(1, round(part.drives * share))) for part in self.in_order()))

    def in_order(self) -> tuple[FramePart, ...]:
        """Every part, in the order of the fields."""
        return self.short, self.long, self.val_short, self.val_long, self.test_short, self.test_long


@dataclass(frozen=True, eq=False)
class SteeringFrames:
    """Frames without their top rows, runs x frames x rows x columns x RGB, and their wheel angles in degrees."""

    pixels: Array
    degrees: Array
    cut: int = 0  # rows that were left out at the top
    minutes: float = 0.0  # of CPU that rendering took
    drives: int = 0  # that the runs were taken from


def default_folder() -> Path:
    """Where frames are kept unless told otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "swerve" / "zoo"


def rendered(part: FramePart, folder: Path, *, workers: int = 2, progress: Watch = unwatched) -> SteeringFrames:
    """The frames of `part`, kept under `folder`; only drives that are not there yet are rendered."""
    pixels, degrees, seconds = _opened(part, folder / part.folder)
    missing = [int(drive) for drive in np.flatnonzero(np.isnan(degrees).any(axis=1))]
    with _made(part, missing, workers) as drives:
        for drive, made in zip(progress(missing, f"rendering {part}", len(missing)), drives, strict=True):
            # The angles last: a drive counts as rendered once they are there.
            for kept, given in ((pixels, made.pixels), (seconds, made.seconds), (degrees, made.degrees)):
                kept[drive] = given
                kept.flush()
    shape = part.drives * part.runs, part.frames
    frames, angles = (_read_only(kept.reshape(*shape, *kept.shape[2:])) for kept in (pixels, degrees))
    return SteeringFrames(frames, angles, part.cut, float(seconds.sum()) / 60, part.drives)


def _opened(part: FramePart, folder: Path) -> list[np.memmap[Any, Any]]:
    try:
        if not (folder / DESCRIPTION).exists():
            _create(part, folder)
        check_kept(part.described(), folder)
        return [np.lib.format.open_memmap(folder / name, "r+") for name in (FRAMES, ANGLES, SECONDS)]
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot keep training frames: {error.strerror}") from error


def _create(part: FramePart, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.lib.format.open_memmap(folder / FRAMES, "w+", np.uint8, part.shape)
    np.lib.format.open_memmap(folder / ANGLES, "w+", np.float32, part.shape[:2])[:] = np.nan
    np.lib.format.open_memmap(folder / SECONDS, "w+", np.float32, part.shape[:1])[:] = 0
    write_whole(folder / DESCRIPTION, json_bytes(part.described()))  # last: without it the folder is made anew


def check_kept(wanted: Mapping[str, object], folder: Path) -> None:
    """Raise `InputError` unless what `folder` keeps was made as described."""
    try:
        kept = json.loads((folder / DESCRIPTION).read_text())
    except ValueError as error:
        raise InputError(f"{folder / DESCRIPTION}: not JSON ({error}); delete the folder to render it again") from error
    if differing := [f"{key} was {kept.get(key)}, is {now}" for key, now in wanted.items() if kept.get(key) != now]:
        raise InputError(f"{folder}: {'; '.join(differing)}: delete it to render it again, or give another --data folder")


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


@contextmanager
def _made(part: FramePart, drives: list[int], workers: int) -> Iterator[Iterable[KeptDrive]]:
    """The drives as they are rendered, in order; a drive's frames share a scene, so one process makes them all."""
    work = partial(render_drive, part)
    if workers < 2 or len(drives) < 2:
        yield map(work, drives)
        return
    with process_pool(workers) as pool:
        yield pool.map(work, drives)


@dataclass(frozen=True, eq=False)
class KeptDrive:
    """One drive as it is kept, and what it cost."""

    pixels: Array
    degrees: Array
    seconds: float  # of CPU


def render_drive(part: FramePart, drive: int) -> KeptDrive:
    """The kept rows and the wheel angles of one drive's frames."""
    started, world = time.process_time(), part.world()
    cases = [world[key] for key in part.keys(drive)]
    pixels = [image.pixels[part.cut :] for case in cases if isinstance(image := case.inputs["camera"], Image)]
    angles = np.array([degrees_of(case.truth) for case in cases], np.float32)
    return KeptDrive(np.stack(pixels), angles, time.process_time() - started)


def degrees_of(answer: Answer) -> float:
    """The steering angle in `answer`."""
    value = find(answer, "steering")
    if not isinstance(value, Steering):
        raise InputError(f"expected a steering angle, got {answer!r}")
    return value.degrees
