"""Junctions with traffic lights as a source of cases: pictures, and a box with its state for every head of our traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from swerve.core.arguments import OneOfNames
from swerve.core.case import Case
from swerve.core.errors import InputError, unknown
from swerve.core.lru import SizedLRU
from swerve.core.seeding import digest_of, rng_for
from swerve.core.values import Image, SceneRef, Value
from swerve.world.camera import Camera
from swerve.world.conditions import PRESETS, Conditions, conditions
from swerve.world.drives import LONGEST
from swerve.world.frames import take_frame
from swerve.world.light_labels import light_labels, visible_heads
from swerve.world.light_views import CAMERAS, PREFIX, camera_of, view
from swerve.world.render import Rendered
from swerve.world.signal_heads import STREETS
from swerve.world.source import SPLITS, VERSION, code_digest

LABELS = ("boxes2d", "boxes3d", "masks", "depth", "calibration")
DAY, ALL = "day", "all"
# With `conditions = "all"`: how often each occurs; the rest are days of their own.
SHARES = {"sunshine": 0.08, "overcast": 0.08, "dusk": 0.12, "night": 0.12, "rain": 0.08, "snow": 0.03, "fog": 0.03}


@dataclass(frozen=True)
class LightWorld:
    """`junctions` junctions with traffic lights, `frames` views of each; splits share no scene and no design of a head.

    `streets` is the set of streets: "A" (960x540) or "B" (1280x720, with other heads, streets and camera). A kind is the
    state of a head: red, yellow, green or off. `conditions` may be "day", different daylight for each frame, or "all",
    which adds dusk, night, rain, snow and fog. `width` and `height` scale the camera's picture.
    """

    junctions: int = 20
    frames: int = 4
    streets: Annotated[str, OneOfNames(*STREETS)] = "A"
    split: Annotated[str, OneOfNames(*SPLITS)] = "test"
    conditions: Annotated[str, OneOfNames(DAY, ALL, *PRESETS)] = DAY
    labels: tuple[Annotated[str, OneOfNames(*LABELS)], ...] = ("boxes2d",)
    width: int = 0  # pixels; 0: as in the set of streets
    height: int = 0
    seed: int = 0
    _recent: SizedLRU = field(default_factory=lambda: SizedLRU(32), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: object = self.labels
        if isinstance(given, str) or len(set(self.labels)) != len(tuple(self.labels)):
            raise InputError(f"world-lights: labels must be a list without repetitions, got {self.labels!r}")
        object.__setattr__(self, "labels", tuple(self.labels))
        for name in ("junctions", "frames", "width", "height", "seed"):
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, int):
                raise InputError(f"world-lights: {name} must be a whole number, got {value!r}")
        for name, value, allowed in (
            ("streets", self.streets, STREETS),
            ("split", self.split, SPLITS),
            ("conditions", self.conditions, (DAY, ALL, *PRESETS)),
            *(("labels", label, LABELS) for label in self.labels),
        ):
            if value not in allowed:
                raise InputError(f"world-lights: {unknown(name, value, allowed)}")
        if self.junctions < 1 or not 1 <= self.frames <= LONGEST:
            raise InputError(
                f"world-lights: junctions must be at least 1 and frames from 1 to {LONGEST}, "
                f"got {self.junctions} and {self.frames}"
            )
        _ = self.camera  # checks the size

    @cached_property
    def camera(self) -> Camera:
        """The camera that takes the frames."""
        usual = CAMERAS[self.streets]
        return camera_of(f"{PREFIX}{self.streets}", (self.width or usual.width, self.height or usual.height))

    def keys(self) -> Sequence[str]:
        return list(self._known)

    @cached_property
    def _known(self) -> dict[str, None]:
        scenes = [f"{PREFIX}{self.streets}/{self.split}/{self.seed}/{number}" for number in range(self.junctions)]
        return {f"{scene}#{number}": None for scene in scenes for number in range(self.frames)}

    def group(self, key: str) -> str:
        """The junction of a frame."""
        return key.rpartition("#")[0]

    def __getitem__(self, key: str) -> Case:
        if key not in self._known:
            raise KeyError(key)
        return self._recent.get(key, lambda: self._case(key))

    def fingerprint(self) -> str:
        camera = (self.camera.width, self.camera.height)
        return digest_of("world-lights", VERSION, code_digest(), self.conditions, self.labels, *camera)

    def weather(self, key: str) -> Conditions:
        """The conditions of a frame."""
        if self.conditions not in (DAY, ALL):
            return conditions(self.conditions)
        rng = rng_for(0, key, "weather", 0)
        shares = {} if self.conditions == DAY else SHARES
        names = [*shares, DAY]
        name = names[int(rng.choice(len(names), p=[*shares.values(), 1 - sum(shares.values())]))]
        if name != DAY:
            return conditions(name)
        sun, clouds, azimuth = (float(rng.uniform(*ends)) for ends in ((12, 60), (0.05, 1.0), (-180, 180)))
        return conditions("clear", sun=sun, clouds=clouds, azimuth=azimuth)

    def _case(self, key: str) -> Case:
        weather = self.weather(key)
        ref = SceneRef(key, weather.numbers())
        seen = take_frame(ref, self.camera, weather, among=len(self._known))
        return Case(key, {"camera": Image(seen.pixels)}, (*self._labels(key, seen), ref), group=self.group(key))

    def _labels(self, key: str, seen: Rendered) -> list[Value]:
        here = view(key)
        items = visible_heads(here.scene, here.pose, self.camera, seen)
        known = light_labels(items, here.pose, self.camera, seen)
        return [known[label]() for label in self.labels]
