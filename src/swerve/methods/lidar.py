"""LiDAR metamorphic testing (Zhou and Sun; CACM 62(3), 2019) as a campaign: points outside the region hide no obstacle.

MR1: let A be a sweep and A' the same with a small number of points added outside the region of interest. Every obstacle
that the system sees in A it must see in A' (LM-2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swerve.core.campaign import Campaign, Search
from swerve.core.case import Source
from swerve.core.errors import InputError, did_you_mean
from swerve.core.relation import Relation, Rule
from swerve.core.space import Over
from swerve.core.system import System
from swerve.relations.sets import NoFewer, Superset
from swerve.search.series import Series
from swerve.search.sweep import Sweep
from swerve.sources.subset import Subset
from swerve.transformations.scatter import AddPoints

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
    area: str = "box",
    series: str = PAIRED,
    frames: int = 0,
    search: Search | None = None,
    overlap: float = 0.5,
    within: float = 1.0,
    seed: int = 0,
    inference_batch: int = 8,
) -> Campaign:
    """MR1 on any system that answers sweeps with 3-D boxes, and any source whose cases have a cloud and a region.

    Args:
        n: points added to a frame, one series for each number.
        check: `subset`: every obstacle must still be there (LM-7); `count`: there must be no fewer, as the authors checked
            (LM-6); `both`: one verdict on the two, which tells the facts of both.
        near: metres from the region's border at most; by default anywhere outside.
        area: where points may lie at all: the sweep's bounding `box`, or a `disc` of 120 m (D-18).
        series: `paired`: all series on the same frames; `independent`: each on frames of its own, as printed (D-19).
        frames: of each series, drawn at random; 0 for all there are, which independent series share out among them.
        search: another search than the series, such as `fuzz`, on the rule of a single n: up to n points.
        overlap, within: when two obstacles are one (D-17): bird's-eye IoU, or metres between pedestrians and cyclists.
    """
    relation = _relation(check, overlap, within)
    called = {number: ("" if search is None else "up to ") + rule_name(number, near) for number in _numbers(n)}
    rules = tuple(Rule(name, _scattered(number, near, area), relation) for number, name in called.items())
    if series not in (PAIRED, INDEPENDENT):
        raise InputError(f"series '{series}' are not known; {did_you_mean(series, (PAIRED, INDEPENDENT))}")
    if search is not None and series == INDEPENDENT:
        raise InputError("a search chooses its own frames: leave out series = 'independent'")
    paired = Subset(source, frames, seed) if frames and series == PAIRED else source
    how = search or (Sweep(per_case=1) if series == PAIRED else Series(frames))
    return Campaign(paired, system, rules, how, seed=seed, inference_batch=inference_batch, method=NAME)


def rule_name(n: int, near: float | None = None) -> str:
    """What the rule of a series is called: `10 points outside`, `10 points outside, within 5 m`."""
    return f"{n:,} point{'' if n == 1 else 's'} outside" + ("" if near is None else f", within {near:g} m")


def _relation(check: str, overlap: float, within: float) -> Relation:
    subset, count = Superset(overlap=overlap, within=within), NoFewer(overlap=overlap, within=within)
    every: Mapping[str, Relation] = {SUBSET: subset, COUNT: count, BOTH: subset & count}
    if check not in every:
        raise InputError(f"check '{check}' is not known; {did_you_mean(check, every)}")
    return every[check]


def _numbers(n: int | Sequence[int]) -> Sequence[int]:
    numbers = [n] if isinstance(n, int) else list(n)
    whole = all(isinstance(number, int) and not isinstance(number, bool) and number > 0 for number in numbers)
    if not numbers or not whole or len(set(numbers)) < len(numbers):
        raise InputError(f"n must be a number of points above 0, or several, each once, got {n!r}")
    return numbers


def _scattered(n: int, near: float | None, area: str) -> Over:
    domains: dict[str, Any] = {"n": n, "near": near, "area": area}
    return Over(AddPoints, **domains)
