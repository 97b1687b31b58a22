"""How few points hide an obstacle? A search around the weakest; each find is shrunk by delta debugging and confirmed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from swerve.config.toml import build_change
from swerve.core.campaign import Campaign, Plan
from swerve.core.case import Case
from swerve.core.errors import StoreError
from swerve.core.region import region_of
from swerve.core.relation import Verdict
from swerve.core.values import Array, Boxes3D, Region, find
from swerve.execution.answers import answer_all
from swerve.execution.executors.in_process import InProcess
from swerve.execution.shrink import shrink
from swerve.experiments.lidar.subject_runs import NEAR, boxes_of
from swerve.experiments.setting import Setting
from swerve.experiments.subjects import Subject
from swerve.methods.lidar import lidar
from swerve.relations.obstacles import Changes, changes, in_region, labelled
from swerve.report.birdseye import around, before_after
from swerve.report.cells import Row
from swerve.report.experiment_page import PicturePanel, Section, TablePanel
from swerve.search.fuzz import Attack, Fuzz, FuzzSession
from swerve.sources.subset import Subset
from swerve.store.artifacts import Shrunk, shrunk_of
from swerve.store.folder import locked
from swerve.store.record_json import Finding, finding_of, record_of
from swerve.store.view import Run
from swerve.transformations.scatter import OfferPoints, PlacePoints

RUN = "fewest"
SHOWN = 6
COLUMNS = (
    *("system", "case", "type", "x", "y", "score", "tries", "hidden", "points", "shrinking tries", "confirmed", "vanished"),
    *("real", "metres to the nearest"),
)
SUMMARY = (
    *("system", "frames", "looked at", "besieged", "tries", "hidden", "confirmed", "vanished"),
    *("fewest", "median", "most points"),
)


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
class Besieged:
    """An obstacle that a search tried to hide; if it did, the points after shrinking and the answers with them."""

    siege: Attack
    kind: str
    shrunk: Shrunk | None = None
    points: PlacePoints | None = None
    seen: RepeatedAnswers | None = None
    real: bool | None = None  # whether it is labelled; None without labels

    @property
    def confirmed(self) -> bool:
        """Whether the fewest points, placed one by one, hide it on the full frame again."""
        return self.seen is not None and self.siege.row in self.seen.became.lost

    @property
    def vanished(self) -> bool:
        """Whether no other box stands in its place then."""
        return self.seen is not None and self.siege.row in self.seen.became.vanished

    @property
    def places(self) -> Array:
        """The points, n x 4."""
        return np.array(self.points.at if self.points else (), np.float64).reshape(-1, 4)

    @property
    def nearest(self) -> float | None:
        """Metres on the ground from its centre to the nearest of the points."""
        away = self.places[:, :2] - self.siege.box[:2]
        return float(np.hypot(*away.T).min()) if len(away) else None


@dataclass(frozen=True, eq=False)
class Hunt:
    """The search on one system: its cases, the number of obstacles considered, and those it tried to hide."""

    subject: Subject
    frames: int
    looked: int
    tries: int
    besieged: tuple[Besieged, ...]

    @property
    def hidden(self) -> list[Besieged]:
        """The hidden obstacles, fewest points first."""
        return sorted((one for one in self.besieged if one.points), key=lambda one: len(one.places))

    @property
    def vanished(self) -> list[Besieged]:
        """The hidden obstacles that were not merged into a neighbour."""
        return [one for one in self.hidden if one.vanished]


def hunt(setting: Setting, subject: Subject, frames: int, search: Fuzz) -> Hunt:
    """Search, shrink every find, and confirm it."""
    some = Subset(subject.source, frames)
    campaign = lidar(some, subject.system, n=search.points, near=NEAR, search=search, seed=setting.seed)
    run = setting.run(f"{subject.name}/{RUN}", campaign)
    session = replayed(campaign, run)
    rows = {row["draw"]: finding_of(row) for row in run.trials() if row["status"] == "violated"}
    executor = InProcess(campaign)
    executor.begin({seen.case: seen for seen in run.baseline()})
    required = _required(campaign, run, session.candidates)
    besieged = [siege for siege in session.targets if (siege.case, siege.row) in required]
    setting.progress.begin("fewest points", len(besieged))
    found = []
    for siege in besieged:
        found.append(_besieged(campaign, run, siege, rows[siege.hidden] if siege.hidden is not None else None, executor))
        setting.progress.advance(1, int(siege.hidden is not None))
    tries = sum(siege.tries for siege in session.candidates)
    return Hunt(subject, len(some.keys()), len(required), tries, tuple(found))


def _required(campaign: Campaign, run: Run, sieges: Sequence[Attack]) -> frozenset[tuple[str, int]]:
    """The cases and rows of obstacles in the region: MR1 requires no others."""
    wanted = {siege.case for siege in sieges}
    care = {
        seen.case: np.asarray(in_region(boxes_of(seen.said), region_of(campaign.source[seen.case])).care)
        for seen in run.baseline()
        if seen.case in wanted
    }
    return frozenset((siege.case, siege.row) for siege in sieges if care[siege.case][siege.row])


def within(before: Boxes3D, after: Boxes3D, region: Region | None) -> Changes:
    """What happened to the obstacles of a region."""
    return changes(in_region(before, region), in_region(after, region))


def replayed(campaign: Campaign, run: Run) -> FuzzSession:
    """The session of a finished search, replayed with the records of the journal."""
    baseline = {seen.case: seen for seen in run.baseline()}
    usable = [key for key, seen in baseline.items() if not seen.fault]
    assert isinstance(campaign.search, Fuzz)
    session = campaign.search.start(Plan(usable, campaign.rules, campaign.seed, baseline, campaign.inference_batch))
    records = map(record_of, run.trials())
    while trials := session.ask():
        session.tell(list(islice(records, len(trials))))
    return session


def _besieged(campaign: Campaign, run: Run, siege: Attack, finding: Finding | None, executor: InProcess) -> Besieged:
    seen = next(seen for seen in run.baseline() if seen.case == siege.case)
    kind, truth = boxes_of(seen.said).kinds[siege.row], find(seen.truth, Boxes3D.slot)
    real = bool(labelled(boxes_of(seen.said), truth)[siege.row]) if truth else None
    if finding is None:
        return Besieged(siege, kind, real=real)
    case = campaign.source[siege.case]
    shrunk = shrunk_of(run, finding.id) or _shrink(run, finding, siege.row, region_of(case), executor)
    change = build_change((shrunk.finding if shrunk else finding).change)
    assert isinstance(change, OfferPoints)
    points = change.to_place_points(case)
    return Besieged(siege, kind, shrunk, points, _answer_pair(campaign, case, points(case)), real)


def _shrink(run: Run, finding: Finding, row: int, region: Region | None, executor: InProcess) -> Shrunk | None:
    """The fewest points with which this obstacle is still lost; None if a nondeterministic system detects it again."""

    def still_lost(_: Finding, one: Finding) -> bool:
        return row in within(boxes_of(one.before), boxes_of(one.after), region).lost

    with locked(run.folder):
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


def section(setting: Setting, hunts: Sequence[Hunt]) -> Section:
    """Every obstacle that the search tried to hide, and pictures of the hidden ones."""
    title = "How few points does it take?"
    if not hunts:
        return Section(title, ("No search was run.",), answer="not run")
    rows = tuple(row for one in hunts for row in _rows(one))
    summary = tuple(_summary(one) for one in hunts)
    csv = setting.table("fewest", COLUMNS, rows)
    sheets = (
        TablePanel("The search", SUMMARY, summary, NOTE, formats={"median": ".1f"}),
        TablePanel("Obstacles that the search tried to hide", COLUMNS, rows, csv=csv, main=False,
              formats={"x": ".1f", "y": ".1f", "score": ".2f", "metres to the nearest": ".1f"}),
    )  # fmt: skip
    pictures = tuple(made for one in hunts if (made := _pictures(one)).items)
    return Section(title, (TEXT,), (*sheets, *pictures), _answer(hunts))


TEXT = (
    "Sets of points are placed beside the weakest labelled obstacles (low scores, few beams). An evolutionary search keeps "
    "the sets that weaken their obstacle most, and a set that hides one is shrunk by delta debugging until no single point "
    "can be left out. Then the points are placed one by one and the whole frame is answered once more. All points lie "
    "outside the region. Obstacles that do not touch the region are left out."
)
NOTE = (
    "looked at: obstacles considered; besieged: those that the search tried to hide; tries: forward passes of the search, "
    "without those of shrinking; vanished: confirmed ones without another box in their place, while the others were merged "
    "into a neighbour or split; points: of the hidden obstacles, after shrinking"
)


def _rows(one: Hunt) -> Iterator[Row]:
    for item in one.besieged:
        x, y = (float(part) for part in item.siege.box[:2])
        where = (one.subject.name, item.siege.case, item.kind, x, y, item.siege.score, item.siege.tries)
        hidden = item.points is not None
        shrinking = item.shrunk.tries if item.shrunk else None
        fate = (len(item.places), shrinking, item.confirmed, item.vanished) if hidden else (None,) * 4
        yield (*where, hidden, *fate, item.real, item.nearest)


def _summary(one: Hunt) -> Row:
    counts = [len(item.places) for item in one.hidden]
    points = (min(counts), float(np.median(counts)), max(counts)) if counts else (None, None, None)
    fates = len(counts), sum(item.confirmed for item in one.hidden), len(one.vanished)
    return (one.subject.name, one.frames, one.looked, len(one.besieged), one.tries, *fates, *points)


def shown(one: Hunt) -> list[Besieged]:
    """The examples to show: vanished ones first, by the number of points."""
    return sorted((item for item in one.hidden if item.confirmed), key=lambda item: not item.vanished)[:SHOWN]


def _pictures(one: Hunt) -> PicturePanel:
    items = tuple((_caption(item), _picture(one, item)) for item in shown(one))
    return PicturePanel(f"{one.subject.name}: before and after the fewest points", items, across=1)


def _caption(item: Besieged) -> str:
    points = f"{len(item.places)} point{'' if len(item.places) == 1 else 's'}"
    x, y = item.siege.box[:2]
    fate = "vanished" if item.vanished else "merged or split"
    return f"{points} outside the region: the {item.kind} at ({x:.1f}, {y:.1f}) m is {fate}; {item.siege.case}"


def _picture(one: Hunt, item: Besieged) -> Array:
    assert item.seen
    seen = item.seen
    view, camera = around(seen.before, [item.siege.row], item.places), pictured(one.subject, seen.case)
    before, after = (in_region(boxes, region_of(seen.case)) for boxes in (seen.before, seen.after))
    return before_after(seen.case, seen.followup, before, after, view=view, pictured=camera)


def pictured(subject: Subject, case: Case) -> Case:
    """The case with the camera image, if its source has one."""
    with_camera = getattr(subject.source, "pictured", None)
    found: Case = with_camera(case.key) if callable(with_camera) else case
    return found


def _answer(hunts: Sequence[Hunt]) -> str:
    return "; ".join(_describe_hunt(one) for one in hunts)


def _describe_hunt(one: Hunt) -> str:
    """Such as `lidar: 4 hidden with 1 to 7 points each (4 confirmed, 2 vanished with 3 points each) of 24 …`."""
    tried = f"{len(one.besieged)} obstacles tried ({one.looked} considered, {one.tries:,} forward passes)"
    if not one.hidden:
        return f"{one.subject.name}: none hidden of {tried}"
    confirmed = sum(item.confirmed for item in one.hidden)
    hidden, vanished = (f"{len(items)} {how}{_with_points(items)}" for items, how in
                        ((one.hidden, "hidden"), (one.vanished, "vanished")))  # fmt: skip
    return f"{one.subject.name}: {hidden} ({confirmed} confirmed, {vanished}) of {tried}"


def _with_points(items: Sequence[Besieged]) -> str:
    """Such as ` with 1 to 7 points each`, empty without items; they come fewest points first."""
    if not items:
        return ""
    least, most = len(items[0].places), len(items[-1].places)
    return f" with {least if least == most else f'{least} to {most}'} point{'' if most == 1 else 's'} each"
