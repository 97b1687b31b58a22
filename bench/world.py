"""The cost of a frame of the embedded world: CPU seconds at 640x360 with all labels, compared with bare ray casting.

No peer renders such frames without a GPU, so the reference is the unavoidable work: one Embree ray per pixel, cast into the
same scene. The budget is 0.35 CPU s per frame under any preset; what a drive builds once for all its frames (scene and
trees) is not included.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2

from swerve.core.values import Depth, Steering
from swerve.world.camera import Camera
from swerve.world.conditions import PRESETS, conditions
from swerve.world.labels import boxes2d, boxes3d, masks, visible_things
from swerve.world.render import render
from swerve.world.source import Drive, drive

BUDGET = 0.35
CAMERA = Camera()


def cpu(function) -> float:
    start = time.thread_time()
    function()
    return time.thread_time() - start


def frame(way: Drive, number: int, name: str) -> None:
    pose = way.poses[number]
    picture = render(way.scene, pose, conditions(name), CAMERA)
    items = visible_things(way.scene, pose, CAMERA, picture)
    boxes2d(items, CAMERA), boxes3d(items), masks(items, picture), Depth(picture.depth), CAMERA.calibration(pose)
    Steering(way.driver.wheel(pose))


def rays(way: Drive, number: int) -> None:
    pose = way.poses[number]
    way.scene.at(pose.time).cast(CAMERA.eye(pose)[:, None], CAMERA.rays(pose))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--scenes", type=int, default=6, help="drives measured (default: %(default)s)")
    given = parser.parse_args()
    cv2.setNumThreads(1)
    ways = [drive(f"test/0/{number}") for number in range(given.scenes)]
    ours: dict[str, list[float]] = {name: [] for name in PRESETS}
    bare: dict[str, list[float]] = {name: [] for name in PRESETS}
    for way in ways:
        frame(way, 0, "rain")  # builds the scene and trees of the drive
        for name in PRESETS:
            for number in (10, 40):
                ours[name].append(cpu(lambda way=way, number=number, name=name: frame(way, number, name)))
                bare[name].append(cpu(lambda way=way, number=number: rays(way, number)))
    rows = []
    for name in PRESETS:
        cost, least = statistics.median(ours[name]), statistics.median(bare[name])
        rows.append({"name": name, "ours": cost, "peer": "bare rays", "peer_seconds": least, "ratio": cost / least})
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['name']:12} {row['ours']:.3f} CPU s   bare rays {row['peer_seconds']:.3f}   {row['ratio']:.1f}x")
    worst = max(row["ours"] for row in rows)
    mean = statistics.mean(row["ours"] for row in rows)
    kept = worst <= BUDGET
    print(f"mean {mean:.3f}, worst {worst:.3f} CPU s per frame; the budget of {BUDGET} is {'kept' if kept else 'missed'}")
    if not kept:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
