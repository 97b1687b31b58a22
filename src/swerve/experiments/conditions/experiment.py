"""The comparison of searches for critical conditions: its subjects, sizes, steps and questions."""

from __future__ import annotations

from dataclasses import dataclass

from swerve.execution.cost import Cost
from swerve.experiments import FULL, QUICK, SAMPLED, USUAL, Experiment, Setting, Subject
from swerve.experiments.conditions import savings, strategies
from swerve.experiments.conditions.condition_runs import WIDE, ConditionRuns, scenes_of, searching, steps
from swerve.experiments.steering_subjects import frame_cost
from swerve.search.evolve import require_cmaes
from swerve.world.source import World
from swerve.zoo.steering import STEERING

SYSTEMS = ("dave-orig", "epoch")


@dataclass(frozen=True)
class ConditionSize:
    """How much is searched.

    Args:
        scenes: that every candidate of the comparison is tried on.
        seeds: searches of every strategy.
        conditions: found by each search, one after the other.
        evaluations: candidates for each condition.
        raced: scenes of the searches with and without the race.
        races: such pairs of searches.
    """

    scenes: int
    seeds: int
    conditions: int
    evaluations: int
    raced: int
    races: int


SIZES = {
    QUICK: ConditionSize(16, 2, 1, 12, 32, 1),
    USUAL: ConditionSize(64, 5, 1, 60, 200, 1),
    FULL: ConditionSize(64, 10, 4, 100, 200, 5),
}


def _subjects(setting: Setting) -> list[Subject]:
    few = World(drives=SAMPLED, width=WIDE, height=WIDE * 9 // 16, seed=1)
    return [Subject(name, STEERING[name](), scenes_of(setting), few=few) for name in SYSTEMS]


def _preparation(setting: Setting) -> Cost:
    """The scenes, whose rays are cast once for all systems."""
    size: ConditionSize = setting.size
    return frame_cost()[0] * (size.scenes + size.raced)


def _check(setting: Setting) -> None:
    if setting.options["cma"]:
        require_cmaes()


LEAD = (
    "TACTIC (Li and others, 2021) searches for the weather in which a driving network's answers move most, with a (1+1) "
    "evolution strategy. This page compares it with random search, which has as many candidates, and with random "
    "conditions, and measures what the race saves. The weather is the embedded world's and rendered; the paper's is made by "
    "networks that translate pictures, so its counts are not comparable."
)

CONDITIONS = Experiment(
    "conditions",
    "Critical conditions",
    subjects=_subjects,
    cases=lambda setting: max(setting.size.scenes, setting.size.raced),
    sizes=SIZES,
    steps=steps,
    campaign=searching,
    reads=ConditionRuns,
    questions=(strategies.is_evolution_better, strategies.are_there_more_errors, savings.does_the_race_pay),
    lead=(LEAD,),
    options={"cma": False},
    check=_check,
    preparation=_preparation,
)
