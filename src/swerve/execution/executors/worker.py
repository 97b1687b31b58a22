"""The program of a worker process: source and system rebuilt once from a run folder, then batch after batch.

    python -m swerve.execution.executors.worker FOLDER TRUST

Questions come over stdin and answers go over stdout, in the frames of `systems.wire`; it writes no file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from swerve.config.trust import Trust
from swerve.core.campaign import Campaign, Continuation, Gain, MergingMeter, ProfilingMeter, Record, Trial, has_gain_per_ask
from swerve.core.errors import StoreError, SwerveError
from swerve.core.relation import Fault, Verdict
from swerve.core.transformation import Transformation
from swerve.execution.evaluator import Evaluator, observe_batch
from swerve.execution.executors.cores import settle_threads
from swerve.execution.replay import ask_target, changed_since, evaluator_of, find_target, rebuild
from swerve.store.record_json import observation_of, observation_row, record_row
from swerve.store.view import Run
from swerve.systems.child import die_with_parent
from swerve.systems.serve import serve_frames

CHANGES = 4096  # kept: a grid asks for the same few of every case


class Worker:
    """What a worker can be asked."""

    def __init__(self, folder: Path, trust: Trust) -> None:
        self._run, self._trust = Run(folder), trust
        self._change = lru_cache(CHANGES)(self._build)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The rows asked for, or the message of an error that stops the campaign."""
        tasks: dict[str, Callable[[Any], list[Any]]] = {
            "ready": self.ready,
            "prepare": self.prepare,
            "observe": self.observe,
            "evaluate": self.evaluate,
            "repeat": self.repeat,
            "unanswered": self.unanswered,
            "changed": self.changed,
            "replay": self.replay,
        }
        try:
            rows = tasks[question["ask"]](question.get("items", ()))
        except SwerveError as error:
            return {"stopped": str(error), "exit": error.exit_code}
        return {"rows": rows, "seconds": self._evaluator.times.taken() if "_evaluator" in vars(self) else {}}

    def ready(self, nothing: Sequence[Any] = ()) -> list[Any]:
        """Load the model, which is not counted against the time limit of a case."""
        del nothing
        _ = self._campaign
        return []

    def prepare(self, nothing: Sequence[Any] = ()) -> list[Any]:
        """Profile the system where coverage needs that; a whole data set, so it has no time limit."""
        del nothing
        campaign = self._campaign
        if isinstance(campaign.coverage, ProfilingMeter):
            campaign.coverage.prepare(campaign.system, campaign.source)
        return []

    def observe(self, keys: Sequence[str]) -> list[Any]:
        """The observations of unchanged cases."""
        return [observation_row(seen) for seen in observe_batch(self._campaign, keys)]

    def evaluate(self, trials: Sequence[Sequence[Any]]) -> list[Any]:
        """The records of trials."""
        records = self._evaluator([self._trial(*words) for words in trials])
        return [record_row(self._new_gain_only(record)) for record in records]

    def repeat(self, asked: Sequence[Sequence[Any]]) -> list[Any]:
        """The records of repeated trials, each given with the observation of its source that it is judged against."""
        pairs = [(self._trial(*words), observation_of(row)) for *words, row in asked]
        return [record_row(self._evaluator.repeat(trial, seen)) for trial, seen in pairs]

    def unanswered(self, trials: Sequence[Sequence[Any]]) -> list[Any]:
        """The records of trials that crash every worker, each given with its error; the system is not run."""
        pairs = [(self._trial(*words), Verdict.error(why, Fault(kind))) for *words, why, kind in trials]
        return [record_row(self._evaluator.unanswered(trial, verdict)) for trial, verdict in pairs]

    def changed(self, wanted: Sequence[Sequence[Any]]) -> list[Any]:
        """The differences between the campaign and the one that the run started with; prepares the replay of `wanted`."""
        self._targets = [find_target(self._run, prefix, shrunk=shrunk) for prefix, shrunk in wanted]
        self._again = evaluator_of(self._run, self._rebuilt)
        return [*changed_since(self._run, self._rebuilt)]

    def replay(self, nothing: Sequence[Any] = ()) -> list[Any]:
        """The system's answers now to the trials that were given to `changed`."""
        del nothing
        return [ask_target(self._run, self._again, target, self._trust).row() for target in self._targets]

    def _trial(self, case: str, rule: str, draw: int, change: str | None, further: Sequence[Any] | None = None) -> Trial:
        if further is None:
            return Trial(case, rule, draw, None if change is None else self._change(change))
        made, kinds, stream = further
        continues = Continuation(tuple(map(self._change, made)), tuple(kinds), tuple(stream) if stream else None)
        return Trial(case, rule, draw, continues=continues)

    def _build(self, text: str) -> Transformation:
        return self._run.builder(trusted=self._trust).change(json.loads(text))

    @cached_property
    def _rebuilt(self) -> Campaign:
        """The campaign of the run folder, with the present weights."""
        campaign = rebuild(self._run, self._trust)
        settle_threads()
        return campaign

    @cached_property
    def _campaign(self) -> Campaign:
        then, now = self._run.identity["fingerprints"].get("system", ""), self._rebuilt.system.fingerprint()
        if then != now:  # the file was replaced while the campaign ran (R47)
            raise StoreError(
                f"the system changed during the run (weights: sha {then[:8]} then, {now[:8]} now); "
                f"restore it, or run into another folder"
            )
        return self._rebuilt

    def _new_gain_only(self, record: Record) -> Record:
        """A record without what was covered when this worker started, if its gain is to be merged with others anyway."""
        meter = self._campaign.coverage
        if record.gain is None or not (has_gain_per_ask(self._campaign.search) and isinstance(meter, MergingMeter)):
            return record
        return replace(record, gain=meter.beyond(record.gain, self._known_gain))

    @cached_property
    def _known_gain(self) -> Gain:
        assert self._campaign.coverage
        return self._campaign.coverage.joined(self._run.gains())

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self._campaign, {seen.case: seen for seen in self._run.baseline()}, threads=1)


def main() -> None:
    """Work until stdin closes."""
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: sums in one order
    die_with_parent()
    folder, trust = sys.argv[1:]
    serve_frames(Worker(Path(folder), Trust.of_json(trust)).answer)


if __name__ == "__main__":
    main()
