"""A driver that keeps its lane and drives around obstacles: pure pursuit on a bicycle model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.world.scene import Scene, Thing

RATE = 20.0  # frames a second
WHEELBASE = 2.7  # metres
RATIO = 15.0  # degrees of the steering wheel per degree of the road wheels (D-30)
LARGEST = 450.0  # degrees of the steering wheel
WIDTH = 1.8  # metres, of our car
PASSING = 0.75  # metres of clearance when passing
EASE, BESIDE = 15.0, 3.0  # metres over which to pull out, and to stay out before and after
MOST_OVER = 1.05  # metres that we move over at most, since oncoming traffic does not give way
FARTHEST_ASTRAY = 0.9  # metres off our path
OVERSHOOT = 3.0  # metres of driving until the driver has corrected a wrong heading
SLOW = 6.0  # metres per second: slower traffic is overtaken


@dataclass(frozen=True)
class Pose:
    """Our car's pose: its rear axle on the ground, its heading, and seconds since the start of the drive."""

    x: float
    y: float
    yaw: float
    time: float
    speed: float


@dataclass(frozen=True, eq=False)
class Driver:
    """Drives through one scene, and gives the steering angle of a good driver at any pose."""

    scene: Scene
    speed: float

    @property
    def lookahead(self) -> float:
        """Metres to the point steered at."""
        return 3.0 + 0.7 * self.speed

    def wheel(self, pose: Pose) -> float:
        """Degrees of the steering wheel, left positive, towards the point `lookahead` metres along our path."""
        road = self.scene.road
        s = float(road.locate(np.array([pose.x]), np.array([pose.y]))[0, 0])
        target = s + self.lookahead
        x, y, _ = road.at(target, self.offset(target, pose.time))
        ahead, left = _relative_position(pose, float(x), float(y))
        angle = np.arctan(2 * WHEELBASE * left / (ahead**2 + left**2))
        return float(np.clip(np.degrees(angle) * RATIO, -LARGEST, LARGEST))

    def offset(self, s: float, time: float) -> float:
        """`d` of our path: the lane's middle, shifted to pass parked vehicles and cyclists."""
        side = self.scene.road.side
        shift = max((around.shift(s, time) for around in self._obstacles), default=0.0)
        return self.scene.road.lane_middle() - side * shift

    def deviation(self, pose: Pose) -> float:
        """Metres that a pose is left of our path, measured across the road; the path is where we should be at that time."""
        s, d, _ = self.scene.road.locate(np.array([pose.x]), np.array([pose.y]))[0].tolist()
        return float(d - self.offset(s, pose.time))

    def path(self, s: Array, time: float) -> tuple[Array, Array, Array]:
        """x, y and the road's heading of our path at several `s` along the road."""
        return self.scene.road.at(s, np.array([self.offset(float(place), time) for place in s]))

    @cached_property
    def _obstacles(self) -> tuple[Obstacle, ...]:
        found = (_obstacle(self.scene, thing) for thing in self.scene.things)
        return tuple(each for each in found if each is not None)

    def drive(self, frames: int, *, shove: float = 1.0, astray: bool = False) -> list[Pose]:
        """Poses of consecutive frames; steering noise scaled by `shove` makes the car leave its path and recover.

        With `astray`, someone jerks the steering wheel now and then, so that the car is up to a metre off its path and not
        parallel to it. What the driver steers at these poses, `wheel`, leads back.
        """
        rng = rng_for(0, self.scene.key, "hand", 0)
        noise = _steering_noise(rng, frames) * shove * -self.scene.road.side
        pose = self._start(rng, shove)
        jerks = _jerks(rng, frames) * -self.scene.road.side if astray else np.zeros(frames)
        poses = []
        for turn, jerk in zip(noise.tolist(), jerks.tolist(), strict=True):
            poses.append(pose)
            scale = self._noise_scale(pose)
            pushed = jerk if scale == 1.0 and self._off_path(pose, jerk) < FARTHEST_ASTRAY else 0.0
            pose = next_pose(pose, self.wheel(pose) * (pushed == 0.0) + turn * scale + pushed)
        return poses

    def _off_path(self, pose: Pose, jerk: float) -> float:
        """Metres off our path towards the side of `jerk`, with those that the car will still move before it recovers."""
        s, d, _ = self.scene.road.locate(np.array([pose.x]), np.array([pose.y]))[0].tolist()
        heading = float(self.scene.road.at(s)[2])
        coming = OVERSHOOT * float(np.sin(pose.yaw - heading))
        return float(np.sign(jerk)) * (d - self.offset(s, pose.time) + coming)

    def _noise_scale(self, pose: Pose) -> float:
        """The scale of the steering noise: smaller while passing something."""
        s = float(self.scene.road.locate(np.array([pose.x]), np.array([pose.y]))[0, 0])
        passing = any(abs(self.offset(s + ahead, pose.time) - self.scene.road.lane_middle()) > 0.1 for ahead in (0.0, 8.0))
        return 0.2 if passing else 1.0

    def _start(self, rng: np.random.Generator, shove: float) -> Pose:
        road, s = self.scene.road, self.scene.start
        aside, askew = rng.normal(0, 0.35) * shove, rng.normal(0, 0.025) * shove
        x, y, heading = road.at(s, self.offset(s, 0.0) - road.side * float(aside))
        return Pose(float(x), float(y), float(heading) - road.side * float(askew), 0.0, self.speed)


def driver(scene: Scene) -> Driver:
    """The driver of a scene."""
    return Driver(scene, scene.speed)


@dataclass(frozen=True)
class Obstacle:
    """An obstacle on our path: its initial position, speed and length, and how far to move over."""

    s: float
    speed: float
    length: float
    over: float

    def shift(self, s: float, time: float) -> float:
        """Metres to move over at `s`, eased in and out."""
        away = abs(s - self.s - self.speed * time) - self.length / 2 - BESIDE
        return self.over * 0.5 * (1 + np.cos(np.pi * np.clip(away / EASE, 0, 1)))


def _obstacle(scene: Scene, thing: Thing) -> Obstacle | None:
    road = scene.road
    if thing.kind not in ("car", "van", "bus", "truck", "cyclist"):
        return None
    if thing.track is not None and not 0 <= thing.track.speed < SLOW:
        return None
    low, high = thing.mesh.bounds()
    if thing.track is None:
        s, d, _ = road.locate(np.array([thing.x]), np.array([thing.y]))[0]
    else:
        s, d = thing.track.s, thing.track.d
    inner = road.side * float(d) - float(high[1] - low[1]) / 2  # positive towards our side of the road
    over = road.side * road.lane_middle() - (inner - PASSING - WIDTH / 2)
    if over <= 0 or road.side * d < 0:
        return None
    speed = 0.0 if thing.track is None else thing.track.speed
    return Obstacle(float(s), speed, float(high[0] - low[0]), min(over, MOST_OVER))


def _steering_noise(rng: np.random.Generator, frames: int) -> Array:
    """Smooth steering noise in degrees, with an occasional strong deviation."""
    from scipy.ndimage import gaussian_filter1d  # takes 0.2 s to import

    noise = gaussian_filter1d(rng.standard_normal(frames + 60), 7.0)[30 : frames + 30]
    return noise / 0.19 * 9.0


def _jerks(rng: np.random.Generator, frames: int) -> Array:
    """Degrees by which someone turns the steering wheel in each frame: half a second of it, every two to four seconds."""
    jerks, start = np.zeros(frames), int(rng.integers(0, 20))
    while start < frames:
        strong = float(rng.choice([-1.0, 1.0]) * rng.uniform(25, 80))
        jerks[start : start + int(rng.integers(8, 16))] = strong
        start += int(rng.integers(40, 80))
    return jerks


def next_pose(pose: Pose, wheel: float, *, rate: float = RATE) -> Pose:
    """The pose after 1 / `rate` seconds with the steering wheel at `wheel` degrees: a kinematic bicycle at constant speed.

    The heading turns by exactly speed / wheelbase * tan(road wheel angle) per second.
    """
    turn = pose.speed / WHEELBASE * np.tan(np.radians(wheel / RATIO)) / rate
    middle = pose.yaw + turn / 2
    step = pose.speed / rate
    return Pose(
        pose.x + float(np.cos(middle)) * step,
        pose.y + float(np.sin(middle)) * step,
        pose.yaw + float(turn),
        pose.time + 1 / rate,
        pose.speed,
    )


def _relative_position(pose: Pose, x: float, y: float) -> tuple[float, float]:
    """Metres ahead of and left of the rear axle."""
    east, north = x - pose.x, y - pose.y
    cos, sin = np.cos(pose.yaw), np.sin(pose.yaw)
    return float(east * cos + north * sin), float(north * cos - east * sin)
