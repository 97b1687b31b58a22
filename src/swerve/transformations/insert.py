"""An object set into a sweep as its own beams would have met it, with its box among the labels.

Every beam that meets the object nearer than what it returned returns the object instead, so what stands behind is hidden,
what stands before hides it, and there are as many points on it as the sensor would measure. A beam that returned nothing is
not in a sweep: against the open sky the object stays unseen.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from swerve.core.case import Case, Fact
from swerve.core.errors import NotApplicable, did_you_mean
from swerve.core.region import inside, region_of
from swerve.core.seeding import rng_for
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes3D, PointCloud
from swerve.relations.matching import ground_corners, ground_overlaps
from swerve.transformations.bearing import bearings, meet, wrapped
from swerve.transformations.points import clouds_of, has_camera
from swerve.transformations.solids import LIBRARY, Object

if TYPE_CHECKING:
    from swerve.core.system import System

STREET = -1.73  # metres: how far the ground lies below the roof-top LiDAR of KITTI's car
NOISE = 0.02  # metres along the beam, as an HDL-64E has
FEWEST = 10  # points below which nobody could tell what it is
CLEARANCE = 0.3  # metres above the ground, from which on points are something that stands there
NEAREST = 2.0  # metres between the sensor and the object
ROUNDING, WIDEST = 1e-4, 1.5  # radians
AROUND = (2.0, 6.0, 18.0)  # metres within which the ground is looked for


@dataclass(frozen=True)
class InsertObject(Transformation):
    """A `kind` (car, pedestrian or cyclist) at `x` and `y`, heading `yaw` degrees to the left of ahead; `seed`: which one.

    It stands on the `ground`, a height in the sensor's frame, or on what the sweep shows there. Its box joins the labels,
    and what a system must say of the follow-up. Boxes that it hides are not demanded any more. It applies where nothing
    stands, inside the region if the case has one, and where at least ten beams reach it.
    """

    kind: str
    x: float
    y: float
    yaw: float = 0.0
    seed: int = 0
    ground: float | None = field(default=None, kw_only=True)
    preserves: ClassVar[tuple[str, ...]] = ("region", "calibration", "scene")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in LIBRARY:
            raise ValueError(f"kind cannot be {self.kind!r}: {did_you_mean(str(self.kind), LIBRARY)}")
        for name in ("x", "y", "yaw", "ground"):
            number = getattr(self, name)
            if name == "ground" and number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise ValueError(f"{name} must be a number, got {number!r}")
            object.__setattr__(self, name, float(number) + 0.0)

    def applies(self, case: Case) -> str | None:
        """A reason when it would stand on something, out of sight, or before a camera that does not show it."""
        sweeps = list(clouds_of(case))
        if not sweeps:
            return "the case has no point cloud to set it into"
        if has_camera(case):
            return "the case has a camera, which would not see it: read the LiDAR alone"
        region = region_of(case)
        if region is not None and not inside(region, ground_corners(self.box)).all():
            return f"the {self.kind} would not stand wholly inside the region, where alone obstacles are demanded"
        return next((why for why in map(self._on(case)._refused, sweeps) if why), None)

    def __call__(self, case: Case) -> Case:
        """The follow-up of `case`, standing on its ground."""
        if self.ground is None and next(clouds_of(case), None) is not None:
            return self._on(case)(case)
        return super().__call__(case)

    def facts(self, source: Case) -> Mapping[str, Fact]:
        """How many points lie on it (in the first sweep), and the height it stands at."""
        seen = self._seen(next(clouds_of(source)).xyzi)
        return {"inserted": float(len(seen.rows)), "ground": self._height}

    def points(self, value: PointCloud) -> PointCloud:
        """The sweep with what the beams meet first."""
        here = self if self.ground is not None else dataclasses.replace(self, ground=ground_at(value, self.x, self.y))
        seen = here._seen(value.xyzi)
        if not len(seen.rows):
            return value
        moved = value.xyzi.copy()
        moved[seen.rows, :3] = seen.ways * seen.metres[:, None]
        moved[seen.rows, 3] = seen.shine
        return PointCloud(moved)

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """The boxes and its own; of those it hides, or stands on, nobody can tell."""
        care = np.append(np.asarray(value.care) & ~self._hides(value.xyzlwhy), True)
        rows, scores = np.concatenate([value.xyzlwhy, self.box[None]]), np.append(np.asarray(value.scores), 1.0)
        return Boxes3D(rows, (*value.kinds, self.kind), scores, care)

    @property
    def box(self) -> Array:
        """Its box: centre, length, width, height and yaw."""
        low, high = _made(self.kind, self.seed).bounds
        yaw = math.radians(self.yaw)
        return np.array([self.x, self.y, self._height + (low[2] + high[2]) / 2, *(high - low), wrapped(np.array(yaw))])

    def simpler(self) -> Iterator[Transformation]:
        """The first of its kind, straight ahead, at whole metres."""
        tidy = {"seed": 0, "yaw": 0.0, "x": float(round(self.x)), "y": float(round(self.y))}
        for name, value in tidy.items():
            if value != getattr(self, name):
                yield dataclasses.replace(self, **{name: value})  # type: ignore[arg-type]

    def words(self) -> str:
        """Such as "a car inserted 12 m ahead and 3 m to the left, turned by 90°"."""
        ahead = f"{abs(self.x):g} m {'ahead' if self.x >= 0 else 'behind'}"
        aside = f"{abs(self.y):g} m to the {'left' if self.y >= 0 else 'right'}"
        return f"a {self.kind} inserted {ahead} and {aside}" + (f", turned by {self.yaw:g}°" if self.yaw else "")

    @property
    def _height(self) -> float:
        return STREET if self.ground is None else self.ground

    def _on(self, case: Case) -> InsertObject:
        """Itself on the ground of the first sweep, unless it knows its ground."""
        if self.ground is not None:
            return self
        return dataclasses.replace(self, ground=ground_at(next(clouds_of(case)), self.x, self.y))

    def _refused(self, sweep: PointCloud) -> str | None:
        if math.hypot(self.x, self.y) - np.hypot(*self.box[3:5]) / 2 < NEAREST:
            return f"the {self.kind} would stand less than {NEAREST:g} m from the sensor"
        if standing := int(self._within(sweep.xyzi).sum()):
            return f"something stands where the {self.kind} would: {standing} points"
        if (seen := len(self._seen(sweep.xyzi).rows)) < FEWEST:
            return f"only {seen} beams reach the {self.kind}, of {FEWEST} that it takes"
        return None

    def _within(self, xyzi: Array) -> Array:
        """Which points in its direction stand in its box, above the ground."""
        low, high = _made(self.kind, self.seed).bounds
        own = self._own(xyzi[self._facing(xyzi), :3] - (self.x, self.y, self._height))
        return np.asarray(((own >= low) & (own <= high)).all(axis=1) & (own[:, 2] > CLEARANCE))

    def _seen(self, xyzi: Array) -> _Seen:
        """The beams that meet it nearer than what they returned."""
        rows = self._facing(xyzi)
        far = np.linalg.norm(xyzi[rows, :3].astype(np.float64), axis=1)
        ways = xyzi[rows, :3] / far[:, None]
        eye = self._own(-np.array([[self.x, self.y, self._height]]))[0]
        metres, shine = _made(self.kind, self.seed).met(eye, self._own(ways))
        met = np.flatnonzero(metres < far)
        rng = rng_for("insert", self.seed)
        metres = metres[met] + NOISE * rng.standard_normal(len(met))
        return _Seen(rows[met], ways[met], metres, np.clip(shine[met] * rng.uniform(0.8, 1.2, len(met)), 0, 1))

    def _facing(self, xyzi: Array) -> Array:
        """The beams in its direction, the only ones worth asking; it is never so near that it takes half the view."""
        (least,), (most,) = bearings(self.box[None])
        middle, half = (least + most) / 2, min((most - least) / 2 + ROUNDING, WIDEST)
        cos, sin, wide = (np.float32(number) for number in (math.cos(middle), math.sin(middle), math.tan(half)))
        with np.errstate(invalid="ignore", over="ignore"):
            ahead = xyzi[:, 0] * cos + xyzi[:, 1] * sin
            aside = xyzi[:, 1] * cos - xyzi[:, 0] * sin
            rows = np.flatnonzero((ahead > 0) & (np.abs(aside) <= wide * ahead))
        return rows[np.isfinite(xyzi[rows, :3]).all(axis=1)]

    def _own(self, vectors: Array) -> Array:
        """Vectors in the object's frame."""
        cos, sin = math.cos(math.radians(self.yaw)), math.sin(math.radians(self.yaw))
        return np.asarray(vectors @ np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]]))

    def _hides(self, boxes: Array) -> Array:
        """Which boxes lie behind it, if only in part, or where it stands."""
        (least,), (most,) = bearings(self.box[None])
        farther = np.hypot(boxes[:, 0], boxes[:, 1]) > math.hypot(self.x, self.y)
        on_it = ground_overlaps(boxes, self.box[None])[:, 0] > 0
        return np.asarray((meet(*bearings(boxes), least, most) & farther) | on_it)


@dataclass(frozen=True)
class _Seen:
    """Beams that meet an object: their rows of the sweep, their directions, metres and intensities."""

    rows: Array
    ways: Array
    metres: Array
    shine: Array


@lru_cache(maxsize=64)
def _made(kind: str, seed: int) -> Object:
    """The object, which is the same for the same seed wherever it stands."""
    return LIBRARY[kind](rng_for("object", kind, seed))


def ground_at(sweep: PointCloud, x: float, y: float) -> float:
    """The height of the ground at a place: that of the lowest tenth of the nearest points, or `STREET` without any."""
    away = np.hypot(sweep.xyzi[:, 0] - np.float32(x), sweep.xyzi[:, 1] - np.float32(y))
    for metres in AROUND:
        near = sweep.xyzi[away <= metres, 2]
        near = near[np.isfinite(near)]
        if len(near) >= FEWEST:
            return round(float(np.percentile(near, 10)), 3)
    return STREET


@dataclass(frozen=True)
class Insertions:
    """Objects of any of `kinds` where they can stand: in the region, where the case has one, `near` to `far` metres away."""

    kinds: Sequence[str] = tuple(LIBRARY)
    near: float = 5.0
    far: float = 40.0
    tries: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        for kind in self.kinds:
            InsertObject(kind, 9.0, 0.0)
        if not self.kinds or not 0 < self.near < self.far or self.tries < 1:
            raise ValueError(f"insertions need kinds, 0 < near < far and tries, got {self}")

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        """One that applies; raises `NotApplicable` where none of the tries does."""
        del system
        if next(clouds_of(case), None) is None:
            raise NotApplicable("the case has no point cloud to set an object into")
        for _ in range(self.tries):
            change = self._somewhere(rng)
            if change.applies(case) is None:
                return change
        raise NotApplicable(f"no place to stand for a {' or a '.join(self.kinds)} in {self.tries} tries")

    def grid(self) -> Sequence[Transformation]:
        """Too many to list."""
        return ()

    def _somewhere(self, rng: np.random.Generator) -> InsertObject:
        kind = self.kinds[int(rng.integers(len(self.kinds)))]
        angle, far, seed = rng.uniform(-np.pi, np.pi), rng.uniform(self.near, self.far), int(rng.integers(2**31))
        # Whoever drives does so along the road, most often; walkers go anywhere.
        yaw = rng.uniform(-180, 180) if kind == "pedestrian" else 180.0 * rng.integers(2) + rng.normal(0, 8)
        x, y = far * math.cos(angle), far * math.sin(angle)
        return InsertObject(kind, round(x, 2), round(y, 2), round(float(yaw), 1), seed)
