"""How far one added point reaches, on networks whose field is known to the cell."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from swerve.core.case import Case
from swerve.core.region import inside
from swerve.core.values import Boxes3D, PointCloud, Region
from swerve.experiments.lidar.reach import farthest_effects, single_points
from swerve.experiments.lidar.subject_runs import LidarRuns
from swerve.experiments.results import Results
from swerve.experiments.setting import QUICK, Setting
from swerve.experiments.subjects import Subject
from swerve.train.loop import save_weights
from swerve.zoo.grid import CHANNELS, FILLED, Grid
from swerve.zoo.lidar import Lidar
from swerve.zoo.lidar_network import HEADS, OUTPUTS, BirdNet
from swerve.zoo.receptive_field import PLACES, REACHES, Reach, places, with_point
from swerve.zoo.receptive_field import reaches as reaches_of
from tests.quality.test_lidar_identity import Sound, Sweeps

CELL = Grid(32).metres
ROAD = Region((np.array([[-20.0, -30], [20, -30], [20, -10], [-20, -10]]),))
HOLE = (17, 20)  # the only empty cell within reach of a draw


def known() -> nn.Module:
    """Objectness changes by half one cell away, by 0.025 two away, by a trace two down and two across; height three away."""
    net = nn.Conv2d(len(CHANNELS), OUTPUTS, 7, padding=3)
    with torch.no_grad():
        net.weight.zero_()
        assert net.bias is not None
        net.bias.zero_()
        category, height = HEADS["category"].start, HEADS["height"].start
        net.bias[category] = -4.0
        for (down, across), weight in {(0, 1): 4.0, (0, 2): 0.1, (2, 2): 1e-3}.items():
            net.weight[category, FILLED, 3 + down, 3 + across] = weight
        net.weight[height, FILLED, 3, 0] = 1.0
    return net


def tiny(path: Path, *, roi_first: bool = False) -> Lidar:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_weights(BirdNet("none", 4), path)
    return Lidar(path, roi_first=roi_first, cells=32, width=4)


def full() -> Case:
    """A point in every cell but one."""
    middles = Grid(32).centres.reshape(2, -1).T
    kept = np.delete(middles, HOLE[0] * 32 + HOLE[1], axis=0)
    xyzi = np.column_stack([kept, np.full(len(kept), -1.0), np.full(len(kept), 0.2)])
    return Case("full", {"lidar": PointCloud(xyzi.astype(np.float32)), "region": ROAD})


class One:
    """A source of one case."""

    def keys(self) -> list[str]:
        return ["full"]

    def __getitem__(self, key: str) -> Case:
        return full()

    def fingerprint(self) -> str:
        return "one"


def none() -> Boxes3D:
    return Boxes3D(np.zeros((0, 7)), ())


def reaches(system: Lidar, source: One, seed: int) -> list[Reach]:
    """In every case of a source, in all of which nothing was said."""
    return [reach for key in source.keys() for reach in reaches_of(system, source[key], none(), seed)]


def answered(system: object, source: object, into: Path) -> LidarRuns:
    """With a baseline of the source's cases, in all of which nothing was said."""
    told = LidarRuns(Subject("tiny", system, source), Setting(into, QUICK))  # type: ignore[arg-type]
    seen = [SimpleNamespace(case=key, answer=(none(),), fault="") for key in source.keys()]  # type: ignore[attr-defined]
    vars(told)["baseline"] = seen
    return told


def test_reach_is_known_to_the_cell(tmp_path: Path) -> None:
    system = tiny(tmp_path / "tiny.safetensors")
    vars(system)["net"] = known()
    (one,) = reaches(system, One(), seed=0)
    assert (one.x, one.y) == tuple(Grid(32).centres[:, HOLE[0], HOLE[1]])
    assert one.metres == pytest.approx((3 * CELL, np.hypot(2, 2) * CELL, 2 * CELL, CELL))


def test_cells_without_points_do_not_count(tmp_path: Path) -> None:
    """Their objectness is never looked at: with the neighbour empty as well, one point moves nothing by a tenth."""
    system = tiny(tmp_path / "tiny.safetensors")
    vars(system)["net"] = known()
    case = full()
    x, y = Grid(32).centres[:, HOLE[0], HOLE[1] - 1]
    cloud = case.inputs["lidar"]
    assert isinstance(cloud, PointCloud)
    kept = ~((cloud.xyzi[:, 0] == np.float32(x)) & (cloud.xyzi[:, 1] == np.float32(y)))

    class Two(One):
        def __getitem__(self, key: str) -> Case:
            return Case(key, {"lidar": PointCloud(cloud.xyzi[kept]), "region": ROAD})

    found = {(one.x, one.y): one.metres for one in reaches(system, Two(), seed=0)}
    assert len(found) == 2
    hole = Grid(32).centres[:, HOLE[0], HOLE[1]]
    assert found[float(hole[0]), float(hole[1])][3] is None


def test_region_first_hears_nothing(tmp_path: Path) -> None:
    (one,) = reaches(tiny(tmp_path / "tiny.safetensors", roi_first=True), One(), seed=0)
    assert one.metres == (None,) * len(REACHES)


def test_other_systems_are_left_out(tmp_path: Path) -> None:
    results = Results(Setting(tmp_path, QUICK), [answered(Sound(), Sweeps(1), tmp_path)])
    assert not single_points.rows(results)
    assert (*single_points(results), *farthest_effects(results)) == ()
    assert not (tmp_path / "tables").exists()


def test_places_lie_outside_beside_obstacles_in_empty_cells(tmp_path: Path) -> None:
    system = Lidar(tiny(tmp_path / "tiny.safetensors").weights, cells=320, width=4)
    case = Sweeps(1)["sweep-0"]
    region, cloud = case.inputs["region"], case.inputs["lidar"]
    assert isinstance(region, Region)
    assert isinstance(cloud, PointCloud)
    car = Boxes3D(np.array([[10.0, 5.0, 0.0, 4.0, 2.0, 1.5, 0.0]]), ("car",))
    chosen = np.array(places(system, case, car, seed=0))
    assert chosen.shape == (PLACES, 2)
    assert not inside(region, chosen).any()
    assert (np.hypot(*(chosen - [10, 5]).T) < 4).all()
    filled = set(system.grid.cell_of(cloud.xyzi).tolist())
    assert not filled & set(system.grid.cell_of(np.column_stack([chosen, np.zeros(PLACES)])).tolist())
    assert places(system, case, car, seed=0) == [tuple(row) for row in chosen.tolist()]
    assert places(system, case, car, seed=1) != places(system, case, car, seed=0)


def test_one_point_is_added() -> None:
    case = full()
    added, cloud = with_point(case, 1.0, 2.0).inputs["lidar"], case.inputs["lidar"]
    assert isinstance(added, PointCloud)
    assert isinstance(cloud, PointCloud)
    assert added.xyzi[:-1].tobytes() == cloud.xyzi.tobytes()
    assert added.xyzi[-1, :2].tolist() == [1.0, 2.0]


def test_sheet_tells_the_farthest(tmp_path: Path) -> None:
    system = tiny(tmp_path / "tiny.safetensors")
    vars(system)["net"] = known()
    tested = [answered(system, One(), tmp_path), answered(Sound(), Sweeps(1), tmp_path)]
    results = Results(Setting(tmp_path, QUICK), tested)
    (sheet,) = (*single_points(results), *farthest_effects(results))
    assert [row[:2] for row in sheet.rows] == [("tiny", 1)]
    assert f"tiny: {CELL:.1f} m, any output: {3 * CELL:.1f} m" in sheet.note
    assert "Farthest change of objectness by 0.1: tiny" in sheet.note
    assert "Losses may occur farther away" in sheet.note
    lines = (tmp_path / "tables" / "field.csv").read_text().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("tiny,full,")
    assert sheet.rows[0][2:] == reaches(system, One(), seed=0)[0].metres  # there is but one
