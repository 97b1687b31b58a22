"""The LiDAR experiment: series and searches on the zoo's systems, and the questions asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial

from swerve.core.campaign import Campaign
from swerve.execution.cost import measured
from swerve.experiments import FULL, QUICK, SAMPLED, USUAL, CampaignStep, Cost, Experiment, Setting, Step, Subject
from swerve.experiments.lidar import examples, fewest, losses, reach, retraining
from swerve.experiments.lidar.retraining import Lessons, is_retrained
from swerve.experiments.lidar.subject_runs import PLACEMENTS, LidarRuns, Lidars
from swerve.methods.lidar import BOTH, INDEPENDENT, PAIRED, SERIES, lidar
from swerve.search.fuzz import Fuzz
from swerve.transformations.points import clouds_of
from swerve.world.lidar_source import LidarWorld
from swerve.zoo.lidar import Lidar, LidarGlobal

SAFE = "lidar (region first)"  # outside points cannot reach it: D-29
SHRINKING = 30  # forward passes for an obstacle that was hidden, estimated
HIDDEN = 0.3  # share of the obstacles tried, estimated
PICTURE = 0.5e6  # bytes of a frame's picture
BATCHES = (8, 4)  # of the two runs, different so that A/A covers an influence of the batch


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


def _frames(setting: Setting) -> int:
    frames: int = setting.size.frames * (len(SERIES) if setting.options["independent"] else 1)
    return frames


def _subjects(setting: Setting) -> list[Subject]:
    """The zoo's two systems, and the first with `roi_first`, all on the same sweeps."""
    source, few = retraining.cached_sweeps(setting, _frames(setting)), LidarWorld(drives=SAMPLED, seed=1)
    systems = {"lidar": Lidar(), "lidar-global": LidarGlobal(), SAFE: Lidar(roi_first=True)}
    return [Subject(name, system, source, few=few) for name, system in systems.items()]


def _steps(subject: Subject, setting: Setting) -> Iterator[Step]:
    for (placement, near), batch in zip(PLACEMENTS.items(), BATCHES, strict=True):
        yield CampaignStep(placement, values={"near": near, "inference_batch": batch})
    if not LidarRuns(subject, setting).is_safe:
        search, searched = setting.size.search, setting.size.searched
        trials = searched * (1 + search.per_case) + search.targets * (search.tries + HIDDEN * SHRINKING)
        yield CampaignStep(fewest.RUN, fewest.search_for_fewest, trials=trials)
    yield from retraining.retraining_steps(subject, setting)


def _series(one: LidarRuns, near: float | None, inference_batch: int) -> Campaign:
    design = INDEPENDENT if one.setting.options["independent"] else PAIRED
    make = partial(lidar, one.subject.source, one.subject.system, check=BOTH, seed=one.setting.seed)
    return make(near=near, series=design, inference_batch=inference_batch)


def _preparation(setting: Setting) -> Cost:
    """Sweeps to render: those of the series, of retraining, and of the exported frames with their pictures."""
    lessons: Lessons = setting.size.lessons
    learnt = lessons.sweeps + lessons.aside if is_retrained(setting) else 0
    return _sweep_cost() * (_frames(setting) + learnt + 2 * lessons.exported) + Cost(0, PICTURE) * (2 * lessons.exported)


@cache
def _sweep_cost() -> Cost:
    """The cost of one sweep of a new drive."""
    world = LidarWorld(drives=1, seed=2)
    return measured(lambda: next(clouds_of(world[world.keys()[0]])), lambda cloud: cloud.xyzi.nbytes)[0]


LEAD = (
    "Zhou and Sun added random points outside the region of interest to LiDAR sweeps and counted the obstacles that Baidu "
    "Apollo detected before and after. This page repeats their experiment with the checks that it left open: whether the "
    "same obstacles are still detected, what happens without a change, and how few points it takes. Their numbers stand "
    "beside ours."
)


ARCHITECTURES = {
    False: "the network gets the whole sweep and the region selects the points of boxes, as in the code of Apollo 1.5 to "
    "3.0.",
    True: "only points in the region reach the network, as in the paper's text; no point outside can change its answer, "
    "which is verified here.",
}  # D-29


def _architectures(results: Lidars) -> Iterator[str]:
    known = [one for one in results if isinstance(one.subject.system, Lidar)]
    for safe, words in ARCHITECTURES.items():
        if names := [one.name for one in known if one.is_safe == safe]:
            yield f"{', '.join(names)}: {words}"


LIDAR = Experiment(
    "lidar",
    "LiDAR",
    subjects=_subjects,
    cases=_frames,
    sizes=SIZES,
    steps=_steps,
    campaign=_series,
    reads=LidarRuns,
    questions=(
        *(losses.are_obstacles_lost, examples.examples, losses.are_they_the_same, reach.where_points_lie),
        *(fewest.how_few_points, retraining.does_training_help),
    ),
    lead=(LEAD, _architectures),
    options={"independent": False, "retrain": False},
    preparation=_preparation,
)
