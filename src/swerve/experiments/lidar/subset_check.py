"""The subset relation that the authors did not check: which obstacles are lost, vanished, of another type, moved, gained."""
# LM-7, D-17

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swerve.analysis.statistics import wilson
from swerve.experiments.lidar.losses import kinds_of, outcomes
from swerve.experiments.lidar.subject_runs import NOTHING, Frame, LidarRuns
from swerve.experiments.setting import Setting
from swerve.relations.obstacles import ALL, BESIDE, COVERED, OBSTACLES, PIECE
from swerve.report.cells import Row
from swerve.report.charts import Bar, bars
from swerve.report.experiment_page import ChartPanel, Section, TablePanel

MISSING = "missing"  # lost, of another type or moved: what the subset relation forbids
REAL = "lost_real"  # needs labels
FATES = ("lost", "vanished", REAL, "type_changed", "moved", "gained", MISSING)
COLUMNS = (
    *("system", "placement", "n", "type", "fate", "obstacles", "count", "rate", "low", "high", "A/A rate"),
    *("frames", "frames with", "frame rate", "frame low", "frame high", "A/A frame rate"),
)
SHORT = ("system", "placement", "n", "obstacles", *FATES, "rate", "frame rate", "low", "high", "hidden from counting")
FORMATS = {"rate": ".2%", "frame rate": ".1%", "low": ".1%", "high": ".1%"}


def section(setting: Setting, all_tested: Sequence[LidarRuns]) -> Section:
    """Every outcome for every type, per obstacle and per frame."""
    rows = tuple(row for tested in all_tested for row in _rows(tested))
    csv = setting.table("subset", COLUMNS, rows)
    short = tuple(row for tested in all_tested for row in _short(tested))
    parts = (
        TablePanel("What happened to the obstacles, all types", SHORT, short, NOTE, csv=csv, formats=FORMATS),
        ChartPanel("Frames with a missing obstacle", bars(_bars(all_tested), percent=True)),
    )
    return Section("Are they the same obstacles?", (TEXT,), parts, _answer(all_tested))


TEXT = (
    "A lost obstacle and a false one together leave the number unchanged. So each obstacle is matched: with the same type "
    f"and an IoU of at least {OBSTACLES.overlap:g} seen from above or, for pedestrians and cyclists, within "
    f"{OBSTACLES.within:g} m. An obstacle without a match is of another type, moved (IoU at least {OBSTACLES.near:g}, or "
    f"less than {2 * OBSTACLES.within:g} m away), or lost. A lost obstacle has vanished if no other box covers more than "
    f"{COVERED:.0%} of it or lies for {PIECE:.0%} on it: it was not merged into a neighbour. lost_real: lost obstacles "
    f"whose centre lies on a labelled box or at most {BESIDE:g} m beside it, in frames with labels only. "
    "Obstacles that do not touch the region are neither required nor forbidden."
)
NOTE = (
    "missing: lost, of another type or moved, which the subset relation forbids; rate: share of obstacles; frame rate: "
    "share of frames with a missing obstacle, with its 95% Wilson interval; hidden from counting: frames with a missing "
    "obstacle but not fewer obstacles. The CSV has every type, with intervals"
)


def fates(frame: Frame, fate: str, kind: str = ALL) -> int:
    """The number of obstacles of a type with an outcome in a frame."""
    if fate == MISSING:
        return sum(fates(frame, one, kind) for one in ("lost", "type_changed", "moved"))
    return int(frame.facts.get(fate if kind == ALL else f"{fate}.{kind}", 0.0))


def obstacles(frames: Sequence[Frame], kind: str = ALL) -> int:
    """The number of obstacles of a type before the change."""
    return sum(frame.counts[kind].before for frame in frames if kind in frame.counts)


def struck(frames: Sequence[Frame], fate: str, kind: str = ALL) -> int:
    """The number of frames in which any obstacle has an outcome."""
    return sum(fates(frame, fate, kind) > 0 for frame in frames)


def known(frames: Sequence[Frame], fate: str) -> Sequence[Frame]:
    """The frames in which an outcome is known."""
    return [frame for frame in frames if frame.labelled] if fate == REAL else frames


def total(frames: Sequence[Frame], fate: str, kind: str = ALL) -> int | None:
    """The number of obstacles with an outcome; None if it is known in no frame."""
    able = known(frames, fate)
    return sum(fates(frame, fate, kind) for frame in able) if able or fate != REAL else None


def _share(successes: int, trials: int) -> Row:
    return (successes / trials, *wilson(successes, trials)) if trials else (None, None, None)


def _rows(tested: LidarRuns) -> Iterator[Row]:
    for (placement, n), frames in {(NOTHING, 0): tested.again, **tested.series}.items():
        for kind in (ALL, *kinds_of(tested)):
            for fate in FATES:
                yield (tested.name, placement, n, kind, fate, *_counts(tested, frames, fate, kind))


def _counts(tested: LidarRuns, frames: Sequence[Frame], fate: str, kind: str) -> Row:
    """Obstacles and frames, each with the share that has the outcome; gained ones relative to the obstacles before."""
    frames, again, had = known(frames, fate), known(tested.again, fate), total(frames, fate, kind)
    if had is None:
        return (*(None,) * 6, len(frames), *(None,) * 5)
    there, there_again, had_again = obstacles(frames, kind), obstacles(again, kind), total(again, fate, kind)
    share = _share(had, there) if had <= there else (None, None, None)  # more gained than there were is not a share
    floor = had_again / there_again if there_again and had_again is not None else None
    frame_floor = struck(again, fate, kind) / len(again) if again else None
    with_it = struck(frames, fate, kind)
    return (there, had, *share, floor, len(frames), with_it, *_share(with_it, len(frames)), frame_floor)


def _short(tested: LidarRuns) -> Iterator[Row]:
    for (placement, n), frames in {(NOTHING, 0): tested.again, **tested.series}.items():
        totals = {fate: total(frames, fate) for fate in FATES}
        there, missing = obstacles(frames), sum(fates(frame, MISSING) for frame in frames)
        unseen = sum(fates(frame, MISSING) > 0 and frame.counts[ALL].outcome != "lost" for frame in frames)
        share = missing / there if there else None
        of_frames = _share(struck(frames, MISSING), len(frames))
        yield (tested.name, placement, n, there, *totals.values(), share, *of_frames, unseen)


def _bars(all_tested: Sequence[LidarRuns]) -> dict[str, dict[str, Bar]]:
    return {
        f"{tested.name}, {placement}": {
            f"{n:,} points": Bar.rate(struck(frames, MISSING), len(frames))
            for (where, n), frames in tested.series.items()
            if where == placement
        }
        for tested in all_tested
        for placement in tested.runs
    }


def _answer(all_tested: Sequence[LidarRuns]) -> str:
    frames = [frame for tested in all_tested for series in tested.series.values() for frame in series]
    missing, fewer = struck(frames, MISSING), outcomes(frames)["lost"]
    vanished, floor = struck(frames, "vanished"), sum(struck(tested.again, MISSING) for tested in all_tested)
    return (
        f"of {len(frames):,} follow-ups of all systems and series, {missing:,} miss an obstacle of the untouched frame, "
        f"while counting finds {fewer:,}; in {vanished:,} one has vanished without being merged; A/A {floor:,}"
    )
