"""The models of things: each kind has a builder and a number of models, built once and shared by all scenes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from swerve.core.seeding import rng_for
from swerve.world import cars, lorries, people, roadside, street_furniture
from swerve.world.mesh import Mesh

Random = np.random.Generator

_MODELS: dict[
    str, tuple[Callable[[Random], Mesh], int]
] = {  # the builder of each kind, and the number of models to choose from
    "car": (cars.car, 96),
    "van": (cars.van, 24),
    "bus": (lorries.bus, 12),
    "truck": (lorries.truck, 24),
    "cyclist": (people.cyclist, 32),
    "pedestrian": (people.pedestrian, 64),
    "walker": (people.walker, 64),
    "bystander": (people.bystander, 24),
    "house": (roadside.house, 48),
    "villa": (lambda rng: _building(rng, (2, 4), 0.45), 48),
    "block": (lambda rng: _building(rng, (2, 8), 0.9), 112),
    "tower": (lambda rng: _building(rng, (6, 16), 0.9), 48),
    "tree": (roadside.tree, 32),
    "street-tree": (roadside.street_tree, 24),
    "conifer": (roadside.conifer, 16),
    "bush": (roadside.bush, 16),
    "lamp": (roadside.street_lamp, 12),
    "sign": (roadside.sign, 32),
    "billboard": (roadside.billboard, 32),
    "bollard": (roadside.bollard, 8),
    "bin": (roadside.bin, 12),
    "bench": (roadside.bench, 8),
    "bus-stop": (roadside.bus_stop, 6),
    "post-box": (street_furniture.post_box, 4),
    "cabinet": (street_furniture.cabinet, 6),
    "planter": (street_furniture.planter, 8),
    "hydrant": (street_furniture.hydrant, 3),
    "parking-meter": (street_furniture.parking_meter, 4),
    "cycle-stand": (street_furniture.cycle_stand, 6),
    "pillar": (street_furniture.pillar, 6),
    "power-pole": (roadside.power_pole, 4),
}


def model(kind: str, rng: Random) -> Mesh:
    """One of the models of a kind; each is built once."""
    return build_model(kind, int(rng.integers(model_count(kind))))


def model_count(kind: str) -> int:
    """The number of models of a kind."""
    return _MODELS[kind][1]


def _building(rng: Random, storeys: tuple[int, int], urban: float) -> Mesh:
    width, depth = float(rng.uniform(9, 22)), float(rng.uniform(9, 15))
    return roadside.building(rng, width, depth, int(rng.integers(*storeys)), urban)


@cache
def build_model(kind: str, number: int) -> Mesh:
    """A model of a kind by its number; built once."""
    return _MODELS[kind][0](rng_for(0, "model", kind, number))
