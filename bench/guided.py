"""DeepTest's guided search compared with its bare work: the same changes, gate, forward passes and coverage in a loop.

The loop makes the tries of a finished search once more, with nothing but what its algorithm needs: it keeps the images on
the stack, applies two changes to one, asks whether the result is legible, runs the network once for answer and activations,
and adds the covered neurons to those known. The campaign also checks itself before the first try, draws the changes, detects
writes into inputs, hashes inputs, judges, commits every try, asks findings again and writes tables. CPU time, interleaved
repeats, medians. Tries that the gate refuses count too; they reach no network on either side.

    python bench/guided.py [--json] [--repeats N] [--tries N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from goals import at_most
from overhead import Rolled, cpu_seconds
from swerve.config.toml import Loaded
from swerve.core.campaign import Campaign
from swerve.core.case import Case
from swerve.core.transformation import Chain, Transformation
from swerve.coverage.criterion import start
from swerve.coverage.layers import DEFAULT, layout_of
from swerve.coverage.neuron import NC
from swerve.execution.executors.cores import settle_threads
from swerve.execution.launch import run_into
from swerve.methods.deeptest import GUIDED, OWN, deeptest
from swerve.store.view import Run
from swerve.zoo.steering import DaveOrig

GOAL = 1.8
FRAMES = 40
Try = tuple[str, tuple[Transformation, ...]]  # the case, and all its changes


def campaign(tries: int) -> Campaign:
    return deeptest(Rolled(FRAMES), DaveOrig(), search=GUIDED, against=OWN, budget=tries, seed=7)


def whole(given: Campaign, into: Path | None = None) -> None:
    """The campaign with everything but its pictures and its report."""
    with tempfile.TemporaryDirectory() as folder:
        run_into(Loaded(given, Path(folder)), into or Path(folder) / "run", pictures=False)


def tries_of(run: Run) -> list[Try]:
    """Every try of a finished search, those that the gate refused included."""
    found = []
    for row in run.trials():
        change = run.builder().change(row["change"])
        assert isinstance(change, Chain)
        found.append((row["case"], change.steps))
    return found


def bare(given: Campaign, tries: Sequence[Try]) -> int:
    """The covered neurons after all tries."""
    source, system = given.source, given.system
    cases = {key: source[key] for key in source.keys()}
    layout = layout_of(system, next(iter(cases.values())), counting=DEFAULT)
    coverage = start(NC(), layout)
    for begin in range(0, len(cases), given.inference_batch):
        coverage = coverage.record(system.trace(list(cases.values())[begin : begin + given.inference_batch], layout.names))
    images: dict[Try, Case] = {(key, ()): case for key, case in cases.items()}
    for key, steps in tries:
        followup = Chain(steps[-2:])(images[key, steps[:-2]])
        if given.gate is not None and given.gate.admit(cases[key], followup) is not None:
            continue
        seen = coverage.touched(system.trace([followup], layout.names))
        if seen - coverage.bits:
            coverage = coverage | seen
            images[key, steps] = followup
    return coverage.covered


def measure(tries: int, repeats: int) -> dict[str, object]:
    given = campaign(tries)
    with tempfile.TemporaryDirectory() as folder:
        whole(given, Path(folder) / "run")
        run = Run(Path(folder) / "run")
        made, covered = tries_of(run), json.loads((run.folder / "summary.json").read_text())["coverage"]["NC"]["covered"]
        assert bare(given, made) == covered, "both must cover the same neurons"
    pairs = [(cpu_seconds(lambda: whole(given)), cpu_seconds(lambda: bare(given, made))) for _ in range(repeats)]
    ours, peer = (statistics.median(side) for side in zip(*pairs, strict=True))
    of = {"name": f"guided search, {len(made):,} tries, {tries:,} answered", "tries": len(made), "goal": GOAL}
    return {**of, "ours": ours, "peer": "bare work", "peer_seconds": peer, "ratio": ours / peer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tries", type=int, default=1000)
    options = parser.parse_args()
    settle_threads()
    row = measure(options.tries, options.repeats)
    if options.json:
        print(json.dumps([row]))
        return
    ratio, each = float(row["ratio"]), 1000 / row["tries"]
    print(f"{row['name']}: {row['ours'] * each:.2f} CPU ms a try, bare work {row['peer_seconds'] * each:.2f}: {ratio:.2f}")  # type: ignore[operator]
    print(at_most(ratio, GOAL))


if __name__ == "__main__":
    sys.exit(main())
