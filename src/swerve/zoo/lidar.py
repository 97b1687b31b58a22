"""LiDAR obstacle detection with Apollo's stages: region bitmap, bird's-eye grid, network, clusters, boxes.

By default the network gets the whole sweep and the region only selects the points of boxes, as in Apollo's code. With
`roi_first` the network gets only points in the region, as in the paper's text, and no other point can change the answer.
"""
# D-29

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from swerve.core import region as regions
from swerve.core.arguments import check_known, take_paths
from swerve.core.case import Case
from swerve.core.errors import InputError
from swerve.core.region import Bitmap
from swerve.core.seeding import digest_of
from swerve.core.system import Answer, Traced
from swerve.core.values import Array, PointCloud, Region
from swerve.systems.probe import layers_of, probe
from swerve.systems.torch import TorchEngine
from swerve.systems.weights import load
from swerve.zoo import clusters, grid, lidar_network
from swerve.zoo.clusters import obstacles
from swerve.zoo.grid import Grid
from swerve.zoo.lidar_network import COARSEST, BirdNet, decode_cells
from swerve.zoo.steering import PACKAGED, join_traces


@dataclass(frozen=True, eq=False)
class Swept:
    """One sweep in the pipeline: its points, which of them lie in the region, and the network's input."""

    xyzi: Array
    inside: Array
    maps: Tensor


@dataclass(frozen=True)
class Lidar:
    """Obstacles of one sweep, from a network in which each cell depends on its surroundings only (batch normalisation).

    Reads a point cloud `lidar` and, if there is one, the `region`; without it, the whole sweep is the region. Answers
    with the obstacles inside: car, pedestrian, cyclist or unknown. `cells` and `width` must be those of the weights.
    """

    weights: Path | None = None
    roi_first: bool = False
    cells: int = 320
    width: int = 16
    name: ClassVar[str] = "lidar"
    norm: ClassVar[str] = "batch"  # in training

    def __post_init__(self) -> None:
        take_paths(self)
        if self.cells < COARSEST or self.cells % COARSEST:
            raise InputError(f"{self.name}: cells must be a multiple of {COARSEST}, got {self.cells}")
        _ = self.net  # refuses a bad file now rather than in the middle of a campaign

    def __call__(self, cases: Sequence[Case]) -> Sequence[Answer]:
        """One answer per case; sweeps are processed one by one, so that no answer depends on the batch."""
        net = self.net.eval()
        answers: list[Answer] = []
        with torch.inference_mode():
            for swept in map(self.swept, cases):
                answers.append(self._answer(swept, net(swept.maps[None])[0]))
        return answers

    def fingerprint(self) -> str:
        return self._fingerprint

    def layers(self) -> Sequence[str]:
        return layers_of(self.net)

    def trace(self, cases: Sequence[Case], layers: Sequence[str]) -> Traced:
        return join_traces([self._trace(self.swept(case), layers) for case in cases])

    def _trace(self, swept: Swept, layers: Sequence[str]) -> Traced:
        rows, found = probe(self.net.eval(), swept.maps[None], layers)
        return Traced([self._answer(swept, rows[0])], found)

    def swept(self, case: Case) -> Swept:
        """The sweep of a case; raises `InputError` for a case without one."""
        cloud, region = case.inputs.get("lidar"), case.inputs.get("region")
        if not isinstance(cloud, PointCloud):
            given = f"a {type(cloud).__name__}" if cloud else f"only {', '.join(case.inputs) or 'nothing'}"
            raise InputError(f"{case.key}: this system reads a point cloud named 'lidar', got {given}")
        if region is not None and not isinstance(region, Region):
            raise InputError(f"{case.key}: 'region' must be a Region, got a {type(region).__name__}")
        inside = self._inside(cloud.xyzi[:, :2], region)
        shown = cloud.xyzi[inside] if self.roi_first else cloud.xyzi
        return Swept(cloud.xyzi, inside, torch.from_numpy(self.grid.features(shown)))

    def _inside(self, xy: Array, region: Region | None) -> Array:
        if region is None:
            return np.ones(len(xy), bool)
        return _bitmap(region, self.grid.reach).holds(xy)

    def _answer(self, swept: Swept, row: Tensor) -> Answer:
        return (obstacles(decode_cells(row, swept.maps), swept.xyzi, swept.inside, self.grid),)

    @cached_property
    def grid(self) -> Grid:
        """The grid that the network reads."""
        return Grid(self.cells)

    @cached_property
    def net(self) -> BirdNet:
        """The network, its weights read once; batch normalisation is folded into its convolutions."""
        make = partial(BirdNet, "none" if self.norm == "batch" else self.norm, self.width)
        net = load(make, self.weights or PACKAGED / f"{self.name}.safetensors")
        assert isinstance(net, BirdNet)
        return net

    @cached_property
    def _fingerprint(self) -> str:
        engine = TorchEngine(self.net, torch.device("cpu"))
        stages = [inspect.getsource(module) for module in (regions, grid, lidar_network, clusters)]
        return digest_of(engine.fingerprint(), self.roi_first, self.cells, stages)


@dataclass(frozen=True)
class LidarGlobal(Lidar):
    """The same with group normalisation over the whole frame: the output of every cell depends on all other cells."""

    name, norm = "lidar-global", "group"


@lru_cache(maxsize=16)
def _bitmap(region: Region, reach: float) -> Bitmap:
    """The region in cells of 0.25 m; cached, because a follow-up has the region of its source."""
    return Bitmap.of(region, (-reach, -reach), (reach, reach))


LIDAR: Mapping[str, type[Lidar]] = MappingProxyType({kind.name: kind for kind in (Lidar, LidarGlobal)})


def lidar_named(name: str) -> type[Lidar]:
    """The LiDAR system called `name`; raises `InputError` for any other name."""
    check_known("LiDAR system", name, LIDAR)
    return LIDAR[name]
