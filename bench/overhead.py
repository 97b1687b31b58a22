"""What a campaign costs beyond its transforms and forward passes, and how its memory grows.

Both sides make the same changes to the same frames, in the same batches and threads, and ask the same network. The
campaign also proposes, checks, hashes, journals with one fsync per ask, keeps its best findings and writes its tables;
the HTML report is left out. CPU time, interleaved repeats, medians.

    python bench/overhead.py [--json] [--repeats N] [--drives N]
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from swerve.campaign import Campaign
from swerve.engine import TRANSFORM_THREADS
from swerve.execute.local import run_into, settle_threads
from swerve.methods.demo import demo
from swerve.sources.roads import Roads
from swerve.spec import Loaded

LIMIT = 1.15


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def campaign(drives: int) -> Campaign:
    return replace(demo(), source=Roads(drives=drives, frames=1))


def whole(given: Campaign) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_into(Loaded(given, Path(folder)), Path(folder) / "run")


def bare(given: Campaign) -> None:
    """The same frames, changes, batches and passes, and nothing else."""
    source, system, size = given.source, given.system, given.inference_batch
    cases = [source[key] for key in source.keys()]  # noqa: SIM118 - a Source is not a dict
    for start in range(0, len(cases), size):
        system(cases[start : start + size])
    changes = [change for rule in given.rules for change in rule.change.grid()]
    with ThreadPoolExecutor(TRANSFORM_THREADS) as threads:
        # As many whole cases in a row as the sweep asks for, read again as the campaign reads them again.
        for case in cases:
            again = source[case.key]
            for start in range(0, len(changes), size):
                made = threads.map(lambda change, of=again: change(of), changes[start : start + size])
                admitted = [item for item in made if given.gate is None or given.gate.admit(again, item) is None]
                system(admitted)


def peak_megabytes(drives: int) -> float:
    """The peak memory of a campaign in a process of its own."""
    code = (
        "import sys, resource, bench.overhead as b; b.settle_threads(); b.whole(b.campaign(int(sys.argv[1])));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code, str(drives)], cwd=root, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--drives", type=int, default=20, help="frames; each gives 140 trials")
    parser.add_argument("--no-memory", action="store_true")
    options = parser.parse_args()
    settle_threads()
    given = campaign(options.drives)
    whole(campaign(2)), bare(campaign(2))  # warm up
    pairs = [(cpu_seconds(lambda: whole(given)), cpu_seconds(lambda: bare(given))) for _ in range(options.repeats)]
    ours, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
    rows = [{"name": "campaign", "ours": ours, "peer": "bare", "peer_seconds": peer, "ratio": ours / peer}]
    if not options.no_memory:
        small, large = peak_megabytes(8), peak_megabytes(143)
        rows.append({"name": "peak MB, 20,020 vs 1,120 trials", "ours": large, "peer": small, "peer_seconds": None, "ratio": large / small})
    print(json.dumps(rows) if options.json else table(rows))
    return 0


def table(rows: list[dict[str, object]]) -> str:
    lines = [f"{'':34}{'ours':>10}{'bare':>10}{'ratio':>8}"]
    for row in rows:
        other = row["peer_seconds"] if row["peer_seconds"] is not None else row["peer"]
        lines.append(f"{row['name']:34}{row['ours']:10.2f}{other:10.2f}{row['ratio']:8.3f}")
    return "\n".join([*lines, f"goal: campaign ≤ {LIMIT}, memory about 1"])


if __name__ == "__main__":
    sys.exit(main())
