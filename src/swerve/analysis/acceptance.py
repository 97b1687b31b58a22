"""Whether rules are accepted: the conditions of their `fail_if`, decided by their counts, and the requirements they test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swerve.analysis.numbers import RuleCounts
from swerve.analysis.precision_drop import PrecisionDrop
from swerve.core.fail_if import DROPS, FailIf
from swerve.core.origin import Origin


@dataclass(frozen=True)
class Acceptance:
    """A rule with the conditions under which it fails, the requirements that it tests, and its counts."""

    line: RuleCounts
    conditions: tuple[FailIf, ...] = ()
    requirement: tuple[str, ...] = ()
    drop: PrecisionDrop | None = None  # of mAP, for conditions on it

    @property
    def met(self) -> tuple[FailIf, ...]:
        """The conditions that are met, each of which fails the rule; none if no trial was judged."""
        return tuple(one for one in self.conditions if one.met(self._quantities)) if self.decided else ()

    @property
    def decided(self) -> bool:
        """Whether the conditions can be decided."""
        return not self.undecided

    @property
    def undecided(self) -> str:
        """Why the conditions cannot be decided: no trial was judged, or there is no mAP; empty if they can."""
        if not self.line.judged:
            return "no trial was judged"
        unknown = [one for one in self.conditions if not one.known(self._quantities)]
        if not unknown:
            return ""
        why = self.drop.drop.why if self.drop else "the judged pictures have no boxes as labels and answers"
        return f"{unknown[0].quantity} is unknown: {why or 'all pictures are of one drive, so it has no interval'}"

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
            return f"{self.line.name}: {self.undecided}, so fail_if cannot be decided"
        low, high = self.line.interval
        interval = f", 95% Wilson {low:.1%} to {high:.1%}" if self.line.sampled else ""
        rate = f"{self.line.violated:,} of {self.line.judged:,} violated, {self.line.rate:.1%}{interval}"
        if self.drop:
            rate = f"{self.drop.words}; {rate}"
        if self.met:
            return f"{self.line.name}: failed, as {' and '.join(one.text for one in self.met)} ({rate})"
        return f"{self.line.name}: accepted, as not {' nor '.join(one.text for one in self.conditions)} ({rate})"

    @property
    def _quantities(self) -> dict[str, float]:
        line, (low, high) = self.line, self.line.interval
        counts = {name: getattr(line, name) for name in ("violated", "judged", "skipped", "errors")}
        shares = {"rate": line.rate, "low": low, "high": high}
        return {**counts, "introduced": line.origins.get(Origin.INTRODUCED, 0), **shares, **self._drops}

    @property
    def _drops(self) -> dict[str, float]:
        """The loss of mAP and its interval, as far as they are known."""
        lost = self.drop.drop if self.drop else None
        ends = (lost.value, lost.low, lost.high) if lost else ()
        return {name: end for name, end in zip(DROPS, ends, strict=False) if end is not None}

    def as_dict(self) -> dict[str, Any]:
        """What `summary.json` has of it; nothing for a rule without conditions and requirements."""
        requirement = {"requirement": list(self.requirement)} if self.requirement else {}
        if not self.conditions:
            return requirement
        rate = {"rate": self.line.rate, "interval": list(self.line.interval)} if self.decided else {}
        found = self.drop.as_dict() if self.drop else {}
        decision = {
            "fail_if": [one.text for one in self.conditions],
            "met": [one.text for one in self.met],
            "failed": self.failed,
            "undecided": self.undecided,
            **rate,
            **({"map": found} if found else {}),
        }
        return {**requirement, "acceptance": decision}


def acceptances(
    campaign: Mapping[str, Any], lines: Sequence[RuleCounts], drops: Mapping[str, PrecisionDrop]
) -> dict[str, Acceptance]:
    """Every rule of a campaign as its run folder describes it, by name, with its counts and any loss of mAP."""
    declared = {str(rule["name"]): rule for rule in campaign.get("rule", ())}
    rules = {line.name: (line, declared.get(line.name, {})) for line in lines}
    return {
        name: Acceptance(line, conditions_of(rule), tuple(map(str, rule.get("requirement", ()))), drops.get(name))
        for name, (line, rule) in rules.items()
    }


def conditions_of(rule: Mapping[str, Any]) -> tuple[FailIf, ...]:
    """The conditions of a rule as a run folder describes it; none if it was edited into something else."""
    try:
        return tuple(map(FailIf.parse, rule.get("fail_if", ())))
    except (ValueError, TypeError):
        return ()
