"""What an experiment on steering is run on: the zoo's five on frames of the world, or a system and a source of one's own."""

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

SCENE_FRAMES = 3  # consecutive ones of every scene: enough for a network that looks at differences
SCENES, DRIVES, TRAINING = "scenes", "drives", "training"
PIECE = 12  # frames rendered at a time
NUMBERS = ("drives", "frames", "split", "seed")  # of a world


@dataclass(frozen=True)
class Subject:
    """A system under test, the cases it is tested on, and the network of the paper that it stands beside."""

    name: str
    system: System
    source: Source
    like: str = ""  # the paper's name of it


@dataclass(frozen=True)
class FrameCounts:
    """How many frames of the world are rendered: scenes of three frames each, and longer drives for long windows."""

    scenes: int
    windows: int
    training: int

    def drives(self, length: int) -> tuple[int, int]:
        """Drives, and the frames of each, that hold as many windows of `length` frames."""
        most = LONGEST - length + 1
        count = math.ceil(self.windows / min(most, max(20, self.windows // 2)))
        return count, length - 1 + math.ceil(self.windows / count)


def zoo(setting: Setting, frames: FrameCounts, names: Sequence[str] = tuple(STEERING)) -> list[Subject]:
    """The zoo's steering systems, each with its seeds; frames are rendered once and lie in `data/` as a Udacity set."""
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
    """The frames of `world` in `data/NAME`, a folder per drive with its `steering.csv`; rendered unless they are there.

    `data/NAME.json` says which world they are of: those of another are refused.
    """
    folder = setting.into / DATA / name
    if folder.exists():
        _refuse_others(folder, world)
    else:
        make_folder(folder.parent, parents=True)
        write_whole(_made_of(folder), json_bytes(_told(world)))  # before the frames, which are never there without it
        setting.progress.begin(f"rendering {name}", len(world.keys()))
        export(_by_drive(world, setting.workers), folder, "udacity", watch=lambda: setting.progress.advance(1, 0))
    return Udacity(folder.absolute())


def _made_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _told(world: World) -> dict[str, object]:
    """What tells the frames of a world from those of any other."""
    numbers = {name: getattr(world, name) for name in NUMBERS}
    return {**numbers, "fingerprint": world.fingerprint()}


def _refuse_others(folder: Path, world: World) -> None:
    """Refuse frames that are not known to be of `world`: runs beside them have seen them."""
    then = read_key(_made_of(folder))
    if then != _told(world):
        raise InputError(
            f"{folder}: holds other frames than this experiment needs ({_difference(then, world)}); choose another --into, "
            "or the level and seed that it was begun with"
        )


def _difference(then: Mapping[str, object] | None, world: World) -> str:
    if then is None:
        return "nothing says which world they are of"
    now = _told(world)
    numbers = [f"{name} {then.get(name)} then, {now[name]} now" for name in NUMBERS if then.get(name) != now[name]]
    return ", ".join(numbers) or "the world's code differs"


def _by_drive(world: World, workers: int) -> Mapping[str, Iterable[Case]]:
    keys = list(world.keys())
    pieces = [keys[start : start + PIECE] for start in range(0, len(keys), PIECE)]
    seen = (one for piece in in_processes(partial(_seen, world), pieces, workers) for one in piece)
    cases = (
        Case(key, {"camera": Image(pixels)}, (Steering(degrees),), world.group(key))
        for key, (pixels, degrees) in zip(keys, seen, strict=True)
    )
    return {f"{world.split}-{number:04}": islice(cases, world.frames) for number in range(world.drives)}


def _seen(world: World, keys: Sequence[str]) -> list[tuple[Array, float]]:
    """Pixels and label of some frames, which is all that another process has to send."""
    cases = [world[key] for key in keys]
    return [(image.pixels, degrees_of(case.truth, case.key)) for case in cases for image in images_of(case)]


def given(system: System, source: Source, count: int, name: str) -> Subject:
    """A system and a source of one's own, `count` of its cases spread evenly."""
    return Subject(name, system, Subset(source, count))
