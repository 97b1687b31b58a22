"""Points added outside the region of interest, where none may hide an obstacle within it (LM-2..LM-4, D-18)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.region import bounds, outside, region_of
from swerve.core.seeding import rng_for
from swerve.core.space import GRID, Over
from swerve.core.transformation import ANYTHING, Transformation, param
from swerve.core.values import Array, Boxes3D, Group, PointCloud, Region, Value
from swerve.relations.obstacles import in_region
from swerve.transformations.placing import drawn, proof, vicinity, within
from swerve.transformations.points import Span, clouds_of, span

DISC = 120.0  # metres that an HDL-64E reaches (LM-10)
AREAS = ("box", "disc")

T = TypeVar("T")
Rings = tuple[tuple[tuple[float, float], ...], ...]
Point = tuple[float, float, float, float]


@dataclass(frozen=True)
class MorePoints(Transformation):
    """Points that come after those of the sweep, which stay as they are; none lies inside the region (LM-4).

    The region is the case's own, or `outside`: a `Region`, or its rings. Each follow-up records how many points were
    `added`, how many of them are `inside`, which is 0, and how near to the border the nearest lies.
    """

    outside: Rings | None = field(default=None, kw_only=True)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "outside", _rings(self.outside))

    def applies(self, case: Case) -> str | None:
        """A reason when there is no sweep, or no region that points could lie outside of."""
        if self._idle():
            return None
        if next(clouds_of(case), None) is None:
            return "the case has no point cloud to add points to"
        if self._region(case) is None:
            return "the case has no region for points to lie outside of: give the source one, or the change `outside`"
        return None

    def __call__(self, case: Case) -> Case:
        """The follow-up of `case`, with the proof of where its points lie."""
        if why := self.applies(case):
            raise NotApplicable(why)
        region, added = self._region(case), list[Array]()
        inputs = {name: self._onto(value, region, added) for name, value in case.inputs.items()}
        facts = {**case.facts, **proof(region, added, case.facts)}
        return dataclasses.replace(case, inputs=inputs, parent=case.parent or case.key, facts=facts)

    def points(self, value: PointCloud) -> PointCloud:
        """The sweep with more points, where the change itself knows the region."""
        if self._idle():
            return value
        if self.outside is None:
            raise NotApplicable("a point cloud alone has no region for points to lie outside of: give the change `outside`")
        return _more(value, self._placed(_reach(value), _region(self.outside)))

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """The same boxes; where the change itself knows the region, those clear of it are not demanded."""
        return value if self.outside is None else in_region(value, _region(self.outside))

    def _onto(self, value: Value, region: Region | None, added: list[Array]) -> Value:
        if isinstance(value, Group):
            return Group(tuple(self._onto(item, region, added) for item in value.values))
        if not isinstance(value, PointCloud) or region is None or self._idle():
            return value
        added.append(self._placed(_reach(value), region))
        return _more(value, added[-1])

    def _region(self, case: Case) -> Region | None:
        return region_of(case) if self.outside is None else _region(self.outside)

    def _idle(self) -> bool:
        raise NotImplementedError(f"{type(self).__name__} does not say when it adds nothing")

    def _placed(self, reach: Span, region: Region) -> Array:
        raise NotImplementedError(f"{type(self).__name__} does not say which points it adds")


@dataclass(frozen=True)
class AddPoints(MorePoints):
    """`n` points at random outside the region, at heights and intensities between the sweep's least and greatest (LM-3).

    x and y are uniform in the sweep's bounding box or, with `area="disc"`, within 120 m of the sensor; with `near` they lie
    at most so many metres from the region's border. `keep` names those of the n, counted from 0, that are really added;
    None: all. The draw does not depend on it, and fewer points are the first of more, so that shrinking only leaves out.
    """

    n: int = param(0, 1_000_000, neutral=0, grid=(10, 100, 1000))
    seed: int = 0
    near: float | None = field(default=None, kw_only=True)
    keep: tuple[int, ...] | None = field(default=None, kw_only=True)
    area: str = field(default="box", kw_only=True)
    counts: ClassVar[str] = "n"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "near", metres(self.near))
        object.__setattr__(self, "keep", _chosen(self.keep, self.n))
        if self.area not in AREAS:
            raise ValueError(f"area must be {' or '.join(AREAS)}, got {self.area!r}")

    def parts(self) -> Sequence[int]:
        """The numbers of the points that are added."""
        return tuple(range(self.n)) if self.keep is None else self.keep

    def with_parts(self, parts: Sequence[int]) -> AddPoints:
        """These points of the same draw alone."""
        return dataclasses.replace(self, keep=tuple(parts))

    def simpler(self) -> Iterator[Transformation]:
        """Fewer points; of chosen ones, either half."""
        if self.keep is None:
            yield from super().simpler()
        else:
            yield from map(self.with_parts, _halves(self.keep))

    def words(self) -> str:
        """Such as "3 of 100 points scattered outside the region, at most 5 m from it"."""
        some = "" if self.keep is None else f"{len(self.keep):,} of "
        where = "" if self.near is None else f", at most {self.near:g} m from it"
        return f"{some}{_counted(self.n)} scattered outside the region{where}"

    def _idle(self) -> bool:
        return not self.parts()

    def _placed(self, reach: Span, region: Region) -> Array:
        between = self._between(reach, region)
        last = max(self.parts()) + 1
        open_ground = (between.low <= between.high).all()
        made = drawn(last, between, partial(self._admitted, region), rng_for("points", self.seed)) if open_ground else None
        if made is None:
            area = "area" if self.near is None else f"area at most {self.near:g} m from it"
            raise NotApplicable(f"cannot place {_counted(self.n)}: the region covers the sampling {area}")
        return made if self.keep is None else made[list(self.keep)]

    def _between(self, reach: Span, region: Region) -> Span:
        """The least and the greatest of the numbers drawn; to draw where nothing is near the border would be in vain."""
        low, high = reach.low.copy(), reach.high.copy()
        if self.area == "disc":
            low[:2], high[:2] = -DISC, DISC
        if self.near is not None:
            least, most = bounds(region)
            low[:2], high[:2] = np.maximum(low[:2], least - self.near), np.minimum(high[:2], most + self.near)
        return Span(low, high)

    def _admitted(self, region: Region, xyzi: Array) -> Array:
        """Which candidates, rounded as a sweep holds them, lie where they may."""
        xy = xyzi[:, :2].astype(np.float64)
        left = np.flatnonzero(np.hypot(*xy.T) <= DISC) if self.area == "disc" else np.arange(len(xy))
        if self.near is not None:
            left = left[vicinity(region, self.near)[0].holds(xy[left])]
        left = left[outside(region, xy[left])]
        if self.near is not None:
            left = left[within(self.near, region, xy[left])]
        admitted = np.zeros(len(xy), bool)
        admitted[left] = True
        return admitted


@dataclass(frozen=True)
class PlacePoints(MorePoints):
    """Points (x, y, z, intensity) exactly `at` these places, for searches that move them.

    It does not apply where one lies inside the region, or is higher, lower, brighter or darker than all of the sweep.
    """

    at: tuple[Point, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "at", _rounded(self.at))

    def parts(self) -> Sequence[Point]:
        """The points."""
        return self.at

    def with_parts(self, parts: Sequence[Point]) -> PlacePoints:
        """These points alone."""
        return dataclasses.replace(self, at=tuple(parts))

    def simpler(self) -> Iterator[Transformation]:
        """Either half of the points."""
        yield from map(self.with_parts, _halves(self.at))

    def words(self) -> str:
        """Such as "3 points placed outside the region"."""
        return f"{_counted(len(self.at))} placed outside the region"

    def _idle(self) -> bool:
        return not self.at

    def _placed(self, reach: Span, region: Region) -> Array:
        xyzi = np.array(self.at, np.float32)
        if held := int((~outside(region, xyzi[:, :2])).sum()):
            raise NotApplicable(f"{held:,} of {_counted(len(xyzi))} lie inside the region, or within a cell of it")
        if beyond := int(((xyzi < reach.low) | (xyzi > reach.high))[:, 2:].any(axis=1).sum()):
            raise NotApplicable(f"{beyond:,} of {_counted(len(xyzi))} are beyond the sweep's heights or intensities")
        return xyzi


def scattered(near: float | None = None) -> Over:
    """10, 100 or 1,000 points as the paper has them (LM-5): anywhere outside, or at most `near` metres from the border."""
    domains: dict[str, Any] = {"n": GRID, "near": near}
    return Over(AddPoints, **domains)


def _more(value: PointCloud, added: Array) -> PointCloud:
    return PointCloud(np.concatenate([value.xyzi, added]))


def _reach(value: PointCloud) -> Span:
    reach = span(value)
    if reach is None:
        raise NotApplicable("the sweep has no finite point to take heights and intensities from")
    return reach


def _region(rings: Rings) -> Region:
    return Region(tuple(np.array(ring, np.float64).reshape(-1, 2) for ring in rings))


def _rings(given: object) -> Rings | None:
    """A region as plain numbers, which a journal line can hold and give back."""
    if given is None:
        return None
    try:
        region = given if isinstance(given, Region) else _region(given)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ValueError(f"outside must be a region, or its rings of places (x, y), got {given!r:.80}") from error
    if not all(np.isfinite(ring).all() for ring in region.polygons):
        raise ValueError("outside holds a number that is not finite")
    return tuple(tuple((float(x), float(y)) for x, y in ring) for ring in region.polygons)


def _rounded(given: object) -> tuple[Point, ...]:
    """Points as a sweep will hold them, so that a change and its JSON are one change."""
    try:
        with np.errstate(over="ignore"):
            points = np.array(given, np.float64).reshape(-1, 4).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"at must be points of four numbers (x, y, z, intensity), got {given!r:.80}") from error
    if not np.isfinite(points).all():
        raise ValueError("at holds a number that is not finite")
    return tuple((float(x), float(y), float(z), float(i)) for x, y, z, i in points)


def metres(near: object) -> float | None:
    """How near to a border points must lie, checked; None: anywhere."""
    if near is None:
        return None
    if isinstance(near, bool) or not isinstance(near, int | float) or not 0 < near < math.inf:
        raise ValueError(f"near must be a number of metres above 0, or None, got {near!r}")
    return float(near)


def _chosen(keep: Sequence[int] | None, n: int) -> tuple[int, ...] | None:
    if keep is None:
        return None
    whole = all(isinstance(number, int | np.integer) and not isinstance(number, bool) for number in keep)
    if not whole or len(set(keep)) < len(keep) or not all(0 <= number < n for number in keep):
        raise ValueError(f"keep must name points, each once, from 0 to n - 1 = {n - 1}, got {keep!r:.80}")
    return tuple(sorted(int(number) for number in keep))


def _halves(parts: Sequence[T]) -> Iterator[Sequence[T]]:
    middle = -(-len(parts) // 2)
    yield from (half for half in (parts[:middle], parts[middle:]) if 0 < len(half) < len(parts))


def _counted(number: int) -> str:
    return f"{number:,} point{'' if number == 1 else 's'}"
