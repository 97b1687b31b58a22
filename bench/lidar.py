"""The cost of LiDAR testing: CPU seconds of one thread, compared with the unavoidable work or with a budget.

There is one function per figure, listed in FIGURES, and a line for every n and placement of the added points. What a drive
builds once for all sweeps (its scene, and the trees of its moving models) is not included.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
import torch

from swerve.core.region import Bitmap, outside
from swerve.core.relation import Pair
from swerve.methods.lidar import SERIES
from swerve.relations.sets import NoFewer, Superset
from swerve.transformations.scatter import AddPoints
from swerve.world.drives import drive
from swerve.world.laser_scanner import LaserScanner, directions, rotate_left
from swerve.world.lidar_source import LidarWorld
from swerve.world.lidar_sweep import sweep
from swerve.zoo.lidar import Lidar as PerceiveObstacles
from swerve.zoo.lidar import LidarGlobal

LIDAR = LaserScanner()
FRAMES = (0, 60, 120, 180)
SHARE = 0.05  # of a forward pass; the budget of changes and relations
PLACEMENTS = {"anywhere": None, "within 5 m": 5.0}  # metres from the border; with a limit, distances must be computed
CHECKED = Superset() & NoFewer()


@dataclass(frozen=True)
class Figure:
    """One line: our CPU seconds, those of the unavoidable work, and an optional limit."""

    name: str
    ours: float
    peer: str
    peer_seconds: float
    budget: float | None = None

    @property
    def kept(self) -> bool:
        return self.budget is None or self.ours <= self.budget

    def line(self) -> str:
        ratio = self.ours / max(self.peer_seconds, 1e-9)
        budget = "" if self.budget is None else f"   budget {self.budget:.4g} {'kept' if self.kept else 'MISSED'}"
        return f"{self.name:18} {self.ours:.4f} CPU s   {self.peer} {self.peer_seconds:.4f}   {ratio:.2g}x{budget}"


def cpu(function: Callable[[], object]) -> float:
    start = time.thread_time()
    function()
    return time.thread_time() - start


def one_sweep(scenes: int) -> Figure:
    """A sweep of a crowded scene, compared with as many bare Embree rays into the static scene."""
    ours, bare = [], []
    for number in range(scenes):
        way = drive(f"lidar-test/0/{number}")
        for frame in FRAMES:
            pose, place = way.poses[frame], way.scene_of(frame)
            sweep(place, pose, LIDAR)  # builds the trees of new models
            ours.append(cpu(partial(sweep, place, pose, LIDAR)))
            rays = np.ascontiguousarray(rotate_left(directions(LIDAR), pose.yaw).T)
            starts = np.broadcast_to(LIDAR.eye(pose).astype(np.float32), rays.shape).copy()
            bare.append(cpu(partial(place.static.tree.run, starts, rays, query="INTERSECT", output=True)))
    return Figure("sweep", statistics.median(ours), "bare rays", statistics.median(bare), 0.08)


def one_bitmap(scenes: int) -> Figure:
    """The bitmap of a region over ±60 m, compared with filling the same polygons with OpenCV."""
    regions = [region for _, region, _ in LidarWorld(drives=scenes).samples()]
    filled = [[((ring + 60) * 4).astype(np.int32) for ring in region.polygons] for region in regions]
    ours = [cpu(partial(Bitmap.of, region, (-60, -60), (60, 60))) for region in regions for _ in range(5)]
    peer = [cpu(partial(cv2.fillPoly, np.zeros((480, 480), np.uint8), rings, 1)) for rings in filled]
    return Figure("bitmap", statistics.median(ours), "cv2.fillPoly", statistics.median(peer), 0.015)


def thousand_outside(scenes: int) -> Figure:
    """Whether 1,000 points lie outside, with a cached bitmap, compared with the bitmap look-up alone."""
    regions = [region for _, region, _ in LidarWorld(drives=scenes).samples()]
    points = np.random.default_rng(0).uniform(-80, 80, (1_000, 2))
    ours, peer = [], []
    for region in regions:
        outside(region, points)
        bitmap = Bitmap.of(region, (-80, -80), (80, 80))
        ours.append(cpu(partial(outside, region, points)))
        peer.append(cpu(partial(bitmap.holds, points)))
    return Figure("1,000 outside", statistics.median(ours), "bitmap alone", statistics.median(peer), 0.005)


def changes_and_checks(scenes: int) -> list[Figure]:
    """Adding points and checking both relations, for every n and placement, compared with the zoo's network and answer.

    The budget of all series together, as in the experiment, is 5% of their forward passes, measured in this run.
    """
    system, world = PerceiveObstacles(), LidarWorld(drives=scenes)
    ours: dict[str, list[float]] = {}
    peers: dict[str, list[float]] = {"network": [], "answer": []}
    for case in map(world.__getitem__, world.keys()):
        before = system([case])[0]
        for (where, near), n in product(PLACEMENTS.items(), SERIES):
            change = AddPoints(n, 7, near=near)
            followup = change(case)  # from here on the region's bitmap is cached, as a case gets many changes
            pair = Pair(case, followup, change, before, system([followup])[0])
            CHECKED.check(Pair(case, case, change, before, before))  # imports scipy without caching the pair
            maps = system.swept(followup).maps[None]
            with torch.inference_mode():
                peers["network"].append(cpu(partial(system.net, maps)))
            peers["answer"].append(cpu(partial(system, [followup])))
            spent = cpu(partial(change, case)) + cpu(partial(CHECKED.check, pair))
            ours.setdefault(f"{n:,} {where}", []).append(spent)
    whole = {peer: statistics.median(passes) for peer, passes in peers.items()}
    lines = {name: statistics.median(spent) for name, spent in ours.items()}
    together = Figure("all series", statistics.mean(lines.values()), "network", whole["network"], SHARE * whole["network"])
    return [
        *(Figure(name, spent, peer, seconds) for name, spent in lines.items() for peer, seconds in whole.items()),
        together,
    ]


def answers_of(system: PerceiveObstacles, scenes: int) -> Figure:
    """A whole answer, from points to boxes, compared with the forward pass of the network alone."""
    ours, peer = [], []
    world = LidarWorld(drives=scenes)
    for key in world.keys():
        case = world[key]
        maps = system.swept(case).maps[None]
        with torch.inference_mode():
            system([case])  # warm-up; also creates the region's bitmap, which a follow-up shares with its source
            ours.append(cpu(partial(system, [case])))
            peer.append(cpu(partial(system.net, maps)))
    return Figure(system.name, statistics.median(ours), "forward pass", statistics.median(peer), 0.5)


def local_answer(scenes: int) -> Figure:
    """The system with a receptive field of a few metres around each cell."""
    return answers_of(PerceiveObstacles(), scenes)


def global_answer(scenes: int) -> Figure:
    """The system in which all cells of a frame are coupled."""
    return answers_of(LidarGlobal(), scenes)


FIGURES: Sequence[Callable[[int], Figure]] = (
    one_sweep,
    one_bitmap,
    thousand_outside,
    local_answer,
    global_answer,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--scenes", type=int, default=6, help="drives measured (default: %(default)s)")
    given = parser.parse_args()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    figures = [*(figure(given.scenes) for figure in FIGURES), *changes_and_checks(given.scenes)]
    if given.json:
        print(json.dumps([asdict(figure) for figure in figures], indent=2))
        return
    for figure in figures:
        print(figure.line())
    if not all(figure.kept for figure in figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
