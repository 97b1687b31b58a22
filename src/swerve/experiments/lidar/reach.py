"""Why are so many, or so few, obstacles lost? Where the added points lie, and how near to an obstacle they must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from swerve.analysis.statistics import wilson
from swerve.config.toml import build_change
from swerve.core.case import Case
from swerve.core.encode import decode_values
from swerve.core.errors import NotApplicable
from swerve.core.region import region_of
from swerve.core.values import Array
from swerve.experiments.lidar import field
from swerve.experiments.lidar.subject_runs import JUDGED, PLACEMENTS, LidarRuns, Trial, boxes_of
from swerve.experiments.setting import Setting
from swerve.methods.lidar import SERIES, rule_name
from swerve.relations.obstacles import changes, in_region
from swerve.report.cells import Row
from swerve.report.charts import Bar, bars
from swerve.report.experiment_page import ChartPanel, Section, TablePanel
from swerve.transformations.points import clouds_of
from swerve.zoo.grid import Grid

SAMPLED = 60  # frames of every series whose follow-ups are rebuilt
EDGES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # metres between an obstacle and the nearest added point
BESIDE = 4.0  # metres within which a point counts as near an obstacle
MOST = max(SERIES)
LANDED = ("system", "placement", "n", "frames", "points", "in the grid", "share", "near an obstacle", "near share")
DISTANCE = ("system", "placement", "metres", "obstacles", "missing", "rate", "low", "high")
TITLE = "Where do the points lie that hide obstacles?"


@dataclass(frozen=True, eq=False)
class Landed:
    """A rebuilt follow-up: the added points, the region's obstacles before, and which of them are missing after."""

    added: Array
    obstacles: Array  # x and y of the centres
    missing: Array

    @cached_property
    def gaps(self) -> Array:
        """Metres on the ground between each obstacle and each added point."""
        away = self.obstacles[:, None] - self.added[None, :, :2].astype(np.float64)
        metres: Array = np.hypot(away[..., 0], away[..., 1])
        return metres

    @cached_property
    def nearest(self) -> Array:
        """Metres from each obstacle to the nearest added point."""
        metres: Array = self.gaps.min(axis=1, initial=np.inf)
        return metres

    def beside(self) -> int:
        """The number of points near any obstacle."""
        return int((self.gaps < BESIDE).any(axis=0).sum())


def section(setting: Setting, all_tested: Sequence[LidarRuns]) -> Section:
    """Shares of points inside the network's grid, and losses by distance to the nearest point."""
    sampled = [(tested, landed(tested)) for tested in all_tested]
    where = tuple(row for tested, found in sampled for row in _landed_rows(tested, found))
    apart = tuple(row for tested, found in sampled for row in _distance_rows(tested, found))
    note = f"at most {SAMPLED} frames of each series; near: within {BESIDE:g} m of an obstacle detected before"
    parts = (
        TablePanel("Where the added points lie", LANDED, where, note, csv=setting.table("landed", LANDED, where),
              formats={"share": ".1%", "near share": ".2%"}),
        TablePanel("Missing obstacles by the distance to the nearest added point", DISTANCE, apart,
              f"{MOST:,} points; lost, of another type or moved", csv=setting.table("distance", DISTANCE, apart),
              formats={"rate": ".1%", "low": ".1%", "high": ".1%"}, main=False),
        ChartPanel("Missing, by metres to the nearest of 1,000 points", bars(_bars(sampled), percent=True)),
    )  # fmt: skip
    return Section(TITLE, (TEXT,), (*parts, *field.sheets(setting, all_tested)), _answer(sampled))


TEXT = (
    "A point has an effect on a network only inside its grid (±60 m, heights within ±5 m), and, unless cells are coupled "
    "over the whole frame, only within the receptive field. Both are measured on follow-ups rebuilt from their seeds: each "
    "obstacle's distance to the nearest added point is compared with what happened to it."
)


def landed(tested: LidarRuns) -> Mapping[tuple[str, int], list[Landed]]:
    """Follow-ups of some frames, rebuilt from the journal; the same frames for every series if they are paired."""
    rules = {rule_name(n, near): (placement, n) for placement, near in PLACEMENTS.items() for n in SERIES}
    chosen: dict[str, list[tuple[tuple[str, int], Trial]]] = {}
    taken = dict.fromkeys(rules.values(), 0)
    for run in tested.runs.values():
        for row in run.trials():
            series = rules.get(row["rule"])
            if series is not None and row["status"] in JUDGED and taken[series] < SAMPLED:
                taken[series] += 1
                chosen.setdefault(row["case"], []).append((series, row))
    found: dict[tuple[str, int], list[Landed]] = {series: [] for series in taken}
    for key, rows in chosen.items():
        case = tested.subject.source[key]
        for series, trial in rows:
            found[series].append(_rebuild(case, trial))
    return found


def _rebuild(case: Case, row: Trial) -> Landed:
    before, after = (in_region(boxes_of(decode_values(row[end])), region_of(case)) for end in ("before", "after"))
    kept, required = [place for place, _ in changes(before, after).kept], np.flatnonzero(np.asarray(before.care))
    return Landed(added_by(case, row["change"]), before.xyzlwhy[required, :2], ~np.isin(required, kept))


def added_by(case: Case, change: Any) -> Array:
    """The points that an encoded change adds to a case."""
    cloud = next(clouds_of(case))
    try:
        followup = build_change(change)(case)
    except NotApplicable:
        return np.zeros((0, 4), np.float32)
    return next(clouds_of(followup)).xyzi[len(cloud.xyzi) :]


def _landed_rows(tested: LidarRuns, found: Mapping[tuple[str, int], Sequence[Landed]]) -> Iterator[Row]:
    grid = getattr(tested.subject.system, "grid", None)
    for (placement, n), frames in found.items():
        points = sum(len(one.added) for one in frames)
        held = sum(int((grid.cell_of(one.added) >= 0).sum()) for one in frames) if isinstance(grid, Grid) else None
        beside = sum(one.beside() for one in frames)
        share = held / points if points and held is not None else None
        yield (tested.name, placement, n, len(frames), points, held, share, beside, beside / points if points else None)


def _distance_rows(tested: LidarRuns, found: Mapping[tuple[str, int], Sequence[Landed]]) -> Iterator[Row]:
    for placement in PLACEMENTS:
        for words, (there, missing) in by_distance(found.get((placement, MOST), ())).items():
            share = (missing / there, *wilson(missing, there)) if there else (None, None, None)
            yield (tested.name, placement, words, there, missing, *share)


def by_distance(frames: Sequence[Landed]) -> dict[str, tuple[int, int]]:
    """Obstacles, and how many of them are missing, by metres to the nearest added point."""
    gaps = np.concatenate([np.zeros(0), *(one.nearest for one in frames)])
    gone = np.concatenate([np.zeros(0, bool), *(one.missing for one in frames)])
    place = np.digitize(gaps, EDGES)
    names = [*(f"{low:g}–{high:g}" for low, high in pairwise((0.0, *EDGES))), f"{EDGES[-1]:g} and more"]
    return {name: (int((place == bin).sum()), int((gone & (place == bin)).sum())) for bin, name in enumerate(names)}


def _bars(sampled: Sequence[tuple[LidarRuns, Mapping[tuple[str, int], Sequence[Landed]]]]) -> dict[str, dict[str, Bar]]:
    counts = {tested.name: by_distance(_densest(found)) for tested, found in sampled}
    bins = next(iter(counts.values()), {})
    return {
        f"{name} m": {system: Bar.rate(some[name][1], some[name][0]) for system, some in counts.items()} for name in bins
    }


def _densest(found: Mapping[tuple[str, int], Sequence[Landed]]) -> list[Landed]:
    return [one for (_, n), frames in found.items() if n == MOST for one in frames]


def _answer(sampled: Sequence[tuple[LidarRuns, Mapping[tuple[str, int], Sequence[Landed]]]]) -> str:
    return "; ".join(_describe_reach(tested, _densest(found)) for tested, found in sampled)


def _describe_reach(tested: LidarRuns, frames: Sequence[Landed]) -> str:
    """Such as `lidar: 12 of 140 obstacles within 4 m of an added point are missing, 1 of 300 farther away`."""
    near = np.concatenate([np.zeros(0, bool), *(one.nearest < BESIDE for one in frames)])
    missing = np.concatenate([np.zeros(0, bool), *(one.missing for one in frames)])
    close, gone, far, gone_far = (int(mask.sum()) for mask in (near, near & missing, ~near, ~near & missing))
    return (
        f"{tested.name}: {gone:,} of {close:,} obstacles within {BESIDE:g} m of one of {MOST:,} added points are missing, "
        f"{gone_far:,} of {far:,} farther away"
    )
