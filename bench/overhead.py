"""The overhead of a campaign over its changes and forward passes, and the growth of its memory.

Both sides apply the same changes to the same frames, in the same batches and threads, with the same network. The campaign
also proposes, checks, hashes, writes its journal with one fsync per ask, asks findings again, keeps pictures of its worst
findings (of 20 for each rule as usual, or of 200 with `--keep 200`) and writes its tables; the HTML report is not included.
CPU time, interleaved repeats, medians.

    python bench/overhead.py [--json] [--repeats N] [--drives N] [--only time|memory]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import nn

from goals import at_most
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.values import Image, Steering
from swerve.execution.evaluator import Threads
from swerve.execution.executors.cores import settle_threads
from swerve.execution.launch import run_into
from swerve.methods.demo import another_sky, demo
from swerve.systems.torch import TorchSystem
from swerve.world.source import World

KEEPS = {"as usual": (None, 1.10), "--keep 200": (200, 1.20)}  # pictures of findings per rule, and the goal
MEMORY = 1.1
DEGREES = 15_000  # of the wheel per unit of the untrained network's output, so that it steers about as much as a trained one


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class Rolled:
    """`count` frames of the embedded world: a few rendered ones, shifted sideways."""

    def __init__(self, count: int) -> None:
        world = World(drives=8, width=320, height=180)
        self.frames = [world[key] for key in world.keys()]
        self.count = count

    def keys(self) -> list[str]:
        return [f"rolled-{number}" for number in range(self.count)]

    def __getitem__(self, key: str) -> Case:
        number = int(key.removeprefix("rolled-"))
        of = self.frames[number % len(self.frames)]
        pixels = np.roll(of.inputs["camera"].pixels, number, axis=1)
        return Case(key, {"camera": Image(pixels)}, of.truth[:1], group=key)

    def fingerprint(self) -> str:
        return f"rolled {self.count}"


def campaign(drives: int) -> Campaign:
    whole = demo()
    rules = tuple(rule for rule in whole.rules if rule.name != another_sky().name)  # these frames have no scene
    return replace(whole, source=Rolled(drives), system=dave_2(), rules=rules)


def dave_2() -> TorchSystem:
    """The untrained network on which DeepTest's and TACTIC's models are based; 0° is its output on a grey image."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        sizes = ((3, 24, 5, 2), (24, 36, 5, 2), (36, 48, 5, 2), (48, 64, 3, 1), (64, 64, 3, 1))
        convolutions = [part for into, out, size, step in sizes for part in (nn.Conv2d(into, out, size, step), nn.ELU())]
        widths = (1152, 100, 50, 10)
        dense = [part for into, out in pairwise(widths) for part in (nn.Linear(into, out), nn.ELU())]
        net = nn.Sequential(*convolutions, nn.Flatten(), *dense, nn.Linear(10, 1))
    with torch.inference_mode():
        straight = float(net(torch.zeros(1, 3, 66, 200)))
    return TorchSystem(net, read, lambda row: Steering((float(row) - straight) * DEGREES))


def read(case: Case) -> torch.Tensor:
    small = cv2.resize(case.inputs["camera"].pixels, (200, 66), interpolation=cv2.INTER_AREA)
    return torch.from_numpy(small).permute(2, 0, 1).float() / 127.5 - 1


def whole(given: Campaign, keep: int | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Forced, as the rounding of the network's output is enlarged with it, beyond what the checks take for rounding.
        run_into(Loaded(given, Path(folder)), Path(folder) / "run", force=True, keep=keep)


def bare(given: Campaign) -> None:
    """Only the same frames, changes, batches and forward passes."""
    source, system, size = given.source, given.system, given.inference_batch
    cases = [source[key] for key in source.keys()]
    for start in range(0, len(cases), size):
        system(cases[start : start + size])
    changes = [change for rule in given.rules for change in rule.change.grid()]
    threads = Threads()
    for case in cases:
        again = source[case.key]  # a campaign reads it again too
        for start in range(0, len(changes), size):
            followups = threads.map(lambda change, of=again: change(of), changes[start : start + size])
            system([item for item in followups if given.gate is None or given.gate.admit(again, item) is None])


def peak_megabytes(drives: int) -> float:
    """The peak memory of a campaign in its own process."""
    command = [sys.executable, __file__, "--peak", "--drives", str(drives)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def own_peak() -> float:
    # Not getrusage, which includes the peak of the parent process.
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--drives", type=int, default=143, help="frames; each gives 140 trials")
    parser.add_argument("--only", choices=("time", "memory"))
    parser.add_argument("--peak", action="store_true", help="run once and print the peak memory in MB")
    options = parser.parse_args()
    settle_threads()
    if options.peak:
        whole(campaign(options.drives))
        print(own_peak())
        return 0
    rows = [] if options.only == "memory" else timed(options.drives, options.repeats)
    rows += [] if options.only == "time" else [memory()]
    print(json.dumps(rows) if options.json else table(rows))
    return 0


def timed(drives: int, repeats: int) -> list[dict[str, Any]]:
    given = campaign(drives)
    whole(campaign(2)), bare(campaign(2))  # warm up
    taken: dict[str, list[float]] = {name: [] for name in ("bare", *KEEPS)}
    for _ in range(repeats):
        taken["bare"].append(cpu_seconds(lambda: bare(given)))
        for name, (keep, _) in KEEPS.items():
            taken[name].append(cpu_seconds(lambda keep=keep: whole(given, keep)))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    peer = {"peer": "bare work", "peer_seconds": medians["bare"]}
    return [
        {"name": f"CPU s, {drives * 140:,} trials, {name}", "ours": medians[name], **peer}
        | {"ratio": medians[name] / medians["bare"], "goal": goal}
        for name, (_, goal) in KEEPS.items()
    ]


def memory() -> dict[str, Any]:
    small, large = peak_megabytes(8), peak_megabytes(143)
    name = "peak MB, not seconds, 20,020 trials"
    row = {"name": name, "ours": large, "peer": "1,120 trials", "peer_seconds": small, "ratio": large / small}
    return {**row, "goal": MEMORY}


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'':36}{'ours':>10}{'peer':>10}{'ratio':>8}"]
    for row in rows:
        numbers = f"{row['ours']:10.2f}{row['peer_seconds']:10.2f}{row['ratio']:8.3f}"
        lines.append(f"{row['name']:36}{numbers}  compared with {row['peer']}, {at_most(row['ratio'], row['goal'])}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
