"""Training sets with changed pictures: a random share of the pictures is added once more, changed or, as a control, not."""

# TG-21, TG-21b, TG-25

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.gate import admission_by_all
from swerve.core.seeding import rng_for
from swerve.core.transformation import Transformation

CONTROL, ALL = "originals", "all changes"
SHARE = 0.2


@dataclass(frozen=True)
class LightMix:
    """What is added to the pictures: changes by the rules of a campaign in turn, unchanged pictures if it is None.

    Args:
        natural: whether pictures that a filter of the campaign refuses are replaced by the next ones of the same order.
    """

    campaign: Campaign | None
    natural: bool = False
    seed: int = 0

    def merged(self, cases: Sequence[Case], share: float = SHARE) -> list[Case]:
        """The cases with a share of them added; the order in which they are taken depends on the seed alone."""
        order = rng_for(self.seed, "mix").permutation(len(cases))
        added = self._changed([cases[place] for place in order])
        return [*cases, *islice(added, round(share * len(cases)))]

    def _changed(self, cases: Sequence[Case]) -> Iterator[Case]:
        if self.campaign is None:
            yield from cases
            return
        turn = 0
        for case in cases:
            for step in range(len(self.campaign.rules)):
                followup = self._followup(case, turn + step)
                if followup is not None:
                    yield followup
                    turn += step + 1
                    break

    def _followup(self, case: Case, turn: int) -> Case | None:
        """The case changed by the rule whose turn it is; None if it does not apply, or is unnatural and must not be."""
        assert self.campaign is not None
        rule = self.campaign.rules[turn % len(self.campaign.rules)]
        rng = rng_for(self.seed, "mix", rule.name, case.key)
        try:
            change: Transformation = rule.change.propose(case, rng, self.campaign.system)
            if why := change.applies(case):
                raise NotApplicable(why)
            followup = change(case)
        except NotApplicable:
            return None
        refused = self.natural and admission_by_all(self.campaign.gates(rule), case, followup).why
        return None if refused else followup
