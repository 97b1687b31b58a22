"""Which trials of a guided search increased coverage, and how much it covered, from its journal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from swerve.analysis.neurons import Sets, followups, originals, size_of
from swerve.core.values import Array
from swerve.coverage.meter import bits_of
from swerve.search.greedy import EACH, Refusals
from swerve.store.journal import Row
from swerve.store.view import Run

DONE, BUDGET = "done", "budget"  # how a search ended: its queue was empty, or its budget was used up


class Growth:
    """Follows the coverage of a guided search: its unchanged cases first, then its trials in order."""

    def __init__(self, search: Mapping[str, Any]) -> None:
        self._one_by_one = search.get("seeds") == EACH
        self._seeds: dict[str, Array] = {}
        self._covered: Array = np.zeros(1, np.uint8)
        self._refusals = Refusals()

    def add_seed(self, case: str, gain: Mapping[str, Any]) -> None:
        """Take in what a usable unchanged case covers."""
        if self._one_by_one:
            self._seeds[case] = _bits(gain)
        else:
            self._covered = self._covered | _bits(gain)

    def add_trial(self, row: Row) -> bool | None:
        """Whether a trial increased the coverage so far; None if it does not count towards the search's budget."""
        if self._one_by_one:
            self._covered = self._covered | self._seeds.pop(row["case"], np.uint8(0))
        bits, covered = _bits(row["gain"]) if row["gain"] else self._covered, self._covered
        self._covered = covered | bits
        counts = self._refusals.counts(row["case"], row["gain"] is not None)
        return bool(np.any(bits & ~covered)) if counts else None


def grown(run: Run) -> Iterator[tuple[dict[str, Any], bool]]:
    """The trials that count towards a search's budget, in order, each with whether it increased the coverage so far."""
    growth = Growth(run.identity["campaign"]["search"])
    for seen in run.baseline():
        if seen.gain and not seen.fault:
            growth.add_seed(seen.case, seen.gain)
    for row in run.trials():
        if (new := growth.add_trial(row)) is not None:
            yield row, new


def kept(run: Run) -> Iterator[dict[str, Any]]:
    """The trials that increased coverage: the images that a guided search generates."""
    return (row for row, new in grown(run) if new)


def _bits(gain: Mapping[str, Any]) -> Array:
    """The coverage bits of a gain, of all its criteria."""
    return np.concatenate([bits_of(gain[name]).packed for name in sorted(gain)])


@dataclass(frozen=True, eq=False)
class SearchCoverage:
    """The coverage of one search: the sets of its seeds and of all its trials, in order."""

    run: Run

    @cached_property
    def seeds(self) -> Sets:
        """The neurons that each seed activates."""
        return originals(seen for seen in self.run.baseline() if not seen.fault)

    @cached_property
    def tries(self) -> Sets:
        """The neurons that each trial with a follow-up activates."""
        return followups(self.run.trials())

    @cached_property
    def spent(self) -> tuple[tuple[bool, bool], ...]:
        """For each trial that counts, whether it has a follow-up, and whether it covered a new neuron of the whole model."""
        return tuple((row["gain"] is not None, new) for row, new in grown(self.run))

    @cached_property
    def drawn(self) -> tuple[int, int, int]:
        """The numbers of pairs drawn and of pairs refused (without a follow-up or an answer), and of seeds visited."""
        pairs = [(row["case"], row["gain"] is None) for row in self.run.trials()]
        return len(pairs), sum(refused for _, refused in pairs), len({case for case, _ in pairs})

    @property
    def end_reason(self) -> str:
        """Whether the queue was empty or the budget used up."""
        budget = self.run.identity["campaign"]["search"].get("budget", 0)
        return BUDGET if budget and len(self.spent) >= budget else DONE

    def growth(self, members: Array) -> Array:
        """Neurons of a (sub-)model covered after each trial."""
        return self.tries.under(members).growth(self.seeds.under(members).union())

    def covered(self, members: Array) -> int:
        """Neurons of a (sub-)model covered in the end."""
        growth = self.growth(members)
        return int(growth[-1]) if len(growth) else self.seeds.under(members).covered()

    def kept(self) -> Array:
        """The positions among `tries` of those that covered new neurons: the images that the search kept."""
        return np.flatnonzero([new for made, new in self.spent if made])

    def reached(self, members: Array, goal: int) -> tuple[int, int] | None:
        """How many images were kept, and how many run, until `goal` neurons of a (sub-)model were covered; None: never."""
        if self.seeds.under(members).covered() >= goal:
            return 0, 0
        enough = np.flatnonzero(self.growth(members) >= goal)
        return (int((self.kept() <= enough[0]).sum()), int(enough[0]) + 1) if len(enough) else None


def goal_of(first: Sets, then: Sets, seeds: Collection[str], members: Array) -> tuple[int, int]:
    """The neurons of a (sub-)model that some images and all their follow-ups cover, and the number of those follow-ups."""
    places = [place for place, (case, _, _) in enumerate(then.keys) if case in seeds]
    alone = [place for place, case in enumerate(first.keys) if case in seeds]
    unions = first.only(alone).under(members).union() | then.only(places).under(members).union()
    return size_of(unions), len(places)


def needed(searches: Sequence[SearchCoverage], members: Array, goal: int) -> tuple[float | None, float | None]:
    """The median numbers of images kept and run until `goal` was covered; None unless every search got there."""
    found = [search.reached(members, goal) for search in searches]
    there = [one for one in found if one is not None]
    if len(there) < len(found):
        return None, None
    return float(np.median([kept for kept, _ in there])), float(np.median([run for _, run in there]))


def end_reasons(searches: Sequence[SearchCoverage]) -> str:
    """Why the searches ended."""
    cut = sum(search.end_reason == BUDGET for search in searches)
    return DONE if not cut else BUDGET if cut == len(searches) else f"{BUDGET} in {cut} of {len(searches)}"
