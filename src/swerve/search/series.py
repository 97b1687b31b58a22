"""Series as the LiDAR paper ran them: every rule on frames of its own, drawn at random (LM-5, D-19)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from swerve.core.campaign import Plan, Record, Trial
from swerve.core.errors import InputError
from swerve.core.seeding import rng_for

BATCHES_PER_ASK = 8  # one ask is one commit to disk


@dataclass(frozen=True)
class Series:
    """One draw of every rule for `frames` cases of its own; 0: the cases are shared out among the rules.

    Cases are put in a random order and dealt: no two rules have one in common while there are enough for all.
    """

    frames: int = 0
    learns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.frames, bool) or not isinstance(self.frames, int) or self.frames < 0:
            raise ValueError(f"frames must be a whole number of at least 0, got {self.frames!r}")

    def start(self, plan: Plan) -> SeriesSession:
        """Deal the cases."""
        return SeriesSession(self, plan)


class SeriesSession:
    """The series under way, one rule after the other."""

    distinct = True

    def __init__(self, series: Series, plan: Plan) -> None:
        each = series.frames or len(plan.keys) // len(plan.rules)
        if not 0 < each <= len(plan.keys):
            least = max(series.frames, len(plan.rules))
            raise InputError(f"independent series need at least {least:,} usable frames, there are {len(plan.keys):,}")
        self.total: int | None = each * len(plan.rules)
        self._together = plan.inference_batch * BATCHES_PER_ASK
        self._trials = _dealt(plan, each)

    def ask(self) -> Sequence[Trial]:
        return list(islice(self._trials, self._together))

    def tell(self, records: Sequence[Record]) -> None:
        """Series do not learn."""
        del records


def _dealt(plan: Plan, each: int) -> Iterator[Trial]:
    order = rng_for(plan.seed, "series").permutation(len(plan.keys))
    for number, rule in enumerate(plan.rules):
        for place in range(number * each, (number + 1) * each):
            yield Trial(plan.keys[order[place % len(order)]], rule.name, 0)
