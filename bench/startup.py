"""What a command costs before it has anything to do: CPU seconds, of `show` and `compare` on a run as large as the demo's.

Every command runs once before it is measured, so that Python has compiled it. The bare interpreter is measured too: a
machine on which it takes longer than here takes longer for everything.

    python bench/startup.py [--json] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goals import at_most
from swerve.config.toml import load_campaign
from swerve.execution.launch import run_into

BARE = "python -c pass"
GOALS = {"--help": 0.15, "list transformations": 0.4, "show": 0.4, "compare": 0.4}  # CPU seconds
CAMPAIGN = """
seed = 7
[source]
use = "swerve.testing:FakeSource"
count = 24
[system]
use = "swerve.testing:FakeSystem"
bias = 0.2
[[rule]]
name = "brighter"
change = { use = "brighten", beta = [1, 40] }
expect = { use = "same-angle", within = 15 }
[[rule]]
name = "turned"
change = { use = "rotate", degrees = [1, 30] }
expect = { use = "same-angle", within = 5 }
[search]
use = "sweep"
per_case = 73
"""  # 3,504 trials; the demo has 3,528


def cpu_seconds(command: Sequence[str]) -> float:
    """CPU seconds of a program and what it starts; exit codes 0 and 1 are answers of `compare`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(run: Path) -> dict[str, list[str]]:
    """Every command that is measured, by the name of its goal."""
    swerve = [sys.executable, "-m", "swerve"]
    given = {"show": [run], "compare": [run, run]}
    whole = {name: [*swerve, *name.split(), *map(str, given.get(name, ()))] for name in GOALS}
    return {BARE: [sys.executable, "-c", "pass"], **whole}


def measure(repeats: int) -> list[dict[str, Any]]:
    """The median of each command; they take turns, so that other load affects all alike."""
    with tempfile.TemporaryDirectory() as folder:
        file, run = Path(folder) / "campaign.toml", Path(folder) / "run"
        file.write_text(CAMPAIGN)
        run_into(load_campaign(str(file)), run)
        every = commands(run)
        taken: dict[str, list[float]] = {name: [] for name in every}
        for turn in range(repeats + 1):
            for name, command in every.items():
                spent = cpu_seconds(command)
                taken[name] += [spent] if turn else []  # the first compiles
    return [{"name": name, "ours": statistics.median(times), "goal": GOALS.get(name)} for name, times in taken.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    rows = measure(options.repeats)
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        verdict = at_most(row["ours"], row["goal"]) if row["goal"] else ""
        print(f"{row['name']:22}{row['ours']:8.3f} CPU s  {verdict}".rstrip())


if __name__ == "__main__":
    main()
