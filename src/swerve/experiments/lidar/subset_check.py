"""Which obstacles? The true subset that the authors did not check: lost, vanished, renamed, moved, gained (LM-7, D-17)."""

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

MISSING = "missing"  # lost, renamed or moved: what the subset forbids
REAL = "lost_real"  # only a label knows
FATES = ("lost", "vanished", REAL, "type_changed", "moved", "gained", MISSING)
COLUMNS = (
    *("system", "placement", "n", "type", "fate", "obstacles", "count", "rate", "low", "high", "A/A rate"),
    *("frames", "frames with", "frame rate", "frame low", "frame high", "A/A frame rate"),
)
SHORT = ("system", "placement", "n", "obstacles", *FATES, "rate", "frame rate", "low", "high", "hidden from counting")
FORMATS = {"rate": ".2%", "frame rate": ".1%", "low": ".1%", "high": ".1%"}


def section(setting: Setting, all_tested: Sequence[LidarRuns]) -> Section:
    """Every fate of every type, per obstacle and per frame."""
    rows = tuple(row for tested in all_tested for row in _rows(tested))
    csv = setting.table("subset", COLUMNS, rows)
    short = tuple(row for tested in all_tested for row in _short(tested))
    parts = (
        TablePanel("What became of the obstacles, all types", SHORT, short, NOTE, csv=csv, formats=FORMATS),
        ChartPanel("Frames in which an obstacle is not the same any more", bars(_bars(all_tested), percent=True)),
    )
    return Section("Are they the same obstacles?", (TEXT,), parts, _answer(all_tested))


TEXT = (
    "A loss hidden by a ghost leaves the number as it was. So each obstacle is looked for: of the same type, and "
    f"overlapping by an IoU of {OBSTACLES.overlap:g} or more seen from above, or, for pedestrians and cyclists, within "
    f"{OBSTACLES.within:g} m. What is not there is of another type, moved (IoU {OBSTACLES.near:g} or more, or less than "
    f"{2 * OBSTACLES.within:g} m away), or lost; of the lost, those have vanished that no other box covers by more than "
    f"{COVERED:.0%} nor is for {PIECE:.0%} a piece of: they were not merged into a neighbour. lost_real: the lost whose "
    f"middle lies on a true box or at most {BESIDE:g} m beside it, told of frames with labels only. "
    "Obstacles clear of the region are neither demanded nor forbidden."
)
NOTE = (
    "missing: lost, of another type or moved, which the subset forbids; rate: of obstacles, frame rate: of frames with one "
    "missing, with its 95% Wilson interval; hidden from counting: frames with one missing and no fewer obstacles. Per type, "
    "with intervals for each, in the CSV"
)


def fates(frame: Frame, fate: str, kind: str = ALL) -> int:
    """How many obstacles of a type have had a fate in a frame."""
    if fate == MISSING:
        return sum(fates(frame, one, kind) for one in ("lost", "type_changed", "moved"))
    return int(frame.facts.get(fate if kind == ALL else f"{fate}.{kind}", 0.0))


def obstacles(frames: Sequence[Frame], kind: str = ALL) -> int:
    """How many obstacles of a type there were."""
    return sum(frame.counts[kind].before for frame in frames if kind in frame.counts)


def struck(frames: Sequence[Frame], fate: str, kind: str = ALL) -> int:
    """In how many frames any had a fate."""
    return sum(fates(frame, fate, kind) > 0 for frame in frames)


def known(frames: Sequence[Frame], fate: str) -> Sequence[Frame]:
    """The frames in which a fate can be told."""
    return [frame for frame in frames if frame.labelled] if fate == REAL else frames


def total(frames: Sequence[Frame], fate: str, kind: str = ALL) -> int | None:
    """How many obstacles have had a fate; None where no frame can tell."""
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
    """Obstacles and frames, each with the share that had the fate; a gained obstacle is told per obstacle there was."""
    frames, again, had = known(frames, fate), known(tested.again, fate), total(frames, fate, kind)
    if had is None:
        return (*(None,) * 6, len(frames), *(None,) * 5)
    there, there_again, had_again = obstacles(frames, kind), obstacles(again, kind), total(again, fate, kind)
    share = _share(had, there) if had <= there else (None, None, None)  # more ghosts than obstacles is no share
    floor = had_again / there_again if there_again and had_again is not None else None
    frame_floor = struck(again, fate, kind) / len(again) if again else None
    with_it = struck(frames, fate, kind)
    return (there, had, *share, floor, len(frames), with_it, *_share(with_it, len(frames)), frame_floor)


def _short(tested: LidarRuns) -> Iterator[Row]:
    for (placement, n), frames in {(NOTHING, 0): tested.again, **tested.series}.items():
        told = {fate: total(frames, fate) for fate in FATES}
        there, missing = obstacles(frames), sum(fates(frame, MISSING) for frame in frames)
        unseen = sum(fates(frame, MISSING) > 0 and frame.counts[ALL].outcome != "lost" for frame in frames)
        share = missing / there if there else None
        of_frames = _share(struck(frames, MISSING), len(frames))
        yield (tested.name, placement, n, there, *told.values(), share, *of_frames, unseen)


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
        f"of {len(frames):,} follow-ups over all systems and series {missing:,} miss an obstacle of the untouched frame, "
        f"where counting finds {fewer:,}; in {vanished:,} one has vanished, merged into no neighbour; A/A {floor:,}"
    )
