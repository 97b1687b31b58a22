"""A check of explanations: whether their maps are fine enough to tell objects apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swerve.core.campaign import Campaign, Observation
from swerve.execution.answers import FOREIGN, without_truth
from swerve.execution.checks.concern import Concern, Level
from swerve.execution.evaluator import read_case
from swerve.execution.finding_heat import explanation_of
from swerve.explain.known_heat import heat_maps


def coarse_heat(campaign: Campaign, usable: Sequence[Observation]) -> Iterator[Concern]:
    """A warning if the map of the first case has fewer than four rows or columns."""
    explanation = explanation_of(campaign)
    if explanation is None or not usable:
        return
    try:
        (heat,) = heat_maps(explanation, [without_truth(read_case(campaign, usable[0].case))], campaign.system)
    except FOREIGN:
        return  # the trials tell
    if heat.is_coarse:
        size = " x ".join(map(str, heat.values.shape))
        why = (
            f"the heat map has {size} cells, too few to tell objects apart: name another layer; 'swerve explain' shows them"
        )
        yield Concern("coarse heat map", Level.WARNING, why)
