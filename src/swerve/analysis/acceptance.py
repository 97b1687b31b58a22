"""Whether rules are accepted: the conditions of their `fail_if`, decided by their counts, and the requirements they test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swerve.analysis.numbers import RuleCounts
from swerve.core.fail_if import FailIf
from swerve.core.origin import Origin


@dataclass(frozen=True)
class Acceptance:
    """A rule with the conditions under which it fails, the requirements that it tests, and its counts."""

    line: RuleCounts
    conditions: tuple[FailIf, ...] = ()
    requirement: tuple[str, ...] = ()

    @property
    def met(self) -> tuple[FailIf, ...]:
        """The conditions that are met, each of which fails the rule; none if no trial was judged."""
        return tuple(one for one in self.conditions if one.met(self._quantities)) if self.decided else ()

    @property
    def decided(self) -> bool:
        """Whether the conditions can be decided: without a judged trial there is no rate."""
        return self.line.judged > 0

    @property
    def tolerated(self) -> bool:
        """Whether its findings do not fail the rule, as none of its conditions is met."""
        return bool(self.conditions) and self.decided and not self.met

    @property
    def failed(self) -> bool:
        """Whether the rule fails: by its conditions, or by any finding if it has none."""
        return bool(self.met or not self.decided) if self.conditions else self.line.violated > 0

    @property
    def words(self) -> str:
        """The decision in a sentence, with the rate and its interval."""
        if not self.decided:
            return f"{self.line.name}: no trial was judged, so fail_if cannot be decided"
        low, high = self.line.interval
        interval = f", 95% Wilson {low:.1%} to {high:.1%}" if self.line.sampled else ""
        rate = f"{self.line.violated:,} of {self.line.judged:,} violated, {self.line.rate:.1%}{interval}"
        if self.met:
            return f"{self.line.name}: failed, as {' and '.join(one.text for one in self.met)} ({rate})"
        return f"{self.line.name}: accepted, as not {' nor '.join(one.text for one in self.conditions)} ({rate})"

    @property
    def _quantities(self) -> dict[str, float]:
        line, (low, high) = self.line, self.line.interval
        counts = {name: getattr(line, name) for name in ("violated", "judged", "skipped", "errors")}
        return {**counts, "introduced": line.origins.get(Origin.INTRODUCED, 0), "rate": line.rate, "low": low, "high": high}

    def as_dict(self) -> dict[str, Any]:
        """What `summary.json` has of it; nothing for a rule without conditions and requirements."""
        requirement = {"requirement": list(self.requirement)} if self.requirement else {}
        if not self.conditions:
            return requirement
        rate = {"rate": self.line.rate, "interval": list(self.line.interval)} if self.decided else {}
        decision = {
            "fail_if": [one.text for one in self.conditions],
            "met": [one.text for one in self.met],
            "failed": self.failed,
            **rate,
        }
        return {**requirement, "acceptance": decision}


def acceptances(campaign: Mapping[str, Any], lines: Sequence[RuleCounts]) -> dict[str, Acceptance]:
    """Every rule of a campaign as its run folder describes it, by name, with its counts."""
    declared = {str(rule["name"]): rule for rule in campaign.get("rule", ())}
    return {line.name: _acceptance(declared.get(line.name, {}), line) for line in lines}


def _acceptance(rule: Mapping[str, Any], line: RuleCounts) -> Acceptance:
    try:
        conditions = tuple(map(FailIf.parse, rule.get("fail_if", ())))
    except (ValueError, TypeError):  # a run folder that was edited
        conditions = ()
    return Acceptance(line, conditions, tuple(map(str, rule.get("requirement", ()))))
