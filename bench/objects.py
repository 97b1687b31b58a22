"""What it costs to explain an answer, choose three objects by the explanation, and swap them, per frame of 640x360.

Printed are mean and largest CPU seconds: of the heat map alone, and with it of the proposal and the change of each way to
swap. Rendered swaps include the rendering of the frame with other objects.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
import torch

from goals import at_most
from swerve.core.case import Case
from swerve.core.errors import NotApplicable
from swerve.core.seeding import rng_for
from swerve.core.space import BatchSpace
from swerve.core.system import System
from swerve.experiments.iatg.arms import LAYERS, explanation_for, world_library
from swerve.explain.known_heat import heat_maps
from swerve.transformations.retouches import Retouches
from swerve.transformations.salient import SalientObjects
from swerve.transformations.swaps import Swaps
from swerve.transformations.tint_objects import Tints
from swerve.transformations.translate_objects import Translations
from swerve.translation.packaged import PAINTER, is_packaged, packaged_painter
from swerve.world.source import World
from swerve.zoo.steering import STEERING

GOAL = 0.5  # CPU seconds of the explanation, the selection and the swap
REAL, TRANSLATED = "real", "translated"


def spaces(choose: SalientObjects, count: int) -> dict[str, BatchSpace]:
    """The ways to swap chosen objects."""
    library = world_library(640)
    painted = {TRANSLATED: Translations(packaged_painter(), choose=choose, count=count)} if is_packaged(PAINTER) else {}
    return {
        REAL: Retouches(library, choose=choose, count=count),
        **painted,
        "tinted": Tints(choose, count),
        "rendered": Swaps(choose=choose, count=count),
    }


def swapped(space: BatchSpace, case: Case, system: System) -> float | None:
    """CPU seconds of a proposal and its change; None where there is none."""
    start = time.process_time()
    (change,) = space.propose_all([case], [rng_for("bench", case.key)], system)
    if isinstance(change, NotApplicable):
        return None
    change(case)
    return time.process_time() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--frames", type=int, default=12)
    options.add_argument("--objects", type=int, default=3)
    given = options.parse_args()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    world = World(3 * given.frames, labels=("steering", "masks", "classes"))
    print(f"{given.objects} objects: mean and largest CPU seconds of the explanation, the selection and the swap")
    missed = False
    for name in ("dave-orig", "epoch"):
        system = STEERING[name]()
        explanation = explanation_for(system, LAYERS.get(name, ""))
        ways = spaces(SalientObjects(explanation), given.objects)
        rows = []
        for key in world.keys():
            case = world[key]
            start = time.process_time()
            heat_maps(explanation, [case], system)  # the ways below find it there
            heat = time.process_time() - start
            found = [swapped(space, case, system) for space in ways.values()]
            if None not in found:
                rows.append([heat, *(heat + seconds for seconds in found if seconds is not None)])
            if len(rows) == given.frames:
                break
        for way, seconds in zip(("heat map", *ways), np.array(rows).T, strict=True):
            judged = at_most(seconds.mean(), GOAL) if way in (REAL, TRANSLATED) else ""
            missed |= bool(judged) and seconds.mean() > GOAL
            print(f"{name:>10} {way:>11} {seconds.mean():7.3f} {seconds.max():7.3f}  ({len(seconds)} frames)  {judged}")
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
