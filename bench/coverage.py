"""Neuron coverage compared with dnn-tip 0.1.1, on 5000 neurons x 1000 inputs in single precision.

Both sides get the same numbers and must cover the same number of regions. The numbers are chosen so that the definitions
agree: each input ranges from 0 to 1 (dnn-tip compares unscaled activations with its threshold, we scale them), values lie
between the points of a binary grid (dnn-tip's sections are inexact elsewhere), and none is at a bound (dnn-tip counts the
bound itself as beyond it, and loses the upper end of the last section) or within our slack of it.

Our time includes the union over the inputs and the check for numbers that are not finite; dnn-tip leaves the union to its
caller, and its time here does not include it. Our criteria need the span of each input, its smallest and largest number: NC
for scaling, the others for their slack. dnn-tip does not need it. A trace computes the spans once for all criteria: rows
"with spans" include that in the timing, the others do not. NC does not check an active neuron again, and here nearly all
are active soon; where few are, it takes a millisecond longer. dnn-tip's KMNC gets 50 inputs at a time, as 1000 at once take
5 GB. CPU time, interleaved repeats, medians.

    python bench/coverage.py [--json] [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from dnn_tip import neuron_coverage as peer

from goals import at_most
from swerve.core.system import Traced
from swerve.core.values import Array
from swerve.coverage.bits import Bits
from swerve.coverage.criterion import Criterion, start
from swerve.coverage.layers import DEFAULT, Layer, Layout, Spanned
from swerve.coverage.neuron import NC
from swerve.coverage.profile import Profile, Ranges
from swerve.coverage.profiled import KMNC, NBC
from swerve.systems.probe import span

NEURONS, INPUTS, SECTIONS = 5000, 1000, 1000
GRID = 1 << 18  # a section is 256 grid steps wide, and half a step is more than our slack
GOALS = {"NC": 1.0, "NBC": 1.0, "KMNC": 1 / 500}

Side = Callable[[], Array]


def cpu_seconds(work: Callable[[], object]) -> float:
    start_at = time.process_time()
    work()
    return time.process_time() - start_at


def values() -> Array:
    """Half steps of the grid from 0 to 1, none at the edge of a section; the first neuron is 0 and the second 1."""
    steps = np.random.default_rng(7).integers(0, GRID, (INPUTS, NEURONS))
    numbers = ((steps + 0.5) / GRID).astype(np.float32)
    numbers[:, 0], numbers[:, 1] = 0, 1
    return numbers


def ranges() -> Ranges:
    """1000 sections of 1/1024 for every neuron, with some values below and some above."""
    low = np.random.default_rng(8).integers(0, 24, NEURONS) / 1024
    low[:2] = 2 / 1024  # the two fixed values lie outside
    return Ranges(low, low + SECTIONS / 1024)


def traced(numbers: Array) -> Traced:
    """A trace of `numbers`, with spans computed as in the probe."""
    low, high = span(torch.from_numpy(numbers))
    return Traced([], {"dense": Spanned("dense", numbers, low.numpy(), high.numpy())})


def ours(criterion: Criterion, numbers: Array, known: Ranges, *, spans: bool) -> Callable[[], Bits]:
    layout = Layout(DEFAULT, (Layer("dense", "dense", NEURONS),))
    coverage = start(criterion, layout, Profile(layout, known, 1, "system", "source"))
    given = traced(numbers)
    return lambda: coverage.touched(traced(numbers) if spans else given)


def theirs(name: str, numbers: Array, known: Ranges) -> tuple[Callable[[], object], Side]:
    """The call that is timed, and the covered regions."""
    bounds = [known.low.astype(np.float32)], [known.high.astype(np.float32)]
    if name == "KMNC":
        method, size = peer.KMNC(*bounds, SECTIONS), 50
    else:
        method, size = peer.NAC(0.2) if name == "NC" else peer.NBC(*bounds, [np.zeros(NEURONS)], 0.0), INPUTS
    parts = [numbers[at : at + size] for at in range(0, INPUTS, size)]

    def call() -> None:
        for part in parts:
            method([part])

    return call, lambda: np.logical_or.reduce([method([part])[1].any(axis=0) for part in parts])


def compare(criterion: Criterion, repeats: int, *, spans: bool = False) -> dict[str, Any]:
    numbers, known = values(), ranges()
    mine = ours(criterion, numbers, known, spans=spans)
    call, covered = theirs(criterion.short, numbers, known)
    expected, got = int(covered().sum()), len(mine())  # this also warms both up
    if expected != got:
        raise SystemExit(f"{criterion.short}: we cover {got:,} regions, dnn-tip {expected:,}")
    pairs = [(cpu_seconds(mine), cpu_seconds(call)) for _ in range(repeats)]
    fast, slow = (statistics.median(side) for side in zip(*pairs, strict=True))
    name = f"{criterion.short}{' with spans' if spans else ''}, {got:,} regions"
    return {"name": name, "ours": fast, "peer": "dnn-tip", "peer_seconds": slow, "ratio": fast / slow}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=21, help="repeats of NC and NBC; a seventh of them for KMNC")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [compare(criterion, options.repeats, spans=spans) for criterion in (NC(), NBC()) for spans in (False, True)]
    rows.append(compare(KMNC(SECTIONS), max(1, options.repeats // 7), spans=True))
    print(json.dumps(rows) if options.json else table(rows))
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'CPU seconds':34}{'ours':>10}{'dnn-tip':>10}{'ratio':>10}  goal"]
    for row in rows:
        goal = GOALS[str(row["name"]).replace(",", "").split()[0]]
        numbers = f"{row['ours']:10.4f}{row['peer_seconds']:10.4f}{row['ratio']:10.4f}"
        lines.append(f"{row['name']:34}{numbers}  {at_most(row['ratio'], goal)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
