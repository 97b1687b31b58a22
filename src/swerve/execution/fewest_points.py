"""The fewest points that hide an obstacle: every find of a fuzz search is shrunk by delta debugging and confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from swerve.core.campaign import Campaign, Observation, Plan
from swerve.core.case import Case
from swerve.core.errors import StoreError
from swerve.core.region import region_of
from swerve.core.relation import Verdict
from swerve.core.values import Array, Boxes3D, Region, find
from swerve.execution.answers import answer_all
from swerve.execution.engine import Progress
from swerve.execution.executors.in_process import InProcess
from swerve.execution.shrink import shrink
from swerve.relations.obstacles import Changes, boxes_of, changes, in_region, labelled
from swerve.search.fuzz import Attack, Fuzz, FuzzSession
from swerve.store.artifacts import Shrunk, shrunk_of
from swerve.store.folder import lock_folder
from swerve.store.record_json import Finding, finding_of, record_of
from swerve.store.view import Run
from swerve.transformations.scatter import OfferPoints, PlacePoints


@dataclass(frozen=True, eq=False)
class RepeatedAnswers:
    """A case and its follow-up with their answers, each computed alone."""

    case: Case
    followup: Case
    before: Boxes3D
    after: Boxes3D

    @property
    def became(self) -> Changes:
        """What happened to the obstacles of the region."""
        return within(self.before, self.after, region_of(self.case))


@dataclass(frozen=True, eq=False)
class AttackOutcome:
    """An obstacle that a search tried to hide; if it did, the points after shrinking and the answers with them."""

    attack: Attack
    kind: str
    shrunk: Shrunk | None = None
    points: PlacePoints | None = None
    seen: RepeatedAnswers | None = None
    real: bool | None = None  # whether it is labelled; None without labels

    @property
    def confirmed(self) -> bool:
        """Whether the fewest points, placed one by one, hide it on the full frame again."""
        return self.seen is not None and self.attack.row in self.seen.became.lost

    @property
    def vanished(self) -> bool:
        """Whether no other box stands in its place then."""
        return self.seen is not None and self.attack.row in self.seen.became.vanished

    @property
    def places(self) -> Array:
        """The points, n x 4."""
        return np.array(self.points.at if self.points else (), np.float64).reshape(-1, 4)


@dataclass(frozen=True, eq=False)
class FewestPoints:
    """The search on one system: its cases, the number of obstacles considered, and those it tried to hide."""

    frames: int
    considered: int
    tries: int
    targets: tuple[AttackOutcome, ...]

    @property
    def hidden(self) -> list[AttackOutcome]:
        """The hidden obstacles, fewest points first."""
        return sorted((one for one in self.targets if one.points), key=lambda one: len(one.places))

    @property
    def vanished(self) -> list[AttackOutcome]:
        """The hidden obstacles that were not merged into a neighbour."""
        return [one for one in self.hidden if one.vanished]


def fewest_points(campaign: Campaign, run: Run, progress: Progress) -> FewestPoints:
    """Shrink every find of a finished search, and confirm it."""
    baseline = {seen.case: seen for seen in run.baseline()}
    session = replayed(campaign, run, baseline)
    rows = {row["draw"]: finding_of(row) for row in run.trials() if row["status"] == "violated"}
    executor = InProcess(campaign)
    executor.begin(baseline)
    required = _required(campaign, baseline, session.candidates)
    targets = [attack for attack in session.targets if (attack.case, attack.row) in required]
    progress.begin("fewest points", len(targets))
    found = []
    for attack in targets:
        finding = rows[attack.hidden] if attack.hidden is not None else None
        found.append(_outcome(campaign, run, attack, finding, baseline[attack.case], executor))
        progress.advance(1, int(finding is not None))
    tries = sum(attack.tries for attack in session.candidates)
    return FewestPoints(len(campaign.source.keys()), len(required), tries, tuple(found))


def _required(campaign: Campaign, baseline: Mapping[str, Observation], attacks: Sequence[Attack]) -> set[tuple[str, int]]:
    """The cases and rows of obstacles in the region: MR1 requires no others."""
    cases = {attack.case for attack in attacks}
    seen = {case: in_region(boxes_of(baseline[case].answer), region_of(campaign.source[case])) for case in cases}
    return {(attack.case, attack.row) for attack in attacks if np.asarray(seen[attack.case].care)[attack.row]}


def within(before: Boxes3D, after: Boxes3D, region: Region | None) -> Changes:
    """What happened to the obstacles of a region."""
    return changes(in_region(before, region), in_region(after, region))


def replayed(campaign: Campaign, run: Run, baseline: Mapping[str, Observation]) -> FuzzSession:
    """The session of a finished search, replayed with the records of the journal."""
    usable = [key for key, seen in baseline.items() if not seen.fault]
    assert isinstance(campaign.search, Fuzz)
    session = campaign.search.start(Plan(usable, campaign.rules, campaign.seed, baseline, campaign.inference_batch))
    builder = run.builder()
    records = (record_of(row, builder) for row in run.trials())
    while trials := session.ask():
        session.tell(list(islice(records, len(trials))))
    return session


def _outcome(
    campaign: Campaign, run: Run, attack: Attack, finding: Finding | None, seen: Observation, executor: InProcess
) -> AttackOutcome:
    boxes, truth = boxes_of(seen.answer), find(seen.truth, Boxes3D.slot)
    kind, real = boxes.kinds[attack.row], bool(labelled(boxes, truth)[attack.row]) if truth else None
    if finding is None:
        return AttackOutcome(attack, kind, real=real)
    case = campaign.source[attack.case]
    shrunk = shrunk_of(run, finding.id) or _shrink(run, finding, attack.row, region_of(case), executor)
    change = run.builder().change((shrunk.finding if shrunk else finding).change)
    assert isinstance(change, OfferPoints)
    points = change.to_place_points(case)
    return AttackOutcome(attack, kind, shrunk, points, _answer_pair(campaign, case, points(case)), real)


def _shrink(run: Run, finding: Finding, row: int, region: Region | None, executor: InProcess) -> Shrunk | None:
    """The fewest points with which this obstacle is still lost; None if a nondeterministic system detects it again."""

    def still_lost(_: Finding, one: Finding) -> bool:
        return row in within(boxes_of(one.before), boxes_of(one.after), region).lost

    with lock_folder(run.folder):
        try:
            (shrunk,) = shrink(run, [finding], executor, same=still_lost)
        except StoreError:
            return None
    return shrunk


def _answer_pair(campaign: Campaign, case: Case, followup: Case) -> RepeatedAnswers | None:
    before, after = (answer_all(campaign.system, [one])[0] for one in (case, followup))
    if isinstance(before, Verdict) or isinstance(after, Verdict):
        return None
    return RepeatedAnswers(case, followup, boxes_of(before), boxes_of(after))
