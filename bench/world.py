"""The cost of frames of the embedded world in CPU seconds, and the memory of what is kept of them.

- A fresh 640x360 frame with all labels, compared with bare ray casting: no peer renders such frames without a GPU, so the
  reference is the unavoidable work, one Embree ray per pixel into the same scene. What a drive builds once for all its
  frames (scene and trees) is not included.
- A fresh frame of a junction with traffic lights (set A, 960x540) with its boxes, compared with bare ray casting.
- The same frame shaded again under another sky, compared with the fresh one.
- `Rerender` of frames of many drives at 320x180, one sky after the other, compared with the same frames rendered without
  what was kept of them: a drive is then built again for each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2

from swerve.core.values import Depth, SceneRef, Steering
from swerve.transformations.rerender import SKIES, Rerender
from swerve.world import drives, frames
from swerve.world.camera import Camera
from swerve.world.conditions import PRESETS, conditions
from swerve.world.drives import Drive, drive
from swerve.world.labels import boxes2d, boxes3d, masks, visible_things
from swerve.world.light_labels import light_labels, visible_heads
from swerve.world.light_views import View, view
from swerve.world.render import render
from swerve.world.source import World

FRESH, AGAIN, TIMES = 0.30, 0.06, 8.0  # CPU s of a fresh frame, of shading it again (mean), and how much cheaper Rerender is
LIGHTS = 0.60  # CPU s of a fresh frame of a junction
CAMERA = Camera()
NUMBERS = (10, 40)  # frames of a drive


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


def row(name: str, ours: float, peer: str, theirs: float) -> dict[str, object]:
    return {"name": name, "ours": ours, "peer": peer, "peer_seconds": theirs, "ratio": ours / theirs}


def single_frames(count: int) -> list[dict[str, object]]:
    """Fresh frames and frames shaded again, under every sky."""
    fresh, again, bare = ({name: [] for name in PRESETS} for _ in range(3))
    for key in (f"test/0/{number}" for number in range(count)):
        way = drive(key)
        frame(way, 0, "rain")  # builds the scene and trees of the drive
        frames.forget()
        for number in NUMBERS:
            ref = SceneRef(f"{key}#{number}", {})
            for name in PRESETS:
                frames.render_frame(ref, CAMERA, PRESETS[name])
                fresh[name].append(cpu(lambda way=way, number=number, name=name: frame(way, number, name)))
                again[name].append(cpu(lambda ref=ref, name=name: frames.render_frame(ref, CAMERA, PRESETS[name])))
                bare[name].append(cpu(lambda way=way, number=number: rays(way, number)))
    cost, shaded, least = ({name: statistics.median(side[name]) for name in PRESETS} for side in (fresh, again, bare))
    rows = [row(f"fresh, {name}", cost[name], "bare rays", least[name]) for name in PRESETS]
    return rows + [row(f"shaded again, {name}", shaded[name], "fresh", cost[name]) for name in PRESETS]


def junction(here: View, name: str) -> None:
    picture = render(here.scene, here.pose, conditions(name), here.camera)
    items = visible_heads(here.scene, here.pose, here.camera, picture)
    light_labels(items, here.pose, here.camera, picture)["boxes2d"]()


def light_frames(count: int) -> list[dict[str, object]]:
    """Fresh frames of junctions with traffic lights, under every sky."""
    cost, bare = ({name: [] for name in PRESETS} for _ in range(2))
    for number in range(count):
        here = view(f"lights-A/test/0/{number}#0")
        junction(here, "rain")
        eye, all_rays = here.camera.eye(here.pose)[:, None], here.camera.rays(here.pose)
        for name in PRESETS:
            cost[name].append(cpu(lambda here=here, name=name: junction(here, name)))
            bare[name].append(cpu(lambda here=here, eye=eye, rays=all_rays: here.scene.at(0).cast(eye, rays)))
    return [
        row(f"lights, {name}", statistics.median(cost[name]), "bare rays", statistics.median(bare[name])) for name in PRESETS
    ]


def many_drives(count: int) -> list[dict[str, object]]:
    """`Rerender` over many drives, with and without what was kept of their frames."""
    frames.forget()
    changes = {name: Rerender(name) for name in SKIES}
    source = World(drives=count, width=320, height=180)
    cases = [source[key] for key in source.keys()]
    kept = {name: cpu(lambda change=change: [change(case) for case in cases]) for name, change in changes.items()}
    few = cases[: max(1, count // 8)]
    rows = []
    for name, change in changes.items():
        frames._KEPT.clear()
        drives._DRIVES.clear()
        without = cpu(lambda change=change: [change(case) for case in few])
        rows.append(row(f"rerender, {name}", kept[name] / count, "not kept", without / len(few)))
    return rows


def memory() -> list[dict[str, object]]:
    """Megabytes kept of a frame, and the peak of this process."""
    rows = []
    for size in ((320, 180), (640, 360)):
        frames.forget()
        for name in SKIES:
            frames.expect(PRESETS[name])
        frames.take_frame(SceneRef("test/0/1#10", {}), Camera(*size), PRESETS["clear"], among=1)
        megabytes = sum(map(frames._bytes_of, frames._KEPT._kept.values())) / 1e6
        rows.append(row(f"MB kept, {size[0]}x{size[1]}", megabytes, "MB allowed", frames.BOUND / 1e6))
    frames.forget()
    for number in range(8):
        frames.render_frame(SceneRef(f"test/0/{number}#10", {}), CAMERA, PRESETS["clear"])
    rows.append(row("MB of trees, 64 drives", frames._TREES._weight * 8 / 1e6, "MB allowed", frames.TREES_BOUND / 1e6))
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) / 1e3 for line in status if line.startswith("VmHWM"))
    return [*rows, row("MB at the peak", peak, "MB allowed", frames.BOUND / 1e6)]


def misses(rows: list[dict[str, object]]) -> list[str]:
    """The goals that are missed."""
    fresh, again, less = (
        {item["name"]: item[number] for item in rows if str(item["name"]).startswith(kind)}
        for kind, number in (("fresh", "ours"), ("shaded", "ours"), ("rerender", "ratio"))
    )
    mean = statistics.mean(again.values())
    found = [f"{name}: {cost:.3f} CPU s, the goal is {FRESH}" for name, cost in fresh.items() if cost > FRESH]
    lights = {item["name"]: item["ours"] for item in rows if str(item["name"]).startswith("lights")}
    found += [f"{name}: {cost:.3f} CPU s, the goal is {LIGHTS}" for name, cost in lights.items() if cost > LIGHTS]
    found += [f"shaded again: {mean:.3f} CPU s on average, the goal is {AGAIN}"] if mean > AGAIN else []
    return found + [
        f"{name}: {1 / part:.1f} times cheaper, the goal is {TIMES:g}" for name, part in less.items() if part * TIMES > 1
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--scenes", type=int, default=6, help="drives of single frames (default: %(default)s)")
    parser.add_argument("--drives", type=int, default=64, help="drives that are rendered again (default: %(default)s)")
    given = parser.parse_args()
    cv2.setNumThreads(1)
    rows = [*single_frames(given.scenes), *light_frames(given.scenes), *many_drives(given.drives), *memory()]
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    for item in rows:
        print(f"{item['name']:26}{item['ours']:10.3f}   {item['peer']:12}{item['peer_seconds']:10.3f}{item['ratio']:8.3f}")
    missed = misses(rows)
    print(
        "\n".join(missed)
        or f"the goals ({FRESH} fresh, {LIGHTS} lights, {AGAIN} shaded again, {TIMES:g} times cheaper) are met"
    )
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
