"""A ledger in memory, for campaigns whose trials no file needs to keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swerve.core.campaign import Observation, Outcome, Record, Trial


class MemoryLedger:
    """A ledger that keeps its batches in a list; give the list to another to resume from it."""

    def __init__(self, batches: Sequence[Sequence[Observation] | Sequence[Record]] = ()) -> None:
        self.batches = list(batches)
        self.computed = 0
        self._next = 0

    def observed(self, keys: Sequence[str], compute: Callable[[], Sequence[Observation]]) -> Sequence[Observation]:
        """The committed observations, or those of `compute`."""
        del keys
        return self._once(compute)  # type: ignore[return-value]

    def recorded(self, trials: Sequence[Trial], compute: Callable[[], Sequence[Record]]) -> Sequence[Record]:
        """The committed records, or those of `compute`."""
        del trials
        return self._once(compute)  # type: ignore[return-value]

    def ended(self, trials: Sequence[Trial]) -> Sequence[Outcome] | None:
        """How the committed trials ended."""
        del trials
        if self._next == len(self.batches):
            return None
        self._next += 1
        return [item.outcome for item in self.batches[self._next - 1] if isinstance(item, Record)]

    def _once(self, compute: Callable[[], Sequence[object]]) -> Sequence[object]:
        if self._next == len(self.batches):
            self.computed += 1
            self.batches.append(compute())  # type: ignore[arg-type]
        self._next += 1
        return self.batches[self._next - 1]
