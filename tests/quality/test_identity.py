"""R58: a change that does nothing never violates, whatever the relation, on 10,000 trials."""

import dataclasses

import pytest

from swerve.core.campaign import Campaign
from swerve.core.relation import Relation, Rule
from swerve.core.transformation import Chain, Transformation, Unchanged, params_of
from swerve.execution.engine import run
from swerve.relations.steering import lambda_mse, same_angle
from swerve.search.sweep import Sweep
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.affine import Rotate, Scale, Shear, Translate
from swerve.transformations.blur import blurs
from swerve.transformations.photometric import Brighten, Contrast

SOME = (*(kind.grid()[0] for kind in (Rotate, Scale, Shear, Translate, Brighten, Contrast)), *blurs().grid())


def idle() -> list[Transformation]:
    neutral = [dataclasses.replace(change, **{n: f.neutral for n, f in params_of(type(change)).items()}) for change in SOME]
    kinds = {type(change): change for change in neutral}
    return [Unchanged(), *kinds.values(), Chain((Unchanged(), *kinds.values()))]


@pytest.mark.parametrize("expect", [same_angle(0), lambda_mse(100)], ids=["strict", "label"])
def test_idle_changes_never_violate(expect: Relation) -> None:
    changes = idle()
    rules = tuple(Rule(f"{index}", change, expect) for index, change in enumerate(changes))
    source = FakeSource(count=5_000 // len(changes) + 1)
    counts = run(Campaign(source, FakeSystem(gain=3, bias=1), rules, Sweep()), MemoryLedger()).as_dict()
    assert counts["trials"] >= 5_000
    assert counts["held"] == counts["trials"]
