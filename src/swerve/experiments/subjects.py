"""The subjects of the steering experiment: the zoo's five systems on rendered frames, or a given system and source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from swerve.core.case import Case, Source
from swerve.core.errors import InputError
from swerve.core.system import System
from swerve.core.values import Array, Image, Steering
from swerve.experiments.setting import DATA, Setting
from swerve.retrain.finetune import degrees_of
from swerve.sources.export import export
from swerve.sources.subset import Subset
from swerve.sources.udacity import Udacity
from swerve.sources.windows import Windows
from swerve.store.files import json_bytes, make_folder, write_whole
from swerve.train.rendered import in_processes, read_key
from swerve.transformations.photometric import images_of
from swerve.world.source import LONGEST, World
from swerve.zoo.steering import STEERING, Trained

SCENE_FRAMES = 3  # consecutive frames of every scene: enough for a network on differences
SCENES, DRIVES, TRAINING = "scenes", "drives", "training"
PIECE = 12  # frames rendered at a time
NUMBERS = ("drives", "frames", "split", "seed")  # that identify the frames of a world


@dataclass(frozen=True)
class Subject:
    """A system under test, its cases, and the network of the paper that it is compared with."""

    name: str
    system: System
    source: Source
    like: str = ""  # the network's name in the paper


@dataclass(frozen=True)
class FrameCounts:
    """How many frames are rendered: scenes of three frames, windows on longer drives, and training frames."""

    scenes: int
    windows: int
    training: int

    def drives(self, length: int) -> tuple[int, int]:
        """The number of drives, and of frames in each, for `windows` windows of `length` frames."""
        most = LONGEST - length + 1
        count = math.ceil(self.windows / min(most, max(20, self.windows // 2)))
        return count, length - 1 + math.ceil(self.windows / count)


def zoo(setting: Setting, frames: FrameCounts, names: Sequence[str] = tuple(STEERING)) -> list[Subject]:
    """The zoo's steering systems with their cases; frames are rendered once into `data/` as a Udacity set."""
    return [_zoo_subject(setting, frames, STEERING[name]) for name in names]


LIKE = {"epoch": "Epoch", "chauffeur": "Chauffeur", "rambo": "Rambo"}


def _zoo_subject(setting: Setting, frames: FrameCounts, kind: type[Trained]) -> Subject:
    length = kind.view.frames
    if length > SCENE_FRAMES:
        count, each = frames.drives(length)
        cases: Source = Subset(
            Windows(rendered(setting, DRIVES, World(count, each, seed=setting.seed)), length), frames.windows
        )
    else:
        whole = rendered(setting, SCENES, World(frames.scenes, SCENE_FRAMES, seed=setting.seed))
        cases = Subset(whole, frames.scenes) if length == 1 else Windows(whole, length)
    return Subject(kind.name, kind(), cases, LIKE.get(kind.name, ""))


def rendered(setting: Setting, name: str, world: World) -> Udacity:
    """The frames of `world` in `data/NAME`, a folder per drive with its `steering.csv`; rendered if they are not there.

    `data/NAME.json` states the key of the frames: those of another world are refused.
    """
    folder = setting.into / DATA / name
    if folder.exists():
        _check_key(folder, world)
    else:
        make_folder(folder.parent, parents=True)
        write_whole(_key_file(folder), json_bytes(_key(world)))  # before the frames, which are never there without it
        setting.progress.begin(f"rendering {name}", len(world.keys()))
        export(_by_drive(world, setting.workers), folder, "udacity", watch=lambda: setting.progress.advance(1, 0))
    return Udacity(folder.absolute())


def _key_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _key(world: World) -> dict[str, object]:
    """What distinguishes the frames of a world from those of any other."""
    numbers = {name: getattr(world, name) for name in NUMBERS}
    return {**numbers, "fingerprint": world.fingerprint()}


def _check_key(folder: Path, world: World) -> None:
    """Refuse frames of another world: the runs of this experiment have used them."""
    then = read_key(_key_file(folder))
    if then != _key(world):
        raise InputError(
            f"{folder}: contains other frames than this experiment needs ({_difference(then, world)}); choose another "
            "--into, or the level and seed that it was started with"
        )


def _difference(then: Mapping[str, object] | None, world: World) -> str:
    if then is None:
        return "their key is missing"
    now = _key(world)
    numbers = [f"{name} {then.get(name)} instead of {now[name]}" for name in NUMBERS if then.get(name) != now[name]]
    return ", ".join(numbers) or "the world's code differs"


def _by_drive(world: World, workers: int) -> Mapping[str, Iterable[Case]]:
    keys = list(world.keys())
    pieces = [keys[start : start + PIECE] for start in range(0, len(keys), PIECE)]
    frames = (one for piece in in_processes(partial(_frames, world), pieces, workers) for one in piece)
    cases = (
        Case(key, {"camera": Image(pixels)}, (Steering(degrees),), world.group(key))
        for key, (pixels, degrees) in zip(keys, frames, strict=True)
    )
    return {f"{world.split}-{number:04}": islice(cases, world.frames) for number in range(world.drives)}


def _frames(world: World, keys: Sequence[str]) -> list[tuple[Array, float]]:
    """Pixels and label of some frames, which is all that a worker sends back."""
    cases = [world[key] for key in keys]
    return [(image.pixels, degrees_of(case.truth, case.key)) for case in cases for image in images_of(case)]


def given(system: System, source: Source, count: int, name: str) -> Subject:
    """A given system and source, with `count` cases evenly spaced."""
    return Subject(name, system, Subset(source, count))
