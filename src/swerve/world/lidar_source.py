"""Sweeps of the embedded world as a source of cases: a point cloud, the drivable region, and labelled boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from swerve.core.arguments import OneOfNames
from swerve.core.case import Case
from swerve.core.errors import InputError, unknown
from swerve.core.lru import SizedLRU
from swerve.core.seeding import digest_of
from swerve.core.values import Boxes3D, Image, PointCloud, Region, SceneRef
from swerve.world.camera import Camera
from swerve.world.conditions import conditions
from swerve.world.crowd import outline
from swerve.world.drivable import drivable
from swerve.world.drives import CROWDED, LONGEST, drive, parse_frame_key
from swerve.world.frames import take_frame
from swerve.world.laser_scanner import LaserScanner
from swerve.world.lidar_sweep import boxes, sweep
from swerve.world.source import SPLITS, VERSION, code_digest

EVERY = 10  # frames of 1/20 s between two sweeps of a drive: half a second, so that no two look alike


@dataclass(frozen=True)
class LidarWorld:
    """`drives` drives of `frames` sweeps, half a second apart, each with its own crowd; splits share no scene.

    Points, region and boxes are in metres from the sensor, 1.73 m above the road: x ahead, y left, z up, as in KITTI.
    `camera` adds the camera image of the same moment and the calibration.
    """

    drives: int = 20
    frames: int = 1
    split: Annotated[str, OneOfNames(*SPLITS)] = "test"
    seed: int = 0
    camera: bool = False
    _recent: SizedLRU = field(default_factory=lambda: SizedLRU(16), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("drives", "frames", "seed"):
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, int):
                raise InputError(f"lidar-world: {name} must be a whole number, got {value!r}")
        if self.split not in SPLITS:
            raise InputError(f"lidar-world: {unknown('split', self.split, SPLITS)}")
        if not isinstance(self.camera, bool):
            raise InputError(f"lidar-world: camera must be true or false, got {self.camera!r}")
        if self.drives < 1 or not 1 <= self.frames <= LONGEST // EVERY:
            most = LONGEST // EVERY
            raise InputError(
                f"lidar-world: drives must be at least 1 and frames from 1 to {most}, got {self.drives} and {self.frames}"
            )

    @property
    def lidar(self) -> LaserScanner:
        """The LiDAR that takes the sweeps."""
        return LaserScanner()

    def keys(self) -> Sequence[str]:
        return list(self._known)

    @cached_property
    def _known(self) -> dict[str, None]:
        scenes = [f"{CROWDED}{self.split}/{self.seed}/{number}" for number in range(self.drives)]
        return {f"{scene}#{number * EVERY}": None for scene in scenes for number in range(self.frames)}

    def group(self, key: str) -> str:
        """The scene of a sweep."""
        return key.rpartition("#")[0]

    def __getitem__(self, key: str) -> Case:
        if key not in self._known:
            raise KeyError(key)
        return self._recent.get(key, lambda: self._case(key))

    def fingerprint(self) -> str:
        return digest_of("lidar-world", VERSION, code_digest(), self.camera)

    def samples(self) -> Iterator[tuple[PointCloud, Region, Boxes3D]]:
        """Every sweep with its region and boxes, generated one by one without caching: training data."""
        for key in self._known:
            yield self._sample(key)

    def _sample(self, key: str) -> tuple[PointCloud, Region, Boxes3D]:
        scene_key, number = parse_frame_key(key)
        driven = drive(scene_key)
        pose, place = driven.poses[number], driven.scene_of(number)
        found = sweep(place, pose, self.lidar)
        rings = tuple(outline(thing) for thing in place.things if thing.kind == "island")
        region = drivable(place.road, pose, self.lidar.forward, rings)
        return found.cloud, region, boxes(place, pose, self.lidar, found, region)

    def _case(self, key: str) -> Case:
        cloud, region, truth = self._sample(key)
        ref = SceneRef(key, conditions("clear").numbers())
        case = Case(key, {"lidar": cloud, "region": region}, (truth, ref), group=self.group(key))
        return self._with_camera(case, ref) if self.camera else case

    def _with_camera(self, case: Case, ref: SceneRef) -> Case:
        """The case with the camera image and the calibration."""
        camera = Camera()
        picture = Image(take_frame(ref, camera, conditions("clear"), among=len(self._known)).pixels)
        truth = (*case.truth, self.lidar.calibration(camera))
        return Case(case.key, {**case.inputs, "camera": picture}, truth, group=case.group)
