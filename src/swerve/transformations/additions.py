"""A space of additions: one more object in a free place along the road."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swerve.core.arguments import check_known, check_number, check_whole
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.transformation import Transformation
from swerve.transformations.reswap import AddObjects
from swerve.world.driver import Pose
from swerve.world.drives import Drive, drive, parse_frame_key
from swerve.world.free_ground import Spot, is_free
from swerve.world.labels import SMALLEST
from swerve.world.model_sizes import model_sizes
from swerve.world.objects import objects_in, scene_of, view_of
from swerve.world.scene import LABELLED, Scene

if TYPE_CHECKING:
    from swerve.core.system import System

VEHICLES = ("car", "van", "bus", "truck")


@dataclass(frozen=True)
class Additions:
    """One more object of the given `kinds` in a free place `near` to `far` metres ahead: parked, at the kerb or walking.

    Vehicles stand at the kerb as parked ones do, cyclists at the edge of the lane, people on the pavement or a step off it.
    """

    kinds: tuple[str, ...] = ("car", "van", "truck", "cyclist", "pedestrian")
    near: float = 8.0
    far: float = 45.0
    tries: int = 60

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        if not self.kinds:
            raise ValueError(f"'kinds' must name at least one of {', '.join(LABELLED)}")
        for kind in self.kinds:
            check_known("kind", kind, LABELLED)
        check_number("near", self.near, 4)
        check_number("far", self.far, self.near, above=True)
        check_whole("tries", self.tries, 1)

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        """An addition that is visible; raises `NotApplicable` if none of the tries is."""
        del system
        if case.parent is not None:
            raise NotApplicable("the frame was already changed: an edit of its scene must be the first step of a chain")
        frame, camera = scene_of(case).scene, view_of(case)
        key, number = parse_frame_key(frame)
        driven = drive(key)
        for _ in range(self.tries):
            change = self._draw(frame, driven, driven.poses[number], rng)
            if change is not None:
                added = objects_in(frame, camera, change.edits).numbered.get(len(driven.scene.things) + 1)
                if added is not None and added.visible >= SMALLEST:
                    return change
        raise NotApplicable(f"found no free, visible place for a {' or a '.join(self.kinds)} in {self.tries} tries")

    def grid(self) -> Sequence[Transformation]:
        """Empty: there are too many to list."""
        return ()

    def _draw(self, frame: str, driven: Drive, pose: Pose, rng: np.random.Generator) -> AddObjects | None:
        """An addition in a random place, or None if that is taken."""
        scene = driven.scene
        kind = self.kinds[int(rng.integers(len(self.kinds)))]
        model = int(rng.integers(len(model_sizes(kind))))
        here = float(scene.road.locate(np.array([pose.x]), np.array([pose.y]))[0, 0])
        s, side = here + float(rng.uniform(self.near, self.far)), int(rng.choice([-1, 1]))
        length, width, _ = model_sizes(kind)[model]
        if kind in VEHICLES and scene.road.near_junction(s, length / 2 + 3):
            return None
        x, y, heading = scene.road.at(s, side * _beside(scene, kind, rng))
        turned = rng.uniform(-np.pi, np.pi) if kind == "pedestrian" else (0.0 if side == scene.road.side else np.pi)
        spot = float(x), float(y), float(heading) + float(turned)
        if not is_free(scene, spot, (float(length), float(width)), pose.time):
            return None
        return AddObjects(frame, (kind,), (model,), (_seen_from(pose, spot),))


def _beside(scene: Scene, kind: str, rng: np.random.Generator) -> float:
    """Metres from the middle of the road."""
    profile = scene.road.profile
    if kind in VEHICLES:
        return profile.half - 1.15 if profile.bay else profile.half + float(rng.uniform(-0.7, 0.2))
    if kind == "cyclist":
        return profile.lanes * profile.lane - 0.35
    return profile.half + float(rng.uniform(-0.9, max(0.3, profile.walk - 0.5)))


def _seen_from(pose: Pose, spot: Spot) -> Spot:
    """Metres ahead and to the left of our rear axle, and degrees turned to the left, rounded to be read."""
    east, north = spot[0] - pose.x, spot[1] - pose.y
    cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
    turn = math.degrees((spot[2] - pose.yaw + math.pi) % (2 * math.pi) - math.pi)
    return round(east * cos + north * sin, 2), round(north * cos - east * sin, 2), round(turn, 1)
