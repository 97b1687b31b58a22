"""Independent series as in the LiDAR paper: every rule has its own random frames (LM-5, D-19)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from swerve.core.arguments import check_whole
from swerve.core.campaign import Plan, Record, Trial
from swerve.core.errors import InputError
from swerve.core.seeding import rng_for
from swerve.search.sweep import BATCHES_PER_ASK


@dataclass(frozen=True)
class Series:
    """One draw of every rule on its own `frames` cases, drawn at random; 0 divides all cases among the rules.

    Rules share cases only if there are not enough for all.
    """

    frames: int = 0
    learns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole("frames", self.frames)

    def start(self, plan: Plan) -> SeriesSession:
        """Start with the first rule."""
        return SeriesSession(self, plan)


class SeriesSession:
    """A series in progress, one rule after the other."""

    distinct = True

    def __init__(self, series: Series, plan: Plan) -> None:
        each = series.frames or len(plan.keys) // len(plan.rules)
        if not 0 < each <= len(plan.keys):
            least = max(series.frames, len(plan.rules))
            raise InputError(f"independent series need at least {least:,} usable frames, got {len(plan.keys):,}")
        self.total: int | None = each * len(plan.rules)
        self._trials_per_ask = plan.inference_batch * BATCHES_PER_ASK
        self._trials = _trials(plan, each)

    def ask(self) -> Sequence[Trial]:
        return list(islice(self._trials, self._trials_per_ask))

    def tell(self, records: Sequence[Record]) -> None:
        """Ignore the records: a series does not learn."""
        del records


def _trials(plan: Plan, each: int) -> Iterator[Trial]:
    order = rng_for(plan.seed, "series").permutation(len(plan.keys))
    for number, rule in enumerate(plan.rules):
        for place in range(number * each, (number + 1) * each):
            yield Trial(plan.keys[order[place % len(order)]], rule.name, 0)
