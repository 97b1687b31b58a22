"""Decisions by a signal: exact at the threshold, with planted faults, and beside relations that judge nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest

from swerve.core.campaign import Campaign, Record
from swerve.core.case import Case
from swerve.core.origin import Origin
from swerve.core.relation import Both, Either, Relation, Rule, Status
from swerve.core.space import Over, Range
from swerve.core.system import Answer
from swerve.core.values import Image, Signal
from swerve.execution.engine import run
from swerve.execution.ledger import MemoryLedger
from swerve.relations.steering import DecisionAlike, same_decision
from swerve.relations.unjudged import Unjudged
from swerve.search.sweep import Sweep
from swerve.testing import FakeSource
from swerve.transformations.photometric import Brighten

LIMIT = 0.5
VALUES = (-3.0, 0.0, 0.49, 0.4999, 0.499999, LIMIT, 0.500001, 0.5001, 0.51, 1.0, 80.0)


class Brakes:
    """Brakes where a picture is brighter than `limit`, which a fault moves for follow-ups."""

    def __init__(self, limit: float, fault: float = 0.0) -> None:
        self.limit, self.fault = limit, fault

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(Signal("brake", float(mean_of(case) > self.limit + self.fault * bool(case.parent))),) for case in cases]

    def fingerprint(self) -> str:
        return f"brakes {self.limit} {self.fault}"


def mean_of(case: Case) -> float:
    picture = case.inputs["camera"]
    assert isinstance(picture, Image)
    return float(picture.pixels.mean())


def verdict_on(before: float, after: float, limit: float = LIMIT) -> tuple[Status, float]:
    found = DecisionAlike("brake", limit).compare(Signal("brake", before), Signal("brake", after))
    assert found.margin is not None
    return found.status, found.margin


@pytest.mark.parametrize(("before", "after"), [*itertools.product(VALUES, VALUES)])
def test_sides_decide(before: float, after: float) -> None:
    apart = (before >= LIMIT) != (after >= LIMIT)
    status, margin = verdict_on(before, after)
    same = abs(before - after) < 5e-6
    assert status is (Status.VIOLATED if apart and not same else Status.HELD)
    assert (margin >= 0) if status is Status.VIOLATED else (margin <= 0)
    assert verdict_on(after, before)[0] is status  # whichever came first


@pytest.mark.parametrize("limit", [-2.0, 1e-9, 0.1, 0.5, 3.0, 1e6])
def test_rounding_at_the_threshold_is_no_other_decision(limit: float) -> None:
    """A batch of another size moves the last bits of a network's sums."""
    below = math.nextafter(limit, -math.inf)
    assert verdict_on(below, limit, limit)[0] is Status.HELD
    assert verdict_on(limit, below, limit)[0] is Status.HELD
    assert verdict_on(limit - abs(limit) / 1000, limit, limit)[0] is Status.VIOLATED


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("first", [True, False])
def test_number_that_is_none_decides_nothing(number: float, first: bool) -> None:
    pair = (number, 1.0) if first else (1.0, number)
    found = DecisionAlike("brake", LIMIT).compare(Signal("brake", pair[0]), Signal("brake", pair[1]))
    assert found.status is Status.ERROR or (found.status, number) == (Status.HELD, math.inf)


def violated(system: Brakes, expect: Relation) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The trials that violate, and those that a look at the pictures says must; by case and change."""
    source, ledger = FakeSource(12), MemoryLedger()
    rule = Rule("same", Over(Brighten, beta=Range(-30, 30)), expect)
    run(Campaign(source, system, (rule,), Sweep(per_case=6)), ledger)
    found, planted = set(), set()
    records = [item for batch in ledger.batches for item in batch if isinstance(item, Record)]
    for record in (one for one in records if one.change and one.verdict.status is not Status.SKIPPED):
        assert record.change
        case, key = source[record.trial.case], (record.trial.case, repr(record.change))
        if record.verdict.status is Status.VIOLATED:
            found.add(key)
            assert record.origin is Origin.INTRODUCED
        if system([case]) != system([record.change(case)]):
            planted.add(key)
    return found, planted


@pytest.mark.parametrize(
    "expect",
    [
        same_decision("brake"),
        Both((Unjudged(), same_decision("brake"))),
        Both((same_decision("brake"), Unjudged())),
        Either((same_decision("brake"), Unjudged())),
    ],
    ids=["alone", "unjudged first", "unjudged last", "either"],
)
@pytest.mark.parametrize("fault", [0.0, 12.0])
def test_planted_decisions_are_found(fault: float, expect: Relation) -> None:
    """What judges nothing beside it neither hides nor adds a violation."""
    found, planted = violated(Brakes(100, fault), expect)
    assert len(planted) > 5
    assert found == planted


def test_steady_twin_has_no_findings() -> None:
    found, planted = violated(Brakes(-1), same_decision("brake"))
    assert (found, planted) == (set(), set())
