"""How the LiDAR networks learn: sweeps with boxes, small variations of them, what each cell should say, and the loss."""

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

NOBODY, IGNORED = -1, -2  # in place of a kind
FEWEST = 3  # points in a box below which its cells are neither learnt nor held against anybody
BELOW = 0.12  # metres at the foot of a box whose points are the road's
BESIDE = 0.1  # metres around a box that still belong to it: ranges are noisy
YAW = np.radians(10)
JITTER = 0.01  # metres
DROPPED = 0.1  # share of the points at most
RARE = (1.0, 2.0, 2.5, 2.5)  # how much each of `KINDS` counts, and how often a piece is cut out around one
PATIENCE = 6  # passes without a better validation error that end the training
ALIKE = 0.75  # metres by which a middle may be missed before confidence falls to a third


@dataclass(frozen=True, eq=False)
class Labelled:
    """A sweep and everybody in it: points n x 4 and whose they are, boxes m x 7, and a number of `KINDS` for each."""

    xyzi: Array
    owner: Array  # the number of the box that each point lies in, -1 for none
    boxes: Array
    kinds: Array

    @classmethod
    def of(cls, xyzi: Array, boxes: Array, kinds: Array) -> Labelled:
        """A sweep whose points are told apart by the boxes, all in the sensor's frame."""
        return cls(xyzi, owners(xyzi, boxes), boxes, kinds)


@dataclass(frozen=True, eq=False)
class Target:
    """What each cell should say, rows x columns; `kind` is `NOBODY` or `IGNORED` where nobody is, `weight` is above 0."""

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


def target(given: Labelled, grid: Grid) -> Target:
    """What each cell should say of a sweep: whoever owns its highest point that anybody owns."""
    rows = np.flatnonzero(given.owner >= 0)
    rows = rows[np.argsort(given.xyzi[rows, 2], kind="stable")]
    cell, owner = grid.cell_of(given.xyzi[rows]), given.owner[rows]
    whose = np.full(grid.cells**2, -1)
    whose[cell[cell >= 0]] = owner[cell >= 0]
    return _target(given, whose.reshape(grid.cells, grid.cells), np.bincount(owner, minlength=len(given.boxes)), grid)


def _target(given: Labelled, whose: Array, points: Array, grid: Grid) -> Target:
    filled = whose >= 0
    kind = np.full(whose.shape, NOBODY)
    kind[filled] = np.where(points < FEWEST, IGNORED, given.kinds)[whose[filled]]
    boxes = given.boxes[whose[filled]]
    offset, heading, height = np.zeros((2, *whose.shape)), np.zeros((2, *whose.shape)), np.zeros(whose.shape)
    offset[:, filled] = boxes[:, :2].T - grid.middles[:, filled]
    heading[:, filled] = np.cos(2 * boxes[:, 6]), np.sin(2 * boxes[:, 6])
    height[filled] = np.minimum(boxes[:, 2] + boxes[:, 5] / 2, grid.tallest)
    weight = np.ones(whose.shape)
    share = np.sqrt(8 / np.bincount(whose[filled], minlength=len(given.boxes)).clip(1))  # the small count as the large
    weight[filled] = (np.array(RARE)[given.kinds] * share)[whose[filled]]
    return Target(kind, *(part.astype(np.float32) for part in (offset, heading, height, weight)))


def varied(given: Labelled, rng: np.random.Generator) -> Labelled:
    """The sweep perhaps mirrored, turned a little, its points moved by a centimetre and some of them lost."""
    mirror, turn = (-1.0 if rng.random() < 0.5 else 1.0), rng.uniform(-YAW, YAW)
    kept = np.flatnonzero(rng.random(len(given.xyzi), np.float32) >= rng.uniform(0, DROPPED))
    points, boxes = given.xyzi[kept].astype(np.float32), given.boxes.astype(np.float64)
    for rows in (points, boxes):
        x, y = rows[:, 0].copy(), mirror * rows[:, 1]
        rows[:, 0], rows[:, 1] = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
    points[:, :3] += JITTER * rng.standard_normal((len(points), 3), np.float32)
    boxes[:, 6] = mirror * boxes[:, 6] + turn
    return replace(given, xyzi=points, owner=given.owner[kept], boxes=boxes)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Where samples come from: each sweep varied, whole or a square piece of `side` cells around somebody."""

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

    def _piece(self, given: Labelled) -> tuple[Array, Target]:
        maps, wanted = self.grid.features(given.xyzi), target(given, self.grid)
        if self.side is None:
            return maps, wanted
        row, column = self._corner(given)
        rows, columns = slice(row, row + self.side), slice(column, column + self.side)
        return maps[:, rows, columns], wanted.cut(rows, columns)

    def _corner(self, given: Labelled) -> Array:
        """The first row and column of a piece around somebody, rare kinds more often than others."""
        assert self.side is not None
        near = np.flatnonzero(np.abs(given.boxes[:, :2]).max(axis=1, initial=0) < self.grid.reach)
        middle = self.rng.uniform(-self.grid.reach / 2, self.grid.reach / 2, 2)
        if len(near):
            share = np.array(RARE)[given.kinds[near]]
            middle = given.boxes[self.rng.choice(near, p=share / share.sum()), :2]
        aside = self.rng.integers(-self.side // 3, self.side // 3 + 1, 2)
        corner = ((middle + self.grid.reach) / self.grid.metres).astype(int) - self.side // 2 + aside
        return np.clip(corner, 0, self.grid.cells - self.side)


def loss(said: Tensor, maps: Tensor, wanted: Target) -> Tensor:
    """How far the heads are from what they should say, everybody counted by their weight.

    Whether a cell holds anybody is asked of all cells with points, the doubtful counting most; the rest is asked of
    cells that hold somebody, and confidence also of those that are mistaken for one.
    """
    kind, weight = torch.from_numpy(wanted.kind), torch.from_numpy(wanted.weight)
    known = (maps[:, FILLED] > 0) & (kind != IGNORED)
    held = known & (kind >= 0)
    total = weight[held].sum().clamp(min=20.0)
    head = {name: said[:, part] for name, part in HEADS.items()}

    def mean(errors: Tensor, where: Tensor) -> Tensor:
        return (errors * weight[where]).sum() / total

    def missed(name: str, numbers: Array, beta: float) -> Tensor:
        mine, right = _rows(head[name], held), _rows(torch.from_numpy(numbers).reshape(head[name].shape), held)
        return mean(functional.smooth_l1_loss(mine, right, beta=beta, reduction="none").sum(1), held)

    category, truth = head["category"][:, 0][known], held[known].float()
    doubt = (torch.sigmoid(category) - truth).abs().detach() ** 1.5
    errors = functional.binary_cross_entropy_with_logits(category, truth, reduction="none")
    kinds = functional.cross_entropy(_rows(head["kind"], held), kind[held], reduction="none")
    parts = (
        4.0 * mean(doubt * errors, known),
        2.5 * missed("offset", wanted.offset, 0.3),
        2.0 * mean(kinds, held),
        0.3 * missed("heading", wanted.heading, 0.3),
        0.3 * missed("height", wanted.height, 0.3),
        0.3 * _doubted(head, wanted, known, held, mean),
    )
    return torch.stack(parts).sum()


def _rows(maps: Tensor, where: Tensor) -> Tensor:
    """The numbers of chosen cells, a row each."""
    return maps.movedim(1, -1)[where]


def _doubted(
    head: dict[str, Tensor], wanted: Target, known: Tensor, held: Tensor, mean: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Confidence should be high where somebody's middle was told well, low where nobody is."""
    missed = (head["offset"] - torch.from_numpy(wanted.offset)).detach().norm(dim=1)
    right = torch.where(held, torch.exp(-missed / ALIKE), 0.0)
    asked = known & (held | (torch.sigmoid(head["category"][:, 0]).detach() > 0.2))
    said = head["confidence"][:, 0]
    return mean(functional.binary_cross_entropy_with_logits(said[asked], right[asked], reduction="none"), asked)


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
    """A trained network; the same seed on one thread gives the same one, and torch's own generator is left alone."""
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
