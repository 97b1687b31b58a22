from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.train.loop import save_weights
from swerve.zoo.clusters import KINDS, Cells, obstacles
from swerve.zoo.grid import CHANNELS, FILLED, Grid
from swerve.zoo.lidar_learn import (
    BELOW,
    BESIDE,
    EMPTY,
    IGNORED,
    RARE,
    Labelled,
    LidarRecipe,
    Pieces,
    Target,
    learn_lidar,
    loss,
    owners,
    target,
    varied,
)
from swerve.zoo.lidar_network import HEADS, OUTPUTS, BirdNet

pytestmark = pytest.mark.usefixtures("one_thread")

GRID = Grid(cells=16, reach=8.0)  # cells of 1 m
CAR = (2.0, 1.0, -0.9, 4.0, 1.8, 1.6, 0.3)
SOMEONE = (-3.0, -4.0, -0.85, 0.6, 0.6, 1.7, 0.0)
SIZES = ((4.0, 1.8, 1.5), (0.6, 0.6, 1.7), (1.7, 0.6, 1.7), (0.8, 0.8, 0.8))
QUICK = LidarRecipe(passes=3, whole=4, batch=4, cells=64, width=8, side=32)


def within(box: tuple[float, ...] | np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points in a box, none near its borders."""
    x, y, z, length, width, height, yaw = box
    along, across, up = (rng.uniform(-0.45, 0.45, (count, 3)) * [length, width, height - 0.6]).T
    east, north = along * np.cos(yaw) - across * np.sin(yaw), along * np.sin(yaw) + across * np.cos(yaw)
    return np.column_stack([x + east, y + north, z + 0.2 + up, np.full(count, 0.5)]).astype(np.float32)


def made_up(seed: int, reach: float = 8.0, everybody: int = 5) -> Labelled:
    """A flat road with somebody of every kind on it, here and there."""
    rng = np.random.default_rng(seed)
    road = rng.uniform([-reach, -reach, -1.75, 0.1], [reach, reach, -1.7, 0.2], (1500, 4)).astype(np.float32)
    kinds = np.arange(everybody) % len(KINDS)
    rows = [[*rng.uniform(-0.8 * reach, 0.8 * reach, 2), SIZES[kind][2] / 2 - 1.73, *SIZES[kind], 0.0] for kind in kinds]
    boxes = np.array(rows).reshape(-1, 7)
    boxes[:, 6] = rng.uniform(-np.pi, np.pi, everybody)
    return Labelled.of(np.concatenate([road, *(within(box, 40, rng) for box in boxes)]), boxes, kinds)


def scene(*boxes: tuple[float, ...], kinds: tuple[int, ...], points: int = 60) -> Labelled:
    rng = np.random.default_rng(1)
    rows = np.array(boxes)
    return Labelled.of(np.concatenate([within(box, points, rng) for box in rows]), rows, np.array(kinds))


@pytest.mark.parametrize(
    ("along", "across", "up", "whose"),
    [
        (0.0, 0.0, 0.0, 0),
        (2.0 + BESIDE - 0.01, 0.0, 0.0, 0),
        (2.0 + BESIDE + 0.01, 0.0, 0.0, -1),
        (0.0, 0.9 + BESIDE - 0.01, 0.0, 0),
        (0.0, -0.9 - BESIDE - 0.01, 0.0, -1),
        (0.0, 0.0, 0.8 + BESIDE + 0.01, -1),
        (0.0, 0.0, -0.8 + BELOW + 0.01, 0),
        (0.0, 0.0, -0.8 + BELOW - 0.01, -1),  # the road under it
    ],
)
def test_points_belong_to_the_box_around_them(along: float, across: float, up: float, whose: int) -> None:
    x, y, z, *_, yaw = CAR
    point = [x + along * np.cos(yaw) - across * np.sin(yaw), y + along * np.sin(yaw) + across * np.cos(yaw), z + up, 0.5]
    assert owners(np.array([point]), np.array([CAR])).tolist() == [whose]


def test_smaller_box_owns_what_both_hold() -> None:
    rider = (2.0, 1.0, -0.9, 0.6, 0.6, 1.6, 0.0)
    point = np.array([[2.0, 1.0, -0.9, 0.5]])
    assert owners(point, np.array([CAR, rider])).tolist() == [1]
    assert owners(point, np.array([rider, CAR])).tolist() == [0]


def test_nobody_owns_points_without_boxes() -> None:
    assert owners(np.zeros((4, 4)), np.zeros((0, 7))).tolist() == [-1] * 4


def test_cell_points_to_the_middle() -> None:
    wanted = target(scene(CAR, kinds=(0,)), GRID)
    rows, columns = np.nonzero(wanted.kind >= 0)
    assert len(rows) > 4
    middle = GRID.centres[:, rows, columns] + wanted.offset[:, rows, columns]
    assert middle == pytest.approx(np.tile([[2.0], [1.0]], len(rows)), abs=1e-5)
    assert np.arctan2(*wanted.heading[::-1, rows, columns]) / 2 == pytest.approx(np.full(len(rows), 0.3))
    assert wanted.height[rows, columns] == pytest.approx(np.full(len(rows), -0.1))


def test_cells_without_anybody_say_so() -> None:
    given = scene(CAR, SOMEONE, kinds=(0, 1))
    wanted = target(given, GRID)
    empty = np.setdiff1d(np.arange(256), GRID.cell_of(given.xyzi))
    assert (wanted.kind.ravel()[empty] == EMPTY).all()
    assert {int(kind) for kind in np.unique(wanted.kind)} == {EMPTY, 0, 1}


def test_hardly_seen_are_ignored() -> None:
    wanted = target(scene(CAR, kinds=(2,), points=2), GRID)
    assert {int(kind) for kind in np.unique(wanted.kind)} == {EMPTY, IGNORED}


def test_highest_point_decides_a_cell() -> None:
    low, high = (0.5, 0.5, -1.0, 0.9, 0.9, 1.0, 0.0), (0.5, 0.5, 0.5, 0.8, 0.8, 1.0, 0.0)
    assert target(scene(low, high, kinds=(3, 1)), GRID).kind[8, 8] == 1


def test_small_and_rare_weigh_more() -> None:
    wanted = target(scene(CAR, SOMEONE, kinds=(0, 1)), GRID)
    car, someone = wanted.weight[wanted.kind == 0], wanted.weight[wanted.kind == 1]
    assert someone.min() > car.max()
    assert (wanted.weight > 0).all()
    assert len(RARE) == len(KINDS)


def test_targets_give_the_obstacles_back() -> None:
    """What cells should say, said, is everybody: the stages after the network lose nobody and make up nobody."""
    given = scene(CAR, SOMEONE, (-2.0, 5.0, -0.9, 1.7, 0.6, 1.7, 1.0), kinds=(0, 1, 2))
    wanted = target(given, GRID)
    kind = np.stack([wanted.kind == number for number in range(4)]).astype(float)
    cells = Cells((wanted.kind >= 0) * 1.0, wanted.offset, np.ones((16, 16)), kind, wanted.heading, wanted.height)
    found = obstacles(cells, given.xyzi, np.ones(len(given.xyzi), bool), GRID)
    assert sorted(found.kinds) == ["car", "cyclist", "pedestrian"]
    order = [found.kinds.index(KINDS[kind]) for kind in given.kinds]
    assert found.xyzlwhy[order, :2] == pytest.approx(given.boxes[:, :2], abs=0.4)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_variations_take_boxes_with_their_points(seed: int) -> None:
    before = made_up(seed % 100)
    after = varied(before, np.random.default_rng(seed))
    again = owners(after.xyzi, after.boxes)
    assert (again[after.owner >= 0] == after.owner[after.owner >= 0]).mean() > 0.9  # whose boxes meet may change hands
    assert 0.85 < len(after.xyzi) / len(before.xyzi) <= 1
    apart = np.hypot(*(before.boxes[0, :2] - before.boxes[1, :2]))
    assert np.hypot(*(after.boxes[0, :2] - after.boxes[1, :2])) == pytest.approx(apart)
    assert after.boxes[:, 2:6] == pytest.approx(before.boxes[:, 2:6])
    assert np.array_equal(before.boxes, made_up(seed % 100).boxes)  # the source is left alone


def test_half_of_the_variations_are_mirrored() -> None:
    given = scene(CAR, kinds=(0,))
    rng = np.random.default_rng(0)
    sides = [np.sign(varied(given, rng).boxes[0, 6] - 0.0) for _ in range(200)]
    assert 60 < sides.count(-1.0) < 140


def test_piece_knows_its_place() -> None:
    """Direction and distance are those of the cells in the sweep, not in the piece."""
    pieces = Pieces([made_up(1)], GRID, np.random.default_rng(0), side=8)
    maps, wanted = pieces.batch(np.array([0, 0, 0]))
    assert maps.shape == (3, 8, 8, 8)
    assert wanted.offset.shape == (3, 2, 8, 8)
    place = [CHANNELS.index(name) for name in ("direction", "distance")]
    whole = GRID.features(np.zeros((0, 4), np.float32))[place]
    for piece in maps.numpy()[:, place]:
        found = [
            (row, column)
            for row in range(9)
            for column in range(9)
            if np.array_equal(piece, whole[:, row : row + 8, column : column + 8])
        ]
        assert len(found) == 1


def test_whole_sweeps_are_whole() -> None:
    maps, wanted = Pieces([made_up(1), made_up(2)], GRID, np.random.default_rng(0)).batch(np.array([1, 0]))
    assert maps.shape == (2, 8, 16, 16)
    assert wanted.kind.shape == (2, 16, 16)


@pytest.mark.parametrize("everybody", [0, 5])
def test_pieces_lie_in_the_grid(everybody: int) -> None:
    pieces = Pieces([made_up(4, everybody=everybody)], GRID, np.random.default_rng(0), side=8)
    for _ in range(30):
        assert pieces.batch(np.array([0]))[0].shape == (1, 8, 8, 8)


def asked(given: Labelled) -> tuple[torch.Tensor, Target]:
    wanted = target(given, GRID)
    stacked = Target(*(getattr(wanted, name)[None] for name in Target.__dataclass_fields__))
    return torch.from_numpy(GRID.features(given.xyzi))[None], stacked


def perfect(wanted: Target) -> torch.Tensor:
    """What a network would say that knows everything."""
    said = torch.zeros(1, OUTPUTS, 16, 16)
    held = torch.from_numpy(wanted.kind >= 0)[:, None]
    said[:, HEADS["category"]] = torch.where(held, 20.0, -20.0)
    said[:, HEADS["confidence"]] = torch.where(held, 20.0, -20.0)
    for name in ("offset", "heading"):
        said[:, HEADS[name]] = torch.from_numpy(getattr(wanted, name))
    said[:, HEADS["height"]] = torch.from_numpy(wanted.height)[:, None]
    for number in range(4):
        said[:, HEADS["kind"].start + number] = torch.from_numpy(20.0 * (wanted.kind == number))
    return said


def test_perfect_answers_cost_nothing() -> None:
    maps, wanted = asked(made_up(3))
    assert loss(perfect(wanted), maps, wanted).item() < 1e-4


@pytest.mark.parametrize("name", HEADS)
def test_every_head_is_asked(name: str) -> None:
    maps, wanted = asked(made_up(3))
    said = perfect(wanted)
    said[:, HEADS[name]] *= -1
    assert loss(said, maps, wanted).item() > 0.02


def test_empty_and_ignored_cells_are_not_asked() -> None:
    maps, wanted = asked(made_up(3))
    ignored = np.argwhere(wanted.kind[0] >= 0)[0]
    kind = wanted.kind.copy()
    kind[0, ignored[0], ignored[1]] = IGNORED
    said = perfect(replace(wanted, kind=kind))
    before = loss(said, maps, replace(wanted, kind=kind)).item()
    said[0, 0][maps[0, FILLED] == 0] = 50.0
    said[0, :, ignored[0], ignored[1]] = 50.0
    assert loss(said, maps, replace(wanted, kind=kind)).item() == pytest.approx(before)


def test_sweep_without_anybody_can_be_learnt() -> None:
    maps, wanted = asked(made_up(3, everybody=0))
    said = torch.zeros(1, OUTPUTS, 16, 16, requires_grad=True)
    found = loss(said, maps, wanted)
    found.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(found)
    assert said.grad is not None
    assert torch.isfinite(said.grad).all()


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_loss_goes_down(norm: str) -> None:
    """Seconds on made-up sweeps: unseen ones cost less than half of what they cost a network that has learnt nothing."""
    sweeps, aside = ([made_up(seed, 60.0, 40) for seed in seeds] for seeds in (range(20), range(100, 104)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        ignorant = BirdNet(norm, QUICK.width)
    net = learn_lidar(norm, sweeps, aside, recipe=replace(QUICK, passes=8, rate=1e-2), seed=1)
    assert cost(net, aside) < 0.5 * cost(ignorant, aside)


def cost(net: torch.nn.Module, sweeps: list[Labelled]) -> float:
    grid = Grid(QUICK.cells)
    total = 0.0
    for one in sweeps:
        wanted = target(one, grid)
        stacked = Target(*(getattr(wanted, name)[None] for name in Target.__dataclass_fields__))
        maps = torch.from_numpy(grid.features(one.xyzi))[None]
        with torch.inference_mode():
            total += float(loss(net.eval()(maps), maps, stacked))
    return total


def test_same_seed_same_bytes(tmp_path) -> None:
    sweeps = [made_up(seed, 60.0, 12) for seed in range(4)]
    recipe = replace(QUICK, passes=1)
    before = torch.get_rng_state()
    for number, seed in enumerate((7, 7, 8)):
        save_weights(learn_lidar("batch", sweeps, sweeps[:1], recipe=recipe, seed=seed), tmp_path / f"{number}")
    first, again, other = ((tmp_path / f"{number}").read_bytes() for number in range(3))
    assert first == again != other
    assert torch.equal(before, torch.get_rng_state())
