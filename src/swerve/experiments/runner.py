"""Runs an experiment: its estimated cost, its steps, resumed where they stopped, then its tables and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swerve.core.case import Source
from swerve.core.system import System
from swerve.execution.cost import Cost, announced, trial_cost
from swerve.experiments.declaration import Experiment
from swerve.experiments.evidence import paragraphs
from swerve.experiments.results import Results
from swerve.experiments.schedule import CampaignStep, Step, TrainingStep
from swerve.experiments.setting import Setting
from swerve.experiments.subjects import Subject
from swerve.report.experiment_page import Page, write_page
from swerve.store.files import refuse_links


def estimate(
    experiment: Experiment, level: str, system: System | None = None, source: Source | None = None, **options: Any
) -> Cost:
    """The cost of a complete run at a level, on the experiment's subjects or on the given one."""
    setting = experiment.settled(Setting(Path(), level), options)
    made = experiment.preparation(setting) if system is None else Cost()
    subjects = experiment.tested(setting, system, source, "")
    return sum((_subject_cost(experiment, subject.sampled(), setting) for subject in subjects), made)


def _subject_cost(experiment: Experiment, sampled: Subject, setting: Setting) -> Cost:
    """A few trials of one subject, measured, times the trials of its steps; steps that train cost no space."""
    one, steps, total = experiment.reads(sampled, setting), experiment.schedule(sampled, setting), Cost()
    first = next(step for step in steps if isinstance(step, CampaignStep) and not step.after)
    each = trial_cost(first.campaign_for(one, experiment.campaign), sampled.source)
    for step in steps:
        if isinstance(step, TrainingStep):
            total += Cost(each.seconds) * step.trials
        elif step.trials is None:
            total += each * announced(step.campaign_for(one, experiment.campaign), sampled.count)
        else:
            total += each * step.trials
    return total


def run(
    experiment: Experiment,
    setting: Setting,
    system: System | None = None,
    source: Source | None = None,
    name: str = "",
    **options: Any,
) -> Page:
    """Run all steps on the experiment's subjects, or on the given one, then write its tables and its page and return it."""
    settled = experiment.settled(setting, options)
    if settled.into.is_dir():
        refuse_links(settled.into)
    return report(experiment, finish(experiment, settled, system, source, name))


def finish(
    experiment: Experiment, setting: Setting, system: System | None = None, source: Source | None = None, name: str = ""
) -> Results[Any]:
    """The results once all steps are done: first those without a condition, of all subjects, then the others."""
    subjects = experiment.tested(setting, system, source, name)
    results = Results(setting, [experiment.reads(subject, setting) for subject in subjects])
    schedules = [(one, experiment.schedule(one.subject, setting)) for one in results]
    for conditional in (False, True):
        for one, steps in schedules:
            for step in steps:
                if (step.when is not None) == conditional and (step.when is None or step.when(results, one)):
                    _run_step(experiment, step, one)
    return results


def _run_step(experiment: Experiment, step: Step, one: Any) -> None:
    """Run a step, unless one that it comes after was refused."""
    missing = [name for name in step.after if name not in one.runs and name not in one.trained]
    if missing:
        one.refused[step.name] = f"it needs '{missing[0]}', which was not run"
    else:
        step.run(one, experiment.campaign)


def report(experiment: Experiment, results: Results[Any]) -> Page:
    """Write the tables and the page of finished steps."""
    title = f"{experiment.title} on {', '.join(one.name for one in results)}"
    refused = (f"{one.name}: {step} was not run: {why}." for one in results for step, why in one.refused.items())
    sections = tuple(question.section(results) for question in experiment.questions)
    setting, described = results.setting, {one.name: one.describe() for one in results}
    facts = {"level": setting.level, "seed": setting.seed, **setting.options, **described}
    page = Page(title, (*paragraphs(experiment.lead, results), *refused), sections, facts)
    write_page(page, setting.into)
    return page
