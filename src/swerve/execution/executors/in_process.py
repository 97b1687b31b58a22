"""Executors evaluate the trials of a campaign: the protocol, and the executor in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from swerve.core.campaign import Campaign, Observation, Trial
from swerve.execution.evaluator import TRANSFORM_THREADS, Evaluator, observe_batch
from swerve.store.record_json import Result


class Executor(Protocol):
    """Evaluates trials: in this process, in others, or on other machines. Results come in the order of the batches."""

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterable[Sequence[Observation]]:
        """The observations of unchanged cases."""

    def begin(self, baseline: Mapping[str, Observation]) -> None:
        """The baseline is complete: trials may follow."""

    def evaluate(self, batches: Sequence[Sequence[Trial]]) -> Iterable[Sequence[Result]]:
        """The results of trials."""

    def repeat(self, pairs: Sequence[tuple[Trial, Observation]]) -> Iterable[Result]:
        """The results of trials, each alone, judged against another observation of its source than the baseline's."""

    def stage_seconds(self) -> Mapping[str, float]:
        """The seconds spent on each stage since the last call, of all workers together."""

    def warm(self, batches: Sequence[Sequence[Trial]]) -> None:
        """Start the workers for these batches and run the first trial, so that neither counts in an estimate of time."""


class InProcess:
    """Evaluates trials in this process."""

    def __init__(self, campaign: Campaign, threads: int = TRANSFORM_THREADS) -> None:
        self._campaign, self._threads = campaign, threads
        self._evaluate: Evaluator | None = None

    def observe(self, batches: Sequence[Sequence[str]]) -> Iterator[Sequence[Observation]]:
        """The observations of unchanged cases, batch after batch."""
        return (observe_batch(self._campaign, batch) for batch in batches)

    def begin(self, baseline: Mapping[str, Observation]) -> None:
        """Calibrate the rules."""
        self._evaluate = Evaluator(self._campaign, baseline, self._threads)

    def evaluate(self, batches: Sequence[Sequence[Trial]]) -> Iterator[Sequence[Result]]:
        """The results of trials, batch after batch."""
        assert self._evaluate, "begin comes first"
        return ([*map(Result, records)] for records in map(self._evaluate, batches))

    def repeat(self, pairs: Sequence[tuple[Trial, Observation]]) -> Iterator[Result]:
        """The results of repeated trials, one by one."""
        assert self._evaluate, "begin comes first"
        return (Result(self._evaluate.repeat(trial, seen)) for trial, seen in pairs)

    def stage_seconds(self) -> dict[str, float]:
        """The seconds spent on changes and on answers since the last call."""
        return self._evaluate.times.taken() if self._evaluate else {}

    def warm(self, batches: Sequence[Sequence[Trial]]) -> None:
        """Run the first trial, so that the system's one-time initialisation is done."""
        list(self.evaluate([batches[0][:1]]))
