"""The counts of a run: outcomes by rule and in all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from swerve.core.campaign import Outcome
from swerve.core.relation import Fault, Status


@dataclass
class Tally:
    """Counts of one rule, or of all: trials = held + violated + skipped + errors."""

    counts: Counter[Status] = field(default_factory=Counter)
    kinds: Counter[Fault] = field(default_factory=Counter)
    introduced: int = 0
    already_wrong: int = 0
    asked_again: int = 0  # findings, before they are reported
    flaky: int = 0  # of them, that did not fail again

    def add(self, outcome: Outcome, count: int = 1) -> None:
        """Count `count` records with the same outcome."""
        self.counts[outcome.status] += count
        if outcome.kind:
            self.kinds[outcome.kind] += count
        if outcome.status is Status.VIOLATED:
            self.introduced += count * (outcome.introduced is True)
            self.already_wrong += count * (outcome.introduced is False)

    def add_repeat(self, failed: bool) -> None:
        """Count a finding that was asked again, and whether it failed again."""
        self.asked_again += 1
        self.flaky += not failed

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {
            "trials": self.counts.total(),
            "held": self.counts[Status.HELD],
            "violated": self.counts[Status.VIOLATED],
            "skipped": self.counts[Status.SKIPPED],
            "errors": self.counts[Status.ERROR],
            "introduced": self.introduced,
            "already_wrong": self.already_wrong,
            "asked_again": self.asked_again,
            "flaky": self.flaky,
        }


@dataclass
class Summary:
    """The counts of a run: outcomes by rule and in all."""

    method: str
    seed: int
    cases: int
    unusable: int  # cases that could not be read, or that the system
    failed: int  # had no answer to
    overall: Tally
    rules: dict[str, Tally]
    untouched: dict[str, Tally]
    coverage: dict[str, dict[str, int]] = field(default_factory=dict)
    layers: dict[str, int] = field(default_factory=dict)  # layers that coverage counts, with their numbers of neurons

    def as_dict(self) -> dict[str, Any]:
        """The content of `summary.json`."""
        rules = {
            name: {**tally.as_dict(), "untouched": _untouched(self.untouched[name])} for name, tally in self.rules.items()
        }
        head = {
            "method": self.method,
            "seed": self.seed,
            "cases": self.cases,
            "unusable_cases": self.unusable,
            "failed_cases": self.failed,
        }
        kinds = {kind.value: self.overall.kinds[kind] for kind in Fault if self.overall.kinds[kind]}
        covered = {"coverage": self.coverage, **({"layers": self.layers} if self.layers else {})}
        return {**head, **self.overall.as_dict(), "error_kinds": kinds, "rules": rules, **covered}


def _untouched(tally: Tally) -> dict[str, int]:
    counted = tally.as_dict()
    return {"cases": counted["held"] + counted["violated"], "violated": counted["violated"]}
