"""Retraining with several splits, and the errors before and after.

Split at random as papers do, which puts neighbours of one drive on both sides; and leak-free by scenes, or by blocks with
gaps. To both, some frames that the network was trained with can be added. A third training uses follow-ups of all of those,
is validated on validation drives of its own, and tested on all images, which share no scene with either.
"""
# DT-38, D-33

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swerve.analysis.statistics import Estimate, StatisticalTest
from swerve.core.campaign import Campaign
from swerve.core.case import Source, group_of
from swerve.core.seeding import digest_of
from swerve.core.system import System
from swerve.execution.engine import Progress
from swerve.retrain.before_after import MSE, Compared, compare
from swerve.retrain.dataset import DrawnFollowups, Joined, Prepared, by_rule, prepare
from swerve.retrain.finetune import finetune
from swerve.retrain.split import RANDOM, SIDES, TRAIN, Cut, fitting_gap, split_of, split_source
from swerve.retrain.split import TEST as TESTED
from swerve.retrain.split import VAL as VALIDATED
from swerve.sources.subset import Subset
from swerve.store.fingerprint import identity_of
from swerve.train.loop import Checkpoint, Recipe

TEST, VAL = 0.34, 0.1  # DeepTest trains on 66%; here a tenth of all is for early stopping, so 56% train
RATE, PATIENCE = 3e-5, 5  # small steps: so few images are soon overfitted
PRINTED, LEAK_FREE, WHOLE = "random, as printed", "leak-free", "leak-free, training split"
WAYS = (PRINTED, LEAK_FREE, WHOLE)  # the last for a network whose own frames are known
MIX = 2.0  # follow-ups of every training image
WORSE = 0.05  # share by which the error on untouched images may grow


@dataclass(frozen=True)
class OwnFrames:
    """Frames of the drives that a network was trained and validated with; `some` training frames join the other splits."""

    train: Source
    val: Source
    some: int
    share: float = 1.0  # of all its drives

    def fingerprint(self) -> str:
        """A hash that changes when any frame does."""
        return digest_of(self.train.fingerprint(), self.val.fingerprint(), self.some)

    def describe(self) -> str:
        """The frames in words."""
        counts = f"{len(self.train.keys()):,} training and {len(self.val.keys()):,} validation frames"
        return counts if self.share == 1 else f"{counts} ({self.share:.0%} of its drives)"


@dataclass(frozen=True)
class Retraining:
    """What to retrain, on which source, with which follow-ups, and with frames of its own training if they are known."""

    system: System
    source: Source
    campaign: Callable[[Source], Campaign]  # whose rules make the follow-ups of a source
    own: OwnFrames | None = None
    passes: int = 20


@dataclass(frozen=True)
class Retrained:
    """The errors before and after with one split, the pass that was kept, and how training went, in words."""

    rows: tuple[Compared, ...]
    best: int  # 0: none, the network is unchanged
    passes: int
    outcome: str

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Retrained:
        """What `asdict` made of it."""
        rows = (
            Compared(**{**row, "change": Estimate(**row["change"]), "test": StatisticalTest(**row["test"])})
            for row in stored["rows"]
        )
        return cls(tuple(rows), stored["best"], stored["passes"], stored["outcome"])


def made_of(what: Retraining, way: str, seed: int, base: Path) -> str:
    """A hash of everything that a result depends on: numbers, changes, weights, images, code, libraries."""
    identity = identity_of(what.campaign(what.source), base)
    cut = (TEST, VAL, Cut.blocks, fitting_gap(what.source))
    return digest_of(
        *(way, what.passes, RATE, PATIENCE, MIX, WORSE, cut, seed),
        *(identity["swerve"], identity["fingerprints"], identity["libraries"], identity["campaign"]["rule"]),
        what.own.fingerprint() if what.own else None,
    )


def retrain(what: Retraining, way: str, seed: int, checkpoint: Checkpoint, progress: Progress) -> Retrained:
    """Fine-tune with one split, and compare the errors on what it holds out."""
    sets = prepared(what, way, seed, progress)
    tuned = finetune(
        what.system,
        sets.training,
        sets.val,
        recipe=Recipe(passes=what.passes, rate=RATE, patience=PATIENCE),
        seed=seed,
        worse=WORSE,
        progress=progress,
        checkpoint=checkpoint,
        scratch_in=checkpoint.folder.parent,
    )
    rows = compare(what.system, tuned.system, sets.tested(), seed=seed, progress=progress)
    errors = tuple(row for row in rows if row.measure == MSE)
    return Retrained(errors, tuned.best, len(tuned.errors) - 1, tuned.describe())


def prepared(what: Retraining, way: str, seed: int, progress: Progress) -> Prepared:
    """What is trained, validated and tested."""
    source, base = what.source, None
    if way == WHOLE and what.own:
        sides = {TRAIN: what.own.train, VALIDATED: what.own.val, TESTED: what.source}
        source, split = Joined(tuple(sides.values())), split_of(sides)
    else:
        how = RANDOM if way == PRINTED else None
        split = split_source(source, Cut(how, TEST, VAL, gap=fitting_gap(source), seed=seed))
        base = Subset(what.own.train, what.own.some) if what.own else None
    campaign = what.campaign(source)
    followups = DrawnFollowups(campaign, campaign.rules, seed, progress)
    held = by_rule(campaign, seed=seed, progress=progress)
    return prepare(campaign, split, followups, mix=MIX, held=held, base=base)


def describe_split(source: Source) -> str:
    """How the leak-free split separates its sides."""
    drives = len({group_of(source, key) for key in source.keys()})
    if drives >= len(SIDES):
        return f"{drives} drives or scenes, each on one side"
    return f"{Cut.blocks} blocks of a drive, each on one side, with {fitting_gap(source)} unused images between sides"


def training_trials(images: int, passes: int, own: tuple[int, int, int] | None = None) -> float:
    """The time of all ways in trials, if every pass is made: reading, then forward and backward passes.

    To train on an image takes about as long as a trial, to validate on it a third of that. `own` are the numbers of frames
    of its own that are added untouched, trained and validated on.
    """
    drawn = 1 + MIX  # an image with its follow-ups
    some, train, val = own or ((1 - TEST - VAL) * images, 0, 0)
    learnt = 2 * (MIX * (1 - TEST - VAL) * images + some) + drawn * train
    validated = 2 * drawn * VAL * images + drawn * val
    return 3 * drawn * images + (learnt + validated / 3) * (1 + passes)
