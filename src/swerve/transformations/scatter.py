"""Points added outside the region of interest, where they cannot hide an obstacle inside it."""

# LM-2..LM-4, D-18

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np

from swerve.core.arguments import OneOfNames, check_number
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.region import bounds, outside, region_of
from swerve.core.seeding import rng_for
from swerve.core.space import GRID, Over
from swerve.core.transformation import ANYTHING, Transformation, param
from swerve.core.values import Array, Boxes3D, Group, PointCloud, Region, Value
from swerve.relations.obstacles import in_region
from swerve.transformations.placing import border_cells, draw_points, near_border, placement_facts
from swerve.transformations.points import Span, clouds_of, span

DISC_RADIUS = 120.0  # metres: the range of an HDL-64E (LM-10)
AREAS = ("box", "disc")

T = TypeVar("T")
Rings = tuple[tuple[tuple[float, float], ...], ...]
Point = tuple[float, float, float, float]


@dataclass(frozen=True)
class MorePoints(Transformation):
    """Points appended to the sweep, whose own points stay as they are; none lies inside the region.

    The region is the case's own, or `outside`: a `Region` or its rings. Each follow-up records how many points were
    `added`, how many of them lie `inside` (always 0), and the distance of the nearest one to the border.
    """

    # LM-4
    outside: Rings | None = field(default=None, kw_only=True)
    preserves: ClassVar[tuple[str, ...]] = (ANYTHING,)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "outside", _check_rings(self.outside))

    def applies(self, case: Case) -> str | None:
        """Why it does not apply (the case has no sweep or no region), or None."""
        if self._is_neutral():
            return None
        if next(clouds_of(case), None) is None:
            return "the case has no point cloud to add points to"
        if self._region(case) is None:
            return "the case has no region to keep points out of: give one to the source, or give the change `outside`"
        return None

    def __call__(self, case: Case) -> Case:
        """The follow-up of `case`, with facts about where its new points lie."""
        if why := self.applies(case):
            raise NotApplicable(why)
        region, added = self._region(case), list[Array]()
        inputs = {name: self._add_to(value, region, added) for name, value in case.inputs.items()}
        facts = {**case.facts, **placement_facts(region, added, case.facts)}
        return dataclasses.replace(case, inputs=inputs, parent=case.parent or case.key, facts=facts)

    def points(self, value: PointCloud) -> PointCloud:
        """The sweep with the new points; needs `outside`."""
        if self._is_neutral():
            return value
        if self.outside is None:
            raise NotApplicable("a point cloud alone has no region to keep points out of: give the change `outside`")
        return _append(value, self._new_points(_span_of(value), _region(self.outside)))

    def boxes3d(self, value: Boxes3D) -> Boxes3D:
        """The same boxes; with `outside`, those clear of that region are not required."""
        return value if self.outside is None else in_region(value, _region(self.outside))

    def _add_to(self, value: Value, region: Region | None, added: list[Array]) -> Value:
        if isinstance(value, Group):
            return Group(tuple(self._add_to(item, region, added) for item in value.values))
        if not isinstance(value, PointCloud) or region is None or self._is_neutral():
            return value
        added.append(self._new_points(_span_of(value), region))
        return _append(value, added[-1])

    def _region(self, case: Case) -> Region | None:
        return region_of(case) if self.outside is None else _region(self.outside)

    def _is_neutral(self) -> bool:
        raise NotImplementedError(f"{type(self).__name__} must define _is_neutral")

    def _new_points(self, reach: Span, region: Region) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _new_points")


@dataclass(frozen=True)
class AddPoints(MorePoints):
    """`n` random points outside the region, with heights and intensities within the sweep's range.

    x and y are uniform in the sweep's bounding box or, with `area="disc"`, within 120 m of the sensor; `near` limits their
    distance to the region's border, in metres. `keep` lists which of the n points, counted from 0, are added (None: all).
    The draw does not depend on `keep`, and a smaller `n` draws a prefix of a larger one, so shrinking only removes points.
    """

    # LM-3
    n: int = param(0, 1_000_000, neutral=0, grid=(10, 100, 1000))
    seed: int = 0
    near: float | None = field(default=None, kw_only=True)
    keep: tuple[int, ...] | None = field(default=None, kw_only=True)
    area: Annotated[str, OneOfNames(*AREAS)] = field(default="box", kw_only=True)
    counts: ClassVar[str] = "n"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "near", _check_near(self.near))
        object.__setattr__(self, "keep", _check_keep(self.keep, self.n))
        if self.area not in AREAS:
            raise ValueError(f"'area' must be {' or '.join(AREAS)}, got {self.area!r}")

    def parts(self) -> Sequence[int]:
        """The indices of the points that are added."""
        return tuple(range(self.n)) if self.keep is None else self.keep

    def with_parts(self, parts: Sequence[int]) -> AddPoints:
        """Only these points of the same draw."""
        return dataclasses.replace(self, keep=tuple(parts))

    def simpler(self) -> Iterator[Transformation]:
        """Fewer points; with `keep`, either half of them."""
        if self.keep is None:
            yield from super().simpler()
        else:
            yield from map(self.with_parts, _halves(self.keep))

    def words(self) -> str:
        """Such as "3 of 100 points scattered outside the region, at most 5 m from it"."""
        some = "" if self.keep is None else f"{len(self.keep):,} of "
        where = "" if self.near is None else f", at most {self.near:g} m from it"
        return f"{some}{_count_points(self.n)} scattered outside the region{where}"

    def _is_neutral(self) -> bool:
        return not self.parts()

    def _new_points(self, reach: Span, region: Region) -> Array:
        between = self._between(reach, region)
        last = max(self.parts()) + 1
        open_ground = (between.low <= between.high).all()
        points = (
            draw_points(last, between, partial(self._admitted, region), rng_for("points", self.seed))
            if open_ground
            else None
        )
        if points is None:
            area = "area" if self.near is None else f"area at most {self.near:g} m from it"
            raise NotApplicable(f"cannot place {_count_points(self.n)}: the region covers the sampling {area}")
        return points if self.keep is None else points[list(self.keep)]

    def _between(self, reach: Span, region: Region) -> Span:
        """The range to draw from; with `near`, no larger than the region's surroundings."""
        low, high = reach.low.copy(), reach.high.copy()
        if self.area == "disc":
            low[:2], high[:2] = -DISC_RADIUS, DISC_RADIUS
        if self.near is not None:
            least, most = bounds(region)
            low[:2], high[:2] = np.maximum(low[:2], least - self.near), np.minimum(high[:2], most + self.near)
        return Span(low, high)

    def _admitted(self, region: Region, xyzi: Array) -> Array:
        """Which candidates, already rounded to float32, lie where points are allowed."""
        xy = xyzi[:, :2].astype(np.float64)
        left = np.flatnonzero(np.hypot(*xy.T) <= DISC_RADIUS) if self.area == "disc" else np.arange(len(xy))
        if self.near is not None:
            left = left[border_cells(region, self.near)[0].holds(xy[left])]
        left = left[outside(region, xy[left])]
        if self.near is not None:
            left = left[near_border(self.near, region, xy[left])]
        admitted = np.zeros(len(xy), bool)
        admitted[left] = True
        return admitted


@dataclass(frozen=True)
class PlacePoints(MorePoints):
    """Points (x, y, z, intensity) exactly `at` these positions, for searches that move them.

    It does not apply if one lies inside the region, or outside the sweep's range of heights or intensities.
    """

    at: tuple[Point, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "at", _check_points(self.at))

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
        return f"{_count_points(len(self.at))} placed outside the region"

    def _is_neutral(self) -> bool:
        return not self.at

    def _new_points(self, reach: Span, region: Region) -> Array:
        xyzi = np.array(self.at, np.float32)
        if held := int((~outside(region, xyzi[:, :2])).sum()):
            raise NotApplicable(
                f"{held:,} of the {_count_points(len(xyzi))} to add lie inside the region, or within a cell of it"
            )
        if beyond := int(((xyzi < reach.low) | (xyzi > reach.high))[:, 2:].any(axis=1).sum()):
            raise NotApplicable(
                f"{beyond:,} of the {_count_points(len(xyzi))} to add are outside the sweep's range of heights "
                f"or intensities"
            )
        return xyzi


@dataclass(frozen=True)
class OfferPoints(MorePoints):
    """Points (x, y, z, share) `at` these positions, without those that would lie inside the region.

    `near` also leaves out points farther than that many metres from its border. Heights are clipped to the sweep's range;
    the share, from 0 to 1, is the position of the intensity in the sweep's range. It does not apply if no point is left.
    """

    # LM-4
    at: tuple[Point, ...]
    near: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "at", PlacePoints(self.at).at)
        object.__setattr__(self, "near", _check_near(self.near))
        if any(not 0 <= share <= 1 for *_, share in self.at):
            raise ValueError(
                "'at': the fourth number of each point is a share of the intensity range and must be from 0 to 1"
            )

    def parts(self) -> Sequence[Point]:
        """The points."""
        return self.at

    def with_parts(self, parts: Sequence[Point]) -> OfferPoints:
        """These points alone."""
        return dataclasses.replace(self, at=tuple(parts))

    def simpler(self) -> Iterator[Transformation]:
        """Either half of the points."""
        yield from map(self.with_parts, _halves(self.at))

    def words(self) -> str:
        """Such as "3 points offered outside the region, at most 5 m from it"."""
        where = "" if self.near is None else f", at most {self.near:g} m from it"
        return f"{_count_points(len(self.at))} offered outside the region{where}"

    def to_place_points(self, case: Case) -> PlacePoints:
        """The change that adds the same points to `case` by their exact positions."""
        region, cloud = self._region(case), next(clouds_of(case), None)
        reach = span(cloud) if cloud is not None else None
        if region is None or reach is None:
            raise NotApplicable(self.applies(case) or "the sweep has no finite point")
        return PlacePoints(tuple(map(tuple, self._new_points(reach, region).tolist())), outside=self.outside)

    def _is_neutral(self) -> bool:
        return not self.at

    def _new_points(self, reach: Span, region: Region) -> Array:
        xyzs = np.array(self.at, np.float32).reshape(-1, 4)
        kept: Array = xyzs[outside(region, xyzs[:, :2])]
        if self.near is not None:
            kept = kept[near_border(self.near, region, kept[:, :2].astype(np.float64))]
        if not len(kept):
            where = "" if self.near is None else f", at most {self.near:g} m from it"
            raise NotApplicable(f"none of the {len(self.at):,} points offered lies outside the region{where}")
        low, high = reach.low[2:].astype(np.float32), reach.high[2:].astype(np.float32)
        kept[:, 2] = np.clip(kept[:, 2], low[0], high[0])
        kept[:, 3] = np.clip(low[1] + kept[:, 3] * (high[1] - low[1]), low[1], high[1])
        return kept


def scattered(near: float | None = None) -> Over:
    """10, 100 or 1,000 points as in the paper: anywhere outside, or at most `near` metres from the border."""
    # LM-5
    domains: dict[str, Any] = {"n": GRID, "near": near}
    return Over(AddPoints, **domains)


def _append(value: PointCloud, added: Array) -> PointCloud:
    return PointCloud(np.concatenate([value.xyzi, added]))


def _span_of(value: PointCloud) -> Span:
    reach = span(value)
    if reach is None:
        raise NotApplicable("the sweep has no finite point to take heights and intensities from")
    return reach


def _region(rings: Rings) -> Region:
    return Region(tuple(np.array(ring, np.float64).reshape(-1, 2) for ring in rings))


def _check_rings(given: object) -> Rings | None:
    """A region as plain numbers, which a journal can store."""
    if given is None:
        return None
    try:
        region = given if isinstance(given, Region) else _region(given)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"'outside' must be a Region or a list of rings, each a list of (x, y) points, got {given!r:.80}"
        ) from error
    if not all(np.isfinite(ring).all() for ring in region.polygons):
        raise ValueError("'outside' must contain finite numbers only")
    return tuple(tuple((float(x), float(y)) for x, y in ring) for ring in region.polygons)


def _check_points(given: object) -> tuple[Point, ...]:
    """Points rounded to float32 as in a sweep, so that a change equals the one read back from its JSON."""
    try:
        with np.errstate(over="ignore"):
            points = np.array(given, np.float64).reshape(-1, 4).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"'at' must be a list of points of four numbers (x, y, z, intensity), got {given!r:.80}") from error
    if not np.isfinite(points).all():
        raise ValueError("'at' must contain finite numbers only")
    return tuple((float(x), float(y), float(z), float(i)) for x, y, z, i in points)


def _check_near(near: float | None) -> float | None:
    """The largest distance to a border in metres, as a float; None: no limit."""
    if near is None:
        return None
    check_number("near", near, 0, above=True)
    return float(near)


def _check_keep(keep: Sequence[int] | None, n: int) -> tuple[int, ...] | None:
    if keep is None:
        return None
    whole = all(isinstance(number, int | np.integer) and not isinstance(number, bool) for number in keep)
    if not whole or len(set(keep)) < len(keep) or not all(0 <= number < n for number in keep):
        raise ValueError(f"'keep' must list distinct indices from 0 to n - 1 = {n - 1}, got {keep!r:.80}")
    return tuple(sorted(int(number) for number in keep))


def _halves(parts: Sequence[T]) -> Iterator[Sequence[T]]:
    middle = -(-len(parts) // 2)
    yield from (half for half in (parts[:middle], parts[middle:]) if 0 < len(half) < len(parts))


def _count_points(number: int) -> str:
    return f"{number:,} point{'' if number == 1 else 's'}"
