"""Gates decide whether a follow-up is valid enough to be judged."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from swerve.core.case import Case, Fact


@dataclass(frozen=True)
class Admission:
    """A gate's decision: the reason to reject a follow-up, empty if it is admitted, and facts to record."""

    why: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # As a resumed run reads them from its journal: plain numbers, and texts for what JSON has no number for.
        object.__setattr__(self, "why", str(self.why or ""))
        object.__setattr__(self, "facts", MappingProxyType({str(k): _plain(fact) for k, fact in self.facts.items()}))


def _plain(fact: object) -> Fact:
    return float(fact) if isinstance(fact, numbers.Real) and math.isfinite(fact) else str(fact)


@runtime_checkable
class Gate(Protocol):
    """Decides whether a follow-up is valid enough to be judged.

    A gate with `first_frame = True` needs only the first frame of a window, and runs before the others are changed.
    """

    def admit(self, source: Case, followup: Case) -> str | Admission | None:
        """A reason to reject the follow-up, or None; or an `Admission`, which also has facts for the record."""


def admission(gate: Gate, source: Case, followup: Case) -> Admission:
    """The decision of one gate."""
    decision = gate.admit(source, followup)
    return decision if isinstance(decision, Admission) else Admission(decision or "")


def admission_by_all(gates: Iterable[Gate], source: Case, followup: Case) -> Admission:
    """Admitted if every gate admits the follow-up; the gates after the first that rejects it are not asked."""
    facts: dict[str, Fact] = {}
    for gate in gates:
        decision = admission(gate, source, followup)
        facts |= decision.facts
        if decision.why:
            return Admission(decision.why, facts)
    return Admission("", facts)


@dataclass(frozen=True)
class _Gates:
    """Several gates as one."""

    gates: tuple[Gate, ...]

    def __post_init__(self) -> None:
        given: object = self.gates
        if not isinstance(given, tuple | list) or not given or not all(isinstance(gate, Gate) for gate in given):
            raise TypeError(f"'gates' must be a list of one or more gates, got {given!r}")
        object.__setattr__(self, "gates", tuple(given))

    @property
    def first_frame(self) -> bool:
        """Whether the first frame of a window is enough for all of them."""
        return all(needs_first_frame_only(gate) for gate in self.gates)


@dataclass(frozen=True)
class AllOf(_Gates):
    """Admits a follow-up that all `gates` admit; they are asked in order, up to the first that rejects it."""

    def admit(self, source: Case, followup: Case) -> Admission:
        """The reason of the first gate that rejects the follow-up, and the facts of all that were asked."""
        return admission_by_all(self.gates, source, followup)


@dataclass(frozen=True)
class AnyOf(_Gates):
    """Admits a follow-up that at least one of `gates` admits; they are asked in order, up to the first that admits it."""

    def admit(self, source: Case, followup: Case) -> Admission:
        """The reasons of all gates if all reject the follow-up, and the facts of all that were asked."""
        reasons: list[str] = []
        facts: dict[str, Fact] = {}
        for gate in self.gates:
            decision = admission(gate, source, followup)
            facts |= decision.facts
            if not decision.why:
                return Admission("", facts)
            reasons.append(decision.why)
        return Admission("; ".join(reasons), facts)


def needs_first_frame_only(gate: Gate) -> bool:
    """Whether the first frame of a window is enough for `gate`."""
    return bool(getattr(gate, "first_frame", False))
