"""Which trials of a guided search increased coverage, from its journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from swerve.core.values import Array
from swerve.coverage.meter import bits_of
from swerve.search.greedy import EACH, Refusals
from swerve.store.view import Run


def grown(run: Run) -> Iterator[tuple[dict[str, Any], bool]]:
    """The trials that count towards a search's budget, in order, each with whether it increased the coverage so far."""
    seeds = {seen.case: _bits(seen.gain) for seen in run.baseline() if seen.gain and not seen.fault}
    one_by_one = run.identity["campaign"]["search"].get("seeds") == EACH
    covered: Array = np.zeros(1, np.uint8)
    for bits in () if one_by_one else seeds.values():
        covered = covered | bits
    refusals = Refusals()
    for row in run.trials():
        if one_by_one:
            covered = covered | seeds.pop(row["case"], np.uint8(0))
        bits = _bits(row["gain"]) if row["gain"] else covered
        if refusals.counts(row["case"], row["gain"] is not None):
            yield row, bool(np.any(bits & ~covered))
        covered = covered | bits


def kept(run: Run) -> Iterator[dict[str, Any]]:
    """The trials that increased coverage: the images that a guided search generates."""
    return (row for row, new in grown(run) if new)


def _bits(gain: Mapping[str, Any]) -> Array:
    """The coverage bits of a gain, of all its criteria."""
    return np.concatenate([bits_of(gain[name]).packed for name in sorted(gain)])
