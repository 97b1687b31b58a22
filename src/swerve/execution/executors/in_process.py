"""What evaluates the trials of a campaign: the protocol, and the executor that works in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from swerve.core.campaign import Campaign, Observation, Record, Trial
from swerve.execution.evaluator import TRANSFORM_THREADS, Evaluator, observe_batch


class Executor(Protocol):
    """Evaluates trials: in this process, in others, or on other machines. Results come in the order of the batches."""

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterable[Sequence[Observation]]:
        """What the system says of untouched cases."""

    def begin(self, baseline: Mapping[str, Observation]) -> None:
        """The baseline is complete: trials may follow."""

    def evaluate(self, batches: Sequence[Sequence[Trial]]) -> Iterable[Sequence[Record]]:
        """The records of trials."""

    def repeat(self, asked: Sequence[tuple[Trial, Observation]]) -> Iterable[Record]:
        """The records of trials, each alone, judged against another observation of its source than the baseline's."""

    def warm(self, batches: Sequence[Sequence[Trial]]) -> None:
        """Start what will work on these batches and do their first trial: an estimate of time must not count that."""


class InProcess:
    """Evaluates trials in this process."""

    def __init__(self, campaign: Campaign, threads: int = TRANSFORM_THREADS) -> None:
        self._campaign, self._threads = campaign, threads
        self._evaluate: Evaluator | None = None

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterator[Sequence[Observation]]:
        """What the system says of untouched cases, batch after batch."""
        return (observe_batch(self._campaign, batch) for batch in batches)

    def begin(self, baseline: Mapping[str, Observation]) -> None:
        """Calibrate the rules."""
        self._evaluate = Evaluator(self._campaign, baseline, self._threads)

    def evaluate(self, batches: Sequence[Sequence[Trial]]) -> Iterator[Sequence[Record]]:
        """The records of trials, batch after batch."""
        assert self._evaluate, "begin comes first"
        return map(self._evaluate, batches)

    def repeat(self, asked: Sequence[tuple[Trial, Observation]]) -> Iterator[Record]:
        """The records of trials asked again, one by one."""
        assert self._evaluate, "begin comes first"
        return (self._evaluate.repeat(trial, seen) for trial, seen in asked)

    def warm(self, batches: Sequence[Sequence[Trial]]) -> None:
        """Do the first trial, so that what a system does only once is done."""
        list(self.evaluate([batches[0][:1]]))
