"""The counts of a run: outcomes by rule and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swerve.analysis.acceptance import Acceptance
from swerve.analysis.numbers import RuleCounts
from swerve.analysis.precision_drop import PrecisionDrop
from swerve.analysis.precision_limits import precision_drops
from swerve.core.campaign import Outcome
from swerve.core.origin import Origin
from swerve.core.relation import Fault, Rule, Status
from swerve.store.view import Run


@dataclass
class Tally:
    """Counts of one rule, or of all: trials = held + violated + skipped + errors, and the origins add up to violated."""

    counts: Counter[Status] = field(default_factory=Counter)
    kinds: Counter[Fault] = field(default_factory=Counter)
    origins: Counter[Origin] = field(default_factory=Counter)
    asked_again: int = 0  # findings, before they are reported
    flaky: int = 0  # of them, that did not fail again

    def add(self, outcome: Outcome, count: int = 1) -> None:
        """Count `count` records with the same outcome."""
        self.counts[outcome.status] += count
        if outcome.kind:
            self.kinds[outcome.kind] += count
        if outcome.status is Status.VIOLATED:
            self.origins[outcome.origin or Origin.UNKNOWN] += count

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
            **{origin.key: self.origins[origin] for origin in Origin},
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
    run: Run | None = field(default=None, compare=False, repr=False)  # the folder it is in, which has been read already
    layers: dict[str, int] = field(default_factory=dict)  # layers that coverage counts, with their numbers of neurons
    linear_layers: dict[str, dict[str, int]] = field(default_factory=dict)  # those without an activation function
    judged_by: tuple[Rule, ...] = ()  # rules with conditions of acceptance or requirements
    sampled: bool = True
    search: dict[str, Any] = field(default_factory=dict)  # what the search itself tells of its results
    stage_seconds: dict[str, float] = field(default_factory=dict, compare=False)  # of what was not in the journal already

    def as_dict(self) -> dict[str, Any]:
        """The content of `summary.json`."""
        drops = self._drops()
        accepted = {rule.name: self._acceptance(rule, drops.get(rule.name)).as_dict() for rule in self.judged_by}
        rules = {
            name: {**tally.as_dict(), "untouched": _untouched(self.untouched[name]), **accepted.get(name, {})}
            for name, tally in self.rules.items()
        }
        head = {
            "method": self.method,
            "seed": self.seed,
            "cases": self.cases,
            "unusable_cases": self.unusable,
            "failed_cases": self.failed,
        }
        kinds = {kind.value: self.overall.kinds[kind] for kind in Fault if self.overall.kinds[kind]}
        counted = {"layers": self.layers, "linear_layers": self.linear_layers}
        covered = {"coverage": self.coverage, **{name: found for name, found in counted.items() if found}}
        return {**head, **self.overall.as_dict(), "error_kinds": kinds, "rules": rules, **covered, **self.search}

    def _drops(self) -> Mapping[str, PrecisionDrop]:
        """The loss of mAP of the rules with a condition on it."""
        asked = any(one.needs_precision for rule in self.judged_by for one in rule.conditions)
        return precision_drops(self.run) if self.run and asked else {}

    def _acceptance(self, rule: Rule, drop: PrecisionDrop | None) -> Acceptance:
        tally = self.rules[rule.name]
        held, violated, skipped, errors = (tally.counts[status] for status in Status)
        line = RuleCounts(rule.name, held, violated, skipped, errors, tally.origins, sampled=self.sampled)
        return Acceptance(line, rule.conditions, rule.requirement, drop)


def _untouched(tally: Tally) -> dict[str, int]:
    counted = tally.as_dict()
    return {"cases": counted["held"] + counted["violated"], "violated": counted["violated"]}
