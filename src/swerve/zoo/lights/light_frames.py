"""Training frames of the traffic-light detectors: rendered once from the embedded world and read from the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path

from swerve.core.case import Case
from swerve.execution.engine import NoProgress, Progress
from swerve.train.labelled_pictures import LabelledPicture
from swerve.train.rendered import Arrays, RenderedCache
from swerve.world.light_source import ALL, LightWorld
from swerve.world.source import VERSION, code_digest

KINDS = ("red", "yellow", "green", "off")
NAMES = tuple(part.name for part in fields(LabelledPicture))


@dataclass(frozen=True)
class LightPart:
    """Views of junctions with traffic lights, with lights of the split's designs."""

    split: str
    junctions: int
    frames: int
    seed: int = 0
    streets: str = "A"
    conditions: str = ALL

    def __str__(self) -> str:
        return f"{self.junctions} junctions of {self.frames} frames, streets {self.streets}"

    def world(self) -> LightWorld:
        """The source its frames come from."""
        return LightWorld(
            junctions=self.junctions,
            frames=self.frames,
            streets=self.streets,
            split=self.split,
            conditions=self.conditions,
            seed=self.seed,
        )

    def cases(self, junction: int) -> Iterator[Case]:
        """The frames of one junction."""
        world = self.world()
        yield from (world[key] for key in world.keys()[junction * self.frames : (junction + 1) * self.frames])

    def cache(self, root: Path) -> RenderedCache:
        """Where its junctions are stored; a junction is the same in a part of more junctions."""
        key = {name: value for name, value in asdict(self).items() if name != "junctions"}
        return RenderedCache(
            root,
            f"lights-{self.streets}-{self.split}-{self.frames}-seed{self.seed}-{self.conditions}",
            {"kind": "lights", **key, "world": VERSION, "code": code_digest()},
        )

    def scaled(self, share: float) -> LightPart:
        """The same with a share of the junctions, at least one, for a quick try."""
        return replace(self, junctions=max(1, round(self.junctions * share)))


@dataclass(frozen=True)
class LightParts:
    """Training, validation and test frames, and test frames of other streets; no two share a design of a head."""

    train: LightPart = LightPart("train", 240, 3)
    val: LightPart = LightPart("val", 12, 3)
    test: LightPart = LightPart("test", 60, 2)
    other: LightPart = LightPart("test", 12, 2, streets="B")

    def scaled(self, share: float) -> LightParts:
        """The same with a share of the junctions of each."""
        return LightParts(*(part.scaled(share) for part in self.all()))

    def all(self) -> tuple[LightPart, ...]:
        """Every part, in the order of the fields."""
        return self.train, self.val, self.test, self.other


@dataclass(frozen=True, eq=False)
class StoredLights:
    """The frames of a part in memory, and the CPU minutes that rendering them took."""

    part: LightPart
    frames: Sequence[LabelledPicture]
    minutes: float = 0.0

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the frames."""
        return self.part.world().keys()


def stored_lights(part: LightPart, folder: Path, *, workers: int = 2, progress: Progress | None = None) -> StoredLights:
    """The frames of `part`; junctions that are not in the cache under `folder` are rendered first."""
    cache, junctions = part.cache(folder), range(part.junctions)
    stage = f"rendering {part.split}, {part}"
    cache.fill(junctions, partial(render_lights, part), workers=workers, progress=progress or NoProgress(), stage=stage)
    frames = [frame for junction in junctions for frame in _read(cache, junction, part.frames)]
    return StoredLights(part, frames, cache.minutes(junctions))


def _read(cache: RenderedCache, junction: int, frames: int) -> Iterator[LabelledPicture]:
    names = [f"{name}{number}" for number in range(frames) for name in NAMES]
    arrays = cache.load(junction, names)
    step = len(NAMES)
    yield from (LabelledPicture(*arrays[start : start + step]) for start in range(0, len(arrays), step))


def render_lights(part: LightPart, junction: int) -> Arrays:
    """The frames of one junction as they are stored."""
    return {
        f"{name}{number}": array
        for number, case in enumerate(part.cases(junction))
        for name, array in vars(LabelledPicture.of(case, KINDS)).items()
    }
