"""An object inserted into a sweep by ray casting along the sweep's own beams; its box is added to the labels.

A beam that hits the object before its recorded return returns the object instead. So the object occludes what is behind
it, is occluded by what is in front, and gets as many points as the sensor would measure. Beams without a return are not in
a sweep, so the object gets no points against the open sky.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from swerve.core.arguments import check_number
from swerve.core.case import Case, Fact
from swerve.core.errors import NotApplicable, unknown
from swerve.core.region import inside, region_of
from swerve.core.seeding import rng_for
from swerve.core.transformation import Transformation
from swerve.core.values import Array, Boxes3D, PointCloud
from swerve.relations.matching import ground_corners, ground_overlaps
from swerve.transformations.points import bearings, clouds_of, has_camera, spans_overlap, wrap_angle
from swerve.transformations.solids import LIBRARY, Object

if TYPE_CHECKING:
    from swerve.core.system import System

DEFAULT_GROUND = -1.73  # metres: the ground below the LiDAR on KITTI's car
NOISE = 0.02  # metres along the beam: an HDL-64E's
MIN_RETURNS = 10  # an object with fewer cannot be recognised
CLEARANCE = 0.3  # metres above the ground: higher points belong to objects
MIN_DISTANCE = 2.0  # metres between the sensor and the object
ROUNDING, MAX_HALF_ANGLE = 1e-4, 1.5  # radians
GROUND_RADII = (2.0, 6.0, 18.0)  # metres around the object in which the ground height is estimated


@dataclass(frozen=True)
class InsertObject(Transformation):
    """A `kind` (car, pedestrian or cyclist) at `x` and `y`, heading `yaw` degrees left of ahead; `seed` picks the model.

    It stands at height `ground` in the sensor's frame, by default on the ground that the sweep shows there. Its box is added
    to the labels and to the expected answer; boxes that it occludes are no longer required. It applies where the space is
    free, inside the region if the case has one, and where at least ten beams hit it.
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
            raise ValueError(unknown("kind", self.kind, LIBRARY))
        for name in ("x", "y", "yaw", "ground"):
            number = getattr(self, name)
            if name == "ground" and number is None:
                continue
            check_number(name, number)
            object.__setattr__(self, name, float(number) + 0.0)

    def applies(self, case: Case) -> str | None:
        """Why it does not apply (the place is taken, out of sight, outside the region, or visible to a camera), or None."""
        sweeps = list(clouds_of(case))
        if not sweeps:
            return "the case has no point cloud to insert an object into"
        if has_camera(case):
            return "the case has a camera, whose image would not show the object: read the LiDAR alone"
        region = region_of(case)
        if region is not None and not inside(region, ground_corners(self.box)).all():
            return f"the {self.kind} would not be fully inside the region, and only obstacles inside it are required"
        return next((why for why in map(self._with_ground(case)._refusal, sweeps) if why), None)

    def __call__(self, case: Case) -> Case:
        """The follow-up of `case`, with the object on its ground."""
        if self.ground is None and next(clouds_of(case), None) is not None:
            return self._with_ground(case)(case)
        return super().__call__(case)

    def facts(self, source: Case) -> Mapping[str, Fact]:
        """The number of points on it (in the first sweep), and the ground height."""
        returns = self._object_returns(next(clouds_of(source)).xyzi)
        return {"inserted": float(len(returns.rows)), "ground": self._height}

    def points(self, value: PointCloud) -> PointCloud:
        """The sweep with the returns of the object."""
        grounded = self if self.ground is not None else dataclasses.replace(self, ground=ground_at(value, self.x, self.y))
        returns = grounded._object_returns(value.xyzi)
        if not len(returns.rows):
            return value
        moved = value.xyzi.copy()
        moved[returns.rows, :3] = returns.directions * returns.metres[:, None]
        moved[returns.rows, 3] = returns.intensities
        return PointCloud(moved)

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """The boxes and the object's own; those it occludes or overlaps get `care` False."""
        care = np.append(np.asarray(value.care) & ~self._occluded(value.xyzlwhy), True)
        rows, scores = np.concatenate([value.xyzlwhy, self.box[None]]), np.append(np.asarray(value.scores), 1.0)
        return Boxes3D(rows, (*value.kinds, self.kind), scores, care)

    @property
    def box(self) -> Array:
        """Its box: centre, length, width, height and yaw."""
        low, high = _build_object(self.kind, self.seed).bounds
        yaw = math.radians(self.yaw)
        return np.array([self.x, self.y, self._height + (low[2] + high[2]) / 2, *(high - low), wrap_angle(np.array(yaw))])

    def simpler(self) -> Iterator[Transformation]:
        """The first model of its kind, facing ahead, at whole metres."""
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
        return DEFAULT_GROUND if self.ground is None else self.ground

    def _with_ground(self, case: Case) -> InsertObject:
        """This change with the ground height of the first sweep, unless it is given."""
        if self.ground is not None:
            return self
        return dataclasses.replace(self, ground=ground_at(next(clouds_of(case)), self.x, self.y))

    def _refusal(self, sweep: PointCloud) -> str | None:
        if math.hypot(self.x, self.y) - np.hypot(*self.box[3:5]) / 2 < MIN_DISTANCE:
            return f"the {self.kind} would be less than {MIN_DISTANCE:g} m from the sensor"
        if taken := int(self._points_inside(sweep.xyzi).sum()):
            return f"the place of the {self.kind} is taken: {taken} points lie inside its box"
        if (hits := len(self._object_returns(sweep.xyzi).rows)) < MIN_RETURNS:
            return f"only {hits} beams hit the {self.kind}, and at least {MIN_RETURNS} are needed"
        return None

    def _points_inside(self, xyzi: Array) -> Array:
        """Which of the points in its direction lie in its box, above the ground."""
        low, high = _build_object(self.kind, self.seed).bounds
        own = self._to_object_frame(xyzi[self._rays_towards(xyzi), :3] - (self.x, self.y, self._height))
        return np.asarray(((own >= low) & (own <= high)).all(axis=1) & (own[:, 2] > CLEARANCE))

    def _object_returns(self, xyzi: Array) -> _ObjectReturns:
        """The beams that hit the object before their recorded return."""
        rows = self._rays_towards(xyzi)
        far = np.linalg.norm(xyzi[rows, :3].astype(np.float64), axis=1)
        directions = xyzi[rows, :3] / far[:, None]
        eye = self._to_object_frame(-np.array([[self.x, self.y, self._height]]))[0]
        metres, reflectivity = _build_object(self.kind, self.seed).intersect(eye, self._to_object_frame(directions))
        hit = np.flatnonzero(metres < far)
        rng = rng_for("insert", self.seed)
        metres = metres[hit] + NOISE * rng.standard_normal(len(hit))
        return _ObjectReturns(
            rows[hit], directions[hit], metres, np.clip(reflectivity[hit] * rng.uniform(0.8, 1.2, len(hit)), 0, 1)
        )

    def _rays_towards(self, xyzi: Array) -> Array:
        """The beams in its direction; the object is never near enough to cover half the view."""
        (least,), (most,) = bearings(self.box[None])
        middle, half = (least + most) / 2, min((most - least) / 2 + ROUNDING, MAX_HALF_ANGLE)
        cos, sin, wide = (np.float32(number) for number in (math.cos(middle), math.sin(middle), math.tan(half)))
        with np.errstate(invalid="ignore", over="ignore"):
            ahead = xyzi[:, 0] * cos + xyzi[:, 1] * sin
            aside = xyzi[:, 1] * cos - xyzi[:, 0] * sin
            rows = np.flatnonzero((ahead > 0) & (np.abs(aside) <= wide * ahead))
        return rows[np.isfinite(xyzi[rows, :3]).all(axis=1)]

    def _to_object_frame(self, vectors: Array) -> Array:
        """Vectors in the object's frame."""
        cos, sin = math.cos(math.radians(self.yaw)), math.sin(math.radians(self.yaw))
        return np.asarray(vectors @ np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]]))

    def _occluded(self, boxes: Array) -> Array:
        """Which boxes are at least partly behind it, or overlap it."""
        (least,), (most,) = bearings(self.box[None])
        farther = np.hypot(boxes[:, 0], boxes[:, 1]) > math.hypot(self.x, self.y)
        on_it = ground_overlaps(boxes, self.box[None])[:, 0] > 0
        return np.asarray((spans_overlap(*bearings(boxes), least, most) & farther) | on_it)


@dataclass(frozen=True)
class _ObjectReturns:
    """Beams that hit an object: their rows in the sweep, directions, distances in metres and intensities."""

    rows: Array
    directions: Array
    metres: Array
    intensities: Array


@lru_cache(maxsize=64)
def _build_object(kind: str, seed: int) -> Object:
    """The object of a seed, the same wherever it stands."""
    return LIBRARY[kind](rng_for("object", kind, seed))


def ground_at(sweep: PointCloud, x: float, y: float) -> float:
    """The ground height at a place: the tenth percentile of nearby heights, or `DEFAULT_GROUND` without any."""
    away = np.hypot(sweep.xyzi[:, 0] - np.float32(x), sweep.xyzi[:, 1] - np.float32(y))
    for metres in GROUND_RADII:
        near = sweep.xyzi[away <= metres, 2]
        near = near[np.isfinite(near)]
        if len(near) >= MIN_RETURNS:
            return round(float(np.percentile(near, 10)), 3)
    return DEFAULT_GROUND


@dataclass(frozen=True)
class Insertions:
    """Random objects of the given `kinds` in free places, `near` to `far` metres away, inside the region if there is one."""

    kinds: Sequence[str] = tuple(LIBRARY)
    near: float = 5.0
    far: float = 40.0
    tries: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        for kind in self.kinds:
            InsertObject(kind, 9.0, 0.0)
        if not self.kinds or not 0 < self.near < self.far or self.tries < 1:
            raise ValueError(f"insertions needs at least one kind, 0 < near < far and tries of at least 1, got {self}")

    def propose(self, case: Case, rng: np.random.Generator, system: System) -> Transformation:
        """An insertion that applies; raises `NotApplicable` if none of the tries does."""
        del system
        if next(clouds_of(case), None) is None:
            raise NotApplicable("the case has no point cloud to insert an object into")
        for _ in range(self.tries):
            change = self._draw(rng)
            if change.applies(case) is None:
                return change
        raise NotApplicable(f"found no free place for a {' or a '.join(self.kinds)} in {self.tries} tries")

    def grid(self) -> Sequence[Transformation]:
        """Empty: there are too many to list."""
        return ()

    def _draw(self, rng: np.random.Generator) -> InsertObject:
        kind = self.kinds[int(rng.integers(len(self.kinds)))]
        angle, far, seed = rng.uniform(-np.pi, np.pi), rng.uniform(self.near, self.far), int(rng.integers(2**31))
        # Vehicles mostly follow the road; pedestrians walk in any direction.
        yaw = rng.uniform(-180, 180) if kind == "pedestrian" else 180.0 * rng.integers(2) + rng.normal(0, 8)
        x, y = far * math.cos(angle), far * math.sin(angle)
        return InsertObject(kind, round(x, 2), round(y, 2), round(float(yaw), 1), seed)
