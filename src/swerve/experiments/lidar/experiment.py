"""The LiDAR experiment: series and searches, then a section for each question, tables and a page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from swerve.core.case import Source
from swerve.core.system import System
from swerve.experiments.estimate import SAMPLED, Cost, trial_cost
from swerve.experiments.lidar import examples, fewest, losses, reach, retraining, subset_check
from swerve.experiments.lidar.fewest import Hunt, hunt
from swerve.experiments.lidar.retraining import Lessons
from swerve.experiments.lidar.subject_runs import PLACEMENTS, LidarRuns, is_safe
from swerve.experiments.lidar.subjects import zoo
from swerve.experiments.setting import FULL, QUICK, USUAL, Setting
from swerve.experiments.subjects import Subject, given
from swerve.methods.lidar import BOTH, INDEPENDENT, PAIRED, SERIES, lidar
from swerve.report.experiment_page import Page, write_page
from swerve.search.fuzz import Fuzz
from swerve.sources.subset import Subset
from swerve.transformations.points import clouds_of
from swerve.world.lidar_source import LidarWorld
from swerve.zoo.lidar import Lidar, LidarGlobal

SHRINKING = 30  # forward passes for an obstacle that was hidden, estimated
HIDDEN = 0.3  # share of the obstacles tried, estimated
LEARNING = 1.5  # forward passes to train on one piece of a sweep, estimated
PICTURE = 0.5e6  # bytes of a frame's picture


@dataclass(frozen=True)
class LidarSize:
    """The size of the experiment: frames of a series, frames of the search for the fewest points, and of retraining."""

    frames: int
    searched: int
    search: Fuzz
    lessons: Lessons


SIZES = {
    QUICK: LidarSize(40, 20, Fuzz(targets=8, tries=40), Lessons(20, 4, 1, 20, 5)),
    USUAL: LidarSize(500, 200, Fuzz(), Lessons(200, 20, 4, 200, 50)),
    FULL: LidarSize(1000, 400, Fuzz(targets=48, tries=128), Lessons(400, 40, 6, 500, 100)),
}
BATCHES = (8, 4)  # of the two runs, different so that A/A covers an influence of the batch


def experiment(
    setting: Setting,
    system: System | None = None,
    source: Source | None = None,
    name: str = "",
    *,
    independent: bool = False,
    retrain: bool = False,
) -> Page:
    """Run everything in the setting's folder, resuming what is there; writes the page there and returns it."""
    size = SIZES[setting.level]
    if system is not None and source is not None:
        subjects = [given(system, source, _frames(size, independent), name or type(system).__name__.lower())]
    else:
        subjects = zoo(setting, _frames(size, independent))
    tested = [_tested(setting, subject, independent) for subject in subjects]
    hunts = [hunt(setting, subject, size.searched, size.search) for subject in subjects if not is_safe(subject.system)]
    retrained = retraining.section(setting, tested, size.lessons, retrain=retrain or setting.level != QUICK)
    sections = (
        losses.section(setting, tested),
        examples.section(tested),
        subset_check.section(setting, tested),
        reach.section(setting, tested),
        fewest.section(setting, hunts),
        retrained,
    )
    facts = _facts(setting, tested, hunts, INDEPENDENT if independent else PAIRED)
    page = Page(f"LiDAR on {', '.join(one.name for one in tested)}", (LEAD, *_lead(tested)), sections, facts)
    write_page(page, setting.into)
    return page


def _frames(size: LidarSize, independent: bool) -> int:
    return size.frames * (len(SERIES) if independent else 1)


LEAD = (
    "Zhou and Sun added random points outside the region of interest to LiDAR sweeps and counted the obstacles that Baidu "
    "Apollo detected before and after. This page repeats their experiment with the checks that it left open: whether the "
    "same obstacles are still detected, what happens without a change, and how few points it takes. Their numbers stand "
    "beside ours."
)


def _lead(tested: Sequence[LidarRuns]) -> tuple[str, ...]:
    safe = [one.name for one in tested if one.safe]
    full = [one.name for one in tested if isinstance(one.subject.system, Lidar) and one.name not in safe]
    # D-29
    lines = []
    if full:
        lines.append(
            f"{', '.join(full)}: the network gets the whole sweep and the region selects the points of boxes, as in the "
            "code of Apollo 1.5 to 3.0."
        )
    if safe:
        lines.append(
            f"{', '.join(safe)}: only points in the region reach the network, as in the paper's text; no point outside can "
            "change its answer, which is verified here."
        )
    return tuple(lines)


def _facts(setting: Setting, tested: Sequence[LidarRuns], hunts: Sequence[Hunt], design: str) -> dict[str, object]:
    frames = {one.name: f"{len(one.baseline):,} frames, {one.unjudged:,} trials not judged" for one in tested}
    tries = {f"{one.subject.name}, fewest points": f"{one.tries:,} forward passes" for one in hunts}
    return {"level": setting.level, "seed": setting.seed, "series": design, **frames, **tries}


def _tested(setting: Setting, subject: Subject, independent: bool) -> LidarRuns:
    """The series of one system, points anywhere and points near the border."""
    series = INDEPENDENT if independent else PAIRED
    runs = {}
    for (placement, near), batch in zip(PLACEMENTS.items(), BATCHES, strict=True):
        campaign = lidar(
            subject.source, subject.system, near=near, check=BOTH, series=series, seed=setting.seed, inference_batch=batch
        )
        runs[placement] = setting.run(f"{subject.name}/{placement}", campaign)
    return LidarRuns(subject, runs)


def estimate(
    level: str,
    system: System | None = None,
    source: Source | None = None,
    *,
    independent: bool = False,
    retrain: bool = False,
) -> Cost:
    """The estimated cost of the experiment, from a few trials of each system."""
    size = SIZES[level]
    frames = _frames(size, independent)
    if system is not None and source is not None:
        passes = _passes(size, min(frames, len(source.keys())), independent)
        return _trial(system, Subset(source, SAMPLED)) * (passes + _searching(size))
    some, (sweep, points) = LidarWorld(drives=SAMPLED, seed=1), _sweep()
    total = sweep * frames + Cost(0, points * frames)
    systems = (Lidar(), LidarGlobal(), Lidar(roi_first=True))
    trials = [_trial(one, some) for one in systems]
    for one, trial in zip(systems, trials, strict=True):
        total += trial * (_passes(size, frames, independent) + (0 if is_safe(one) else _searching(size)))
    if retrain or level != QUICK:
        lessons = size.lessons
        total += sweep * (lessons.sweeps + lessons.aside) + Cost(0, points * (lessons.sweeps + lessons.aside))
        both = 2 * (2 * lessons.sweeps * lessons.passes * LEARNING + 4 * lessons.frames)  # clean, and with points
        total += trials[0] * both
    return total + (sweep + Cost(0, points + PICTURE)) * (2 * size.lessons.exported)


def _sweep() -> tuple[Cost, float]:
    """The cost of one sweep of a new drive, and its bytes."""
    world, started = LidarWorld(drives=1, seed=2), time.process_time()
    cloud = next(clouds_of(world[world.keys()[0]]))
    return Cost(time.process_time() - started), float(cloud.xyzi.nbytes)


def _trial(system: System, source: Source) -> Cost:
    return trial_cost(lidar(source, system, n=SERIES[-1], check=BOTH), source)


def _passes(size: LidarSize, frames: int, independent: bool) -> int:
    """The number of answers of one system in the series: the frames once in each run, and every follow-up."""
    del size
    return len(PLACEMENTS) * frames * (2 if independent else 1 + len(SERIES))


def _searching(size: LidarSize) -> float:
    """The estimated number of answers of one system in the search for the fewest points."""
    search = size.search
    return size.searched * (1 + search.per_case) + search.targets * (search.tries + HIDDEN * SHRINKING)
