"""Where a run commits its results: the protocol, and a ledger in memory for campaigns without a run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from swerve.core.campaign import Gain, Observation, Record, Trial
from swerve.core.relation import Status
from swerve.core.transformation import Transformation
from swerve.store.record_json import Finding, Result, finding_of, record_row


class Ledger(Protocol):
    """Where results are committed: a batch found there is not computed again."""

    def observed(self, keys: Sequence[str], compute: Callable[[], Sequence[Observation]]) -> Sequence[Observation]:
        """The committed observations of `keys`, or those of `compute`, committed now."""

    def gained(self, compute: Callable[[], Gain]) -> Gain:
        """The committed gain of the next cases or trials together, or that of `compute`, committed now, before them."""

    def recorded(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Result]]) -> Sequence[Result]:
        """The committed results of `trials`, or those of `compute`, committed now."""

    def repeated(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Result]]) -> Sequence[Result]:
        """The committed results of repeated findings, or those of `compute`, committed now."""

    def findings(self) -> Iterator[Finding]:
        """Every committed finding as it was first recorded."""

    def change_of(self, finding: Finding) -> Transformation:
        """The change of a finding."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The content of `campaign.json`, as far as it is known."""


class MemoryLedger:
    """A ledger that keeps its batches in a list; give the list to another to resume from it."""

    def __init__(self, batches: Sequence[Sequence[Observation] | Sequence[Record] | Sequence[Gain]] = ()) -> None:
        self.batches = list(batches)
        self.computed = 0
        self._next = 0
        self.repeats: list[Record] = []

    def observed(self, keys: Sequence[str], compute: Callable[[], Sequence[Observation]]) -> Sequence[Observation]:
        """The committed observations, or those of `compute`."""
        del keys
        return self._once(compute)  # type: ignore[return-value]

    def gained(self, compute: Callable[[], Gain]) -> Gain:
        """The committed gain, or that of `compute`."""
        return self._once(lambda: [compute()])[0]  # type: ignore[return-value]

    def recorded(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Result]]) -> Sequence[Result]:
        """The committed results, or those of `compute`."""
        del trials
        records = self._once(lambda: [result.record for result in compute()])
        return [Result(record) for record in records if isinstance(record, Record)]

    def repeated(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Result]]) -> Sequence[Result]:
        """The results of repeated findings; another ledger cannot resume from them."""
        del trials
        results = compute()
        self.repeats.extend(result.record for result in results)
        return results

    def findings(self) -> Iterator[Finding]:
        """Every finding."""
        return (finding_of(record_row(record)) for record in self._violated())

    def change_of(self, finding: Finding) -> Transformation:
        """The change of a finding."""
        return next(record.change for record in self._violated() if record.id == finding.id and record.change)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Nothing: no file describes the campaign."""
        return {"campaign": {}}

    def _violated(self) -> Iterator[Record]:
        items = (item for batch in self.batches for item in batch)
        return (item for item in items if isinstance(item, Record) and item.verdict.status is Status.VIOLATED)

    def _once(self, compute: Callable[[], Sequence[object]]) -> Sequence[object]:
        if self._next == len(self.batches):
            self.computed += 1
            self.batches.append(compute())  # type: ignore[arg-type]
        self._next += 1
        return self.batches[self._next - 1]
