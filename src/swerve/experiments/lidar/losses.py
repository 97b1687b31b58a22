"""Are obstacles lost? By counting as in the paper's table and Fig. 3, beside unchanged frames (A/A); then one by one.

The authors did not check the subset relation: which obstacles are lost, vanished, of another type, moved, gained.
"""
# LM-6 to LM-9, D-17

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from markupsafe import Markup

from swerve.analysis.obstacle_frames import MISSING, REAL, Frame, struck
from swerve.analysis.statistics import sign_test
from swerve.experiments import Counted, Row, chart, question, rated
from swerve.experiments.lidar.subject_runs import ANYWHERE, MOST, PAPER, PLACEMENTS, RANKING, LidarRuns, Lidars, system_table
from swerve.relations.obstacles import ALL, BESIDE, COVERED, OBSTACLES, PIECE
from swerve.report.charts import Bar, bars, stacked

OUTCOMES = ("lost", "equal", "gained")
TITLE = "Table: frames with fewer, equally many and more obstacles than before"
ORDER = " > ".join(RANKING)
WIDE = ("rate", "low", "high")  # columns of the file; the page has them beside the counts
FATES = ("lost", "vanished", REAL, "type_changed", "moved", "gained", MISSING)
MATCHING = (
    f"A match has the same type and an IoU of at least {OBSTACLES.overlap:g} seen from above or, for pedestrians and "
    f"cyclists, lies within {OBSTACLES.within:g} m. An obstacle without a match is of another type, moved (IoU at least "
    f"{OBSTACLES.near:g}, or less than {2 * OBSTACLES.within:g} m away), or lost. A lost obstacle has vanished if no other "
    f"box covers more than {COVERED:.0%} of it or lies for {PIECE:.0%} on it: it was not merged into a neighbour. lost real:"
    f" lost obstacles whose centre lies on a labelled box or at most {BESIDE:g} m beside it, in frames with labels only. "
    "Obstacles that do not touch the region are neither required nor forbidden."
)


def outcomes(frames: Sequence[Frame], kind: str = ALL) -> Counter[str]:
    """The numbers of frames with fewer, equally many and more obstacles of a type."""
    return Counter(frame.outcome(kind) for frame in frames)


def _rate(frames: Sequence[Frame], kind: str = ALL) -> float | None:
    return outcomes(frames, kind)["lost"] / len(frames) if frames else None


def _cells(one: LidarRuns, frames: Sequence[Frame], kind: str = ALL) -> Row:
    """Frames, the three columns, the rate with its interval, and that of unchanged frames."""
    counts, total = outcomes(frames, kind), len(frames)
    columns = {name: Counted(counts[name], total) for name in OUTCOMES}
    return {"frames": total, **columns, **rated(counts["lost"], total), "A/A rate": _rate(one.again, kind)}


@system_table("table", TITLE, hidden=(*WIDE, "A/A rate"), printed=PAPER["table"])
def _table(one: LidarRuns) -> Iterator[Row]:
    """lost, equal, gained: frames with fewer, equally many and more obstacles, with their share and its 95% Wilson interval;
    sign test: whether losses and gains are equally likely, as they would be by noise; answers changed: frames whose answers
    before and after differ in any bit of boxes, types or scores. The printed numbers are of Apollo on real sweeps: compare
    their pattern, not their size"""
    # D-20
    for (placement, n), frames in one.every.items():
        counts = outcomes(frames)
        p = sign_test(counts["lost"], counts["gained"]).p
        key = {"placement": placement, "n": n, **_cells(one, frames)}
        yield {**key, "sign test p": p, "answers changed": sum(frame.changed for frame in frames)}


@system_table("fig3", "Fig. 3: the same by type", hidden=WIDE, main=False)
def _figure_3(one: LidarRuns) -> Iterator[Row]:
    """before and after: obstacles of the type in all frames; the paper ranks error rates {ORDER}"""
    for (placement, n), frames in one.every.items():
        for kind in one.kinds:
            totals = {end: sum(frame.count(end, kind) for frame in frames) for end in ("before", "after")}
            yield {"placement": placement, "n": n, "type": kind, **_cells(one, frames, kind), **totals}


def bars_of_series(results: Lidars, count: Callable[[Sequence[Frame]], int], *, printed: bool = False) -> Markup:
    """A bar for every series: the share of frames that `count` counts."""
    groups: dict[str, dict[str, Bar]] = {}
    for one in results:
        for (placement, n), frames in one.series.items():
            paper = PAPER["table"].values.get((placement, n)) if printed else None
            bar = Bar.rate(count(frames), len(frames), printed=paper["lost"].rate if paper else None)
            groups.setdefault(f"{one.name}, {placement}", {})[f"{n:,} points"] = bar
    return bars(groups, percent=True)


@chart("Frames that lost obstacles, by counting", "95% Wilson intervals")
def _bars(results: Lidars) -> Markup:
    return bars_of_series(results, lambda frames: outcomes(frames)["lost"], printed=True)


@chart(f"Fig. 3: lost, equal and gained, {MOST:,} points anywhere")
def _shares(results: Lidars) -> Markup:
    rows = {(one, kind): outcomes(one.series[ANYWHERE, MOST], kind) for one in results for kind in (ALL, *one.kinds)}
    return stacked(
        {f"{one.name}, {kind}": {name: float(some[name]) for name in OUTCOMES} for (one, kind), some in rows.items()}
    )


@question("Do points outside the region hide obstacles within it?", _table, _bars, _shares, _figure_3, each=True)
def are_obstacles_lost(one: LidarRuns) -> str:
    """MR1: every obstacle detected in a sweep must still be detected when points are added outside the region of interest.
    As in the paper, numbers are compared: fewer obstacles than before are a violation. In the A/A row each untouched frame
    is answered a second time: its losses are noise of the system, not an effect of points. Obstacles that do not touch the
    region do not count."""
    parts = []
    for placement in PLACEMENTS:
        series = [frames for (where, _), frames in one.series.items() if where == placement]
        shares = "/".join("–" if (share := _rate(frames)) is None else f"{100 * share:.1f}" for frames in series)
        parts.append(f"{shares}% of the frames ({placement})")
    floor = _rate(one.again)
    aa = "unknown" if floor is None else f"{floor:.1%}"
    text = f"with 10/100/1,000 points, {one.name} lost obstacles in {' and '.join(parts)}, A/A {aa}"
    return f"{text}, {_describe_changed(one)}" if one.is_safe else text


def _describe_changed(one: LidarRuns) -> str:
    """How many answers of a system that no outside point can reach differ: no bit may."""
    changed = [frame.changed for series in one.series.values() for frame in series]
    if not any(changed):
        return f"and of its {len(changed):,} answers exactly 0 differ in any bit"
    return f"but {sum(changed):,} of its {len(changed):,} answers differ, although no point outside should reach it"


def _fate(frames: Sequence[Frame], fate: str, kind: str = ALL) -> tuple[Counted, Counted]:
    """How many obstacles have an outcome, and how many frames such obstacles; what is real is known of labelled frames."""
    able = [frame for frame in frames if frame.labelled] if fate == REAL else frames
    if fate == REAL and not able:
        return Counted(None, None), Counted(None, 0)
    there, had = (sum(frame.count(name, kind) for frame in able) for name in ("before", fate))
    return Counted(had, there), Counted(struck(able, fate, kind), len(able))


@system_table("subset")
def _subset(one: LidarRuns) -> Iterator[Row]:
    """Obstacles and frames, each with the share that has the outcome; gained ones relative to the obstacles before."""
    for ((placement, n), frames), kind, fate in product(one.every.items(), (ALL, *one.kinds), FATES):
        (had, with_it), (floor, frame_floor) = (_fate(some, fate, kind) for some in (frames, one.again))
        yield {
            **{"placement": placement, "n": n, "type": kind, "fate": fate, "obstacles": had.of, "count": had.count},
            **rated(had.count, 0 if had.of is None or (had.count or 0) > had.of else had.of),  # more gained is not a share
            **{"A/A rate": floor.rate, "frames": with_it.of, "frames with": with_it.count},
            **rated(with_it.count, with_it.of or 0, ("frame rate", "frame low", "frame high")),
            "A/A frame rate": frame_floor.rate,
        }


@system_table(title="What happened to the obstacles, all types", file="subset", formats={"rate": ".2%"})
def _all_types(one: LidarRuns) -> Iterator[Row]:
    """missing: lost, of another type or moved, which the subset relation forbids; rate: share of obstacles; frame rate:
    share of frames with a missing obstacle, with its 95% Wilson interval; hidden from counting: frames with a missing
    obstacle but not fewer obstacles. The CSV has every type, with intervals"""
    for (placement, n), frames in one.every.items():
        missing, with_it = _fate(frames, MISSING)
        yield {
            **{"placement": placement, "n": n, "obstacles": missing.of},
            **{fate.replace("_", " "): _fate(frames, fate)[0].count for fate in FATES},
            "rate": missing.rate,
            **rated(with_it.count, len(frames), ("frame rate", "low", "high")),
            "hidden from counting": sum(frame.count(MISSING) > 0 and frame.outcome() != "lost" for frame in frames),
        }


@chart("Frames with a missing obstacle")
def _missing_bars(results: Lidars) -> Markup:
    return bars_of_series(results, lambda frames: struck(frames, MISSING))


@question("Are they the same obstacles?", _subset, _all_types, _missing_bars, text=(MATCHING,))
def are_they_the_same(results: Lidars) -> str:
    """A lost obstacle and a false one together leave the number unchanged, so each obstacle is matched."""
    frames = [frame for one in results for series in one.series.values() for frame in series]
    missing, fewer = struck(frames, MISSING), outcomes(frames)["lost"]
    vanished, floor = struck(frames, "vanished"), sum(struck(one.again, MISSING) for one in results)
    return (
        f"of {len(frames):,} follow-ups of all systems and series, {missing:,} miss an obstacle of the untouched frame, "
        f"while counting finds {fewer:,}; in {vanished:,} one has vanished without being merged; A/A {floor:,}"
    )
