"""Sets of neurons, image by image."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.analysis.neurons import Sets, SubModels, distances, followups, originals, size_of
from swerve.core.campaign import Observation
from swerve.core.errors import InputError
from swerve.coverage.bits import Bits
from swerve.coverage.layers import DEFAULT, Layer, Layout
from swerve.coverage.meter import encode_bits

SIZE = 21
sets_of_numbers = st.lists(st.frozensets(st.integers(0, SIZE - 1)), min_size=1, max_size=12)


def gain(numbers: frozenset[int] | set[int], size: int = SIZE) -> dict:
    return {"NC": encode_bits(Bits.of(numbers, size), size)}


def made(numbers: list[frozenset[int]]) -> Sets:
    return Sets.of((place, gain(one)) for place, one in enumerate(numbers))


def test_golden_distances() -> None:
    one, other = (made([frozenset(numbers)]).packed for numbers in ({1, 2, 3}, {2, 3, 4}))
    assert distances(one, other).tolist() == [0.5]  # A.8
    assert distances(one * 0, other * 0).tolist() == [0.0]
    assert distances(one, other * 0).tolist() == [1.0]


@given(sets_of_numbers, sets_of_numbers)
def test_sets_are_sets(first: list[frozenset[int]], second: list[frozenset[int]]) -> None:
    sets = made(first)
    assert sets.counts().tolist() == [len(one) for one in first]
    assert sets.covered() == len(frozenset.union(*first))
    assert size_of(sets.shared()) == len(frozenset.intersection(*first))
    assert size_of(sets.only([]).shared()) == 0
    start = frozenset.union(*second)
    running, grown = set(start), []
    for one in first:
        running |= one
        grown.append(len(running))
    assert sets.growth(made(second).union()).tolist() == grown
    pairs = list(zip(first, second, strict=False))
    exact = [1 - len(a & b) / len(a | b) if a | b else 0.0 for a, b in pairs]
    assert distances(made(first).packed[: len(pairs)], made(second).packed[: len(pairs)]) == pytest.approx(exact)


@given(sets_of_numbers, st.frozensets(st.integers(0, SIZE - 1)))
def test_sub_model_has_its_own_neurons_alone(first: list[frozenset[int]], part: frozenset[int]) -> None:
    members = np.array([number in part for number in range(SIZE)])
    assert made(first).under(members).counts().tolist() == [len(one & part) for one in first]


def test_images_keep_their_names() -> None:
    seen = [Observation("a", "", gain=gain({1})), Observation("b", "", gain=None), Observation("c", "", gain=gain({2, 3}))]
    assert originals(seen).keys == ("a", "c")
    rows = [{"case": "a", "rule": "r", "draw": 4, "gain": gain({1, 2})}, {"case": "a", "rule": "r", "draw": 5, "gain": None}]
    told = followups(rows)
    assert (told.keys, told.counts().tolist()) == ((("a", "r", 4),), [2])
    assert made([frozenset({1}), frozenset({2})]).only([1]).keys == (1,)
    assert size_of(told.union()) == 2


def test_runs_without_coverage_and_mixed_networks_are_refused() -> None:
    with pytest.raises(InputError, match="without coverage"):
        Sets.of([("a", None)])
    with pytest.raises(InputError, match=r"coverage of different sizes \(\[21, 22\] neurons\)"):
        Sets.of([("a", gain({1})), ("b", gain({1}, 22))])


def test_parts_are_the_sub_models_that_names_tell() -> None:
    layers = [("cnn.a", 3), ("cnn.b", 2), ("lstm.cells", 4), ("lstm.dense", 1)]
    parts = SubModels.of(Layout(DEFAULT, tuple(Layer(name, "dense", size) for name, size in layers)))
    assert {name: int(members.sum()) for name, members in parts} == {"": 10, "cnn": 5, "lstm": 5}
    plain = SubModels.of(Layout(DEFAULT, (Layer("conv1", "convolution", 3), Layer("fc.1", "dense", 2))))
    assert [name for name, _ in plain] == [""]
    one = SubModels.of(Layout(DEFAULT, (Layer("net.a", "dense", 3), Layer("net.b", "dense", 2))))
    assert [name for name, _ in one] == [""]  # a single stem is the whole
