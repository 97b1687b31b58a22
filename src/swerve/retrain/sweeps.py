"""Further training of a LiDAR network of the zoo on sweeps with added points, or on the same sweeps as they are."""
# LM-12

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from swerve.core.case import Source
from swerve.core.seeding import rng_for
from swerve.train.loop import Checkpoint, Recipe, fit
from swerve.train.on_demand import OnDemand
from swerve.transformations.scatter import AddPoints
from swerve.zoo.grid import Grid
from swerve.zoo.lidar_data import labelled
from swerve.zoo.lidar_learn import PATIENCE, Labelled, Pieces, sweep_task
from swerve.zoo.lidar_network import BirdNet

RATE = 5e-4  # an eighth of that of the first training
PIECE = 160  # cells a side


class Twice(OnDemand[Labelled]):
    """Every sweep of a source twice: as it is and, if `noisy`, with `counts` points added at `distances` from its region."""

    def __init__(
        self,
        source: Source,
        seed: int,
        *,
        counts: Sequence[int] = (10, 100, 1000),
        distances: Sequence[float | None] = (None, 5.0),
        noisy: bool = True,
    ) -> None:
        self._source, self._keys, self._seed, self._noisy = source, source.keys(), seed, noisy
        self._counts, self._distances = counts, distances

    def __len__(self) -> int:
        return 2 * len(self._keys)

    def item(self, number: int) -> Labelled:
        case = self._source[self._keys[number // 2]]
        return labelled(self.change(number)(case) if self._noisy and number % 2 else case)

    def change(self, number: int) -> AddPoints:
        """The change that adds the points of a noisy sweep."""
        rng = rng_for(self._seed, "noise", number)
        near = self._distances[int(rng.integers(len(self._distances)))]
        return AddPoints(int(rng.choice(self._counts)), int(rng.integers(2**31)), near=near)


def learn(
    net: BirdNet,
    grid: Grid,
    train: Sequence[Labelled],
    val: Sequence[Labelled],
    passes: int,
    seed: int,
    checkpoint: Checkpoint | None = None,
) -> BirdNet:
    """The network after some more passes; the best of them by the loss on the validation sweeps."""
    tuned, rng = deepcopy(net), rng_for(seed, "retrain")
    recipe = Recipe(passes, batch=4, rate=RATE, decay=1e-3, patience=PATIENCE, one_cycle=True)
    pieces = Pieces(train, grid, rng, min(PIECE, grid.cells))
    task = sweep_task(tuned, pieces, val, count=len(train), batch=recipe.batch)
    fit(tuned, task, recipe, rng=rng, checkpoint=checkpoint)
    return tuned
