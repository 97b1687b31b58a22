"""The DeepTest experiment: changes, weather, searches and retraining on the zoo's systems, and five research questions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from swerve.analysis.growth import grown
from swerve.analysis.numbers import HEALTH
from swerve.analysis.oracle import MSE, Oracle
from swerve.core.campaign import Campaign
from swerve.core.system import WhiteBox
from swerve.experiments import FULL, QUICK, USUAL, CampaignStep, Cost, Experiment, Setting, Step, Subject
from swerve.experiments.deeptest import activations, guidance, retraining, reviewed, violations
from swerve.experiments.deeptest.subject_runs import ALIKE, PAIRS, DeepTestRuns, DeepTests, judged, search_name
from swerve.experiments.steering_subjects import SCENE_FRAMES, FrameCounts, frame_cost, zoo
from swerve.methods.deeptest import GUIDED, PLAIN, RANDOM, SIMPLE, WEATHER, deeptest
from swerve.search.greedy import SCRIPT, Greedy
from swerve.sources.windows import window_length
from swerve.zoo.steering import Chauffeur

CHANGES = 70  # of Table 4
TRIES = 40  # trials per seed, estimated: ten, and ten more for each image that was kept
REFUSED = 2  # pairs made for each trial: refused pairs cost as well, except that of a long window only one frame is made
SHARED = 0.1  # share of the work on a long window that neighbouring windows do not share
FEWER = 56  # divides the budget of long windows: about a tenth of the cumulative set of their seeds
OTHER_DRAWS = {ALIKE: 1000, PAIRS: 2000}  # between the seeds of a guided search and those of its rivals
LONG = 10  # frames from which on a window counts as long, and its trials as expensive


@dataclass(frozen=True)
class DeepTestSize:
    """The size of the experiment: images of RQ1, 2 and 4; seeds, number and budget of the searches; passes of retraining."""

    frames: FrameCounts
    seeds: int
    searches: int
    budget: int  # maximum number of trials of a search
    passes: int
    share: float = 1.0  # of the drives that Epoch was trained with, for retraining

    def of(self, subject: Subject) -> DeepTestSize:
        """The size for one system: fewer and shorter searches on long windows."""
        if not is_long(subject):
            return self
        return replace(self, seeds=self.seeds // 5, searches=1, budget=self.budget // FEWER)


def is_long(subject: Subject) -> bool:
    """Whether the cases of a subject are long windows."""
    return window_length(subject.source) >= LONG


SIZES = {
    QUICK: DeepTestSize(FrameCounts(20, 20, 40), seeds=10, searches=2, budget=300, passes=6, share=0.05),
    USUAL: DeepTestSize(FrameCounts(100, 100, 600), seeds=100, searches=8, budget=8000, passes=20),
    FULL: DeepTestSize(FrameCounts(1000, 400, 1000), seeds=100, searches=10, budget=40_000, passes=20),
}


def _steps(subject: Subject, setting: Setting) -> Iterator[Step]:
    """Simple changes, weather, guided searches and for each its random rivals, retraining.

    A search usually ends with an empty queue, but on long windows by its budget: every step has neurons of its own.
    """
    size, long = setting.size.of(subject), is_long(subject)
    each = subject.count * (SHARED if long else 1)
    yield CampaignStep(SIMPLE, values={"profile": setting.options["profile"]}, trials=CHANGES * each, checked=True)
    yield CampaignStep(WEATHER, values={"changes": WEATHER, "coverage": False}, trials=2 * each)
    tries = size.budget if long else REFUSED * min(size.budget, size.seeds * TRIES)
    for number in range(size.searches if isinstance(subject.system, WhiteBox) else 0):
        for kind, after in {GUIDED: SIMPLE, **dict.fromkeys((ALIKE, PAIRS), search_name(GUIDED, number))}.items():
            how = {"kind": kind, "number": number}
            yield CampaignStep(search_name(kind, number), _search, how, (after,), trials=tries, parallel=False)
    yield from retraining.retraining_steps(subject, setting)


def _search(one: DeepTestRuns, kind: str, number: int) -> Campaign:
    """A guided search from the seeds, or a random one with as many trials: of pairs, or alike.

    One that is alike keeps an image whenever the guided search kept its own. The limit of Eq. 2 is that of all images, even
    though a search starts from some of them.
    """
    mse, seed = math.degrees(math.sqrt(one.oracle.mse)) ** 2 if judged([one]) else None, one.setting.seed + number
    make = partial(deeptest, one.seeds, one.subject.system, mse=mse, profile=one.setting.options["profile"])
    if kind == GUIDED:
        return make(search=GUIDED, budget=one.setting.size.of(one.subject).budget, seed=seed)
    script = "".join("01"[new] for _, new in grown(one.runs[search_name(GUIDED, number)])) or "0"  # 1: new neurons covered
    rival = make(search=RANDOM, budget=len(script), seed=seed + OTHER_DRAWS[kind])
    assert isinstance(rival.search, Greedy)
    if kind == PAIRS:
        return rival
    return replace(rival, search=replace(rival.search, follow=SCRIPT, script=script, chance=0.0))


def _preparation(setting: Setting) -> Cost:
    """Frames to render: scenes, drives for long windows, and those that Epoch was trained with."""
    frames: FrameCounts = setting.size.frames
    drives, each = frames.drives(Chauffeur.view.frames)
    return frame_cost()[0] * (frames.scenes * SCENE_FRAMES + drives * each) + retraining.own_cost(setting.size)


LEAD = (
    "Tian, Pei, Jana and Ray changed camera images in ways that should not change the steering angle, searched for changes "
    "that activate new neurons, and counted wrong answers. This page repeats their five research questions; their numbers "
    "stand beside ours where the same quantity was measured. Models and images differ: compare patterns, not sizes."
)


def _concerns(results: DeepTests) -> Iterator[str]:
    """Black boxes, and the concerns of `swerve check` above the level of a note."""
    if black := [one.name for one in results if one.layout is None]:
        yield f"{', '.join(black)}: a black box, left out of RQ1 to RQ3."
    for one in results:
        health = json.loads((one.simple.folder / HEALTH).read_text())
        yield from (f"{one.name}: {concern['why']}" for concern in health["concerns"] if concern["level"] != "note")


DEEPTEST = Experiment(
    "deeptest",
    "DeepTest",
    subjects=lambda setting: zoo(setting, setting.size.frames),
    cases=lambda setting: setting.size.frames.scenes,
    sizes=SIZES,
    steps=_steps,
    campaign=lambda one, **how: deeptest(one.subject.source, one.subject.system, seed=one.setting.seed, **how),
    reads=DeepTestRuns,
    questions=(
        *(activations.rq1, activations.rq2, guidance.rq3, violations.rq4),
        *(reviewed.false_positives, retraining.rq5, reviewed.examples),
    ),
    lead=(LEAD, _concerns),
    options={"profile": PLAIN, "error": MSE},
    check=lambda setting: Oracle(1.0, setting.options["error"]),  # refuses an unknown error metric
    preparation=_preparation,
)
