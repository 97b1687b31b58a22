"""How the LiDAR networks are trained: labelled sweeps, their augmentation, the target of each cell, and the loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from swerve.core.seeding import rng_for
from swerve.core.values import Array
from swerve.execution.engine import Progress
from swerve.train.loop import Checkpoint, Recipe, Task, fit, shuffled
from swerve.zoo.grid import FILLED, Grid
from swerve.zoo.lidar_network import HEADS, BirdNet
from swerve.zoo.networks import folded

EMPTY, IGNORED = -1, -2  # in place of a kind
FEWEST = 3  # a box with fewer points is left out of the loss
BELOW = 0.12  # metres at the foot of a box whose points belong to the road
BESIDE = 0.1  # metres around a box that still belong to it: ranges are noisy
YAW = np.radians(10)
JITTER = 0.01  # metres
DROPPED = 0.1  # largest share of the points
RARE = (1.0, 2.0, 2.5, 2.5)  # weight of each of `KINDS` in the loss, and in the choice of pieces
PATIENCE = 6  # passes without a better validation error that end the training
ALIKE = 0.75  # metres of offset error at which the wanted confidence is 1/e


@dataclass(frozen=True, eq=False)
class Labelled:
    """A sweep and its obstacles: points n x 4, boxes m x 7, and the number of each box's kind in `KINDS`."""

    xyzi: Array
    owner: Array  # the number of the box that each point lies in, -1 for none
    boxes: Array
    kinds: Array

    @classmethod
    def of(cls, xyzi: Array, boxes: Array, kinds: Array) -> Labelled:
        """A sweep whose points are assigned to the boxes, all in the sensor's frame."""
        return cls(xyzi, owners(xyzi, boxes), boxes, kinds)


@dataclass(frozen=True, eq=False)
class Target:
    """The wanted output of each cell, rows x columns; `kind` is `EMPTY` or `IGNORED` where there is no obstacle to learn."""

    kind: Array
    offset: Array
    heading: Array
    height: Array
    weight: Array

    def cut(self, rows: slice, columns: slice) -> Target:
        """The same for a part of the cells."""
        return Target(*(getattr(self, name)[..., rows, columns] for name in self.__dataclass_fields__))


def owners(xyz: Array, boxes: Array) -> Array:
    """The number of the box that each point lies in, -1 for none; where boxes meet, that of the smaller one."""
    found = np.full(len(xyz), -1)
    for number in np.argsort(-boxes[:, 3] * boxes[:, 4], kind="stable"):
        x, y, z, length, width, height, yaw = boxes[number]
        near = np.flatnonzero(np.abs(xyz[:, :2] - [x, y]).max(axis=1) <= np.hypot(length, width) / 2 + BESIDE)
        east, north, up = (xyz[near, :3] - [x, y, z]).T
        along, across = east * np.cos(yaw) + north * np.sin(yaw), north * np.cos(yaw) - east * np.sin(yaw)
        within = (np.abs(along) <= length / 2 + BESIDE) & (np.abs(across) <= width / 2 + BESIDE)
        within &= (up >= BELOW - height / 2) & (up <= height / 2 + BESIDE)
        found[near[within]] = number
    return found


def target(sweep: Labelled, grid: Grid) -> Target:
    """The wanted output of each cell: the box of its highest point among those that lie in a box."""
    rows = np.flatnonzero(sweep.owner >= 0)
    rows = rows[np.argsort(sweep.xyzi[rows, 2], kind="stable")]
    cell, owner = grid.cell_of(sweep.xyzi[rows]), sweep.owner[rows]
    whose = np.full(grid.cells**2, -1)
    whose[cell[cell >= 0]] = owner[cell >= 0]
    return _target(sweep, whose.reshape(grid.cells, grid.cells), np.bincount(owner, minlength=len(sweep.boxes)), grid)


def _target(sweep: Labelled, whose: Array, points: Array, grid: Grid) -> Target:
    filled = whose >= 0
    kind = np.full(whose.shape, EMPTY)
    kind[filled] = np.where(points < FEWEST, IGNORED, sweep.kinds)[whose[filled]]
    boxes = sweep.boxes[whose[filled]]
    offset, heading, height = np.zeros((2, *whose.shape)), np.zeros((2, *whose.shape)), np.zeros(whose.shape)
    offset[:, filled] = boxes[:, :2].T - grid.centres[:, filled]
    heading[:, filled] = np.cos(2 * boxes[:, 6]), np.sin(2 * boxes[:, 6])
    height[filled] = np.minimum(boxes[:, 2] + boxes[:, 5] / 2, grid.tallest)
    weight = np.ones(whose.shape)
    # Small obstacles weigh as much as large ones.
    share = np.sqrt(8 / np.bincount(whose[filled], minlength=len(sweep.boxes)).clip(1))
    weight[filled] = (np.array(RARE)[sweep.kinds] * share)[whose[filled]]
    return Target(kind, *(part.astype(np.float32) for part in (offset, heading, height, weight)))


def varied(sweep: Labelled, rng: np.random.Generator) -> Labelled:
    """The sweep mirrored at random, rotated a little, its points moved by about a centimetre and some of them dropped."""
    mirror, turn = (-1.0 if rng.random() < 0.5 else 1.0), rng.uniform(-YAW, YAW)
    kept = np.flatnonzero(rng.random(len(sweep.xyzi), np.float32) >= rng.uniform(0, DROPPED))
    points, boxes = sweep.xyzi[kept].astype(np.float32), sweep.boxes.astype(np.float64)
    for rows in (points, boxes):
        x, y = rows[:, 0].copy(), mirror * rows[:, 1]
        rows[:, 0], rows[:, 1] = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
    points[:, :3] += JITTER * rng.standard_normal((len(points), 3), np.float32)
    boxes[:, 6] = mirror * boxes[:, 6] + turn
    return replace(sweep, xyzi=points, owner=sweep.owner[kept], boxes=boxes)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Training samples: each sweep augmented, whole or a square piece of `side` cells around an obstacle."""

    sweeps: Sequence[Labelled]
    grid: Grid
    rng: np.random.Generator
    side: int | None = None

    def batch(self, chosen: Array) -> tuple[Tensor, Target]:
        """Maps and targets of some sweeps."""
        pairs = [self._piece(varied(self.sweeps[number], self.rng)) for number in chosen.tolist()]
        names = Target.__dataclass_fields__
        stacked = Target(*(np.stack([getattr(wanted, name) for _, wanted in pairs]) for name in names))
        return torch.from_numpy(np.stack([maps for maps, _ in pairs])), stacked

    def _piece(self, sweep: Labelled) -> tuple[Array, Target]:
        maps, wanted = self.grid.features(sweep.xyzi), target(sweep, self.grid)
        if self.side is None:
            return maps, wanted
        row, column = self._corner(sweep)
        rows, columns = slice(row, row + self.side), slice(column, column + self.side)
        return maps[:, rows, columns], wanted.cut(rows, columns)

    def _corner(self, sweep: Labelled) -> Array:
        """The first row and column of a piece around an obstacle, rare kinds more often than others."""
        assert self.side is not None
        near = np.flatnonzero(np.abs(sweep.boxes[:, :2]).max(axis=1, initial=0) < self.grid.reach)
        centre = self.rng.uniform(-self.grid.reach / 2, self.grid.reach / 2, 2)
        if len(near):
            share = np.array(RARE)[sweep.kinds[near]]
            centre = sweep.boxes[self.rng.choice(near, p=share / share.sum()), :2]
        aside = self.rng.integers(-self.side // 3, self.side // 3 + 1, 2)
        corner = ((centre + self.grid.reach) / self.grid.metres).astype(int) - self.side // 2 + aside
        return np.clip(corner, 0, self.grid.cells - self.side)


def loss(outputs: Tensor, maps: Tensor, wanted: Target) -> Tensor:
    """The weighted sum of the losses of all heads.

    The category is learnt on all cells with points, uncertain ones weighing most; the other heads on cells of obstacles,
    and confidence also on cells that are mistaken for one.
    """
    kind, weight = torch.from_numpy(wanted.kind), torch.from_numpy(wanted.weight)
    known = (maps[:, FILLED] > 0) & (kind != IGNORED)
    occupied = known & (kind >= 0)
    total = weight[occupied].sum().clamp(min=20.0)
    head = {name: outputs[:, part] for name, part in HEADS.items()}

    def mean(errors: Tensor, where: Tensor) -> Tensor:
        return (errors * weight[where]).sum() / total

    def regression(name: str, numbers: Array, beta: float) -> Tensor:
        true = torch.from_numpy(numbers).reshape(head[name].shape)
        pair = _rows(head[name], occupied), _rows(true, occupied)
        return mean(functional.smooth_l1_loss(*pair, beta=beta, reduction="none").sum(1), occupied)

    category, truth = head["category"][:, 0][known], occupied[known].float()
    doubt = (torch.sigmoid(category) - truth).abs().detach() ** 1.5
    errors = functional.binary_cross_entropy_with_logits(category, truth, reduction="none")
    kinds = functional.cross_entropy(_rows(head["kind"], occupied), kind[occupied], reduction="none")
    parts = (
        4.0 * mean(doubt * errors, known),
        2.5 * regression("offset", wanted.offset, 0.3),
        2.0 * mean(kinds, occupied),
        0.3 * regression("heading", wanted.heading, 0.3),
        0.3 * regression("height", wanted.height, 0.3),
        0.3 * _confidence_loss(head, wanted, known, occupied, mean),
    )
    return torch.stack(parts).sum()


def _rows(maps: Tensor, where: Tensor) -> Tensor:
    """The numbers of the chosen cells, a row each."""
    return maps.movedim(1, -1)[where]


def _confidence_loss(
    head: dict[str, Tensor], wanted: Target, known: Tensor, occupied: Tensor, mean: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Confidence should be high where the offset of an obstacle is predicted well, and low where there is none."""
    error = (head["offset"] - torch.from_numpy(wanted.offset)).detach().norm(dim=1)
    true = torch.where(occupied, torch.exp(-error / ALIKE), 0.0)
    where = known & (occupied | (torch.sigmoid(head["category"][:, 0]).detach() > 0.2))
    logits = head["confidence"][:, 0]
    return mean(functional.binary_cross_entropy_with_logits(logits[where], true[where], reduction="none"), where)


@dataclass(frozen=True)
class LidarRecipe:
    """`passes` over pieces of all sweeps in batches of `batch`, then `whole` whole sweeps at a quarter of the rate."""

    passes: int = 3
    whole: int = 300
    batch: int = 4
    rate: float = 4e-3
    decay: float = 1e-3
    cells: int = 320
    width: int = 16
    side: int = 160

    @property
    def pieces(self) -> Recipe:
        """The loop over pieces."""
        return Recipe(self.passes, self.batch, self.rate, self.decay, PATIENCE, one_cycle=True)

    @property
    def whole_sweeps(self) -> Recipe:
        """The loop over whole sweeps."""
        return Recipe(1, 1, self.rate / 4, self.decay, PATIENCE, one_cycle=True)


def learn_lidar(
    norm: str,
    sweeps: Sequence[Labelled],
    val: Sequence[Labelled],
    *,
    recipe: LidarRecipe,
    seed: int = 7,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> BirdNet:
    """A trained LiDAR detector of the zoo: first on square pieces of the sweeps, then on whole sweeps.

    The same seed on one thread gives the same weights; the global random state of torch is not changed.

    Args:
        norm: the normalisation layer, one of `NORMS`; batch normalisation is folded into the convolutions at the end.
    """
    grid, rng = Grid(recipe.cells), rng_for(seed, "zoo", "lidar")
    stages = {
        "pieces": (Pieces(sweeps, grid, rng, recipe.side), recipe.pieces, len(sweeps)),
        "whole": (Pieces(sweeps, grid, rng), recipe.whole_sweeps, min(recipe.whole, len(sweeps))),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = BirdNet(norm, recipe.width)
        for stage, (pieces, loop, count) in stages.items():
            part = replace(checkpoint, stage=stage) if checkpoint else None
            task = sweep_task(net, pieces, val, count=count, batch=loop.batch)
            fit(net, task, loop, rng=rng, progress=progress, checkpoint=part)
    return folded(net)


def sweep_task(net: nn.Module, pieces: Pieces, val: Sequence[Labelled], *, count: int, batch: int) -> Task:
    """The loss on pieces of the first `count` sweeps; validation is the mean loss on whole sweeps without augmentation."""

    def on_pieces(chosen: Array) -> Tensor:
        maps, wanted = pieces.batch(chosen)
        return loss(net(maps), maps, wanted)

    def on_sweep(sweep: Labelled) -> float:
        maps, wanted = torch.from_numpy(pieces.grid.features(sweep.xyzi))[None], target(sweep, pieces.grid)
        stacked = Target(*(getattr(wanted, name)[None] for name in Target.__dataclass_fields__))
        return float(loss(net(maps), maps, stacked))

    def validate() -> float:
        net.eval()
        with torch.inference_mode():
            return float(np.mean([on_sweep(val[number]) for number in range(len(val))]))

    return Task(shuffled(count, batch, pieces.rng), on_pieces, validate)
