"""The searches of one system: every strategy from several seeds, and the same search with and without the race."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from swerve.analysis.numbers import SUMMARY
from swerve.core.campaign import Campaign
from swerve.core.case import Source
from swerve.experiments import CampaignStep, Results, Setting, SubjectRuns, table
from swerve.methods.critical_conditions import critical_conditions
from swerve.search.critical import best_so_far
from swerve.search.evolve import CMA, EVOLVE, RANDOM, RANDOM_CONDITIONS
from swerve.sources.subset import Subset
from swerve.store.files import read_json
from swerve.world.drives import LONGEST
from swerve.world.source import World

EVOLVED, SEARCHED, DRAWN, ADAPTED = "evolution", "random search", "random conditions", "CMA-ES"
STRATEGIES: Mapping[str, str] = {EVOLVED: EVOLVE, SEARCHED: RANDOM, DRAWN: RANDOM_CONDITIONS, ADAPTED: CMA}
RACED, WHOLE = "race", "no race"
DRIVES, APART = 8, 20  # drives that fit into memory, frames between two scenes of one
WIDE, NARROW = 256, 128  # pixels: what the zoo learnt from, and few enough for a race on many scenes
Found = Mapping[str, Any]  # a condition as `summary.json` has it
system_table = partial(table, each="system")


def search_step(strategy: str, number: int) -> str:
    """The name of a search."""
    return f"{strategy} {number + 1}"


def compared(setting: Setting) -> list[str]:
    """The strategies of this experiment."""
    return [name for name in STRATEGIES if name != ADAPTED or setting.options["cma"]]


class ConditionRuns(SubjectRuns):
    """A system with its searches; what they found is read from their summaries."""

    def summary(self, step: str) -> Mapping[str, Any]:
        """What a search wrote at its end."""
        found: Mapping[str, Any] = self.once(_summaries)[step]
        return found

    def conditions(self, strategy: str) -> list[list[Found]]:
        """The conditions that each search of a strategy found."""
        return [self.summary(search_step(strategy, number))["conditions"] for number in range(self.setting.size.seeds)]

    def worst(self, strategy: str) -> list[float]:
        """The largest mean divergence, in radians, of the conditions that each search found."""
        return [max(float(one["divergence"]) for one in found) for found in self.conditions(strategy)]

    def courses(self, strategy: str) -> list[list[float]]:
        """The best fitness so far, candidate by candidate, of every condition searched for."""
        steps = (search_step(strategy, number) for number in range(self.setting.size.seeds))
        every = (course for step in steps for course in self.summary(step)["condition_search"]["fitness"])
        return [best_so_far(course) for course in every if course]


Searches = Results[ConditionRuns]


def _summaries(one: ConditionRuns) -> dict[str, Any]:
    return {step: read_json(run.folder / SUMMARY) for step, run in one.runs.items()}


def steps(one: Any, setting: Setting) -> Iterator[CampaignStep]:
    """Every strategy from every seed, then the race."""
    del one
    size = setting.size
    for number in range(size.seeds):
        for strategy in compared(setting):
            yield CampaignStep(search_step(strategy, number), values={"strategy": strategy, "number": number})
    for number in range(size.races):
        for how in (WHOLE, RACED):
            values = {"number": number, "race": how == RACED}
            trials = race_trials(size, race=how == RACED)
            yield CampaignStep(search_step(how, number), racing, values, trials=trials, when=_is_last)


def _is_last(results: Searches, one: ConditionRuns) -> bool:
    """Always, but after the comparison on all systems: its scenes leave no room in memory for those of the race."""
    del results, one
    return True


def searching(one: ConditionRuns, strategy: str, number: int) -> Campaign:
    """A search of one strategy; searches with the same number start at the same random condition."""
    size, cases = one.setting.size, Subset(one.subject.source, one.setting.size.scenes)
    how = {"conditions": size.conditions, "evaluations": size.evaluations, "around": 0}
    make = partial(critical_conditions, cases, one.subject.system, search=STRATEGIES[strategy])
    return make(seed=one.setting.seed + number, patience=size.evaluations, **how)


def racing(one: ConditionRuns, number: int, *, race: bool) -> Campaign:
    """The evolution of one condition on more scenes, with or without the race."""
    size = one.setting.size
    source: Source = one.subject.source
    if source == scenes_of(one.setting):
        source = scenes_of_race(one.setting)
    make = partial(critical_conditions, Subset(source, size.raced), one.subject.system, conditions=1, around=0)
    return make(seed=one.setting.seed + number, evaluations=size.evaluations, patience=size.evaluations, race=race)


def race_trials(size: Any, *, race: bool) -> float:
    """The answers that a search with or without the race takes, with half of them left with the race, as an estimate."""
    return float(size.raced * (2 + size.evaluations * (0.5 if race else 1.0)))


def scenes_of(setting: Setting) -> Subset:
    """The scenes of the comparison."""
    return _scenes(setting.size.scenes, WIDE, setting.seed)


def scenes_of_race(setting: Setting) -> Subset:
    """The scenes of the race, small enough that all of them stay in memory between two candidates."""
    return _scenes(setting.size.raced, NARROW, setting.seed + 1)


def _scenes(count: int, width: int, seed: int) -> Subset:
    """Frames of a few drives, as those of one drive share a scene, whose shadows are cast anew for every sun."""
    drives = min(DRIVES, count)
    frames = min(LONGEST, APART * math.ceil(count / drives))
    return Subset(World(drives, frames, width=width, height=width * 9 // 16, seed=seed), count)


def degrees(radians: float) -> float:
    """Degrees, as a report has them."""
    return math.degrees(radians)


def mean_course(courses: Sequence[Sequence[float]]) -> list[float]:
    """The mean over courses at every candidate; one that ended early stays where it was."""
    longest = max(map(len, courses))
    filled = [[*course, *[course[-1]] * (longest - len(course))] for course in courses]
    return [float(mean) for mean in np.mean(filled, axis=0)]
