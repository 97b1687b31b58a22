"""Where the work of a campaign is done, and the plainest place: this very process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from swerve.core.campaign import Campaign, Observation, Record, Trial
from swerve.run.evaluator import TRANSFORM_THREADS, Evaluator, observe_batch


class Executor(Protocol):
    """Who does the work: this process, others, or other machines. Results come in the order of the batches."""

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterable[Sequence[Observation]]:
        """What the system says of untouched cases."""

    def begin(self, baseline: Mapping[str, Observation]) -> None:
        """The baseline is complete: trials may follow."""

    def evaluate(self, batches: Sequence[Sequence[Trial]]) -> Iterable[Sequence[Record]]:
        """The records of trials."""

    def repeat(self, asked: Sequence[tuple[Trial, Observation]]) -> Iterable[Record]:
        """The records of trials, each alone, judged against another observation of its source than the baseline's."""

    def warm(self, batches: Sequence[Sequence[Trial]]) -> None:
        """Have whoever will work on these batches start, and do the first trial of them: neither is to be counted."""


class InProcess:
    """Evaluates trials in this process."""

    def __init__(self, campaign: Campaign, threads: int = TRANSFORM_THREADS) -> None:
        self._campaign, self._threads = campaign, threads
        self._evaluate: Evaluator | None = None

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterator[Sequence[Observation]]:
        """What the system says of untouched cases, batch after batch."""
        return (observe_batch(self._campaign, batch) for batch in batches)

    def begin(self, baseline: Mapping[str, Observation]) -> None:
        """Fix the numbers of the rules."""
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
        """Do the first trial: what a system does but once is done then."""
        list(self.evaluate([batches[0][:1]]))
