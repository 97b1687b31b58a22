"""The campaign of `swerve demo`: a steering network on the embedded world, under DeepTest's changes and other skies."""

from __future__ import annotations

from dataclasses import replace

from swerve.core.campaign import CUSTOM, Campaign
from swerve.core.relation import Rule
from swerve.methods.deeptest import BOTH, deeptest
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.transformations.rerender import skies
from swerve.world.source import World
from swerve.zoo.steering import DaveOrig


def demo() -> Campaign:
    """DeepTest's seven changes (Table 4), judged by the label (λ = 5) and by the own answer; then seven other skies."""
    source = World(drives=24, seed=7)
    changes = deeptest(source, DaveOrig(), against=BOTH, coverage=False, seed=7, inference_batch=32)
    return replace(changes, rules=(*changes.rules, another_sky()), search=Sweep(), method=CUSTOM)


def another_sky() -> Rule:
    """The same scene under other conditions needs the same angle, within TACTIC's 10°."""
    return Rule("another sky, own answer", skies(), same_angle(10.0))
