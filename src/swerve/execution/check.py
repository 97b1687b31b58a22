"""Checks before a run whether the campaign can find anything (RELIABILITY, design rule 9).

A concern is a note, a warning, or a refusal: a refused campaign cannot find anything, or would report false findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from swerve.analysis.baseline import baseline_error
from swerve.core.campaign import Campaign, Observation, Plan, Trial
from swerve.core.relation import Rule
from swerve.execution.checks.coarse_heat import coarse_heat
from swerve.execution.checks.concern import Health
from swerve.execution.checks.disk import disk_space, megabytes_of
from swerve.execution.checks.effect import faint, idle
from swerve.execution.checks.kinds import kinds_apart
from swerve.execution.checks.noise import batch_dependence, noise
from swerve.execution.checks.own_error import own_error
from swerve.execution.checks.sampling import is_empty, spread
from swerve.execution.checks.steering_sign import unit_and_sign
from swerve.execution.checks.untouched import blind, constant, repeated, skipped
from swerve.execution.executors.in_process import Executor
from swerve.systems.child import cpu_seconds

NOISE_CASES = 8
SAMPLED_CASES, SAMPLED_DRAWS = 3, 4


def examine(
    campaign: Campaign, baseline: Mapping[str, Observation], executor: Executor, folder: Path | None = None
) -> Health:
    """Check the baseline, repeat a few cases, and try a few changes of every rule; `folder` is the run folder."""
    usable = [seen for seen in baseline.values() if not seen.fault]
    answered = [seen for seen in usable if not is_empty(seen.answer)]
    sample = spread(answered or usable, SAMPLED_CASES)
    samples = [list(_sample_trials(rule, sample)) for rule in campaign.rules]
    executor.warm(samples)
    started = cpu_seconds()
    evaluated = zip(campaign.rules, executor.evaluate(samples), strict=True)
    records = {rule.name: [result.record for result in batch] for rule, batch in evaluated}
    seconds = cpu_seconds() - started
    trials = campaign.search.start(
        Plan(
            [seen.case for seen in usable],
            campaign.rules,
            campaign.seed,
            baseline,
            campaign.inference_batch,
            campaign.coverage,
        )
    ).total
    tried = [record for some in records.values() for record in some]
    share = None if trials is None or not tried else trials / len(tried)
    megabytes = None if share is None else megabytes_of(campaign, tried, share, len(usable))
    concerns = (
        *skipped(list(baseline.values())),
        *repeated(usable),
        *constant(usable, tried),
        *blind(campaign, usable, tried),
        *(list(unit_and_sign(campaign.source, usable)) or own_error(campaign, usable)),
        *kinds_apart(campaign, usable, records),
        *noise(campaign, executor, baseline, spread(usable, NOISE_CASES)),
        *batch_dependence(campaign, executor, usable),
        *idle(campaign, records),
        *coarse_heat(campaign, usable),
        *faint(usable, records),
        *disk_space(folder, megabytes),
    )
    error = baseline_error(campaign.source, list(baseline.values()))
    return Health(error, concerns, trials, None if share is None else seconds * share, megabytes)


def _sample_trials(rule: Rule, sample: Sequence[Observation]) -> Iterator[Trial]:
    """Trials spread over the whole grid, or the first draws of an infinite space: the same as in the run."""
    grid = rule.change.grid()
    places = (
        np.unique(np.linspace(0, len(grid) - 1, min(SAMPLED_DRAWS, len(grid))).astype(int)) if grid else range(SAMPLED_DRAWS)
    )
    for seen in sample:
        yield from (Trial(seen.case, rule.name, int(place), grid[place] if grid else None) for place in places)
