"""The campaign of `swerve demo`: a steering network on the embedded world, under DeepTest's changes and other weather."""

from __future__ import annotations

from swerve.core.campaign import Campaign
from swerve.core.relation import Rule
from swerve.core.space import Space
from swerve.methods.deeptest import table_4
from swerve.relations.gates import MaxFill
from swerve.relations.steering import lambda_mse, same_angle
from swerve.search.sweep import Sweep
from swerve.transformations.rerender import skies
from swerve.world.source import World
from swerve.zoo.steering import DaveOrig


def demo() -> Campaign:
    """DeepTest's seven changes (Table 4), judged by the label (λ = 5) and by the own answer; then seven other skies."""
    return Campaign(
        source=World(drives=24, seed=7),
        system=DaveOrig(),
        rules=(*(rule for name, space in table_4().items() for rule in _both_oracles(name, space)), another_sky()),
        search=Sweep(),
        gate=MaxFill(share=0.5),
        seed=7,
        inference_batch=32,
    )


def another_sky() -> Rule:
    """The same scene under other conditions needs the same angle, within TACTIC's 10°."""
    return Rule("another sky, own answer", skies(), same_angle(10.0))


def _both_oracles(name: str, space: Space) -> tuple[Rule, Rule]:
    return Rule(f"{name}, label", space, lambda_mse(5.0)), Rule(f"{name}, own answer", space, same_angle(10.0))
