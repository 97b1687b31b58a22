"""Coverage of a campaign: what every input covers inside the system, measured in the pass that answers it.

A gain is the whole set that one input covers by itself, so it depends on nothing that ran before: workers need no snapshot,
and a resumed run, or one on many machines, adds up to the same.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swerve.core.campaign import Gain
from swerve.core.case import Case, Source
from swerve.core.errors import InputError, did_you_mean
from swerve.core.system import Answer, System
from swerve.coverage.bits import Bits
from swerve.coverage.criterion import Coverage, Criterion, start
from swerve.coverage.layers import COUNTINGS, layout_of, white
from swerve.coverage.neuron import NC
from swerve.coverage.profile import measure

BITS, OF = "covered", "of"


@dataclass(frozen=True)
class Meter:
    """Measures one or several criteria over a system's layers.

    Args:
        criteria: such as `nc`, `kmnc`; `swerve list criteria`.
        under: the sub-model that counts, `cnn` for all layers that start with `cnn.`; empty for all.
        counting: which layers have neurons: `default` or `deeptest-2018`.
        profile: the cases whose span of activations KMNC, NBC and SNAC compare with.
    """

    criteria: tuple[Criterion, ...] = (NC(),)
    under: str = ""
    counting: str = "default"
    profile: Source | None = None
    _started: dict[int, tuple[Coverage, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "criteria", tuple(self.criteria))
        if not self.criteria:
            raise InputError("coverage needs one criterion or more")
        if self.counting not in COUNTINGS:
            raise InputError(f"counting '{self.counting}' is not known; {did_you_mean(self.counting, COUNTINGS)}")
        short = [criterion.short for criterion in self.criteria]
        if len(set(short)) < len(short):
            raise InputError(f"two criteria are called {max(short, key=short.count)}; measure each once")

    def measured(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Sequence[Gain]]:
        """Answers, and what each case covers, from one forward pass."""
        begun = self._begun(system, cases[0])
        traced = white(system).trace(cases, begun[0].layout.names)
        each = [(coverage, coverage.each(traced)) for coverage in begun]
        return traced.answers, [
            {coverage.criterion.short: _told(sets[place], coverage.total) for coverage, sets in each}
            for place in range(len(cases))
        ]

    def layers(self, system: System, case: Case) -> dict[str, int]:
        """The layers that count, with their neurons (D-5)."""
        layout = self._begun(system, case)[0].layout
        return {layer.name: layer.neurons for layer in layout.layers}

    def joined(self, gains: Iterable[Gain | None]) -> Gain:
        """All that some inputs cover together."""
        union: dict[str, tuple[Bits, int]] = {}
        for gain in gains:
            for name, told in (gain or {}).items():
                bits = bits_of(told)
                union[name] = (union[name][0] | bits if name in union else bits, told[OF])
        return {name: _told(*both) for name, both in union.items()}

    def counts(self, gain: Gain) -> dict[str, dict[str, int]]:
        """Covered and total regions by criterion."""
        return {name: {"covered": len(bits_of(told)), "total": told[OF]} for name, told in gain.items()}

    def _begun(self, system: System, case: Case) -> tuple[Coverage, ...]:
        """Nothing covered, for each criterion; the layers are looked at, and the profile taken, once."""
        if id(system) not in self._started:
            layout = layout_of(system, case, counting=COUNTINGS[self.counting], under=self.under)
            needs = any(criterion.profiled for criterion in self.criteria)
            known = measure(system, self.profile, layout) if needs and self.profile is not None else None
            self._started[id(system)] = tuple(start(criterion, layout, known) for criterion in self.criteria)
        return self._started[id(system)]


def _told(bits: Bits, total: int) -> dict[str, Any]:
    return {BITS: base64.b85encode(bits.to_bytes()).decode(), OF: total}


def bits_of(told: Mapping[str, Any]) -> Bits:
    """The regions of one criterion in a gain."""
    try:
        return Bits.from_bytes(base64.b85decode(told[BITS]))
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InputError(f"a gain of coverage does not read: {error}") from error
