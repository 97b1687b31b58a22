"""The cost of a picture of the quick camera in CPU milliseconds, and its difference to the full camera's.

The picture is 256x144 without the 50 rows at the top that networks cut off. What a drive builds once for all its frames is
not included.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np

from swerve.world.camera import Camera
from swerve.world.conditions import PRESETS
from swerve.world.drives import drive
from swerve.world.quick_camera import quick_picture
from swerve.world.render import render

GOAL = 0.025  # CPU seconds
QUICK, FULL = Camera(256, 144, cut=50), Camera(256, 144)
NUMBERS = (5, 25, 45)  # frames of a drive


def cpu(function, *given) -> float:
    start = time.thread_time()
    function(*given)
    return time.thread_time() - start


def measure(scenes: int, name: str) -> dict[str, object]:
    """The median cost of both cameras, and how their pictures differ."""
    quick, full, mean, many = [], [], [], []
    for key in (f"test/0/{number}" for number in range(scenes)):
        way, sky = drive(key), PRESETS[name]
        for number in NUMBERS:
            pose = way.poses[number]
            one, other = quick_picture(way.scene, pose, sky, QUICK), render(way.scene, pose, sky, FULL).pixels[QUICK.cut :]
            quick += [cpu(quick_picture, way.scene, pose, sky, QUICK) for _ in range(3)]
            full.append(cpu(render, way.scene, pose, sky, FULL))
            away = np.abs(one.astype(int) - other)
            mean.append(float(away.mean()))
            many.append(float((away.max(axis=2) > 16).mean()))
    return {
        "name": name,
        "quick": statistics.median(quick),
        "full": statistics.median(full),
        "grey levels": statistics.mean(mean),
        "far off": statistics.mean(many),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--scenes", type=int, default=8, help="drives (default: %(default)s)")
    given = parser.parse_args()
    cv2.setNumThreads(1)
    rows = [measure(given.scenes, name) for name in ("clear", "overcast", "night", "rain")]
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    for item in rows:
        print(
            f"{item['name']:10} quick {item['quick'] * 1000:5.1f} ms, full {item['full'] * 1000:5.1f} ms, "
            f"{item['grey levels']:.2f} grey levels apart, {item['far off']:.1%} of pixels by more than 16"
        )
    if rows[0]["quick"] > GOAL:
        raise SystemExit(f"clear: the goal of {GOAL * 1000:.0f} ms is missed")


if __name__ == "__main__":
    main()
