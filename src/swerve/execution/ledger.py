"""Where a run commits its results: the protocol, and a ledger in memory for campaigns whose trials no file keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from swerve.core.campaign import Observation, Outcome, Record, Trial
from swerve.core.relation import Status
from swerve.core.transformation import Transformation
from swerve.store.record_json import Finding, finding_of, record_row


class Ledger(Protocol):
    """Where results are committed: a batch found there is not computed again."""

    def observed(self, keys: Sequence[str], compute: Callable[[], Sequence[Observation]]) -> Sequence[Observation]:
        """The committed observations of `keys`, or those of `compute`, committed now."""

    def recorded(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Record]]) -> Sequence[Record]:
        """The committed records of `trials`, or those of `compute`, committed now."""

    def outcomes(self, trials: Sequence[Trial]) -> Sequence[Outcome] | None:
        """How the committed `trials` ended, for a search that needs no more of them; None if they are still to be made."""

    def repeated(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Record]]) -> Sequence[Record]:
        """The committed records of findings asked again, or those of `compute`, committed now."""

    def findings(self) -> Iterator[Finding]:
        """Every committed finding, whether it was asked again or not."""

    def change_of(self, finding: Finding) -> Transformation:
        """The change of a finding."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The content of `campaign.json`, as far as it is known."""


class MemoryLedger:
    """A ledger that keeps its batches in a list; give the list to another to resume from it."""

    def __init__(self, batches: Sequence[Sequence[Observation] | Sequence[Record]] = ()) -> None:
        self.batches = list(batches)
        self.computed = 0
        self._next = 0
        self.repeats: list[Record] = []

    def observed(self, keys: Sequence[str], compute: Callable[[], Sequence[Observation]]) -> Sequence[Observation]:
        """The committed observations, or those of `compute`."""
        del keys
        return self._once(compute)  # type: ignore[return-value]

    def recorded(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Record]]) -> Sequence[Record]:
        """The committed records, or those of `compute`."""
        del trials
        return self._once(compute)  # type: ignore[return-value]

    def outcomes(self, trials: Sequence[Trial]) -> Sequence[Outcome] | None:
        """How the committed trials ended."""
        del trials
        if self._next == len(self.batches):
            return None
        self._next += 1
        return [item.outcome for item in self.batches[self._next - 1] if isinstance(item, Record)]

    def repeated(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Record]]) -> Sequence[Record]:
        """The records of findings asked again, which no other ledger resumes from."""
        del trials
        self.repeats.extend(records := compute())
        return records

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
