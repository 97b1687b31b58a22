from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.region import outside
from swerve.core.system import System, WhiteBox
from swerve.core.values import Boxes3D, Image, PointCloud, Region
from swerve.coverage.layers import layout_of
from swerve.testing import SystemContract
from swerve.train.loop import save_weights
from swerve.zoo.grid import Grid
from swerve.zoo.lidar import LIDAR, Lidar, LidarGlobal, lidar_named
from swerve.zoo.lidar_network import HEADS, OUTPUTS, BirdNet, decode_cells
from swerve.zoo.networks import folded

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = tuple(LIDAR)
CELLS = 64  # of 1.9 m: quick, and the untrained see obstacles anywhere
ROAD = Region((np.array([[-40.0, -6], [40, -6], [40, 6], [-40, 6]]),))


@dataclass(frozen=True)
class Small:
    """Systems with first weights on a coarse grid, shifted until they say of half the cells that somebody is there."""

    folder: Path

    def __call__(self, name: str, *, roi_first: bool = False, seed: int = 5) -> Lidar:
        file = self.folder / f"{name}-{seed}.safetensors"
        if not file.exists():
            save_weights(self._net(LIDAR[name].norm, seed), file)
        return LIDAR[name](file, roi_first=roi_first, cells=CELLS, width=8)

    def _net(self, norm: str, seed: int) -> BirdNet:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = BirdNet("none" if norm == "batch" else norm, width=8)
        points = cloud()
        maps = torch.from_numpy(Grid(CELLS).features(points[np.abs(points[:, 1]) < 6]))[None]
        with torch.no_grad():
            net.head.weight[:3] *= 30  # the first answers of category and offset are all alike
            assert net.head.bias is not None
            net.head.bias[HEADS["confidence"]] = 4.0
            net.head.bias[HEADS["height"]] = 5.0
            net.head.bias[0] -= net(maps)[0, 0][maps[0, 7] > 0].median()
        return net


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Small:
    return Small(tmp_path_factory.mktemp("weights"))


def cloud(seed: int = 0, count: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.uniform([-70, -40, -2, 0], [70, 40, 2, 1], (count, 4)).astype(np.float32)


def case(points: np.ndarray, region: Region | None = ROAD, key: str = "one") -> Case:
    inputs = {"lidar": PointCloud(points)} | ({"region": region} if region else {})
    return Case(key, inputs)


def boxes(system: System, *cases: Case) -> list[Boxes3D]:
    answers = [answer[0] for answer in system(cases)]
    assert all(isinstance(answer, Boxes3D) for answer in answers)
    return answers  # type: ignore[return-value]


def middles_inside(found: Boxes3D) -> bool:
    return bool((np.abs(found.xyzlwhy[:, 0]) <= 40.5).all() and (np.abs(found.xyzlwhy[:, 1]) <= 6.5).all())


@pytest.mark.parametrize("name", NAMES)
class TestStages:
    def test_some_obstacles_come_out(self, small, name):
        """The other tests would hold of a system that says nothing."""
        found = boxes(small(name), case(cloud()))[0]
        assert len(found.kinds) >= 3
        assert found.fault() is None

    def test_obstacles_lie_in_the_region(self, small, name):
        assert middles_inside(boxes(small(name), case(cloud()))[0])

    def test_no_region_is_everywhere(self, small, name):
        bare, whole = boxes(small(name), case(cloud(), None), case(cloud(), square(60)))
        assert bare == whole
        assert not middles_inside(bare)

    def test_region_that_holds_nothing(self, small, name):
        assert boxes(small(name), case(cloud(), Region(())))[0].kinds == ()

    @pytest.mark.parametrize("roi_first", [False, True])
    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_few_points_are_no_obstacle(self, small, name, roi_first, count):
        points = np.array([[5.0, 0, 0, 0.5], [5.1, 0.1, 0.2, 0.4]], np.float32)[:count]
        assert boxes(small(name, roi_first=roi_first), case(points))[0].kinds == ()

    def test_far_points_change_nothing(self, small, name):
        """Beyond 60 m, or 5 m above and below, they are dropped (D-29)."""
        far = np.array([[61, 0, 0, 1], [0, -60.5, 0, 1], [5, 0, 5.2, 1], [5, 0, -5.2, 1]], np.float32)
        before, after = boxes(small(name), case(cloud()), case(np.concatenate([cloud(), far])))
        assert before == after

    def test_all_points_outside(self, small, name):
        points = cloud()
        points[:, 1] = 7 + np.abs(points[:, 1])
        assert boxes(small(name), case(points))[0].kinds == ()

    def test_same_question_same_answer(self, small, name):
        first, again = (boxes(small(name), case(cloud(3)))[0] for _ in range(2))
        assert first == again

    def test_batch_changes_nothing(self, small, name):
        cases = [case(cloud(seed, 1000 * (1 + seed)), key=str(seed)) for seed in range(4)]
        together = boxes(small(name), *cases)
        assert together == [boxes(small(name), alone)[0] for alone in cases]
        assert together == boxes(small(name), *cases[::-1])[::-1]

    def test_system_is_white_box(self, small, name):
        assert isinstance(small(name), WhiteBox)

    def test_trace_answers_like_call(self, small, name):
        system, cases = small(name), [case(cloud(seed), key=str(seed)) for seed in range(3)]
        traced = system.trace(cases, system.layers())
        assert [answer[0] for answer in traced.answers] == boxes(system, *cases)
        assert {len(part.mean) for part in traced.layers.values()} == {3}
        assert not any(module._forward_hooks for module in system.net.modules())

    def test_trace_of_nothing(self, small, name):
        assert small(name).trace([], small(name).layers()).answers == []
        assert small(name)([]) == []

    def test_neurons_can_be_counted(self, small, name):
        assert layout_of(small(name), case(cloud())).neurons > 100


def square(half: float) -> Region:
    return Region((np.array([[-half, -half], [half, -half], [half, half], [-half, half]]),))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2000), st.sampled_from(NAMES))
def test_points_outside_cannot_matter_when_region_comes_first(small, seed, count, name):
    """The safe twin, bit for bit: whatever is added outside, the answer is the same (D-29)."""
    rng = np.random.default_rng(seed)
    added = rng.uniform([-80, -80, -8, 0], [80, 80, 8, 1], (count, 4)).astype(np.float32)
    added = added[outside(ROAD, added[:, :2])]
    system = small(name, roi_first=True)
    before, after = boxes(system, case(cloud()), case(np.concatenate([cloud(), added])))
    assert len(before.kinds) > 0
    assert before == after


def test_points_outside_matter_by_default(small):
    """The planted fault: with the whole sweep before the network, many points outside do change answers."""
    rng = np.random.default_rng(1)
    added = rng.uniform([-40, 6.5, -2, 0], [40, 20, 2, 1], (3000, 4)).astype(np.float32)
    for name in NAMES:
        before, after = boxes(small(name), case(cloud()), case(np.concatenate([cloud(), added])))
        assert before != after


def test_far_points_reach_every_cell_only_globally(small):
    """One heap of points at a corner: with group normalisation the farthest cell answers otherwise, without it not."""
    heap = np.full((500, 4), [-59.0, -59.0, 2.0, 1.0], np.float32)
    for name, changes in (("lidar", False), ("lidar-global", True)):
        system = small(name)
        maps = [system.swept(case(points)).maps for points in (cloud(), np.concatenate([cloud(), heap]))]
        with torch.inference_mode():
            before, after = (system.net(shown[None])[0, :, -1, -1] for shown in maps)
        assert torch.equal(before, after) != changes


def test_fingerprint_knows_what_decides(small):
    first = small("lidar")
    others = [small("lidar", roi_first=True), small("lidar", seed=6), small("lidar-global")]
    prints = {system.fingerprint() for system in (first, *others)}
    assert len(prints) == 4
    assert small("lidar").fingerprint() == first.fingerprint()


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({}, "got only nothing"),
        ({"camera": Image(np.zeros((4, 4, 3), np.uint8))}, "got only camera"),
        ({"lidar": Image(np.zeros((4, 4, 3), np.uint8))}, "got a Image"),
    ],
)
def test_case_without_a_sweep_is_refused(small, inputs, told):
    with pytest.raises(InputError, match=f"^bad: this system reads a point cloud named 'lidar', {told}$"):
        small("lidar")([Case("bad", inputs)])


def test_region_of_another_kind_is_refused(small):
    inputs = {"lidar": PointCloud(cloud()), "region": PointCloud(cloud())}
    with pytest.raises(InputError, match=r"^bad: 'region' must be a Region, got a PointCloud$"):
        small("lidar")([Case("bad", inputs)])


def test_broken_points_are_dropped(small):
    broken = np.array([[np.nan, 0, 0, 0], [0, np.inf, 0, 0], [5, 0, -np.inf, 0], [5, 0, 0, np.nan]], np.float32)
    before, after = boxes(small("lidar"), case(cloud()), case(np.concatenate([cloud(), broken[:3]])))
    assert before == after
    assert boxes(small("lidar"), case(np.concatenate([cloud(), broken])))[0].fault() is None


@pytest.mark.parametrize("cells", [0, 8, 100])
def test_grid_must_halve_four_times(tmp_path, cells):
    with pytest.raises(InputError, match=f"lidar: cells must be a multiple of 16, got {cells}"):
        Lidar(tmp_path / "none.safetensors", cells=cells)


def test_weights_of_another_width_are_refused(small):
    file = small("lidar").weights
    with pytest.raises(InputError, match="not the weights of BirdNet"):
        Lidar(file, width=16)
    with pytest.raises(InputError, match="not the weights of BirdNet"):
        LidarGlobal(file, width=8)


def test_unknown_system_is_refused():
    with pytest.raises(InputError, match="unknown LiDAR system 'lidr'; did you mean 'lidar'"):
        lidar_named("lidr")


def test_unknown_norm_is_refused():
    with pytest.raises(InputError, match="unknown norm 'bach'; did you mean 'batch'"):
        BirdNet("bach")


def test_heads_cover_every_output():
    covered = [number for part in HEADS.values() for number in range(part.start, part.stop)]
    assert covered == list(range(OUTPUTS)) == list(range(11))


def test_empty_cells_hold_nobody():
    row, maps = torch.full((OUTPUTS, 16, 16), 9.0), torch.zeros(8, 16, 16)
    maps[7, 2, 3] = 1.0
    told = decode_cells(row, maps)
    assert np.flatnonzero(told.category).tolist() == [2 * 16 + 3]
    assert told.category[2, 3] == pytest.approx(1 / (1 + np.exp(-9)))
    assert told.kind.sum(axis=0) == pytest.approx(np.ones((16, 16)))


def test_folded_network_answers_as_trained():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net, maps = BirdNet("batch", width=8), torch.rand(2, 8, 32, 32)
        net.train()
        net(maps)  # so that there is something to fold
        net.eval()
        with torch.inference_mode():
            before = net(maps)
            after = folded(net)(maps)
    assert torch.allclose(before, after, atol=1e-4)
    assert net.state_dict().keys() == BirdNet("none", width=8).state_dict().keys()


@pytest.mark.parametrize("cells", [32, 48])
def test_any_grid_of_sixteens_passes(cells):
    maps = torch.from_numpy(Grid(cells).features(cloud()))[None]
    with torch.inference_mode():
        assert BirdNet(width=8).eval()(maps).shape == (1, OUTPUTS, cells, cells)


class TestSmallLidar(SystemContract):
    @pytest.fixture(autouse=True)
    def _small(self, small: Small) -> None:
        self.small = small

    def system(self) -> System:
        return self.small("lidar-global")

    def cases(self) -> list[Case]:
        return [case(cloud(seed), key=str(seed)) for seed in range(3)]
