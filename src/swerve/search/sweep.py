"""The exhaustive search: every case under every rule, with the whole grid or a number of draws."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from swerve.core.arguments import OneOfNames, check_whole
from swerve.core.campaign import Plan, Record, Trial
from swerve.core.transformation import Transformation

CASE, CHANGE = "case", "change"
BATCHES_PER_ASK = 8  # an ask is committed to disk as a whole; enough batches for several workers
MOST_PER_ASK = 100_000  # trials, all of which are in memory until they are committed


@dataclass(frozen=True)
class Sweep:
    """Every case under every rule: all changes of a space with a grid, `per_case` draws from any other.

    Args:
        per_case: draws per case from a space without a grid.
        by: `case` runs all changes of one case in sequence; `change` runs one change on many cases, so that overlapping
            windows are in the same batch and each of their frames is changed and encoded once.
    """

    # `by`: DESIGN §2

    per_case: int = 6
    by: Annotated[str, OneOfNames(CASE, CHANGE)] = CASE
    learns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.by not in (CASE, CHANGE):
            raise ValueError(f"'by' must be '{CASE}' or '{CHANGE}', got {self.by!r}")
        check_whole("per_case", self.per_case, 1)

    def start(self, plan: Plan) -> SweepSession:
        return SweepSession(self, plan)


class SweepSession:
    """A sweep in progress; all trials of a case are in one ask, where equal draws are found, unless they are too many."""

    def __init__(self, sweep: Sweep, plan: Plan) -> None:
        self._changes = {rule.name: rule.change.grid() for rule in plan.rules}
        self._per_case = sweep.per_case
        per_key = sum(len(changes) or sweep.per_case for changes in self._changes.values())
        self.total: int | None = per_key * len(plan.keys)
        self._by_change = sweep.by == CHANGE
        one = plan.inference_batch if self._by_change else 1
        self._keys_per_ask = max(one, plan.inference_batch * BATCHES_PER_ASK // per_key)
        self.distinct = self._keys_per_ask * per_key <= MOST_PER_ASK
        self._keys = iter(plan.keys)
        self._pending: Iterator[Trial] = iter(())

    def ask(self) -> Sequence[Trial]:
        if trials := list(itertools.islice(self._pending, MOST_PER_ASK)):
            return trials
        self._pending = self._trials(list(itertools.islice(self._keys, self._keys_per_ask)))
        return list(itertools.islice(self._pending, MOST_PER_ASK))

    def tell(self, records: Sequence[Record]) -> None:
        """Ignore the records: a sweep does not learn."""
        del records

    def _trials(self, keys: Sequence[str]) -> Iterator[Trial]:
        if self._by_change and keys:
            return (Trial(key, *trial) for trial in self._trials_of_case() for key in keys)
        return (Trial(key, *trial) for key in keys for trial in self._trials_of_case())

    def _trials_of_case(self) -> Iterator[tuple[str, int, Transformation | None]]:
        for name, changes in self._changes.items():
            if changes:
                yield from ((name, draw, change) for draw, change in enumerate(changes))
            else:
                yield from ((name, draw, None) for draw in range(self._per_case))
