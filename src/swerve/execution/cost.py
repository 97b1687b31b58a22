"""The cost of trials in time and space: a few are run and measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from swerve.core.campaign import Campaign, Plan, Trial
from swerve.core.case import Source
from swerve.execution.engine import observe
from swerve.execution.executors.cores import settle_threads
from swerve.execution.executors.in_process import InProcess
from swerve.execution.ledger import MemoryLedger
from swerve.store.files import json_bytes

T = TypeVar("T")
SAMPLED = 2  # cases that are measured, unless an experiment says otherwise


@dataclass(frozen=True)
class Cost:
    """CPU seconds and bytes on disk."""

    seconds: float = 0.0
    size: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.size + other.size)

    def __mul__(self, times: float) -> Cost:
        return Cost(self.seconds * times, self.size * times)

    def describe(self) -> str:
        """In words, such as `about 12.0 CPU minutes and 340 MB`."""
        minutes = self.seconds / 60
        span = f"{minutes / 60:.1f} CPU hours" if minutes >= 90 else f"{max(minutes, 0.1):.1f} CPU minutes"
        return f"about {span} and {max(1, round(self.size / 1e6)):,} MB"


def announced(campaign: Campaign, count: int) -> int:
    """The trials of a campaign on `count` cases as its search announces them, and the answers to the cases themselves."""
    keys = [str(number) for number in range(count)]
    total = campaign.search.start(Plan(keys, campaign.rules, campaign.seed, {}, campaign.inference_batch)).total
    if total is None:
        raise ValueError(
            f"{type(campaign.search).__name__} does not state its number of trials in advance: "
            "give the step an estimate with `trials`"
        )
    return count + total


def measured(make: Callable[[], T], size: Callable[[T], float]) -> tuple[Cost, T]:
    """What `make` returns, and what it cost; `size` tells its bytes on disk."""
    started = time.process_time()
    made = make()
    return Cost(time.process_time() - started, size(made)), made


def trial_cost(campaign: Campaign, source: Source) -> Cost:
    """The cost of one trial of `campaign`, measured with every rule on all cases of `source`, which are few."""
    settle_threads()  # as in a run: threads that wait for each other cost many times more
    keys = list(source.keys())
    sampled = replace(campaign, source=source, inference_batch=len(keys))
    executor = InProcess(sampled)
    observe(sampled, MemoryLedger(), executor=executor)
    changes = {rule.name: next(iter(rule.change.grid()), None) for rule in sampled.rules}
    batches = [[Trial(key, rule, 0, change) for key in keys] for rule, change in changes.items()]
    started = time.process_time()
    results = [result for batch in executor.evaluate(batches) for result in batch]
    spent = time.process_time() - started
    written = sum(len(json_bytes(result.row)) for result in results)
    return Cost(spent, written) * (1 / len(results))
