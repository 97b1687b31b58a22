"""The subjects of the steering experiments: the zoo's systems on frames rendered into the experiment's folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from swerve.core.case import Source
from swerve.core.values import Image
from swerve.execution.cost import Cost, measured
from swerve.experiments.setting import DATA, Setting
from swerve.experiments.subjects import Subject
from swerve.sources.stills import Stills
from swerve.sources.subset import Subset
from swerve.sources.udacity import Udacity
from swerve.sources.windows import Windows
from swerve.store.files import png_bytes
from swerve.train.rendered_frames import rendered_frames
from swerve.transformations.photometric import images_of
from swerve.world.drives import LONGEST
from swerve.world.source import World
from swerve.zoo.steering import STEERING, Trained
from swerve.zoo.steering_data import FramePart, render_drive

SCENE_FRAMES = 3  # consecutive frames of every scene: enough for a network on differences
SCENES, DRIVES = "scenes", "drives"


@dataclass(frozen=True)
class FrameCounts:
    """How many frames there are: scenes of three frames, windows on longer drives, and training frames added untouched."""

    scenes: int
    windows: int
    training: int

    def drives(self, length: int) -> tuple[int, int]:
        """The number of drives, and of frames in each, for `windows` windows of `length` frames."""
        most = LONGEST - length + 1
        count = math.ceil(self.windows / min(most, max(20, self.windows // 2)))
        return count, length - 1 + math.ceil(self.windows / count)


LIKE = {"epoch": "Epoch", "chauffeur": "Chauffeur", "rambo": "Rambo"}


def zoo(setting: Setting, frames: FrameCounts, names: Sequence[str] = tuple(STEERING)) -> list[Subject]:
    """The zoo's steering systems; their frames are rendered once into `data/` as a Udacity set, when they are first used."""
    return [_zoo_subject(setting, frames, STEERING[name]) for name in names]


def _zoo_subject(setting: Setting, frames: FrameCounts, kind: type[Trained]) -> Subject:
    length = kind.view.frames
    cases = partial(_windows, setting, frames, length)
    count = frames.windows if length > SCENE_FRAMES else frames.scenes * (1 if length == 1 else SCENE_FRAMES - length + 1)
    return Subject(kind.name, kind(), cases, LIKE.get(kind.name, ""), lambda: Stills(frame_cost()[1], length), count)


def _windows(setting: Setting, frames: FrameCounts, length: int) -> Source:
    if length > SCENE_FRAMES:
        count, each = frames.drives(length)
        return Subset(Windows(rendered(setting, DRIVES, World(count, each, seed=setting.seed)), length), frames.windows)
    whole = rendered(setting, SCENES, World(frames.scenes, SCENE_FRAMES, seed=setting.seed))
    return Subset(whole, frames.scenes) if length == 1 else Windows(whole, length)


def rendered(setting: Setting, name: str, world: World) -> Udacity:
    """The frames of `world` in `data/NAME`."""
    return rendered_frames(setting.into / DATA / name, world, workers=setting.workers, progress=setting.progress)


@cache
def frame_cost() -> tuple[Cost, Image]:
    """The cost of one frame of the world, including its scene, and such a frame."""
    world = World(drives=1, frames=SCENE_FRAMES, seed=1)
    cost, images = measured(lambda: [next(images_of(world[key])) for key in world.keys()], lambda _: 0.0)
    return cost * (1 / len(images)) + Cost(size=len(png_bytes(images[-1].pixels))), images[-1]


def drive_cost(part: FramePart) -> Cost:
    """The cost of one drive of the zoo's training frames."""
    return _first_drive_cost(replace(part, drives=1))


@cache
def _first_drive_cost(part: FramePart) -> Cost:
    return measured(lambda: render_drive(part, 0), lambda arrays: sum(array.nbytes for array in arrays.values()))[0]
