"""The neurons that each image activates, as bits: the coverage of images alone and together, and their distances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swerve.core.campaign import Observation
from swerve.core.errors import InputError
from swerve.core.values import Array
from swerve.coverage.layers import Layout
from swerve.coverage.meter import bits_of


@dataclass(frozen=True, eq=False)
class Sets:
    """One set of neurons per image: `packed` has a row of bits for each of `keys`, out of `size` neurons."""

    size: int
    keys: tuple[Any, ...]
    packed: Array

    @classmethod
    def of(cls, gains: Iterable[tuple[Any, Mapping[str, Any] | None]], criterion: str = "NC") -> Sets:
        """The neurons that each input covers, under its key, from the recorded `gain`; inputs without one are left out."""
        found = [(key, bits_of(gain[criterion])) for key, gain in gains if gain]
        if not found:
            raise InputError(
                "no input has its coverage recorded: the run was made without coverage; add "
                "[coverage] to the campaign and run it again"
            )
        sizes = {bits.size for _, bits in found}
        if len(sizes) > 1:
            raise InputError(
                f"the inputs of this run have coverage of different sizes ({sorted(sizes)} "
                f"neurons): the model or the coverage settings changed; run the campaign again"
            )
        return cls(sizes.pop(), tuple(key for key, _ in found), np.stack([bits.packed for _, bits in found]))

    def under(self, members: Array) -> Sets:
        """The same sets restricted to one sub-model; `members` is a boolean per neuron."""
        return Sets(self.size, self.keys, self.packed & np.packbits(members))

    def only(self, chosen: Sequence[int] | Array) -> Sets:
        """Some of the images, by index."""
        places = [int(place) for place in chosen]
        return Sets(self.size, tuple(self.keys[place] for place in places), self.packed[places])

    def counts(self) -> Array:
        """The number of neurons that each image activates."""
        return np.asarray(np.bitwise_count(self.packed).sum(axis=1, dtype=np.int64))

    def union(self) -> Array:
        """The bits of all neurons that any image activates."""
        return np.asarray(np.bitwise_or.reduce(self.packed, axis=0, initial=0), np.uint8)

    def shared(self) -> Array:
        """The bits of the neurons that every image activates; none without images."""
        every = np.bitwise_and.reduce(self.packed, axis=0, initial=np.uint8(255))
        return np.asarray(every if len(self.keys) else np.zeros_like(every), np.uint8)

    def covered(self) -> int:
        """The number of neurons that the images activate together."""
        return size_of(self.union())

    def growth(self, first: Array) -> Array:
        """The number of neurons covered after each image, including those of `first`."""
        running = np.bitwise_or.accumulate(np.vstack([first, self.packed]), axis=0)
        return np.asarray(np.bitwise_count(running).sum(axis=1, dtype=np.int64)[1:])


def size_of(bits: Array) -> int:
    """The number of set bits, that is, of neurons."""
    return int(np.bitwise_count(bits).sum())


def distances(one: Array, other: Array) -> Array:
    """The Jaccard distance of every pair of rows: 1 - |A ∩ B| / |A ∪ B|, 0 for two empty sets."""  # DT-31
    shared = np.bitwise_count(one & other).sum(axis=-1, dtype=np.float64)
    either = np.bitwise_count(one | other).sum(axis=-1, dtype=np.float64)
    return np.asarray(1 - np.divide(shared, either, out=np.ones_like(shared), where=either > 0))


def originals(baseline: Iterable[Observation]) -> Sets:
    """The sets of the untouched cases, under their keys."""
    return Sets.of((seen.case, seen.gain) for seen in baseline if not seen.fault)


def followups(rows: Iterable[Mapping[str, Any]]) -> Sets:
    """The sets of follow-ups in the order of their trials, under (case, rule, draw)."""
    return Sets.of(((row["case"], row["rule"], row["draw"]), row["gain"]) for row in rows)


def unions(sets: Sets) -> tuple[list[str], Array]:
    """The changes, and changes x images x bits: the neurons that any parameter of a change activates on an image.

    Only images with follow-ups of every change count.
    """
    rules = list(dict.fromkeys(rule for _, rule, _ in sets.keys))
    cases = list(dict.fromkeys(case for case, _, _ in sets.keys))
    places = {name: place for place, name in enumerate(rules)}, {name: place for place, name in enumerate(cases)}
    table = np.zeros((len(rules), len(cases), sets.packed.shape[1]), np.uint8)
    seen = np.zeros(table.shape[:2], bool)
    for (case, rule, _), bits in zip(sets.keys, sets.packed, strict=True):
        at = places[0][rule], places[1][case]
        table[at] |= bits
        seen[at] = True
    return rules, table[:, seen.all(axis=0)]


def gains(first: Sets, then: Sets) -> dict[str, Array]:
    """For each change, images x 2: the mean number of neurons that its follow-ups activate, and that of the image itself."""
    alone = dict(zip(first.keys, first.counts().tolist(), strict=True))
    counts: dict[str, dict[str, list[int]]] = {}
    for (case, rule, _), count in zip(then.keys, then.counts().tolist(), strict=True):
        if alone.get(case):
            counts.setdefault(rule, {}).setdefault(case, []).append(count)
    return {rule: np.array([(np.mean(some), alone[case]) for case, some in cases.items()]) for rule, cases in counts.items()}


@dataclass(frozen=True)
class SubModels:
    """A whole network and its sub-models: names such as `cnn`, each with its neurons."""

    # DT-3

    members: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, layout: Layout) -> SubModels:
        """The whole network, then each prefix of layer names that several layers, but not all, share."""
        stems = [name.split(".")[0] for name in layout.names if "." in name]
        shared = [stem for stem in dict.fromkeys(stems) if stems.count(stem) > 1]
        found = {"": np.ones(layout.neurons, bool)}
        return cls(found | ({stem: layout.members(stem) for stem in shared} if len(shared) > 1 else {}))

    def __iter__(self) -> Iterator[tuple[str, Array]]:
        return iter(self.members.items())
