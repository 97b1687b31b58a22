"""Drives through the embedded world as a source of cases, rendered on demand and labelled from the same triangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from swerve.core.arguments import OneOfNames
from swerve.core.case import Case
from swerve.core.convention import Convention
from swerve.core.errors import InputError, unknown
from swerve.core.lru import SizedLRU
from swerve.core.seeding import digest_of, rng_for
from swerve.core.values import Depth, Image, SceneRef, Steering, Value
from swerve.world import labels
from swerve.world.camera import Camera
from swerve.world.class_map import class_map
from swerve.world.conditions import PRESETS, Conditions, conditions
from swerve.world.driver import RATIO, Pose
from swerve.world.drives import DRIVERS, LONGEST, STANDARD, Drive, drive, parse_frame_key, scene_key
from swerve.world.frames import take_frame
from swerve.world.render import Rendered

VERSION = 4  # raise it whenever the bytes of frames or labels change
SPLITS = ("train", "val", "test")
LABELS = ("steering", "boxes2d", "boxes3d", "masks", "classes", "depth", "calibration")
DAY = "day"  # different daylight for every drive


@cache
def code_digest() -> str:
    """A hash of the modules of the world, whose edits may change frames."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return digest_of([(file.name, file.read_text()) for file in files])


@dataclass(frozen=True)
class World:
    """`drives` drives of `frames` frames, 20 per second; splits share no scene.

    `conditions` may be `day`: different daylight for each drive.
    `labels` may add boxes2d, boxes3d, masks, classes, depth and calibration to the steering angle.
    `driver` may be `cautious`: objects decide more often where it steers, on busier roads of its own.
    """

    drives: int = 20
    frames: int = 1
    split: Annotated[str, OneOfNames(*SPLITS)] = "test"
    conditions: Annotated[str, OneOfNames("day", *PRESETS)] = "clear"
    labels: tuple[str, ...] = ("steering",)
    width: int = 640
    height: int = 360
    seed: int = 0
    driver: Annotated[str, OneOfNames(*DRIVERS)] = STANDARD
    convention: ClassVar[Convention] = Convention("degrees", "left", "wheel", RATIO)
    _recent: SizedLRU = field(default_factory=lambda: SizedLRU(64), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: object = self.labels
        if isinstance(given, str) or len(set(self.labels)) != len(tuple(self.labels)):
            raise InputError(f"world: labels must be a list without repetitions, got {self.labels!r}")
        object.__setattr__(self, "labels", tuple(self.labels))
        for name in ("drives", "frames", "width", "height", "seed"):
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, int):
                raise InputError(f"world: {name} must be a whole number, got {value!r}")
        for name, value, allowed in (
            ("split", self.split, SPLITS),
            ("conditions", self.conditions, (DAY, *PRESETS)),
            ("driver", self.driver, DRIVERS),
            *(("labels", label, LABELS) for label in self.labels),
        ):
            if value not in allowed:
                raise InputError(f"world: {unknown(name, value, allowed)}")
        if self.drives < 1 or not 1 <= self.frames <= LONGEST:
            raise InputError(
                f"world: drives must be at least 1 and frames from 1 to {LONGEST}, got {self.drives} and {self.frames}"
            )
        _ = self.camera  # checks the size

    @cached_property
    def camera(self) -> Camera:
        """The camera that takes the frames."""
        return Camera(self.width, self.height)

    def keys(self) -> Sequence[str]:
        return list(self._known)

    @cached_property
    def _known(self) -> dict[str, None]:
        """Every key, in order."""
        scenes = [scene_key(self.split, self.seed, drive, driver=self.driver) for drive in range(self.drives)]
        return {f"{scene}#{number}": None for scene in scenes for number in range(self.frames)}

    def group(self, key: str) -> str:
        """The scene of a frame."""
        return key.rpartition("#")[0]

    def __getitem__(self, key: str) -> Case:
        if key not in self._known:
            raise KeyError(key)
        return self._recent.get(key, lambda: self._case(key))

    def fingerprint(self) -> str:
        own = () if self.driver == STANDARD else (self.driver,)
        return digest_of("world", VERSION, code_digest(), self.conditions, self.labels, self.width, self.height, *own)

    def weather(self, key: str) -> Conditions:
        """The conditions of a scene."""
        if self.conditions != DAY:
            return conditions(self.conditions)
        rng = rng_for(0, key, "day", 0)
        return conditions("clear", sun=float(rng.uniform(12, 60)), clouds=float(rng.uniform(0.05, 1.0)))

    def _case(self, key: str) -> Case:
        scene_key, number = parse_frame_key(key)
        weather = self.weather(scene_key)
        driven = drive(scene_key)
        pose = driven.poses[number]
        ref = SceneRef(key, weather.numbers())
        seen = take_frame(ref, self.camera, weather, among=len(self._known))
        truth = (Steering(driven.driver.wheel(pose)), ref, *self._labels(driven, pose, seen))
        return Case(key, {"camera": Image(seen.pixels)}, truth, group=scene_key)

    def _labels(self, driven: Drive, pose: Pose, seen: Rendered) -> list[Value]:
        wanted = [label for label in self.labels if label != "steering"]
        if not wanted:
            return []
        items = labels.visible_things(driven.scene, pose, self.camera, seen)
        builders: dict[str, Callable[[], Value]] = {
            "boxes2d": lambda: labels.boxes2d(items, self.camera),
            "boxes3d": lambda: labels.boxes3d(items),
            "masks": lambda: labels.masks(items, seen),
            "classes": lambda: class_map(driven.scene, pose, self.camera),
            "depth": lambda: Depth(seen.depth),
            "calibration": lambda: self.camera.calibration(pose),
        }
        return [builders[label]() for label in wanted]
