"""R58 and R59 for sweeps: a change that does nothing never violates; planted faults are found, told apart and shrunk.

SWERVE_SOAK=1 runs all 10,000 trials; else it is a twentieth.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from swerve.cli.main import main
from swerve.config.toml import build_change
from swerve.config.trust import OWN
from swerve.core.campaign import Campaign, Record
from swerve.core.case import Case
from swerve.core.region import inside
from swerve.core.relation import Relation, Rule, Status
from swerve.core.seeding import digest_of, rng_for
from swerve.core.space import Over
from swerve.core.system import Answer
from swerve.core.transformation import Chain, Transformation, Unchanged
from swerve.core.values import Array, Boxes3D, PointCloud, Region
from swerve.execution.engine import run
from swerve.relations.sets import NoFewer, Superset
from swerve.search.sweep import Sweep
from swerve.store.artifacts import shrunk_of
from swerve.store.view import Run
from swerve.testing import MemoryLedger
from swerve.transformations.dropout import DropBeams, DropPoints, DropSector, Jitter
from swerve.transformations.scatter import AddPoints, PlacePoints
from swerve.transformations.sensor_pose import MirrorScene, Shift, Yaw
from swerve.transformations.weather import Fog, Rain, Snow
from tests.fixture_sweeps import points_of, shrunk

SOAK = os.environ.get("SWERVE_SOAK") == "1"
TRIALS = 10_000 if SOAK else 500
ROAD = Region((np.array([[-34.0, -6], [34, -6], [34, 6], [-34, 6]]),))
PLACES = np.arange(-28.0, 29, 8)  # metres ahead where an obstacle may stand
ABOVE = -1.0  # metres: higher points belong to obstacles
BACKGROUND = 80
KINDS = ("car", "pedestrian", "cyclist")


@dataclass(frozen=True)
class Sweeps:
    """Small sweeps of a road with three to six obstacles, far apart, of eight points each."""

    count: int

    def keys(self) -> Sequence[str]:
        return [f"sweep-{number}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        rng = rng_for("sweeps", key)
        places = np.sort(rng.choice(PLACES, rng.integers(3, 7), replace=False))
        middles = np.column_stack([places, rng.uniform(-3, 3, len(places)), np.zeros(len(places))])
        things = (middles[:, None] + rng.uniform(-0.4, 0.4, (len(places), 8, 3))).reshape(-1, 3)
        ground = rng.uniform((-40, -40, -1.8), (40, 40, -1.6), (BACKGROUND, 3))
        xyz = np.concatenate([ground, things])
        cloud = PointCloud(np.column_stack([xyz, rng.random(len(xyz))]).astype(np.float32))
        return Case(key, {"lidar": cloud, "region": ROAD}, (said(cloud.xyzi, ROAD),), group=key)

    def fingerprint(self) -> str:
        return digest_of("sweeps", self.count)


def said(xyzi: Array, region: Region) -> Boxes3D:
    """A box about every place of the region where at least three points stand; what it is depends on the place."""
    high = xyzi[xyzi[:, 2] > ABOVE]
    high = high[inside(region, high[:, :2])].astype(np.float64)
    number = np.rint((high[:, 0] - PLACES[0]) / 8).astype(int)
    found = [place for place in np.unique(number) if (number == place).sum() >= 3]
    rows = [[*high[number == place, :3].mean(axis=0), 1.5, 1.5, 1.5, 0.0] for place in found]
    kinds = tuple(KINDS[place % 3] for place in found)
    return Boxes3D(np.array(rows).reshape(-1, 7), kinds)


@dataclass(frozen=True)
class Sound:
    """Looks at the points of the region alone, so nothing outside can matter."""

    def __call__(self, cases: Sequence[Case]) -> list[Answer]:
        return [(self.says(case, said(points_of(case), region_of(case))),) for case in cases]

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        del case
        return boxes

    def fingerprint(self) -> str:
        return digest_of(type(self).__name__, repr(self))


@dataclass(frozen=True)
class Crowded(Sound):
    """Loses its first obstacle where the sweep has more than `most` points beyond what it began with."""

    most: int = 40

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        usual = BACKGROUND + 8 * len(boxes.kinds)
        return without(boxes, 0) if len(points_of(case)) > usual + self.most else boxes


@dataclass(frozen=True)
class Coupled(Sound):
    """Loses an obstacle, gives it another type or moves it, while a high point lies within `reach` metres of it outside."""

    reach: float = 6.0
    fault: str = "lost"

    def says(self, case: Case, boxes: Boxes3D) -> Boxes3D:
        row = self.victim(points_of(case), boxes)
        return boxes if row is None else {"lost": without, "type_changed": renamed, "moved": shifted}[self.fault](boxes, row)

    def victim(self, xyzi: Array, boxes: Boxes3D) -> int | None:
        high = xyzi[xyzi[:, 2] > ABOVE]
        near = high[~inside(ROAD, high[:, :2])][:, :2]
        gaps = np.hypot(*(boxes.xyzlwhy[:, None, :2] - near[None]).transpose(2, 0, 1))
        close = (gaps < self.reach).any(axis=1)
        return int(np.argmax(close)) if close.any() else None


def without(boxes: Boxes3D, row: int) -> Boxes3D:
    left = [place for place in range(len(boxes.kinds)) if place != row]
    return Boxes3D(boxes.xyzlwhy[left], tuple(boxes.kinds[place] for place in left))


def renamed(boxes: Boxes3D, row: int) -> Boxes3D:
    return Boxes3D(boxes.xyzlwhy, tuple("unknown" if place == row else kind for place, kind in enumerate(boxes.kinds)))


def shifted(boxes: Boxes3D, row: int) -> Boxes3D:
    """By 1.2 m: too far for any type, near enough to be the same obstacle."""
    rows = boxes.xyzlwhy.copy()
    rows[row, 0] += 1.2
    return Boxes3D(rows, boxes.kinds)


def region_of(case: Case) -> Region:
    region = case.inputs["region"]
    assert isinstance(region, Region)
    return region


def records(system: Sound, rules: Sequence[Rule], cases: int) -> list[Record]:
    ledger = MemoryLedger()
    run(Campaign(Sweeps(cases), system, tuple(rules), Sweep(per_case=1)), ledger)
    return [item for batch in ledger.batches for item in batch if isinstance(item, Record)]


# --- R58: nothing changed, nothing violated ----------------------------------------------------------------------------

IDLE: tuple[Transformation, ...] = (
    *(Unchanged(), AddPoints(0), AddPoints(50, 3, keep=()), PlacePoints(())),
    *(Fog(10_000), Rain(0, 0.1, 0.2), Snow(0), Yaw(0), Shift(), DropPoints(0), DropBeams(), DropSector(30, 0), Jitter(0)),
    Chain((MirrorScene(), MirrorScene())),
)


@pytest.mark.parametrize("expect", [Superset(), NoFewer(), NoFewer() & Superset(overlap=1.0, within=1e-6)], ids=repr)
def test_idle_changes_never_violate(expect: Relation) -> None:
    changes = (*IDLE, Chain(IDLE))
    rules = [Rule(f"{number}", change, expect) for number, change in enumerate(changes)]
    found = records(Coupled(), rules, -(-TRIALS // len(rules)))
    assert len(found) >= TRIALS
    assert {record.verdict.status for record in found} == {Status.HELD}


def test_lidar_turned_and_mirrored_is_answered_alike() -> None:
    """Equivariance that is exact by construction: mirrored points, mirrored boxes."""
    found = records(Sound(), [Rule("mirror", MirrorScene(), NoFewer() & Superset())], TRIALS // 10)
    assert {record.verdict.status for record in found} == {Status.HELD}


# --- R59: planted faults ---------------------------------------------------------------------------------------------------

SERIES = [Rule(f"n={n} near={near}", Over(AddPoints, n=n, near=near), Superset()) for n in (10, 100) for near in (None, 5.0)]  # type: ignore[arg-type]


def test_sound_system_is_never_blamed() -> None:
    found = records(Sound(), SERIES, TRIALS // 20)
    assert len(found) == 4 * (TRIALS // 20)
    assert {record.verdict.status for record in found} == {Status.HELD}
    assert all(record.facts["inside"] == 0 and record.facts["added"] in (10, 100) for record in found)


def test_too_many_points_are_found_to_hide_an_obstacle() -> None:
    """Every sweep of the long series violates, none of the short one does: recall 1, precision 1."""
    found = records(Crowded(most=40), SERIES, TRIALS // 20)
    for record in found:
        violated = record.verdict.status is Status.VIOLATED
        assert violated == (record.facts["added"] > 40), record.trial
        if violated:
            assert (record.facts["lost"], record.facts["vanished"]) == (1, 1)
            lost = record.before[0].kinds[0]  # type: ignore[attr-defined]
            assert record.facts[f"lost.{lost}"] == 1


@pytest.mark.parametrize("fault", ["lost", "type_changed", "moved"])
def test_fault_is_told_by_its_kind(fault: str) -> None:
    system = Coupled(fault=fault)
    source = Sweeps(TRIALS // 20)
    found = records(system, SERIES[2:], TRIALS // 20)
    planted = 0
    for record in found:
        assert record.change is not None
        case = source[record.trial.case]
        victim = system.victim(points_of(record.change(case)), said(points_of(case), ROAD))
        assert (record.verdict.status is Status.VIOLATED) == (victim is not None)
        counts = {name: record.facts[name] for name in ("lost", "type_changed", "moved", "gained")}
        assert counts == {**dict.fromkeys(counts, 0), fault: float(victim is not None)}
        planted += victim is not None
    assert planted > len(found) / 10


CAMPAIGN = """
seed = 7
[source]
use = "tests.quality.test_lidar_identity:Sweeps"
count = 5
[system]
use = "tests.quality.test_lidar_identity:Coupled"
[[rule]]
name = "points"
change = { use = "swerve.transformations.scatter:AddPoints", n = 100, near = 5.0 }
expect = { use = "superset" }
[search]
use = "sweep"
per_case = 1
"""


def test_one_point_is_found_to_be_enough(tmp_path: Path) -> None:
    """The whole way: a fault that one point sets off shrinks to that point, which replays and is proved to lie outside."""
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    folder = str(tmp_path / "run")
    assert main(["run", str(tmp_path / "campaign.toml"), "--into", folder, "--workers", "0", "--force"]) == 1
    assert main(["shrink", folder, "--all", "--workers", "0"]) == 0
    findings = list(Run(tmp_path / "run").findings())
    assert len(findings) >= 3
    for finding in findings:
        made = shrunk_of(Run(tmp_path / "run"), finding.id)
        assert made is not None
        assert made.edges == ()
        assert (made.finding.facts["added"], made.finding.facts["inside"], made.finding.facts["lost"]) == (1, 0, 1)
        assert 0 < made.finding.facts["nearest_border"] <= 5
        case = Sweeps(5)[finding.case]
        point = points_of(build_change(made.finding.change, OWN)(case))[-1:]
        assert Coupled().victim(point, said(points_of(case), ROAD)) is not None
    assert main(["replay", folder, findings[0].id, "--shrunk"]) == 0


def test_fewest_of_a_crowd_are_as_many_as_it_takes() -> None:
    case = Sweeps(1)["sweep-0"]
    usual = len(points_of(case))
    found = shrunk(AddPoints(100, 5), lambda change: len(points_of(change(case))) > usual + 40)
    assert isinstance(found.change, AddPoints)
    assert len(found.change.parts()) == 41
