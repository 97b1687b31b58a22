"""How far a campaign scales: several workers against one, here and on a local Ray cluster, and what the parent can commit.

The runs of `speed-up` are CPU-bound, with one thread each for torch, OpenCV and changes. They take turns (one worker, two,
four, Ray), so that other load affects all alike; medians of wall-clock seconds are compared, start of the workers and of Ray
included. What the machine itself gives is measured beside them: bare loops in as many processes, against one by one.

`parent` has a worker that costs nothing: it replies with rows that another run has made, as worker processes send them. What
is left is the work of the parent alone, which reads replies, asks, writes the journal with one fsync per ask, counts and
tells; with as many rows per second, more workers stop being of use.

    python bench/scale.py [--json] [--rounds N] [--only speed-up|parent]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goals import at_least
from swerve.config.toml import load_campaign
from swerve.execution.engine import run
from swerve.execution.executors.worker_pool import WorkerPool
from swerve.execution.launch import open_run, run_into
from swerve.store.record_json import BASELINE, REPEAT, TRIAL
from swerve.store.view import JOURNAL, Run

WORKERS = (2, 4)
GOAL = 1.7  # of two workers, on two idle cores
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
MANY = """
seed = 7
inference_batch = 16
[source]
use = "swerve.testing:FakeSource"
count = 200
[system]
use = "swerve.testing:FakeSystem"
bias = 0.2
[[rule]]
name = "brighter"
change = { use = "brighten", beta = [1, 40] }
expect = { use = "same-angle", within = 35 }
[[rule]]
name = "turned"
change = { use = "rotate", degrees = [1, 30] }
expect = { use = "same-angle", within = 25 }
[search]
use = "sweep"
per_case = 50
"""  # 20,000 trials


def seconds(folder: Path, workers: int, on: str | None = None) -> float:
    """Wall-clock seconds of one run, including the start of its workers."""
    file = folder / "campaign.toml"
    file.write_text(CAMPAIGN)
    into = folder / "run"
    shutil.rmtree(into, ignore_errors=True)
    started = time.perf_counter()
    run_into(load_campaign(str(file)), into, workers=workers, on=on)
    return time.perf_counter() - started


def spin(count: int) -> float:
    """Seconds of a bare loop."""
    started = time.perf_counter()
    for _ in range(count):
        pass
    return time.perf_counter() - started


def idle(processes: int) -> float:
    """The speed-up of bare loops in parallel over one after the other; as many as there are processes, on idle cores."""
    count = 20_000_000
    alone = spin(count)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        together = max(pool.map(spin, [count] * processes))
    return processes * alone / together


def speed_ups(rounds: int) -> list[dict[str, Any]]:
    """What two and four workers, and two on a Ray cluster of this machine, gain over one."""
    ways: dict[str, tuple[int, str | None]] = {f"{n} workers": (n, None) for n in WORKERS}
    ways |= {"2 workers on Ray": (2, "ray")}
    alone: list[float] = []
    taken: dict[str, list[float]] = {name: [] for name in ways}
    free: dict[int, list[float]] = {count: [] for count in WORKERS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for count in WORKERS:
                free[count].append(idle(count))
            alone.append(seconds(Path(folder), 1))
            for name, (workers, on) in ways.items():
                taken[name].append(seconds(Path(folder), workers, on))
    one = statistics.median(alone)
    return [
        {
            "name": name,
            "ours": statistics.median(taken[name]),
            "peer": "1 worker",
            "peer_seconds": one,
            "ratio": one / statistics.median(taken[name]),
            "bare_loops": statistics.median(free[workers]),
        }
        for name, (workers, _) in ways.items()
    ]


class Recorded:
    """A worker that replies with rows of an earlier run, at once."""

    def __init__(self, texts: Mapping[tuple[Any, ...], str]) -> None:
        self._texts = texts

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """The rows of a batch, through JSON on both ways as between processes."""
        sent = json.loads(json.dumps(question))
        kind = {"observe": BASELINE, "evaluate": TRIAL, "repeat": REPEAT}[sent["ask"]]
        keys = [(kind, item) if kind == BASELINE else (kind, *item[:3]) for item in sent["items"]]
        reply: Mapping[str, Any] = json.loads(f'{{"rows":[{",".join(self._texts[key] for key in keys)}]}}')
        return reply

    def close(self) -> None:
        """Nothing has to end."""


def rows_of(folder: Path) -> dict[tuple[Any, ...], str]:
    """The rows of a finished run as the texts that workers would send."""
    texts = {}
    for row in [*Run(folder).rows(), *Run(folder)._repeated]:
        key = (row["kind"], row["case"]) if row["kind"] == BASELINE else (row["kind"], row["case"], row["rule"], row["draw"])
        texts[key] = json.dumps(row)
    return texts


def parent() -> dict[str, Any]:
    """What the parent can commit: rows per second and CPU seconds, and the bytes that they take."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "campaign.toml"
        file.write_text(MANY)
        loaded = load_campaign(str(file))
        run_into(loaded, Path(place) / "first", pictures=False)
        pool = WorkerPool(lambda: Recorded(texts), 1, source=loaded.campaign.source)
        texts, again = rows_of(Path(place) / "first"), Path(place) / "again"
        with open_run(loaded, again, executor=pool) as opened:  # type: ignore[arg-type]
            started, cpu = time.perf_counter(), time.process_time()
            summary = run(loaded.campaign, opened.store, executor=pool)
            wall, cpu = time.perf_counter() - started, time.process_time() - cpu
        pool.close()
        trials = summary.overall.counts.total()
        assert (again / JOURNAL).read_bytes() == (Path(place) / "first" / JOURNAL).read_bytes()
        size = (again / JOURNAL).stat().st_size
    return {
        "name": f"parent alone, {trials:,} trials",
        "rows_per_second": trials / wall,
        "rows_per_cpu_second": trials / cpu,
        "bytes_per_trial": size / trials,
    }


def main() -> None:
    """Print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("speed-up", "parent"))
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    faster = [] if options.only == "parent" else speed_ups(options.rounds)
    committed = [] if options.only == "speed-up" else [parent()]
    if options.json:
        print(json.dumps([*faster, *committed]))
        return
    for row in faster:
        told = f"{row['name']:18}{row['ours']:8.1f} s, one {row['peer_seconds']:.1f} s: {row['ratio']:.2f} times faster"
        goal = at_least(row["ratio"], GOAL) if row["name"] == f"{WORKERS[0]} workers" else ""
        print(f"{told}; bare loops {row['bare_loops']:.2f}  {goal}".rstrip())
    for row in committed:
        rates = f"{row['rows_per_second']:,.0f} rows/s, {row['rows_per_cpu_second']:,.0f} per CPU second"
        print(f"{row['name']}: {rates}, {row['bytes_per_trial']:.0f} bytes of journal a trial")


if __name__ == "__main__":
    main()
