"""Changes that continue others: what they continue is made once for all tries, and every try is that of the whole chain."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from swerve.core.campaign import Campaign, Continuation, Record, Trial
from swerve.core.relation import Rule, Status
from swerve.core.space import Table
from swerve.core.transformation import Chain, Transformation
from swerve.core.values import Image
from swerve.coverage.bits import Bits
from swerve.coverage.meter import Meter, bits_of, encode_bits
from swerve.execution.engine import observe
from swerve.execution.evaluator import Evaluator
from swerve.relations.steering import same_angle
from swerve.search.sweep import Sweep
from swerve.testing import FakeSource, FakeSystem, MemoryLedger
from swerve.transformations.photometric import Brighten

MADE: Counter[float] = Counter()  # by the change's number


@dataclass(frozen=True)
class Counted(Transformation):
    """A brightness of which it is counted how often it was made."""

    beta: float
    preserves: ClassVar[tuple[str, ...]] = ("*",)

    def image(self, image: Image) -> Image:
        MADE[self.beta] += 1
        return Brighten(self.beta).map(image)


@dataclass(frozen=True)
class Listed(Counted):
    """The same with a list, which cannot be remembered."""

    more: Any = field(default_factory=list)


class Writer(FakeSystem):
    """A system that writes into follow-ups that are brighter than most."""

    def __call__(self, cases: Any) -> Any:
        answers = super().__call__(cases)
        for case in cases:
            pixels = case.inputs["camera"].pixels
            if pixels.mean() > 150:
                pixels.flags.writeable = True
                pixels[:] = 0
        return answers


def tried(*starts: tuple[Transformation, ...], system: Any = None, case: str = "fake-00000") -> list[Record]:
    """One try after the other, each with the last of three changes after one of `starts`."""
    MADE.clear()
    further = Table((Counted(1.0), Counted(2.0), Counted(3.0)))
    given = Campaign(FakeSource(2), system or FakeSystem(), (Rule("rule", further, same_angle(1)),), Sweep(1), seed=3)
    evaluate = Evaluator(given, observe(given, MemoryLedger()))
    return [
        record
        for draw, made in enumerate(starts)
        for record in evaluate([Trial(case, "rule", draw, continues=Continuation(made, (0,)))])
    ]


def test_what_is_continued_is_made_once() -> None:
    start = Counted(10.0), Counted(20.0)
    records = tried(*[start] * 5)
    assert (MADE[10.0], MADE[20.0]) == (1, 1)
    source = FakeSource(2)["fake-00000"]
    for record in records:
        assert isinstance(record.change, Chain)
        assert record.change.steps[:2] == start
        assert record.input_sha == record.change(source).input_sha


def test_another_start_is_made_anew() -> None:
    one, two = (Counted(10.0),), (Counted(10.0), Counted(20.0))
    tried(one, two, two, one)
    assert (MADE[10.0], MADE[20.0]) == (3, 1)


def test_changes_that_cannot_be_remembered_are_made_every_time() -> None:
    start = (Listed(10.0),)
    assert Status.ERROR not in {record.verdict.status for record in tried(start, start, start)}
    assert MADE[10.0] == 3


def test_a_start_that_was_written_into_is_forgotten() -> None:
    start = Counted(30.0), Counted(40.0)
    records = tried(start, start, system=Writer())
    assert [record.verdict.status for record in records] == [Status.ERROR, Status.ERROR]
    assert MADE[30.0] > 1


@pytest.mark.parametrize("rows", [((1, 2), (2,)), ((1,), (3,)), ((), ())])
def test_a_union_keeps_what_has_all(rows: tuple[tuple[int, ...], ...]) -> None:
    first, second = ({"NC": encode_bits(Bits.of(row, 9), 9)} for row in rows)
    both = Meter().joined([first, second])["NC"]
    assert bits_of(both).numbers() == sorted({*rows[0], *rows[1]})
    assert (both is first["NC"]) == ({*rows[1]} <= {*rows[0]})
    assert both == encode_bits(Bits.of({*rows[0], *rows[1]}, 9), 9)
