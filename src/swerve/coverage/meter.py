"""Coverage in a campaign: what each input covers inside the system, measured in the forward pass that answers it.

A gain is the whole set that one input covers on its own, or that the inputs of a batch cover together. It does not depend on
earlier inputs, so workers need no snapshot, and a resumed or distributed run gets the same result.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from operator import and_
from typing import Annotated, Any

from swerve.core.arguments import OneOfNames, check_known
from swerve.core.campaign import ALWAYS, NEURONS, Gain
from swerve.core.case import Case, Source
from swerve.core.errors import InputError, UnreadableCase
from swerve.core.system import Answer, System
from swerve.coverage.bits import Bits
from swerve.coverage.criterion import Coverage, Criterion, start
from swerve.coverage.layers import COUNTINGS, as_white_box, layout_of
from swerve.coverage.neuron import NC
from swerve.coverage.profile import measure

BITS, OF = "covered", "of"
SMALL, FAST = 6, 1  # levels of zlib: for the journal, and for a gain that is merged at once
REMEMBERED = 8  # sets of regions last decoded: what is covered so far is compared with every gain


@dataclass(frozen=True)
class Meter:
    """Measures one or several criteria over a system's layers.

    Args:
        criteria: such as `nc` and `kmnc`; see `swerve list criteria`.
        under: the sub-model to count, `cnn` for all layers that start with `cnn.`; empty for all layers.
        counting: which layers have neurons: `default` or `deeptest-2018`.
        linear: whether layers without an activation function count; under NC their neurons may be active on every input.
        profile: the cases of the profiling run that KMNC, NBC and SNAC compare with.
    """

    criteria: tuple[Criterion, ...] = (NC(),)
    under: str = ""
    counting: Annotated[str, OneOfNames(*COUNTINGS)] = "default"
    profile: Source | None = None
    linear: bool = True
    _started: dict[int, tuple[Coverage, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "criteria", tuple(self.criteria))
        if not self.criteria:
            raise InputError("criteria must be a list of one or more criteria")
        check_known("counting", self.counting, COUNTINGS)
        short = [criterion.short for criterion in self.criteria]
        if len(set(short)) < len(short):
            raise InputError(f"criterion {max(short, key=short.count)} is given twice; give each criterion once")

    def measured(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Sequence[Gain]]:
        """The answers, and what each case covers, from one forward pass."""
        empty = self._empty_coverage(system, cases[0])
        traced = as_white_box(system).trace(cases, empty[0].layout.names)
        each = [(coverage, coverage.each(traced)) for coverage in empty]
        return traced.answers, [
            {coverage.criterion.short: encode_bits(sets[place], coverage.total) for coverage, sets in each}
            for place in range(len(cases))
        ]

    def measured_together(self, system: System, cases: Sequence[Case]) -> tuple[Sequence[Answer], Gain]:
        """The answers, and what all cases cover together, from one forward pass."""
        empty = self._empty_coverage(system, cases[0])
        traced = as_white_box(system).trace(cases, empty[0].layout.names)
        together = {one.criterion.short: encode_bits(one.touched(traced), one.total, FAST) for one in empty}
        return traced.answers, together

    def prepare(self, system: System, source: Source) -> None:
        """Run the profile now, where a criterion needs one, and not as a part of the first measurement."""
        if self.profile is None or not any(criterion.profiled for criterion in self.criteria):
            return
        with contextlib.suppress(UnreadableCase):  # another case will do, when it is measured
            self._empty_coverage(system, source[source.keys()[0]])

    def layers(self, system: System, case: Case) -> dict[str, int]:
        """The counted layers with their number of neurons."""  # D-5
        layout = self._empty_coverage(system, case)[0].layout
        return {layer.name: layer.neurons for layer in layout.layers}

    def linear_layers(self, system: System, case: Case, gains: Iterable[Gain | None]) -> dict[str, dict[str, int]]:
        """The counted layers without an activation function: their neurons and, if NC is measured, those always active."""
        layout = self._empty_coverage(system, case)[0].layout
        found = {name: {NEURONS: place.stop - place.start} for name, place in layout.linear().items()}
        active = (bits_of(gain[NC.short]) for gain in gains if gain and NC.short in gain)
        first = next(active, None) if found else None
        if first is None:
            return found
        always = reduce(and_, active, first).flags()
        return {name: {**found[name], ALWAYS: int(always[place].sum())} for name, place in layout.linear().items()}

    def joined(self, gains: Iterable[Gain | None]) -> Gain:
        """The union of what some inputs cover."""
        union: dict[str, Any] = {}
        for gain in gains:
            for name, row in (gain or {}).items():
                union[name] = _union(union[name], row) if name in union else row
        return union

    def beyond(self, gain: Gain, known: Gain) -> Gain:
        """The part of `gain` that `known` does not cover."""
        rest = {name: bits_of(row) - bits_of(known[name]) if name in known else bits_of(row) for name, row in gain.items()}
        return {name: encode_bits(bits, gain[name][OF]) for name, bits in rest.items()}

    def counts(self, gain: Gain) -> dict[str, dict[str, int]]:
        """Covered and total regions by criterion."""
        return {name: {"covered": len(bits_of(row)), "total": row[OF]} for name, row in gain.items()}

    def _empty_coverage(self, system: System, case: Case) -> tuple[Coverage, ...]:
        """Empty coverage of each criterion; layout and profile are determined once per system."""
        if id(system) not in self._started:
            counting = replace(COUNTINGS[self.counting], linear=self.linear)
            layout = layout_of(system, case, counting=counting, under=self.under)
            needs = any(criterion.profiled for criterion in self.criteria)
            known = measure(system, self.profile, layout) if needs and self.profile is not None else None
            self._started[id(system)] = tuple(start(criterion, layout, known) for criterion in self.criteria)
        return self._started[id(system)]


def encode_bits(bits: Bits, total: int, level: int = SMALL) -> dict[str, Any]:
    """The regions of one criterion as part of a gain, compressed at a `level` of zlib."""
    return {BITS: base64.b85encode(bits.to_bytes(level)).decode(), OF: total}


def _union(known: Mapping[str, Any], row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Both as part of a gain; what is known itself if it has all, as nearly always late in a search."""
    mine = bits_of(known)
    both = mine | bits_of(row)
    return known if both == mine else encode_bits(both, row[OF])


def bits_of(row: Mapping[str, Any]) -> Bits:
    """The regions that `encode_bits` wrote."""
    try:
        return _decoded(row[BITS])
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InputError(f"stored coverage cannot be read: {error}") from error


@lru_cache(REMEMBERED)
def _decoded(text: str) -> Bits:
    return Bits.from_bytes(base64.b85decode(text))
