"""The whole experiment: runs first, then a section for each question, tables and a page."""

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
TRIES = 40  # of a seed: ten, and ten more for each image that was kept
REFUSED = 2  # times its tries: pairs that show too little are made as well, but of a long window only their first frame
SHARED = 0.1  # of the work on a window is its own
FEWER = 56  # times fewer tries of such a window: about a tenth of the cumulative set of its seeds
OTHER_DRAWS = 1000  # between the seeds of a search and those of its rivals
LONG = 10  # frames of a window from which on a try is dear


@dataclass(frozen=True)
class DeepTestSize:
    """How much is run: images of RQ1, 2 and 4, seeds of the search, searches of each kind, and tries of one."""

    frames: FrameCounts
    seeds: int
    searches: int
    budget: int  # tries of a search at most, should it not end by itself before
    passes: int

    def of(self, subject: Subject) -> DeepTestSize:
        """The same for one system."""
        return self.at(len(frames_of(subject.source, subject.source.keys()[0])))

    def at(self, length: int) -> DeepTestSize:
        """The same for images of so many frames: fewer and shorter searches where every one is a long window."""
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
    """Run everything into the setting's folder, resuming what is there; its page is written there and returned."""
    size = SIZES[setting.level]
    Oracle(1.0, error)  # refuses what is no error before anything is run
    if system is not None and source is not None:
        subjects = [given(system, source, size.frames.scenes, name or type(system).__name__.lower())]
        again = _own(subjects[0], size)
    else:
        subjects = zoo(setting, size.frames)
        again = _epoch(setting, subjects, size)
    tested = [replace(_tested(setting, subject, size.of(subject), profile), metric=error) for subject in subjects]
    told = page(setting, tested, again)
    told = replace(told, facts={**told.facts, "profile": profile, "error of Eq. 3": error})
    write_page(told, setting.into)
    return told


def estimate(
    level: str, system: System | None = None, source: Source | None = None, profile: str = PLAIN, error: str = MSE
) -> Cost:
    """What the experiment will cost, from a few trials of each system; the `error` costs nothing."""
    del error
    size, total = SIZES[level], Cost()
    if system is not None and source is not None:
        images = min(size.frames.scenes, len(source.keys()))
        some = Subset(source, SAMPLED)
        length = len(frames_of(some, some.keys()[0]))
        return trial_cost(deeptest(some, system, profile=profile), some) * (
            _trials(size, images, length) + _lessons(images, 0, size)
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
            total += Cost(one.seconds) * _lessons(images * SCENE_FRAMES, size.frames.training, size)
    return total


def _lessons(images: int, training: int, size: DeepTestSize) -> float:
    """About how many trials' worth of time retraining takes, if every pass is made: reading, then forward and back."""
    learnt = 2 * (1.7 * images + training) + 3 * training if training else 2 * 1.7 * images
    return 3 * images + learnt * (1 + size.passes)


def _trials(size: DeepTestSize, images: int, length: int) -> float:
    """About how many trials one system has; of a long window the simple changes share most frames with their neighbours.

    A search mostly ends by itself, but one of long windows when its budget does: every step has neurons of its own.
    """
    table = images * (CHANGES + 2) * (SHARED if length >= LONG else 1)
    own = size.at(length)
    tries = min(own.budget, own.seeds * TRIES) if length < LONG else own.budget
    return table + 3 * own.searches * tries * (REFUSED if length < LONG else 1)


def page(setting: Setting, tested: Sequence[DeepTestRuns], again: Retraining | None) -> Page:
    """The page of finished runs: their tables are written on the way."""
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
    "that activate new neurons, and counted wrong answers. Their five questions, asked again; their numbers stand beside "
    "ours where the same thing was measured. Other models on other images: shapes compare, sizes do not."
)


def _lead(tested: Sequence[DeepTestRuns]) -> tuple[str, ...]:
    black = [one.name for one in tested if one.parts is None]
    lines = [f"{', '.join(black)} cannot be looked into: RQ1 to RQ3 leave it out."] if black else []
    return (*lines, *(f"{one.name}: {concern}" for one in tested for concern in _concerns(one.simple)))


def _concerns(run: Run) -> list[str]:
    """What `swerve check` found wrong, however slightly."""
    told = json.loads((run.folder / HEALTH).read_text())
    return [concern["why"] for concern in told["concerns"] if concern["level"] != "note"]


def _facts(setting: Setting, tested: Sequence[DeepTestRuns]) -> dict[str, object]:
    images = {one.name: f"{len(one.baseline):,} images, {one.angles.count:,} simple follow-ups" for one in tested}
    return {"level": setting.level, "seed": setting.seed, **images}


def _tested(setting: Setting, subject: Subject, size: DeepTestSize, profile: str) -> DeepTestRuns:
    """All runs of one system; what `swerve check` refuses is refused."""
    dry = deeptest(subject.source, subject.system, profile=profile, seed=setting.seed)
    wet = deeptest(subject.source, subject.system, changes=WEATHER, coverage=False, seed=setting.seed)
    simple = setting.run(f"{subject.name}/simple", dry, force=False)
    weather = setting.run(f"{subject.name}/weather", wet)
    seeds = Subset(subject.source, size.seeds)
    if not isinstance(subject.system, WhiteBox):
        return DeepTestRuns(subject, simple, weather, tuple(seeds.keys()))
    counting = COUNTINGS[COUNTING_OF[profile]]
    layout = layout_of(subject.system, seeds[seeds.keys()[0]], counting=counting)
    # The limit of Eq. 2 is that of all images, also where the search begins with some of them.
    searched = _searched(setting, replace(subject, source=seeds), size, _mse(simple), profile)
    return DeepTestRuns(subject, simple, weather, tuple(seeds.keys()), SubModels.of(layout), layout.layers, searched)


def _mse(run: Run) -> float | None:
    """MSE_orig of a run in degrees²; None without labels."""
    labels, said = untouched(run.baseline())
    return float(np.degrees(np.sqrt(np.mean((labels - said) ** 2))) ** 2) if len(labels) else None


def _searched(setting: Setting, subject: Subject, size: DeepTestSize, mse: float | None, profile: str) -> Guidance:
    """Guided searches, and for each its rivals: as many tries with draws of their own, led by nothing that is covered."""
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
    """As the paper: Epoch, on every frame of the test scenes, with frames of the training split along."""
    chosen = next((subject for subject in subjects if subject.name == RETRAINED), None)
    if chosen is None:
        return None
    scenes = rendered(setting, SCENES, World(size.frames.scenes, SCENE_FRAMES, seed=setting.seed))
    base = rendered(setting, TRAINING, World(size.frames.training, 1, "train", seed=setting.seed))
    return Retraining(chosen, scenes, base, size.passes)


def _own(subject: Subject, size: DeepTestSize) -> Retraining | None:
    try:
        torch_of(subject.system)
    except InputError:
        return None
    return Retraining(subject, subject.source, None, size.passes)
