"""Coverage equals slow code written from the papers' definitions, on random networks; and R62 holds for its unions."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from swerve.core.case import Case
from swerve.core.system import Activations, Traced
from swerve.core.values import Image, Steering
from swerve.coverage.bits import Bits
from swerve.coverage.criterion import Coverage, Criterion, start
from swerve.coverage.layers import DEFAULT, Layer, Layout, layout_of
from swerve.coverage.neuron import NC, TopK
from swerve.coverage.profile import Profile, Ranges, measure
from swerve.coverage.profiled import KMNC, NBC, SNAC
from swerve.systems.probe import probe
from swerve.systems.torch import TorchSystem
from swerve.testing import FakeSource

EXAMPLES = 10_000 if os.environ.get("SWERVE_SOAK") else 300
CRITERIA: tuple[Criterion, ...] = (NC(), NC(0.5), TopK(2), SNAC(), NBC(), KMNC(1000), KMNC(7))


@dataclass
class Example:
    """A network, and its layers' outputs computed by hand: per input and neuron the list of its outputs."""

    net: nn.Module
    outputs: dict[str, list[list[list[float]]]]
    traced: Traced

    @property
    def layout(self) -> Layout:
        kinds = {name: part.kind for name, part in self.traced.layers.items()}
        return Layout(DEFAULT, tuple(Layer(name, kinds[name], len(rows[0])) for name, rows in self.outputs.items()))


def units(output: torch.Tensor, steps: bool = False) -> list[list[list[float]]]:
    """The numbers of every neuron: of a map all its pixels, of a step and unit its one output."""
    rows = output.detach().double()
    flat = rows.flatten(1)[..., None] if steps else rows.reshape(*rows.shape[:2], -1)
    return flat.tolist()


def convolutional(rng: np.random.Generator, inputs: int) -> Example:
    one, two, wide = (int(number) for number in rng.integers(2, 7, 3))
    net = nn.Sequential(
        nn.Conv2d(3, one, 3), nn.ReLU(), nn.Conv2d(one, two, 2), nn.ELU(), nn.Flatten(), nn.Linear(two * 16, wide)
    )
    batch = torch.from_numpy(rng.normal(0, 1, (inputs, 3, 7, 7)).astype(np.float32))
    outputs = {"0": units(net[:2](batch)), "2": units(net[:4](batch)), "5": units(net(batch))}
    return Example(net, outputs, Traced([], probe(net, batch, ["0", "2", "5"])[1]))


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm, self.dense = nn.LSTM(3, width, batch_first=True), nn.Linear(width, 4)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.dense(self.lstm(batch)[0][:, -1]))


def recurrent(rng: np.random.Generator, inputs: int) -> Example:
    net = Recurrent(int(rng.integers(2, 6)))
    batch = torch.from_numpy(rng.normal(0, 1, (inputs, 5, 3)).astype(np.float32))
    outputs = {"lstm": units(net.lstm(batch)[0], steps=True), "dense": units(net(batch))}
    return Example(net, outputs, Traced([], probe(net, batch, ["lstm", "dense"])[1]))


def example(kind, seed: int, inputs: int = 12) -> Example:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(np.random.default_rng(seed), inputs)


def value(numbers: list[float]) -> float:
    return float(np.float32(sum(numbers) / len(numbers)))


def ranges_of(seen: Example) -> Ranges:
    """The extremes over the inputs, in the precision of the network, one neuron after the other."""
    columns = [[value(row[n]) for row in rows] for rows in seen.outputs.values() for n in range(len(rows[0]))]
    return Ranges(np.array([min(column) for column in columns]), np.array([max(column) for column in columns]))


def plain_regions(criterion: Criterion, layer: list[list[float]], neuron: int, low: float, high: float) -> set[int]:
    """The regions of one neuron that one input covers, by the papers' words, with our slack at the bounds."""
    own = value(layer[neuron])
    every = [number for numbers in layer for number in numbers]
    slack = 1e-6 * max(0.0, *every) - 1e-6 * min(0.0, *every)
    if isinstance(criterion, NC):
        span = max(every) - min(every)
        scaled = [(number - min(every)) / span if span else 0.0 for number in layer[neuron]]
        return {0} if sum(scaled) / len(scaled) > criterion.threshold else set()
    if isinstance(criterion, TopK):
        ranked = sorted(range(len(layer)), key=lambda other: (-value(layer[other]), other))
        return {0} if neuron in ranked[: criterion.k] else set()
    if isinstance(criterion, NBC):
        return {region for region, beyond in enumerate((low - own > slack, own - high > slack)) if beyond}
    if isinstance(criterion, SNAC):
        return {0} if own - high > slack else set()
    assert isinstance(criterion, KMNC)
    if low == high or low - own > slack or own - high > slack:
        return set()
    place = min(max(own, low), high)
    return {min(math.floor((place - low) / (high - low) * criterion.sections), criterion.sections - 1)}


def plain_cover(criterion: Criterion, seen: Example, known: Ranges) -> list[set[int]]:
    inputs = len(next(iter(seen.outputs.values())))
    covered: list[set[int]] = [set() for _ in range(inputs)]
    first = 0
    for rows in seen.outputs.values():
        for index, layer in enumerate(rows):
            for neuron in range(len(layer)):
                bounds = float(known.low[first + neuron]), float(known.high[first + neuron])
                found = plain_regions(criterion, layer, neuron, *bounds)
                covered[index] |= {(first + neuron) * criterion.regions + region for region in found}
        first += len(rows[0])
    return covered


@pytest.mark.parametrize("kind", [convolutional, recurrent])
@pytest.mark.parametrize("criterion", CRITERIA, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_coverage_equals_plain_code(kind, criterion: Criterion, seed: int) -> None:
    seen = example(kind, seed)
    # Ranges of another batch of the same network, so that values fall below, inside and above.
    known = ranges_of(seen)
    narrow = Ranges(known.low + 0.1 * (known.high - known.low), known.high - 0.1 * (known.high - known.low))
    coverage = start(criterion, seen.layout, Profile(seen.layout, narrow, 1, "system", "source"))
    wanted = plain_cover(criterion, seen, narrow)
    assert [set(bits.numbers()) for bits in coverage.each(seen.traced)] == wanted
    assert set(coverage.touched(seen.traced).numbers()) == set().union(*wanted)
    assert any(wanted)


def at_the_bounds(seed: int, inputs: int = 40, neurons: int = 12) -> tuple[Example, Ranges]:
    """Numbers given by hand, most of them within three slacks of a bound on either side, and rows of very unlike spans."""
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.normal(0, 1, (2, neurons)).astype(np.float32).astype(float), axis=0)
    scale = 10.0 ** rng.uniform(0, 3, (inputs, 1))
    values = np.where(rng.random((inputs, neurons)) < 0.5, low, high) + 1e-6 * scale * rng.uniform(-3, 3, (inputs, neurons))
    values[:, :1] = scale
    values = values.astype(np.float32)
    layer = Activations("dense", values, values.min(axis=1), values.max(axis=1))
    return Example(nn.Identity(), {"dense": values[..., None].tolist()}, Traced([], {"dense": layer})), Ranges(low, high)


@pytest.mark.parametrize("criterion", [SNAC(), NBC(), KMNC(1000), KMNC(7)], ids=repr)
@pytest.mark.parametrize("seed", range(6))
def test_slack_equals_plain_code(criterion: Criterion, seed: int) -> None:
    seen, known = at_the_bounds(seed)
    coverage = start(criterion, seen.layout, Profile(seen.layout, known, 1, "system", "source"))
    wanted = plain_cover(criterion, seen, known)
    assert [set(bits.numbers()) for bits in coverage.each(seen.traced)] == wanted
    assert set(coverage.touched(seen.traced).numbers()) == set().union(*wanted)
    assert any(wanted)


# A network whose sums are long enough that torch rounds them in another order for another batch size.
PICTURES = FakeSource(count=70)


def read(case: Case) -> torch.Tensor:
    image = case.inputs["camera"]
    assert isinstance(image, Image)
    return torch.from_numpy(image.pixels.copy()).permute(2, 0, 1) / 255 - 0.5


def rounding() -> TorchSystem:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        wide = (nn.Flatten(), nn.Linear(16 * 48, 600), nn.ReLU(), nn.Linear(600, 300), nn.ELU(), nn.Linear(300, 200))
        net = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d((6, 8)), *wide)
    return TorchSystem(net, read, lambda row: Steering(float(row[0])))


@pytest.mark.parametrize("traced_at", [1, 3, 32])
@pytest.mark.parametrize("profiled_at", [1, 32])
def test_batch_size_makes_no_corner(traced_at: int, profiled_at: int) -> None:
    system, cases = rounding(), [PICTURES[key] for key in PICTURES.keys()]
    layout = layout_of(system, cases[0])
    profile = measure(system, PICTURES, layout, batch=profiled_at)
    beyond, above, within = (start(criterion, layout, profile) for criterion in (NBC(), SNAC(), KMNC()))
    for first in range(0, len(cases), traced_at):
        traced = system.trace(cases[first : first + traced_at], layout.names)
        beyond, above, within = beyond.record(traced), above.record(traced), within.record(traced)
    assert (beyond.covered, above.covered) == (0, 0)
    sections = within.bits.flags().reshape(layout.neurons, -1)[~profile.ranges.constant()]
    assert sections[:, [0, -1]].all()  # the inputs that gave the bounds are in the end sections


# R62, on batches of small integers, where ties, bounds and constant layers are common.
WIDTHS = (3, 2)
LAYOUT = Layout(DEFAULT, tuple(Layer(f"layer{index}", "dense", width) for index, width in enumerate(WIDTHS)))
KNOWN = Profile(LAYOUT, Ranges(np.array([0.0, 1, 2, 0, 0]), np.array([3.0, 2, 2, 1, 3])), 1, "system", "source")
rows = st.lists(st.integers(-1, 4), min_size=sum(WIDTHS), max_size=sum(WIDTHS))
batches = st.lists(st.lists(rows, min_size=1, max_size=3), max_size=4)


def batch_of(numbers: list[list[int]]) -> Traced:
    whole = np.array(numbers, np.float32)
    parts = np.split(whole, np.cumsum(WIDTHS)[:-1], axis=1)
    return Traced([], {f"layer{i}": Activations("dense", p, p.min(axis=1), p.max(axis=1)) for i, p in enumerate(parts)})


def empty(criterion: Criterion) -> Coverage:
    return start(criterion, LAYOUT, KNOWN)


def recorded(criterion: Criterion, given: list[list[list[int]]]) -> Coverage:
    coverage = empty(criterion)
    for numbers in given:
        coverage = coverage.record(batch_of(numbers))
    return coverage


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.sampled_from((NC(), TopK(1), SNAC(), NBC(), KMNC(4))), batches, batches, st.randoms(use_true_random=False))
def test_shards_merge_to_one_run(criterion, left, right, random) -> None:
    whole = recorded(criterion, left + right)
    shuffled = [[row] for numbers in left + right for row in numbers]
    random.shuffle(shuffled)
    assert recorded(criterion, left) | recorded(criterion, right) == whole
    assert recorded(criterion, right) | recorded(criterion, left) == whole
    assert recorded(criterion, shuffled) == whole
    sent = [empty(criterion).delta(batch_of(numbers)).to_bytes() for numbers in left + right]
    merged = empty(criterion)
    for data in sent:
        merged |= Bits.from_bytes(data)
    assert merged == whole


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.sampled_from((NC(), TopK(1), SNAC(), NBC(), KMNC(4))), batches, st.lists(rows, min_size=1, max_size=3))
def test_coverage_only_grows(criterion, before, numbers) -> None:
    coverage = recorded(criterion, before)
    delta, after = coverage.delta(batch_of(numbers)), coverage.record(batch_of(numbers))
    assert not delta & coverage.bits
    assert after.bits == coverage.bits | delta
    assert after.covered == coverage.covered + len(delta) <= after.total
    assert not after.delta(batch_of(numbers))
