"""Drives through the embedded world by key, and the names of their frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from swerve.core.errors import InputError
from swerve.core.lru import SizedLRU
from swerve.world.cautious import PREFIX as CAUTIOUS_PREFIX
from swerve.world.cautious import CautiousDriver, busier
from swerve.world.crowd import add_crowd
from swerve.world.driver import Driver, Pose, driver
from swerve.world.plan import scene
from swerve.world.scene import Scene

LONGEST = 300  # frames of a drive, limited by the length of its road
STANDARD, CAUTIOUS = DRIVERS = ("standard", "cautious")
CROWDED = "lidar-"  # prefix of the keys of scenes with a crowd in every frame
ASTRAY = "train/"  # prefix of the keys of drives that go astray, so that a network learns to recover
BOUND = 384 << 20  # bytes of drives that a process keeps: about ten of them
_TRIANGLE = 350  # bytes: in its thing, in the scene and in the scene's Embree tree


@dataclass(frozen=True, eq=False)
class Drive:
    """A scene and its driver."""

    scene: Scene
    driver: Driver

    @cached_property
    def poses(self) -> list[Pose]:
        """One pose per frame, up to the longest drive; those of the training split go astray and recover."""
        return self.driver.drive(LONGEST, astray=self.scene.key.removeprefix(CAUTIOUS_PREFIX).startswith(ASTRAY))

    def scene_of(self, number: int) -> Scene:
        """The scene of a frame: the drive's own, with that frame's crowd if its key has the prefix `CROWDED`."""
        return add_crowd(self.scene, self.poses[number]) if self.scene.key.startswith(CROWDED) else self.scene

    @property
    def size(self) -> int:
        """Its bytes in memory, approximately."""
        return _TRIANGLE * len(self.scene.static.mesh)


_DRIVES = SizedLRU(BOUND, weigh=lambda item: item.size if isinstance(item, Drive) else 0)


def drive(key: str) -> Drive:
    """The drive of a scene's key; the last few are cached."""
    return _DRIVES.get(key, lambda: _drive(key))


def scene_key(split: str, seed: int, number: int, *, driver: str = STANDARD) -> str:
    """The key of a drive's scene; each driver has scenes of its own."""
    prefix = CAUTIOUS_PREFIX if driver == CAUTIOUS else ""
    return f"{prefix}{split}/{seed}/{number}"


def _drive(key: str) -> Drive:
    place = scene(key)
    if key.startswith(CAUTIOUS_PREFIX):
        place = busier(place)
        built = Drive(place, CautiousDriver(place, place.speed))
    else:
        built = Drive(place, driver(place))
    _ = place.static, built.poses  # computed now, before threads share them
    return built


def parse_frame_key(name: str) -> tuple[str, int]:
    """Scene key and frame number of a reference such as `test/0/12#3`."""
    key, _, number = name.rpartition("#")
    if not key or not number.isdecimal() or int(number) >= LONGEST:
        raise InputError(f"{name!r} is not a frame of the world: expected a key such as 'test/0/12#3'")
    return key, int(number)
