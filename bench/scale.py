"""How much faster two workers finish a campaign than one: CPU-bound, one thread each for torch, OpenCV and changes.

Runs alternate (one worker, two, one, two, …) so that other load affects both alike; the medians are compared. On a busy
machine the ratio says more about the machine than about Swerve: `idle` measures the speed-up of a bare loop on two cores.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from swerve.config.toml import load_campaign
from swerve.execution.launch import run_into

ROUNDS = 5
GOAL = 1.7
CAMPAIGN = """
seed = 7
inference_batch = 16
[source]
use = "swerve.testing:FakeSource"
count = 64
width = 640
height = 360
[system]
use = "dave-orig"
[[rule]]
name = "turned"
change = { use = "rotate", degrees = [1, 30] }
expect = { use = "same-angle", within = 10 }
[[rule]]
name = "fog"
change = { use = "fog", visibility = [30, 300] }
expect = { use = "same-angle", within = 10 }
[[rule]]
name = "blurred"
change = { use = "bilateral-blur" }
expect = { use = "same-angle", within = 10 }
[search]
use = "sweep"
per_case = 6
"""


def seconds(folder: Path, workers: int) -> float:
    """Wall-clock seconds of one run, including the start of its workers."""
    file = folder / "campaign.toml"
    file.write_text(CAMPAIGN)
    into = folder / f"run-{workers}"
    shutil.rmtree(into, ignore_errors=True)
    started = time.perf_counter()
    run_into(load_campaign(str(file)), into, workers=workers)
    return time.perf_counter() - started


def spin(count: int) -> float:
    """Seconds of a bare loop."""
    started = time.perf_counter()
    for _ in range(count):
        pass
    return time.perf_counter() - started


def idle() -> float:
    """The speed-up of two bare loops in parallel over one after the other; 2 on two idle cores."""
    count = 20_000_000
    alone = spin(count)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        together = max(pool.map(spin, [count, count]))
    return 2 * alone / together


def main() -> None:
    """Print the medians and their ratio."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        one, two, free = [], [], []
        for _ in range(ROUNDS):
            free.append(idle())
            one.append(seconds(Path(folder), 1))
            two.append(seconds(Path(folder), 2))
    alone, together = statistics.median(one), statistics.median(two)
    verdict = "goal met" if alone / together >= GOAL else "below the goal"
    print(f"one worker {alone:.1f} s, two {together:.1f} s: {alone / together:.2f} times faster ({verdict}: {GOAL})")
    print(f"two bare loops at the same time: {statistics.median(free):.2f} times faster than one after the other")


if __name__ == "__main__":
    main()
