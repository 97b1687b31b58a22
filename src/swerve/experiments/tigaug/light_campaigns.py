"""The campaigns of the experiment: the twelve changes, the same on retrained detectors, and the changes by strength."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.gate import Admission, Gate, admission
from swerve.core.relation import Rule
from swerve.core.system import System
from swerve.methods.tigaug import LABEL, LEAST_SCORE, rule_name, tigaug
from swerve.relations.light_gates import LightsVisible
from swerve.search.sweep import Sweep
from swerve.sources.subset import Subset
from swerve.transformations.light_changes import GRIDS, severities
from swerve.zoo.lights.light_detectors import LightDetector

CHANGES, CURVES = "changes", "strengths"  # the names of steps
REFUSED = "unnatural"  # the fact: why a filter finds a follow-up unnatural; empty if it does not


@dataclass(frozen=True)
class Noted:
    """Admits every follow-up, and records why `gate` would refuse it, so that one run has both sets of pictures."""

    gate: Gate

    def admit(self, source: Case, followup: Case) -> Admission:
        """No reason to refuse; the facts of the gate, and its reason."""
        decision = admission(self.gate, source, followup)
        return Admission("", {**decision.facts, REFUSED: decision.why})


def changed(one: Any) -> Campaign:
    """The chosen changes, judged by labels, and lights pasted back as a control; filters note what they would refuse."""
    return noted(one, one.subject.system, one.setting.size.changes, control=True)


def retested(one: Any, weights: str, changes: tuple[str, ...]) -> Campaign:
    """The same follow-ups for a detector with new weights."""
    return noted(one, with_weights(one.subject.system, one.trained[weights]), changes)


def strengths(one: Any) -> Campaign:
    """Several strengths of every change that has one, on some of the pictures."""
    chosen = [name for name in one.setting.size.changes if name in GRIDS]
    least = counted_from(one.subject.system)
    usual = tigaug(one.subject.source, one.subject.system, against=LABEL, natural=False, least_score=least)
    expect, gate = usual.rules[0].expect, Noted(LightsVisible())
    rules = tuple(Rule(rule_name(name), severities(name), expect, gate=gate) for name in chosen)
    some = Subset(one.subject.source, one.setting.size.curved)
    return Campaign(some, one.subject.system, rules, Sweep(), seed=one.setting.seed, inference_batch=usual.inference_batch)


def noted(one: Any, system: System, changes: tuple[str, ...], *, control: bool = False) -> Campaign:
    """A campaign of the method whose gates refuse nothing."""
    options = {"changes": changes, "against": LABEL, "control": control, "seed": one.setting.seed}
    made = tigaug(one.subject.source, system, **options, least_score=counted_from(system))
    rules = tuple(replace(rule, gate=Noted(rule.gate) if rule.gate else None) for rule in made.rules)
    return replace(made, rules=rules)


def counted_from(system: System) -> float:
    """The score from which boxes count in verdicts; mAP counts all."""
    return system.usual if isinstance(system, LightDetector) else LEAST_SCORE


def with_weights(system: Any, weights: Path) -> System:
    """A detector of the zoo with other weights."""
    changed: System = replace(system, weights=weights)
    return changed
