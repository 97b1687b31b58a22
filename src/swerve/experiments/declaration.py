"""What an experiment is: subjects, sizes, steps, and questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from swerve.core.campaign import Campaign
from swerve.core.case import Source
from swerve.core.errors import InputError, unknown
from swerve.core.system import System
from swerve.execution.cost import Cost
from swerve.experiments.evidence import Question, Text
from swerve.experiments.results import SubjectRuns
from swerve.experiments.schedule import Step, check_order
from swerve.experiments.setting import Setting
from swerve.experiments.subjects import Subject
from swerve.sources.subset import Subset


@dataclass(frozen=True)
class Experiment:
    """A paper's experiment, declared; `swerve.experiments.runner.run` runs it.

    Args:
        subjects: the paper's systems, or what stands for them, for a setting.
        cases: the number of cases of a given system.
        sizes: what `setting.size` is at each level.
        steps: for every subject the same, or a function of subject and setting.
        campaign: of the steps that have none of their own, a function of `SubjectRuns` and the step's values.
        reads: the class that reads the runs of a subject.
        lead: paragraphs at the head of the page, written or computed from the results.
        options: those of this experiment, with their default values.
        check: refuses a setting before anything is run.
        preparation: the estimated cost of what is made before the first step, such as rendered frames.
    """

    name: str
    title: str
    subjects: Callable[[Setting], Sequence[Subject]]
    cases: Callable[[Setting], int]
    sizes: Mapping[str, Any]
    steps: Sequence[Step] | Callable[[Subject, Setting], Iterable[Step]]
    questions: Sequence[Question]
    campaign: Callable[..., Campaign] | None = None
    reads: Callable[[Subject, Setting], Any] = SubjectRuns
    lead: Sequence[Text] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Setting], object] = bool
    preparation: Callable[[Setting], Cost] = lambda _: Cost()

    def settled(self, setting: Setting, options: Mapping[str, Any]) -> Setting:
        """The setting with the size of its level, and with all options."""
        if strange := [name for name in options if name not in self.options]:
            raise InputError(unknown(f"option of experiment '{self.name}'", strange[0], self.options))
        settled = replace(setting, size=self.sizes[setting.level], options={**self.options, **options})
        self.check(settled)
        return settled

    def tested(self, setting: Setting, system: System | None, source: Source | None, name: str) -> Sequence[Subject]:
        """The paper's subjects, or the given one."""
        if system is None or source is None:
            return self.subjects(setting)
        some = Subset(source, self.cases(setting))
        return [Subject(name or type(system).__name__.lower(), system, some)]

    def schedule(self, subject: Subject, setting: Setting) -> list[Step]:
        """The steps of one subject."""
        return check_order(self.steps(subject, setting) if callable(self.steps) else self.steps)
