"""Heat maps beside the pictures of findings, where a campaign chose objects by an explanation."""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.parts import parts_in
from swerve.core.values import Image
from swerve.execution.answers import FOREIGN, without_truth
from swerve.explain.heat import Explanation
from swerve.explain.known_heat import heat_maps
from swerve.store.artifacts import HEAT, SHA_DIGITS
from swerve.store.files import png_bytes, safe_name, write_synced

MOST = 64  # pictures: each costs a pass


class HeatKeeper:
    """Writes the heat on the pictures of sources and follow-ups, in the order of `add`; a campaign without one has none.

    If the explanation fails anywhere, no more is written: the run must not stop.
    """

    def __init__(self, campaign: Campaign, folder: Path) -> None:
        self._explanation = explanation_of(campaign)
        self._system, self._folder = campaign.system, folder
        self._done: set[str] = set()

    def add(self, case: Case) -> None:
        """Write the heat on the picture of a case, unless it was written before."""
        if self._explanation is None or case.input_sha in self._done or len(self._done) >= MOST:
            return
        self._done.add(case.input_sha)
        pictures = [(name, value) for name, value in case.inputs.items() if isinstance(value, Image)]
        try:
            (heat,) = heat_maps(self._explanation, [without_truth(case)], self._system)
        except FOREIGN:
            self._explanation = None
            return
        if len(pictures) == 1 and heat.size == pictures[0][1].size:
            name, image = pictures[0]
            file = self._folder / f"{case.input_sha[:SHA_DIGITS]}-{safe_name(name)}{HEAT}.png"
            write_synced(file, png_bytes(heat.over(image.pixels)))


def explanation_of(campaign: Campaign) -> Explanation | None:
    """The explanation by which a campaign chooses objects, if it has one."""
    parts = (part for rule in campaign.rules for part in parts_in(rule.change))
    return next((part for part in parts if _explains(part)), None)


def _explains(part: object) -> TypeGuard[Explanation]:
    return isinstance(part, Explanation) and not isinstance(part, type)
