"""The DeepTest experiment: its runs, then a section for each research question, tables and a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from swerve.analysis.angles import untouched
from swerve.analysis.growth import grown
from swerve.analysis.neurons import SubModels
from swerve.analysis.oracle import MSE, Oracle
from swerve.core.case import Source
from swerve.core.errors import InputError
from swerve.core.system import System, WhiteBox
from swerve.coverage.layers import COUNTINGS, layout_of
from swerve.execution.launch import HEALTH
from swerve.experiments.deeptest import correlation, diversity, examples, guidance, retraining, reviewed, violations
from swerve.experiments.deeptest.retraining import Retraining
from swerve.experiments.deeptest.subject_runs import DeepTestRuns, Guidance
from swerve.experiments.estimate import SAMPLED, Cost, Stills, frame_cost, trial_cost
from swerve.experiments.setting import FULL, QUICK, USUAL, Setting
from swerve.experiments.subjects import SCENE_FRAMES, SCENES, TRAINING, FrameCounts, Subject, given, rendered, zoo
from swerve.methods.deeptest import COUNTING_OF, GUIDED, PLAIN, RANDOM, WEATHER, deeptest
from swerve.report.experiment_page import Page, write_page
from swerve.retrain.finetune import torch_of
from swerve.search.greedy import SCRIPT, Greedy
from swerve.sources.subset import Subset
from swerve.sources.windows import frames_of
from swerve.store.view import Run
from swerve.world.source import World
from swerve.zoo.steering import STEERING, Chauffeur

RETRAINED = "epoch"  # the paper's Table 9 is of Epoch
CHANGES = 70  # of Table 4
TRIES = 40  # trials per seed, estimated: ten, and ten more for each image that was kept
REFUSED = 2  # pairs made for each trial: refused pairs cost as well, except that of a long window only one frame is made
SHARED = 0.1  # share of the work on a long window that neighbouring windows do not share
FEWER = 56  # divides the budget of long windows: about a tenth of the cumulative set of their seeds
OTHER_DRAWS = 1000  # between the seeds of a guided search and those of its rivals
LONG = 10  # frames from which on a window counts as long, and its trials as expensive


@dataclass(frozen=True)
class DeepTestSize:
    """The size of the experiment: images of RQ1, 2 and 4; seeds, number and budget of the searches; passes of retraining."""

    frames: FrameCounts
    seeds: int
    searches: int
    budget: int  # maximum number of trials of a search
    passes: int

    def of(self, subject: Subject) -> DeepTestSize:
        """The size for one system."""
        return self.at(len(frames_of(subject.source, subject.source.keys()[0])))

    def at(self, length: int) -> DeepTestSize:
        """The size for images of `length` frames: fewer and shorter searches on long windows."""
        if length < LONG:
            return self
        return replace(self, seeds=self.seeds // 5, searches=1, budget=self.budget // FEWER)


SIZES = {
    QUICK: DeepTestSize(FrameCounts(20, 20, 40), seeds=10, searches=2, budget=300, passes=6),
    USUAL: DeepTestSize(FrameCounts(100, 100, 600), seeds=100, searches=8, budget=8000, passes=20),
    FULL: DeepTestSize(FrameCounts(1000, 400, 1000), seeds=100, searches=10, budget=40_000, passes=20),
}


def experiment(
    setting: Setting,
    system: System | None = None,
    source: Source | None = None,
    name: str = "",
    profile: str = PLAIN,
    error: str = MSE,
) -> Page:
    """Run everything in the setting's folder, resuming what is there; writes the page there and returns it."""
    size = SIZES[setting.level]
    Oracle(1.0, error)  # refuses an unknown error metric before anything is run
    if system is not None and source is not None:
        subjects = [given(system, source, size.frames.scenes, name or type(system).__name__.lower())]
        again = _given(subjects[0], size)
    else:
        subjects = zoo(setting, size.frames)
        again = _epoch(setting, subjects, size)
    tested = [replace(_tested(setting, subject, size.of(subject), profile), metric=error) for subject in subjects]
    written = page(setting, tested, again)
    written = replace(written, facts={**written.facts, "profile": profile, "error of Eq. 3": error})
    write_page(written, setting.into)
    return written


def estimate(
    level: str, system: System | None = None, source: Source | None = None, profile: str = PLAIN, error: str = MSE
) -> Cost:
    """The estimated cost of the experiment, from a few trials of each system; `error` does not matter."""
    del error
    size, total = SIZES[level], Cost()
    if system is not None and source is not None:
        images = min(size.frames.scenes, len(source.keys()))
        some = Subset(source, SAMPLED)
        length = len(frames_of(some, some.keys()[0]))
        return trial_cost(deeptest(some, system, profile=profile), some) * (
            _trials(size, images, length) + _training_trials(images, 0, size)
        )
    frame, picture = frame_cost()
    drives, each = size.frames.drives(Chauffeur.view.frames)
    total += frame * (size.frames.scenes * SCENE_FRAMES + drives * each + size.frames.training)
    for kind in STEERING.values():
        stills = Stills(picture, kind.view.frames)
        long = kind.view.frames >= LONG
        images = size.frames.windows if long else size.frames.scenes
        one = trial_cost(deeptest(stills, kind(), profile=profile), stills)
        total += one * _trials(size, images, kind.view.frames)
        if kind.name == RETRAINED:
            total += Cost(one.seconds) * _training_trials(images * SCENE_FRAMES, size.frames.training, size)
    return total


def _training_trials(images: int, training: int, size: DeepTestSize) -> float:
    """The time of retraining in trials, if every pass is made: reading, then forward and backward passes."""
    learnt = 2 * (1.7 * images + training) + 3 * training if training else 2 * 1.7 * images
    return 3 * images + learnt * (1 + size.passes)


def _trials(size: DeepTestSize, images: int, length: int) -> float:
    """The estimated number of trials of one system; simple changes of long windows share most frames with their neighbours.

    A search usually ends with an empty queue, but on long windows by its budget: every step has neurons of its own.
    """
    table = images * (CHANGES + 2) * (SHARED if length >= LONG else 1)
    own = size.at(length)
    tries = min(own.budget, own.seeds * TRIES) if length < LONG else own.budget
    return table + 3 * own.searches * tries * (REFUSED if length < LONG else 1)


def page(setting: Setting, tested: Sequence[DeepTestRuns], again: Retraining | None) -> Page:
    """The page of finished runs; writes their tables as well."""
    sections = (
        correlation.section(setting, tested),
        diversity.section(setting, tested),
        guidance.section(setting, tested),
        violations.section(setting, tested),
        reviewed.section(setting, tested),
        retraining.section(setting, again),
        examples.section(tested),
    )
    return Page(
        f"DeepTest on {', '.join(one.name for one in tested)}", (LEAD, *_lead(tested)), sections, _facts(setting, tested)
    )


LEAD = (
    "Tian, Pei, Jana and Ray changed camera images in ways that should not change the steering angle, searched for changes "
    "that activate new neurons, and counted wrong answers. This page repeats their five research questions; their numbers "
    "stand beside ours where the same quantity was measured. Models and images differ: compare patterns, not sizes."
)


def _lead(tested: Sequence[DeepTestRuns]) -> tuple[str, ...]:
    black = [one.name for one in tested if one.parts is None]
    lines = [f"{', '.join(black)}: a black box, left out of RQ1 to RQ3."] if black else []
    return (*lines, *(f"{one.name}: {concern}" for one in tested for concern in _concerns(one.simple)))


def _concerns(run: Run) -> list[str]:
    """The concerns of `swerve check` above the level of a note."""
    health = json.loads((run.folder / HEALTH).read_text())
    return [concern["why"] for concern in health["concerns"] if concern["level"] != "note"]


def _facts(setting: Setting, tested: Sequence[DeepTestRuns]) -> dict[str, object]:
    images = {one.name: f"{len(one.baseline):,} images, {one.angles.count:,} simple follow-ups" for one in tested}
    return {"level": setting.level, "seed": setting.seed, **images}


def _tested(setting: Setting, subject: Subject, size: DeepTestSize, profile: str) -> DeepTestRuns:
    """All runs of one system; a system that `swerve check` refuses is refused."""
    dry = deeptest(subject.source, subject.system, profile=profile, seed=setting.seed)
    wet = deeptest(subject.source, subject.system, changes=WEATHER, coverage=False, seed=setting.seed)
    simple = setting.run(f"{subject.name}/simple", dry, force=False)
    weather = setting.run(f"{subject.name}/weather", wet)
    seeds = Subset(subject.source, size.seeds)
    if not isinstance(subject.system, WhiteBox):
        return DeepTestRuns(subject, simple, weather, tuple(seeds.keys()))
    counting = COUNTINGS[COUNTING_OF[profile]]
    layout = layout_of(subject.system, seeds[seeds.keys()[0]], counting=counting)
    # The limit of Eq. 2 is that of all images, even though the search starts from some of them.
    searched = _search(setting, replace(subject, source=seeds), size, _mse(simple), profile)
    return DeepTestRuns(subject, simple, weather, tuple(seeds.keys()), SubModels.of(layout), layout.layers, searched)


def _mse(run: Run) -> float | None:
    """MSE_orig of a run in degrees²; None without labels."""
    labels, answers = untouched(run.baseline())
    return float(np.degrees(np.sqrt(np.mean((labels - answers) ** 2))) ** 2) if len(labels) else None


def _search(setting: Setting, subject: Subject, size: DeepTestSize, mse: float | None, profile: str) -> Guidance:
    """Guided searches, and for each its random rivals with as many trials and draws of their own."""
    guided: list[Run] = []
    alike: list[Run] = []
    pairs: list[Run] = []
    make = partial(deeptest, subject.source, subject.system, mse=mse, profile=profile)
    for number in range(size.searches):
        seed = setting.seed + number
        led = make(search=GUIDED, budget=size.budget, seed=seed)
        guided.append(setting.run(f"{subject.name}/guided-{number}" if number else f"{subject.name}/guided", led, workers=0))
        script = "".join("01"[new] for _, new in grown(guided[-1])) or "0"
        twin = make(search=RANDOM, budget=len(script), seed=seed + OTHER_DRAWS)
        assert isinstance(twin.search, Greedy)
        same = replace(twin, search=replace(twin.search, follow=SCRIPT, script=script, chance=0.0))
        alike.append(setting.run(f"{subject.name}/alike-{number}", same, workers=0))
        pairs.append(setting.run(f"{subject.name}/pairs-{number}", replace(twin, seed=seed + 2 * OTHER_DRAWS), workers=0))
    return Guidance(tuple(guided), tuple(alike), tuple(pairs))


def _epoch(setting: Setting, subjects: Sequence[Subject], size: DeepTestSize) -> Retraining | None:
    """As in the paper: Epoch on every frame of the test scenes, with frames of the training split as original data."""
    chosen = next((subject for subject in subjects if subject.name == RETRAINED), None)
    if chosen is None:
        return None
    scenes = rendered(setting, SCENES, World(size.frames.scenes, SCENE_FRAMES, seed=setting.seed))
    base = rendered(setting, TRAINING, World(size.frames.training, 1, "train", seed=setting.seed))
    return Retraining(chosen, scenes, base, size.passes)


def _given(subject: Subject, size: DeepTestSize) -> Retraining | None:
    try:
        torch_of(subject.system)
    except InputError:
        return None
    return Retraining(subject, subject.source, None, size.passes)
