"""The finished runs of an experiment: those of one subject, and all of them with the rows of its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from swerve.analysis.numbers import SUMMARY
from swerve.core.campaign import Observation
from swerve.experiments.setting import Setting
from swerve.experiments.subjects import Subject
from swerve.store.files import read_json
from swerve.store.view import Run

COUNTS = ("trials", "held", "violated", "skipped", "errors")
T = TypeVar("T")


@dataclass(eq=False)
class SubjectRuns:
    """A subject with its finished steps. An experiment may derive a class with what it reads from the journals."""

    subject: Subject
    setting: Setting
    runs: dict[str, Run] = field(default_factory=dict)  # by step
    trained: dict[str, Path] = field(default_factory=dict)  # the file of each training step
    refused: dict[str, str] = field(default_factory=dict)  # steps that the data do not allow, and why
    memory: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The system's name."""
        return self.subject.name

    @cached_property
    def baseline(self) -> list[Observation]:
        """The untouched cases that the system answered, in the first run."""
        return [seen for seen in next(iter(self.runs.values())).baseline() if not seen.fault]

    def once(self, read: Callable[[Any], T]) -> T:
        """What `read` makes of these runs, computed once."""
        if read not in self.memory:
            self.memory[read] = read(self)
        found: T = self.memory[read]
        return found

    def counts(self, step: str) -> Counter[str]:
        """How many trials a step has, and how they ended: held, violated, skipped, errors."""
        summary = read_json(self.runs[step].folder / SUMMARY)
        return Counter({name: int(summary[name]) for name in COUNTS})

    def describe(self) -> str:
        """The number of cases and trials, and how many were not judged."""
        total = sum((self.counts(step) for step in self.runs), Counter[str]())
        left = total["skipped"] + total["errors"]
        parts = f" ({total['skipped']:,} skipped, {total['errors']:,} failed)" if left else ""
        return f"{len(self.baseline):,} cases, {total['trials']:,} trials, {left:,} not judged{parts}"


R = TypeVar("R", bound=SubjectRuns)


class Results(list[R]):
    """The runs of all subjects, in order; `tables` remembers the rows of a table, which may take long to count."""

    def __init__(self, setting: Setting, each: Iterable[R]) -> None:
        super().__init__(each)
        self.setting = setting
        self.tables: dict[Any, list[dict[str, Any]]] = {}
