"""LiDAR metamorphic testing (Zhou and Sun; CACM 62(3), 2019): points outside the region must not hide an obstacle.

MR1: let A be a sweep, and A' the same sweep with a few points added outside the region of interest. The system must detect
every obstacle in A' that it detects in A.
"""

# MR1: LM-2

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.campaign import Campaign, Search
from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.core.relation import Relation, Rule
from swerve.core.space import Over
from swerve.core.system import System
from swerve.relations.sets import NoFewer, Superset
from swerve.search.series import Series
from swerve.search.sweep import Sweep
from swerve.sources.subset import Subset
from swerve.transformations.scatter import AREAS, AddPoints

NAME = "lidar"
SERIES = (10, 100, 1000)  # LM-5
SUBSET, COUNT, BOTH = "subset", "count", "both"
PAIRED, INDEPENDENT = "paired", "independent"


def lidar(
    source: Source,
    system: System,
    *,
    n: int | tuple[int, ...] = SERIES,
    check: str = SUBSET,
    near: float | None = None,
    area: Annotated[str, OneOfNames(*AREAS)] = "box",
    series: Annotated[str, OneOfNames(PAIRED, INDEPENDENT)] = PAIRED,
    frames: int = 0,
    search: Search | None = None,
    overlap: float = 0.5,
    within: float = 1.0,
    seed: int = 0,
    inference_batch: int = 8,
) -> Campaign:
    """MR1 on any system that answers sweeps with 3-D boxes, and any source whose cases have a point cloud and a region.

    Args:
        n: points added to a frame; several numbers make one series each.
        check: `subset` requires every obstacle to be detected again; `count` requires no fewer obstacles, as the authors
            did; `both` combines the two in one verdict.
        near: the maximum distance in metres from the region's border; by default anywhere outside.
        area: the extent of all points: the sweep's bounding `box`, or a `disc` of 120 m.
        series: `paired` uses the same frames for all series; `independent` uses different frames for each, as in the paper.
        frames: frames per series, drawn at random; 0 for all frames, which independent series divide among them.
        search: a search instead of the series, such as `fuzz`, which needs a single n and adds up to n points.
        overlap, within: when two boxes are the same obstacle: bird's-eye IoU, or metres for pedestrians and cyclists.
    """
    # check: LM-6, LM-7; area: D-18; series: D-19; overlap, within: D-17
    relation = _relation(check, overlap, within)
    names = {number: ("" if search is None else "up to ") + rule_name(number, near) for number in _numbers(n)}
    rules = tuple(Rule(name, _scattered(number, near, area), relation) for number, name in names.items())
    check_known("value of 'series':", series, (PAIRED, INDEPENDENT))
    if search is not None and series == INDEPENDENT:
        raise InputError("series = 'independent' cannot be combined with a search, which chooses its own frames")
    paired = Subset(source, frames, seed) if frames and series == PAIRED else source
    how = search or (Sweep(per_case=1) if series == PAIRED else Series(frames))
    return Campaign(paired, system, rules, how, seed=seed, inference_batch=inference_batch, method=NAME)


def rule_name(n: int, near: float | None = None) -> str:
    """The name of a series' rule: `10 points outside`, `10 points outside, within 5 m`."""
    return f"{n:,} point{'' if n == 1 else 's'} outside" + ("" if near is None else f", within {near:g} m")


def _relation(check: str, overlap: float, within: float) -> Relation:
    subset, count = Superset(overlap=overlap, within=within), NoFewer(overlap=overlap, within=within)
    every: Mapping[str, Relation] = {SUBSET: subset, COUNT: count, BOTH: subset & count}
    check_known("value of 'check':", check, every)
    return every[check]


def _numbers(n: int | Sequence[int]) -> Sequence[int]:
    numbers = [n] if isinstance(n, int) else list(n)
    whole = all(isinstance(number, int) and not isinstance(number, bool) and number > 0 for number in numbers)
    if not numbers or not whole or len(set(numbers)) < len(numbers):
        raise InputError(f"'n' must be a number of points above 0, or a list of different ones, got {n!r}")
    return numbers


def _scattered(n: int, near: float | None, area: str) -> Over:
    domains: dict[str, Any] = {"n": n, "near": near, "area": area}
    return Over(AddPoints, **domains)
