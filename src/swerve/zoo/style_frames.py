"""What the packaged styles learn from: frames of the embedded world by day and in five other conditions, and their roads.

The conditions of a frame are shaded from one G-buffer, so all pictures of it show the same place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from swerve.core.values import Array
from swerve.execution.engine import NoProgress, Progress
from swerve.train.rendered import Arrays, RenderedCache
from swerve.world.drives import drive, scene_key
from swerve.world.gbuffer import GBuffer, cast
from swerve.world.render import shade
from swerve.world.secondary_rays import SecondaryRays
from swerve.world.source import DAY, VERSION, code_digest
from swerve.zoo.style_data import fitted
from swerve.zoo.style_learn import PictureSets
from swerve.zoo.style_weather import RANGES, VariedWorld

CONDITIONS = (DAY, *RANGES)
ROAD = "road"
ON_ROAD = 0.5  # share of a pixel


@dataclass(frozen=True)
class PairPart:
    """Drives with one frame each, in all conditions; rendered twice as large as they are kept."""

    split: str = "train"
    drives: int = 96
    width: int = 128
    height: int = 72
    seed: int = 100

    def world(self, conditions: str) -> VariedWorld:
        """The frames under some conditions."""
        return VariedWorld(
            self.drives, 1, self.split, conditions, width=2 * self.width, height=2 * self.height, seed=self.seed
        )

    def cache(self, root: Path) -> RenderedCache:
        """Where its drives are stored; a drive is the same in a part of more drives."""
        key = {name: value for name, value in asdict(self).items() if name != "drives"}
        ranges = {name: dict(ends) for name, ends in RANGES.items()}
        name = f"conditions-{self.split}-seed{self.seed}-{self.width}x{self.height}"
        return RenderedCache(
            root, name, {"kind": "conditions", **key, "ranges": ranges, "world": VERSION, "code": code_digest()}
        )

    def scaled(self, share: float) -> PairPart:
        """The same with a share of the drives, for a quick try."""
        return replace(self, drives=max(1, round(self.drives * share)))


@dataclass(frozen=True, eq=False)
class PairedFrames:
    """Pictures by condition, each number x rows x columns x RGB bytes, and masks of the road; row k shows one place."""

    pictures: Mapping[str, Array]
    road: Array
    minutes: float = 0.0  # of CPU that rendering took


@dataclass(frozen=True, eq=False)
class StyleFrames:
    """Frames to learn from, and frames of other drives to measure with."""

    train: PairedFrames
    test: PairedFrames

    @classmethod
    def under(cls, root: Path, *, share: float = 1.0, workers: int = 1, progress: Progress | None = None) -> StyleFrames:
        """The frames in the cache under `root`; those that are missing are rendered first."""
        parts = (PairPart().scaled(share), replace(PairPart("val"), drives=30).scaled(share))
        return cls(*(paired_frames(part, root, workers=workers, progress=progress) for part in parts))

    def sets(self, name: str) -> PictureSets:
        """The pairs for the style `name`."""
        return PictureSets(*(part.pictures[condition] for part in (self.train, self.test) for condition in (DAY, name)))


def paired_frames(part: PairPart, root: Path, *, workers: int = 1, progress: Progress | None = None) -> PairedFrames:
    """The frames of a part."""
    cache, drives = part.cache(root), range(part.drives)
    stage = f"rendering {part.drives} places in {len(CONDITIONS)} conditions"
    cache.fill(drives, partial(render_place, part), workers=workers, progress=progress or NoProgress(), stage=stage)
    names = (*CONDITIONS, ROAD)
    columns = zip(*(cache.load(number, names) for number in drives), strict=True)
    found = {name: np.stack(column) for name, column in zip(names, columns, strict=True)}
    return PairedFrames({name: found[name] for name in CONDITIONS}, found[ROAD], cache.minutes(drives))


def render_place(part: PairPart, number: int) -> Arrays:
    """One frame in every condition, and where its road is."""
    key = scene_key(part.split, part.seed, number)
    worlds = {name: part.world(name) for name in CONDITIONS}
    camera, driven = worlds[DAY].camera, drive(key)
    pose = driven.poses[0]
    snapshot = driven.scene_of(0).at(pose.time)
    buffer, size = cast(snapshot, pose, camera), (part.width, part.height)
    secondary = SecondaryRays(lambda: snapshot)
    pictures = {name: shade(buffer, world.weather(key), secondary).pixels for name, world in worlds.items()}
    return {ROAD: road_of(buffer, size), **{name: fitted(pixels, *size) for name, pixels in pictures.items()}}


def road_of(buffer: GBuffer, size: tuple[int, int]) -> Array:
    """The pixels that mostly show the road, in another size."""
    ground, share = buffer.pixels.ground, np.zeros(buffer.things.size, np.float32)
    share[buffer.pixels.found.ray[ground.rows]] = ground.road
    mask: Array = cv2.resize(share.reshape(buffer.things.shape), size, interpolation=cv2.INTER_AREA) > ON_ROAD
    return mask
