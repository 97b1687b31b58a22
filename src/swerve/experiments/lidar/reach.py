"""Why are so many, or so few, obstacles lost? Where the added points lie, and how near to an obstacle they must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice

from markupsafe import Markup

from swerve.analysis.added_points import Landed, by_distance, nearest
from swerve.experiments import Row, chart, question, rated, table
from swerve.experiments.lidar.subject_runs import MOST, PLACEMENTS, LidarRuns, Lidars, system_table
from swerve.methods.lidar import SERIES
from swerve.relations.obstacles import boxes_of
from swerve.report.charts import Bar, bars
from swerve.zoo.grid import Grid
from swerve.zoo.lidar import Lidar
from swerve.zoo.receptive_field import INTENSITY, LIMITS, PLACES, REACHES, reaches

SAMPLED = 60  # frames of every series whose follow-ups are rebuilt
BESIDE = 4.0  # metres within which a point counts as near an obstacle
FRAMES = 3  # in which single points are added


def landed(one: LidarRuns) -> Mapping[tuple[str, int], list[Landed]]:
    """Follow-ups of some frames, rebuilt from the journal; the same frames for every series if they are paired."""
    found: dict[tuple[str, int], list[Landed]] = {(placement, n): [] for placement in PLACEMENTS for n in SERIES}
    read = lru_cache(1)(one.subject.source.__getitem__)  # the trials of a frame follow each other
    for series, row in one.trials():
        if len(found[series]) < SAMPLED:
            found[series].append(Landed.of(read(row["case"]), row, one.builders[row["rule"]]))
    return found


@system_table("landed", "Where the added points lie", formats={"near share": ".2%"})
def _landed(one: LidarRuns) -> Iterator[Row]:
    """at most {SAMPLED} frames of each series; near: within {BESIDE:g} m of an obstacle detected before"""
    grid = getattr(one.subject.system, "grid", None)
    for (placement, n), frames in one.once(landed).items():
        points = sum(len(frame.added) for frame in frames)
        held = sum(int((grid.cell_of(frame.added) >= 0).sum()) for frame in frames) if isinstance(grid, Grid) else None
        beside = sum(int((frame.gaps < BESIDE).any(axis=0).sum()) for frame in frames)
        yield {
            **{"placement": placement, "n": n, "frames": len(frames), "points": points},
            **{"in the grid": held, "share": held / points if points and held is not None else None},
            **{"near an obstacle": beside, "near share": beside / points if points else None},
        }


@system_table("distance", "Missing obstacles by the distance to the nearest added point", main=False)
def _distance(one: LidarRuns) -> Iterator[Row]:
    """{MOST:,} points; lost, of another type or moved"""
    for placement in PLACEMENTS:
        for words, (there, missing) in by_distance(one.once(landed)[placement, MOST]).items():
            key = {"placement": placement, "metres": words, "obstacles": there, "missing": missing}
            yield {**key, **rated(missing, there)}


def _densest(one: LidarRuns) -> list[Landed]:
    return [frame for (_, n), frames in one.once(landed).items() if n == MOST for frame in frames]


@chart("Missing, by metres to the nearest of 1,000 points")
def _bars(results: Lidars) -> Markup:
    groups: dict[str, dict[str, Bar]] = {}
    for one in results:
        for name, (there, missing) in by_distance(_densest(one)).items():
            groups.setdefault(f"{name} m", {})[one.name] = Bar.rate(missing, there)
    return bars(groups, percent=True)


@system_table("field", optional=True)
def single_points(one: LidarRuns) -> Iterator[Row]:
    """How far single points have an effect in each of the zoo's networks."""
    system = one.subject.system
    if not isinstance(system, Lidar):
        return
    for seen in islice(one.baseline, FRAMES):
        for reach in reaches(system, one.subject.source[seen.case], boxes_of(seen.answer), one.setting.seed):
            yield {"case": seen.case, "x": reach.x, "y": reach.y, **dict(zip(REACHES, reach.metres, strict=True))}


def _note(results: Lidars) -> str:
    """What was measured, such as `lidar: 0.8 m, any output: 38.5 m`, and what was not."""
    rows = [(row["system"], *map(_far, (row[REACHES[3]], row[REACHES[0]]))) for row in farthest_effects.rows(results)]
    reach = "; ".join(f"{name}: {objectness}, any output: {output}" for name, objectness, output in rows)
    return (
        f"up to {PLACES} points outside the region in each of {FRAMES} frames, near obstacles, one at a time, at the height "
        f"of the sensor and with intensity {INTENSITY:g}; objectness of non-empty cells, from 0 to 1. Farthest change of "
        f"objectness by {LIMITS[2]:g}: {reach}. Losses may occur farther away: with points of other heights or intensities, "
        "with many points, and through the offsets of cells or the clustering. Distances in the other tables are to an "
        "obstacle's centre, not to its nearest cell"
    )


def _far(metres: float | None) -> str:
    return "nowhere" if metres is None else f"{metres:.1f} m"


METRES = dict.fromkeys(REACHES, ".1f")


@table(title="Farthest effect of one added point, in metres", note=_note, file="field", formats=METRES, optional=True)
def farthest_effects(results: Lidars) -> Iterator[Row]:
    """The farthest of all points of a system."""
    found: dict[str, list[Row]] = {}
    for row in single_points.rows(results):
        found.setdefault(row["system"], []).append(row)
    for name, rows in found.items():
        columns = {reach: [row[reach] for row in rows if row[reach] is not None] for reach in REACHES}
        yield {"system": name, "points": len(rows), **{reach: max(some, default=None) for reach, some in columns.items()}}


TITLE = "Where do the points lie that hide obstacles?"


@question(TITLE, _landed, _distance, _bars, single_points, farthest_effects, each=True)
def where_points_lie(one: LidarRuns) -> str:
    """A point has an effect on a network only inside its grid (±60 m, heights within ±5 m), and, unless cells are coupled
    over the whole frame, only within the receptive field. Both are measured on follow-ups rebuilt from their seeds: each
    obstacle's distance to the nearest added point is compared with what happened to it."""
    gaps, missing = nearest(_densest(one))
    near = gaps < BESIDE
    close, gone, far, gone_far = (int(mask.sum()) for mask in (near, near & missing, ~near, ~near & missing))
    return (
        f"{one.name}: {gone:,} of {close:,} obstacles within {BESIDE:g} m of one of {MOST:,} added points are missing, "
        f"{gone_far:,} of {far:,} farther away"
    )
