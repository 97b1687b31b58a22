"""The coverage of a run as it is committed: a gain with every case and trial, or one for all of a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

from swerve.core.campaign import Campaign, Gain, MergingMeter, Observation, Session, Trial, has_gain_per_ask
from swerve.core.errors import InputError
from swerve.execution.ledger import Ledger
from swerve.store.record_json import Result

T = TypeVar("T", Observation, Result)


class Covered:
    """What the cases and trials committed so far cover; `gain` grows with every commit."""

    def __init__(self, campaign: Campaign) -> None:
        self._meter = campaign.coverage
        self.gain: Gain = {}
        self._per_ask = campaign.coverage is not None and has_gain_per_ask(campaign.search)
        if self._per_ask and not isinstance(self._meter, MergingMeter):
            name = type(self._meter).__name__
            raise InputError(f"the search wants one gain per ask, so {name} needs methods measured_together and beyond")
        self._last: Gain | None = None  # what the last ask has added

    def observed(
        self, ledger: Ledger, keys: Sequence[str], compute: Callable[[], Sequence[Observation]]
    ) -> Sequence[Observation]:
        """The committed observations of `keys`, or those of `compute`, committed now."""
        return self._committed(ledger, partial(ledger.observed, keys), compute, lambda seen: replace(seen, gain=None))

    def recorded(
        self, ledger: Ledger, trials: Sequence[Trial], compute: Callable[[], Sequence[Result]], known: Gain | None = None
    ) -> Sequence[Result]:
        """The committed results of `trials`, or those of `compute`, committed now; a gain per ask goes beyond `known`."""
        return self._committed(ledger, partial(ledger.recorded, trials), compute, Result.without_gain, known)

    def _committed(
        self,
        ledger: Ledger,
        commit: Callable[[Callable[[], Sequence[T]]], Sequence[T]],
        compute: Callable[[], Sequence[T]],
        without_gain: Callable[[T], T],
        known: Gain | None = None,
    ) -> Sequence[T]:
        if not self._per_ask:
            items = commit(compute)
            if self._meter:
                self._add(item.gain for item in items)
            return items
        # The gain is committed first: trials that a killed process left without their gain could not be measured again.
        once = cache(compute)
        base = self.gain if known is None else known
        self._last = ledger.gained(lambda: self._beyond((item.gain for item in once()), base))
        self._add([self._last])
        return commit(lambda: [without_gain(item) for item in once()])

    def _beyond(self, gains: Iterable[Gain | None], known: Gain) -> Gain:
        assert isinstance(self._meter, MergingMeter)
        return self._meter.beyond(self._meter.joined(gains), known)

    def _add(self, gains: Iterable[Gain | None]) -> None:
        assert self._meter
        self.gain = self._meter.joined([self.gain, *gains])

    def tell(self, session: Session) -> None:
        """Tell a search what its last ask has added, if it wants to know."""
        tell = getattr(session, "tell_gain", None)
        if self._per_ask and tell:
            tell(self._last)

    def counts(self, untouched: Gain) -> dict[str, dict[str, int]]:
        """The regions covered by criterion, in all and by the unchanged cases."""
        if self._meter is None:
            return {}
        first = self._meter.counts(untouched)
        every = self._meter.counts(self.gain)
        none = {"covered": 0}
        return {name: {**counts, "untouched": first.get(name, none)["covered"]} for name, counts in every.items()}
