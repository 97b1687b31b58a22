"""The plain search: every case, every rule, the whole grid or a number of draws."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from swerve.core.campaign import Plan, Record, Trial
from swerve.core.transformation import Transformation

CASE, CHANGE = "case", "change"
BATCHES_PER_ASK = 8  # one ask is one commit to disk; enough batches to feed several workers
MOST_PER_ASK = 100_000  # trials, which are all in memory until they are committed


@dataclass(frozen=True)
class Sweep:
    """Every case under every rule: the whole of a finite space, `per_case` draws of an endless one.

    Args:
        per_case: draws of a space that has no grid.
        by: `case`: all changes of a case follow each other; `change`: one change of many cases does, so that windows which
            share frames meet in a batch and each frame is changed and encoded once (DESIGN §2).
    """

    per_case: int = 6
    by: str = CASE
    learns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.by not in (CASE, CHANGE):
            raise ValueError(f"by must be '{CASE}' or '{CHANGE}', got {self.by!r}")
        if isinstance(self.per_case, bool) or not isinstance(self.per_case, int) or self.per_case < 1:
            raise ValueError(f"per_case must be a whole number of at least 1, got {self.per_case!r}")

    def start(self, plan: Plan) -> SweepSession:
        return SweepSession(self, plan)


class SweepSession:
    """A sweep under way; one ask holds whole cases, so that equal draws meet in it, unless they are too many for one."""

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
        self._left: Iterator[Trial] = iter(())

    def ask(self) -> Sequence[Trial]:
        if trials := list(itertools.islice(self._left, MOST_PER_ASK)):
            return trials
        self._left = self._trials(list(itertools.islice(self._keys, self._keys_per_ask)))
        return list(itertools.islice(self._left, MOST_PER_ASK))

    def tell(self, records: Sequence[Record]) -> None:
        """A sweep does not learn."""
        del records

    def _trials(self, keys: Sequence[str]) -> Iterator[Trial]:
        if self._by_change and keys:
            return (Trial(key, *question) for question in self._questions() for key in keys)
        return (Trial(key, *question) for key in keys for question in self._questions())

    def _questions(self) -> Iterator[tuple[str, int, Transformation | None]]:
        for name, changes in self._changes.items():
            if changes:
                yield from ((name, draw, change) for draw, change in enumerate(changes))
            else:
                yield from ((name, draw, None) for draw in range(self._per_case))
