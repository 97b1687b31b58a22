"""The loss of mAP of the rules whose `fail_if` asks for it, from the rows of a run."""

# TG-3, D-21

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from swerve.analysis.acceptance import conditions_of
from swerve.analysis.precision_drop import PicturePair, PrecisionDrop, pair_of, precision_drop
from swerve.core.encode import decode_values
from swerve.core.values import Boxes2D, find
from swerve.store.journal import Row
from swerve.store.record_json import BASELINE
from swerve.store.view import Run


def precision_drops(run: Run) -> Mapping[str, PrecisionDrop]:
    """The loss of mAP of those rules of a run, whose rows are read only if there are any."""
    tally = PrecisionTally(run)
    for row in run.rows() if tally.rules else ():
        tally.add(row)
    return tally.drops


class PrecisionTally:
    """Collects the pictures of those rules, unchanged cases first; memory grows with their trials, and with nothing else."""

    def __init__(self, run: Run) -> None:
        campaign = run.identity["campaign"]
        rules = {str(rule["name"]): conditions_of(rule) for rule in campaign.get("rule", ())}
        self._seed = int(campaign.get("seed", 0))
        self._pairs: dict[str, list[PicturePair]] = {
            name: [] for name, conditions in rules.items() if any(one.needs_precision for one in conditions)
        }
        self._labels: dict[str, tuple[Boxes2D, str]] = {}

    @property
    def rules(self) -> Collection[str]:
        """The names of those rules."""
        return self._pairs.keys()

    def add(self, row: Row) -> None:
        """Take in a row."""
        if row["kind"] == BASELINE:
            self._add_case(row)
        elif row["rule"] in self._pairs and row["case"] in self._labels:
            pair = pair_of(row, *self._labels[row["case"]])
            if pair:
                self._pairs[row["rule"]].append(pair)

    def _add_case(self, row: Row) -> None:
        label = find(decode_values(row["truth"]), Boxes2D.slot) if self._pairs and not row["fault"] else None
        if isinstance(label, Boxes2D):
            self._labels[row["case"]] = label, row["group"]

    @cached_property
    def drops(self) -> Mapping[str, PrecisionDrop]:
        """The loss of each of those rules that has judged pictures with labels."""
        return {name: precision_drop(pairs, seed=self._seed) for name, pairs in self._pairs.items() if pairs}
