"""The campaign of `swerve demo`: DeepTest's simple transformations on rendered roads, under two readings of its oracle."""

from __future__ import annotations

from swerve.campaign import Campaign
from swerve.gates.fill import MaxFill
from swerve.relation import Rule
from swerve.relations.steering import lambda_mse, same_angle
from swerve.search.sweep import Sweep
from swerve.sources.roads import Roads
from swerve.space import Over, Space
from swerve.transformations.affine import Rotate, Scale, Shear, Translate
from swerve.transformations.blur import blurs
from swerve.transformations.photometric import Brighten, Contrast
from swerve.zoo.lane_keeper import LaneKeeper


def demo() -> Campaign:
    """Seven transformations on their Table 4 grids, each answer held against the label (λ = 5) and the source's answer."""
    return Campaign(
        source=Roads(drives=40, frames=1, seed=7),
        system=LaneKeeper(),
        rules=tuple(rule for name, space in _table_4().items() for rule in _both_readings(name, space)),
        search=Sweep(),
        gate=MaxFill(share=0.5),
        seed=7,
        inference_batch=32,
    )


def _table_4() -> dict[str, Space]:
    return {
        "translation": Over(Translate, x="grid", y="grid"),
        "scale": Over(Scale, x="grid", y="grid"),
        "shear": Over(Shear, x="grid"),
        "rotation": Over(Rotate, degrees="grid"),
        "contrast": Over(Contrast, alpha="grid"),
        "brightness": Over(Brighten, beta="grid"),
        "blur": blurs(),
    }


def _both_readings(name: str, space: Space) -> tuple[Rule, Rule]:
    return Rule(f"{name}, label", space, lambda_mse(5.0)), Rule(f"{name}, own answer", space, same_angle(10.0))
